//! All-gathers of contributions of different lengths: what they are told, the calls, and what they return.

use std::ops::Range;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, ElementType, Quantization};
use pccl_core::id::{PeerId, Tag};
use pccl_core::plan::Shards;

use crate::calls::Calls;
use crate::collective::{Called, Memory, Room, spec_of};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut, resize};
use crate::error::Error;
use crate::reduce::CollectiveReport;

/// What an [`all_gather_v`](Communicator::all_gather_v) is told: the limit of elements of the whole result, which is the
/// same on all peers, and the tag that names the collective.
///
/// ```
/// use pccl::GatherV;
///
/// let few = GatherV::at_most(10_000).tag(1);
/// # assert_ne!(few, GatherV::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "this only says what to gather; pass it to all_gather_v"]
pub struct GatherV {
    limit: u64,
    tag: Tag,
    quantization: Quantization,
    time_limit: Option<Duration>,
}

impl GatherV {
    /// The default limit: 67,108,864 elements, which are 256 MiB of `f32`.
    pub const LIMIT_DEFAULT: usize = 1 << 26;

    /// The whole result may have up to this many elements. No peer allocates more, whatever the others contribute.
    pub const fn at_most(elements: usize) -> Self {
        Self {
            limit: elements as u64,
            tag: Tag(0),
            quantization: Quantization::None,
            time_limit: None,
        }
    }

    /// Names the collective. Default: 0.
    pub const fn tag(mut self, tag: u64) -> Self {
        self.tag = Tag(tag);
        self
    }

    /// Quantizes the elements on their way between peers, as [`Gather::quantize`](crate::Gather::quantize) does: in the
    /// result, those of this peer are what the others get. What it contributes from is only read. Default: as they are.
    pub const fn quantize(mut self, how: Quantization) -> Self {
        self.quantization = how;
        self
    }

    /// Gives the collective up if this peer's part is not complete in this time after the call, as
    /// [`Reduce::timeout`](crate::Reduce::timeout) does. Default: no limit.
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }
}

impl Default for GatherV {
    /// Up to [`LIMIT_DEFAULT`](Self::LIMIT_DEFAULT) elements.
    fn default() -> Self {
        Self::at_most(Self::LIMIT_DEFAULT)
    }
}

/// What an [`all_gather_v`](Communicator::all_gather_v) returns: who contributed which elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatheredV {
    /// By rank.
    ranges: Vec<Range<usize>>,
    /// What the collective did.
    pub report: CollectiveReport,
}

impl GatheredV {
    /// The range of the result that a peer contributed, empty if it had no elements. `None`: it did not take part.
    #[must_use]
    pub fn range(&self, peer: PeerId) -> Option<Range<usize>> {
        let mut parts = self.parts();
        parts.find_map(|(known, range)| (known == peer).then_some(range))
    }

    /// The peers that took part and the range that each contributed, in the order of the ranks. The ranges adjoin.
    pub fn parts(&self) -> impl Iterator<Item = (PeerId, Range<usize>)> + '_ {
        let peers = self.report.contributors.iter().copied();
        peers.zip(self.ranges.iter().cloned())
    }
}

/// A result that is being gathered, apart from the user's memory.
struct Gathering<'a, T> {
    own: &'a [T],
    tag: Tag,
    all: Vec<T>,
    /// By rank.
    ranges: Vec<Range<usize>>,
}

impl<T: Element> Room for Gathering<'_, T> {
    fn open(&mut self, shards: &Shards, rank: u32) -> Result<&mut [u8], Error> {
        let elements = shards.by_rank().last().map_or(0, |last| last.end);
        let none = Error::OutOfMemory {
            tag: self.tag,
            elements,
        };
        let index = |element: u64| usize::try_from(element).ok();
        let range = |shard: Range<u64>| Some(index(shard.start)?..index(shard.end)?);
        let ranges = shards.by_rank().map(range).collect::<Option<Vec<_>>>();
        let (ranges, count) = ranges.zip(index(elements)).ok_or(none.clone())?;
        resize(&mut self.all, count).map_err(|_| none)?;
        let place = ranges.get(rank as usize).cloned();
        let place = place.and_then(|place| self.all.get_mut(place));
        // The peer machine has compared the lengths.
        let place = place.filter(|place| place.len() == self.own.len());
        place
            .ok_or(Error::MasterMisbehaved)?
            .copy_from_slice(self.own);
        self.ranges = ranges;
        Ok(bytes_of_mut(&mut self.all))
    }
}

