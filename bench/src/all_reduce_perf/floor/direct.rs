//! The direct exchange: every rank sends every other one its part, adds the parts that it has received in
//! the order of the ranks, and sends what came of it to all others. Two latencies, however many ranks.
//!
//! A connection carries the part of the rank at its other end, and then the chunk of the rank that sends.
//! A part is added as soon as a piece of it is there from all ranks, and goes out at once. In place nothing
//! is overwritten before it was sent: a rank that sends a finished piece has received it from all others.
//!
//! With nothing to send, a rank waits in `recv` for one of those that it needs in any case. Nobody waits for
//! it then: all that it has for the others is on its way.

use std::ops::Range;

use pccl::ReduceOp;
use pccl_kernels::{KernelError, divide, reduce, reduce_into};

use super::super::edges::Edges;
use super::super::number::{Number, kernel_element, kernel_op};
use super::{FloorError, Place};

/// One all-reduce on its way between all ranks.
pub(super) struct Direct<'a, T> {
    place: Place,
    source: Option<&'a [T]>,
    result: &'a mut [T],
    /// A slot of the size of a piece for each other rank, in the order of the ranks.
    scratch: &'a mut [T],
    /// Elements of the own chunk that are added up.
    combined: usize,
    /// Bytes, by connection.
    sent: Vec<usize>,
    received: Vec<usize>,
}

impl<'a, T: Number> Direct<'a, T> {
    pub(super) fn new(
        place: Place,
        source: Option<&'a [T]>,
        result: &'a mut [T],
        scratch: &'a mut [T],
    ) -> Self {
        let others = place.peers - 1;
        Self {
            place,
            source,
            result,
            scratch,
            combined: 0,
            sent: vec![0; others],
            received: vec![0; others],
        }
    }

    pub(super) fn run(&mut self, edges: &mut Edges) -> Result<(), FloorError> {
        edges.block_receives(true)?;
        loop {
            let is_blocked = self.send(edges)?;
            if self.is_over() {
                return Ok(());
            }
            let ready = if is_blocked {
                edges.wait_for_any(|to| self.sendable(to) > 0, |from| self.wanted(from) > 0)?
            } else {
                self.needed().into_iter().collect()
            };
            for from in ready {
                self.receive(edges, from)?;
            }
            self.combine()?;
        }
    }

    fn is_over(&self) -> bool {
        let own = self.own_bytes();
        let all_sent =
            (0..self.sent.len()).all(|to| self.sent[to] == self.bytes(self.next(to)) + own);
        let mut others = 0..self.received.len();
        all_sent && others.all(|from| self.received[from] == own + self.bytes(self.previous(from)))
    }

    /// The rank that this connection leads to.
    const fn next(&self, to: usize) -> usize {
        (self.place.rank + 1 + to) % self.place.peers
    }

    /// The rank that this connection comes from.
    const fn previous(&self, from: usize) -> usize {
        (self.place.rank + self.place.peers - 1 - from) % self.place.peers
    }

    fn chunk(&self, rank: usize) -> Range<usize> {
        self.place.chunk(rank, self.result.len())
    }

    /// Of a rank's chunk.
    fn bytes(&self, rank: usize) -> usize {
        self.chunk(rank).len() * size_of::<T>()
    }

    fn own_bytes(&self) -> usize {
        self.bytes(self.place.rank)
    }

    /// Elements of a slot.
    const fn piece(&self) -> usize {
        self.scratch.len() / (self.place.peers - 1)
    }

    /// Sends a piece on each connection by turns, until no more fits. Is there anything left to send?
    fn send(&mut self, edges: &mut Edges) -> Result<bool, FloorError> {
        loop {
            let (mut has_moved, mut is_blocked) = (false, false);
            for to in 0..self.sent.len() {
                let sendable = self.sendable(to).min(self.piece() * size_of::<T>());
                if sendable == 0 {
                    continue;
                }
                match edges.send(to, &self.rest(to)[..sendable])? {
                    Some(bytes) => {
                        self.sent[to] += bytes;
                        has_moved = true;
                    }
                    None => is_blocked = true,
                }
            }
            if !has_moved {
                return Ok(is_blocked);
            }
        }
    }

    /// Bytes that are there to be sent on this connection: of a part, or of the own chunk.
    fn sendable(&self, to: usize) -> usize {
        let part = self.bytes(self.next(to));
        let sent = self.sent[to];
        if sent < part {
            part - sent
        } else {
            part + self.combined * size_of::<T>() - sent
        }
    }

