//! Frames that travel encoded: fewer bits per element, the same bits on every rank.
//!
//! Each frame of [`ENCODED_FRAME_ELEMENTS`] elements (fewer at the end of a chunk) has parameters of
//! its own. A rank that reduces decodes a frame, adds its own elements in `f32` or `f64`, and encodes
//! the sum again. So does a rank that keeps terms, once all are here. The rank that finishes a chunk adopts what the
//! others will decode, and the gather phase passes the encoded bytes on as they are: so all ranks end with the same
//! bits. If nothing is reduced, whoever contributes a chunk adopts what the others decode, frame by frame, as each is
//! encoded for the last of them ([`RankWork::adopt`]).

use std::ops::Range;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization};
use pccl_kernels::{Codec, Op, Scheme};

use super::fault::Defect;
use super::frame::Body;
use super::kept::{Form, Kept};
use super::kernel::element_of;
use super::stripe::Handling;
use super::{RankWork, to_memory};
use crate::floats::Float;
use crate::memory::UserBuffers;
use crate::pace::ENCODED_FRAME_ELEMENTS;

/// How frames are encoded, and room for the sums between decoding and encoding.
pub(super) struct Coding {
    pub(super) codec: Codec,
    /// What is encoded.
    pub(super) float: Float,
    pub(super) sums: Vec<u8>,
    /// Room for one decoded term of them.
    term: Vec<u8>,
}

impl Coding {
    /// How the frames of this collective are encoded: `Some(None)` if they are not, `None` if the quantization does
    /// not go with the element type, or nothing travels.
    pub(super) fn of(spec: &CollectiveSpec) -> Option<Option<Self>> {
        let Some(codec) = codec_of(spec.element, spec.quantization)? else {
            return Some(None);
        };
        if spec.kind == CollectiveKind::Barrier {
            return None;
        }
        Some(Some(Self {
            codec,
            float: Float::of(spec.element)?,
            sums: Vec::new(),
            term: Vec::new(),
        }))
    }

    /// In which form terms are kept.
    pub(super) const fn form(&self) -> Form {
        Form::Encoded(self.codec, self.float.size())
    }

    /// How many elements a frame of `length` encoded bytes holds where `remaining` are missing.
    pub(super) fn announced(&self, remaining: u64, length: u32) -> Option<u64> {
        let elements = remaining.min(ENCODED_FRAME_ELEMENTS);
        let expected = self.codec.encoded_len(usize::try_from(elements).ok()?);
        (u32::try_from(expected) == Ok(length)).then_some(elements)
    }
}

/// The kernels' name of a quantization: `Some(None)` for no quantization, `None` where there is no such.
fn scheme_of(quantization: Quantization) -> Option<Option<Scheme>> {
    Some(match quantization {
        Quantization::None => None,
        Quantization::MinMax {
            to: ElementType::U8,
        } => Some(Scheme::MinMaxU8),
        Quantization::MinMax {
            to: ElementType::U16,
        } => Some(Scheme::MinMaxU16),
        Quantization::ZeroPointScale {
            to: ElementType::U8,
        } => Some(Scheme::ZeroPointU8),
        Quantization::ZeroPointScale {
            to: ElementType::I8,
        } => Some(Scheme::ZeroPointI8),
        Quantization::Blockwise4 => Some(Scheme::Blockwise4),
        Quantization::MinMax { .. } | Quantization::ZeroPointScale { .. } => return None,
    })
}

/// What encodes elements of this type: `Some(None)` where they travel as they are, `None` where the
/// quantization does not go with the element type.
pub(crate) fn codec_of(element: ElementType, quantization: Quantization) -> Option<Option<Codec>> {
    match scheme_of(quantization)? {
        None => Some(None),
        Some(scheme) => Codec::new(element_of(element), scheme).ok().map(Some),
    }
}

/// Does the quantization go with the element type, the kind of collective, and additions in order?
#[must_use]
pub fn is_supported(spec: &CollectiveSpec) -> bool {
    let is_whole = spec.op.weight().is_none() || spec.element.is_float();
    is_whole && Coding::of(spec).is_some_and(|coding| coding.is_none() || !spec.ordered)
}

impl RankWork {
    /// Encodes a part of the own contribution.
    pub(super) fn encode_contribution(
        &mut self,
        range: &Range<usize>,
        buffers: &UserBuffers<'_>,
    ) -> Result<(Body, usize), Defect> {
        let codec = self.coding.as_ref().ok_or(Defect::here())?.codec;
        let own = buffers.contribution(range.clone()).ok_or(Defect::here())?;
        let length = codec.encoded_len(range.len() / self.element_bytes);
        let mut frame = self.scratch.take(length);
        codec.encode(own, frame.get_mut(..length).ok_or(Defect::here())?)?;
        Ok((Body::Held(frame), length))
    }

