//! What the way from one host to another is like.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes that a direction of a lane holds, unless it is said otherwise.
const DEFAULT_WINDOW: usize = 64 * 1024;

/// One direction: how long bytes take, how many may be under way, and what becomes of them.
///
/// A path that takes no time needs no clock. Any other goes by tokio's, whose timers are no finer than a
/// millisecond; under its paused clock a run takes no time and is the same each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// How long a byte takes from one end to the other. What is told back takes as long.
    pub delay: Duration,
    /// What all lanes of the path carry together. `None`: what is sent leaves at once.
    pub bytes_per_second: Option<u64>,
    /// Bytes of a lane that were sent and are not known to have been read. At this many the sender waits. At
    /// least one.
    pub window: usize,
    /// Bytes of a lane that arrive. Those behind them are lost, and so is the end of the stream: the
    /// receiver waits, and is told nothing.
    pub carries: u64,
    /// Whether the sender's system notices that bytes do not arrive: then
    /// [`give_up_after`](pccl_core::transport::LaneTx::give_up_after) ends the lane.
    pub tells: bool,
    /// Bits that arrive wrong. `None`: none.
    pub flips: Option<Flips>,
}

/// Bits that arrive wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flips {
    /// Decides which. The same bits of the same lanes are wrong each time.
    pub seed: u64,
    /// One bit in about so many bytes. At least one.
    pub every: u64,
}

impl Path {
    /// Takes no time and loses nothing; 64 KiB per lane may be under way.
    pub const DIRECT: Self = Self {
        delay: Duration::ZERO,
        bytes_per_second: None,
        window: DEFAULT_WINDOW,
        carries: u64::MAX,
        tells: true,
        flips: None,
    };

    /// A millisecond long, and otherwise as [`DIRECT`](Self::DIRECT).
    pub const NEAR: Self = Self {
        delay: Duration::from_millis(1),
        ..Self::DIRECT
    };
}

impl Default for Path {
    fn default() -> Self {
        Self::DIRECT
    }
}

/// What a path of limited rate sends with: one byte after the other, whichever lanes they are of.
#[derive(Default)]
pub(crate) struct Wire(Mutex<Option<Instant>>);

impl Wire {
    /// When so many more bytes have left.
    pub(crate) fn book(&self, bytes: usize, bytes_per_second: u64) -> Instant {
        let now = Instant::now();
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = free.map_or(now, |free| free.max(now)) + takes;
        *free = Some(left);
        left
    }
}

/// Turns bits of one lane over.
pub(crate) struct Flipping {
    flips: Flips,
    state: u64,
    /// Bytes before the next one with a wrong bit.
    left: u64,
}

impl Flipping {
    /// Of the lane with this number.
    pub(crate) fn new(flips: Flips, lane: u64) -> Self {
        let mut flipping = Self {
            flips,
            state: flips.seed ^ lane.wrapping_mul(0xd134_2543_de82_ef95),
            left: 0,
        };
        flipping.left = flipping.distance();
        flipping
    }

    pub(crate) fn pass<'a>(&mut self, bytes: impl Iterator<Item = &'a mut u8>) {
        for byte in bytes {
            if self.left > 0 {
                self.left -= 1;
                continue;
            }
            *byte ^= 1 << (self.next() % 8);
            self.left = self.distance();
        }
    }

    /// From none to twice as many as asked for, so that it is those in the mean.
    fn distance(&mut self) -> u64 {
        let span = self.flips.every.max(1).saturating_mul(2) - 1;
        self.next() % span
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
