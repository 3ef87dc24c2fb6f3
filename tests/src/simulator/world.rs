//! A simulated run as all parts of the simulator see it: the network, the processes, and what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl::{AbortCause, Error, Next, PeerId, SyncFailure};
use pccl_transport_memory::{MemoryHost, MemoryNet};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::ears::Armed;
use super::haste::Meeting;
use super::plan::Plan;
use super::trace::Trace;
use crate::churn::checker::Checker;
use crate::churn::numbers::mixed;
use crate::churn::talk::{Step, Synced};

/// Findings that are kept: those that follow from the first ones say nothing.
const FINDINGS_MAX: usize = 20;

/// After this long a master of which nothing is heard is lost for certain, on the longest paths of a calm run.
const SILENCE: Duration = Duration::from_secs(3);

/// The place of the master among the hosts.
pub(super) const MASTER: usize = 0;

/// A simulated run.
pub(super) struct World {
    pub(super) net: MemoryNet,
    pub(super) plan: Plan,
    pub(super) trace: Trace,
    /// All processes are to leave.
    is_over: AtomicBool,
    state: Mutex<State>,
}

/// What changes.
#[derive(Default)]
pub(super) struct State {
    /// By host; the master's is the first one.
    pub(super) processes: Vec<Process>,
    pub(super) findings: Vec<String>,
    checkers: BTreeMap<(u32, u32), Checker>,
    /// When a group, in a life of the master, went on from an older revision because nobody there held the newest one.
    restarted: BTreeMap<(u32, u32), Instant>,
    /// How often the master has begun.
    pub(super) lives_of_master: u32,
    /// Where the master listens.
    pub(super) master_at: Option<SocketAddr>,
    /// What happens at certain messages.
    pub(super) armed: Vec<Armed>,
    /// Who has voted to complete which operation.
    pub(super) voted: BTreeMap<(u32, u64), BTreeSet<usize>>,
    /// The first words on lanes: when, whereto, and what.
    pub(super) first_words: Vec<(Instant, SocketAddr, Vec<u8>)>,
    /// When the last peer has begun the reduces of a step.
    pub(super) meetings: BTreeMap<Meeting, Instant>,
    /// When something went wrong last.
    pub(super) disturbed: Option<Instant>,
    /// Something has gone wrong of which not everybody was told.
    pub(super) is_slow: bool,
    /// A call was dropped. The others may have committed it, and do not make it again.
    pub(super) has_dropped: bool,
    /// When a call that a peer of a group had dropped, and made again, was committed last without all living members.
    pub(super) redone: BTreeMap<u32, Instant>,
    pub(super) counts: Counts,
}

/// A process and its host.
pub(super) struct Process {
    pub(super) host: MemoryHost,
    pub(super) group: u32,
    pub(super) is_alive: bool,
    /// Who it is, or was, to the master it was connected to last, and which life of the master that was.
    pub(super) peer: Option<(u32, PeerId)>,
    /// It is never killed, so that somebody holds the state.
    pub(super) is_keeper: bool,
    /// It leaves before its next step.
    pub(super) is_to_leave: bool,
    pub(super) task: Option<AbortHandle>,
    /// Steps in which all living members of the group took part, since this was set to zero.
    pub(super) whole: u32,
    /// The revision of the state that it holds.
    pub(super) revision: u64,
    /// The revision that it held when it connected last.
    pub(super) brought: u64,
    /// The revision that it has agreed to last.
    pub(super) synced: Option<u64>,
    /// When its connection to the master was reset last, and the time before.
    pub(super) resets: [Option<Instant>; 2],
    /// When it connected last.
    pub(super) connected: Option<Instant>,
    /// What it does, for the story of a hang.
    pub(super) doing: String,
}

/// What has come to pass, for the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps that a process has done.
    pub steps: u64,
    /// Reduces that were committed at a process.
    pub commits: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Connections that were lost.
    pub losses: u64,
    /// Faults that have come to pass.
    pub faults: u64,
    /// The most tasks at a time.
    pub tasks: u64,
    /// The most directions of lanes at a time.
    pub pipes: u64,
}

