//! Which collective is measured, and who contributes what of its result.

use std::fmt;
use std::ops::Range;

use clap::ValueEnum;

/// Ours and the floor do the same. The root of a broadcast is rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collective {
    #[default]
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
}

/// What a part of a buffer holds at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The combination of all contributions.
    Reduced,
    /// What this rank has contributed.
    Of(usize),
}

impl Collective {
    /// Whether contributions are combined.
    pub(crate) const fn reduces(self) -> bool {
        match self {
            Self::AllReduce | Self::ReduceScatter => true,
            Self::AllGather | Self::Broadcast => false,
        }
    }

    /// Whether all ranks end with the same bits.
    pub(crate) const fn ends_alike(self) -> bool {
        match self {
            Self::AllReduce | Self::AllGather | Self::Broadcast => true,
            Self::ReduceScatter => false,
        }
    }

    /// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it.
    pub(crate) fn bus_factor(self, peers: usize) -> f64 {
        let of_others = (peers as f64 - 1.0) / peers as f64;
        match self {
            Self::AllReduce => 2.0 * of_others,
            Self::ReduceScatter | Self::AllGather => of_others,
            Self::Broadcast => 1.0,
        }
    }

    /// What travels in one piece, if pieces are large enough.
    pub(crate) const fn chunk_bytes(self, bytes: usize, peers: usize) -> usize {
        match self {
            Self::AllReduce | Self::ReduceScatter | Self::AllGather => bytes / peers,
            Self::Broadcast => bytes,
        }
    }

    /// What the parts of a rank's buffer of so many elements hold at the end.
    pub(crate) fn promised(
        self,
        (rank, peers): (usize, usize),
        elements: usize,
    ) -> Vec<(Range<usize>, Holds)> {
        match self {
            Self::AllReduce => vec![(0..elements, Holds::Reduced)],
            Self::ReduceScatter => vec![(shard((rank, peers), elements), Holds::Reduced)],
            Self::AllGather => {
                let part = |of| (shard((of, peers), elements), Holds::Of(of));
                (0..peers).map(part).collect()
            }
            Self::Broadcast => vec![(0..elements, Holds::Of(0))],
        }
    }

    /// Which elements a rank contributes.
    pub(crate) fn contributed(
        self,
        (rank, peers): (usize, usize),
        elements: usize,
    ) -> Range<usize> {
        match self {
            Self::AllReduce | Self::ReduceScatter => 0..elements,
            Self::AllGather => shard((rank, peers), elements),
            Self::Broadcast if rank == 0 => 0..elements,
            Self::Broadcast => 0..0,
        }
    }
}

/// Of a buffer of so many elements: parts that differ by one element at most, longer ones first.
pub(crate) const fn shard((rank, peers): (usize, usize), elements: usize) -> Range<usize> {
    let (base, longer) = (elements / peers, elements % peers);
    let start = rank * base + if rank < longer { rank } else { longer };
    start..start + base + (rank < longer) as usize
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
        })
    }
}
