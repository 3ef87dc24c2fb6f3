//! What a run is, said a second time: in sets, without the master's machinery.
//!
//! A [`Reference`] takes the facts that a master takes and says what must be true after each: who is
//! registered and accepted, who waits in which call, which collectives run and who has voted, and what
//! every peer must have been told. It keeps no state machine, no timers and no progress: what a peer
//! is doing follows from the sets that it is in. Where the master has a choice (which order a ring
//! has, who serves whom, who pays for an edge that does not come up), the reference takes what the
//! master chose from [`Seen`], and only checks that the choice was a legal one.
//!
//! | file | what it says |
//! |---|---|
//! | `mod` | facts: what each input means |
//! | `rules` | what follows from the facts: ballots, precedence, verdicts |
//! | `rings` | connecting rings, and looking for better ones |
//! | `election` | whose content a group will hold |
//! | `state` | what each peer is doing, and which deadlines run |
//! | `seen` | what the master chose |
//! | `shadow` | the comparison with a real master after every input |

mod election;
mod rings;
mod rules;
mod seen;
mod shadow;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{Epoch, GroupId, PeerId, ProtocolVersion, Revision, Round, Seq, Tag};
use pccl_core::master::{Ballot, MasterConfig, MasterInput, MasterTimer};
use pccl_core::messages::{
    AbortCause, CollectiveRefusal, Hello, Misdeed, RingOutcome, ToMaster, ToPeer,
};
use pccl_core::shared_state::{SyncFailure, SyncVote};
use pccl_core::topology::{BrokenEdges, Ring};
use pccl_core::wire::MAX_ENTRY_NAME_BYTES;

use rings::{Search, Wiring};
use seen::Seen;
pub(crate) use shadow::Shadow;

type Peers = BTreeSet<PeerId>;
/// From sender to receiver.
type RingEdge = (PeerId, PeerId);

/// The whole run.
#[derive(Clone, Debug)]
struct Reference {
    config: MasterConfig,
    arrivals: u64,
    executions: u64,
    epoch: Epoch,
    /// The newest round that anybody was told of.
    newest: Round,
    /// Everybody who is connected.
    peers: BTreeMap<PeerId, Person>,
    /// Those of them that are part of the run.
    accepted: Peers,
    /// Who waits in `are_peers_pending`.
    asking: Peers,
    /// Who waits in `update_topology`.
    updating: Peers,
    /// Who waits in `optimize_topology` for the others to call it.
    optimizing: Peers,
    /// Newcomers that an admission has begun with. Who comes later waits for the next one.
    invited: Option<Peers>,
    /// Attempts at connecting rings.
    wirings: Vec<Wiring>,
    /// The search for better rings.
    search: Option<Search>,
    groups: BTreeMap<GroupId, Group>,
    /// What the present input makes the master say.
    said: Vec<(PeerId, ToPeer)>,
}

#[derive(Clone, Debug)]
struct Person {
    group: GroupId,
    lanes: u16,
}

/// One group with accepted peers.
#[derive(Clone, Debug, Default)]
struct Group {
    ring: Ring,
    epoch: Epoch,
    lanes: u16,
    /// Edges of the ring that have lost a lane.
    broken: BTreeSet<RingEdge>,
    /// Reached by the last successful synchronization.
    revision: Option<Revision>,
    /// Who took part in one.
    veterans: Peers,
    /// What those offer that wait in `sync_shared_state` for the others to call it.
    offers: BTreeMap<PeerId, SyncVote>,
    moving: Option<Moving>,
    /// Collectives that have not started: who wants what.
    starting: BTreeMap<Tag, BTreeMap<PeerId, CollectiveSpec>>,
    running: BTreeMap<Tag, Running>,
}

/// Shared state on its way.
#[derive(Clone, Debug)]
struct Moving {
    round: Round,
    revision: Revision,
    holders: Peers,
    /// Who has not reported its part.
    lacking: Peers,
}

/// A collective that has started.
#[derive(Clone, Debug)]
struct Running {
    seq: Seq,
    /// In ring order, the departed included.
    participants: Vec<PeerId>,
    /// Who has not voted on the outcome.
    lacking: Peers,
}

