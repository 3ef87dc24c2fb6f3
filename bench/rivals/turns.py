#!/usr/bin/env python3
"""Two ways to run all_reduce_perf, launched in turns: their throughput, and the ratio pair by pair. See README.md."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Optional, Sequence

from children import Failed, run_together
from contestants import HERE, PROGRAM, Ours

USAGE = "usage: turns.py [--launches N] [--timeout SECONDS] [ARGUMENT...] -- ARGUMENT... -- ARGUMENT..."


class Misused(Exception):
    """The command line makes no sense; the text says how it should."""


class Comparison:
    """What was asked for: how often, and the arguments of each of the two."""

    def __init__(self, arguments: Sequence[str]) -> None:
        parts: list[list[str]] = [[]]
        for argument in arguments:
            if argument == "--":
                parts.append([])
            else:
                parts[-1].append(argument)
        if len(parts) != 3:
            raise Misused(USAGE)
        common, first, second = parts
        self.launches = int(_taken(common, "--launches") or 10)
        self.limit_s = float(_taken(common, "--timeout") or 300.0)
        self.commands = [[*common, *first], [*common, *second]]
        if self.launches < 1:
            raise Misused("--launches: at least 1")


def _taken(arguments: list[str], name: str) -> Optional[str]:
    """Takes `name` and its value out of the arguments."""
    if name not in arguments:
        return None
    at = arguments.index(name)
    if at + 1 == len(arguments):
        raise Misused(USAGE)
    value = arguments[at + 1]
    del arguments[at : at + 2]
    return value


def throughput(program: str, arguments: Sequence[str], limit_s: float) -> float:
    """GB/s of one launch, which has one row: no floor, since the two are compared with each other."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        run_together([[program, *arguments, "--no-floor", "--json", file]], limit_s)
        try:
            (row,) = json.loads(Path(file).read_text())["rows"]
            return float(row["algbw_gb_s"])
        except (OSError, ValueError, KeyError) as error:
            wanted = "one row (one size, one number of peers and lanes)"
            raise Failed(f"{PROGRAM} did not write {wanted}: {error}") from error


def measure(program: str, wanted: Comparison) -> list[tuple[float, float]]:
    """A pair for each launch of both; either one goes first as often as the other."""
    pairs = []
    for launch in range(wanted.launches):
        found = [0.0, 0.0]
        for which in (launch % 2, 1 - launch % 2):
            found[which] = throughput(program, wanted.commands[which], wanted.limit_s)
        pairs.append((found[0], found[1]))
        print(f"{launch + 1}: {found[0]:.3f} and {found[1]:.3f} GB/s, {found[0] / found[1]:.3f}", file=sys.stderr)
    return pairs


def summary(pairs: Sequence[tuple[float, float]]) -> str:
    """Median, least and most of both and of the ratio."""

    def line(name: str, values: Sequence[float]) -> str:
        return f"{name:<7} {statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"

    firsts, seconds = zip(*pairs)
    ratios = [first / second for first, second in pairs]
    lines = [line("first", firsts) + " GB/s", line("second", seconds) + " GB/s", line("ratio", ratios)]
    return "\n".join([*lines, f"medians (least-most) of {len(pairs)} launches of each, in turns"])


def main() -> int:
    """0: done; 1: a launch or the build failed; 2: refused what was asked for."""
    try:
        wanted = Comparison(sys.argv[1:])
    except (Misused, ValueError) as refused:
        print(f"turns.py: {refused}", file=sys.stderr)
        return 2
    ours = Ours("ours", wanted.limit_s, HERE.parent.parent)
    reason = ours.prepare()
    if reason is not None:
        print(f"turns.py: {reason}", file=sys.stderr)
        return 1
    try:
        print(summary(measure(str(ours.program), wanted)))
    except Failed as failed:
        print(f"turns.py: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
