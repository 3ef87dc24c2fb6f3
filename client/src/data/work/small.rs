//! Small operations: contributions travel around the ring as they are, and every rank adds all of them.
//!
//! Half as many steps as reducing on the way and passing the result on, and where a buffer fits into one
//! frame steps are what takes time. All ranks add in the order of the ranks, so they end with the same
//! bits. A frame in step s was contributed by the rank s + 1 places before the receiver; it is kept, and
//! goes on unless it is about to come back to its own.

use std::ops::Range;

use super::super::buffers::RingBuffers;
use super::frame::Body;
use super::stripe::StripeWork;
use super::{Misfit, Place, RingWork, Sums};

/// The contributions of all ranks, as far as they are here.
pub(super) struct Gathered {
    /// By rank, one behind the other; the own one is not needed before the end.
    contributions: Vec<u8>,
    /// Bytes of one.
    bytes: usize,
    place: Place,
}

impl Gathered {
    pub(super) const fn new(bytes: usize, place: Place) -> Self {
        Self {
            contributions: Vec::new(),
            bytes,
            place,
        }
    }

    /// The contribution that arrives in a step.
    fn arriving(&self, step: u32) -> Range<usize> {
        let (world, rank) = (self.place.world, self.place.rank);
        let before = (step + 1) % world;
        let origin = ((rank + world - before) % world) as usize;
        origin * self.bytes..(origin + 1) * self.bytes
    }

    fn own(&self) -> Range<usize> {
        let rank = self.place.rank as usize;
        rank * self.bytes..(rank + 1) * self.bytes
    }
}

impl StripeWork {
    /// A buffer that travels whole.
    pub(super) fn whole(place: Place, bytes: u64) -> Self {
        let steps = place.world.saturating_sub(1) as usize;
        Self {
            expected: vec![0..bytes; steps],
            to_receive: bytes * steps as u64,
            last_step: bytes,
            own: 0..bytes,
            arrives_on: None,
        }
    }
}

impl RingWork {
    /// Copies a part of the own contribution: it may have to leave after the result is written.
    pub(super) fn copy_contribution(
        &mut self,
        range: &Range<usize>,
        buffers: &RingBuffers<'_>,
    ) -> Result<Body, Misfit> {
        let own = buffers.contribution(range.clone()).ok_or(Misfit)?;
        let mut frame = self.scratch.take(own.len());
        let copy = frame.get_mut(..own.len()).ok_or(Misfit)?;
        copy.copy_from_slice(own);
        Ok(Body::Held(frame))
    }

    /// Keeps a contribution that has arrived. With the last one there is a result.
    pub(super) fn gather(
        &mut self,
        step: u32,
        range: &Range<usize>,
        frame: &[u8],
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Misfit> {
        let Some(gathered) = &mut self.gathered else {
            return Err(Misfit);
        };
        if gathered.contributions.is_empty() {
            gathered.contributions = self.scratch.take(gathered.bytes * self.world);
        }
        let place = gathered.arriving(step);
        let place = place.start + range.start..place.start + range.end;
        let kept = gathered.contributions.get_mut(place).ok_or(Misfit)?;
        kept.copy_from_slice(frame.get(..range.len()).ok_or(Misfit)?);
        let left: u64 = self.stripes.iter().map(|stripe| stripe.to_receive).sum();
        if left > range.len() as u64 {
            return Ok(());
        }
        self.finish_small(buffers)
    }

    /// Adds all contributions.
    fn finish_small(&mut self, buffers: &mut RingBuffers<'_>) -> Result<(), Misfit> {
        // What others have not got of the own one, because the next rank is slow, is overwritten here.
        while let Some(stripe) = self.contributing(0) {
            let outgoing = self.contribute(stripe, buffers)?;
            self.outlet_of(stripe)?.push(outgoing);
        }
        let Some(gathered) = &mut self.gathered else {
            return Err(Misfit);
        };
        let (own, whole) = (gathered.own(), 0..gathered.bytes);
        let place = gathered.contributions.get_mut(own).ok_or(Misfit)?;
        place.copy_from_slice(buffers.contribution(whole.clone()).ok_or(Misfit)?);
        let contributions = gathered
            .contributions
            .get_mut(..gathered.bytes * self.world);
        let sum = self
            .sums
            .add_all(contributions.ok_or(Misfit)?, gathered.bytes)?;
        let result = buffers.overwrite(0, whole).ok_or(Misfit)?;
        result.copy_from_slice(sum);
        self.scratch
            .put(std::mem::take(&mut gathered.contributions));
        Ok(())
    }
}

impl Sums {
    /// Adds contributions of so many bytes, one behind the other, to the first.
    fn add_all(self, contributions: &mut [u8], bytes: usize) -> Result<&[u8], Misfit> {
        let (sum, others) = contributions.split_at_mut_checked(bytes).ok_or(Misfit)?;
        for other in others.chunks_exact(bytes) {
            pccl_kernels::reduce(self.element, self.op, sum, other)?;
        }
        if let Some(contributors) = self.average_over {
            pccl_kernels::divide(self.element, sum, contributors)?;
        }
        Ok(sum)
    }
}
