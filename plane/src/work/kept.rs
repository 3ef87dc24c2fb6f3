//! Contributions that are kept until all are here, and then added by this rank.
//!
//! In which turn each is added says the plan ([`Action::Keep`](pccl_core::plan::Action::Keep)). They are added
//! as far as all of them have arrived, frame by frame, and what is added goes at once to whom the plan tells it.

use std::ops::Range;

use pccl_core::plan::{self, Plan};

use super::fault::Defect;
use super::frame::{Body, Outgoing};
use super::stripe::{Exits, Onward};
use super::{RankWork, Sums, to_memory};
use crate::memory::UserBuffers;

/// The contributions of all ranks to one range, as far as they are here.
pub(super) struct Kept {
    /// In the order in which they are added, one behind the other. The own one stays where it is.
    contributions: Vec<u8>,
    /// The bytes of the buffer that they are of.
    range: Range<usize>,
    own_turn: usize,
    /// By turn: up to which byte of the buffer it is here.
    arrived: Vec<usize>,
    /// Up to which byte of the buffer the result is written.
    added: usize,
    /// Where it is written: a sequence of adjoining pieces.
    slot: usize,
    /// Where it goes.
    told: Vec<Onward>,
}

impl Kept {
    /// What the plan keeps of these elements. `None`: nothing, or it tells a rank that is not among the exits.
    pub(super) fn of(
        plan: Plan,
        elements: &Range<u64>,
        element_bytes: usize,
        exits: &Exits,
        slot: usize,
    ) -> Option<Self> {
        let kept = plan.kept(elements)?;
        let bytes = element_bytes as u64;
        let range = to_memory(&(kept.range.start * bytes..kept.range.end * bytes)).ok()?;
        let own_turn = kept.own_turn as usize;
        let mut arrived = vec![range.start; plan.world() as usize];
        *arrived.get_mut(own_turn)? = range.end;
        let told = plan.told().map(|to| exits.onward(0, to));
        Some(Self {
            contributions: Vec::new(),
            own_turn,
            arrived,
            added: range.start,
            range,
            slot,
            told: told.collect::<Option<_>>()?,
        })
    }

    /// Is the result to leave by this outlet, and not all of it there yet?
    pub(super) fn will_tell(&self, outlet: u16) -> bool {
        let is_told = self.told.iter().any(|onward| onward.outlet == outlet);
        is_told && self.added < self.range.end
    }

    fn bytes(&self) -> usize {
        self.range.len() * self.arrived.len()
    }

    /// Where a piece of the contribution is that is added in a turn.
    const fn place(&self, turn: usize, piece: &Range<usize>) -> Range<usize> {
        let start = turn * (self.range.end - self.range.start);
        start + piece.start - self.range.start..start + piece.end - self.range.start
    }

    /// The next piece of the result, if all that it needs is here.
    fn next_piece(&self, limit: u64) -> Option<Range<usize>> {
        let ready = self.arrived.iter().copied().min()?;
        let left = self.added as u64..self.range.end as u64;
        let piece = plan::frames(left, limit).next()?;
        let end = usize::try_from(piece.end).ok()?;
        (end <= ready).then_some(self.added..end)
    }
}

impl RankWork {
    /// Copies a part of the own contribution: it may have to leave after the result is written.
    pub(super) fn copy_contribution(
        &mut self,
        range: &Range<usize>,
        buffers: &UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let own = buffers.contribution(range.clone()).ok_or(Defect::here())?;
        let mut frame = self.scratch.take(own.len());
        let copy = frame.get_mut(..own.len()).ok_or(Defect::here())?;
        copy.copy_from_slice(own);
        Ok(Body::Held(frame))
    }

