//! The deciding machine: it keeps the membership, counts ballots, and decides outcomes.
//!
//! ```text
//!   MasterInput ──▶ handle ──▶ records the one input
//!                      │
//!                      ▼
//!                   settle ──▶ counts all ballots again until nothing changes
//!                      │
//!                      ▼
//!                  MasterOutput, in the order in which to carry it out
//! ```
//!
//! The master decides nothing while it reads a message. A message only records a vote or a report. Then `settle`
//! counts every ballot again that the message concerns. So the loss of a peer is not a special case: a ballot that
//! lacked only the lost peer's vote completes in the same way.
//!
//! | file | what it is for |
//! |---|---|
//! | `io` | inputs, outputs, timers, configuration |
//! | `record` | the state of a peer and of a group |
//! | `membership` | hello, leaving, eviction |
//! | `awaited` | the peers for which a peer waits, on request |
//! | `tally` | the number of peers in each state |
//! | `settle` | counting ballots until nothing changes |
//! | `deadlines` | timers, and peers for which others wait too long |
//! | `precedence` | which of two calls gives way when peers wait for each other |
//! | `topology`, `wiring`, `attempt` | ballots about the ring; connecting its edges |
//! | `blame`, `order`, `pieces`, `evict` | failed edges: attribution, avoidance, eviction |
//! | `collectives` | starting, committing and aborting collectives |
//! | `ahead` | which collective may begin before all have called it, and under which number |
//! | `shared_state` | synchronization: votes, plan, conclusion |
//! | `manifest`, `election`, `remembered` | the offers of votes; the elected content; the revisions of groups |
//! | `transfers` | the holders from which each peer fetches, and evictions after failed transfers |
//! | `optimize` | the stages of an optimization: measuring, solving, adopting a better ring |
//! | `loads` | measuring all edges of a ring at the same time |
//! | `better` | rings that background searches find, and their adoption |
//! | `sites` | the sites of the members of a group, by their names or by measurements |
//! | `probes`, `probing` | known measurements and their age; rotations, and who has reported |
//!
//! **Invariant:** a peer's state changes only along [`TRANSITIONS`](crate::states::TRANSITIONS).
//!
//! **Invariant:** which timers run is a function of the state.

mod ahead;
mod attempt;
mod awaited;
mod better;
mod blame;
mod collectives;
mod conflicts;
mod costs;
mod deadlines;
mod election;
mod evict;
mod io;
mod loads;
mod manifest;
mod membership;
mod newcomers;
mod optimize;
mod order;
mod pieces;
mod precedence;
mod probes;
mod probing;
mod reach;
mod record;
mod remembered;
mod settle;
mod shared_state;
mod sites;
mod tally;
mod topology;
mod transfers;
mod view;
mod wiring;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

pub use io::{MasterConfig, MasterInput, MasterOutput, MasterTimer, Scope};
pub use view::{MasterView, PeerView};

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, GroupId, PeerId, Round, Seq};
use crate::messages::{Misdeed, ToMaster, ToPeer};
use crate::states::{ConnectionPhase, ConnectionState, Event, next_state};
use attempt::Wiring;
use better::Search;
use blame::{Attempts, DeadEdge, Departed, Pair};
use deadlines::GlobalWaits;
use optimize::Optimization;
use probes::Known;
use record::{GroupRecord, Lateness, PeerRecord};
use remembered::Remembered;
use tally::Tally;

