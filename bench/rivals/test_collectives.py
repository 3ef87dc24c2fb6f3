"""Tests of the collectives beside all_reduce: `python3 -m unittest discover -s bench/rivals`.

What needs a rival is skipped where it is not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import stat
import sys
import tempfile
import unittest
from pathlib import Path

import comparison
from children import Failed, run_together
from collectives import ALL_GATHER, ALL_REDUCE, BROADCAST, COLLECTIVES, REDUCE_SCATTER, option_of, uneven
from comparison import EQUAL, GLOO
from contestants import HERE, Gloo, OpenMpi, Ours, samples_of_rows
from figures import MIB, Rounds, Sample
from run import parse_arguments

LIMIT_S = 120.0
HAS_MPI = shutil.which("mpirun") is not None and shutil.which("mpicc") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None


def program(folder: str, text: str) -> str:
    """The path of a Python program of this text."""
    file = Path(folder, "program")
    file.write_text(f"#!{sys.executable}\n{text}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


class CommandLines(unittest.TestCase):
    def refused(self, *arguments: str) -> str:
        """What is said to a command line that makes no sense."""
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            parse_arguments(arguments)
        return said.getvalue()

    def test_only_all_reduce_is_measured_out_of_place(self) -> None:
        forms = [parse_arguments(["--collective", collective]).form for collective in COLLECTIVES]

        self.assertEqual(forms, ["both", "in", "in", "in"])
        self.assertIn("in place", self.refused("--collective", BROADCAST, "--form", "out"))

    def test_buffers_that_rivals_cannot_divide_are_refused_if_they_have_to_be_divided(self) -> None:
        refused = self.refused("--collective", REDUCE_SCATTER, "--peers", "3", "--bytes", "4K")

        self.assertIn("4 KiB are no whole number of f32 elements for each of 3 peers", refused)
        self.assertIsNotNone(uneven(ALL_GATHER, 8, 4 * 12))
        for collective in (ALL_REDUCE, BROADCAST):
            self.assertIsNone(uneven(collective, 3, 4096))
        self.assertIsNone(uneven(ALL_GATHER, 8, 4096))

    def test_the_names_of_ours_are_those_of_our_benchmark(self) -> None:
        text = (HERE.parent.parent / "bench/src/all_reduce_perf/collective.rs").read_text()

        for collective in COLLECTIVES:
            self.assertIn(f'=> "{option_of(collective)}"', text)


class LaunchesOfOurs(unittest.TestCase):
    WRITES = """
import json, sys
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
row = {"collective": value("--collective"), "peers": int(value("--peers")), "bytes": int(value("--min-bytes")),
       "type": "f32", "redop": "sum", "in_place": "--in-place" in arguments, "batch_times_us": [4.0]}
with open(value("--json"), "w") as file:
    json.dump({"rows": [row, {**row, "collective": "barrier", "batch_times_us": [1.0]}]}, file)
"""

    def test_a_program_that_is_given_measures_the_collective_that_is_asked_for(self) -> None:
        for collective in COLLECTIVES:
            with self.subTest(collective), tempfile.TemporaryDirectory() as folder:
                given = program(folder, self.WRITES)
                ours = Ours("ours", LIMIT_S, Path("/no/repository"), program=given, collective=collective)

                self.assertIsNone(ours.prepare())
                (sample,) = ours.measure(2, [4096], [True])
                self.assertEqual(sample, Sample(4096, True, [4.0]))

    def test_a_program_that_is_not_there_is_a_reason_in_words(self) -> None:
        ours = Ours("ours", LIMIT_S, Path("/no/repository"), program="/no/such/program")

        self.assertRegex(ours.prepare() or "", "is no program")

    def test_rows_of_another_collective_do_not_count_and_older_rows_are_of_all_reduce(self) -> None:
        older = {
            "peers": 2, "bytes": 4, "type": "f32", "redop": "sum", "in_place": True, "batch_times_us": [4.0],
        }  # fmt: skip
        rows = [older, {**older, "collective": "all-gather", "batch_times_us": [2.0]}]

        found = {collective: samples_of_rows(rows, 2, [4], [True], collective) for collective in COLLECTIVES}

        self.assertEqual([sample.times_us for sample in found[ALL_REDUCE]], [[4.0]])
        self.assertEqual([sample.times_us for sample in found[ALL_GATHER]], [[2.0]])
        self.assertEqual(found[BROADCAST] + found[REDUCE_SCATTER], [])


class Tables(unittest.TestCase):
    def test_aims_are_set_for_all_reduce_alone(self) -> None:
        size = 64 * MIB
        measured = {(name, 2, size, True): Rounds({0: Sample(size, True, [1.0])}) for name in (EQUAL, GLOO)}

        marked, unmarked = (comparison.table(measured, EQUAL, [2], [size], True, aims) for aims in (True, False))

        self.assertIn("1.00 <1.15", marked)
        self.assertNotIn("<", unmarked)


class GlooWithoutReduceScatter(unittest.TestCase):
    LACKS = """
