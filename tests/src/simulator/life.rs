//! A simulated peer from its first line to its end: it connects, makes steps, and does what errors advise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pccl::{
    Builder, CallKind, Communicator, Error, Misdeed, Next, Refusal, SyncFailure, SyncOptions,
    SyncStrategy,
};
use pccl_transport_memory::{Intercepted, MemoryHost};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep, timeout};

use super::ears::Ears;
use super::others;
use super::reduces::reduce_all;
use super::world::World;
use crate::churn::numbers::mixed;
use crate::churn::reduces::Failed;
use crate::churn::state::State;
use crate::churn::talk::{Done, Step, Synced};
use crate::churn::work::work_of;

/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(300);

/// A peer's program.
pub(super) struct Life {
    pub(super) world: Arc<World>,
    /// The place of its host.
    pub(super) number: usize,
    pub(super) group: u32,
    pub(super) host: MemoryHost,
    state: State,
    has_synced: bool,
    /// It agrees to go on from an older revision, because nobody holds the one that was reached.
    restarts: bool,
    /// Others wait in an optimization.
    optimizes_first: bool,
    /// Things that were drawn.
    drawn: AtomicU64,
    /// Which life of the master it is connected to.
    life: u32,
    /// When it synchronized last over this connection.
    known_since: Option<Instant>,
    /// When it synchronized last over any connection.
    synced_at: Option<Instant>,
}

/// What comes after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The round is started again.
    Again,
    /// The same, a little later.
    Later,
    Reconnect,
    /// Another connection, with nothing that was learnt.
    Forget,
    End,
}

impl Life {
    pub(super) fn new(world: &Arc<World>, number: usize, group: u32, host: MemoryHost) -> Self {
        let plan = &world.plan;
        let seed = mixed(plan.seed, u64::from(group));
        Self {
            world: Arc::clone(world),
            number,
            group,
            host,
            state: State::new(seed, plan.script.state_bytes),
            has_synced: false,
            restarts: false,
            optimizes_first: false,
            drawn: AtomicU64::new(0),
            life: 0,
            known_since: None,
            synced_at: None,
        }
    }

    /// To its end.
    pub(super) async fn live(mut self) {
        while !self.world.is_over() {
            self.world.doing(self.number, "connecting");
            let connected = self.builder().connect_async().await;
            let after = match connected {
                Ok(comm) => {
                    self.connected(&comm);
                    self.steps(comm).await
                }
                Err(error) => {
                    self.world.with(|state| state.counts.errors += 1);
                    self.judge(&error)
                }
            };
            match after {
                After::End => break,
                After::Forget => self.forget(),
                After::Again | After::Later | After::Reconnect => {}
            }
            self.world.with(|state| state.counts.losses += 1);
            sleep(PAUSE).await;
        }
        self.world.doing(self.number, "ended");
        self.tell("has ended");
    }

    fn connected(&mut self, comm: &Communicator) {
        self.life = self.world.with(|state| {
            let process = &mut state.processes[self.number];
            process.connected = Some(Instant::now());
            process.peer = Some((state.lives_of_master, comm.peer_id()));
            process.brought = self.state.revision;
            // What was agreed to with another master is nothing to this one.
            process.synced = process
                .synced
                .filter(|_| self.life == state.lives_of_master);
            state.lives_of_master
        });
        self.known_since = None;
        self.optimizes_first = false;
        self.tell(&format!("is connected as {}", comm.peer_id().0));
    }

    fn forget(&mut self) {
        let seed = mixed(self.world.plan.seed, u64::from(self.group));
        self.state = State::new(seed, self.world.plan.script.state_bytes);
        self.has_synced = false;
        self.world
            .with(|state| state.processes[self.number].revision = 0);
    }

    fn builder(&self) -> Builder {
        let plan = &self.world.plan;
        let master = self.world.with(|state| state.master_at);
        let master = master.map_or_else(String::new, |at| at.to_string());
        let ears = Ears::of(&self.world, self.number);
        let builder = Communicator::builder(master)
            .transport(Intercepted::over(Arc::new(self.host.clone()), ears))
            .listen(self.host.ip())
            .first_port(48149)
            .group(self.group)
            .seed(mixed(plan.seed, self.number as u64))
            // Nobody admits a peer after the end.
            .admission_timeout(plan.patience())
            .connect_patience(Duration::ZERO);
        let builder = match plan.sites {
            0 => builder,
            sites => builder.site(format!("s{}", plan.site_of(self.number) % sites)),
        };
        match plan.is_tight {
            true => builder.concurrent_reduces(1).keep_memory(Duration::ZERO),
            false => builder,
        }
    }

