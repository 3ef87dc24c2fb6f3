//! What the driver does with what the processes tell.

use std::time::Instant;

use pccl_subprocess::Process;

use super::driver::{Driver, name_of};
use super::finding::Finding;
use super::plan::Number;
use super::talk::{Event, Holdings, Step, Synced, Verdict};

impl Driver<'_> {
    pub(super) fn take(&mut self, process: Process, event: Event) {
        let number = self.numbers.get(&process).copied().unwrap_or(Number::MAX);
        match event {
            Event::Listening { at, since } => self.master_listens(at, since),
            Event::Joined { peer } => {
                self.tally.joins += 1;
                self.live
                    .note(|| format!("{} joined as {peer}", name_of(number)));
                if let Some(known) = self.peers.get_mut(&number) {
                    (known.id, known.world) = (Some(peer), 0);
                }
                // Another session: what it waits for is its admission.
                self.masters.stalls.gone(number);
            }
            Event::Verdict(verdict) => self.decided(number, &verdict),
            Event::Synced(synced) => self.synced(number, &synced),
            Event::Step(step) => self.stepped(number, &step),
            Event::Resting(holds) => self.sample(process, number, holds),
            Event::Failed { error } => {
                self.tally.restarts += 1;
                self.error(number, &error);
                self.fails_if_spared(number, error);
            }
            Event::Lost { error } => {
                self.tally.lost += 1;
                self.error(number, &error);
                self.masters.stalls.gone(number);
                self.lost(number, error);
            }
            Event::Wrong { what } => {
                self.peers.remove(&number);
                self.masters.stalls.gone(number);
                self.found(Finding::BrokenPromise { number, what });
            }
            Event::GaveUp { error } => {
                self.peers.remove(&number);
                self.masters.stalls.gone(number);
                self.found(Finding::GaveUp { number, error });
            }
        }
    }

    fn decided(&mut self, number: Number, verdict: &Verdict) {
        self.tally.verdicts += 1;
        self.checker.decided(number, verdict);
        if verdict.is_commit {
            self.masters.stalls.committed(number, verdict.at);
        } else {
            self.fails_if_spared(number, format!("{verdict:?}"));
        }
    }

    fn lost(&mut self, number: Number, error: String) {
        let peer = self.peers.get(&number);
        let may_be_evicted = peer.is_none_or(|peer| peer.may_be_evicted);
        if self.masters.are_killed()
            && error == pccl::Error::MasterLost.to_string()
            && !may_be_evicted
        {
            self.found(Finding::MasterLost { number });
        }
        self.fails_if_spared(number, error);
    }

    fn fails_if_spared(&mut self, number: Number, error: String) {
        if self.is_spared {
            self.found(Finding::CallFailed { number, error });
        }
    }

    fn synced(&mut self, number: Number, synced: &Synced) {
        self.tally.fetches += u64::from(synced.entries_received > 0);
        self.checker.synced(number, synced);
    }

    fn stepped(&mut self, number: Number, step: &Step) {
        self.checker.stepped(number, step);
        let contributors = step
            .reduces
            .last()
            .map_or(&[][..], |done| &done.contributors);
        self.pulse.stepped(contributors, Instant::now());
        let tally = &mut self.tally;
        tally.steps += u64::from(self.newest.is_none_or(|newest| newest < step.revision));
        tally.commits += step.reduces.len() as u64;
        tally.aborts += step.aborts;
        tally.retries += step.retries;
        self.newest = self.newest.max(Some(step.revision));
        if step.aborts + step.retries > 0 {
            self.fails_if_spared(number, "a call was made again".into());
        }
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.world = contributors.len();
        }
    }

    /// Keeps a sample of a peer that rests, or of the master, which is asked for one at each sample of the first peer.
    fn sample(&mut self, process: Process, number: Number, holds: Holdings) {
        let Some(window) = &mut self.window else {
            return;
        };
        if process == self.masters.process {
            window.add("master", holds);
            return;
        }
        window.add(&name_of(number), holds);
        // A master that follows another has another history.
        if number == 0 && !self.masters.are_killed() {
            // Fails if it has ended, which is noticed where its output ends.
            self.processes.tell(self.masters.process, &()).ok();
        }
    }

    fn error(&mut self, number: Number, error: &str) {
        self.tally.error(error);
        self.live.note(|| format!("{}: {error}", name_of(number)));
    }

    /// A process has closed its output. After its last words that is no news.
    pub(super) fn ended(&mut self, process: Process) {
        if process == self.masters.process {
            let who = "the master".into();
            self.found(Finding::Ended { who });
        }
        if let Some(number) = self.numbers.get(&process).copied()
            && self.peers.remove(&number).is_some()
        {
            let who = name_of(number);
            self.found(Finding::Ended { who });
        }
    }
}
