//! The same peers twice, in this process: side by side and far apart; and what comes out of their reduces.

use pccl::{Communicator, Element, Gather, Reduce};

use crate::reference::is_added_alike;
use crate::support::lanes::{DISTANCES, Distance};
use crate::support::{Run, together_with};

/// Lanes of each edge.
pub(crate) const LANES: u16 = 2;

/// A buffer of more bytes takes its time. Each such case is reduced in place in one ring and in another way in the
/// other, and the next case by other ones.
const COSTLY_MIN: usize = 1024 * 1024;

/// Two rings of as many peers each: of one that reduces over a single lane because it is on one machine,
/// and of one that does not know that it is.
pub(crate) struct Group {
    rings: [Ring; 2],
    costly: usize,
}

/// Peers in the order of their ranks.
struct Ring {
    // Dropped after the peers.
    peers: Vec<Communicator>,
    _run: Run,
}

/// How the result comes about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    InPlace,
    OutOfPlace,
    /// In place, as shards that are scattered, and then gathered.
    InHalves,
}

pub(crate) const WAYS: [Way; 3] = [Way::InPlace, Way::OutOfPlace, Way::InHalves];

impl Group {
    pub(crate) fn new(world: usize) -> Self {
        Self {
            rings: DISTANCES.map(|distance| Ring::new(world, distance)),
            costly: 0,
        }
    }

    pub(crate) fn world(&self) -> usize {
        self.rings[0].peers.len()
    }

    /// Reduces what each rank contributes. Fails if the ranks do not have the same bits, in place
    /// and out of place and in two halves, near and far, or if what was only to be read, or what was not to be
    /// scattered, has changed. The result.
    pub(crate) fn reduce<T: Element>(&mut self, reduce: Reduce, contributions: &[&[T]]) -> Vec<T> {
        let ways = self.ways(size_of_val(contributions[0]));
        let mut results = Vec::new();
        for (ring, ways) in self.rings.iter_mut().zip(ways) {
            for way in ways {
                let ends = ring.reduce_by(*way, reduce, contributions);
                assert_same(&ends, reduce);
                if is_added_alike::<T>(*way, reduce, contributions) {
                    results.extend(ends);
                }
            }
        }
        assert_same(&results, reduce);
        results.swap_remove(0)
    }

    /// In which ways each ring reduces so many bytes.
    fn ways(&mut self, bytes: usize) -> [&'static [Way]; 2] {
        if bytes < COSTLY_MIN {
            return [&WAYS; 2];
        }
        let turn = self.costly;
        self.costly += 1;
        let other = turn / 2 % WAYS.len();
        let mut ways = [&WAYS[..1], &WAYS[other..=other]];
        ways.rotate_left(turn % 2);
        ways
    }
}

fn assert_same<T: Element>(results: &[Vec<T>], reduce: Reduce) {
    let mut pairs = results.windows(2);
    let same = pairs.all(|pair| bytes(&pair[0]) == bytes(&pair[1]));
    assert!(same, "results differ: {reduce:?} of {}", T::TYPE);
}

impl Ring {
    fn new(world: usize, distance: Distance) -> Self {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(world);
        peers.sort_by_key(Communicator::rank);
        // Then shards are those of an all-reduce.
        assert!(peers.is_sorted_by_key(Communicator::peer_id));
        Self { peers, _run: run }
    }

    fn reduce_by<T: Element>(
        &mut self,
        way: Way,
        reduce: Reduce,
        contributions: &[&[T]],
    ) -> Vec<Vec<T>> {
        together_with(&mut self.peers, |rank, peer| {
            let own = contributions[rank];
            match way {
                Way::InPlace => {
                    let mut buffer = own.to_vec();
                    peer.all_reduce(&mut buffer, reduce).unwrap();
                    buffer
                }
                Way::OutOfPlace => {
                    let mut result = vec![T::zeroed(); own.len()];
                    peer.all_reduce_into(own, &mut result, reduce).unwrap();
                    result
                }
                Way::InHalves => {
                    let mut buffer = own.to_vec();
                    let scattered = peer.reduce_scatter(&mut buffer, reduce).unwrap();
                    let shard = scattered.shard.range();
                    for rest in [0..shard.start, shard.end..own.len()] {
                        assert!(bytes(&buffer[rest.clone()]) == bytes(&own[rest]));
                    }
                    let gather = Gather::of(scattered.shard);
                    peer.all_gather(&mut buffer, gather).unwrap();
                    buffer
                }
            }
        })
    }
}

/// The bits of all elements.
pub(crate) fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}
