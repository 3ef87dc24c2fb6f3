//! How much is in flight: every limit of flow control, what it bounds, and why.
//!
//! | limit | bounds | why |
//! |---|---|---|
//! | [`FRAME_PAYLOAD_MAX`], 256 KiB | the payload of a frame | large enough that headers and system calls do not count, small enough to stay in a core's cache |
//! | [`COPIED_PAYLOAD_MAX`], 1 MiB | the payload of a frame that all others only copy, within a machine | nothing is added to it while it is in a cache, and fewer frames cost less |
//! | [`SITE_RING_PAYLOAD_MAX`], 64 KiB | the payload of a frame in a ring of sites, unless it is encoded | a frame goes on when all of it is here, so short ones keep more sites busy |
//! | [`ENCODED_FRAME_ELEMENTS`], 64 Ki | the elements of an encoded frame | a frame has parameters of its own, so all ranks have to cut alike |
//! | [`STRIPE_BYTES_MIN`], 512 KiB | how short a stripe may be: a smaller buffer takes fewer lanes | a shorter one costs more in frames than another lane brings |
//! | [`HELD_MAX`], 4 | frames of an operation that wait in scratch for one lane; those beyond are set aside in memory of the result | memory that does not grow with the buffer, and a frame in scratch is still in a cache |
//! | [`FRAMES_AT_ONCE`], 8, and [`BYTES_AT_ONCE`], 64 KiB | what is put into a lane by one system call; one frame always is | small frames cost a call each otherwise, and who waits for the lane gets it after little |
//! | [`SMALL_BYTES`], 32 KiB | up to how much all that an operation still expects over a link is received with a header | less than this is copied sooner than it is asked for |
//! | [`LOCAL_WINDOW`], 1 MiB, or four frames | bytes of own contributions in flight, per operation, where no frame leaves the machine | enough to keep all ranks busy, little enough to stay in caches |
//! | [`ENCODED_WINDOW`], 64 MiB | bytes of elements that are in flight encoded around rings, of all operations | encoded frames wait in memory of their own, wherever they wait |
//! | [`CONCURRENT_DEFAULT`], 16 | operations that contribute at a time | each needs its frames and, in place, a backup |
//! | [`Share`] | how much of its window an operation may fill | on one machine, frames of many large operations push each other out of the caches; an operation of one frame cannot |
//! | [`IDLE_FRAMES_MAX`], 64 | unused frame buffers that are kept: 16 MiB | the next operation allocates none |
//!
//! Between machines what is not encoded has no window: what the next rank does not take waits in memory that is there
//! anyway. Nor has what is encoded and kept until a sum is complete: the plan says how much that is. What arrives is
//! never held up by any of these limits, so a rank that decides otherwise than its neighbours delays its own
//! contribution alone.
//!
//! | file | what it is for |
//! |---|---|
//! | `window` | how much of one operation's contribution is in flight |
//! | `pacer` | which operations contribute, and with which share |
//! | `checksums` | which lanes carry checksums |
//! | `lanes` | how many lanes of a link a reduce takes |
//! | `control` | which congestion control lanes between machines have |
//! | `trial` | how both find out which way carries more |
//!
//! How long something may stand still is no limit of pace; `run::stall` has those.

use std::time::Duration;

use pccl_core::plan::{Algorithm, STRIPE_BYTES_MIN};
use pccl_core::wire::{COPIED_PAYLOAD_MAX, FRAME_PAYLOAD_MAX, SITE_RING_PAYLOAD_MAX};

mod checksums;
mod control;
mod lanes;
mod pacer;
mod trial;
mod window;

pub use checksums::Checksums;
pub(crate) use control::{ControlChoice, EndedHere, Load, Timed};
pub(crate) use lanes::LaneChoice;
pub(crate) use pacer::{Pacer, Pass};
pub(crate) use trial::{Rate, TEACHES_FROM, rate};
pub(crate) use window::Window;

