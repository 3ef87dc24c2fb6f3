//! Which congestion control the lanes to other machines have, if the transport leaves the choice.
//!
//! One that paces by a model of the path fills a path that loses packets at random, where one that takes each loss for
//! a full queue carries next to nothing. If the path loses none and a collective is a burst of some hundred kilobytes
//! per link, the model hardly learns anything, overfills the queue with the burst, and the burst takes up to twice as
//! long (docs/collectives.md, "Sites"). No address tells which it is, so the loss-based one is tried at times, and
//! held as long as it carries more.
//!
//! All links of a peer have the same one, because a collective over many of them takes as long as the slowest one:
//! alone, none would gain. For the same reason the peers of a run try at the same time, and measure the same: from the
//! beginning of a collective to its verdict, so until all are done. They need no messages for that: all of them begin
//! anew when their links change, count collectives that run one after the other alike, and try again at round numbers.
//! The model is also taken back if it carries as much, so a peer that alone holds a loss-based one, which gains
//! nothing, gives it up.
//!
//! A loss-based one may carry a fortieth where packets are lost. So it is given up in the middle of a collective that
//! takes much longer than those before, before a larger one, and if collectives that can be compared become rare. The
//! lanes of a collective that has ended here and awaits its verdict change as well, because its last bytes may wait in
//! their buffers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::id::Seq;
use pccl_core::transport::CongestionControl;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

pub(crate) use trials::Load;
use trials::Trials;

mod trials;

/// The choice of a peer.
#[derive(Debug, Default)]
pub(crate) struct ControlChoice {
    trials: Mutex<Trials>,
    /// How often it was another one.
    changes: AtomicU32,
    /// Collectives whose runs have ended here, until they are stopped.
    awaited: Mutex<BTreeMap<Seq, Awaited>>,
}

/// A collective that all ranks have begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) seq: Seq,
    pub(crate) load: Load,
    pub(crate) begun: Instant,
    /// It began alone, and takes as long as the others of its load.
    pub(crate) is_comparable: bool,
}

/// A collective whose run has ended here, so that its last bytes are in its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedHere {
    pub(crate) timed: Timed,
    /// Its lanes have a loss-based one, which is given up if the collective becomes overdue elsewhere.
    pub(crate) is_guarded: bool,
    /// How many collectives ran at once when that was looked at.
    pub(crate) at_once: usize,
}

/// Gives the lanes of a collective that has ended here what they should have, unless another one holds them.
type Steer = Arc<dyn Fn() + Send + Sync>;

/// A collective that has ended here, and perhaps not elsewhere.
struct Awaited {
    timed: Timed,
    steer: Steer,
    /// What gives the loss-based one up if the collective takes too long.
    guard: Option<AbortHandle>,
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Awaited")
            .field("timed", &self.timed)
            .finish_non_exhaustive()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.guard.iter().for_each(AbortHandle::abort);
    }
}

impl ControlChoice {
    /// What lanes should have at this moment.
    pub(crate) fn wanted(&self) -> CongestionControl {
        self.trials().wanted()
    }

    /// How often that has changed. What is measured before and after a change is not comparable.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Other links stand, or the same ones in another group. Nothing is known about them, and all peers of the group
    /// begin anew.
    pub(crate) fn links_changed(&self) {
        self.change(|trials| *trials = Trials::default());
        self.awaited().clear();
    }

    /// Is nothing tried, and will nothing be soon? Until then, what is carried tells nothing about anything else.
    pub(crate) fn is_settled(&self) -> bool {
        self.trials().is_settled()
    }

    /// A collective begins.
    pub(crate) fn begins(&self, seq: Seq, load: Load) {
        self.change(|trials| trials.begins(seq.0, load));
    }

    /// When a collective has taken so long that a loss-based one is to blame, if so many have run at once. `None`:
    /// lanes should have none.
    pub(crate) fn overdue_at(&self, timed: &Timed, at_once: usize) -> Option<Instant> {
        let limit = self.trials().limit(timed.load)?;
        let times = u32::try_from(at_once).unwrap_or(u32::MAX).max(1);
        timed.begun.checked_add(limit.checked_mul(times)?)
    }

    /// A collective has exceeded its limit. What runs at this moment tells nothing about what lanes have from here on.
    pub(crate) fn give_up(&self, seq: Seq) {
        tracing::debug!(%seq, "a loss-based congestion control is given up");
        let mut awaited = self.awaited();
        awaited
            .values_mut()
            .for_each(|awaited| awaited.timed.is_comparable = false);
        drop(awaited);
        self.change(|trials| trials.give_up(seq.0));
    }

    /// From here until the collective is stopped, `steer` is called when its lanes should have another one. `at_once`:
    /// how many collectives run. Must be called in a tokio runtime.
    pub(crate) fn awaits(
        self: &Arc<Self>,
        ended_here: EndedHere,
        at_once: impl Fn() -> usize + Send + 'static,
        steer: impl Fn() + Send + Sync + 'static,
    ) {
        let steer: Steer = Arc::new(steer);
        // The task finds it there.
        let mut awaited = self.awaited();
        let guard = ended_here.is_guarded.then(|| {
            let guard = Arc::clone(self).guard(ended_here, at_once, Arc::clone(&steer));
            tokio::spawn(guard).abort_handle()
        });
        let timed = ended_here.timed;
        let entry = Awaited {
            timed,
            steer,
            guard,
        };
        awaited.insert(timed.seq, entry);
    }

    /// Ends when a collective is overdue, or lanes should have the model.
    async fn guard(
        self: Arc<Self>,
        ended_here: EndedHere,
        at_once: impl Fn() -> usize,
        steer: Steer,
    ) {
        let timed = ended_here.timed;
        let mut most = ended_here.at_once;
        // Others may have begun since the last look, and those that have ended took their share of the time.
        loop {
            most = most.max(at_once());
            let Some(at) = self.overdue_at(&timed, most) else {
                break;
            };
            if at <= Instant::now() {
                self.give_up(timed.seq);
                return;
            }
            sleep_until(at).await;
        }
        // It may have changed just before the run ended.
        steer();
    }

    /// A collective is stopped, mostly because its verdict is known. `was_alone`: no other one has begun since.
    pub(crate) fn stopped(&self, seq: Seq, was_alone: bool) {
        let awaited = self.awaited().remove(&seq);
        let Some(awaited) = awaited else {
            return;
        };
        let Timed { load, begun, .. } = awaited.timed;
        if awaited.timed.is_comparable && was_alone {
            self.change(|trials| trials.took(seq.0, load, begun.elapsed()));
        }
    }

    /// Whatever may come to want another one. Collectives that run look for themselves.
    fn change(&self, change: impl FnOnce(&mut Trials)) {
        let mut trials = self.trials();
        let before = trials.wanted();
        change(&mut trials);
        let is_changed = trials.wanted() != before;
        drop(trials);
        if is_changed {
            self.changes.fetch_add(1, Ordering::Relaxed);
            let awaited = self.awaited();
            let all: Vec<Steer> = awaited.values().map(|one| Arc::clone(&one.steer)).collect();
            drop(awaited);
            all.iter().for_each(|steer| steer());
        }
    }

    fn trials(&self) -> MutexGuard<'_, Trials> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeMap<Seq, Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
