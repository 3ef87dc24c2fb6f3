"""One peer of a Gloo collective through torch.distributed: `gloo_worker.py RANK PEERS RENDEZVOUS CALL STEP...`.

Rank 0 prints one JSON line per step. torch knows one form of each call, so there is no other to measure.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Callable

import torch
import torch.distributed as dist

from figures import ELEMENT_BYTES, Step

PERIOD = 61  # of the pattern; with 64 peers all sums stay exact in f32
TAGS = 1009  # no two calls of a step contribute the same, so that what is left over from one is seen in another
PIECE = PERIOD * 16384  # elements filled and checked at once: a temporary of the whole size would be dear
PATTERN = (torch.arange(PIECE + PERIOD) % PERIOD).to(torch.float32)
ROOT = 0  # of a broadcast


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Part:
    """Elements of the whole buffer from `start` on, kept in a tensor of their own or a view of one."""

    def __init__(self, elements: torch.Tensor, start: int = 0) -> None:
        self.elements = elements
        self.pattern = PATTERN[start % PERIOD :]

    def fill(self, offset: int) -> None:
        """Writes the pattern, shifted by `offset`."""
        for piece in self.elements.split(PIECE):
            torch.add(self.pattern[: piece.numel()], offset, out=piece)

    def count_wrong(self, factor: int, offset: int) -> int:
        """Elements that are not the pattern times `factor`, shifted by `offset`."""
        expected = self.pattern[:PIECE] * factor + offset
        return sum(int((piece != expected[: piece.numel()]).sum()) for piece in self.elements.split(PIECE))


class Call:
    """One call: its buffers, what they begin with, and what they have to hold at the end."""

    def __init__(self, count: int, rank: int, peers: int) -> None:
        self.rank, self.peers = rank, peers
        self.buffer = torch.empty(count)
        self.whole = Part(self.buffer)

    def begin(self, tag: int) -> None:
        """Writes what this rank contributes, and into what it does not contribute something wrong."""
        self.whole.fill(self.rank + tag)

    def run(self) -> None:
        """The call itself."""
        raise NotImplementedError

    def wrong(self, tag: int) -> int:
        """Elements of the result that are not as promised."""
        return self.whole.count_wrong(*self.summed(tag))

    def summed(self, tag: int) -> tuple[int, int]:
        """Factor and offset of the sum over all ranks of what each begins with."""
        return self.peers, self.peers * (self.peers - 1) // 2 + self.peers * tag


class AllReduce(Call):
    """In place."""

    def run(self) -> None:
        dist.all_reduce(self.buffer)


class Sharded(Call):
    """A call that knows equal shards of the buffer, in the order of the ranks."""

    def __init__(self, count: int, rank: int, peers: int) -> None:
        super().__init__(count, rank, peers)
        length = count // peers
        self.shards = [Part(shard, at * length) for at, shard in enumerate(self.buffer.split(length))]
        self.own = self.shards[rank]


class ReduceScatter(Sharded):
    """Into a tensor of its own: torch knows no other form."""

    def __init__(self, count: int, rank: int, peers: int) -> None:
        super().__init__(count, rank, peers)
        self.result = Part(torch.empty(count // peers), rank * (count // peers))

    def begin(self, tag: int) -> None:
        super().begin(tag)
        self.result.elements.fill_(torch.nan)

    def run(self) -> None:
        dist.reduce_scatter_tensor(self.result.elements, self.buffer)

    def wrong(self, tag: int) -> int:
        return self.result.count_wrong(*self.summed(tag))


class AllReduceAndSlice(ReduceScatter):
    """What remains to users of a Gloo without a reduce-scatter."""

    def run(self) -> None:
        dist.all_reduce(self.buffer)
        self.result.elements.copy_(self.own.elements)


class AllGather(Sharded):
    """In place: the contribution is its part of the result."""

    def begin(self, tag: int) -> None:
        self.buffer.fill_(torch.nan)
        self.own.fill(self.rank + tag)

    def run(self) -> None:
        dist.all_gather_into_tensor(self.buffer, self.own.elements)

    def wrong(self, tag: int) -> int:
        return sum(shard.count_wrong(1, of + tag) for of, shard in enumerate(self.shards))


class Broadcast(Call):
    """From the root; the others begin with something wrong."""

    def begin(self, tag: int) -> None:
        if self.rank == ROOT:
            super().begin(tag)
        else:
            self.buffer.fill_(torch.nan)

    def run(self) -> None:
        dist.broadcast(self.buffer, ROOT)

    def wrong(self, tag: int) -> int:
        return self.whole.count_wrong(1, ROOT + tag)


CALLS: dict[str, Callable[[int, int, int], Call]] = {
    "all_reduce": AllReduce,
    "reduce_scatter_tensor": ReduceScatter,
    "all_reduce+slice": AllReduceAndSlice,
    "all_gather_into_tensor": AllGather,
    "broadcast": Broadcast,
}


def measure(name: str, step: Step, rank: int, peers: int) -> dict[str, object]:
    """Runs one step together with all other ranks; the result is the same on all of them."""
    calls = [CALLS[name](step.size // ELEMENT_BYTES, rank, peers) for _ in range(step.batch)]
    figures = torch.zeros(step.iterations + 2, dtype=torch.float64)  # times, CPU, wrong elements
    for iteration in range(-step.warm_ups, step.iterations):
        first = (iteration + step.warm_ups) * step.batch
        tags = [(first + place) % TAGS for place in range(step.batch)]
        for call, tag in zip(calls, tags):
            call.begin(tag)
        dist.barrier()
        cpu, start = cpu_seconds(), time.perf_counter()
        for call in calls:
            call.run()
        elapsed, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        dist.barrier()  # checking would take the cores from ranks that are still at it
        figures[-1] += sum(call.wrong(tag) for call, tag in zip(calls, tags))
        if iteration >= 0:
            figures[iteration] = elapsed
            figures[-2] += cpu
    dist.all_reduce(figures)
    scale = 1e6 / peers / step.batch
    return {
        "bytes": step.size,
        "in_place": int(step.in_place),
        "times_us": [float(total) * scale for total in figures[:-2]],
        "cpu_ns": float(figures[-2]) * 1e9,
        "calls": step.batch * step.iterations,
        "wrong": int(figures[-1]),
    }


def main() -> None:
    """Joins the group, runs the steps, leaves."""
    rank, peers = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)  # threads of torch that wait by spinning would count as Gloo's CPU
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=peers)
    for token in sys.argv[5:]:
        result = measure(sys.argv[4], Step.parse(token), rank, peers)
        if rank == 0:
            print(json.dumps(result), flush=True)
    dist.barrier()  # a rank that leaves ends those that are still in their last call
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
