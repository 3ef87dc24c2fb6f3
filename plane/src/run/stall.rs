//! Finding out that nothing moves, and who knows it first.
//!
//! If a link carries nothing, everybody behind it starves as well. The sender of that link has a frame that does not
//! leave, or its system tells that it does not arrive, and knows which link it is. So does who gets frames, and none
//! that it has a use for. Who only starves does not, and waits half as long again. In rounds most ranks wait for ranks
//! that wait as well: one that lacks nothing that is sent at once waits longer still. Along a chain every rank behind
//! the link names the link before itself, and only the first of them is right. So each rank waits longer than the one
//! before it, and so it does down a tree and in two levels.
//!
//! Long before anybody is blamed, the operation says whom it waits for ([`Stall::lull`]): the looks for that are closer
//! together, and every so many of them one of those above is due.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::handover::Registry;

/// How many times during the stall time it is looked whether anything moves.
pub(crate) const LOOKS_PER_STALL: u32 = 4;

/// After how many of them in vain whoever waits for bytes says that none come: one and a half times the
/// stall time.
const LOOKS_UNTIL_STARVED: u32 = 6;

/// The same for whoever lacks nothing but what its senders send after others: twice the stall time.
const LOOKS_UNTIL_BEHIND: u32 = 8;

/// Along a chain, down a tree and in two levels each rank waits a look longer than the one before it, and none more than
/// so many: four times the stall time in all.
const LOOKS_FURTHER_MAX: u32 = 8;

/// Looks at whether anything moves are this far apart, or less.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// If nothing has moved for so long, it is told at each look for whom the operation waits.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Finds out that nothing moves, without touching the clock for every frame.
pub(crate) struct Stall {
    next_look: Pin<Box<Sleep>>,
    pause: Duration,
    /// How many looks there are until one that counts.
    until_counted: u32,
    /// How many looks there are for one that counts.
    looks_per_counted: u32,
    lull: Lull,
    seen: Moves,
    /// Counted looks in a row at which nothing had moved.
    idle_looks: u32,
    /// The same for each frame that leaves: which one it was and how much of it had left, and since how
    /// many looks.
    leaving: Vec<(Option<LeftSoFar>, u32)>,
    /// The number of the registry at the look before.
    excuses: u64,
    /// Whether the operation was ahead of others at the look before.
    was_ahead: bool,
}

/// A time in which nothing moves.
struct Lull {
    seen: Moves,
    since: Instant,
}

impl Lull {
    fn new(seen: Moves) -> Self {
        Self {
            seen,
            since: Instant::now(),
        }
    }
}

/// How many frames have left on a lane, and how many bytes of the next one.
pub(crate) type LeftSoFar = (u64, usize);

/// How often bytes have moved on the links that are waited for.
pub(crate) type Moves = (Option<u64>, Option<u64>);

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallCheck {
    /// Nothing has moved since the look before, on any lane that is waited for.
    pub(crate) quiet: bool,
    /// Nothing has moved for the stall time, on any lane that is waited for.
    pub(crate) is_still: bool,
    /// Nothing has moved for one and a half times the stall time, on any lane that is waited for.
    pub(crate) is_starved: bool,
    /// Nothing has moved on any lane that is waited for, for twice the stall time, or longer if ranks before this one
    /// wait for the same.
    pub(crate) is_behind: bool,
    /// Nothing has moved for the stall time of a frame that has begun to leave.
    pub(crate) frame_stuck: bool,
}

impl Stall {
    /// Of a rank that sends on so many lanes.
    pub(crate) fn new(stall: Duration, lanes: usize, registry: &Registry) -> Self {
        let counted = stall / LOOKS_PER_STALL;
        let looks = counted.as_nanos().div_ceil(LOOK_EVERY.as_nanos());
        let looks_per_counted = u32::try_from(looks).unwrap_or(u32::MAX).max(1);
        let pause = counted / looks_per_counted;
        Self {
            next_look: Box::pin(sleep_until(Instant::now() + pause)),
            pause,
            until_counted: looks_per_counted,
            looks_per_counted,
            lull: Lull::new((None, None)),
            seen: (None, None),
            idle_looks: 0,
            leaving: vec![(None, 0); lanes],
            excuses: registry.excuses(),
            was_ahead: false,
        }
    }

    /// Is it time to look?
    pub(crate) fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.next_look.as_mut().poll(cx)
    }

    /// Takes note of how much has moved at a look. For how long nothing has, if that is to be told.
    /// Nobody is waited for while the operation `is_ahead`.
    pub(crate) fn lull(&mut self, moves: Moves, is_ahead: bool) -> Option<Duration> {
        let now = Instant::now();
        self.next_look.as_mut().reset(now + self.pause);
        if is_ahead || moves != self.lull.seen {
            self.lull = Lull::new(moves);
        }
        let lasts = now - self.lull.since;
        (lasts >= TELL_AFTER).then_some(lasts)
    }

    /// Whether this look is one that counts.
    pub(crate) const fn is_counted(&mut self) -> bool {
        self.until_counted = self.until_counted.saturating_sub(1);
        let is_counted = self.until_counted == 0;
        if is_counted {
            self.until_counted = self.looks_per_counted;
        }
        is_counted
    }

    /// Takes note, at a look that counts, of how much has moved: in all, and of the frame that leaves on each lane.
    /// `ranks_before` counts the ranks before this one that wait for the same, and is asked only if that may decide.
    pub(crate) fn looked(
        &mut self,
        moves: Moves,
        leaving: impl Iterator<Item = Option<LeftSoFar>>,
        ranks_before: impl Fn() -> u32,
    ) -> StallCheck {
        let idle = moves == self.seen;
        self.idle_looks = if idle { self.idle_looks + 1 } else { 0 };
        self.seen = moves;
        let mut frame_stuck = false;
        for ((seen, looks), left) in self.leaving.iter_mut().zip(leaving) {
            let idle = left.is_some() && left == *seen;
            *looks = if idle { *looks + 1 } else { 0 };
            *seen = left;
            frame_stuck |= *looks >= LOOKS_PER_STALL;
        }
        let until_behind = || LOOKS_UNTIL_BEHIND + ranks_before().min(LOOKS_FURTHER_MAX);
        StallCheck {
            quiet: idle,
            is_still: self.idle_looks >= LOOKS_PER_STALL,
            is_starved: self.idle_looks >= LOOKS_UNTIL_STARVED,
            is_behind: self.idle_looks >= LOOKS_UNTIL_BEHIND && self.idle_looks >= until_behind(),
            frame_stuck,
        }
    }

    /// Whether what has not moved until this look, one that counts, is nobody's fault: stalls are excused, or the operation
    /// `is_ahead` of others, or one of this was so since the look before. Then the stall time begins anew.
    pub(crate) fn is_excused(&mut self, registry: &Registry, is_ahead: bool) -> bool {
        let excuses = registry.excuses();
        let is_excused = excuses != self.excuses
            || Registry::are_excused_in(excuses)
            || is_ahead
            || self.was_ahead;
        (self.excuses, self.was_ahead) = (excuses, is_ahead);
        if is_excused {
            self.idle_looks = 0;
            for (_, looks) in &mut self.leaving {
                *looks = 0;
            }
        }
        is_excused
    }

    /// Has nothing moved for the stall time of the frame that leaves here?
    pub(crate) fn is_stuck(&self, outlet: usize) -> bool {
        let leaving = self.leaving.get(outlet);
        leaving.is_some_and(|(_, looks)| *looks >= LOOKS_PER_STALL)
    }
}
