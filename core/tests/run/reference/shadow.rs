//! A reference that follows a real master and objects at the first difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use pccl_core::awaited::Awaited;
use pccl_core::id::{GroupId, PeerId, Round, Seq, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Misdeed, Refusal, ToMaster, ToPeer};
use pccl_core::paths::RingReport;
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use pccl_core::topology::Ring;

use super::seen::Seen;
use super::state::Lateness;
use super::words::{check_endings, check_order};
use super::{IMPROPER, Reference, UNCONNECTABLE};

#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    reference: Reference,
    /// The master's timers that run.
    timers: BTreeSet<MasterTimer>,
    /// Inputs that were compared, and kinds of messages among what was said about them.
    pub(crate) inputs: u64,
    pub(crate) kinds: BTreeSet<String>,
}

/// What the master and the reference must agree on about a peer.
type PeerState = (
    GroupId,
    ConnectionPhase,
    ConnectionState,
    /* asks */ bool,
    /* is synchronized */ bool,
    BTreeMap<Tag, CollectiveCommunicationState>,
);

/// And about a group.
#[derive(Debug, PartialEq)]
struct GroupState {
    ring: Option<Ring>,
    epoch: Option<pccl_core::id::Epoch>,
    revision: Option<pccl_core::id::Revision>,
    is_stale: bool,
    size: u32,
    running: Vec<(Tag, Seq)>,
}

impl Shadow {
    pub(crate) fn new(config: MasterConfig) -> Self {
        Self {
            reference: Reference::new(config),
            timers: BTreeSet::new(),
            inputs: 0,
            kinds: BTreeSet::new(),
        }
    }

    /// Panics where the master did anything else about the input than the reference says.
    pub(crate) fn follow(&mut self, input: &MasterInput, master: &Master, out: &[MasterOutput]) {
        check_endings(&self.reference, input, out);
        let seen = Seen::in_outputs(out);
        let expected = self.reference.take(input, &seen);
        let said = out.iter().filter_map(|output| match output {
            MasterOutput::Send { peer, message } => Some((*peer, message.clone())),
            _ => None,
        });
        let said: Vec<(PeerId, ToPeer)> = said.collect();
        self.inputs += 1;
        self.kinds.extend(said.iter().map(|(_, said)| kind(said)));
        check_order(&said);
        agree("messages", input, by_peer(said), by_peer(expected));
        self.compare_states(input, master);
        self.note_timers(input, out);
        let (mut timers, deadlines) = (self.timers.clone(), self.reference.deadlines());
        // Nobody waits for it.
        timers.remove(&MasterTimer::MeasurementsAge);
        let (spare, lacking) = (&timers - &deadlines, &deadlines - &timers);
        assert!(
            spare.is_empty() && lacking.is_empty(),
            "after {input:?}\n  timers that nothing needs: {spare:?}\n  deadlines without timer: {lacking:?}"
        );
    }

    fn compare_states(&self, input: &MasterInput, master: &Master) {
        let view = master.view();
        let peers: BTreeMap<PeerId, PeerState> = (view.peers())
            .map(|(id, peer)| {
                let state = (
                    peer.group(),
                    peer.phase(),
                    peer.state(),
                    peer.asks_pending(),
                    peer.is_synchronized(),
                    peer.tags().collect(),
                );
                (id, state)
            })
            .collect();
        agree("peers", input, peers, self.reference.peer_states());
        let groups = view.groups().map(|group| {
            let state = GroupState {
                ring: view.ring(group).cloned(),
                epoch: view.epoch(group),
                revision: view.revision(group),
                is_stale: view.is_ring_stale(group),
                size: view.world_sizes(group).group,
                running: view.running(group).collect(),
            };
            (group, state)
        });
        agree(
            "groups",
            input,
            groups.collect(),
            self.reference.group_states(),
        );
        for (group, (revision, _)) in &self.reference.held {
            assert_eq!(
                view.revision(*group),
                Some(*revision),
                "{group} after {input:?}"
            );
        }
    }