    /// Of a collective that reduces nothing: a frame of the own contribution was encoded. Once that is done for all ranks
    /// to which it goes, it is replaced by what they decode.
    pub(super) fn adopt(
        &mut self,
        number: u16,
        frame: &Range<u64>,
        (body, length): (&Body, usize),
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let Some(slot) = self.adopted.get(usize::from(number)).copied() else {
            return Ok(());
        };
        let stripe = self
            .stripes
            .get(usize::from(number))
            .ok_or(Defect::here())?;
        if !stripe.has_taken_up_to(frame.end) {
            return Ok(());
        }
        let codec = self.coding.as_ref().ok_or(Defect::here())?.codec;
        let Body::Held(encoded) = body else {
            return Err(Defect::here());
        };
        let place = buffers.overwrite(slot, to_memory(frame)?);
        let encoded = encoded.get(..length).ok_or(Defect::here())?;
        Ok(codec.decode(encoded, place.ok_or(Defect::here())?)?)
    }

    /// Adds the own contribution to an encoded frame, and keeps the result where it is one.
    pub(super) fn take_in_encoded(
        &mut self,
        handling: Handling,
        range: &Range<usize>,
        length: usize,
        mut frame: Vec<u8>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let (action, finishes) = (handling.action, handling.action.completes());
        let encoded = frame.get_mut(..length).ok_or(Defect::here())?;
        if action.adds() {
            let average_over = self.sums.average_over.filter(|_| finishes);
            let own = buffers.contribution(range.clone()).ok_or(Defect::here())?;
            let elements = range.len() / self.element_bytes;
            let op = self.sums.op;
            let coding = self.coding.as_mut().ok_or(Defect::here())?;
            let sums = coding.room_for(elements).ok_or(Defect::here())?;
            let codec = coding.codec;
            let sums = coding.sums.get_mut(..sums).ok_or(Defect::here())?;
            codec.reduce(op, own, encoded, sums)?;
            if let Some(contributors) = average_over {
                codec.divide_sums(sums, contributors)?;
            }
            codec.encode_sums(sums, encoded)?;
        }
        if action.writes_result() {
            let codec = self.coding.as_ref().ok_or(Defect::here())?.codec;
            let result = buffers
                .overwrite(handling.slot, range.clone())
                .ok_or(Defect::here())?;
            codec.decode(encoded, result)?;
        }
        if action.adds() && buffers.note_losses() {
            self.note_lost_of_sums(finishes, range, buffers)?;
        }
        Ok(Body::Held(frame))
    }
}

impl RankWork {
    /// Adds a piece of all terms of a sum: the own contribution and the first other one, then the rest by turn. Encodes
    /// the sum, adopts what the others will decode if it is the result, and sends it where it goes.
    pub(super) fn add_encoded(
        &mut self,
        number: usize,
        piece: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let elements = piece.len() / self.element_bytes;
        let (op, average_over) = (self.sums.op, self.sums.average_over);
        let coding = self.coding.as_mut().ok_or(Defect::here())?;
        let kept = self.kept.get(number).ok_or(Defect::here())?;
        if kept.is_term() {
            // No plan that is encoded has sums of sums.
            return Err(Defect::here());
        }
        let own = buffers.contribution(piece.clone()).ok_or(Defect::here())?;
        coding.add_all(op, (kept, piece), own)?;
        let (codec, slot) = (coding.codec, kept.slot());
        let room = coding.room_for(elements).ok_or(Defect::here())?;
        let sums = coding.sums.get_mut(..room).ok_or(Defect::here())?;
        if let Some(contributors) = average_over.filter(|_| slot.is_some()) {
            codec.divide_sums(sums, contributors)?;
        }
        let length = codec.encoded_len(elements);
        let mut frame = self.scratch.take(length);
        let sum = frame.get_mut(..length).ok_or(Defect::here())?;
        codec.encode_sums(sums, sum)?;
        if let Some(slot) = slot {
            let result = buffers.overwrite(slot, piece.clone());
            codec.decode(sum, result.ok_or(Defect::here())?)?;
        }
        if buffers.note_losses() {
            self.note_lost_of_sums(slot.is_some(), piece, buffers)?;
        }
        self.tell(number, piece, frame.get(..length).ok_or(Defect::here())?)?;
        self.scratch.put(frame);
        self.added(number, piece)
    }
}

impl Coding {
    /// Adds a piece of the own contribution and of all terms that are kept.
    fn add_all(
        &mut self,
        op: Op,
        (kept, piece): (&Kept, &Range<usize>),
        own: &[u8],
    ) -> Result<(), Defect> {
        let room = self
            .room_for(own.len() / self.float.size())
            .ok_or(Defect::here())?;
        if self.term.len() < room {
            self.term.resize(room, 0);
        }
        let sums = self.sums.get_mut(..room).ok_or(Defect::here())?;
        let term = self.term.get_mut(..room).ok_or(Defect::here())?;
        let of_sums = self.codec.of_sums();
        for (nth, turn) in kept.turns_of_others().enumerate() {
            let encoded = kept.term(turn, piece).ok_or(Defect::here())?;
            if nth == 0 {
                self.codec.reduce(op, own, encoded, sums)?;
            } else {
                of_sums.decode(encoded, term)?;
                pccl_kernels::reduce(of_sums.element(), op, sums, term)?;
            }
        }
        Ok(())
    }

    /// Makes room for the sums of so many elements: in bytes.
    pub(super) fn room_for(&mut self, elements: usize) -> Option<usize> {
        let bytes = elements.checked_mul(self.codec.sum_element().size())?;
        if self.sums.len() < bytes {
            self.sums.resize(bytes, 0);
        }
        Some(bytes)
    }
}
