//! How a buffer is cut: into stripes, at most one for each lane, a stripe into chunks, and a chunk into frames.
//!
//! A buffer is cut twice, both times into balanced parts (lengths differ by at most one element, longer
//! parts first; parts may be empty): into stripes, at most one per lane ([`stripe_range`]), and each stripe
//! into as many chunks as there are ranks ([`chunk_range`]). All frames of a stripe take the same lane of a
//! edge, which the sender chooses.

use core::iter::successors;
use core::ops::Range;

use crate::element::ElementType;

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