    /// Makes steps until the connection ends.
    async fn steps(&mut self, mut comm: Communicator) -> After {
        loop {
            if self.world.is_over() || self.world.is_to_leave(self.number) {
                self.world.doing(self.number, "leaving");
                let leaving = comm.shutdown_async();
                let farewell = self.world.plan.farewell();
                if timeout(farewell, leaving).await.is_err() {
                    self.world
                        .found(&format!("peer {} does not come to leave", self.number));
                }
                return After::End;
            }
            let failed = match self.step(&mut comm).await {
                Ok(step) => {
                    self.world.stepped(self.number, self.life, &step);
                    self.think().await;
                    continue;
                }
                Err(failed) => failed,
            };
            let after = match failed {
                Failed::Error(error) => {
                    self.world.failed(self.number, &error);
                    self.judge(&error)
                }
                Failed::Wrong(what) => {
                    self.world.found(&format!("peer {}: {what}", self.number));
                    After::End
                }
            };
            match after {
                After::Again => {}
                After::Later => sleep(PAUSE).await,
                After::Reconnect | After::Forget | After::End => return after,
            }
        }
    }

    async fn step(&mut self, comm: &mut Communicator) -> Result<Step, Failed> {
        let world = Arc::clone(&self.world);
        let script = &world.plan.script;
        self.world.doing(self.number, "updating");
        self.due("update_topology", comm.update_topology_async())
            .await??;
        let is_due = script.optimizes > 0 && self.state.revision % script.optimizes.max(1) == 1;
        if self.optimizes_first || is_due {
            self.optimizes_first = false;
            self.world.doing(self.number, "optimizing");
            self.due("optimize_topology", comm.optimize_topology_async())
                .await??;
        }
        let revision = self.synchronize(comm).await?;
        if script.asks {
            self.world.doing(self.number, "asking");
            self.due("are_peers_pending", comm.are_peers_pending_async())
                .await??;
        }
        let seed = self.world.key(self.life, self.group);
        if script.has_others {
            self.world.doing(self.number, "in other collectives");
            others::call_all(self, comm, seed, revision).await?;
        }
        let work = work_of(seed, revision, script.elements);
        self.world
            .doing(self.number, &format!("reducing in step {revision}"));
        let meeting = (self.life, self.group, revision);
        world.begins(meeting);
        let committed = reduce_all(self, comm, &work).await?;
        world.ends(self.number, meeting, &work);
        let mut reduces = Vec::new();
        for (done, result) in committed {
            self.state.add(&result);
            reduces.push(done);
        }
        self.state.advance();
        Ok(Step {
            peer: comm.peer_id().0,
            revision,
            reduces,
            aborts: 0,
            retries: 0,
        })
    }

    async fn synchronize(&mut self, comm: &mut Communicator) -> Result<u64, Failed> {
        self.world.doing(self.number, "synchronizing");
        let before = self.state.revision;
        let strategy = self.strategy(comm);
        let patience = self.world.plan.patience();
        let options = match self.restarts {
            true => SyncOptions::from(strategy).or_restart(),
            false => strategy.into(),
        };
        let held = self.state.hash();
        let state = &mut self.state;
        let work = self.world.plan.work_beside(before);
        let synchronizing = async {
            match work {
                Some(work) => state.synchronize_overlapped(comm, options, work).await,
                None => Ok(state.synchronize_async(comm, options).await?),
            }
        };
        let Ok(report) = timeout(patience, synchronizing).await else {
            return Err(late("sync_shared_state"));
        };
        if report.is_err() && self.state.hash() != held {
            let what = "a synchronization that failed has changed the state";
            return Err(Failed::Wrong(what.to_owned()));
        }
        let report = report?;
        let revision = report.revision;
        // Those who are left may have done again what this peer had done when its connection was lost.
        let is_outvoted = self
            .known_since
            .is_none_or(|since| self.may_be_outvoted(since, before));
        let (had, entries_received) = match (is_outvoted, revision.checked_sub(1)) {
            (false, _) => (before, report.entries_received),
            (true, Some(older)) => (before.min(older), report.entries_received),
            // Nothing is older.
            (true, None) => (0, 0),
        };
        let synced = Synced {
            revision,
            state: self.state.hash(),
            entries_received,
            had,
        };
        (self.has_synced, self.restarts) = (true, false);
        self.known_since = Some(Instant::now());
        self.synced_at = self.known_since;
        self.world
            .synced(self.number, self.life, &synced, &comm.ring());
        match self.state.wrong_block() {
            Some(block) => Err(Failed::Wrong(format!(
                "block {block} of the state is not that of revision {revision}"
            ))),
            None => Ok(revision),
        }
    }