    /// The part, or the own chunk, from where this connection is.
    fn rest(&self, to: usize) -> &[u8] {
        let rank = self.next(to);
        let (part, sent) = (self.bytes(rank), self.sent[to]);
        if sent < part {
            let from: &[T] = self.source.unwrap_or(self.result);
            &bytemuck::cast_slice(&from[self.chunk(rank)])[sent..]
        } else {
            &bytemuck::cast_slice(&self.result[self.chunk(self.place.rank)])[sent - part..]
        }
    }

    /// A connection that nothing goes on without: parts come before what the others make of them.
    fn needed(&self) -> Option<usize> {
        let others = || 0..self.received.len();
        let own = self.own_bytes();
        let mut parts = others().filter(|from| self.received[*from] < own);
        let part = parts.find(|from| self.wanted(*from) > 0);
        part.or_else(|| others().find(|from| self.wanted(*from) > 0))
    }

    /// Bytes that there is room for: the rest of a slot, or of another rank's chunk.
    fn wanted(&self, from: usize) -> usize {
        let (own, received) = (self.own_bytes(), self.received[from]);
        if received < own {
            self.piece_end() * size_of::<T>() - received
        } else {
            own + self.bytes(self.previous(from)) - received
        }
    }

    /// Where the piece of the own chunk ends that is added up next, in elements.
    fn piece_end(&self) -> usize {
        let own = self.chunk(self.place.rank).len();
        own.min(self.combined + self.piece())
    }

    fn receive(&mut self, edges: &mut Edges, from: usize) -> Result<(), FloorError> {
        let (rank, wanted) = (self.previous(from), self.wanted(from));
        let (own, received) = (self.own_bytes(), self.received[from]);
        let into: &mut [u8] = if received < own {
            let start = received - self.combined * size_of::<T>();
            let (slot, piece) = (rank - usize::from(rank > self.place.rank), self.piece());
            let slot = &mut self.scratch[slot * piece..][..piece];
            &mut bytemuck::cast_slice_mut(slot)[start..start + wanted]
        } else {
            let (chunk, start) = (self.chunk(rank), received - own);
            let piece = wanted.min(self.piece() * size_of::<T>());
            &mut bytemuck::cast_slice_mut(&mut self.result[chunk])[start..start + piece]
        };
        self.received[from] += edges.receive(from, into)?.unwrap_or(0);
        Ok(())
    }

    /// Adds up a piece, if it is there from all ranks.
    fn combine(&mut self) -> Result<(), KernelError> {
        let end = self.piece_end();
        let mut received = self.received.iter();
        let is_there = received.all(|bytes| *bytes >= end * size_of::<T>());
        if is_there && end > self.combined {
            self.add_slots(end - self.combined)?;
            self.combined = end;
        }
        Ok(())
    }

    /// In the order of the ranks: what the lower ones have sent becomes one, then the own contribution is
    /// added to it, then what the higher ones have sent.
    fn add_slots(&mut self, count: usize) -> Result<(), KernelError> {
        let (element, op) = (kernel_element(T::TYPE), kernel_op(self.place.op));
        let start = self.chunk(self.place.rank).start + self.combined;
        let place = start..start + count;
        let piece = self.piece();
        let slots = self.scratch.chunks_mut(piece);
        let mut slots = slots.map(|slot| bytemuck::cast_slice_mut(&mut slot[..count]));
        let first: &mut [u8] = slots.next().unwrap_or_default();
        // The first slot is the lowest rank's, or that of the rank after this one if this is the lowest.
        for lower in slots.by_ref().take(self.place.rank.saturating_sub(1)) {
            reduce(element, op, first, lower)?;
        }
        let into = bytemuck::cast_slice_mut(&mut self.result[place.clone()]);
        match self.source {
            Some(source) => {
                reduce_into(
                    element,
                    op,
                    into,
                    first,
                    bytemuck::cast_slice(&source[place]),
                )?;
            }
            None => reduce(element, op, into, first)?,
        }
        for higher in slots {
            reduce(element, op, into, higher)?;
        }
        if self.place.op == ReduceOp::Avg {
            divide(
                element,
                into,
                u32::try_from(self.place.peers).unwrap_or(u32::MAX),
            )?;
        }
        Ok(())
    }
}
