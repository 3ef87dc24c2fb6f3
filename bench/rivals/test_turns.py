"""Tests of `turns.py` that need no build: `python3 -m unittest discover -s bench/rivals`."""

from __future__ import annotations

import contextlib
import io
import stat
import sys
import tempfile
import unittest
from pathlib import Path

import turns
from children import Failed
from turns import Comparison, Misused

PROGRAM = f"""#!{sys.executable}
import json, sys
arguments = sys.argv[1:]
with open(__file__ + ".log", "a") as log:
    log.write(" ".join(arguments[:2]) + "\\n")
rows = [{{"algbw_gb_s": float(arguments[1])}}] * int(arguments[arguments.index("--rows") + 1])
with open(arguments[arguments.index("--json") + 1], "w") as file:
    json.dump({{"rows": rows}}, file)
"""


class CommandLines(unittest.TestCase):
    def test_both_get_what_stands_before_them(self) -> None:
        wanted = Comparison(["--peers", "4", "--launches", "3", "--", "--lanes", "16", "--", "--lanes", "1"])

        self.assertEqual(wanted.commands, [["--peers", "4", "--lanes", "16"], ["--peers", "4", "--lanes", "1"]])
        self.assertEqual((wanted.launches, Comparison(["--", "--"]).launches), (3, 10))

    def test_one_list_or_none_or_three_are_refused(self) -> None:
        for text in ("", "-- --a", "-- -- --", "--launches -- --", "--launches 0 -- --", "--launches x -- --"):
            with self.subTest(text), self.assertRaises((Misused, ValueError)):
                Comparison(text.split())


class Launches(unittest.TestCase):
    def measured(self, folder: str, *arguments: str) -> tuple[list[tuple[float, float]], list[str]]:
        """The pairs of a program that is told its throughput, and the throughputs in the order of its launches."""
        program = Path(folder, "program")
        program.write_text(PROGRAM)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        with contextlib.redirect_stderr(io.StringIO()):
            pairs = turns.measure(str(program), Comparison(arguments))
        return pairs, Path(f"{program}.log").read_text().splitlines()

    def test_either_one_goes_first_as_often_as_the_other(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            arguments = "--launches 2 --gb -- 3.0 --rows 1 -- 2.0 --rows 1".split()
            pairs, launched = self.measured(folder, *arguments)

        self.assertEqual(pairs, [(3.0, 2.0), (3.0, 2.0)])
        self.assertEqual(launched, ["--gb 3.0", "--gb 2.0", "--gb 2.0", "--gb 3.0"])

    def test_several_rows_are_no_figure(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(Failed, "did not write one row"):
            self.measured(folder, "--gb", "--", "3.0", "--rows", "2", "--", "2.0", "--rows", "1")

    def test_ratios_are_taken_pair_by_pair(self) -> None:
        text = turns.summary([(2.0, 1.0), (30.0, 10.0), (4.0, 4.0)])

        self.assertIn("ratio   2.000 (1.000-3.000)", text)
        self.assertIn("first   4.000 (2.000-30.000) GB/s", text)


if __name__ == "__main__":
    unittest.main()