/// The state machine of the master. The same inputs in the same order give the same outputs.
///
/// ```
/// use pccl_core::id::{ConnId, GroupId, ProtocolVersion};
/// use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
/// use pccl_core::messages::Hello;
///
/// let mut master = Master::new(MasterConfig::default());
/// let hello = Hello {
///     protocol: ProtocolVersion::CURRENT,
///     group: GroupId(0),
///     port: 48149,
///     advertise: None,
///     lanes: 4,
///     site: Default::default(),
///     name: Default::default(),
/// };
/// let mut out = Vec::new();
/// let from = [192, 0, 2, 1].into();
/// master.handle(MasterInput::Connected { conn: ConnId(0), hello, from, identity: None }, &mut out);
///
/// assert!(matches!(out.first(), Some(MasterOutput::Register { .. })));
/// assert_eq!(master.view().world_sizes(GroupId(0)).group, 1); // alone: admitted at once
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Master {
    config: MasterConfig,
    stopping: bool,
    next_peer: PeerId,
    next_round: Round,
    next_seq: Seq,
    epoch: Epoch,
    peers: BTreeMap<PeerId, PeerRecord>,
    groups: BTreeMap<GroupId, GroupRecord>,
    remembered: Remembered,
    wirings: BTreeMap<Round, Wiring>,
    /// Failed attempts in a row at the ring of a group.
    attempts: BTreeMap<GroupId, Attempts>,
    /// Pairs of peers that could not be connected (lower id first), until they are connected.
    failed: BTreeMap<Pair, DeadEdge>,
    /// Pairs of peers whose group does without a mesh, because a link between them could not be connected.
    unlinked: BTreeSet<Pair>,
    /// What failed edges to departed peers say about the remaining peers.
    departed: BTreeMap<PeerId, Departed>,
    /// Set while newcomers are admitted: peers that registered after this one wait for the next ballot. Otherwise a
    /// stream of failing newcomers could delay the others forever.
    admission_closed_at: Option<PeerId>,
    optimization: Option<Optimization>,
    /// Background searches for better rings.
    searches: BTreeMap<GroupId, Search>,
    /// The known measurements.
    known: Known,
    /// The running timers.
    armed: BTreeSet<MasterTimer>,
    /// Numbers of accepted peers of all groups.
    tally: Tally,
    /// The waits, as of the last update of the deadlines.
    waits: GlobalWaits,
    /// Peers whose records the current input has changed, and that were not counted since.
    touched: BTreeSet<PeerId>,
    /// Peers whose timers must be updated.
    rechecked: BTreeSet<PeerId>,
    /// Groups that the current input concerns.
    dirty: BTreeSet<GroupId>,
    /// Groups whose membership the current input has changed.
    regrouped: BTreeSet<GroupId>,
    /// Peers that have made progress with their part of a running operation, or whose call has ended, because of the
    /// current input.
    went_on: BTreeSet<PeerId>,
}

/// The list to which `handle` appends.
type Out = Vec<MasterOutput>;

impl Master {
    /// A master without peers.
    #[must_use]
    pub fn new(config: MasterConfig) -> Self {
        Self {
            config,
            stopping: false,
            next_peer: PeerId(1),
            next_round: Round(1),
            next_seq: Seq(1),
            epoch: Epoch(0),
            peers: BTreeMap::new(),
            groups: BTreeMap::new(),
            remembered: Remembered::default(),
            wirings: BTreeMap::new(),
            attempts: BTreeMap::new(),
            failed: BTreeMap::new(),
            unlinked: BTreeSet::new(),
            departed: BTreeMap::new(),
            admission_closed_at: None,
            optimization: None,
            searches: BTreeMap::new(),
            known: Known::default(),
            armed: BTreeSet::new(),
            tally: Tally::default(),
            waits: GlobalWaits::default(),
            touched: BTreeSet::new(),
            rechecked: BTreeSet::new(),
            dirty: BTreeSet::new(),
            regrouped: BTreeSet::new(),
            went_on: BTreeSet::new(),
        }
    }

    /// Applies one input, and appends the orders for the driver to `out`, in sequence. It cannot fail: a peer that
    /// breaks the protocol is evicted, which is an output.
    pub fn handle(&mut self, input: MasterInput, out: &mut Out) {
        if let MasterInput::Message {
            peer,
            message: ToMaster::Heartbeat { moved },
        } = input
        {
            // The most frequent input: it is in no ballot, so none is counted for it.
            self.hear(peer, out);
            if rule!(moved; EverySignOfLifeGainsTime => true) {
                self.goes_on(peer, out);
            }
            return;
        }
        if let MasterInput::Message {
            peer,
            message: ToMaster::WhoIsAwaited,
        } = input
        {
            // A question is in no ballot either, and gains nobody time.
            if self.hear(peer, out).is_some() {
                let awaited = self.awaited_by(peer);
                send(out, peer, ToPeer::Awaited(awaited));
            }
            return;
        }
        let heard = match &input {
            MasterInput::Message { peer, .. } => Some(*peer),
            MasterInput::Connected { .. }
            | MasterInput::Misbehaved { .. }
            | MasterInput::Disconnected { .. }
            | MasterInput::TimerFired(_)
            | MasterInput::TourSolved { .. }
            | MasterInput::TourImproved { .. }
            | MasterInput::Stop => None,
        };
        match input {
            MasterInput::Connected {
                conn,
                hello,
                from,
                identity,
            } => self.hello(conn, hello, (from, identity), out),
            MasterInput::Message { peer, message } => self.message(peer, message, out),
            MasterInput::Misbehaved { peer, misdeed } => self.kick(peer, misdeed, out),
            MasterInput::Disconnected { peer } => {
                rule!(
                    self.lose(peer, None, out);
                    DeathNotRecounted => return self.lose(peer, None, out)
                );
            }
            MasterInput::TimerFired(timer) => self.timer_fired(timer, out),
            MasterInput::TourSolved {
                round,
                group,
                found,
            } => self.tour_solved(round, group, found),
            MasterInput::TourImproved {
                round,
                group,
                found,
            } => self.tour_improved(round, group, found),
            MasterInput::Stop => self.stop(out),
        }
        self.settle(heard, out);
    }

