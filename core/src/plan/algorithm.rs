//! Which algorithm a collective takes: the one place that decides it.

use serde::{Deserialize, Serialize};

use crate::element::{CollectiveKind, CollectiveSpec, Quantization};
use crate::wire::{
    CIRCULANT_BUFFER_MAX, DIRECT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, FRAME_PAYLOAD_MAX,
    WHOLE_BUFFER_MAX,
};

/// Between which members of a group there are links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reach {
    /// From each rank to the next one.
    Ring,
    /// From each rank to each other one.
    Mesh,
}

/// The paths between the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Paths {
    /// Between which members there are links.
    pub reach: Reach,
    /// Whether all members have one address, which is mostly one machine: latencies are next to nothing there, and
    /// each message costs time of cores that all members share.
    pub within_machine: bool,
    /// From how many ranks on the [circulant](Pattern::Circulant) pattern is taken within a machine.
    pub rounds_from: u32,
    /// Whether the members are at several sites, and several of them at one.
    pub two_levels: bool,
}

impl Paths {
    /// In a world of two the ring is the mesh, and nothing is gained beyond it.
    const fn reach_of(self, world: u32) -> Reach {
        if world > 2 { self.reach } else { Reach::Ring }
    }

    const fn takes_rounds(self, world: u32) -> bool {
        self.within_machine && world >= self.rounds_from
    }
}

/// Of the whole buffer.
fn bytes_of(spec: &CollectiveSpec) -> u64 {
    spec.count.saturating_mul(spec.element.size() as u64)
}

/// From whom to whom a buffer travels that all ranks get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Around the ring, in N − 1 steps.
    Ring,
    /// From each rank to each other one: one latency, and N − 1 messages per rank.
    Mesh,
    /// In ⌈log₂ N⌉ rounds, each with one message to one rank and one from another: what a rank has gathered in all
    /// rounds before leaves in one message.
    ///
    /// The distances between the two ranks of a round are ⌈N/2⌉, ⌈N/4⌉ and so on down to 1. The pattern is that of
    /// Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms" (2024); its all-gather is that of
    /// Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems"
    /// (1997). It works for every number of ranks without folding.
    Circulant,
}

impl Pattern {
    /// Which links it needs.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Ring => Reach::Ring,
            Self::Mesh | Self::Circulant => Reach::Mesh,
        }
    }
}

