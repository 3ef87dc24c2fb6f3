//! What the rings have in common: which bytes are received and sent, and where they are added.
//!
//! In step `s` of `2(n-1)` a rank sends chunk `rank - s - 1` and receives chunk `rank - s - 2`. In the
//! first half a piece that was received is added to the rank's own contribution, in the second half
//! it is received into its final place. What a step sends is what the step before has received, and
//! it goes out as soon as it is there. A reduce-scatter is the first half, an all-gather the second; a broadcast
//! is one step of it with one chunk, which the root begins and the rank before it ends.

use std::ops::Range;

use pccl::ReduceOp;
use pccl_kernels::{KernelError, divide, reduce, reduce_into};

use super::super::collective::Collective;
use super::super::edges::{Edges, NEIGHBOUR};
use super::super::number::{Number, kernel_element, kernel_op};
use super::{FloorError, Place};

/// How far one direction is.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    step: usize,
    /// Bytes of the step's chunk that are done.
    done: usize,
}

impl Cursor {
    /// `bytes` more of a chunk of `total` are done.
    fn advance(&mut self, bytes: usize, total: usize) {
        self.done += bytes;
        if self.done == total {
            self.step += 1;
            self.done = 0;
        }
    }
}

/// One all-reduce on its way around a ring.
pub(super) struct Pass<'a, T> {
    place: Place,
    source: Option<&'a [T]>,
    result: &'a mut [T],
    /// Of the size of a piece.
    scratch: &'a mut [T],
    /// Bytes of the current piece that have been received into it.
    in_scratch: usize,
    sending: Cursor,
    receiving: Cursor,
    /// The steps behind the last ones in which it sends and receives.
    ends: (usize, usize),
}

impl<'a, T: Number> Pass<'a, T> {
    pub(super) fn new(
        place: Place,
        source: Option<&'a [T]>,
        result: &'a mut [T],
        scratch: &'a mut [T],
    ) -> Self {
        let (sends, receives) = steps(place);
        let first = |steps: &Range<usize>| Cursor {
            step: steps.start,
            done: 0,
        };
        Self {
            place,
            source,
            result,
            scratch,
            in_scratch: 0,
            sending: first(&sends),
            receiving: first(&receives),
            ends: (sends.end, receives.end),
        }
    }

    /// Has everything been sent and received?
    pub(super) fn is_over(&self) -> bool {
        self.has_sent() && !self.receives()
    }

    /// Is there anything left to receive?
    pub(super) fn receives(&self) -> bool {
        self.receiving.step < self.ends.1
    }

    const fn has_sent(&self) -> bool {
        self.sending.step >= self.ends.0
    }

    /// Has anything been received?
    pub(super) fn receive(&mut self, edges: &mut Edges) -> Result<bool, FloorError> {
        if !self.receives() {
            return Ok(false);
        }
        let chunk = self.chunk(self.receiving.step + 1);
        let total = size_of_val(&self.result[chunk.clone()]);
        if total == 0 {
            self.receiving.advance(0, 0);
            return Ok(true);
        }
        let left = total - self.receiving.done;
        if self.place.collective.reduces() && self.receiving.step < self.place.peers - 1 {
            self.receive_to_add(edges, chunk, left)
        } else {
            self.receive_into_place(edges, chunk, left)
        }
    }

    fn receive_to_add(
        &mut self,
        edges: &mut Edges,
        chunk: Range<usize>,
        left: usize,
    ) -> Result<bool, FloorError> {
        let piece = size_of_val(self.scratch).min(left);
        let scratch = bytemuck::cast_slice_mut(self.scratch);
        let Some(bytes) = edges.receive(NEIGHBOUR, &mut scratch[self.in_scratch..piece])? else {
            return Ok(false);
        };
        self.in_scratch += bytes;
        if self.in_scratch == piece {
            self.in_scratch = 0;
            let (from, count) = (self.receiving.done / size_of::<T>(), piece / size_of::<T>());
            self.add(chunk.start + from, count)?;
            self.receiving.advance(piece, self.receiving.done + left);
        }
        Ok(true)
    }