impl World {
    pub(super) fn new(plan: Plan, keeps_steps: bool) -> Arc<Self> {
        let net = MemoryNet::new();
        Arc::new(Self {
            net,
            plan,
            trace: Trace::new(keeps_steps),
            is_over: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether a process is to leave before its next step. From then on nobody counts with it.
    pub(super) fn is_to_leave(&self, number: usize) -> bool {
        self.with(|state| {
            let process = &mut state.processes[number];
            process.is_alive &= !process.is_to_leave;
            process.is_to_leave
        })
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Something that must not be.
    pub(super) fn found(&self, what: &str) {
        self.trace.tell(&format!("FOUND: {what}"));
        self.with(|state| {
            if state.findings.len() < FINDINGS_MAX {
                state.findings.push(what.to_owned());
            }
        });
    }

    /// A call has failed. In a calm run it may have been told that another call comes first, that somebody has given it
    /// up, that the others have done with what was given up here, that the one who begins the state is not there, or
    /// that the one who held it has left; and it loses the master if its way back to it was reset as well.
    pub(super) fn failed(&self, number: usize, error: &Error) {
        self.with(|state| state.counts.errors += 1);
        let has_cause = match error {
            Error::GivenUp { .. } | Error::TimeLimit { .. } => true,
            Error::Aborted { cause, .. } => {
                self.plan.script.gives_up > 0 && matches!(cause, AbortCause::Cancelled(_))
            }
            Error::NotJoined { .. } => self.with(|state| state.has_dropped),
            Error::MasterLost => self.was_reset_twice(number),
            Error::SyncFailed(SyncFailure::NobodyToSend) => self.misses_keeper(number),
            Error::SyncFailed(SyncFailure::RevisionLost { reached, .. }) => {
                self.with(|state| state.has_gone(state.processes[number].group, reached.0))
            }
            error => matches!(error.next(), Next::MakeOtherCallFirst(_)),
        };
        if self.plan.is_calm && !has_cause && !self.is_over() {
            self.found(&format!("without a cause peer {number} got: {error}"));
        }
    }

    /// The connection of a host to the master is reset.
    pub(super) fn reset_master(&self, number: usize) {
        let (peer, master) = self.with(|state| {
            let process = &mut state.processes[number];
            process.resets = [Some(Instant::now()), process.resets[0]];
            (process.host.ip(), state.processes[MASTER].host.ip())
        });
        self.net.cut(peer, master);
    }

    /// Whether this peer's connection to the master was reset twice in the time after which silence is an end.
    fn was_reset_twice(&self, number: usize) -> bool {
        let resets = self.with(|state| state.processes[number].resets);
        resets
            .into_iter()
            .all(|at| at.is_some_and(|at| at.elapsed() < SILENCE))
    }

    /// Whether the peer that begins the state of this one's group has not come yet.
    fn misses_keeper(&self, number: usize) -> bool {
        self.with(|state| {
            let group = state.processes[number].group;
            let mut processes = state.processes.iter();
            processes.any(|other| other.is_keeper && other.group == group && other.synced.is_none())
        })
    }

    /// The library has made a call again that had failed.
    pub(super) fn repeated(&self, number: usize) {
        if self.plan.is_calm {
            self.found(&format!(
                "without a cause a reduce of peer {number} was aborted"
            ));
        }
    }

    /// A new host, with the paths to and from all others, and its place among them.
    pub(super) fn add_host(&self, group: u32, is_keeper: bool) -> (usize, MemoryHost) {
        let host = self.net.transport().lanes(self.plan.lanes);
        let number = self.with(|state| {
            state.processes.push(Process {
                host: host.clone(),
                group,
                is_alive: true,
                peer: None,
                is_keeper,
                is_to_leave: false,
                task: None,
                whole: 0,
                revision: 0,
                brought: 0,
                synced: None,
                resets: [None; 2],
                connected: None,
                doing: String::new(),
            });
            state.processes.len() - 1
        });
        self.usual_paths(number);
        (number, host)
    }

    /// Paths to and from this host are what the plan says.
    pub(super) fn usual_paths(&self, number: usize) {
        let hosts = self.hosts();
        let Some(own) = hosts.get(number).copied() else {
            return;
        };
        for (other, ip) in hosts.into_iter().enumerate() {
            self.net.set_path(own, ip, self.plan.path(number, other));
            self.net.set_path(ip, own, self.plan.path(other, number));
        }
    }

    pub(super) fn hosts(&self) -> Vec<IpAddr> {
        self.with(|state| {
            state
                .processes
                .iter()
                .map(|process| process.host.ip())
                .collect()
        })
    }

    pub(super) fn ip(&self, number: usize) -> IpAddr {
        self.hosts()[number]
    }

    /// Peers that live, by their places among the hosts.
    pub(super) fn living(&self) -> Vec<usize> {
        self.with(|state| state.living().collect())
    }

    /// How many live in a group.
    pub(super) fn members(&self, group: u32) -> usize {
        self.with(|state| {
            let of_group = |number: &usize| state.processes[*number].group == group;
            state.living().filter(of_group).count()
        })
    }

    /// What numbers of a group in one life of the master are made of.
    pub(super) fn key(&self, life: u32, group: u32) -> u64 {
        mixed(self.plan.seed, u64::from(life) << 32 | u64::from(group))
    }

    pub(super) fn doing(&self, number: usize, what: &str) {
        self.with(|state| {
            if let Some(process) = state.processes.get_mut(number) {
                what.clone_into(&mut process.doing);
            }
        });
    }

    /// A process has synchronized its state.
    pub(super) fn synced(&self, number: usize, life: u32, synced: &Synced, ring: &[PeerId]) {
        self.trace.tell(&format!(
            "peer {number} synced revision {}, {} entries received",
            synced.revision, synced.entries_received
        ));
        let is_forgotten = self.is_forgotten(number, life, synced.revision, ring);
        self.with(|state| {
            let process = &mut state.processes[number];
            process.revision = synced.revision;
            process.synced = Some(synced.revision);
        });
        self.check(number, life, |checker| {
            if is_forgotten {
                checker.forget_state(synced.revision);
            }
            checker.synced(number as u64, synced)
        });
    }

    /// A process has done a step.
    pub(super) fn stepped(&self, number: usize, life: u32, step: &Step) {
        let least = step
            .reduces
            .iter()
            .map(|done| done.contributors.len())
            .min();
        self.trace.tell(&format!(
            "peer {number} ({}) did step {} with {}",
            step.peer,
            step.revision,
            least.unwrap_or_default()
        ));
        self.check(number, life, |checker| checker.stepped(number as u64, step));
        let group = self.with(|state| state.processes[number].group);
        let members = self.members(group);
        self.with(|state| {
            state.counts.steps += 1;
            state.counts.commits += step.reduces.len() as u64;
            let process = &mut state.processes[number];
            process.whole += u32::from(least == Some(members));
            process.revision = step.revision + 1;
        });
    }

    /// Whether nobody of this ring has agreed to this revision, or to a later one. Then nobody here has the content that
    /// the dead, or those who are away, agreed to. If others bring content of this revision, the group goes on with it.
    fn is_forgotten(&self, number: usize, life: u32, revision: u64, ring: &[PeerId]) -> bool {
        self.with(|state| {
            let group = state.processes[number].group;
            let agreed = |other: usize| {
                let process = &state.processes[other];
                let is_in_ring = |(of, peer)| of == life && ring.contains(&peer);
                let is_here = process.peer.is_some_and(is_in_ring);
                let agreed = process.synced.is_some_and(|synced| synced >= revision);
                process.group == group && is_here && agreed
            };
            !state.living().any(agreed)
        })
    }

    /// Whether all who held this revision of a group are dead. Then the group may go on from an older one, and what was
    /// known of its steps is of no more use. A peer that is away and holds more than the others will find them
    /// restarted.
    pub(super) fn is_lost(&self, life: u32, group: u32, revision: u64) -> bool {
        self.with(|state| {
            let is_held = state.is_held(group, revision);
            if !is_held {
                state.checkers.remove(&(life, group));
                state.restarted.insert((life, group), Instant::now());
            }
            !is_held
        })
    }

    /// Whether the group has gone on from an older revision since then.
    pub(super) fn has_restarted(&self, life: u32, group: u32, since: Option<Instant>) -> bool {
        let restarted = self.with(|state| state.restarted.get(&(life, group)).copied());
        restarted.is_some_and(|at| since.is_none_or(|since| since <= at))
    }

    fn check(&self, number: usize, life: u32, check: impl FnOnce(&mut Checker)) {
        let found: Vec<String> = self.with(|state| {
            let group = state.processes[number].group;
            let (seed, elements) = (self.key(life, group), self.plan.script.elements);
            let checker = state.checkers.entry((life, group));
            let checker = checker.or_insert_with(|| Checker::new(seed, elements).lenient());
            let before = checker.findings().len();
            check(checker);
            let all = checker.findings().iter().skip(before);
            all.map(ToString::to_string).collect()
        });
        found.iter().for_each(|what| self.found(what));
    }

    /// Ends a process, where it stands. What it has sent arrives, unless the machine has lost its power.
    pub(super) fn kill(&self, number: usize, loses_power: bool) {
        let others = self.hosts();
        let (ip, task) = self.with(|state| {
            let process = &mut state.processes[number];
            process.is_alive = false;
            (process.host.ip(), process.task.take())
        });
        self.trace.tell(&format!("peer {number} is dead"));
        if loses_power {
            for other in others.into_iter().filter(|other| *other != ip) {
                self.net.half_open(ip, other);
                self.net.stall(ip, other);
            }
        } else {
            self.net.kill(ip);
        }
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl State {
    pub(super) fn living(&self) -> impl Iterator<Item = usize> {
        let all = self.processes.iter().enumerate().skip(MASTER + 1);
        all.filter(|(_, process)| process.is_alive)
            .map(|(number, _)| number)
    }

    /// Whether all who held this revision of a group, or a later one, have left or are dead.
    fn has_gone(&self, group: u32, revision: u64) -> bool {
        let mut all = self.processes.iter();
        let was_held = all.any(|peer| peer.group == group && peer.revision >= revision);
        was_held && !self.is_held(group, revision)
    }

    /// Whether a living peer of a group holds this revision, or a later one.
    fn is_held(&self, group: u32, revision: u64) -> bool {
        self.living().any(|number| {
            let peer = &self.processes[number];
            peer.group == group && peer.revision >= revision
        })
    }
}
