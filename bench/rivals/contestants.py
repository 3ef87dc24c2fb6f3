"""Who is measured: how each is started, and how its output becomes samples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Optional, Protocol, Sequence

from children import Failed, run_together
from collectives import ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE_SCATTER, option_of
from figures import Sample, plan

HERE = Path(__file__).resolve().parent
PACKAGE = "pccl-bench"
PROGRAM = "all_reduce_perf"
BUILD_LIMIT_S = 1800.0

Row = Mapping[str, Any]
"""A row of our benchmark's JSON file."""


class Contestant(Protocol):
    """One column of the table."""

    name: str
    may_be_missing: bool
    note: Optional[str]
    """What a reader of its figures has to know; None: nothing."""

    def prepare(self) -> Optional[str]:
        """Builds or finds what `measure` needs; the reason in one line where this one cannot be measured."""

    def measure(self, peers: int, sizes: Sequence[int], forms: Sequence[bool]) -> list[Sample]:
        """One launch of `peers` processes over all sizes; `forms` are values of `in_place`. Raises `Failed`."""


def samples_of_worker(text: str, peers: int) -> list[Sample]:
    """The samples in what rank 0 of a worker printed; lines that are no JSON objects are other people's."""
    samples = []
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            cpu = row["cpu_ns"] / (row["calls"] * peers * row["bytes"])
            samples.append(Sample(row["bytes"], bool(row["in_place"]), row["times_us"], cpu, row["wrong"]))
    return samples