    /// Whether others of the group may hold this revision with other content, which they have reached without this peer:
    /// they have connected since then and brought it, or the master knows nothing of what was before it, or one of them
    /// has dropped a call that others have committed, and has made it again without them.
    fn may_be_outvoted(&self, since: Instant, revision: u64) -> bool {
        self.world.with(|state| {
            let redone = state.redone.get(&self.group);
            if redone.is_some_and(|at| *at >= since) {
                return true;
            }
            let mut processes = state.processes.iter();
            processes.any(|other| {
                other.group == self.group
                    && other.connected.is_some_and(|at| at >= since)
                    && (self.life > 1 || other.brought >= revision)
            })
        })
    }

    fn strategy(&self, comm: &Communicator) -> SyncStrategy {
        let is_new = !self.has_synced && comm.world_size() > 1;
        let is_keeper = self
            .world
            .with(|state| state.processes[self.number].is_keeper);
        match self.world.plan.script.is_mixed && is_new && !is_keeper {
            true => SyncStrategy::ReceiveOnly,
            false => SyncStrategy::EnforcePopular,
        }
    }

    /// A call that has to end in time.
    pub(super) async fn due<T>(
        &self,
        what: &str,
        call: impl Future<Output = T>,
    ) -> Result<T, Failed> {
        let outcome = timeout(self.world.plan.patience(), call).await;
        outcome.map_err(|_| late(what))
    }

    /// The next things that are drawn by this peer.
    pub(super) fn random(&self) -> StdRng {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let own = mixed(self.world.plan.seed, self.number as u64 + 1000);
        StdRng::seed_from_u64(mixed(own, drawn))
    }

    async fn think(&self) {
        let most = self.world.plan.script.think.as_millis();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        if most > 0 && !self.world.is_over() {
            self.world.doing(self.number, "thinking");
            sleep(Duration::from_millis(self.random().random_range(0..=most))).await;
        }
    }

    fn judge(&mut self, error: &Error) -> After {
        self.tell(&format!("got: {error}"));
        if let Error::Conflict(conflict) = error {
            self.optimizes_first |= conflict.theirs == CallKind::OptimizeTopology;
        }
        match error {
            _ if self.world.is_over() && error.is_final() => After::End,
            // A newcomer was the first to come to a master that knows nothing of what was before it, or has restarted
            // the group while this peer was away.
            Error::Kicked(Misdeed::RevisionAhead { .. })
            | Error::SyncFailed(SyncFailure::RevisionSkipped { .. })
                if self.life > 1 || self.was_left_behind() =>
            {
                After::Forget
            }
            Error::Kicked(Misdeed::Cancels) if self.world.plan.script.gives_up > 0 => {
                After::Reconnect
            }
            // The first bytes of a connection have no checksum.
            Error::MasterUnreachable { .. } if self.world.plan.flips_bits() => After::Reconnect,
            Error::Refused(Refusal::CannotBeReached { .. } | Refusal::CannotReach { .. }) => {
                After::Reconnect
            }
            // Those who hold the state come again, or are dead.
            Error::SyncFailed(SyncFailure::RevisionLost { reached, .. }) => {
                self.restarts = self.world.is_lost(self.life, self.group, reached.0);
                After::Later
            }
            Error::SyncFailed(SyncFailure::NobodyToSend) => After::Later,
            _ => match error.next() {
                Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_) => {
                    After::Again
                }
                Next::Reconnect => After::Reconnect,
                _ => {
                    self.world
                        .found(&format!("peer {} gave up: {error}", self.number));
                    After::End
                }
            },
        }
    }

    /// Whether others have restarted the group since this peer knew its state last.
    fn was_left_behind(&self) -> bool {
        let Self { life, group, .. } = *self;
        self.world.has_restarted(life, group, self.synced_at)
    }

    /// A call was dropped here, and is made again.
    pub(super) fn dropped(&self) {
        self.world.with(|state| state.has_dropped = true);
    }

    /// A call is committed that was dropped here before, perhaps without others.
    pub(super) fn redone(&self, done: &Done) {
        if done.contributors.len() < self.world.members(self.group) {
            self.world
                .with(|state| state.redone.insert(self.group, Instant::now()));
        }
    }

    pub(super) fn tell(&self, what: &str) {
        self.world
            .trace
            .tell(&format!("peer {} {what}", self.number));
    }
}

fn late(what: &str) -> Failed {
    Failed::Wrong(format!("{what} is pending beyond every deadline"))
}
