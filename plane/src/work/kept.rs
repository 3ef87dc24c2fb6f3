//! Terms of sums that are kept until all are here, and then added by this rank.
//!
//! In which turn each is added says the plan ([`Action::Keep`](pccl_core::plan::Action::Keep)). They are added as far
//! as all of them have arrived, frame by frame, and what is added goes at once where the plan says. A sum that is the
//! result leaves from there; one that lacks contributions leaves from scratch, and may be a term of another one that is
//! kept here.
//!
//! Terms that travel encoded are kept encoded, and a sum of them leaves encoded (see [`coded`](super::coded)).

use std::ops::Range;

use pccl_core::plan::{self, Plan, Stripe, Term};
use pccl_kernels::Codec;

use super::fault::Defect;
use super::frame::{Body, OutgoingFrame};
use super::stripe::{Exits, Onward, Own};
use super::{RankWork, Sums, to_memory};
use crate::memory::UserBuffers;
use crate::pace::ENCODED_FRAME_ELEMENTS;

/// In which form terms arrive and are kept.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// As elements.
    Plain,
    /// In encoded frames of elements of so many bytes.
    Encoded(Codec, usize),
}

impl Form {
    /// The bytes that so many bytes of elements take, from the start of a term on.
    fn length(self, bytes: usize) -> usize {
        let Self::Encoded(codec, element_bytes) = self else {
            return bytes;
        };
        let (elements, frame) = (bytes / element_bytes, ENCODED_FRAME_ELEMENTS as usize);
        let whole = elements / frame * codec.encoded_len(frame);
        whole + codec.encoded_len(elements % frame)
    }
}

/// The terms of a sum, as far as they are here.
pub(super) struct Kept {
    /// By turn, one behind the other. The own one stays where it is.
    terms: Vec<u8>,
    form: Form,
    stripe: u16,
    /// The bytes of the buffer that they are of.
    range: Range<usize>,
    /// `None`: the own contribution is in a term that is a sum.
    own_turn: Option<usize>,
    /// By turn: up to which byte of the buffer it is here.
    arrived: Vec<usize>,
    /// Up to which byte of the buffer it is added.
    added: usize,
    /// Where the result is written: a sequence of adjoining pieces. `None`: it is no result.
    slot: Option<usize>,
    /// Where it goes.
    told: Vec<Onward>,
    /// The term of another sum of the stripe that it is as well.
    onto: Option<Term>,
}