impl Communicator {
    /// Gathers contributions of different lengths: all peers of the group end with the concatenation of all
    /// contributions, in the order of the ranks, and learn who contributed which range.
    ///
    /// `mine` may have any length, zero included; the other peers need not know it. `all` is replaced by the result. It
    /// keeps its content until the collective is committed, so it is unchanged after an error. If it is empty, its
    /// memory is used again.
    ///
    /// A peer that is lost aborts the collective. Call again: the result then has the contributions of the survivors,
    /// which may have other lengths.
    ///
    /// Blocks as [`all_reduce`](Self::all_reduce) does.
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, changed: &[u32]) -> Result<(), pccl::Error> {
    /// use pccl::GatherV;
    ///
    /// let mut all = Vec::new();
    /// let gathered = comm.all_gather_v(changed, &mut all, GatherV::at_most(1_000_000))?;
    ///
    /// for (peer, range) in gathered.parts() {
    ///     println!("{peer} has changed {:?}", &all[range]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`], on all peers: the contributions have more elements together than the limit; nothing was
    /// moved. [`Error::Disagreement`], also if limits differ. [`Error::OutOfMemory`]. Else as
    /// [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_gather_v<T: Element>(
        &self,
        mine: &[T],
        all: &mut Vec<T>,
        how: GatherV,
    ) -> Result<GatheredV, Error> {
        let call = self.all_gather_v_async(mine, all, how);
        self.runtime.block_on("all_gather_v_async", call)
    }

    /// As [`all_gather_v`](Self::all_gather_v), without blocking. Dropping the future gives the collective up, and
    /// leaves `all` as it was.
    ///
    /// # Errors
    /// As [`all_gather_v`](Self::all_gather_v).
    pub async fn all_gather_v_async<T: Element>(
        &self,
        mine: &[T],
        all: &mut Vec<T>,
        how: GatherV,
    ) -> Result<GatheredV, Error> {
        let call = async {
            let called = how.call(&self.calls, T::TYPE, mine.len())?;
            how.conclude(called, mine, all).await
        };
        self.runtime.inside(call).await
    }
}

impl GatherV {
    pub(crate) const fn quantization(&self) -> Quantization {
        self.quantization
    }

    /// Calls the all-gather. This peer contributes so many elements.
    pub(crate) fn call(
        self,
        calls: &Calls,
        element: ElementType,
        own: usize,
    ) -> Result<Called, Error> {
        let kind = CollectiveKind::AllGatherV {
            own: own as u64,
            limit: self.limit,
        };
        let spec = spec_of(kind, (element, self.quantization), 0)?;
        Called::of(calls, self.tag, spec, self.time_limit)
    }

    /// Carries it out. `all` is as it was unless it succeeds.
    pub(crate) async fn conclude<T: Element>(
        self,
        called: Called,
        mine: &[T],
        all: &mut Vec<T>,
    ) -> Result<GatheredV, Error> {
        let mut gathering = Gathering {
            own: mine,
            tag: self.tag,
            all: reused(all),
            ranges: Vec::new(),
        };
        let report = called.conclude(Memory::Fresh(&mut gathering)).await?;
        let Gathering {
            all: result,
            ranges,
            ..
        } = gathering;
        *all = result;
        Ok(GatheredV { ranges, report })
    }
}

/// The vector, if it is empty: its memory is of use. Else a new one.
fn reused<T>(all: &mut Vec<T>) -> Vec<T> {
    match all.is_empty() {
        true => std::mem::take(all),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::lengths::Lengths;

    use super::*;

    fn gathering(own: &[u64]) -> Gathering<'_, u64> {
        Gathering {
            own,
            tag: Tag(1),
            all: Vec::new(),
            ranges: Vec::new(),
        }
    }

    #[test]
    fn the_own_elements_lie_where_the_ranks_before_leave_off() {
        let shards = Shards::of_lengths(&Lengths(vec![2, 3, 1])).unwrap();
        let own = [4, 5, 6];
        let mut gathering = gathering(&own);

        let bytes = gathering.open(&shards, 1).unwrap().len();

        assert_eq!(bytes, 48);
        assert_eq!(gathering.all, [0, 0, 4, 5, 6, 0]);
        assert_eq!(gathering.ranges, [0..2, 2..5, 5..6]);
    }

    /// A limit that allows it has not protected this peer; still it is an error, and no panic.
    #[test]
    fn for_more_than_there_is_memory_none_is_set_aside() {
        for elements in [u64::MAX - 1, 1 << 60, 1 << 58] {
            let shards = Shards::of_lengths(&Lengths(vec![1, elements])).unwrap();
            let mut gathering = gathering(&[1]);

            let opened = gathering.open(&shards, 0).map(drop);

            let (tag, elements) = (Tag(1), elements + 1);
            assert_eq!(opened, Err(Error::OutOfMemory { tag, elements }));
        }
    }
}