/// Elements of an encoded frame; a frame is shorter only at the end of a chunk. All peers have to agree.
pub(crate) const ENCODED_FRAME_ELEMENTS: u64 = 64 * 1024;

/// Frames of one operation that wait in memory for one lane. Those beyond are set aside in the memory
/// of the result.
pub(crate) const HELD_MAX: usize = 4;

/// Frames that are put into a lane at once, if so many are there.
pub(crate) const FRAMES_AT_ONCE: usize = 8;

/// Once frames of so many bytes are to be put into a lane, no other one joins them.
pub(crate) const BYTES_AT_ONCE: usize = 64 * 1024;

/// What an operation expects over a link is received with the next header, if it is at most this.
pub(crate) const SMALL_BYTES: usize = 32 * 1024;

/// Bytes of the own contribution that are under way at a time where no frame leaves this machine:
/// measured to be enough to keep everybody busy, and little enough to stay in caches.
const LOCAL_WINDOW: u64 = 1024 * 1024;

/// Bytes of elements of own contributions that may be on their way encoded, of all operations. As f32 to
/// bytes that fills a gigabit per second where the way around the ring takes a quarter of a second with
/// two peers, and three quarters with four.
const ENCODED_WINDOW: u64 = 64 * 1024 * 1024;

/// Operations that contribute at a time, unless the configuration says otherwise.
pub const CONCURRENT_DEFAULT: usize = 16;

/// Unused frame buffers that are kept: 16 MiB.
pub(crate) const IDLE_FRAMES_MAX: usize = 64;

/// How the data plane behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneConfig {
    /// A frame that begins to leave and makes no progress for so long has lost its lane, and an operation
    /// to which nothing comes for one and a half times as long. Default: 10 s.
    pub stall: Duration,
    /// Most bytes of payload in a frame. Default: [`FRAME_PAYLOAD_MAX`].
    pub frame_bytes: usize,
    /// The same in an operation in which nothing is added, if all ranks are within one machine. Default:
    /// [`COPIED_PAYLOAD_MAX`].
    pub copied_frame_bytes: usize,
    /// Bytes of own contributions that may be under way where no frame leaves this machine; four frames always may.
    /// Default: 1 MiB.
    pub local_window: u64,
    /// Operations that contribute at a time; further ones wait. Default: [`CONCURRENT_DEFAULT`].
    pub concurrent: usize,
    /// Least bytes of a stripe. The same at all peers. Default: [`STRIPE_BYTES_MIN`].
    pub stripe_bytes: u64,
    /// On which lanes payloads are sent with a checksum. Default: [`Checksums::BetweenMachines`].
    pub checksums: Checksums,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(10),
            frame_bytes: FRAME_PAYLOAD_MAX,
            copied_frame_bytes: COPIED_PAYLOAD_MAX,
            local_window: LOCAL_WINDOW,
            stripe_bytes: STRIPE_BYTES_MIN,
            concurrent: CONCURRENT_DEFAULT,
            checksums: Checksums::default(),
        }
    }
}

/// A buffer that goes from rank to rank is cut into so many frames at least, if that makes them long ones: the last rank
/// waits for the first frame once for each rank before it.
const CHAINED_FRAMES_MIN: u64 = 64;

/// What all ranks of an operation only copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Each rank has a part of it, so all links are busy from the start.
    Shards,
    /// One rank has all of it.
    Buffer {
        /// Its bytes.
        bytes: u64,
    },
}

/// Frames of the own contribution for which a window within a machine has room.
const LOCAL_FRAMES_MIN: u64 = 4;

