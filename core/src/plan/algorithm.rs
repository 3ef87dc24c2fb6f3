//! Choosing the algorithm of a collective. No other place decides it.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::Costs;
use crate::element::{CollectiveKind, CollectiveSpec, Quantization};
use crate::wire::{
    CIRCULANT_BUFFER_MAX, DIRECT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, FRAME_PAYLOAD_MAX,
    KNOWN_DIRECT_BUFFER_MAX, SITE_RING_SHARD_MIN, WHOLE_AMONG_SITES_MAX, WHOLE_BUFFER_MAX,
};

/// The links between the members of a group.
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
    /// The links between the members.
    pub reach: Reach,
    /// Whether all members have one address, which usually means one machine. Latencies are then negligible, and each
    /// message costs time of cores that all members share.
    pub within_machine: bool,
    /// Minimum number of ranks for the [circulant](Pattern::Circulant) pattern within a machine.
    pub rounds_from: u32,
    /// Whether the members are at several sites, with several members at one of them.
    pub two_levels: bool,
    /// As `two_levels`, and there are three sites or more. A ring of two sites is the same as a mesh of them.
    pub site_ring: bool,
    /// Whether [the sites are even](crate::site::Sites::are_even). In an all-reduce, a small site among large ones sends
    /// more in a ring of the sites than in a mesh of them.
    pub even_sites: bool,
    /// [Maximum number of bytes](crate::site::Sites::whole_buffer_max) of an all-reduce that has all sums at all sites,
    /// if the costs of the paths are not known.
    pub sites_whole_max: u64,
    /// Whether the ring is in the [order of the turns](super::is_in_order), so that a relayed sum goes around once.
    pub in_order: bool,
    /// The known costs of the paths. `None` if they are not known.
    pub costs: Option<Costs>,
}

impl Paths {
    /// The links of the group. In a world of two the ring is the mesh, and a mesh brings no gain.
    const fn reach_of(self, world: u32) -> Reach {
        if world > 2 { self.reach } else { Reach::Ring }
    }

    const fn takes_rounds(self, world: u32) -> bool {
        self.within_machine && world >= self.rounds_from
    }
}

/// How a buffer reaches all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Around the ring, in N − 1 steps.
    Ring,
    /// From each rank to each other one: one latency, and N − 1 messages per rank.
    Mesh,
    /// In ⌈log₂ N⌉ rounds, each with one message to one rank and one from another. The message has everything that
    /// the sender has gathered in all earlier rounds.
    ///
    /// The distances between the two ranks of a round are ⌈N/2⌉, ⌈N/4⌉ and so on down to 1. The pattern is that of
    /// Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms" (2024); its all-gather is that of
    /// Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems"
    /// (1997). It works for every number of ranks without folding.
    Circulant,
}