import sys
if "reduce_scatter_tensor" in sys.argv:
    sys.exit("Backend gloo does not support it")
if len(sys.argv) > 3:
    print('{"bytes": 4, "in_place": 1, "times_us": [2.0], "cpu_ns": 8, "calls": 1, "wrong": 0}')
    sys.exit(None if "all_reduce+slice" in sys.argv else "not asked for")
"""

    def test_it_reduces_everything_and_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            gloo = Gloo(program(folder, self.LACKS), LIMIT_S, REDUCE_SCATTER)

            self.assertIsNone(gloo.prepare())
            self.assertRegex(gloo.note or "", "skipped Gloo's reduce_scatter .*does not support.*all_reduce and a copy")
            self.assertEqual(gloo.measure(2, [4], [True]), [Sample(4, True, [2.0], 1.0)])

    def test_other_collectives_are_not_tried_before(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            gloo = Gloo(program(folder, self.LACKS), LIMIT_S, BROADCAST)

            self.assertEqual((gloo.prepare(), gloo.note), (None, None))


@unittest.skipUnless(HAS_TORCH, "no torch for this Python")
class WorkersOfGloo(unittest.TestCase):
    COUNT, PEERS = 60, 3

    def test_a_call_that_does_nothing_leaves_all_that_others_contribute_wrong(self) -> None:
        import gloo_worker

        wrong = {}
        for name, call in gloo_worker.CALLS.items():
            one = call(self.COUNT, 1, self.PEERS)
            one.begin(7)
            wrong[name] = one.wrong(7)

        self.assertEqual((wrong["reduce_scatter_tensor"], wrong["all_reduce+slice"]), (20, 20))
        self.assertEqual((wrong["all_gather_into_tensor"], wrong["broadcast"]), (40, 60))
        self.assertGreater(wrong["all_reduce"], 55)

    def test_what_is_left_over_from_a_right_result_does_not_pass_for_the_next(self) -> None:
        import gloo_worker

        one = gloo_worker.ReduceScatter(self.COUNT, 1, self.PEERS)
        factor, offset = one.summed(7)
        places = range(20, 40)
        for place in places:
            one.result.elements[place - 20] = place % gloo_worker.PERIOD * factor + offset
        self.assertEqual(one.wrong(7), 0)
        one.begin(7)

        self.assertEqual(one.wrong(7), len(places))

    def test_every_call_of_gloo_is_right(self) -> None:
        for collective in COLLECTIVES:
            with self.subTest(collective):
                gloo = Gloo(sys.executable, LIMIT_S, collective)
                self.assertIsNone(gloo.prepare())
                (sample,) = gloo.measure(self.PEERS, [4 * self.COUNT], [True])
                self.assertEqual(sample.wrong, 0)


@unittest.skipUnless(HAS_MPI, "no Open MPI")
class WorkersOfMpi(unittest.TestCase):
    CALLS = {
        ALL_REDUCE: "MPI_Allreduce",
        REDUCE_SCATTER: "MPI_Reduce_scatter_block",
        ALL_GATHER: "MPI_Allgather",
        BROADCAST: "MPI_Bcast",
    }

    def wrong(self, collective: str, does_nothing: bool) -> int:
        """How many elements a worker counts, if the call is right or does nothing."""
        with tempfile.TemporaryDirectory() as folder:
            mpi = OpenMpi("mpi", False, LIMIT_S, Path(folder), collective)
            self.assertIsNone(mpi.prepare())
            if does_nothing:
                (worker,) = (str(Path(folder, name)) for name in os.listdir(folder))
                source = Path(folder, "nothing.c")
                nothing = f"#include <mpi.h>\n#define {self.CALLS[collective]}(...) 0\n"
                source.write_text(f'#define _GNU_SOURCE\n{nothing}#include "{HERE}/mpi_worker.c"\n')
                run_together([["mpicc", "-o", worker, str(source)]], LIMIT_S)
            try:
                return sum(sample.wrong for sample in mpi.measure(2, [4096], [True]))
            except Failed as failed:
                self.skipTest(f"Open MPI does not run here: {failed}")

    def test_every_call_is_right_and_one_that_does_nothing_is_not(self) -> None:
        for collective in COLLECTIVES:
            with self.subTest(collective):
                self.assertEqual(self.wrong(collective, does_nothing=False), 0)
                self.assertGreater(self.wrong(collective, does_nothing=True), 0)


if __name__ == "__main__":
    unittest.main()
