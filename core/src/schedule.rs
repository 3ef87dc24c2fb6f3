//! Which rank sends which elements to whom, and when, in an all-reduce.
//!
//! There are two schedules, both around a ring, and one place that says which of them a collective
//! takes: [`Schedule::of`]. Small buffers travel [`Whole`]. All others are reduced on their way, as
//! follows.
//!
//! The algorithm is that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
//! clusters of workstations" (2009): a reduce-scatter followed by an all-gather around a ring. With
//! world size N each of the two takes N − 1 steps, and every rank sends 2·(N − 1)/N of the buffer in
//! all, which is the least possible.
//!
//! A buffer of `count` elements is cut twice, both times into balanced parts (lengths differ by at
//! most one element, longer parts first; parts may be empty):
//!
//! 1. into stripes, at most one per lane ([`stripe_range`]); each stripe is a ring of its own, and all
//!    its frames take the same lane of an edge, which the sender chooses;
//! 2. each stripe into N chunks ([`chunk_range`]), chunk c starting its journey at rank c.
//!
//! In step s, rank r sends chunk r − s to rank r + 1 and receives chunk r − s − 1 from rank r − 1,
//! all modulo N. The first N − 1 steps are of [`Phase::Reduce`]: what arrives is combined with the
//! receiver's own elements. The last N − 1 are of [`Phase::Gather`]: what arrives is the result and
//! replaces the receiver's elements.
//!
//! **What is sent in step s + 1 is exactly what was received in step s**, in both phases and across
//! the change between them; only step 0 sends what was not received before. A frame can therefore
//! be forwarded under the number of the next step as soon as it has been reduced or stored, without
//! waiting for the rest of its chunk. What is received in the last step is not forwarded.

use core::iter::successors;
use core::ops::Range;

use crate::element::{CollectiveSpec, ElementType, Quantization};
use crate::wire::FRAME_PAYLOAD_MAX;

#[cfg(test)]
mod tests;
mod whole;

pub use whole::{Whole, WholeStep};

/// How the contributions to a collective become its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// In chunks that are reduced on their way, and whose results are passed on: [`steps`].
    Ring,
    /// Whole, and every rank adds them all: [`Whole`].
    Whole,
}

impl Schedule {
    /// The schedule that a collective takes in a world of so many. A buffer travels whole where it is
    /// of at most `whole_bytes_max` bytes, not quantized, and so small that those of all ranks fit into
    /// one frame ([`FRAME_PAYLOAD_MAX`]): a rank keeps them all until it adds.
    ///
    /// Ranks that do not come to the same do not understand each other's frames. They do where `spec`
    /// and `world` are what the master has told them and `whole_bytes_max` is
    /// [`WHOLE_BUFFER_MAX`](crate::wire::WHOLE_BUFFER_MAX).
    #[must_use]
    pub fn of(spec: &CollectiveSpec, world: u32, whole_bytes_max: u64) -> Self {
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        let all = bytes.saturating_mul(u64::from(world));
        let is_small = bytes <= whole_bytes_max && all <= FRAME_PAYLOAD_MAX as u64;
        if is_small && spec.quantization == Quantization::None {
            Self::Whole
        } else {
            Self::Ring
        }
    }
}

/// A stripe shorter than this costs more in frames than another lane brings.
pub const STRIPE_BYTES_MIN: u64 = 512 * 1024;

/// How many stripes a buffer of `count` elements is cut into: at most one per lane, each of at least
/// `least` bytes, and one in any case. Every peer comes to the same number, as `count`, `element` and
/// `lanes` are the same on all, and `least` is [`STRIPE_BYTES_MIN`].
#[must_use]
pub fn stripes_for(count: u64, element: ElementType, lanes: u16, least: u64) -> u16 {
    let bytes = count.saturating_mul(element.size() as u64);
    let worthwhile = u16::try_from(bytes / least.max(1)).unwrap_or(u16::MAX);
    worthwhile.min(lanes).max(1)
}