impl Kept {
    /// What the plan keeps of these elements. `None`: it sends to a rank that is not among the exits.
    pub(super) fn all_of(
        plan: Plan<'_>,
        (stripe, elements): (u16, Stripe<'_>),
        (element_bytes, form): (usize, Form),
        exits: &Exits,
        slots: &mut impl Iterator<Item = usize>,
    ) -> Option<Vec<Self>> {
        let sums = plan.kept(elements);
        let sums = sums.map(|kept| {
            let bytes = element_bytes as u64;
            let range = to_memory(&(kept.range.start * bytes..kept.range.end * bytes)).ok()?;
            let own_turn = kept.own_turn.map(|turn| turn as usize);
            let mut arrived = vec![range.start; kept.terms as usize];
            if let Some(turn) = own_turn {
                *arrived.get_mut(turn)? = range.end;
            }
            let told = kept.told.map(|to| exits.onward(plan, stripe, to));
            Some(Self {
                terms: Vec::new(),
                form,
                stripe,
                own_turn,
                arrived,
                added: range.start,
                range,
                slot: if kept.is_result {
                    Some(slots.next()?)
                } else {
                    None
                },
                told: told.collect::<Option<_>>()?,
                onto: kept.onto,
            })
        });
        sums.collect()
    }

    /// Whether it is the result.
    pub(super) const fn is_result(&self) -> bool {
        self.slot.is_some()
    }

    /// Whether it is a term of another sum.
    pub(super) const fn is_term(&self) -> bool {
        self.onto.is_some()
    }

    /// Up to which byte of the buffer it is added.
    pub(super) const fn added_up_to(&self) -> u64 {
        self.added as u64
    }

    /// Where it goes, and how many bytes of it.
    pub(super) fn told(&self) -> (&[Onward], u64) {
        (&self.told, self.range.len() as u64)
    }

    fn bytes(&self) -> usize {
        self.form.length(self.range.len()) * self.arrived.len()
    }

    /// Where a piece of the contribution is that is added in a turn.
    fn place(&self, turn: usize, piece: &Range<usize>) -> Range<usize> {
        let term = turn * self.form.length(self.range.len());
        let start = term + self.form.length(piece.start - self.range.start);
        start..start + self.form.length(piece.len())
    }

    /// A piece of the contribution that is added in a turn.
    pub(super) fn term(&self, turn: usize, piece: &Range<usize>) -> Option<&[u8]> {
        self.terms.get(self.place(turn, piece))
    }

    /// The turns in which contributions of others are added.
    pub(super) fn turns_of_others(&self) -> impl Iterator<Item = usize> + use<> {
        let own_turn = self.own_turn;
        (0..self.arrived.len()).filter(move |turn| Some(*turn) != own_turn)
    }

    /// Where the result is written, if it is one.
    pub(super) const fn slot(&self) -> Option<usize> {
        self.slot
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
        let own = buffers.contribution(range.clone());
        Ok(Body::Held(self.copied(own)?))
    }

    /// Where the sum of this number of a stripe is among all.
    pub(super) fn kept_at(&self, stripe: u16, sum: u32) -> usize {
        let per_stripe = self.kept.len().checked_div(self.stripes.len());
        usize::from(stripe) * per_stripe.unwrap_or(0) + sum as usize
    }

    /// Keeps a term that has arrived in a stripe, and adds what is complete.
    pub(super) fn keep(
        &mut self,
        (stripe, sum, turn): (u16, u32, u32),
        range: &Range<usize>,
        frame: &[u8],
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let number = self.kept_at(stripe, sum);
        let kept = self.kept.get_mut(number).ok_or(Defect::here())?;
        if kept.terms.is_empty() {
            kept.terms = self.scratch.take(kept.bytes());
        }
        let turn = turn as usize;
        let place = kept.place(turn, range);
        let frame = frame.get(..place.len()).ok_or(Defect::here())?;
        let place = kept.terms.get_mut(place).ok_or(Defect::here())?;
        place.copy_from_slice(frame);
        *kept.arrived.get_mut(turn).ok_or(Defect::here())? = range.end;
        let limit = self.piece_bytes();
        let next = |work: &Self| work.kept.get(number)?.next_piece(limit);
        while let Some(piece) = next(self) {
            self.add(number, &piece, buffers)?;
        }
        Ok(())
    }

    /// What has not left of own contributions that a piece of the result overwrites, and what leaves before it.
    fn free_contributions(
        &mut self,
        piece: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let (start, end) = (piece.start as u64, piece.end as u64);
        let is_meant = |own: &Own| own.is_copied && own.rest.start < end && start < own.rest.end;
        while let Some((stripe, nth)) = self.next_own(is_meant) {
            let (onward, outgoing) = self.contribute(stripe, nth, buffers)?;
            // It was not among what was to come.
            self.outlet(onward.outlet)?.push(onward, outgoing, 0);
        }
        Ok(())
    }

    /// Adds a piece of all terms, and sends the sum where it goes.
    fn add(
        &mut self,
        number: usize,
        piece: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        if self.kept.get(number).is_some_and(Kept::is_result) {
            self.free_contributions(piece, buffers)?;
        }
        match &self.coding {
            Some(_) => self.add_encoded(number, piece, buffers),
            None => self.add_plain(number, piece, buffers),
        }
    }

    fn add_plain(
        &mut self,
        number: usize,
        piece: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let sums = self.sums;
        let kept = self.kept.get_mut(number).ok_or(Defect::here())?;
        let sum = kept.add(sums, piece, buffers)?;
        let mut terms = std::mem::take(&mut kept.terms);
        let sum = terms.get_mut(sum).ok_or(Defect::here())?;
        if let Some(slot) = kept.slot {
            sums.divide(sum)?;
            let result = buffers.overwrite(slot, piece.clone());
            result.ok_or(Defect::here())?.copy_from_slice(sum);
        }
        self.tell(number, piece, sum)?;
        self.keep_sum(number, piece, sum, buffers)?;
        self.kept.get_mut(number).ok_or(Defect::here())?.terms = terms;
        self.added(number, piece)
    }

    /// A piece of a sum is a term of another one, if the plan says so.
    fn keep_sum(
        &mut self,
        number: usize,
        piece: &Range<usize>,
        sum: &[u8],
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let kept = self.kept.get(number).ok_or(Defect::here())?;
        match kept.onto {
            Some(term) => self.keep((kept.stripe, term.sum, term.turn), piece, sum, buffers),
            None => Ok(()),
        }
    }

    /// A piece of a sum is complete. The terms are of no more use after the last one.
    pub(super) fn added(&mut self, number: usize, piece: &Range<usize>) -> Result<(), Defect> {
        let kept = self.kept.get_mut(number).ok_or(Defect::here())?;
        kept.added = piece.end;
        if kept.added == kept.range.end {
            let terms = std::mem::take(&mut kept.terms);
            self.scratch.put(terms);
        }
        Ok(())
    }

    /// A piece of a sum, in the form in which terms arrive, goes where the plan says.
    pub(super) fn tell(
        &mut self,
        number: usize,
        piece: &Range<usize>,
        sum: &[u8],
    ) -> Result<(), Defect> {
        let told = self.kept.get(number).map_or(0, |kept| kept.told.len());
        for at in 0..told {
            let kept = self.kept.get(number).ok_or(Defect::here())?;
            let onward = *kept.told.get(at).ok_or(Defect::here())?;
            let (stripe, is_result) = (kept.stripe, kept.is_result());
            let body = match (is_result, kept.form) {
                (true, Form::Plain) => Body::Result(piece.clone()),
                (false, _) | (true, Form::Encoded(..)) => Body::Held(self.copied(Some(sum))?),
            };
            let header = self.header(stripe, onward.step, piece.start, sum.len())?;
            let outgoing = OutgoingFrame { header, body };
            let bytes = piece.len() as u64;
            self.outlet(onward.outlet)?.push(onward, outgoing, bytes);
        }
        Ok(())
    }
}

impl Kept {
    /// Adds a piece of all terms, in their turns. Where the sum is, among the terms.
    fn add(
        &mut self,
        sums: Sums,
        piece: &Range<usize>,
        buffers: &UserBuffers<'_>,
    ) -> Result<Range<usize>, Defect> {
        let own = buffers.contribution(piece.clone()).ok_or(Defect::here())?;
        let first = self.place(0, piece);
        if self.own_turn == Some(0) {
            let sum = self.terms.get_mut(first.clone());
            sum.ok_or(Defect::here())?.copy_from_slice(own);
        }
        for turn in 1..self.arrived.len() {
            let place = self.place(turn, piece);
            let both = self.terms.split_at_mut_checked(first.end);
            let (before, behind) = both.ok_or(Defect::here())?;
            let sum = before.get_mut(first.clone()).ok_or(Defect::here())?;
            let other = if Some(turn) == self.own_turn {
                own
            } else {
                let behind = behind.get(place.start - first.end..place.end - first.end);
                behind.ok_or(Defect::here())?
            };
            pccl_kernels::reduce(sums.element, sums.op, sum, other)?;
        }
        Ok(first)
    }
}