    fn note_timers(&mut self, input: &MasterInput, out: &[MasterOutput]) {
        if let MasterInput::TimerFired(timer) = input {
            self.timers.remove(timer);
        }
        if let MasterInput::Message { peer, .. } = input {
            let silence = MasterTimer::Silence(*peer);
            let after = self.reference.config.silence;
            let restart = MasterOutput::StartTimer {
                timer: silence,
                after,
            };
            let was_known = self.timers.contains(&silence);
            assert_eq!(out.contains(&restart), was_known, "{peer} lives");
            self.check_restart(*peer, input, out);
        }
        for output in out {
            match output {
                MasterOutput::StartTimer { timer, after } => {
                    self.check_duration(*timer, *after);
                    self.timers.insert(*timer);
                }
                MasterOutput::StopTimer(timer) => {
                    self.timers.remove(timer);
                }
                _ => {}
            }
        }
    }

    /// Whoever goes on with its part of what runs has all the time again for the rest of it, and whoever
    /// only talks has not.
    fn check_restart(&self, peer: PeerId, input: &MasterInput, out: &[MasterOutput]) {
        let is_known = self.reference.peers.contains_key(&peer);
        let lateness = is_known.then(|| self.reference.lateness_of(peer)).flatten();
        let MasterInput::Message { message, .. } = input else {
            return;
        };
        let goes_on =
            lateness == Some(Lateness::Part) && *message == (ToMaster::Heartbeat { moved: true });
        let is_harmless = matches!(
            message,
            ToMaster::ArePeersPending
                | ToMaster::Withdraw { .. }
                | ToMaster::WhoIsAwaited
                | ToMaster::LinkUp { .. }
                | ToMaster::LinkFailed { .. }
                | ToMaster::Heartbeat { moved: false }
        );
        let only_talks = match lateness {
            Some(Lateness::Part) => is_harmless,
            Some(Lateness::Probe) => {
                let moves = *message == (ToMaster::Heartbeat { moved: true });
                is_harmless || moves || matches!(message, ToMaster::Measured { .. })
            }
            Some(Lateness::Vote | Lateness::Join) => {
                let is_vote_for_tag = matches!(message, ToMaster::InitiateCollective { .. });
                let moves = *message == (ToMaster::Heartbeat { moved: true });
                is_harmless || is_vote_for_tag || moves
            }
            None => false,
        };
        let ran = self.timers.contains(&MasterTimer::Late(peer));
        let restarts = out.iter().any(|output| {
            matches!(output, MasterOutput::StartTimer { timer: MasterTimer::Late(late), .. } if *late == peer)
        });
        assert!(restarts || !goes_on, "{peer} goes on");
        let gains_time = restarts && ran && only_talks;
        assert!(!gains_time, "{peer} gains time by {message:?}");
    }

    fn check_duration(&self, timer: MasterTimer, after: Duration) {
        let config = &self.reference.config;
        let configured = match timer {
            MasterTimer::HeartbeatDue => config.heartbeat,
            MasterTimer::MeasurementsAge => config.measurements,
            MasterTimer::Silence(_) => config.silence,
            MasterTimer::Late(peer) => match self.reference.lateness_of(peer) {
                Some(Lateness::Part) => config.stalled,
                Some(Lateness::Probe) => config.probe,
                Some(Lateness::Vote | Lateness::Join) | None => config.late,
            },
            MasterTimer::Wiring(_) => config.wiring,
            MasterTimer::Solver(_) => config.solver,
            // Doubles with each attempt.
            MasterTimer::RetryWiring(_) => {
                let attempts = 0..=u32::from(config.wiring_attempts_max);
                let mut pauses = attempts.map(|attempt| config.wiring_retry * (1 << attempt));
                assert!(pauses.any(|pause| pause == after), "{timer:?} {after:?}");
                return;
            }
        };
        assert_eq!(after, configured, "{timer:?}");
    }
}

impl Reference {
    fn peer_states(&self) -> BTreeMap<PeerId, PeerState> {
        let peers = self.peers.iter().map(|(id, person)| {
            let phase = match self.accepted.contains(id) {
                true => ConnectionPhase::Accepted,
                false => ConnectionPhase::Registered,
            };
            let is_veteran = self.veterans.contains(id);
            let state = (
                person.group,
                phase,
                self.state_of(*id),
                self.asking.contains(id),
                is_veteran,
                self.tags_of(*id),
            );
            (*id, state)
        });
        peers.collect()
    }