@dataclass
class Gloo:
    """Gloo through torch.distributed, one process per peer."""

    python: str
    limit_s: float
    collective: str = ALL_REDUCE
    name: str = "gloo"
    may_be_missing: bool = True
    note: Optional[str] = None

    ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    CALLS = {
        ALL_REDUCE: "all_reduce",
        REDUCE_SCATTER: "reduce_scatter_tensor",
        ALL_GATHER: "all_gather_into_tensor",
        BROADCAST: "broadcast",
    }
    INSTEAD = "all_reduce+slice"

    def prepare(self) -> Optional[str]:
        """See `Contestant`; finds out whether this torch has the call."""
        try:
            run_together([[self.python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"]], 120)
        except Failed as failed:
            return f"no torch with Gloo for {self.python} (--python): {failed}"
        if self.collective == REDUCE_SCATTER:
            try:
                self._launch(1, [plan(4, in_place=True).token()])
            except Failed as failed:
                self.CALLS = {**self.CALLS, REDUCE_SCATTER: self.INSTEAD}
                self.note = f"skipped Gloo's reduce_scatter ({failed}); its column is all_reduce and a copy of the shard"
        return None

    def measure(self, peers: int, sizes: Sequence[int], forms: Sequence[bool]) -> list[Sample]:
        """See `Contestant`; always as in place, whatever the forms."""
        del forms
        return samples_of_worker(self._launch(peers, [plan(size, in_place=True).token() for size in sizes]), peers)

    def _launch(self, peers: int, steps: Sequence[str]) -> str:
        """What rank 0 printed."""
        worker = [self.python, str(HERE / "gloo_worker.py")]
        with tempfile.TemporaryDirectory() as folder:
            group = [str(peers), os.path.join(folder, "rendezvous"), self.CALLS[self.collective]]
            commands = [[*worker, str(rank), *group, *steps] for rank in range(peers)]
            return run_together(commands, self.limit_s, self.ENVIRONMENT)


@dataclass
class OpenMpi:
    """A collective of Open MPI over one of its ways to move bytes."""

    name: str
    over_tcp: bool
    limit_s: float
    folder: Path
    collective: str = ALL_REDUCE
    version: tuple[int, ...] = (0,)
    may_be_missing: bool = True
    note: Optional[str] = None

    def prepare(self) -> Optional[str]:
        """See `Contestant`."""
        for program in ("mpirun", "mpicc"):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        try:
            said = run_together([["mpirun", "--version"]], 60)
            run_together([["mpicc", "-O2", "-o", str(self._worker), str(HERE / "mpi_worker.c")]], 120)
        except Failed as failed:
            return str(failed)
        found = re.search(r"Open MPI\) (\d+)\.(\d+)", said)
        if found is None:
            return "mpirun is not Open MPI's"
        self.version = tuple(int(number) for number in found.groups())
        return None

    def measure(self, peers: int, sizes: Sequence[int], forms: Sequence[bool]) -> list[Sample]:
        """See `Contestant`."""
        steps = [plan(size, in_place).token() for size in sizes for in_place in forms]
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        start = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(peers), *self._ways()]
        return samples_of_worker(run_together([[*start, str(self._worker), self.collective, *steps]], self.limit_s), peers)

    @property
    def _worker(self) -> Path:
        return self.folder / f"mpi_worker_{self.name}"

    def _ways(self) -> list[str]:
        shared = "sm" if self.version >= (5,) else "vader"
        transports = "tcp,self" if self.over_tcp else f"{shared},self"
        ways = {"pml": "ob1", "btl": transports, "btl_tcp_if_include": "lo", "oob_tcp_if_include": "lo"}
        return [word for key, value in ways.items() for word in ("--mca", key, value)]


@dataclass
class Ours:
    """pccl's own benchmark, with its floor beside it; `arguments` are added to its command line."""

    name: str
    limit_s: float
    repository: Path
    arguments: list[str] = field(default_factory=list)
    program: Optional[str] = None
    collective: str = ALL_REDUCE
    may_be_missing: bool = False
    note: Optional[str] = None

    def prepare(self) -> Optional[str]:
        """See `Contestant`; builds the program, unless one was given."""
        if self.program is not None:
            return None if os.access(self.program, os.X_OK) else f"{self.program} is no program"
        build = ["cargo", "build", "--release", "-p", PACKAGE, "--bin", PROGRAM, "--message-format", "json"]
        try:
            built = subprocess.run(build, cwd=self.repository, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"cargo could not build {PROGRAM}: {error}"
        self.program = executable_in(built.stdout)
        if built.returncode != 0 or self.program is None:
            said = [line for line in built.stderr.splitlines() if line.startswith("error")] or ["no reason given"]
            return f"cargo built no program {PROGRAM}: {said[0]}"
        return None

    def measure(self, peers: int, sizes: Sequence[int], forms: Sequence[bool]) -> list[Sample]:
        """See `Contestant`; one launch for each size and form."""
        return [self._one(peers, size, in_place) for size in sizes for in_place in forms]

    def _one(self, peers: int, size: int, in_place: bool) -> Sample:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rows.json")
            range_ = ["--peers", str(peers), "--min-bytes", str(size), "--max-bytes", str(size)]
            kind = ["--collective", option_of(self.collective), "--type", "f32", "--op", "sum"]
            kind += ["--in-place"] if in_place else []
            command = [str(self.program), *range_, *kind, *self.arguments, "--json", file]
            run_together([command], self.limit_s)
            try:
                document = json.loads(Path(file).read_text())
                rows = document["rows"]
            except (OSError, ValueError, KeyError) as error:
                raise Failed(f"{PROGRAM} wrote no rows: {error}") from error
        refused = congestion_refused(document)
        if refused is not None:
            raise Failed(refused)
        found = samples_of_rows(rows, peers, [size], [in_place], self.collective)
        if not found:
            wanted = f"{self.collective}, {peers} peers, {size} bytes, in_place {in_place}"
            raise Failed(f"{PROGRAM} wrote no row of {wanted}")
        return found[0]


@dataclass
class OursFromFile:
    """Figures that our benchmark wrote earlier: quick to compare, but of another minute than the rivals'."""

    file: Path
    held_name: str
    defaults_name: str
    held: str
    name: str = "ours"
    collective: str = ALL_REDUCE
    rows: list[Row] = field(default_factory=list)
    may_be_missing: bool = False
    note: Optional[str] = None

    def prepare(self) -> Optional[str]:
        """See `Contestant`; takes `held_name` where the file's congestion control is `held`, the rivals'."""
        try:
            document = json.loads(self.file.read_text())
            self.rows = document["rows"]
        except (OSError, ValueError, KeyError) as error:
            return f"no rows in {self.file}: {error}"
        refused = congestion_refused(document)
        if refused is not None:
            return f"{self.file}: {refused}"
        if not all("batch_times_us" in row for row in self.rows):
            return f"{self.file} is of an older benchmark, which told no times of batches"
        congestion = document.get("settings", {}).get("congestion")
        if congestion not in (None, self.held):
            return f"{self.file} is of {congestion}, rivals get {self.held}: neither equal nor ours by default"
        self.name = self.defaults_name if congestion is None else self.held_name
        return None

    def measure(self, peers: int, sizes: Sequence[int], forms: Sequence[bool]) -> list[Sample]:
        """See `Contestant`."""
        return samples_of_rows(self.rows, peers, sizes, forms, self.collective)


def congestion_refused(document: Mapping[str, Any]) -> Optional[str]:
    """Why our benchmark's file is not of the congestion control it asked for; None where it is, or asked for none.

    Our lanes go on with the system's own where theirs is refused, so that asking is not having.
    """
    settings = document.get("settings", {})
    asked, in_force = settings.get("congestion"), settings.get("congestion_in_force")
    if asked is None or asked == in_force:
        return None
    return f"lanes asked for {asked} and got {in_force or 'what nobody knows'}"


def executable_in(messages: str) -> Optional[str]:
    """The path of the program in cargo's JSON messages."""
    for line in messages.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message.get("target", {}).get("name") == PROGRAM:
            return str(message["executable"])
    return None


def samples_of_rows(
    rows: Sequence[Row], peers: int, sizes: Sequence[int], forms: Sequence[bool], collective: str = ALL_REDUCE
) -> list[Sample]:
    """The plain f32 sums among our benchmark's rows that were asked for; of several lane counts the smallest."""
    chosen: dict[tuple[int, bool], Row] = {}
    for row in sorted(rows, key=lambda row: int(row.get("lanes") or 0)):
        key = (int(row["bytes"]), bool(row["in_place"]))
        wanted = int(row["peers"]) == peers and key[0] in sizes and key[1] in forms
        wanted = wanted and row.get("collective", option_of(ALL_REDUCE)) == option_of(collective)
        plain = row.get("quantization") is None and row.get("concurrent", 1) == 1
        if wanted and plain and (row["type"], row["redop"]) == ("f32", "sum"):
            chosen.setdefault(key, row)
    return [_sample_of_row(size, in_place, row) for (size, in_place), row in chosen.items()]


def _sample_of_row(size: int, in_place: bool, row: Row) -> Sample:
    # Batches and not reduces: rivals read the clock once for a batch.
    floor = row.get("floor_batch_times_us") or []
    return Sample(
        size,
        in_place,
        [float(time) for time in row["batch_times_us"]],
        cpu_ns_per_byte=row.get("cpu_s_per_gb"),  # seconds per 10^9 bytes are nanoseconds per byte
        wrong=int(row.get("wrong") or 0),
        floor_times_us=[float(time) for time in floor],
        floor_cpu_ns_per_byte=row.get("floor_cpu_s_per_gb"),
    )
