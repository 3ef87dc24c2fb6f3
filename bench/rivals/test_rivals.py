"""Tests of the parts that need no rival: `python3 -m unittest discover -s bench/rivals`."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Optional
from unittest import mock

import comparison
import congestion
import run
from children import Failed, run_together
from comparison import ALONE, DEFAULTS, EQUAL, GLOO, MPI_TCP
from contestants import HERE, Ours, OursFromFile, executable_in, samples_of_rows, samples_of_worker
from figures import (
    MIB,
    Ratio,
    Rounds,
    Sample,
    Step,
    aims_against,
    format_size,
    merge,
    parse_size,
    plan,
    ratio,
    ratio_to_floor,
    render,
    show_ratio,
    show_speed,
    throughput_gb_s,
)
from run import parse_arguments

LIMIT_S = 60.0


class Sizes(unittest.TestCase):
    def test_units_are_powers_of_1024_in_any_spelling(self) -> None:
        for text, size in (("4096", 4096), ("4K", 4096), ("4kib", 4096), ("64M", 64 * MIB), ("1GB", 1 << 30)):
            with self.subTest(text):
                self.assertEqual(parse_size(text), size)

    def test_what_is_no_size_or_no_whole_number_of_elements_is_refused(self) -> None:
        for text in ("", "K", "4X", "-4", "4.5M", "0", "6", "M4", "4 K M"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_size(text)

    def test_a_size_is_written_in_the_largest_unit_that_divides_it(self) -> None:
        written = [format_size(size) for size in (4, 4096, 1536 * 1024, 64 * MIB, 1 << 30)]

        self.assertEqual(written, ["4 B", "4 KiB", "1536 KiB", "64 MiB", "1 GiB"])


class Steps(unittest.TestCase):
    def test_a_worker_reads_the_step_that_was_written_for_it(self) -> None:
        for size in (4, 4096, 512 * 1024, MIB, 256 * MIB):
            step = plan(size, in_place=True)

            self.assertEqual(Step.parse(step.token()), step)

    def test_no_two_reduces_of_a_step_contribute_the_same(self) -> None:
        (tags,) = {_constant(worker, "TAGS") for worker in ("gloo_worker.py", "mpi_worker.c")}

        for size in (4, 4096, 512 * 1024, MIB, 64 * MIB, 256 * MIB):
            step = plan(size, in_place=False)
            self.assertLessEqual((step.warm_ups + step.iterations) * step.batch, tags)

    def test_large_sizes_are_measured_as_often_as_ours_are_and_larger_ones_less(self) -> None:
        sizes = (16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB)
        iterations = [plan(size, in_place=False).iterations for size in sizes]

        self.assertEqual(iterations, [_iterations_of_ours(size) for size in sizes])
        self.assertLess(plan(256 * MIB, in_place=False).iterations, plan(MIB, in_place=False).iterations)

    def test_only_sizes_below_1_mib_come_in_batches_and_those_stay_small(self) -> None:
        for size in (4, 4096, 512 * 1024, MIB - 4):
            batch = plan(size, in_place=False).batch

            self.assertGreater(batch, 1)
            self.assertLessEqual(batch * size, 4 * MIB)
        self.assertEqual(plan(MIB, in_place=False).batch, 1)


def _constant(file: str, name: str) -> int:
    """What a worker's text says it is."""
    found = re.search(rf"\b{name} = (\d+)", Path(HERE, file).read_text())
    assert found is not None, file
    return int(found.group(1))


def _iterations_of_ours(size: int) -> int:
    """How many our benchmark's plan has for so many bytes."""
    text = (HERE.parent.parent / "bench/src/all_reduce_perf/plan.rs").read_text()
    by_size = text.split("const fn by_size", 1)[1].split("\n}\n", 1)[0]
    for first, end, iterations in re.findall(r"(\w+)\.\.(\w+) => \((\d+),", by_size):
        if int(first, 0) <= size < int(end, 0):
            return int(iterations)
    (rest,) = re.findall(r"_ => \((\d+),", by_size)
    return int(rest)