impl Reference {
    fn new(config: MasterConfig) -> Self {
        Self {
            config,
            arrivals: 0,
            executions: 0,
            epoch: Epoch(0),
            newest: Round(0),
            peers: BTreeMap::new(),
            accepted: Peers::new(),
            asking: Peers::new(),
            updating: Peers::new(),
            optimizing: Peers::new(),
            invited: None,
            wirings: Vec::new(),
            search: None,
            groups: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    /// Takes a fact. Returns what everybody must have been told about it.
    fn take(&mut self, input: &MasterInput, seen: &Seen) -> Vec<(PeerId, ToPeer)> {
        match input {
            MasterInput::Connected { hello, .. } => self.arrives(hello),
            MasterInput::Message { peer, message } => {
                if self.peers.contains_key(peer) && !self.says(*peer, message, seen) {
                    self.is_kicked(*peer);
                }
            }
            MasterInput::Misbehaved { peer, .. } => self.is_kicked(*peer),
            MasterInput::Disconnected { peer } => self.goes(*peer),
            MasterInput::TimerFired(timer) => self.is_overdue(*timer, seen),
            MasterInput::TourSolved { round, group, ring } => self.solved(*round, *group, ring),
            MasterInput::Stop => {
                let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
                self.tell_all(everybody, &ToPeer::Stopping);
                self.peers.clear();
            }
        }
        self.settle(seen);
        self.newest = self.newest.max(seen.newest);
        std::mem::take(&mut self.said)
    }

    fn tell(&mut self, peer: PeerId, message: ToPeer) {
        self.said.push((peer, message));
    }

    fn tell_all(&mut self, peers: impl IntoIterator<Item = PeerId>, message: &ToPeer) {
        for peer in peers {
            self.tell(peer, message.clone());
        }
    }

    /// Peers have numbers in the order of their arrival.
    fn arrives(&mut self, hello: &Hello) {
        let is_sound = hello.protocol == ProtocolVersion::CURRENT
            && hello.port != 0
            && hello.lanes != 0
            && self.peers.len() < self.config.peers_max as usize;
        if !is_sound {
            return;
        }
        self.arrivals += 1;
        let peer = PeerId(self.arrivals);
        let (group, lanes) = (hello.group, hello.lanes);
        self.peers.insert(peer, Person { group, lanes });
        self.tell(
            peer,
            ToPeer::Welcome {
                peer,
                heartbeat_ms: u32::try_from(self.config.heartbeat.as_millis()).unwrap(),
                silence_ms: u32::try_from(self.config.silence.as_millis()).unwrap(),
            },
        );
    }

    /// Every way out: the votes of the departed are withdrawn, and what ran with it fails, unless its
    /// part was over.
    fn goes(&mut self, peer: PeerId) {
        let Some(person) = self.peers.remove(&peer) else {
            return;
        };
        for set in [
            &mut self.accepted,
            &mut self.asking,
            &mut self.updating,
            &mut self.optimizing,
        ] {
            set.remove(&peer);
        }
        self.invited.as_mut().map(|invited| invited.remove(&peer));
        self.rings_lose(peer);
        if self.members(person.group).is_empty() {
            self.groups.remove(&person.group);
        }
        let Some(group) = self.groups.get_mut(&person.group) else {
            return;
        };
        group.offers.remove(&peer);
        group.veterans.remove(&peer);
        for votes in group.starting.values_mut() {
            votes.remove(&peer);
        }
        group.starting.retain(|_, votes| !votes.is_empty());
        let lacked = |running: &&Tag| group.running[running].lacking.contains(&peer);
        let aborted: Vec<Tag> = group.running.keys().filter(lacked).copied().collect();
        let moves = group.moving.as_ref();
        let fails = moves.is_some_and(|moving| moving.lacking.contains(&peer));
        for tag in aborted {
            self.abort(person.group, tag, AbortCause::PeerLost(peer));
        }
        if fails {
            self.conclude_sync(person.group, Err(SyncFailure::TransferFailed { peer }));
        }
    }

    /// Goes, and is told why. The reference says who, not why.
    fn is_kicked(&mut self, peer: PeerId) {
        if self.peers.contains_key(&peer) {
            self.tell(peer, ToPeer::Kicked(Misdeed::Silent));
            self.goes(peer);
        }
    }

    /// A newcomer is refused, a peer of the run kicked.
    fn is_sent_away(&mut self, peer: PeerId) {
        if self.accepted.contains(&peer) {
            self.is_kicked(peer);
        } else {
            let reason = pccl_core::messages::Refusal::NoReport;
            self.tell(peer, ToPeer::Refused(reason));
            self.goes(peer);
        }
    }

    /// False: no peer that keeps to the protocol says this here.
    fn says(&mut self, peer: PeerId, message: &ToMaster, seen: &Seen) -> bool {
        match message {
            ToMaster::Heartbeat => true,
            ToMaster::Hello(_) => false,
            ToMaster::Leave => {
                self.goes(peer);
                true
            }
            ToMaster::EdgesEstablished { round } => self.edges_up(peer, *round, seen),
            ToMaster::EdgeFailed { round, with, .. } => self.edge_failed(peer, *round, *with, seen),
            _ if !self.accepted.contains(&peer) => false,
            ToMaster::ArePeersPending => self.asking.insert(peer),
            ToMaster::UpdateTopology { broken } => {
                let is_free = self.is_free(peer);
                if is_free {
                    self.note_broken(peer, *broken);
                    self.updating.insert(peer);
                }
                is_free
            }
            ToMaster::OptimizeTopology => self.is_free(peer) && self.optimizing.insert(peer),
            ToMaster::Bandwidth { round, to, .. } => self.measured(peer, *round, *to, seen),
            ToMaster::ProbesDone { round, ok } => self.probes_done(peer, *round, *ok, seen),
            ToMaster::SyncSharedState(vote) => {
                let is_taken = self.is_orderly(vote) && self.is_free(peer);
                if is_taken {
                    self.group_of(peer).offers.insert(peer, vote.clone());
                }
                is_taken
            }
            ToMaster::SharedStateDone { round, ok } => self.moved(peer, *round, *ok, seen),
            ToMaster::InitiateCollective { tag, spec, broken } => {
                self.wants(peer, *tag, *spec, *broken)
            }
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            } => self.votes(peer, *seq, *outcome, *broken),
        }
    }

    /// To report about a round that nobody was told of is a misdeed, unless the master had one that it
    /// told nobody of, as it came to nothing.
    fn is_known(&self, peer: PeerId, round: Round, seen: &Seen) -> bool {
        round <= self.newest || !seen.lost.contains(&peer)
    }

    fn is_orderly(&self, vote: &SyncVote) -> bool {
        let names = || vote.entries.iter().map(|entry| entry.name.as_str());
        let in_order = names().zip(names().skip(1)).all(|(one, next)| one < next);
        let short = names().all(|name| name.len() <= MAX_ENTRY_NAME_BYTES);
        in_order && short && vote.entries.len() <= self.config.entries_max.0 as usize
    }

    /// What a peer says about the edges of the ring that it is on.
    fn note_broken(&mut self, peer: PeerId, broken: BrokenEdges) {
        let group = self.group_of(peer);
        let next = group.ring.next_of(peer).filter(|_| broken.to_next);
        let previous = group.ring.previous_of(peer);
        let previous = previous.filter(|_| broken.from_previous);
        group.broken.extend(next.map(|next| (peer, next)));
        group
            .broken
            .extend(previous.map(|previous| (previous, peer)));
    }

    fn wants(&mut self, peer: PeerId, tag: Tag, spec: CollectiveSpec, broken: BrokenEdges) -> bool {
        let tags = self.tags_of(peer);
        let is_taken = (self.is_free(peer) || !tags.is_empty())
            && !tags.contains_key(&tag)
            && tags.len() < self.config.tags_max as usize;
        if is_taken {
            self.note_broken(peer, broken);
            let votes = self.group_of(peer).starting.entry(tag).or_default();
            votes.insert(peer, spec);
        }
        is_taken
    }

    fn votes(&mut self, peer: PeerId, seq: Seq, outcome: RingOutcome, broken: BrokenEdges) -> bool {
        if seq.0 > self.executions {
            return false;
        }
        self.note_broken(peer, broken);
        let mut running = self.group_of(peer).running.iter_mut();
        let Some((tag, running)) = running.find(|(_, running)| running.seq == seq) else {
            // It was decided while the vote was on its way.
            return true;
        };
        let tag = *tag;
        let is_taken = running.lacking.remove(&peer);
        if is_taken {
            let group = self.peers[&peer].group;
            match outcome {
                RingOutcome::Done => {}
                RingOutcome::LaneLost => self.abort(group, tag, AbortCause::LaneLost(peer)),
                RingOutcome::Cancelled => self.abort(group, tag, AbortCause::Cancelled(peer)),
            }
        }
        is_taken
    }

    fn moved(&mut self, peer: PeerId, round: Round, ok: bool, seen: &Seen) -> bool {
        let moving = self.group_of(peer).moving.as_mut();
        let Some(moving) = moving.filter(|moving| moving.round == round) else {
            return self.is_known(peer, round, seen);
        };
        let is_taken = moving.lacking.remove(&peer);
        if is_taken && !ok {
            let group = self.peers[&peer].group;
            self.conclude_sync(group, Err(SyncFailure::TransferFailed { peer }));
        }
        is_taken
    }

    /// Who keeps others waiting goes, where it does nothing else meanwhile; else what they wait for is
    /// given up.
    fn is_overdue(&mut self, timer: MasterTimer, seen: &Seen) {
        match timer {
            MasterTimer::HeartbeatDue => {
                let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
                self.tell_all(everybody, &ToPeer::Heartbeat);
            }
            MasterTimer::Silence(peer) => self.is_kicked(peer),
            MasterTimer::Ballot(ballot) => self.ballot_is_overdue(ballot),
            MasterTimer::Wiring(round) => self.wiring_is_overdue(round, seen),
            MasterTimer::RetryWiring(round) => self.give_up(|wiring| wiring.round == round),
            MasterTimer::Optimization(_) => self.search_is_overdue(),
            MasterTimer::SharedState(round) => {
                let moves = |group: &Group| group.moving.as_ref().is_some_and(|m| m.round == round);
                let late = self.groups.iter().find(|(_, group)| moves(group));
                if let Some(group) = late.map(|(group, _)| *group) {
                    self.conclude_sync(group, Err(SyncFailure::TimedOut));
                }
            }
            MasterTimer::Collective(seq) => {
                let all = self.groups.iter().flat_map(|(group, record)| {
                    let tags = record.running.iter();
                    tags.map(|(tag, running)| (*group, *tag, running.seq))
                });
                if let Some((group, tag, _)) = all.clone().find(|(_, _, s)| *s == seq) {
                    self.abort(group, tag, AbortCause::TimedOut);
                }
            }
        }
    }

    fn ballot_is_overdue(&mut self, ballot: Ballot) {
        let is_late = |this: &Self, peer: PeerId| match ballot {
            Ballot::UpdateTopology | Ballot::OptimizeTopology => true,
            Ballot::PeersPending => !this.asking.contains(&peer),
            Ballot::Rewire(group) | Ballot::SyncSharedState(group) | Ballot::Initiate(group, _) => {
                this.peers[&peer].group == group
            }
        };
        for peer in self.accepted.clone() {
            if is_late(self, peer) && self.is_free(peer) {
                self.is_kicked(peer);
            }
        }
        if let Ballot::Initiate(group, tag) = ballot {
            let mut elsewhere = self.members(group);
            elsewhere.retain(|peer| {
                let tags = self.tags_of(*peer);
                !tags.contains_key(&tag) && self.only_waits_to_start(*peer)
            });
            if !elsewhere.is_empty() {
                let peers = elsewhere.into_iter().collect();
                self.refuse(group, tag, &CollectiveRefusal::NotJoined { peers });
            }
        }
    }
}
