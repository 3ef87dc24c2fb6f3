//! Cutting a buffer into shards, stripes, chunks and frames.
//!
//! A buffer is divided into *shards*, one for each rank, and each shard is cut into as many *chunks* as there are
//! *stripes*, at most one for each lane: chunk i of all shards together is stripe i ([`Stripe::chunk`]). A buffer
//! that is not divided among the ranks is cut into stripes directly ([`Stripe::whole`]). A stripe is cut into frames,
//! all of which take the same lane of an edge; the sender chooses it. All parts are balanced: their lengths differ by
//! at most one element, longer parts come first, and parts may be empty. The exception are shards of given lengths
//! ([`Shards::of_lengths`]).

use alloc::vec::Vec;
use core::iter::successors;
use core::ops::Range;

use crate::element::ElementType;
use crate::id::PeerId;
use crate::lengths::Lengths;

/// Minimum number of bytes of a stripe. A shorter stripe costs more in frames than another lane gains.
pub const STRIPE_BYTES_MIN: u64 = 512 * 1024;

/// Number of stripes of a buffer of `count` elements: at most one per lane, each of at least `least` bytes, and at
/// least one. All peers compute the same number, because `count`, `element` and `lanes` are the same on all, and
/// `least` is [`STRIPE_BYTES_MIN`].
#[must_use]
pub fn stripes_for(count: u64, element: ElementType, lanes: u16, least: u64) -> u16 {
    let bytes = count.saturating_mul(element.size() as u64);
    let worthwhile = u16::try_from(bytes / least.max(1)).unwrap_or(u16::MAX);
    worthwhile.min(lanes).max(1)
}

/// The division of a buffer among the ranks: the elements of each rank.
///
/// ```
/// use pccl_core::id::PeerId;
/// use pccl_core::plan::Shards;
///
/// let ring = [PeerId(9), PeerId(2), PeerId(4)];
/// let shards = Shards::of_peers(10, &ring);
///
/// let by_rank: Vec<_> = (0..3).map(|rank| shards.of_rank(rank)).collect();
/// assert_eq!(by_rank, [7..10, 0..4, 4..7]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shards {
    count: u64,
    by_rank: Vec<Range<u64>>,
}

impl Shards {
    /// Shards of a buffer of `count` elements, in the order of the ranks.
    #[must_use]
    pub fn of_ranks(count: u64, world: u32) -> Self {
        let shard = |rank| part(&(0..count), u64::from(world), u64::from(rank));
        Self {
            count,
            by_rank: (0..world).map(shard).collect(),
        }
    }

    /// Shards of a buffer of `count` elements, in the order of the peers' ids. The peers are listed by rank. So the
    /// shard of a peer depends on the set of participants, and not on the ring.
    #[must_use]
    pub fn of_peers(count: u64, ranks: &[PeerId]) -> Self {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let shard = |peer: &PeerId| {
            let place = sorted.partition_point(|other| other < peer);
            part(&(0..count), ranks.len() as u64, place as u64)
        };
        Self {
            count,
            by_rank: ranks.iter().map(shard).collect(),
        }
    }

    /// Shards of these lengths, in the order of the ranks. `None` if their sum does not fit in a `u64`.
    #[must_use]
    pub fn of_lengths(lengths: &Lengths) -> Option<Self> {
        let mut count = 0_u64;
        let shards = lengths.0.iter().map(|length| {
            let start = count;
            count = count.checked_add(*length)?;
            Some(start..count)
        });
        let by_rank = shards.collect::<Option<_>>()?;
        Some(Self { count, by_rank })
    }

    /// The shard of a rank. Empty if there is no such rank.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Range<u64> {
        let shard = self.by_rank.get(rank as usize);
        shard.cloned().unwrap_or(self.count..self.count)
    }

    /// All shards, by rank.
    pub fn by_rank(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.by_rank.iter().cloned()
    }

    /// Stripe `number` of `stripes`.
    #[must_use]
    pub const fn stripe(&self, stripes: u16, number: u16) -> Stripe<'_> {
        Stripe {
            shards: self,
            stripes,
            number,
        }
    }
}

/// One stripe of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Stripe<'a> {
    shards: &'a Shards,
    stripes: u16,
    number: u16,
}

impl Stripe<'_> {
    /// The elements of the stripe in the shard of a rank, as positions in the whole buffer. Empty if there is no such
    /// rank or stripe.
    #[must_use]
    pub fn chunk(self, rank: u32) -> Range<u64> {
        self.of(&self.shards.of_rank(rank))
    }

    /// The elements of the stripe of a buffer that is not divided among the ranks. Empty if there is no such stripe.
    #[must_use]
    pub fn whole(self) -> Range<u64> {
        self.of(&(0..self.shards.count))
    }

    fn of(self, range: &Range<u64>) -> Range<u64> {
        part(range, u64::from(self.stripes), u64::from(self.number))
    }
}

/// Part `index` of `parts` balanced parts. The first parts get one element of the remainder each.
fn part(whole: &Range<u64>, parts: u64, index: u64) -> Range<u64> {
    let length = whole.end.saturating_sub(whole.start);
    let (Some(base), Some(longer)) = (length.checked_div(parts), length.checked_rem(parts)) else {
        return whole.start..whole.start;
    };
    let start_of = |i: u64| whole.start + i.min(parts) * base + i.min(longer);
    start_of(index)..start_of(index.saturating_add(1))
}

/// Number of whole elements of `element_size` bytes in a frame of at most `frame_bytes_max` bytes, at least one.
#[must_use]
pub const fn frame_elements(element_size: usize, frame_bytes_max: usize) -> u64 {
    match frame_bytes_max.checked_div(element_size) {
        Some(0) | None => 1,
        Some(elements) => elements as u64,
    }
}

/// Cuts a range into frames of `frame_max`, in order; the last frame has the rest. An empty range has no frames. The
/// unit is that of the range: elements (see [`frame_elements`]), or bytes if `frame_max` is a multiple of the element
/// size.
///
/// Only the rank that contributes a chunk, or a whole buffer, cuts it. All others forward its frames unchanged.
pub fn frames(range: Range<u64>, frame_max: u64) -> impl Iterator<Item = Range<u64>> + Clone {
    let frame_at = move |start: u64| {
        let end = start.saturating_add(frame_max.max(1)).min(range.end);
        (start < end).then_some(start..end)
    };
    successors(frame_at(range.start), move |frame| frame_at(frame.end))
}