/// How the contributions to a collective become its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// In chunks that are reduced on their way around the ring, and whose results are passed on: a
    /// reduce-scatter, followed by an all-gather.
    ///
    /// A stripe has N chunks, one of each shard ([`Stripe::chunk`](super::Stripe::chunk)); chunk c starts its journey at rank
    /// c + 1 and is finished by rank c. In step s, rank r sends chunk r − s − 1 to rank r + 1 and receives chunk
    /// r − s − 2 from rank r − 1, all modulo N. In the first N − 1 steps what arrives is combined with the receiver's
    /// own elements; in the last of these it becomes the result. In the N − 1 steps after them the result replaces the receiver's elements. What is sent
    /// in step s + 1 is exactly what was received in step s, also across the change between the two. A reduce-scatter
    /// is the first N − 1 steps; an all-gather is the others, and begins with each rank's own chunk.
    ///
    /// The algorithm is that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    /// workstations" (2009). Every rank sends 2·(N − 1)/N of the buffer in all, which is the least possible.
    Ring,
    /// Along the ring, from the root to the rank before it: a broadcast.
    ///
    /// The root sends the buffer, frame by frame, to the next rank; each rank sends what it receives to the next one
    /// at once, and the rank before the root to nobody. Each byte passes each link but one once, in N − 1 latencies
    /// and the time of one buffer.
    Chain,
    /// Whole: each rank gets the contribution of each other one and adds them all by itself.
    ///
    /// Over a mesh each rank sends its buffer to each other rank: in step s, rank r receives the contribution of
    /// rank r − s − 1, modulo N, from that rank. Around a ring it is the all-gather of a ring: the same arrives
    /// in step s from rank r − 1, and each rank passes on what it received. In the circulant pattern the
    /// contribution of rank r + s + 1 arrives in step s, from whom it came to in an earlier round.
    ///
    /// A sum of floats depends on the order of its terms, and contributions arrive in another order at every
    /// rank. So nothing is added as it arrives: every rank adds in the order of the ranks, rank 0 first, its own
    /// contribution in its own turn.
    ///
    /// Every rank sends N − 1 buffers, in one latency over a mesh, ⌈log₂ N⌉ in the circulant pattern and N − 1
    /// around a ring: the better choice if a step costs more than the bytes.
    Whole(Pattern),
    /// Directly, over a mesh: a reduce-scatter in which each rank sends each other rank its part, followed by an
    /// all-gather in which each rank sends the result of its part to all others.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); rank r combines chunk r. In step s of
    /// the first N − 1, rank r receives chunk r of rank r − s − 1, modulo N, and keeps it. Once all are there it
    /// adds them in the order of the ranks, rank 0 first, its own in its own turn. In the N − 1 steps after these
    /// it receives, in the same order, the result of chunk r − s − 1 from rank r − s − 1.
    ///
    /// It sends as few bytes as [`Ring`](Self::Ring) does and takes two latencies in place of 2·(N − 1). The
    /// order of the additions depends on nothing but the ranks. A reduce-scatter is the first N − 1 steps; an
    /// all-gather is the others, and tells each rank's own chunk.
    Direct,
    /// In rounds, in the [circulant pattern](Pattern::Circulant): a reduce-scatter in ⌈log₂ N⌉ rounds, followed by
    /// an all-gather in as many.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); the result of chunk r is computed by
    /// rank r. Let h be the number of a round, from 1, and s(h) = ⌈N / 2ʰ⌉. In round h of the reduce-scatter, rank r
    /// sends what it has summed of the chunks r + s(h) to r + s(h − 1) − 1, modulo N, to rank r + s(h), each with
    /// its own elements added: first these, then what has arrived, round by round. The rounds of the all-gather are
    /// the same backwards: rank r sends the results of the chunks r to r + s(h − 1) − s(h) − 1 to rank r − s(h).
    ///
    /// It sends as few bytes as [`Ring`](Self::Ring) does, in 2·⌈log₂ N⌉ messages and latencies in place of
    /// 2·(N − 1). The order of the additions depends on nothing but the ranks, and is another one for each chunk. A
    /// reduce-scatter or an all-gather is one half of it.
    Circulant,
    /// In two levels, for ranks at several [sites](crate::site): inside each site, among the sites, and inside again.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); the result of chunk r is computed
    /// by rank r. At each other site one rank is its gateway, and each member of a site is the gateway of as many
    /// chunks of other sites, give or take one. Each rank sends each chunk to its gateway at the own site, which adds
    /// the contributions of the site, in the order of the ranks, and sends their sum to rank r. That one adds the
    /// contributions of its own site, in the order of the ranks, and then the sums of the others, in the order of the
    /// sites. It sends the result to the other members of its site and to the gateways at the other sites, and they
    /// send it to the other members there.
    ///
    /// Each byte leaves a site once to be reduced, and enters each other site once as a result; all members have a
    /// part of that. It takes two latencies between sites and two inside. A reduce-scatter ends at rank r, and an
    /// all-gather begins there. With one site it is the same exchange as [`Direct`](Self::Direct), and so it is with
    /// one rank at each.
    ///
    /// That equal ranks of all sites exchange their parts at the same time, so that all ways out are used, is the scheme
    /// of Singh et al., "The Big Send-off: High Performance Collectives on GPU-based Supercomputers" (2025). Gateways
    /// that are dealt out in turn serve sites of unequal sizes, too.
    TwoLevel,
}

impl Algorithm {
    /// The algorithm that a collective takes in a world of so many, on these paths. What is quantized takes the
    /// ring. A buffer travels whole if it is of at most [`WHOLE_BUFFER_MAX`] bytes and so small that those of all
    /// ranks fit into one frame ([`FRAME_PAYLOAD_MAX`]): a rank keeps them all until it adds.
    ///
    /// If there is a mesh, a buffer of at most [`DIRECT_BUFFER_MAX`] bytes travels directly between machines, which
    /// takes the fewest latencies. Within a machine messages cost more than latencies: there it takes the circulant
    /// pattern up to [`CIRCULANT_BUFFER_MAX`], whole or in chunks, and in worlds that are too small for rounds travels
    /// directly up to [`DIRECT_WITHIN_MACHINE_MAX`].
    ///
    /// If there is a mesh of members at several sites, and several of them are at one, everything else that is not
    /// quantized and does not travel whole takes the two levels.
    ///
    /// In a world of two the ring is the mesh, and nothing is gained beyond it.
    ///
    /// The master asks here, and tells the participants what it was told.
    ///
    /// A reduce-scatter and an all-gather are never whole, and else choose as an all-reduce does. A broadcast takes
    /// the chain, and for a barrier, of which nothing travels, it is the ring.
    #[must_use]
    pub fn of(spec: &CollectiveSpec, world: u32, paths: Paths) -> Self {
        let in_chunks = Self::in_chunks(spec, world, paths);
        match spec.kind {
            CollectiveKind::AllReduce => Self::whole(spec, world, paths).unwrap_or(in_chunks),
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather { .. } => in_chunks,
            CollectiveKind::Broadcast { .. } => Self::Chain,
            CollectiveKind::Barrier => Self::Ring,
        }
    }