impl Pattern {
    /// The links that it needs.
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
    /// In chunks that are reduced on their way around the ring, and whose results are then forwarded: a
    /// reduce-scatter, followed by an all-gather.
    ///
    /// A stripe has N chunks, one of each shard ([`Stripe::chunk`](super::Stripe::chunk)). Chunk c starts at rank c +
    /// 1, and rank c completes it. In step s, rank r sends chunk r − s − 1 to rank r + 1, and receives chunk r − s −
    /// 2 from rank r − 1, all modulo N. In the first N − 1 steps the receiver combines the arriving chunk with its
    /// own elements; in the last of these the chunk becomes the result. In the other N − 1 steps the result replaces
    /// the receiver's elements. A rank sends in step s + 1 exactly what it received in step s, also across the change
    /// between the two halves. A reduce-scatter is the first N − 1 steps. An all-gather is the others, and begins
    /// with each rank's own chunk.
    ///
    /// The algorithm is that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    /// workstations" (2009). Every rank sends 2·(N − 1)/N of the buffer in all, which is the least possible.
    Ring,
    /// Along the ring, from the root to the rank before it: a broadcast.
    ///
    /// The root sends the buffer, frame by frame, to the next rank. Each rank forwards a frame at once, except for
    /// the rank before the root. Each byte passes each link but one once. It takes N − 1 latencies and the time of
    /// one buffer.
    Chain,
    /// Whole: each rank receives the contributions of all other ranks, and adds them all by itself.
    ///
    /// Over a mesh each rank sends its buffer to each other rank: in step s, rank r receives the contribution of rank
    /// r − s − 1, modulo N, from that rank. On a ring it is an all-gather: in step s the same contribution arrives
    /// from rank r − 1, and each rank forwards what it received. In the circulant pattern the contribution of rank r
    /// + s + 1 arrives in step s, from a rank that received it in an earlier round.
    ///
    /// A sum of floats depends on the order of its terms, and contributions arrive in a different order at every
    /// rank. So a rank does not add on arrival: every rank adds in the order of the [`Turns`](super::Turns), its own
    /// contribution included.
    ///
    /// Every rank sends N − 1 buffers, with one latency over a mesh, ⌈log₂ N⌉ in the circulant pattern and N − 1 on a
    /// ring. It is the better choice if a step costs more than the bytes.
    Whole(Pattern),
    /// Directly, over a mesh: a reduce-scatter in which each rank sends each other rank its part, followed by an
    /// all-gather in which each rank sends the result of its part to all others.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); rank r combines chunk r. In
    /// step s of the first N − 1, rank r receives chunk r of rank r − s − 1, modulo N, and keeps it. Once all have
    /// arrived, it adds them in the order of the [`Turns`](super::Turns), its own included. In the other N − 1 steps
    /// it receives, in the same order, the result of chunk r − s − 1 from rank r − s − 1.
    ///
    /// It sends as few bytes as [`Ring`](Self::Ring), and takes two latencies in place of 2·(N − 1). The order of the
    /// additions depends only on the set of participants. A reduce-scatter is the first N − 1 steps. An all-gather is
    /// the others, with each rank's own chunk.
    Direct,
    /// In rounds, in the [circulant pattern](Pattern::Circulant): a reduce-scatter in ⌈log₂ N⌉ rounds, followed by an
    /// all-gather in as many rounds.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); rank r computes the result of
    /// chunk r. Let h be the number of a round, from 1, and s(h) = ⌈N / 2ʰ⌉. In round h of the reduce-scatter, rank r
    /// sends its partial sums of the chunks r + s(h) to r + s(h − 1) − 1, modulo N, to rank r + s(h). Its own
    /// elements are the first term of each; the arrivals follow round by round. The all-gather has the same rounds
    /// backwards: rank r sends the results of the chunks r to r + s(h − 1) − s(h) − 1 to rank r − s(h).
    ///
    /// It sends as few bytes as [`Ring`](Self::Ring), in 2·⌈log₂ N⌉ messages and latencies in place of 2·(N − 1). The
    /// order of the additions depends only on the ranks, and differs between chunks. A reduce-scatter or an
    /// all-gather is one half of it.
    Circulant,
    /// In two levels, for ranks at several [sites](crate::site): inside each site, between the sites, and inside
    /// again.
    ///
    /// The buffer has N chunks, its shards ([`Stripe::chunk`](super::Stripe::chunk)); rank r computes the result of
    /// chunk r. At each other site one rank is the gateway of the chunk. The members of a site are gateways of
    /// equally many chunks of other sites, give or take one. Each rank sends each chunk to the gateway at its own
    /// site. The gateway adds the contributions of the site, in the order of the ranks, and sends their sum to rank
    /// r. Rank r adds the contributions of its own site, in the order of the ranks, and then the sums of the other
    /// sites, in the order of the sites. It sends the result to the other members of its site and to the gateways at
    /// the other sites, which send it to the other members there.
    ///
    /// Each byte leaves a site once to be reduced, and enters each other site once as a result; all members share
    /// that work. It takes two latencies between sites and two inside. A reduce-scatter ends at rank r, and an
    /// all-gather begins there. With one site, or with one rank at each site, it is the same exchange as
    /// [`Direct`](Self::Direct).
    ///
    /// Ranks of equal position at all sites exchange their parts at the same time, so that all uplinks are used. This
    /// is the scheme of Singh et al., "The Big Send-off: High Performance Collectives on GPU-based Supercomputers"
    /// (2025). Gateways are assigned in turn, so that the scheme also serves sites of unequal sizes.
    ///
    /// A broadcast goes down a [tree](Self::Tree) of the sites, whose root is that of the broadcast's root, and then
    /// down a tree inside each site. The gateway of a site is its lowest rank, and that of the root's site the root. A
    /// gateway sends each frame to the gateways below it first, and then inside. Each byte enters each other site
    /// once.
    TwoLevel,
    /// In two levels, with a ring among the sites.
    ///
    /// Chunks and gateways are those of [`TwoLevel`](Self::TwoLevel). But the sum of chunk r goes from site to site. It
    /// begins at the site behind that of rank r. The gateway there adds the contributions of its site, in the order of
    /// the ranks, and sends the sum to the gateway at the next site. Each of the other gateways adds the contributions
    /// of its own site, in the order of the ranks, and then the sum that has arrived. At the last site rank r does so.
    /// The result goes the same way: from rank r to the gateway at the next site and from there to the next one, and at
    /// each site to the other members.
    ///
    /// As many bytes enter and leave a site as with `TwoLevel` if all sites have equally many ranks. Otherwise a small
    /// site sends more results in a gather, because it forwards those of all sites but the next one, and receives more
    /// sums in a reduce. It takes 2·(M − 1) latencies between M sites, where `TwoLevel` takes 2. But if sites have
    /// equally many ranks, and these follow one another, a rank sends to one other site and not to M − 1. Connections
    /// that begin at the same time do not know of each other, overflow the queue before a slow path, and lose packets.
    ///
    /// With one rank at each site, it sends as [`Ring`](Self::Ring) does. With two sites, it is the same exchange as
    /// [`TwoLevel`](Self::TwoLevel), and with one as [`Direct`](Self::Direct).
    TwoLevelRing,
    /// In two levels, with all sums at all sites.
    ///
    /// Chunks and gateways are those of [`TwoLevel`](Self::TwoLevel). But the gateway of a chunk sends the sum of its
    /// site to the gateways at all other sites. Each of them adds the sums of all sites, that of rank r first and then
    /// the others in the order of the sites, and sends the result to the other members of its site. The result has the
    /// same bits as with `TwoLevel`.
    ///
    /// It takes one latency between sites, where `TwoLevel` takes two. With M sites of equally many ranks M/2 times as
    /// many bytes leave a site, so it is the better choice between two sites, and between more if the buffer is small.
    /// A rank that is alone at its site keeps the sums of all sites, and copies of its own elements that have not left.
    /// It is [`Whole`](Self::Whole) among the sites, and [`Direct`](Self::Direct) inside of each.
    TwoLevelWhole,
    /// From turn to turn around the ring: additions in the order of the [`Turns`](super::Turns), on any ring, without
    /// a mesh.
    ///
    /// The rank of the first turn sends its contribution to the next rank, frame by frame. The sum goes around the
    /// ring until each rank has added its own contribution in its turn; all other ranks forward it. The rank of the
    /// last turn completes it. The result goes around the ring once, or, in a reduce-scatter, each chunk goes as far
    /// as its rank.
    ///
    /// If the sum goes around w times, each rank sends about w + 1 buffers, and it takes about (w + 1)·N latencies.
    /// If the ring is in the order of the turns, w is 1, which costs no more bytes than [`Ring`](Self::Ring). In the
    /// worst case, the reverse order, w is N − 1. No rank keeps terms: there is one sum of each element at a time, at
    /// one rank.
    Relay,
    /// Down a binomial tree, over a mesh: a broadcast.
    ///
    /// Let v be the distance of a rank behind the root, modulo N. The parent of v is v with its lowest set bit cleared.
    /// Its children are v + 2ᵏ, as far as they are below N, for all 2ᵏ below that bit; those of the root are all 2ᵏ
    /// below N. The root sends the buffer to each of its children, the farthest first. A rank sends each frame to its
    /// children as soon as the frame has arrived.
    ///
    /// It takes ⌊log₂ N⌋ latencies in place of the N − 1 of [`Chain`](Self::Chain). But the root sends ⌈log₂ N⌉
    /// buffers, so it is the better choice if latencies cost more than the bytes. It is the tree in which MPICH
    /// broadcasts short messages: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations
    /// in MPICH" (2005).
    Tree,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Chain => "chain",
            Self::Whole(Pattern::Ring) => "whole-ring",
            Self::Whole(Pattern::Mesh) => "whole-direct",
            Self::Whole(Pattern::Circulant) => "whole-circulant",
            Self::Direct => "direct",
            Self::Circulant => "circulant",
            Self::TwoLevel => "two-level",
            Self::TwoLevelRing => "two-level-ring",
            Self::TwoLevelWhole => "two-level-whole",
            Self::Relay => "relay",
            Self::Tree => "tree",
        })
    }
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 12] = [
        Self::Ring,
        Self::Chain,
        Self::Whole(Pattern::Ring),
        Self::Whole(Pattern::Mesh),
        Self::Whole(Pattern::Circulant),
        Self::Direct,
        Self::Circulant,
        Self::TwoLevel,
        Self::TwoLevelRing,
        Self::TwoLevelWhole,
        Self::Relay,
        Self::Tree,
    ];

    /// The algorithm of a collective in a world of `world` ranks, on these paths. The master calls it, and tells the
    /// participants the result.
    ///
    /// If the callers [request](CollectiveSpec::algorithm) an algorithm that [is possible](Self::is_possible), that
    /// one. Otherwise, the one that takes the least time by the known [`Costs`], the first in the order of this type if
    /// there are several. Of these, [`Direct`](Self::Direct) and [`TwoLevelWhole`](Self::TwoLevelWhole) are limited to
    /// [`KNOWN_DIRECT_BUFFER_MAX`] bytes. Costs concern paths between machines. If they are not known, if all members
    /// are within one machine, where messages cost more than latencies, or if contributions differ in length:
    ///
    /// - A buffer that may be sent whole is: over a mesh, within a machine in the circulant pattern from [a
    ///   number](Paths::rounds_from) of ranks on, and otherwise around a ring. If it can take two levels instead and the
    ///   members are not within one machine, those of all ranks have together at most [`WHOLE_AMONG_SITES_MAX`] bytes.
    /// - Over a mesh of members at several sites, with several members at one of them, all other buffers take the two
    ///   levels. Unless they are within one machine, an all-reduce of up to [a number](Paths::sites_whole_max) of bytes
    ///   takes them with all sums at all sites, and shards of more than [`SITE_RING_SHARD_MIN`] bytes take them with a ring
    ///   among three sites or more, in an all-reduce only if the sites are [even](Paths::even_sites).
    /// - Over any other mesh a buffer of at most [`DIRECT_BUFFER_MAX`] bytes is sent directly. Within a machine it
    ///   takes the circulant pattern up to [`CIRCULANT_BUFFER_MAX`]; worlds that are too small for rounds send it
    ///   directly up to [`DIRECT_WITHIN_MACHINE_MAX`].
    /// - All other buffers take the ring.
    ///
    /// An [ordered](CollectiveSpec::ordered) collective takes an algorithm that adds in the order of the peers: whole
    /// as above, in a world of two the ring, over a mesh direct, and otherwise the relay. If the ring is in that
    /// order, the relay takes the place of the ring, because it sends about as much, and buffers above the limits are
    /// not sent directly.
    ///
    /// By these rules a broadcast within a machine, or of more than [`DIRECT_BUFFER_MAX`] bytes, takes the chain. Any
    /// other one takes the two levels if there are several sites, with several members at one of them, or else the
    /// tree, over a mesh, and without one the chain.
    ///
    /// A barrier sends nothing, and its algorithm is the ring.
    #[must_use]
    pub fn of(spec: &CollectiveSpec, world: u32, paths: Paths) -> Self {
        let is_possible = |algorithm: &Self| algorithm.is_possible(spec, world, paths);
        if let Some(wished) = spec.algorithm.filter(is_possible) {
            return wished;
        }
        let by_threshold = || Self::by_threshold(spec, world, paths);
        // The costs are those of equal contributions.
        let is_even = spec.kind.own_and_limit().is_none();
        let costs = paths.costs.filter(|_| is_even && !paths.within_machine);
        costs.map_or_else(by_threshold, |costs| {
            let is_moderate = |algorithm: &Self| match algorithm {
                Self::Direct => spec.ordered || spec.bytes() <= KNOWN_DIRECT_BUFFER_MAX,
                Self::TwoLevelWhole => spec.bytes() <= KNOWN_DIRECT_BUFFER_MAX,
                Self::Ring
                | Self::Chain
                | Self::Whole(_)
                | Self::Circulant
                | Self::TwoLevel
                | Self::TwoLevelRing
                | Self::Relay
                | Self::Tree => true,
            };
            let possible = Self::ALL
                .into_iter()
                .filter(is_possible)
                .filter(is_moderate);
            let fastest = possible.min_by_key(|algorithm| costs.time(spec, world, *algorithm));
            fastest.unwrap_or_else(by_threshold)
        })
    }

    /// The first possible one of the candidates for this size.
    fn by_threshold(spec: &CollectiveSpec, world: u32, paths: Paths) -> Self {
        let in_rounds = paths.takes_rounds(world);
        let directly_max = match paths.within_machine {
            true => DIRECT_WITHIN_MACHINE_MAX,
            false => DIRECT_BUFFER_MAX,
        };
        let whole = match in_rounds {
            true => Self::Whole(Pattern::Circulant),
            false => Self::Whole(Pattern::Mesh),
        };
        let is_moderate = spec.bytes() <= directly_max;
        let directly = match spec.ordered {
            true => is_moderate || !paths.in_order,
            false => is_moderate && !in_rounds,
        };
        // A broadcast in levels or down a tree sends more from the root than the chain does.
        let is_broadcast = spec.kind.root().is_some();
        let branches = is_moderate && !paths.within_machine;
        let shard_bytes = spec.bytes() / u64::from(world.max(1));
        let ring_of_sites = shard_bytes > SITE_RING_SHARD_MIN
            && !paths.within_machine
            && (paths.even_sites || !(spec.kind.reduces() && spec.kind.gathers()));
        let sums_everywhere = spec.bytes() <= paths.sites_whole_max && !paths.within_machine;
        // Whole, it is sent to each rank at another site; in levels, a part of it is, once to each other site.
        let all_bytes = spec.bytes().saturating_mul(world.into());
        let whole_first = all_bytes <= WHOLE_AMONG_SITES_MAX || paths.within_machine;
        let candidates = [
            whole_first.then_some(whole),
            sums_everywhere.then_some(Self::TwoLevelWhole),
            ring_of_sites.then_some(Self::TwoLevelRing),
            (branches || !is_broadcast).then_some(Self::TwoLevel),
            Some(whole),
            Some(Self::Whole(Pattern::Ring)),
            branches.then_some(Self::Tree),
            in_rounds.then_some(Self::Circulant),
            directly.then_some(Self::Direct),
            Some(Self::Ring),
            Some(Self::Relay),
        ];
        let is_possible = |algorithm: &Self| algorithm.is_possible(spec, world, paths);
        let first = candidates.into_iter().flatten().find(is_possible);
        // What is left is the broadcast in a chain.
        first.unwrap_or(Self::Chain)
    }

    /// Whether a collective can use this algorithm in a world of `world` ranks, on these paths.
    ///
    /// A quantized collective takes the ring, `TwoLevel`, `TwoLevelRing` or the direct exchange, and a broadcast the chain,
    /// the tree or `TwoLevel`. A buffer is sent whole if it has at most [`WHOLE_BUFFER_MAX`] bytes, and if the buffers of
    /// all ranks together fit in one frame ([`FRAME_PAYLOAD_MAX`]), because a rank keeps them all until it adds. Rounds are
    /// limited to [`CIRCULANT_BUFFER_MAX`] bytes, because a round is one message. Two levels need several sites, and
    /// several members at one of them, and a ring of the sites three of these. In a world of two the ring is the mesh, and
    /// a mesh brings no gain.
    ///
    /// An [ordered](CollectiveSpec::ordered) collective is never quantized, and takes only algorithms that add in the
    /// order of the peers. In a world of two the ring does, because a + b = b + a.
    #[must_use]
    pub fn is_possible(self, spec: &CollectiveSpec, world: u32, paths: Paths) -> bool {
        let bytes = spec.bytes();
        let all = bytes.saturating_mul(u64::from(world));
        let travels_whole = bytes <= WHOLE_BUFFER_MAX && all <= FRAME_PAYLOAD_MAX as u64;
        let is_plain = match spec.quantization {
            Quantization::None => true,
            Quantization::MinMax { .. }
            | Quantization::ZeroPointScale { .. }
            | Quantization::Blockwise4 => false,
        };
        let is_reached = match self.reach() {
            Reach::Ring => true,
            Reach::Mesh => paths.reach_of(world) == Reach::Mesh,
        };
        let fits = match self {
            Self::Ring | Self::Chain | Self::Direct | Self::Tree => true,
            Self::Whole(_) => travels_whole,
            Self::Circulant => bytes <= CIRCULANT_BUFFER_MAX,
            Self::TwoLevel | Self::TwoLevelWhole => paths.two_levels,
            Self::TwoLevelRing => paths.two_levels && paths.site_ring,
            Self::Relay => spec.ordered,
        };
        let is_encodable = is_plain || self.carries_encoded();
        let is_ordered = spec.ordered && spec.kind.reduces();
        let keeps_order = !is_ordered || is_plain && self.adds_in_turns(world);
        self.carries(&spec.kind) && is_reached && fits && is_encodable && keeps_order
    }

    /// Whether its frames can be quantized: one rank completes or contributes each chunk, and all others get its encoded
    /// frames.
    #[must_use]
    pub const fn carries_encoded(self) -> bool {
        match self {
            Self::Ring
            | Self::Chain
            | Self::Direct
            | Self::TwoLevel
            | Self::TwoLevelRing
            | Self::Tree => true,
            Self::Whole(_) | Self::Circulant | Self::TwoLevelWhole | Self::Relay => false,
        }
    }

    /// Whether the order of its additions depends only on the set of participants.
    const fn adds_in_turns(self, world: u32) -> bool {
        match self {
            Self::Whole(_) | Self::Direct | Self::Relay => true,
            Self::Ring => world <= 2,
            Self::Chain
            | Self::Circulant
            | Self::TwoLevel
            | Self::TwoLevelRing
            | Self::TwoLevelWhole
            | Self::Tree => false,
        }
    }

    /// Whether a collective of this kind can use it.
    #[must_use]
    pub const fn carries<Root>(self, kind: &CollectiveKind<Root>) -> bool {
        match (self, kind) {
            (
                Self::Ring
                | Self::Whole(_)
                | Self::Direct
                | Self::Circulant
                | Self::TwoLevel
                | Self::TwoLevelRing
                | Self::TwoLevelWhole
                | Self::Relay,
                CollectiveKind::AllReduce,
            )
            | (
                Self::Ring
                | Self::Direct
                | Self::Circulant
                | Self::TwoLevel
                | Self::TwoLevelRing
                | Self::Relay,
                CollectiveKind::ReduceScatter,
            )
            | (
                Self::Ring | Self::Direct | Self::Circulant | Self::TwoLevel | Self::TwoLevelRing,
                CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. },
            )
            | (Self::Chain | Self::TwoLevel | Self::Tree, CollectiveKind::Broadcast { .. })
            | (Self::Ring, CollectiveKind::Barrier) => true,
            (
                Self::Chain | Self::Tree,
                CollectiveKind::AllReduce
                | CollectiveKind::ReduceScatter
                | CollectiveKind::AllGather { .. }
                | CollectiveKind::AllGatherV { .. }
                | CollectiveKind::Barrier,
            )
            | (
                Self::Whole(_) | Self::TwoLevelWhole,
                CollectiveKind::ReduceScatter
                | CollectiveKind::AllGather { .. }
                | CollectiveKind::AllGatherV { .. },
            )
            | (Self::Relay, CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. })
            | (
                Self::Ring
                | Self::Whole(_)
                | Self::Direct
                | Self::Circulant
                | Self::TwoLevelRing
                | Self::TwoLevelWhole
                | Self::Relay,
                CollectiveKind::Broadcast { .. },
            )
            | (
                Self::Whole(_)
                | Self::Direct
                | Self::Circulant
                | Self::TwoLevel
                | Self::TwoLevelRing
                | Self::TwoLevelWhole
                | Self::Relay,
                CollectiveKind::Barrier,
            ) => false,
        }
    }

    /// The links that it needs.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Ring | Self::Chain | Self::Relay => Reach::Ring,
            Self::Whole(pattern) => pattern.reach(),
            Self::Direct
            | Self::Circulant
            | Self::TwoLevel
            | Self::TwoLevelRing
            | Self::TwoLevelWhole
            | Self::Tree => Reach::Mesh,
        }
    }
}
