"""One peer of Gloo's all-reduce through torch.distributed: `gloo_worker.py RANK PEERS RENDEZVOUS STEP...`.

Rank 0 prints one JSON line per step. torch's all-reduce is in place: there is no other form to measure.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import torch
import torch.distributed as dist

from figures import ELEMENT_BYTES, Step

PERIOD = 61  # of the pattern; with 64 peers all sums stay exact in f32
TAGS = 1009  # no two reduces of a step contribute the same, so that what is left over from one is seen in another
PIECE = PERIOD * 16384  # elements filled and checked at once: a temporary of the whole size would be dear
PATTERN = (torch.arange(PIECE) % PERIOD).to(torch.float32)


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def fill(buffer: torch.Tensor, offset: int) -> None:
    """Writes the pattern, shifted by `offset`."""
    for piece in buffer.split(PIECE):
        torch.add(PATTERN[: piece.numel()], offset, out=piece)


def count_wrong(buffer: torch.Tensor, peers: int, tag: int) -> int:
    """Elements that are not the sum over all ranks of `fill(rank + tag)`."""
    expected = PATTERN * peers + (peers * (peers - 1) // 2 + peers * tag)
    return sum(int((piece != expected[: piece.numel()]).sum()) for piece in buffer.split(PIECE))


def measure(step: Step, rank: int, peers: int) -> dict[str, object]:
    """Runs one step together with all other ranks; the result is the same on all of them."""
    buffers = [torch.empty(step.size // ELEMENT_BYTES) for _ in range(step.batch)]
    figures = torch.zeros(step.iterations + 2, dtype=torch.float64)  # times, CPU, wrong elements
    for iteration in range(-step.warm_ups, step.iterations):
        first = (iteration + step.warm_ups) * step.batch
        tags = [(first + place) % TAGS for place in range(step.batch)]
        for buffer, tag in zip(buffers, tags):
            fill(buffer, rank + tag)
        dist.barrier()
        cpu, start = cpu_seconds(), time.perf_counter()
        for buffer in buffers:
            dist.all_reduce(buffer)
        elapsed, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        dist.barrier()  # checking would take the cores from ranks that still reduce
        figures[-1] += sum(count_wrong(buffer, peers, tag) for buffer, tag in zip(buffers, tags))
        if iteration >= 0:
            figures[iteration] = elapsed
            figures[-2] += cpu
    dist.all_reduce(figures)
    scale = 1e6 / peers / step.batch
    return {
        "bytes": step.size,
        "in_place": 1,
        "times_us": [float(total) * scale for total in figures[:-2]],
        "cpu_ns": float(figures[-2]) * 1e9,
        "reduces": step.batch * step.iterations,
        "wrong": int(figures[-1]),
    }


def main() -> None:
    """Joins the group, runs the steps, leaves."""
    rank, peers = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)  # threads of torch that wait by spinning would count as Gloo's CPU
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=peers)
    for token in sys.argv[4:]:
        result = measure(Step.parse(token), rank, peers)
        if rank == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