/// The elements of one stripe of a buffer of `count` elements. Empty for a stripe that does not exist.
#[must_use]
pub fn stripe_range(count: u64, stripes: u16, stripe: u16) -> Range<u64> {
    part(&(0..count), u64::from(stripes), u64::from(stripe))
}

/// The elements of one chunk of a stripe, as positions in the whole buffer. Empty for a chunk that
/// does not exist.
#[must_use]
pub fn chunk_range(stripe: &Range<u64>, world: u32, chunk: u32) -> Range<u64> {
    part(stripe, u64::from(world), u64::from(chunk))
}

/// Part `index` of `parts` balanced parts; the remainder goes to the first ones, an element each.
fn part(whole: &Range<u64>, parts: u64, index: u64) -> Range<u64> {
    let length = whole.end.saturating_sub(whole.start);
    let (Some(base), Some(longer)) = (length.checked_div(parts), length.checked_rem(parts)) else {
        return whole.start..whole.start;
    };
    let start_of = |i: u64| whole.start + i.min(parts) * base + i.min(longer);
    start_of(index)..start_of(index.saturating_add(1))
}

/// Which half of the all-reduce a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// What arrives is combined with what is here.
    Reduce,
    /// What arrives is the result and replaces what is here.
    Gather,
}

/// One step of one rank in one stripe. Ranges are elements of the whole buffer, and may be empty:
/// then nothing is sent or awaited in that direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Its number, from 0; frames carry it. Frames with the same number are sent by one rank and
    /// received by the next.
    pub step: u32,
    /// What to do with what arrives.
    pub phase: Phase,
    /// What to send to the next rank.
    pub send: Range<u64>,
    /// What to expect from the previous rank.
    pub receive: Range<u64>,
}

/// The 2·(`world` − 1) steps of `rank` in a stripe, in order. None in a world of one (the buffer is
/// the result already), in an empty world, and for a rank that does not exist.
pub fn steps(world: u32, rank: u32, stripe: Range<u64>) -> impl Iterator<Item = Step> + Clone {
    let per_phase = if rank < world { world - 1 } else { 0 };
    (0..per_phase.saturating_mul(2)).map(move |step| Step {
        step,
        phase: if rule!(
            step < per_phase;
            ReducedTwice => step <= per_phase,
            GatheredTooEarly => step.saturating_add(1) < per_phase
        ) {
            Phase::Reduce
        } else {
            Phase::Gather
        },
        send: chunk_range(&stripe, world, back(world, rank, step)),
        receive: chunk_range(&stripe, world, back(world, rank, step.saturating_add(1))),
    })
}

/// `rank − by` modulo `world`.
fn back(world: u32, rank: u32, by: u32) -> u32 {
    let by = by.checked_rem(world).unwrap_or(0);
    if rank >= by {
        rank - by
    } else {
        world - (by - rank)
    }
}

/// How many whole elements of `element_size` bytes a frame of at most `frame_bytes_max` bytes holds: at
/// least one.
#[must_use]
pub const fn frame_elements(element_size: usize, frame_bytes_max: usize) -> u64 {
    match frame_bytes_max.checked_div(element_size) {
        Some(0) | None => 1,
        Some(elements) => elements as u64,
    }
}

/// Cuts a range into frames, in order: each of `frame_max`, the last one what is left. An empty range
/// has no frames. The unit is the range's: elements (see [`frame_elements`]), or bytes where
/// `frame_max` is so many whole elements.
///
/// It is the rank that contributes a chunk, or a buffer that travels whole, who cuts it; all others
/// forward its frames as they are.
pub fn frames(range: Range<u64>, frame_max: u64) -> impl Iterator<Item = Range<u64>> + Clone {
    let frame_at = move |start: u64| {
        let end = start.saturating_add(frame_max.max(1)).min(range.end);
        (start < end).then_some(start..end)
    };
    successors(frame_at(range.start), move |frame| frame_at(frame.end))
}