    /// The limits and deadlines of the run.
    #[must_use]
    pub const fn config(&self) -> &MasterConfig {
        &self.config
    }

    /// The state that tests, the model and the logs may read.
    #[must_use]
    pub fn view(&self) -> MasterView<'_> {
        MasterView::new(self)
    }

    fn message(&mut self, peer: PeerId, message: ToMaster, out: &mut Out) {
        match self.hear(peer, out) {
            Some(ConnectionPhase::Registered) => self.message_of_registered(peer, message, out),
            Some(ConnectionPhase::Accepted) => self.message_of_accepted(peer, message, out),
            // Who was let go may have had something on the way.
            None => {}
        }
    }

    /// Notes a sign of life of the peer. `None`: the master does not know the peer.
    fn hear(&self, peer: PeerId, out: &mut Out) -> Option<ConnectionPhase> {
        let record = self.peers.get(&peer)?;
        let anew = |peer: PeerId| MasterOutput::StartTimer {
            timer: MasterTimer::Silence(peer),
            after: self.config.silence,
        };
        rule!(
            out.push(anew(peer));
            SilenceNotRestarted => {},
            OneSpeaksForAll => out.extend(self.peers.keys().copied().map(anew))
        );
        Some(record.phase)
    }

    fn message_of_registered(&mut self, peer: PeerId, message: ToMaster, out: &mut Out) {
        match message {
            // Dealt with before.
            ToMaster::Heartbeat { .. } | ToMaster::WhoIsAwaited => {}
            ToMaster::Leave => self.leave(peer, out),
            ToMaster::LinkUp { round, link } => self.link_up(peer, round, link, out),
            ToMaster::LinkFailed {
                round,
                link,
                failure,
            } => {
                self.link_failed(peer, round, link, failure, out);
            }
            ToMaster::Hello(_) => self.kick(peer, Misdeed::SecondHello, out),
            ToMaster::ArePeersPending if self.is_aside(peer) => {
                send(out, peer, ToPeer::PeersPending { pending: true });
            }
            ToMaster::Withdraw { .. } | ToMaster::CompleteCollective { .. }
                if self.is_aside(peer) => {}
            ToMaster::UpdateTopology { .. }
            | ToMaster::ArePeersPending
            | ToMaster::Withdraw { .. }
            | ToMaster::OptimizeTopology
            | ToMaster::Measured { .. }
            | ToMaster::ProbesDone { .. }
            | ToMaster::SyncSharedState(_)
            | ToMaster::SharedStateDone { .. }
            | ToMaster::InitiateCollective { .. }
            | ToMaster::CompleteCollective { .. } => self.kick(peer, Misdeed::NotAccepted, out),
        }
    }

    fn message_of_accepted(&mut self, peer: PeerId, message: ToMaster, out: &mut Out) {
        match message {
            // Dealt with before.
            ToMaster::Heartbeat { .. } | ToMaster::WhoIsAwaited => {}
            ToMaster::Leave => self.leave(peer, out),
            ToMaster::Hello(_) => self.kick(peer, Misdeed::SecondHello, out),
            ToMaster::UpdateTopology { epoch, broken } => {
                self.vote_to_update(peer, epoch, &broken, out);
            }
            ToMaster::LinkUp { round, link } => self.link_up(peer, round, link, out),
            ToMaster::LinkFailed {
                round,
                link,
                failure,
            } => {
                self.link_failed(peer, round, link, failure, out);
            }
            ToMaster::Withdraw { tag } => self.withdraw(peer, tag, out),
            ToMaster::ArePeersPending => self.ask_pending(peer, out),
            ToMaster::OptimizeTopology => self.vote_to_optimize(peer, out),
            ToMaster::Measured {
                round,
                to,
                measured,
            } => {
                self.measured(peer, round, to, measured, out);
            }
            ToMaster::ProbesDone { round, ok } => self.probes_done(peer, round, ok, out),
            ToMaster::SyncSharedState(vote) => self.vote_to_sync(peer, vote, out),
            ToMaster::SharedStateDone { round, ok, with } => {
                self.shared_state_done(peer, round, ok, with, out);
            }
            ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken,
            } => {
                self.vote_to_initiate(peer, tag, spec, (epoch, &broken), out);
            }
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            } => {
                self.vote_to_complete(peer, seq, outcome, &broken, out);
            }
        }
    }

    /// A peer moves bytes of an operation that others wait for, so its deadline starts again.
    fn goes_on(&mut self, peer: PeerId, out: &mut Out) {
        let late = self.peers.get(&peer).and_then(|record| record.late);
        if late == Some(Lateness::Part) {
            self.went_on.insert(peer);
            self.settle(Some(peer), out);
        }
    }

    /// Whether the peer was set aside, so that its messages may have been in flight.
    fn is_aside(&self, peer: PeerId) -> bool {
        let record = self.peers.get(&peer);
        record.is_some_and(|record| record.aside.is_some())
    }

    /// Moves a peer along the table. If the master itself asks for a transition that the table lacks, that is a
    /// defect of this crate.
    fn step(&mut self, peer: PeerId, event: Event, out: &mut Out) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        let from = record.state;
        match next_state(from, event) {
            Some(to) => {
                record.state = to;
                let has_no_answer = rule!(
                    event == Event::CallGaveWay || event == Event::CollectivesEnded;
                    GivingWayGainsTime => false
                );
                if to == ConnectionState::Idle && !has_no_answer {
                    self.went_on.insert(peer);
                }
                out.push(MasterOutput::Moved {
                    peer,
                    event,
                    from,
                    to,
                });
            }
            None => out.push(MasterOutput::Inconsistent {
                peer,
                state: from,
                event,
            }),
        }
    }

    /// Moves a peer because of its own message. If the table lacks the transition, the peer is evicted.
    fn step_or_kick(&mut self, peer: PeerId, event: Event, out: &mut Out) -> bool {
        let Some(state) = self.state_of(peer) else {
            return false;
        };
        if next_state(state, event).is_none() {
            self.kick(peer, Misdeed::WrongState { state, event }, out);
            return false;
        }
        self.step(peer, event, out);
        true
    }

    fn state_of(&self, peer: PeerId) -> Option<ConnectionState> {
        self.peers.get(&peer).map(|record| record.state)
    }

    fn group_of(&mut self, peer: PeerId) -> Option<&mut GroupRecord> {
        let group = self.peers.get(&peer)?.group;
        self.group_mut(group)
    }

    /// A group for modification, whose ballots are then counted again.
    fn group_mut(&mut self, group: GroupId) -> Option<&mut GroupRecord> {
        let record = self.groups.get_mut(&group)?;
        self.dirty.insert(group);
        Some(record)
    }

    fn accepted(&self) -> impl Iterator<Item = (PeerId, &PeerRecord)> {
        self.peers
            .iter()
            .filter(|(_, record)| record.is_accepted())
            .map(|(id, record)| (*id, record))
    }

    fn accepted_in(&self, group: GroupId) -> impl Iterator<Item = (PeerId, &PeerRecord)> {
        let members = self.groups.get(&group).map(|group| group.members.iter());
        members
            .into_iter()
            .flatten()
            .filter_map(|peer| Some((*peer, self.peers.get(peer)?)))
    }

    /// Whether the round of a report was ever ordered. A report about any other round is a misdeed.
    fn was_ordered(&mut self, peer: PeerId, round: Round, out: &mut Out) -> bool {
        let was =
            rule!(round < self.next_round; LateReportKicked => round.next() == self.next_round);
        if !was {
            self.kick(peer, Misdeed::UnknownRound, out);
        }
        was
    }

    fn take_round(&mut self) -> Round {
        let round = self.next_round;
        self.next_round = round.next();
        round
    }
}

fn send(out: &mut Out, peer: PeerId, message: ToPeer) {
    out.push(MasterOutput::Send { peer, message });
}