    /// The first `count` elements of the scratch and this rank's contribution at `start` become one.
    fn add(&mut self, start: usize, count: usize) -> Result<(), KernelError> {
        let (element, op) = (kernel_element(T::TYPE), kernel_op(self.place.op));
        let place = start..start + count;
        let received = bytemuck::cast_slice(&self.scratch[..count]);
        let into = bytemuck::cast_slice_mut(&mut self.result[place.clone()]);
        match self.source {
            Some(source) => {
                let own = bytemuck::cast_slice(&source[place]);
                reduce_into(element, op, into, received, own)?;
            }
            None => reduce(element, op, into, received)?,
        }
        let is_last = self.receiving.step == self.place.peers - 2;
        if is_last && self.place.op == ReduceOp::Avg {
            divide(
                element,
                into,
                u32::try_from(self.place.peers).unwrap_or(u32::MAX),
            )?;
        }
        Ok(())
    }

    fn receive_into_place(
        &mut self,
        edges: &mut Edges,
        chunk: Range<usize>,
        left: usize,
    ) -> Result<bool, FloorError> {
        let piece = size_of_val(self.scratch).min(left);
        let place = bytemuck::cast_slice_mut(&mut self.result[chunk]);
        let done = self.receiving.done;
        let Some(bytes) = edges.receive(NEIGHBOUR, &mut place[done..done + piece])? else {
            return Ok(false);
        };
        self.receiving.advance(bytes, done + left);
        Ok(true)
    }

    /// Has anything been sent?
    pub(super) fn send(&mut self, edges: &mut Edges) -> Result<bool, FloorError> {
        if self.has_sent() {
            return Ok(false);
        }
        let chunk = self.chunk(self.sending.step);
        let total = size_of_val(&self.result[chunk.clone()]);
        if total == 0 {
            self.sending.advance(0, 0);
            return Ok(true);
        }
        let bytes = self.sendable().min(size_of_val(self.scratch));
        if bytes == 0 {
            return Ok(false);
        }
        let from: &[T] = match self.source {
            Some(source) if self.sending.step == 0 => source,
            Some(_) | None => self.result,
        };
        let done = self.sending.done;
        let chunk: &[u8] = bytemuck::cast_slice(&from[chunk]);
        let Some(bytes) = edges.send(NEIGHBOUR, &chunk[done..done + bytes])? else {
            return Ok(false);
        };
        self.sending.advance(bytes, total);
        Ok(true)
    }

    /// Bytes of the chunk to be sent that are there and have not been sent.
    pub(super) fn sendable(&self) -> usize {
        let Cursor { step, done } = self.sending;
        if self.has_sent() {
            return 0;
        }
        let there = if step <= self.receiving.step {
            size_of_val(&self.result[self.chunk(step)])
        } else if step == self.receiving.step + 1 {
            self.receiving.done
        } else {
            0
        };
        there - done
    }

    /// The chunk that is sent in this step, and was received in the one before.
    fn chunk(&self, step: usize) -> Range<usize> {
        if self.place.collective == Collective::Broadcast {
            return 0..self.result.len();
        }
        let peers = self.place.peers;
        let chunk = (self.place.rank + 2 * peers - step - 1) % peers;
        self.place.chunk(chunk, self.result.len())
    }
}

/// The steps in which a rank sends, and in which it receives. What it sends in a step it has received in the one before.
const fn steps(place: Place) -> (Range<usize>, Range<usize>) {
    let half = place.peers - 1;
    match place.collective {
        Collective::AllReduce => (0..2 * half, 0..2 * half),
        Collective::ReduceScatter => (0..half, 0..half),
        Collective::AllGather => (half..2 * half, half..2 * half),
        Collective::Broadcast if place.rank == 0 => (0..1, 0..0),
        Collective::Broadcast if place.rank == half => (0..0, 0..1),
        Collective::Broadcast => (1..2, 0..1),
    }
}