    /// In which pattern a buffer travels whole. `None`: it is too large, or quantized.
    fn whole(spec: &CollectiveSpec, world: u32, paths: Paths) -> Option<Self> {
        let bytes = bytes_of(spec);
        let all = bytes.saturating_mul(u64::from(world));
        let travels_whole = bytes <= WHOLE_BUFFER_MAX && all <= FRAME_PAYLOAD_MAX as u64;
        let pattern = match (spec.quantization, paths.reach_of(world)) {
            (Quantization::None, Reach::Ring) => Pattern::Ring,
            (Quantization::None, Reach::Mesh) if paths.takes_rounds(world) => Pattern::Circulant,
            (Quantization::None, Reach::Mesh) => Pattern::Mesh,
            (
                Quantization::MinMax { .. }
                | Quantization::ZeroPointScale { .. }
                | Quantization::Blockwise4,
                Reach::Ring | Reach::Mesh,
            ) => return None,
        };
        travels_whole.then_some(Self::Whole(pattern))
    }

    /// How a buffer travels in chunks.
    fn in_chunks(spec: &CollectiveSpec, world: u32, paths: Paths) -> Self {
        let bytes = bytes_of(spec);
        let in_rounds = paths.takes_rounds(world);
        let directly_max = match paths.within_machine {
            true => DIRECT_WITHIN_MACHINE_MAX,
            false => DIRECT_BUFFER_MAX,
        };
        match (spec.quantization, paths.reach_of(world)) {
            (Quantization::None, Reach::Mesh) if paths.two_levels => Self::TwoLevel,
            (Quantization::None, Reach::Mesh) if in_rounds && bytes <= CIRCULANT_BUFFER_MAX => {
                Self::Circulant
            }
            (Quantization::None, Reach::Mesh) if !in_rounds && bytes <= directly_max => {
                Self::Direct
            }
            (
                Quantization::None
                | Quantization::MinMax { .. }
                | Quantization::ZeroPointScale { .. }
                | Quantization::Blockwise4,
                Reach::Ring | Reach::Mesh,
            ) => Self::Ring,
        }
    }

    /// Whether a collective of this kind can take it.
    #[must_use]
    pub const fn carries<Root>(self, kind: &CollectiveKind<Root>) -> bool {
        match (self, kind) {
            (
                Self::Ring | Self::Whole(_) | Self::Direct | Self::Circulant | Self::TwoLevel,
                CollectiveKind::AllReduce,
            )
            | (
                Self::Ring | Self::Direct | Self::Circulant | Self::TwoLevel,
                CollectiveKind::ReduceScatter | CollectiveKind::AllGather { .. },
            )
            | (Self::Chain, CollectiveKind::Broadcast { .. })
            | (Self::Ring, CollectiveKind::Barrier) => true,
            (
                Self::Chain,
                CollectiveKind::AllReduce
                | CollectiveKind::ReduceScatter
                | CollectiveKind::AllGather { .. }
                | CollectiveKind::Barrier,
            )
            | (Self::Whole(_), CollectiveKind::ReduceScatter | CollectiveKind::AllGather { .. })
            | (
                Self::Ring | Self::Whole(_) | Self::Direct | Self::Circulant | Self::TwoLevel,
                CollectiveKind::Broadcast { .. },
            )
            | (
                Self::Whole(_) | Self::Direct | Self::Circulant | Self::TwoLevel,
                CollectiveKind::Barrier,
            ) => false,
        }
    }

    /// Which links it needs.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Ring | Self::Chain => Reach::Ring,
            Self::Whole(pattern) => pattern.reach(),
            Self::Direct | Self::Circulant | Self::TwoLevel => Reach::Mesh,
        }
    }
}
