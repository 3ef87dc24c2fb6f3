//! The floor: a collective by one thread over plain sockets, with nothing but the data on them.
//!
//! There are three ways of it, of which the fastest counts, row by row: `ring` streams around a ring and
//! sleeps only when neither direction moves, `blocking` is the same ring that waits in `recv` when it has
//! nothing to send, and `direct` sends every rank its part and takes two latencies. `pass` is what the two
//! rings have in common. Additions are the kernels', so that only the way of the bytes differs from the
//! library's.

mod blocking;
mod direct;
mod pass;
mod ring;
mod way;

use std::io;

use pccl::ReduceOp;
use pccl_kernels::KernelError;

use super::collective::{Collective, shard};
use super::edges::Edges;
use super::number::Number;
use direct::Direct;
use pass::Pass;

pub(crate) use way::{Exchange, Way};

/// Why a collective has ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FloorError {
    #[error("{0}")]
    Connection(#[from] io::Error),
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

/// This rank's place among the others, and its memory between calls.
#[derive(Debug)]
pub(crate) struct Floor<T> {
    rank: usize,
    peers: usize,
    edges: Edges,
    /// Where pieces land that have to be added.
    scratch: Vec<T>,
}

impl<T: Number> Floor<T> {
    pub(crate) fn new(rank: usize, peers: usize, edges: Edges) -> Self {
        Self {
            rank,
            peers,
            edges,
            scratch: Vec::new(),
        }
    }

    /// Reduces the `source` of all ranks into `result`; without a source, what `result` holds. A reduce-scatter leaves
    /// its shard there, and beside it anything. What reduces nothing is in place. All but the all-reduce is an exchange
    /// around a ring. Blocks until this rank has sent and received everything. All ranks go the same way.
    pub(crate) fn run(
        &mut self,
        way: Way,
        (collective, op): (Collective, ReduceOp),
        source: Option<&[T]>,
        result: &mut [T],
    ) -> Result<(), FloorError> {
        let place = Place {
            collective,
            op,
            rank: self.rank,
            peers: self.peers,
        };
        let piece = way.piece_bytes / size_of::<T>();
        let slots = match way.exchange {
            Exchange::Ring | Exchange::Blocking => 1,
            Exchange::Direct => self.peers - 1,
        };
        self.scratch.resize(slots * piece, T::whole(0));
        let (edges, scratch) = (&mut self.edges, &mut self.scratch);
        match way.exchange {
            Exchange::Ring => ring::run(&mut Pass::new(place, source, result, scratch), edges),
            Exchange::Blocking => {
                blocking::run(&mut Pass::new(place, source, result, scratch), edges)
            }
            Exchange::Direct => Direct::new(place, source, result, scratch).run(edges),
        }
    }
}

/// What is computed, and where this rank stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    collective: Collective,
    op: ReduceOp,
    rank: usize,
    peers: usize,
}

impl Place {
    /// The elements of one of as many chunks as there are ranks.
    fn chunk(&self, chunk: usize, elements: usize) -> std::ops::Range<usize> {
        shard((chunk, self.peers), elements)
    }
}
