//! How a buffer is cut.
//!
//! A buffer is divided into *shards*, one for each rank, and each shard is cut into as many *chunks* as there are
//! *stripes*, at most one for each lane: chunk i of every shard makes up stripe i ([`Stripe::chunk`]). What is not divided
//! among the ranks is cut into stripes directly ([`Stripe::whole`]). What travels of a stripe is cut into frames, all of
//! which take the same lane of an edge, which the sender chooses. All parts are balanced: lengths differ by at most one
//! element, longer parts first; parts may be empty. An exception are shards of given lengths
//! ([`Shards::of_lengths`]), which may have any.

use alloc::vec::Vec;
use core::iter::successors;
use core::ops::Range;

use crate::element::ElementType;
use crate::id::PeerId;
use crate::lengths::Lengths;

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

/// How a buffer is divided among the ranks: which elements each one has.
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
    /// Of a buffer of `count` elements, in the order of the ranks.
    #[must_use]
    pub fn of_ranks(count: u64, world: u32) -> Self {
        let shard = |rank| part(&(0..count), u64::from(world), u64::from(rank));
        Self {
            count,
            by_rank: (0..world).map(shard).collect(),
        }
    }

    /// Of a buffer of `count` elements among these peers, which are listed by rank, in the order of their numbers: who
    /// has which shard depends on who takes part, and not on the ring.
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

    /// Shards of these lengths, in the order of the ranks. `None`: their sum does not fit into a `u64`.
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

    /// The shard of a rank. Empty for one that does not exist.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Range<u64> {
        let shard = self.by_rank.get(rank as usize);
        shard.cloned().unwrap_or(self.count..self.count)
    }

    /// All of them, by rank.
    pub fn by_rank(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.by_rank.iter().cloned()
    }

    /// The stripe of this number, of so many.
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
    /// Its elements of the shard of a rank, as positions in the whole buffer. Empty if there is no such rank or stripe.
    #[must_use]
    pub fn chunk(self, rank: u32) -> Range<u64> {
        self.of(&self.shards.of_rank(rank))
    }

    /// Its elements of a buffer that is not divided among the ranks. Empty if there is no such stripe.
    #[must_use]
    pub fn whole(self) -> Range<u64> {
        self.of(&(0..self.shards.count))
    }

    fn of(self, range: &Range<u64>) -> Range<u64> {
        part(range, u64::from(self.stripes), u64::from(self.number))
    }
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
