"""What is measured and how it is shown: sizes, samples, rounds, ratios, tables. No I/O here."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Optional, Sequence

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MIB = 1 << 20
ELEMENT_BYTES = 4  # f32
BATCH_LIMIT_BYTES = 4 * MIB
LONGEST_BATCH = 32
DASH = "-"


def parse_size(text: str) -> int:
    """Bytes meant by `4096`, `4K`, `1M`, `64MiB`, `2g`: units are powers of 1024, whole f32 only."""
    number = text.strip().upper()
    for ending in ("IB", "B"):
        number = number.removesuffix(ending)
    unit = number[-1:] if number[-1:].isalpha() else ""
    digits = number.removesuffix(unit)
    if unit not in UNITS or not digits.isdecimal():
        raise ValueError(f"{text!r} is no size such as 4096, 4K, 64M or 1G")
    size = int(digits) * UNITS[unit]
    if size == 0 or size % ELEMENT_BYTES != 0:
        raise ValueError(f"{text!r} is not a whole number of f32 elements, at least one")
    return size


def format_size(size: int) -> str:
    """The largest unit that divides `size`: 67108864 is `64 MiB`."""
    for name, unit in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10)):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


@dataclass(frozen=True)
class Step:
    """One size to measure: `iterations` timed batches of `batch` reduces, after `warm_ups` untimed ones."""

    size: int
    in_place: bool
    batch: int
    warm_ups: int
    iterations: int

    def token(self) -> str:
        """The step as the workers read it from their command line."""
        return f"{self.size}:{int(self.in_place)}:{self.batch}:{self.warm_ups}:{self.iterations}"

    @staticmethod
    def parse(token: str) -> Step:
        """The step that `token()` wrote."""
        size, in_place, batch, warm_ups, iterations = (int(part) for part in token.split(":"))
        return Step(size, bool(in_place), batch, warm_ups, iterations)


def plan(size: int, in_place: bool) -> Step:
    """How one launch measures `size`: below 1 MiB in batches, whose barrier is then a small part."""
    if size < MIB:
        batch = max(1, min(LONGEST_BATCH, BATCH_LIMIT_BYTES // size))
        return Step(size, in_place, batch, warm_ups=1, iterations=10)
    if size < 16 * MIB:
        return Step(size, in_place, batch=1, warm_ups=3, iterations=20)
    if size < 128 * MIB:
        return Step(size, in_place, batch=1, warm_ups=2, iterations=12)
    return Step(size, in_place, batch=1, warm_ups=1, iterations=8)


@dataclass
class Sample:
    """What a contestant showed for one size, over one launch or (`merge`) over several."""

    size: int
    in_place: bool
    times_us: list[float]
    cpu_ns_per_byte: Optional[float] = None
    wrong: int = 0
    floor_times_us: list[float] = field(default_factory=list)
    floor_cpu_ns_per_byte: Optional[float] = None

    @property
    def time_us(self) -> float:
        """Median over the iterations, microseconds for one reduce."""
        return statistics.median(self.times_us)

    @property
    def spread(self) -> Optional[float]:
        """Upper over lower quartile of the iterations' times: how restless the hour was; None for fewer than 4."""
        if len(self.times_us) < 4:
            return None
        low, _, high = statistics.quantiles(self.times_us, n=4)
        return high / low

    @property
    def floor_time_us(self) -> Optional[float]:
        """Median of the floor program's times, if it ran beside this contestant."""
        return statistics.median(self.floor_times_us) if self.floor_times_us else None


def merge(samples: Sequence[Sample]) -> Sample:
    """One sample of all iterations of several launches of the same size; CPU is the launches' median."""
    if not samples:
        raise ValueError("no samples to merge")
    return Sample(
        size=samples[0].size,
        in_place=samples[0].in_place,
        times_us=[time for sample in samples for time in sample.times_us],
        cpu_ns_per_byte=_median(sample.cpu_ns_per_byte for sample in samples),
        wrong=sum(sample.wrong for sample in samples),
        floor_times_us=[time for sample in samples for time in sample.floor_times_us],
        floor_cpu_ns_per_byte=_median(sample.floor_cpu_ns_per_byte for sample in samples),
    )


def _median(values: Iterable[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@dataclass
class Rounds:
    """What a contestant showed for one size in each round; a round whose launch failed is missing."""

    by_round: Mapping[int, Sample]

    @property
    def all(self) -> Sample:
        """All rounds together."""
        return merge(list(self.by_round.values()))


@dataclass(frozen=True)
class Ratio:
    """Our throughput over another's, above 1 where we are faster: of each round by itself, since what the
    machine can do changes from round to round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one of the rounds; the mean of the middle two of an even number."""
        return statistics.median(self.rounds)

    def __str__(self) -> str:
        """Median and, from two rounds on, the smallest and the largest."""
        if len(self.rounds) == 1:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({min(self.rounds):.2f}-{max(self.rounds):.2f})"


def ratio(ours: Optional[Rounds], rival: Optional[Rounds]) -> Optional[Ratio]:
    """Ours over the rival's in the rounds that both have; None where there is no such round."""
    if ours is None or rival is None:
        return None
    both = sorted(ours.by_round.keys() & rival.by_round.keys())
    return _ratio(rival.by_round[round_].time_us / ours.by_round[round_].time_us for round_ in both)


def ratio_to_floor(ours: Optional[Rounds]) -> Optional[Ratio]:
    """Ours over the floor program's, in the rounds in which it ran."""
    samples = ours.by_round.values() if ours else ()
    floors = ((sample.floor_time_us, sample.time_us) for sample in samples)
    return _ratio(floor / own for floor, own in floors if floor is not None)


def _ratio(rounds: Iterable[float]) -> Optional[Ratio]:
    known = tuple(rounds)
    return Ratio(known) if known else None


def throughput_gb_s(size: int, time_us: float) -> float:
    """Bytes of one peer's contribution over time, 10^9 bytes per second."""
    return size / time_us / 1e3


def show_speed(size: int, time_us: Optional[float]) -> str:
    """Throughput in GB/s from 1 MiB on, the time itself below."""
    if time_us is None:
        return DASH
    if size >= MIB:
        return f"{throughput_gb_s(size, time_us):.3g} GB/s"
    return f"{time_us / 1e3:.3g} ms" if time_us >= 1e3 else f"{time_us:.3g} us"


def show(value: Optional[float]) -> str:
    """CPU nanoseconds or a spread, two digits after the point."""
    return DASH if value is None else f"{value:.2f}"


def aims_against(rival: str, equal: bool, peers: int, size: int) -> Optional[float]:
    """How many times as fast as `rival` we mean to be; None where no aim is set."""
    large = size >= 64 * MIB
    if rival == "gloo":
        if large:
            return 1.15 if equal else 1.4
        return 3.0 if size == MIB and peers >= 4 else None
    if rival == "mpi-tcp":
        return 1.3 if large and equal else None
    return None


def show_ratio(found: Optional[Ratio], aim: Optional[float] = None) -> str:
    """The ratio and its spread, marked `<` and the aim where its median falls short of it."""
    if found is None:
        return DASH
    return str(found) if aim is None or found.median >= aim else f"{found} <{aim:g}"


def render(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns as wide as their widest cell."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.rjust(width) for cell, width in zip(cells, widths)) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([line(head), rule, *(line(row) for row in rows)])
