//! Every collective by every algorithm that it can take, among peers of one, two and three sites.

use pccl::half::{bf16, f16};
use pccl::{Algorithm, Broadcast, Communicator, Element, Gather, Pattern};

use crate::group::bytes;
use crate::number::Number;
use crate::plain::contributions;
use crate::reference::at_once;
use crate::support::{Run, begin, join_as, together_with};
use crate::{OPS, Op};

pub(crate) const WORLDS: [usize; 6] = [1, 2, 3, 4, 5, 8];

/// Elements of the largest buffer. It is several stripes, and not cut into equal shards.
pub(crate) const MOST: usize = 203_530;

/// Bytes of the largest buffer that travels whole, and of the largest one that takes rounds.
const WHOLE_MAX: usize = 32 * 1024;
const ROUNDS_MAX: usize = 128 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
}

/// Peers at so many sites, whose sizes differ.
pub(crate) struct Peers {
    // Dropped before the run.
    peers: Vec<Communicator>,
    _run: Run,
    two_levels: bool,
    site_ring: bool,
}

impl Peers {
    pub(crate) fn at(sites: usize, world: usize) -> Self {
        const NAMES: [&str; 3] = ["eu", "us", "asia"];
        // The first site has twice as many as the last.
        let site = |index: usize| NAMES[[0, 1, 0, 2][index % 4] % sites];
        let run = Run::new();
        let mut peers = vec![begin(run.builder().site(site(0)))];
        for index in 1..world {
            join_as(run.builder().site(site(index)), &mut peers);
        }
        Self {
            peers,
            _run: run,
            two_levels: sites > 1 && world > sites,
            site_ring: sites > 2 && world > sites,
        }
    }

