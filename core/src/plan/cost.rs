//! The cost of a collective between machines, by algorithm: the time of its latencies, and that of its bytes.
//!
//! It is Hockney's model, in which a message of n bytes takes α + n·β, as Thakur, Rabenseifner and Gropp apply it to
//! collectives ("Optimization of Collective Communication Operations in MPICH", 2005), with the measured latency and
//! rate of the slowest path of each kind. Levels and frames of a streaming collective overlap, so of bytes on
//! different paths only those of the slower path count. The processor time of a byte is negligible beside a path
//! between machines, and that of a message is [`MESSAGE_NS`].

use serde::{Deserialize, Serialize};

use super::{Algorithm, Pattern, tree};
use crate::element::{CollectiveKind, CollectiveSpec};
use crate::paths::{FRAME_BYTES, Measurement, RingEstimate};
use crate::wire::SITE_RING_PAYLOAD_MAX;

/// Processor time of a message at its sender and its receiver together, in nanoseconds.
pub(super) const MESSAGE_NS: u128 = 10_000;

/// If several ranks send to one at the same time, their bytes take this percentage of the time of one sender, because
/// their packets meet in one queue. Measured with four peers and 64 MiB: 111 to 119 with a round trip of 10 ms, about
/// 100 with 100 ms.
const MEETING_PERCENT: u128 = 112;

/// The costs of paths of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathCosts {
    /// The lowest rate and the longest round trip of these paths.
    pub slowest: Measurement,
    /// The rate of the slowest member on its best path. All paths of a member together carry as much.
    pub member_bytes_per_s: u64,
}

/// The costs of the paths between the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Costs {
    /// The estimate of the established ring.
    pub ring: RingEstimate,
    /// The sum of the latencies of its edges, in nanoseconds.
    pub ring_latency_ns: u64,
    /// Between members of one site. If sites are not known, between all members. If no site has two members, as
    /// `far`.
    pub near: PathCosts,
    /// Between members of different sites. If sites are not known, as `near`.
    pub far: PathCosts,
    /// Number of sites.
    pub sites: u32,
    /// Number of members of the smallest site.
    pub site_members_min: u32,
}

/// Bytes that a rank sends over paths of one kind.
#[derive(Clone, Copy)]
struct Bytes {
    all: u128,
    /// Those of them that take one path.
    on_a_path: u128,
}

/// Bytes and messages of one rank, for an estimate.
#[derive(Clone, Copy)]
struct Load {
    /// Latencies between sites, one after the other, and inside of one.
    far_latencies: u128,
    near_latencies: u128,
    far: Bytes,
    near: Bytes,
    /// Messages that the rank sends.
    messages: u128,
}