class Samples(unittest.TestCase):
    def test_launches_merge_into_the_median_of_all_their_iterations(self) -> None:
        first = Sample(4, False, [1.0, 9.0], 2.0, wrong=1)
        second = Sample(4, False, [5.0, 6.0, 7.0], 4.0, wrong=2, floor_times_us=[3.0], floor_cpu_ns_per_byte=8.0)

        both = merge([first, second])

        self.assertEqual((both.time_us, both.cpu_ns_per_byte, both.wrong), (6.0, 3.0, 3))
        self.assertEqual((both.floor_time_us, both.floor_cpu_ns_per_byte), (3.0, 8.0))

    def test_spread_is_upper_over_lower_quartile(self) -> None:
        self.assertEqual(Sample(4, False, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).spread, 3.0)
        self.assertIsNone(Sample(4, False, [1.0, 2.0, 3.0]).spread)

    def test_cpu_is_per_byte_of_all_contributions(self) -> None:
        line = '{"bytes": 100, "in_place": 1, "times_us": [2.5], "cpu_ns": 6000, "calls": 10, "wrong": 3}'

        (sample,) = samples_of_worker(f"a warning\n{line}\n", peers=2)

        self.assertEqual(sample, Sample(100, True, [2.5], 3.0, 3))

    def test_of_our_rows_only_f32_sums_of_what_was_asked_for_with_the_fewest_lanes_count(self) -> None:
        row: dict[str, object] = {
            "peers": 2, "lanes": 4, "bytes": MIB, "type": "f32", "redop": "sum", "in_place": False, "wrong": 0,
            "time_us": 40.0, "batch_times_us": [41.0, 43.0], "cpu_s_per_gb": 0.5, "floor_time_us": 30.0,
            "floor_batch_times_us": [31.0, 32.0],
        }  # fmt: skip
        others: list[dict[str, object]] = [
            {"lanes": 16}, {"peers": 4}, {"bytes": 4096}, {"type": "f16"}, {"redop": "max"}, {"in_place": True},
            {"quantization": "u8"}, {"concurrent": 8},
        ]  # fmt: skip
        rows = [*({**row, **other, "batch_times_us": [1.0]} for other in others), row]

        samples = samples_of_rows(rows, 2, [MIB], [False])

        self.assertEqual(samples, [Sample(MIB, False, [41.0, 43.0], 0.5, 0, [31.0, 32.0])])

    def test_a_row_of_ours_without_a_floor_has_none(self) -> None:
        row = {
            "peers": 2, "bytes": 4, "type": "f32", "redop": "sum", "in_place": False, "batch_times_us": [4.0],
            "floor_batch_times_us": None,
        }  # fmt: skip

        (sample,) = samples_of_rows([row], 2, [4], [False])

        self.assertIsNone(sample.floor_time_us)

    def test_the_program_is_found_among_what_cargo_built(self) -> None:
        other = '{"reason":"compiler-artifact","target":{"name":"pccl"},"executable":null}'
        ours = '{"reason":"compiler-artifact","target":{"name":"all_reduce_perf"},"executable":"/t/all_reduce_perf"}'

        self.assertEqual(executable_in(f"{other}\n{ours}\n"), "/t/all_reduce_perf")
        self.assertIsNone(executable_in(other))


def rounds_of(*times_us: float, floor_us: Optional[float] = None, size: int = 4, in_place: bool = False) -> Rounds:
    """A round for each time."""
    floors = [] if floor_us is None else [floor_us]
    samples = (Sample(size, in_place, [time], floor_times_us=floors) for time in times_us)
    return Rounds(dict(enumerate(samples)))


class Ratios(unittest.TestCase):
    def test_a_ratio_above_one_means_that_we_are_faster(self) -> None:
        self.assertEqual(ratio(rounds_of(10.0), rounds_of(15.0)), Ratio((1.5,)))
        self.assertIsNone(ratio(None, rounds_of(15.0)))
        self.assertIsNone(ratio(rounds_of(10.0), None))

    def test_rounds_are_compared_each_with_itself(self) -> None:
        # Everybody takes ten times as long in the second round, which is no difference between them.
        found = ratio(rounds_of(10.0, 100.0, 10.0), rounds_of(20.0, 210.0, 19.0))

        self.assertEqual(found, Ratio((2.0, 2.1, 1.9)))
        self.assertEqual(str(found), "2.00 (1.90-2.10)")

    def test_a_round_that_only_one_of_them_has_does_not_count(self) -> None:
        rival = Rounds({1: Sample(4, True, [30.0]), 2: Sample(4, True, [99.0])})

        self.assertEqual(ratio(rounds_of(10.0, 10.0), rival), Ratio((3.0,)))
        self.assertIsNone(ratio(rounds_of(10.0), rival))

    def test_the_floor_is_compared_with_the_launch_it_ran_in(self) -> None:
        self.assertEqual(ratio_to_floor(rounds_of(10.0, 20.0, floor_us=10.0)), Ratio((1.0, 0.5)))
        self.assertIsNone(ratio_to_floor(rounds_of(10.0)))
        self.assertIsNone(ratio_to_floor(None))

    def test_one_round_has_no_spread_to_show(self) -> None:
        self.assertEqual([show_ratio(Ratio((1.2,))), show_ratio(None)], ["1.20", "-"])

    def test_a_median_below_its_aim_is_marked(self) -> None:
        short, reached = Ratio((1.0, 1.1, 1.3)), Ratio((1.0, 1.2, 1.3))

        self.assertEqual(show_ratio(short, 1.15), "1.10 (1.00-1.30) <1.15")
        self.assertEqual(show_ratio(reached, 1.15), "1.20 (1.00-1.30)")