    /// Keeps a contribution that has arrived, and adds what is complete.
    pub(super) fn keep(
        &mut self,
        turn: u32,
        range: &Range<usize>,
        frame: &[u8],
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let kept = self.kept.as_mut().ok_or(Defect::here())?;
        if kept.contributions.is_empty() {
            kept.contributions = self.scratch.take(kept.bytes());
        }
        let turn = turn as usize;
        let place = kept.place(turn, range);
        let place = kept.contributions.get_mut(place).ok_or(Defect::here())?;
        place.copy_from_slice(frame.get(..range.len()).ok_or(Defect::here())?);
        *kept.arrived.get_mut(turn).ok_or(Defect::here())? = range.end;
        let limit = self.frame_bytes();
        while let Some(piece) = self.kept.as_ref().and_then(|kept| kept.next_piece(limit)) {
            self.free_contributions(buffers)?;
            self.add(&piece, buffers)?;
            self.tell(&piece)?;
        }
        Ok(())
    }

    /// What has not left of own contributions that the result overwrites.
    fn free_contributions(&mut self, buffers: &UserBuffers<'_>) -> Result<(), Defect> {
        while let Some((stripe, nth)) = self.next_own(|own| own.is_copied) {
            let (outlet, outgoing) = self.contribute(stripe, nth, buffers)?;
            self.outlet(outlet)?.push(outgoing);
        }
        Ok(())
    }

    /// Adds a piece of all contributions.
    fn add(&mut self, piece: &Range<usize>, buffers: &mut UserBuffers<'_>) -> Result<(), Defect> {
        let kept = self.kept.as_mut().ok_or(Defect::here())?;
        let sum = kept.add(self.sums, piece, buffers)?;
        let result = buffers.overwrite(kept.slot, piece.clone());
        result
            .ok_or(Defect::here())?
            .copy_from_slice(kept.contributions.get(sum).ok_or(Defect::here())?);
        kept.added = piece.end;
        if kept.added == kept.range.end {
            self.scratch.put(std::mem::take(&mut kept.contributions));
        }
        Ok(())
    }

    /// A piece of the result goes to whom the plan tells it.
    fn tell(&mut self, piece: &Range<usize>) -> Result<(), Defect> {
        let told = self.kept.as_ref().map_or(0, |kept| kept.told.len());
        for at in 0..told {
            let onward = self.kept.as_ref().and_then(|kept| kept.told.get(at));
            let Onward { step, outlet } = *onward.ok_or(Defect::here())?;
            let header = self.header(0, step, piece.start, piece.len())?;
            let body = Body::Result(piece.clone());
            self.outlet(outlet)?.push(Outgoing { header, body });
        }
        Ok(())
    }
}

impl Kept {
    /// Adds a piece of all contributions, in their turns. Where the sum is, of the contributions.
    fn add(
        &mut self,
        sums: Sums,
        piece: &Range<usize>,
        buffers: &UserBuffers<'_>,
    ) -> Result<Range<usize>, Defect> {
        let own = buffers.contribution(piece.clone()).ok_or(Defect::here())?;
        let first = self.place(0, piece);
        if self.own_turn == 0 {
            let sum = self.contributions.get_mut(first.clone());
            sum.ok_or(Defect::here())?.copy_from_slice(own);
        }
        for turn in 1..self.arrived.len() {
            let place = self.place(turn, piece);
            let both = self.contributions.split_at_mut_checked(first.end);
            let (before, behind) = both.ok_or(Defect::here())?;
            let sum = before.get_mut(first.clone()).ok_or(Defect::here())?;
            let other = if turn == self.own_turn {
                own
            } else {
                let behind = behind.get(place.start - first.end..place.end - first.end);
                behind.ok_or(Defect::here())?
            };
            pccl_kernels::reduce(sums.element, sums.op, sum, other)?;
        }
        if let Some(contributors) = sums.average_over {
            let sum = self.contributions.get_mut(first.clone());
            let sum = sum.ok_or(Defect::here())?;
            pccl_kernels::divide(sums.element, sum, contributors)?;
        }
        Ok(first)
    }
}
