#!/usr/bin/env python3
"""Collectives of pccl beside those of Gloo and Open MPI: the same sizes, the same hour, by turns. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Callable, Sequence

import comparison
import congestion
from children import Failed
from collectives import ALL_REDUCE, COLLECTIVES, has_forms, title_of, uneven
from comparison import ALONE, DEFAULTS, EQUAL, GLOO, MPI_SHARED, MPI_TCP, Measured
from contestants import HERE, Contestant, Gloo, OpenMpi, Ours, OursFromFile
from figures import Rounds, Sample, format_size, parse_size

REPOSITORY = HERE.parent.parent
OURS = "ours"
NAMES = (GLOO, MPI_TCP, MPI_SHARED, OURS)
FORMS = {"out": [False], "in": [True], "both": [False, True]}


def say(text: str) -> None:
    """Progress and reasons, kept apart from the table."""
    print(text, file=sys.stderr, flush=True)


def list_of(parse: Callable[[str], int]) -> Callable[[str], list[int]]:
    """A parser of comma-separated values for argparse."""

    def parse_all(text: str) -> list[int]:
        try:
            return sorted({parse(part) for part in text.split(",")})
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_all


def parse_peers(text: str) -> int:
    """A number of peers, two at least."""
    peers = int(text)
    if not 2 <= peers <= 64:
        raise ValueError(f"{peers} peers: 2 to 64 make sense on one machine")
    return peers


def parse_names(text: str) -> tuple[str, ...]:
    """Those to be measured, all of them known."""
    names = tuple(text.split(","))
    if not set(names) <= set(NAMES):
        raise argparse.ArgumentTypeError(f"of {','.join(NAMES)}")
    return names


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collective", choices=COLLECTIVES, default=ALL_REDUCE, help=f"default {ALL_REDUCE}")
    parser.add_argument("--peers", type=list_of(parse_peers), default=[2, 4, 8], help="default 2,4,8")
    parser.add_argument(
        "--bytes",
        type=list_of(parse_size),
        default=list_of(parse_size)("4K,1M,64M,256M"),
        metavar="SIZES",
        help="bytes of the whole buffer: what reduce_scatter gets, what all_gather gives; default 4K,1M,64M,256M",
    )
    parser.add_argument("--rounds", type=int, default=3, help="launches of everybody, by turns; default 3")
    parser.add_argument(
        "--form", choices=list(FORMS), help=f"in place, out of place; default both, and in if not {ALL_REDUCE}"
    )
    parser.add_argument("--congestion", metavar="NAME", help="hold everybody at NAME, not at the system's default")
    parser.add_argument(
        "--congestion-by",
        choices=["namespace", "sysctl"],
        default="namespace",
        help="how NAME is given to the rivals: a network namespace of this run, or the system's setting, restored",
    )
    parser.add_argument("--ours", type=Path, metavar="FILE.json", help="figures of ours written earlier")
    parser.add_argument("--ours-program", metavar="FILE", help="an all_reduce_perf that is built already")
    parser.add_argument("--ours-args", default="", help='added to the command line of ours, such as --ours-args=--no-floor')
    parser.add_argument("--only", type=parse_names, default=NAMES, help=f"default {','.join(NAMES)}")
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one launch, default 300")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE, too")
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds: at least 1")
    if parsed.form is None:
        parsed.form = "both" if has_forms(parsed.collective) else "in"
    if parsed.form != "in" and not has_forms(parsed.collective):
        parser.error(f"--form: {parsed.collective} is measured in place")
    for peers, size in ((peers, size) for peers in parsed.peers for size in parsed.bytes):
        reason = uneven(parsed.collective, peers, size)
        if reason is not None:
            parser.error(f"--bytes: {reason}")
    return parsed


def contestants(options: argparse.Namespace, folder: Path) -> tuple[list[Contestant], int]:
    """Those that were asked for and can run here; says for the others why not, and how many of them are ours."""
    limit, collective = options.timeout, options.collective
    all_: list[Contestant] = [
        Gloo(options.python, limit, collective, GLOO),
        OpenMpi(MPI_TCP, True, limit, folder, collective),
        OpenMpi(MPI_SHARED, False, limit, folder, collective),
    ]
    extra = shlex.split(options.ours_args)
    held = options.congestion or congestion.in_force()
    if "/" in held:
        raise congestion.Refused(f"the ends of a connection over loopback differ ({held}): name one by --congestion")
    if options.ours is not None:
        all_.append(OursFromFile(options.ours, EQUAL, DEFAULTS, held, collective=collective))
    else:
        program = options.ours_program
        all_.append(Ours(EQUAL, limit, REPOSITORY, ["--congestion", held, *extra], program, collective))
        if options.congestion is None:
            all_.append(Ours(DEFAULTS, limit, REPOSITORY, extra, program, collective))
    able, ours_missing = [], 0
    for contestant in all_:
        if contestant.name.split("-")[0] not in options.only and contestant.name not in options.only:
            continue
        reason = contestant.prepare()
        if reason is None:
            able.append(contestant)
            if contestant.note is not None:
                say(contestant.note)
        elif contestant.may_be_missing:
            say(f"skipped {contestant.name}: {reason}")
        else:
            say(f"failed {contestant.name}: {reason}")
            ours_missing += 1
    return able, ours_missing


def measure(options: argparse.Namespace, able: Sequence[Contestant]) -> tuple[Measured, int]:
    """By turns, each round beginning with another contestant; also the number of launches that failed."""
    forms = FORMS[options.form]
    lost = 0
    found: dict[tuple[str, int, int, bool], dict[int, Sample]] = {}
    for peers in options.peers:
        for round_ in range(options.rounds):
            for turn in range(len(able)):
                contestant = able[(turn + round_) % len(able)]
                begun = time.monotonic()
                try:
                    samples = contestant.measure(peers, options.bytes, forms)
                except Failed as failed:
                    say(f"{contestant.name}, {peers} peers, round {round_ + 1}: {failed}")
                    lost += 1
                    continue
                say(f"{contestant.name}, {peers} peers, round {round_ + 1}: {time.monotonic() - begun:.0f} s")
                for sample in samples:
                    key = (contestant.name, peers, sample.size, sample.in_place)
                    found.setdefault(key, {})[round_] = sample
    return {key: Rounds(by_round) for key, by_round in found.items()}, lost


def machine() -> str:
    """The machine in one line: figures of another one are no comparison."""
    model = "unknown processor"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}, load before {load}"


def write_json(file: Path, about: dict[str, object], measured: Measured) -> None:
    """All iterations of all contestants, a row for each round."""
    rows = []
    for (name, peers, _, _), rounds in sorted(measured.items(), key=lambda item: item[0]):
        for round_, sample in sorted(rounds.by_round.items()):
            about_row = {"contestant": name, "peers": peers, "round": round_ + 1, "time_us": sample.time_us}
            rows.append({**about_row, **asdict(sample)})
    file.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


def report(options: argparse.Namespace, how: str, about: str, notes: Sequence[str], measured: Measured) -> None:
    """Prints the tables."""
    sizes = ", ".join(format_size(size) for size in options.bytes)
    what = title_of(options.collective)
    print(f"{what} over loopback, one process per peer; {sizes}; {options.rounds} rounds by turns")
    for note in notes:
        print(note)
    print("ratios: the median over the rounds (the smallest - the largest)")
    print(f"{time.strftime('%Y-%m-%d %H:%M %Z')}, {about}")
    if options.ours is not None:
        print(f"rivals' congestion control: {how}; ours: read from {options.ours}, measured at another time")
    titles = {
        EQUAL: f"Congestion control held equal: {how}",
        DEFAULTS: f"Each at its defaults: rivals at {how}, ours choosing for each lane",
        ALONE: f"Rivals alone: {how}",
    }
    for ours, in_place in comparison.sections(measured):
        has_aims = options.collective == ALL_REDUCE
        table = comparison.table(measured, ours, options.peers, options.bytes, in_place, has_aims)
        print(f"\n{titles[ours]}; {'in place' if in_place else 'out of place'}\n\n{table}")
    if not measured:
        print("\nnothing was measured: everybody was skipped or failed")


def run(options: argparse.Namespace) -> bool:
    """Measures and prints; true where ours was there, every launch ended well and every element was right."""
    about = machine()
    with tempfile.TemporaryDirectory(prefix="pccl-rivals-") as folder:
        able, ours_missing = contestants(options, Path(folder))
        with congestion.held_at(options.congestion or congestion.in_force(), options.congestion_by) as how:
            measured, lost = measure(options, able)
    notes = [contestant.note for contestant in able if contestant.note is not None]
    if options.json is not None:
        document: dict[str, object] = {"machine": about, "congestion": how, "rounds": options.rounds}
        write_json(options.json, {**document, "collective": options.collective, "notes": notes}, measured)
    report(options, how, about, notes, measured)
    wrong = sum(rounds.all.wrong for rounds in measured.values())
    print(f"\nwrong elements: {wrong}, launches that failed: {lost}, builds of ours that failed: {ours_missing}")
    return wrong == 0 and lost == 0 and ours_missing == 0


def main() -> int:
    """0: done, also where rivals were skipped; 1: wrong elements, failed launches, no build or file of ours;
    2: refused what was asked for."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))  # so that children end and settings are restored
    try:
        return 0 if run(parse_arguments(sys.argv[1:])) else 1
    except congestion.Refused as refused:
        say(f"run.py: {refused}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