class FilesOfOurs(unittest.TestCase):
    def prepared(self, settings: dict[str, object], *rows: object) -> tuple[OursFromFile, Optional[str]]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "ours.json")
            file.write_text(json.dumps({"settings": settings, "rows": rows}))
            ours = OursFromFile(file, EQUAL, DEFAULTS, held="bbr")
            return ours, ours.prepare()

    def test_a_file_of_the_rivals_congestion_control_is_held_equal_and_one_of_none_is_ours_by_default(self) -> None:
        equal, no_reason = self.prepared({"congestion": "bbr", "congestion_in_force": "bbr"})
        defaults, none_either = self.prepared({"congestion": None})

        self.assertEqual((equal.name, no_reason), (EQUAL, None))
        self.assertEqual((defaults.name, none_either), (DEFAULTS, None))

    def test_a_file_of_another_congestion_control_is_skipped_with_a_reason(self) -> None:
        _, reason = self.prepared({"congestion": "cubic", "congestion_in_force": "cubic"})

        self.assertRegex(reason or "", "is of cubic, rivals get bbr")

    def test_a_congestion_control_that_was_asked_for_and_refused_is_not_held_equal(self) -> None:
        _, reason = self.prepared({"congestion": "bbr", "congestion_in_force": "cubic"})
        _, unknown = self.prepared({"congestion": "bbr"})

        self.assertRegex(reason or "", "asked for bbr and got cubic")
        self.assertRegex(unknown or "", "asked for bbr and got what nobody knows")

    def test_a_file_of_a_benchmark_that_told_no_batches_is_skipped(self) -> None:
        _, reason = self.prepared({"congestion": None}, {"time_us": 4.0})

        self.assertRegex(reason or "", "older benchmark")


class Tables(unittest.TestCase):
    def test_throughput_is_one_peers_contribution_over_time(self) -> None:
        self.assertAlmostEqual(throughput_gb_s(64_000_000, 32_000.0), 2.0)

    def test_small_sizes_show_time_and_large_ones_throughput(self) -> None:
        shown = [show_speed(4096, 20.0), show_speed(4096, 20_000.0), show_speed(MIB, 1048.576), show_speed(MIB, None)]

        self.assertEqual(shown, ["20 us", "20 ms", "1 GB/s", "-"])

    def test_aims_are_those_of_large_sums_and_of_1_mib_with_many_peers(self) -> None:
        self.assertEqual(aims_against("gloo", True, 2, 64 * MIB), 1.15)
        self.assertEqual(aims_against("gloo", False, 8, 256 * MIB), 1.4)
        self.assertEqual(aims_against("mpi-tcp", True, 4, 256 * MIB), 1.3)
        self.assertEqual(aims_against("gloo", True, 4, MIB), 3.0)
        self.assertIsNone(aims_against("gloo", True, 2, MIB))
        self.assertIsNone(aims_against("mpi-tcp", False, 4, 256 * MIB))

    def test_columns_are_as_wide_as_their_widest_cell(self) -> None:
        self.assertEqual(render(["a", "bbb"], [["10", "2"]]), "|  a | bbb |\n|---:|----:|\n| 10 |   2 |")

    def test_an_out_of_place_table_takes_gloo_from_its_only_form_and_mpi_from_the_same(self) -> None:
        size = 64 * MIB
        measured = {
            (EQUAL, 2, size, False): Rounds({0: Sample(size, False, [50_000.0], 0.4, floor_times_us=[45_000.0])}),
            (GLOO, 2, size, True): Rounds({0: Sample(size, True, [100_000.0], 0.6)}),
            (MPI_TCP, 2, size, False): Rounds({0: Sample(size, False, [60_000.0], 0.7)}),
            (MPI_TCP, 2, size, True): Rounds({0: Sample(size, True, [1.0], 0.7)}),
        }

        row = comparison.table(measured, EQUAL, [2], [size], in_place=False).splitlines()[-1]

        cells = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(cells[7:10], ["0.90", "2.00", "1.20 <1.3"])
        self.assertEqual(cells[10:], ["0.40", "-", "0.60", "0.70", "-", "-"])

    def test_there_is_a_section_for_each_of_ours_and_one_for_rivals_without_any(self) -> None:
        rival = {(GLOO, 2, 4, True): rounds_of(1.0, in_place=True)}
        forms = ((DEFAULTS, False), (EQUAL, True), (EQUAL, False))
        ours = {(name, 2, 4, form): rounds_of(1.0, in_place=form) for name, form in forms}

        tables = comparison.sections({**rival, **ours})

        self.assertEqual(tables, [(EQUAL, False), (EQUAL, True), (DEFAULTS, False)])
        self.assertEqual(comparison.sections(rival), [(ALONE, True)])
        self.assertEqual(comparison.sections({}), [])