impl PlaneConfig {
    /// How much an operation puts under way. `is_local`: as far as this rank knows no frame leaves the machine.
    /// `copied`: what all ranks only copy and none adds to, if they are within one machine.
    pub(crate) fn pace(&self, is_local: bool, copied: Option<Copied>) -> Pace {
        let longest = self.copied_frame_bytes;
        let frame_bytes = match copied.filter(|_| is_local) {
            None => self.frame_bytes,
            Some(Copied::Shards) => longest,
            Some(Copied::Buffer { bytes }) => {
                let part = usize::try_from(bytes / CHAINED_FRAMES_MIN).unwrap_or(longest);
                part.clamp(self.frame_bytes.min(longest), longest)
            }
        };
        let room = LOCAL_FRAMES_MIN.saturating_mul(frame_bytes as u64);
        Pace {
            frame_bytes,
            window: is_local.then_some(self.local_window.max(room)),
            stripe_bytes: self.stripe_bytes,
        }
    }
}

/// How much an operation puts under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Most bytes of a frame's elements.
    pub(crate) frame_bytes: usize,
    /// Bytes of the own contribution that may be on their way, over all stripes;
    /// `None`: as much as the lanes take.
    pub(crate) window: Option<u64>,
    /// Least bytes of a stripe. All ranks have to agree.
    pub(crate) stripe_bytes: u64,
}

impl Pace {
    /// The pace of an algorithm. `is_local`: as far as this rank knows no frame leaves the machine.
    pub(crate) fn by(self, algorithm: Algorithm, is_local: bool) -> Self {
        let frame_bytes = match algorithm == Algorithm::TwoLevelRing && !is_local {
            true => self.frame_bytes.min(SITE_RING_PAYLOAD_MAX),
            false => self.frame_bytes,
        };
        Self {
            frame_bytes,
            ..self
        }
    }
}

/// How much of what may be under way an operation may fill with its own contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Nothing: it is not its turn.
    Nothing,
    /// Half: another one has the rest.
    Half,
    /// All that there is.
    Whole,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn frames_are_long_where_all_ranks_only_copy_and_none_leaves_the_machine() {
        let config = PlaneConfig::default();
        let frame = |is_local, copied| config.pace(is_local, copied).frame_bytes;

        assert_eq!(frame(true, Some(Copied::Shards)), COPIED_PAYLOAD_MAX);
        assert_eq!(frame(true, None), FRAME_PAYLOAD_MAX);
        assert_eq!(frame(false, Some(Copied::Shards)), FRAME_PAYLOAD_MAX);
        assert_eq!(frame(false, None), FRAME_PAYLOAD_MAX);
    }

    #[test]
    fn what_goes_from_rank_to_rank_is_cut_into_many_frames() {
        let config = PlaneConfig::default();
        let frame = |bytes| {
            let copied = Some(Copied::Buffer { bytes });
            config.pace(true, copied).frame_bytes
        };

        assert_eq!(frame(0), FRAME_PAYLOAD_MAX);
        assert_eq!(frame(16 * MIB), FRAME_PAYLOAD_MAX);
        assert_eq!(frame(32 * MIB), 2 * FRAME_PAYLOAD_MAX);
        assert_eq!(frame(64 * MIB), COPIED_PAYLOAD_MAX);
        assert_eq!(frame(u64::MAX), COPIED_PAYLOAD_MAX);
    }

    #[test]
    fn frames_that_go_from_site_to_site_are_short() {
        let frame = |algorithm, is_local| {
            let pace = PlaneConfig::default().pace(is_local, None);
            pace.by(algorithm, is_local).frame_bytes
        };

        assert_eq!(frame(Algorithm::TwoLevelRing, false), SITE_RING_PAYLOAD_MAX);
        assert_eq!(frame(Algorithm::TwoLevelRing, true), FRAME_PAYLOAD_MAX);
        assert_eq!(frame(Algorithm::TwoLevel, false), FRAME_PAYLOAD_MAX);
    }

    #[test]
    fn a_window_within_a_machine_has_room_for_several_frames() {
        let config = PlaneConfig::default();
        let window = |is_local, copied| config.pace(is_local, copied).window;

        assert_eq!(window(true, None), Some(LOCAL_WINDOW));
        assert_eq!(window(true, Some(Copied::Shards)), Some(4 * MIB));
        assert_eq!(window(false, Some(Copied::Shards)), None);
    }
}
