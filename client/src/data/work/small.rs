//! Small operations: contributions travel around the ring as they are, and every rank adds all of them.
//!
//! In which turn each is added says the plan ([`Action::Keep`](pccl_core::plan::Action::Keep)). A frame is
//! kept, and goes on unless it is about to come back to its own; with the last one everything is added.

use std::ops::Range;

use super::super::buffers::RingBuffers;
use super::fault::Defect;
use super::frame::Body;
use super::{RingWork, Sums};

/// The contributions of all ranks, as far as they are here.
pub(super) struct Gathered {
    /// In the order in which they are added, one behind the other; the own one is not needed before
    /// the end.
    contributions: Vec<u8>,
    /// Bytes of one.
    bytes: usize,
    own_turn: u32,
}

impl Gathered {
    pub(super) const fn new(bytes: usize, own_turn: u32) -> Self {
        Self {
            contributions: Vec::new(),
            bytes,
            own_turn,
        }
    }

    /// Where the contribution belongs that is added in a turn.
    const fn place(&self, turn: u32) -> Range<usize> {
        let start = turn as usize * self.bytes;
        start..start + self.bytes
    }
}

impl RingWork {
    /// Copies a part of the own contribution: it may have to leave after the result is written.
    pub(super) fn copy_contribution(
        &mut self,
        range: &Range<usize>,
        buffers: &RingBuffers<'_>,
    ) -> Result<Body, Defect> {
        let own = buffers.contribution(range.clone()).ok_or(Defect::here())?;
        let mut frame = self.scratch.take(own.len());
        let copy = frame.get_mut(..own.len()).ok_or(Defect::here())?;
        copy.copy_from_slice(own);
        Ok(Body::Held(frame))
    }

    /// Keeps a contribution that has arrived. With the last one there is a result.
    pub(super) fn gather(
        &mut self,
        turn: u32,
        range: &Range<usize>,
        frame: &[u8],
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Defect> {
        let Some(gathered) = &mut self.gathered else {
            return Err(Defect::here());
        };
        if gathered.contributions.is_empty() {
            gathered.contributions = self.scratch.take(gathered.bytes * self.world);
        }
        let place = gathered.place(turn);
        let place = place.start + range.start..place.start + range.end;
        let kept = gathered
            .contributions
            .get_mut(place)
            .ok_or(Defect::here())?;
        kept.copy_from_slice(frame.get(..range.len()).ok_or(Defect::here())?);
        let left: u64 = self.stripes.iter().map(|stripe| stripe.to_receive).sum();
        if left > range.len() as u64 {
            return Ok(());
        }
        self.finish_small(buffers)
    }

    /// Adds all contributions.
    fn finish_small(&mut self, buffers: &mut RingBuffers<'_>) -> Result<(), Defect> {
        // What others have not got of the own one, because the next rank is slow, is overwritten here.
        while let Some(stripe) = self.contributing(0) {
            let outgoing = self.contribute(stripe, buffers)?;
            self.outlet_of(stripe)?.push(outgoing);
        }
        let Some(gathered) = &mut self.gathered else {
            return Err(Defect::here());
        };
        let (own, whole) = (gathered.place(gathered.own_turn), 0..gathered.bytes);
        let place = gathered.contributions.get_mut(own).ok_or(Defect::here())?;
        place.copy_from_slice(buffers.contribution(whole.clone()).ok_or(Defect::here())?);
        let contributions = gathered
            .contributions
            .get_mut(..gathered.bytes * self.world);
        let sum = self
            .sums
            .add_all(contributions.ok_or(Defect::here())?, gathered.bytes)?;
        let result = buffers.overwrite(0, whole).ok_or(Defect::here())?;
        result.copy_from_slice(sum);
        self.scratch
            .put(std::mem::take(&mut gathered.contributions));
        Ok(())
    }
}

impl Sums {
    /// Adds contributions of so many bytes, one behind the other, to the first.
    fn add_all(self, contributions: &mut [u8], bytes: usize) -> Result<&[u8], Defect> {
        let (sum, others) = contributions
            .split_at_mut_checked(bytes)
            .ok_or(Defect::here())?;
        for other in others.chunks_exact(bytes) {
            pccl_kernels::reduce(self.element, self.op, sum, other)?;
        }
        if let Some(contributors) = self.average_over {
            pccl_kernels::divide(self.element, sum, contributors)?;
        }
        Ok(sum)
    }
}