    pub(crate) fn world(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn all(&mut self) -> &mut [Communicator] {
        &mut self.peers
    }

    /// Whether a large buffer can be reduced by it.
    pub(crate) fn can_reduce_by(&self, algorithm: Algorithm) -> bool {
        self.can_take(algorithm, Kind::AllReduce, usize::MAX)
    }

    /// Whether a collective can take it.
    fn can_take(&self, algorithm: Algorithm, kind: Kind, bytes: usize) -> bool {
        let has_mesh = self.world() > 2;
        match (kind, algorithm) {
            (Kind::Broadcast, Algorithm::Chain) => true,
            (Kind::Broadcast, Algorithm::Tree) => has_mesh,
            (Kind::Broadcast, Algorithm::TwoLevel) => has_mesh && self.two_levels,
            (Kind::Broadcast, _) | (_, Algorithm::Chain | Algorithm::Tree) => false,
            (_, Algorithm::Ring) => true,
            (_, Algorithm::Direct) => has_mesh,
            (_, Algorithm::Circulant) => has_mesh && bytes <= ROUNDS_MAX,
            (_, Algorithm::TwoLevel) => has_mesh && self.two_levels,
            (_, Algorithm::TwoLevelRing) => has_mesh && self.site_ring,
            (Kind::AllReduce, Algorithm::TwoLevelWhole) => has_mesh && self.two_levels,
            (_, Algorithm::TwoLevelWhole) => false,
            (Kind::AllReduce, Algorithm::Whole(pattern)) => {
                (has_mesh || pattern == Pattern::Ring) && bytes <= WHOLE_MAX
            }
            // No reduce here is ordered.
            (_, Algorithm::Whole(_) | Algorithm::Relay) => false,
        }
    }

    /// Runs a collective on these contributions. What is reduced has to become this.
    fn check<T: Number>(
        &mut self,
        (kind, op, wish): (Kind, Op, Algorithm),
        contributions: &[&[T]],
        reduced: &[T],
    ) {
        let count = contributions[0].len();
        let granted = self.can_take(wish, kind, size_of_val(contributions[0]));
        let what = format!(
            "{kind:?} {op:?} {wish} of {count} {} by {}",
            T::TYPE,
            self.world()
        );
        // Each peer in turn, as counts differ.
        let of_root = count % self.world();
        let root = self.peers[of_root].peer_id();
        together_with(&mut self.peers, |index, peer| {
            let mut buffer = contributions[index].to_vec();
            let shard = peer.shard(count);
            let (taken, expected) = match kind {
                Kind::AllReduce => {
                    let reduce = op.reduce().algorithm(wish);
                    let report = peer.all_reduce(&mut buffer, reduce).unwrap();
                    (report.algorithm, reduced.to_vec())
                }
                Kind::ReduceScatter => {
                    let reduce = op.reduce().algorithm(wish);
                    let scattered = peer.reduce_scatter(&mut buffer, reduce).unwrap();
                    assert_eq!(scattered.shard, shard, "{what}");
                    let mut expected = contributions[index].to_vec();
                    shard
                        .of_mut(&mut expected)
                        .copy_from_slice(&reduced[shard.range()]);
                    (scattered.report.algorithm, expected)
                }
                Kind::AllGather => {
                    let gather = Gather::of(shard).algorithm(wish);
                    let report = peer.all_gather(&mut buffer, gather).unwrap();
                    (report.algorithm, gathered(contributions))
                }
                Kind::Broadcast => {
                    let from = Broadcast::from(root).algorithm(wish);
                    let report = peer.broadcast(&mut buffer, from).unwrap();
                    (report.algorithm, contributions[of_root].to_vec())
                }
            };
            if granted {
                assert_eq!(taken, wish, "{what}");
            }
            assert!(bytes(&buffer) == bytes(&expected), "{what}: peer {index}");
        });
    }

    fn check_all<T: Number>(&mut self, wish: Algorithm) {
        let world = self.world();
        let own = contributions(world, MOST, T::exact);
        for count in [0, 1, world - 1, world, 1025, MOST] {
            // All types and operations are cut alike, so a few of them are enough for what takes its time.
            let is_costly = count == MOST && size_of::<T>() != 2;
            let ops = if is_costly { &OPS[..1] } else { &OPS[..] };
            let own = first(&own, count);
            for op in ops {
                let reduced = at_once(*op, &own);
                for kind in [Kind::AllReduce, Kind::ReduceScatter] {
                    self.check((kind, *op, wish), &own, &reduced);
                }
            }
            self.check((Kind::AllGather, Op::Sum, wish), &own, &[]);
            self.check((Kind::Broadcast, Op::Sum, spread_by(wish)), &own, &[]);
        }
    }

    fn check_types(&mut self, wish: Algorithm) {
        self.check_all::<u8>(wish);
        self.check_all::<i8>(wish);
        self.check_all::<u16>(wish);
        self.check_all::<i16>(wish);
        self.check_all::<u32>(wish);
        self.check_all::<i32>(wish);
        self.check_all::<u64>(wish);
        self.check_all::<i64>(wish);
        self.check_all::<f16>(wish);
        self.check_all::<bf16>(wish);
        self.check_all::<f32>(wish);
        self.check_all::<f64>(wish);
    }
}

/// By what a broadcast travels where other collectives travel by this.
pub(crate) fn spread_by(wish: Algorithm) -> Algorithm {
    match wish {
        Algorithm::TwoLevel => wish,
        Algorithm::Direct | Algorithm::Circulant => Algorithm::Tree,
        _ => Algorithm::Chain,
    }
}

/// The first so many elements of each contribution.
fn first<T>(own: &[Vec<T>], count: usize) -> Vec<&[T]> {
    own.iter().map(|own| &own[..count]).collect()
}

/// The shards of all, longer ones first, in the order of the peers.
pub(crate) fn gathered<T: Element>(contributions: &[&[T]]) -> Vec<T> {
    let (world, count) = (contributions.len(), contributions[0].len());
    let mut all = Vec::new();
    for (index, own) in contributions.iter().enumerate() {
        let length = count / world + usize::from(index < count % world);
        all.extend_from_slice(&own[all.len()..all.len() + length]);
    }
    all
}

fn flat(algorithm: Algorithm) {
    for world in WORLDS {
        Peers::at(1, world).check_types(algorithm);
    }
}

#[test]
fn around_the_ring_every_collective_gives_what_the_definition_says() {
    flat(Algorithm::Ring);
}

#[test]
fn directly_every_collective_gives_what_the_definition_says() {
    flat(Algorithm::Direct);
}

#[test]
fn in_rounds_every_collective_gives_what_the_definition_says() {
    flat(Algorithm::Circulant);
}

#[test]
fn whole_in_each_pattern_an_all_reduce_gives_what_the_definition_says() {
    for pattern in [Pattern::Ring, Pattern::Mesh, Pattern::Circulant] {
        for world in WORLDS {
            let own = contributions(world, 1025, f32::exact);
            let mut peers = Peers::at(1, world);
            for (count, op) in [0, 1, world - 1, world, 1025].into_iter().zip(OPS) {
                let wish = Algorithm::Whole(pattern);
                let own = first(&own, count);
                peers.check((Kind::AllReduce, op, wish), &own, &at_once(op, &own));
            }
        }
    }
}

#[test]
fn in_two_levels_among_two_sites_every_collective_gives_what_the_definition_says() {
    for world in WORLDS {
        Peers::at(2, world).check_types(Algorithm::TwoLevel);
    }
}

#[test]
fn in_two_levels_among_three_sites_every_collective_gives_what_the_definition_says() {
    for world in WORLDS {
        Peers::at(3, world).check_types(Algorithm::TwoLevel);
    }
}

#[test]
fn with_all_sums_at_all_sites_an_all_reduce_gives_what_the_definition_says() {
    for (sites, world) in [2, 3]
        .into_iter()
        .flat_map(|sites| WORLDS.map(|world| (sites, world)))
    {
        Peers::at(sites, world).check_types(Algorithm::TwoLevelWhole);
    }
}