class Children(unittest.TestCase):
    def test_what_the_first_says_is_returned_when_all_end_well(self) -> None:
        said = run_together([[sys.executable, "-c", f"print({number})"] for number in (1, 2)], LIMIT_S)

        self.assertEqual(said, "1\n")

    def test_one_that_fails_ends_the_others_and_its_last_words_are_told(self) -> None:
        hangs = [sys.executable, "-c", "import time; time.sleep(3600)"]
        fails = [sys.executable, "-c", "import sys; sys.exit('lost the ring')"]

        with self.assertRaisesRegex(Failed, "ended with 1: lost the ring"):
            run_together([hangs, fails], LIMIT_S)

    def test_one_that_hangs_is_killed_with_a_child_that_left_its_group(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "pid")
            says = f"open({str(file)!r},'w').write(f'{{os.getpid()}} ')"
            inner = f"import os,time; os.setpgid(0,0); {says}; time.sleep(3600)"
            outer = f"import subprocess,sys; subprocess.run([sys.executable,'-c',{inner!r}])"
            now = time.monotonic

            def clock() -> float:
                """The limit passes once the grandchild is there, however long that takes on a busy machine."""
                is_there = file.exists() and file.read_text().endswith(" ")
                return now() + (LIMIT_S if is_there else 0.0)

            with mock.patch("children.time.monotonic", clock):
                with self.assertRaisesRegex(Failed, "killed after 60 s"):
                    run_together([[sys.executable, "-c", outer]], LIMIT_S)

            self.assertIn(_state(int(file.read_text())), ("gone", "Z"))

    def test_a_program_that_is_not_there_is_a_failure_in_words(self) -> None:
        with self.assertRaisesRegex(Failed, "did not start"):
            run_together([["/no/such/program"]], LIMIT_S)


@unittest.skipUnless(os.path.exists(congestion.SETTING), "no TCP of Linux")
class Outcomes(unittest.TestCase):
    def outcome(self, *arguments: str) -> bool:
        """What a run of ours alone comes to, whose output nobody wants to see."""
        with open(os.devnull, "w", encoding="ascii") as nowhere:
            with mock.patch("sys.stdout", nowhere), mock.patch("sys.stderr", nowhere):
                return run.run(parse_arguments(["--only", "ours", "--peers", "2", "--bytes", "4K", *arguments]))

    def test_a_build_of_ours_that_fails_is_a_failure(self) -> None:
        with tempfile.TemporaryDirectory() as no_repository, mock.patch.object(run, "REPOSITORY", Path(no_repository)):
            self.assertFalse(self.outcome())

    def test_a_file_of_ours_that_is_not_there_is_a_failure(self) -> None:
        self.assertFalse(self.outcome("--ours", "/no/such/file.json"))

    def test_a_launch_of_ours_that_fails_is_a_failure(self) -> None:
        def build(ours: Ours) -> None:
            ours.program = sys.executable

        with mock.patch.object(Ours, "prepare", build):
            self.assertFalse(self.outcome("--rounds", "1"))

    def test_a_rival_that_is_not_installed_is_none(self) -> None:
        with mock.patch("shutil.which", return_value=None):
            self.assertTrue(self.outcome("--only", "mpi-tcp"))


def _state(process: int) -> str:
    """`gone`, or the state that the kernel gives."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


class Settings(unittest.TestCase):
    def test_the_command_line_defaults_to_the_matrix_of_the_aims(self) -> None:
        options = parse_arguments([])

        self.assertEqual(options.peers, [2, 4, 8])
        self.assertEqual(options.bytes, [4096, MIB, 64 * MIB, 256 * MIB])

    @unittest.skipUnless(os.path.exists(congestion.SETTING), "no TCP of Linux")
    def test_holding_what_is_in_force_changes_nothing(self) -> None:
        before = congestion.in_force()

        with congestion.held_at(before, "sysctl") as how:
            self.assertIn("default", how)

        self.assertEqual(congestion.in_force(), before)

    def test_a_namespace_holds_another_algorithm_and_leaves_the_machine_alone(self) -> None:
        before = congestion.in_force()
        other = "reno" if before != "reno" else "cubic"
        code = f"import congestion as c\nwith c.held_at({other!r}, 'namespace'): print(c.in_force())"

        try:
            said = run_together([[sys.executable, "-c", code]], LIMIT_S, {"PYTHONPATH": str(HERE)})
        except Failed as failed:
            self.skipTest(f"no namespace here: {failed}")

        self.assertEqual((said, congestion.in_force()), (f"{other}\n", before))


if __name__ == "__main__":
    unittest.main()
