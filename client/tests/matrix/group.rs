//! The same peers twice, in this process: side by side and far apart; and what comes out of their reduces.

use pccl::{Communicator, Element, Reduce};

use crate::support::lanes::{DISTANCES, Distance};
use crate::support::{Run, together_with};

/// Lanes of each edge.
pub(crate) const LANES: u16 = 2;

/// Two rings of as many peers each: of one that reduces over a single lane because it is on one machine,
/// and of one that does not know that it is.
pub(crate) struct Group {
    rings: [Ring; 2],
}

/// Peers in the order of their ranks.
struct Ring {
    // Dropped after the peers.
    peers: Vec<Communicator>,
    _run: Run,
}

/// Where the result goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    InPlace,
    OutOfPlace,
}

pub(crate) const PLACES: [Place; 2] = [Place::InPlace, Place::OutOfPlace];

impl Group {
    pub(crate) fn new(world: usize) -> Self {
        Self {
            rings: DISTANCES.map(|distance| Ring::new(world, distance)),
        }
    }

    pub(crate) fn world(&self) -> usize {
        self.rings[0].peers.len()
    }

    /// Reduces what each rank contributes. Fails where the ranks do not have the same bits, in place
    /// and out of place, near and far, or where a contribution that was only to be read has changed.
    /// The result.
    pub(crate) fn reduce<T: Element>(&mut self, reduce: Reduce, contributions: &[&[T]]) -> Vec<T> {
        let mut results = Vec::new();
        for ring in &mut self.rings {
            for place in PLACES {
                results.extend(ring.reduce_at(place, reduce, contributions));
            }
        }
        let first = results.swap_remove(0);
        for other in results {
            let same = bytes(&first) == bytes(&other);
            assert!(same, "results differ: {reduce:?} of {}", T::TYPE);
        }
        first
    }
}

impl Ring {
    fn new(world: usize, distance: Distance) -> Self {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(world);
        peers.sort_by_key(Communicator::rank);
        Self { peers, _run: run }
    }

    fn reduce_at<T: Element>(
        &mut self,
        place: Place,
        reduce: Reduce,
        contributions: &[&[T]],
    ) -> Vec<Vec<T>> {
        together_with(&mut self.peers, |rank, peer| {
            let own = contributions[rank];
            match place {
                Place::InPlace => {
                    let mut buffer = own.to_vec();
                    peer.all_reduce(&mut buffer, reduce).unwrap();
                    buffer
                }
                Place::OutOfPlace => {
                    let mut result = vec![T::zeroed(); own.len()];
                    peer.all_reduce_into(own, &mut result, reduce).unwrap();
                    result
                }
            }
        })
    }
}

/// The bits of all elements.
pub(crate) fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}
