"""The collectives that are compared, by the names that torch and we give them, and what differs between them."""

from __future__ import annotations

from typing import Optional

from figures import ELEMENT_BYTES, format_size

ALL_REDUCE = "all_reduce"
REDUCE_SCATTER = "reduce_scatter"
ALL_GATHER = "all_gather"
BROADCAST = "broadcast"
COLLECTIVES = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST)


def option_of(collective: str) -> str:
    """How `all_reduce_perf` spells it, on its command line and in its rows."""
    return collective.replace("_", "-")


def title_of(collective: str) -> str:
    """What a report is about."""
    return f"f32 {collective}" + (", a sum," if collective in (ALL_REDUCE, REDUCE_SCATTER) else "")


def has_forms(collective: str) -> bool:
    """Whether ours is measured out of place, too."""
    return collective == ALL_REDUCE


def uneven(collective: str, peers: int, size: int) -> Optional[str]:
    """Why a buffer of `size` bytes cannot be divided among `peers`; None if it can, or is not divided.

    Ours divides any buffer. `reduce_scatter_tensor` and `MPI_Reduce_scatter_block` know equal shards only.
    """
    if collective not in (REDUCE_SCATTER, ALL_GATHER) or size % (ELEMENT_BYTES * peers) == 0:
        return None
    return f"{format_size(size)} are no whole number of f32 elements for each of {peers} peers"
