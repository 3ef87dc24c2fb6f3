"""The table: ours beside the rivals, with ratios and CPU."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from figures import Rounds, Sample, aims_against, format_size, ratio, ratio_to_floor, render, show, show_ratio, show_speed

EQUAL = "ours-equal"
DEFAULTS = "ours-defaults"
ALONE = "rivals-alone"
GLOO = "gloo"
MPI_TCP = "mpi-tcp"
MPI_SHARED = "mpi-shm"
RIVALS = (GLOO, MPI_TCP, MPI_SHARED)
HEAD = (
    "peers", "size", "ours", "floor", "Gloo", "MPI TCP", "MPI shm",
    "ours/floor", "ours/Gloo", "ours/MPI TCP", "CPU ns/B: ours", "floor", "Gloo", "MPI TCP", "spread: Gloo", "MPI TCP",
)  # fmt: skip

Measured = Mapping[tuple[str, int, int, bool], Rounds]
"""What was found by contestant, peers, size in bytes, and whether in place."""


def find(measured: Measured, name: str, peers: int, size: int, in_place: bool) -> Optional[Rounds]:
    """What to compare with: Gloo knows no other form than in place."""
    return measured.get((name, peers, size, in_place or name == GLOO))


def sections(measured: Measured) -> list[tuple[str, bool]]:
    """The tables there are figures for: which of ours, and whether in place; `ALONE` without any of ours."""
    tables = sorted({(name, in_place) for name, _, _, in_place in measured})
    ours = [(name, in_place) for name in (EQUAL, DEFAULTS) for of, in_place in tables if of == name]
    return ours or [(ALONE, in_place) for in_place in sorted({in_place for _, in_place in tables})]


def table(
    measured: Measured, ours: str, peers: Sequence[int], sizes: Sequence[int], in_place: bool, has_aims: bool = True
) -> str:
    """A row for each number of peers and size; ours are one of `sections`. `has_aims`: whether aims are set for it."""
    rows = [_row(measured, ours, count, size, in_place, has_aims) for count in peers for size in sizes]
    return render(HEAD, rows)


def _row(measured: Measured, ours: str, peers: int, size: int, in_place: bool, has_aims: bool) -> list[str]:
    own_rounds, *rival_rounds = (find(measured, name, peers, size, in_place) for name in (ours, *RIVALS))
    own, gloo, mpi, shared = (_all(rounds) for rounds in (own_rounds, *rival_rounds))
    floor_us = own.floor_time_us if own else None
    equal = ours == EQUAL
    ratios = [ratio(own_rounds, rounds) for rounds in rival_rounds]
    aims = [aims_against(name, equal, peers, size) if has_aims else None for name in (GLOO, MPI_TCP)]
    return [
        str(peers),
        format_size(size),
        *(show_speed(size, time) for time in (_time(own), floor_us, _time(gloo), _time(mpi), _time(shared))),
        show_ratio(ratio_to_floor(own_rounds)),
        *(show_ratio(found, aim) for found, aim in zip(ratios, aims)),
        show(_cpu(own)),
        show(own.floor_cpu_ns_per_byte if own else None),
        show(_cpu(gloo)),
        show(_cpu(mpi)),
        show(gloo.spread if gloo else None),
        show(mpi.spread if mpi else None),
    ]


def _all(rounds: Optional[Rounds]) -> Optional[Sample]:
    return rounds.all if rounds else None


def _time(sample: Optional[Sample]) -> Optional[float]:
    return sample.time_us if sample else None


def _cpu(sample: Optional[Sample]) -> Optional[float]:
    return sample.cpu_ns_per_byte if sample else None
