//! How long reduces may take while nothing goes wrong: who waits for a wake-up that is lost gets on in the end, because
//! everybody looks around now and then, but late.

use std::time::Duration;

use tokio::time::Instant;

use super::fault::What;
use super::plan::Plan;
use super::world::World;
use crate::churn::work::Work;

/// How many times longer than they have to the reduces of a step may take.
const FACTOR: u32 = 3;

/// How long it may take in addition to go on without a process that was killed, or over other lanes.
const GOING_ON: Duration = Duration::from_secs(3);

/// The reduces of one step of one group: the life of the master, the group, the revision.
pub(super) type Meeting = (u32, u32, u64);

impl World {
    /// A peer begins the reduces of a step. They can end once the last one has begun.
    pub(super) fn begins(&self, meeting: Meeting) {
        self.with(|state| {
            state.meetings.insert(meeting, Instant::now());
            while state.meetings.len() > 64 {
                state.meetings.pop_first();
            }
        });
    }

    /// Something goes wrong.
    pub(super) fn disturbed(&self, by: What) {
        self.with(|state| {
            state.disturbed = Some(Instant::now());
            state.is_slow |= !by.is_told();
        });
    }

    /// They have ended at a peer.
    pub(super) fn ends(&self, number: usize, meeting: Meeting, work: &[Work]) {
        let (begun, disturbed, is_slow) = self.with(|state| {
            let begun = state.meetings.get(&meeting).copied();
            (begun, state.disturbed, state.is_slow)
        });
        let script = &self.plan.script;
        // A measurement leaves queues behind.
        let is_quick = !is_slow && script.gives_up == 0 && script.optimizes == 0;
        let Some(begun) = begun.filter(|_| is_quick) else {
            return;
        };
        let needed = self.plan.needed(work) * FACTOR;
        let (since, limit) = match disturbed {
            Some(at) => (begun.max(at), needed + GOING_ON + self.plan.reconnect),
            None => (begun, needed),
        };
        let took = since.elapsed();
        if took > limit {
            let revision = meeting.2;
            self.found(&format!(
                "the reduces of step {revision} took peer {number} {took:?}, and {limit:?} are plenty"
            ));
        }
    }
}

impl Plan {
    /// About how long these reduces take at most, in a group of all peers.
    fn needed(&self, work: &[Work]) -> Duration {
        let members = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let delay = self.paths.map(|path| path.delay);
        let delay = delay.into_iter().max().unwrap_or_default();
        let round_trip = (delay * 2).as_secs_f64();
        // As much may be on its way as fits into the window.
        let rates = self.paths.map(|path| {
            let windowed = path.window as f64 / round_trip;
            path.bytes_per_second
                .map_or(windowed, |rate| windowed.min(rate as f64))
        });
        let rate = rates.into_iter().fold(f64::INFINITY, f64::min);
        // Twice around the ring. An element has eight bytes at most.
        let bytes: f64 = work.iter().map(|work| (work.length * 8 * 2) as f64).sum();
        // A vote and its answer, twice, and as many hops.
        let hops = delay * (4 + 2 * members);
        let count = u32::try_from(work.len()).unwrap_or(u32::MAX);
        hops * count + Duration::from_secs_f64(bytes / rate)
    }
}