    fn group_states(&self) -> BTreeMap<GroupId, GroupState> {
        let groups = self.groups.iter().map(|(id, group)| {
            let running = group.running.iter();
            let state = GroupState {
                ring: Some(group.ring.clone()),
                epoch: Some(group.epoch),
                revision: self.held.get(id).map(|(revision, _)| *revision),
                is_stale: self.is_stale(*id),
                size: u32::try_from(self.members(*id).len()).unwrap(),
                running: running.map(|(tag, r)| (*tag, r.seq)).collect(),
            };
            (*id, state)
        });
        groups.collect()
    }
}

fn kind(message: &ToPeer) -> String {
    let text = format!("{message:?}");
    let name = text.split(|c: char| !c.is_alphanumeric()).next();
    name.unwrap_or_default().to_string()
}

/// Panics with what differs, and with nothing else.
fn agree<K: Ord + Debug + Copy, V: PartialEq + Debug>(
    what: &str,
    input: &MasterInput,
    is: BTreeMap<K, V>,
    should_be: BTreeMap<K, V>,
) {
    let keys: BTreeSet<K> = is.keys().chain(should_be.keys()).copied().collect();
    let mut differences = String::new();
    for key in keys {
        let (is, should_be) = (is.get(&key), should_be.get(&key));
        if is != should_be {
            differences += &format!("\n{key:?}\n  is        {is:?}\n  should be {should_be:?}");
        }
    }
    assert!(
        differences.is_empty(),
        "{what} after {input:?}{differences}"
    );
}

/// What each peer was told, without what the master chooses and without the order.
fn by_peer(said: impl IntoIterator<Item = (PeerId, ToPeer)>) -> BTreeMap<PeerId, Vec<ToPeer>> {
    let mut all: BTreeMap<PeerId, Vec<ToPeer>> = BTreeMap::new();
    for (peer, message) in said {
        all.entry(peer).or_default().push(without_choices(message));
    }
    for messages in all.values_mut() {
        messages.sort_by_cached_key(|message| format!("{message:?}"));
    }
    all
}

fn without_choices(message: ToPeer) -> ToPeer {
    let round = Round(0);
    match message {
        ToPeer::EstablishLinks { .. } => ToPeer::EstablishLinks {
            round,
            links: Vec::new(),
        },
        ToPeer::Probe { .. } => ToPeer::Probe {
            round,
            probes: Vec::new(),
        },
        ToPeer::OptimizationConcluded { report } => ToPeer::OptimizationConcluded {
            report: report.map(|_| RingReport::default()),
        },
        ToPeer::SharedStatePlan(plan) => ToPeer::SharedStatePlan(SyncPlan {
            role: match plan.role {
                SyncRole::Distribute { .. } => SyncRole::Distribute { to: Vec::new() },
                SyncRole::Request { entries, .. } => SyncRole::Request {
                    from: Vec::new(),
                    entries,
                },
            },
            ..plan
        }),
        ToPeer::SharedStateConcluded { result, .. } => {
            ToPeer::SharedStateConcluded { round, result }
        }
        ToPeer::Awaited(_) => ToPeer::Awaited(Awaited::default()),
        ToPeer::Kicked(why) => ToPeer::Kicked(without_details(why)),
        ToPeer::Refused(Refusal::CannotReach { .. } | Refusal::CannotBeReached { .. }) => {
            ToPeer::Refused(UNCONNECTABLE.0)
        }
        ToPeer::Refused(_)
        | ToPeer::Welcome { .. }
        | ToPeer::TopologyEstablished { .. }
        | ToPeer::CallFailed(_)
        | ToPeer::PeersPending { .. }
        | ToPeer::Commence { .. }
        | ToPeer::CollectiveRefused { .. }
        | ToPeer::Verdict { .. }
        | ToPeer::Heartbeat
        | ToPeer::Stopping => message,
    }
}

fn without_details(why: Misdeed) -> Misdeed {
    match why {
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest => IMPROPER,
        Misdeed::StateMismatch { .. } => Misdeed::StateMismatch {
            entries: 0,
            named: Vec::new(),
        },
        Misdeed::Unconnectable { .. } => UNCONNECTABLE.1,
        Misdeed::Malformed
        | Misdeed::RevisionAhead { .. }
        | Misdeed::MissedBallot
        | Misdeed::Stalled
        | Misdeed::Cancels
        | Misdeed::Unfetchable
        | Misdeed::Silent
        | Misdeed::SlowReader => why,
    }
}