impl Costs {
    /// The estimated time of a collective by an algorithm that it can use, in nanoseconds. It excludes the votes
    /// before and after, which are the same for every algorithm.
    ///
    /// ```
    /// use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
    /// use pccl_core::paths::{Measurement, RingEstimate};
    /// use pccl_core::plan::{Algorithm, Costs, PathCosts};
    ///
    /// // Four machines, 100 ms there and back, 10 MB in a second.
    /// let slowest = Measurement { bytes_per_s: 10_000_000, round_trip_us: 100_000 };
    /// let paths = PathCosts { slowest, member_bytes_per_s: 10_000_000 };
    /// let ring = RingEstimate { bytes_per_s: 10_000_000, round_ns: 304_857_600, world_size: 4 };
    /// let ring_latency_ns = 200_000_000;
    /// let costs = Costs { ring, ring_latency_ns, near: paths, far: paths, sites: 1, site_members_min: 4 };
    /// let spec = CollectiveSpec {
    ///     kind: CollectiveKind::AllReduce,
    ///     op: ReduceOp::Sum,
    ///     element: ElementType::F32,
    ///     count: 1_000_000,
    ///     quantization: Quantization::None,
    ///     algorithm: None,
    ///     ordered: false,
    /// };
    ///
    /// // 4 MB · 2 · 3/4 take 0.6 s. Directly there are two latencies; on their way around the ring, in six steps, chunks
    /// // wait for the slowest edge most of the time.
    /// let tenths = |algorithm| costs.time(&spec, 4, algorithm) / 100_000_000;
    /// assert_eq!((tenths(Algorithm::Ring), tenths(Algorithm::Direct)), (6, 7));
    /// ```
    #[must_use]
    pub fn time(&self, spec: &CollectiveSpec, world: u32, algorithm: Algorithm) -> u64 {
        let bytes = u128::from(spec.wire_bytes());
        let halves = u128::from(spec.kind.reduces()) + u128::from(spec.kind.gathers());
        let others = u128::from(world.saturating_sub(1));
        let share = bytes.checked_div(u128::from(world)).unwrap_or(0);
        let rounds = u128::from(world.max(1).next_power_of_two().trailing_zeros());
        let ns = match algorithm {
            Algorithm::Ring => self.around(world, halves * others, share),
            Algorithm::Whole(Pattern::Ring) => self.around(world, others, bytes),
            Algorithm::Chain => self.chained(world, bytes),
            Algorithm::Whole(Pattern::Mesh) => self.spread(world, 1, others * bytes, others),
            Algorithm::Whole(Pattern::Circulant) => {
                self.spread(world, rounds, others * bytes, rounds)
            }
            Algorithm::Direct => {
                self.spread(world, halves, halves * others * share, halves * others)
            }
            Algorithm::Circulant => {
                let rounds = halves * rounds;
                self.spread(world, rounds, halves * others * share, rounds)
            }
            Algorithm::TwoLevel if spec.kind.root().is_some() => self.down_two_levels(world, bytes),
            Algorithm::TwoLevel => self.load_time(self.in_two_levels(spec.kind, world, bytes)),
            Algorithm::TwoLevelRing => self.around_sites(spec.kind, world, bytes),
            Algorithm::TwoLevelWhole => self.load_time(self.whole_among_sites(world, bytes)),
            Algorithm::Relay => self.relayed(world, bytes),
            Algorithm::Tree => Branches::of(world, self.far).time(bytes),
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// This many steps around the ring, with a chunk of this many bytes each. A chunk takes the latencies of all
    /// edges on its way, in the mean of all chunks, and follows its first frame. The slowest edge has to carry each
    /// chunk of each step, and the last byte then takes its latency.
    fn around(&self, world: u32, steps: u128, bytes: u128) -> u128 {
        if steps == 0 {
            return 0;
        }
        let first = bytes.min(u128::from(FRAME_BYTES));
        let once = self.lap(first);
        let rest = transfer(bytes - first, self.ring.bytes_per_s);
        let of_chunk = steps * once / u128::from(world.max(1)) + rest;
        let of_slowest = steps * transfer(bytes, self.ring.bytes_per_s) + self.last_latency(world);
        of_slowest.max(of_chunk) + steps * MESSAGE_NS
    }

    /// The latency of the slowest edge of the ring: one between sites, each of which is entered once, or any.
    fn last_latency(&self, world: u32) -> u128 {
        let edges = match self.sites {
            0 | 1 => world.max(1),
            sites => sites,
        };
        let of_edge = u128::from(self.ring_latency_ns) / u128::from(edges);
        of_edge.min(self.far.latency_ns())
    }

    /// Along all edges of the ring but one: the first frame passes them one after the other, and the others follow it.
    fn chained(&self, world: u32, bytes: u128) -> u128 {
        let edges = u128::from(world.saturating_sub(1));
        let first = bytes.min(u128::from(FRAME_BYTES));
        let to_last = edges * self.lap(first) / u128::from(world.max(1));
        to_last + transfer(bytes - first, self.ring.bytes_per_s) + edges * MESSAGE_NS
    }

    /// The time in which so many bytes, of a frame at most, pass all edges of the ring.
    fn lap(&self, bytes: u128) -> u128 {
        let latencies = u128::from(self.ring_latency_ns);
        let frames = u128::from(self.ring.round_ns.saturating_sub(self.ring_latency_ns));
        latencies + frames * bytes / u128::from(FRAME_BYTES)
    }

    /// The cost on a ring that is in no order: a sum goes around half as often as there are ranks, the result once
    /// more, and all of that streams.
    fn relayed(&self, world: u32, bytes: u128) -> u128 {
        let laps = u128::from(world.div_ceil(2)) + 1;
        let streamed = transfer(laps * bytes, self.ring.bytes_per_s);
        self.around(world, laps * u128::from(world), 0) + streamed
    }

    /// Messages to all others, over as many paths at the same time as there are messages.
    fn spread(&self, world: u32, latencies: u128, bytes: u128, messages: u128) -> u128 {
        let others = u128::from(world.saturating_sub(1)).max(1);
        let (inside, far_latencies, near_latencies) = match self.sites {
            0 | 1 => (others, 0, latencies),
            _ => {
                let inside = u128::from(self.site_members_min.saturating_sub(1));
                (inside.min(others), latencies, 0)
            }
        };
        let per_path = bytes / others;
        let on_a_path = bytes.checked_div(messages.min(others)).unwrap_or(0);
        let over = |paths: u128| Bytes {
            all: per_path * paths,
            on_a_path: if paths == 0 { 0 } else { on_a_path },
        };
        self.load_time(Load {
            far_latencies,
            near_latencies,
            far: over(others - inside),
            near: over(inside),
            messages,
        })
    }

    /// The size of the smallest site, at least 1.
    fn members_min(&self) -> u128 {
        u128::from(self.site_members_min.max(1))
    }

    fn other_sites(&self) -> u128 {
        u128::from(self.sites.saturating_sub(1))
    }

    /// The highest load between sites, which is that of a member of the smallest site, and inside, in the largest one.
    fn in_two_levels(&self, kind: CollectiveKind, ranks: u32, bytes: u128) -> Load {
        let world = u128::from(ranks.max(1));
        let members = self.members_min();
        let other_sites = self.other_sites();
        let strangers = world.saturating_sub(members);
        let halves = u128::from(kind.reduces()) + u128::from(kind.gathers());
        let far = Bytes {
            all: self.between_sites(kind, ranks, bytes, bytes * other_sites / world),
            on_a_path: halves * bytes / world,
        };
        // The largest site has all members that the others need not have.
        let largest = world.saturating_sub(other_sites * members).max(1);
        let several = if members == 1 { largest } else { members };
        let near = Bytes {
            all: halves * bytes * (largest - 1) / largest,
            on_a_path: if several == 1 {
                0
            } else {
                halves * bytes / several
            },
        };
        Load {
            far_latencies: halves,
            near_latencies: halves,
            far,
            near,
            messages: halves * (world - 1 + strangers.div_ceil(members)),
        }
    }

    /// The load of a member of the smallest site if all sums go to all sites: it sends those of its shards to each
    /// other site, and receives as many. Between two sites each path carries the sums of two shards at most; among more
    /// of them the estimate is that of a member which sends all to one.
    fn whole_among_sites(&self, ranks: u32, bytes: u128) -> Load {
        let members = self.members_min();
        let other_sites = self.other_sites();
        let world = u128::from(ranks.max(1));
        let each_site = bytes / members;
        let load = self.in_two_levels(CollectiveKind::AllReduce, ranks, bytes);
        Load {
            far_latencies: 1,
            far: Bytes {
                all: other_sites * each_site,
                on_a_path: match self.sites {
                    0 | 1 => 0,
                    2 => 2 * bytes / world,
                    _ => each_site,
                },
            },
            messages: 2 * (world - 1) + other_sites * world.div_ceil(members),
            ..load
        }
    }

    /// What a member of the smallest site sends to other sites or receives from them, whichever is more. In a reduce,
    /// the sums of the shards of other sites leave it; in a gather, their results come to it, which is as much.
    ///
    /// `results` is what it sends in a gather. In a reduce it receives as many bytes of sums, in a ring of sites if the
    /// sites before and behind it are of equal size.
    fn between_sites(&self, kind: CollectiveKind, world: u32, bytes: u128, results: u128) -> u128 {
        let world = u128::from(world.max(1));
        let members = self.members_min();
        let of_other_sites = bytes * world.saturating_sub(members) / world / members;
        match (kind.reduces(), kind.gathers()) {
            (false, false) => 0,
            (true, false) | (false, true) => of_other_sites,
            (true, true) => of_other_sites + results,
        }
    }

    /// In two levels, from site to site. A chunk takes the latencies of its way, and follows its first frame. The way
    /// out of a member of the smallest site, which sends the most, has to carry all of its chunks, one connection after
    /// the other, and the last byte then takes its latency.
    fn around_sites(&self, kind: CollectiveKind, world: u32, bytes: u128) -> u128 {
        let Load {
            near_latencies: halves,
            near,
            messages,
            ..
        } = self.in_two_levels(kind, world, bytes);
        // Results of all shards leave it but those of the next site, which is taken as of mean size.
        let others = self.other_sites();
        let results = bytes * others / (others + 1) / self.members_min();
        let one_way = self.between_sites(kind, world, bytes, results);
        let hops = halves * self.other_sites();
        let share = bytes / u128::from(world.max(1));
        let first = share.min(SITE_RING_PAYLOAD_MAX as u128);
        let over_one_path = |bytes: u128| {
            self.far.time(Bytes {
                all: bytes,
                on_a_path: bytes,
            })
        };
        let of_chunk =
            hops * (self.far.latency_ns() + over_one_path(first)) + over_one_path(share - first);
        let of_member = over_one_path(one_way) + self.far.latency_ns();
        let inside = self.near.time(near) * MEETING_PERCENT / 100;
        of_chunk.max(of_member).max(inside)
            + halves * self.near.latency_ns()
            + messages * MESSAGE_NS
    }

    /// A broadcast among the sites, and inside the largest one, which has all members that the others need not have.
    fn down_two_levels(&self, world: u32, bytes: u128) -> u128 {
        let sites = self.sites.max(1);
        let others = (sites - 1).saturating_mul(self.site_members_min.max(1));
        let among_sites = Branches::of(sites, self.far);
        let inside = Branches::of(world.saturating_sub(others).max(1), self.near);
        // The levels overlap, but the frame that passes one of them first or last passes the other by itself.
        let frame = bytes.min(u128::from(FRAME_BYTES));
        let (far, near) = (among_sites.transfer(bytes), inside.transfer(bytes));
        let alone = among_sites.transfer(frame).min(inside.transfer(frame));
        among_sites.latency_ns() + inside.latency_ns() + far.max(near) + alone
    }

    fn load_time(&self, load: Load) -> u128 {
        load.far_latencies * self.far.latency_ns()
            + load.near_latencies * self.near.latency_ns()
            + self.far.time(load.far).max(self.near.time(load.near)) * MEETING_PERCENT / 100
            + load.messages * MESSAGE_NS
    }
}

/// A tree of so many ranks over paths of one kind. The root has the most children, and sends to all of them at the same
/// time.
#[derive(Clone, Copy)]
struct Branches {
    depth: u128,
    children: u128,
    path: PathCosts,
}

impl Branches {
    fn of(ranks: u32, path: PathCosts) -> Self {
        Self {
            depth: u128::from(ranks.max(1).ilog2()),
            children: u128::from(tree::children(0, ranks)),
            path,
        }
    }

    fn time(self, bytes: u128) -> u128 {
        self.latency_ns() + self.transfer(bytes)
    }

    /// The latencies on the longest way down, and the time of its messages.
    fn latency_ns(self) -> u128 {
        self.depth * self.path.latency_ns() + self.children * MESSAGE_NS
    }

    /// The time in which the root sends to all its children.
    fn transfer(self, bytes: u128) -> u128 {
        self.path.time(Bytes {
            all: self.children * bytes,
            on_a_path: bytes.min(self.children * bytes),
        })
    }
}

impl PathCosts {
    fn latency_ns(self) -> u128 {
        u128::from(self.slowest.latency_ns())
    }

    fn time(self, bytes: Bytes) -> u128 {
        let of_member = transfer(bytes.all, self.member_bytes_per_s);
        of_member.max(transfer(bytes.on_a_path, self.slowest.bytes_per_s))
    }
}

/// The transfer time in nanoseconds.
fn transfer(bytes: u128, bytes_per_s: u64) -> u128 {
    bytes.saturating_mul(1_000_000_000) / u128::from(bytes_per_s.max(1))
}
