//! What a run is, said a second time: in sets, without the master's machinery.
//!
//! A [`Reference`] takes the facts that a master takes and says what must be true after each: who is
//! registered and accepted, who waits in which call, which collectives run and who has voted, and what
//! every peer must have been told. It keeps no state machine, no timers and no progress: what a peer
//! is doing follows from the sets that it is in. Where the master has a choice (which order a ring
//! has, who serves whom, who pays for a link that does not come up), the reference takes what the
//! master chose from [`Seen`], and only checks that the choice was a legal one.
//!
//! | file | what it says |
//! |---|---|
//! | `mod` | what there is; arrivals and departures |
//! | `facts` | what a peer may say |
//! | `rules` | what follows: ballots, verdicts |
//! | `precedence` | which call gives way |
//! | `overdue` | deadlines |
//! | `rings`, `search` | connecting rings, looking for better ones |
//! | `election` | whose content a group will hold |
//! | `state` | what each peer is doing, and which deadlines run |
//! | `seen`, `orders` | what the master chose |
//! | `shadow`, `words` | the comparison with a real master after every input |

mod election;
mod facts;
mod orders;
mod overdue;
mod precedence;
mod rings;
mod rules;
mod search;
mod seen;
mod shadow;
mod state;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{Epoch, GroupId, PeerId, ProtocolVersion, Round, Seq, Tag};
use pccl_core::master::{MasterConfig, MasterInput};
use pccl_core::messages::{AbortCause, Hello, Misdeed, Refusal, Reserved, ToPeer};
use pccl_core::plan::Algorithm;
use pccl_core::shared_state::{SyncFailure, SyncVote};
use pccl_core::site::SiteName;
use pccl_core::topology::Ring;

use election::{Held, Mishaps};
use rings::Wiring;
use search::Search;
use seen::Seen;
pub(crate) use shadow::Shadow;

type Peers = BTreeSet<PeerId>;
/// From sender to receiver.
type RingEdge = (PeerId, PeerId);

/// It said what no peer that keeps to the protocol says. Which rule that broke, the stories check.
const IMPROPER: Misdeed = Misdeed::Malformed;
/// Its links do not come up. The master says more: with whom, and what happened.
const UNCONNECTABLE: (Refusal, Misdeed) = (
    Refusal::BadHello,
    Misdeed::Unconnectable { with: PeerId(0) },
);

/// The whole run.
#[derive(Clone, Debug)]
struct Reference {
    config: MasterConfig,
    has_stopped: bool,
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
    /// Pairs that could not be connected and were not since, lower number first.
    failed_pairs: BTreeSet<RingEdge>,
    /// Attempts to connect rings that failed since one stood.
    attempts_failed: u32,
    /// Who was admitted and has voted for nothing since.
    resting: Peers,
    /// Newcomers that wait to synchronize, and for the next update to let them.
    aside: BTreeMap<PeerId, SyncVote>,
    /// Who took part in a successful synchronization.
    veterans: Peers,
    /// Who was set aside because it could not fetch what others could.
    spared: Peers,
    /// For how many updates each of them stays aside, if its group does not do before what they were set
    /// aside for.
    kept_aside: BTreeMap<PeerId, u8>,
    /// How many updates have passed over the call that somebody waits in.
    passed: BTreeMap<PeerId, u8>,
    /// Newcomers with which somebody could not be connected.
    suspects: Peers,
    /// The search for better rings.
    search: Option<Search>,
    groups: BTreeMap<GroupId, Group>,
    /// What every group that there ever was held after its last successful synchronization.
    held: BTreeMap<GroupId, Held>,
    /// Attempts at connecting rings that the present input has begun.
    begun: usize,
    /// What the present input makes the master say.
    said: Vec<(PeerId, ToPeer)>,
}

#[derive(Clone, Debug)]
struct Person {
    group: GroupId,
    lanes: u16,
    site: SiteName,
    address: IpAddr,
}

/// One group with accepted peers.
#[derive(Clone, Debug, Default)]
struct Group {
    ring: Ring,
    epoch: Epoch,
    /// For each link of the ring: when it was built, and with how many lanes.
    edges: BTreeMap<RingEdge, (Round, u16)>,
    /// Links of the ring that have lost a lane.
    broken: BTreeSet<RingEdge>,
    /// Pairs whose link broke under collectives, lower number first: how often, and under how many bytes
    /// at most, since as many were reduced.
    breaks: BTreeMap<RingEdge, (u8, u64)>,
    /// Who has cancelled collectives: how often, and of how many bytes at most, since as many were reduced.
    cancels: BTreeMap<PeerId, (u8, u64)>,
    /// How often somebody has held up the others, since a collective or synchronization has ended well.
    stalls: BTreeMap<PeerId, u8>,
    /// How often in a row a collective has given way to a synchronization.
    conflicts: u8,
    /// What has given way since the last conflict was counted.
    conflicted: BTreeSet<Tag>,
    /// What those offer that wait in `sync_shared_state` for the others to call it.
    offers: BTreeMap<PeerId, SyncVote>,
    moving: Option<Moving>,
    mishaps: Mishaps,
    /// Collectives that have not started: who wants what.
    starting: BTreeMap<Tag, BTreeMap<PeerId, CollectiveSpec>>,
    running: BTreeMap<Tag, Running>,
    /// What was committed last, and may begin ahead if all want it again.
    repeat: Option<(Tag, CollectiveSpec, Reserved)>,
    /// Who has said already that it has the result of that.
    has_it: Peers,
    /// The last number that was reserved for such a collective, and the last one on an older ring.
    reserved: Option<Seq>,
    void: Option<Seq>,
}

/// Shared state on its way.
#[derive(Clone, Debug)]
struct Moving {
    round: Round,
    reached: Held,
    holders: Peers,
    /// Who fetches something, and from whom.
    sources: BTreeMap<PeerId, Vec<PeerId>>,
    /// Who has not reported its part.
    lacking: Peers,
}

/// A collective that has started.
#[derive(Clone, Debug)]
struct Running {
    seq: Seq,
    spec: CollectiveSpec,
    algorithm: Algorithm,
    bytes: u64,
    /// Whose buffer all get, if it is a broadcast.
    root: Option<PeerId>,
    /// In ring order, the departed included.
    participants: Vec<PeerId>,
    /// Who has not voted on the outcome.
    lacking: Peers,
}

impl Reference {
    fn new(config: MasterConfig) -> Self {
        Self {
            config,
            has_stopped: false,
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
            failed_pairs: BTreeSet::new(),
            attempts_failed: 0,
            resting: Peers::new(),
            aside: BTreeMap::new(),
            veterans: Peers::new(),
            spared: Peers::new(),
            kept_aside: BTreeMap::new(),
            passed: BTreeMap::new(),
            suspects: Peers::new(),
            search: None,
            groups: BTreeMap::new(),
            held: BTreeMap::new(),
            begun: 0,
            said: Vec::new(),
        }
    }

    /// Takes a fact. Returns what everybody must have been told about it.
    fn take(&mut self, input: &MasterInput, seen: &Seen) -> Vec<(PeerId, ToPeer)> {
        match input {
            MasterInput::Connected { hello, from, .. } => self.arrives(hello, *from),
            MasterInput::Message { peer, message } => {
                if self.peers.contains_key(peer) && !self.says(*peer, message, seen) {
                    self.is_kicked(*peer, IMPROPER);
                }
            }
            MasterInput::Misbehaved { peer, misdeed } => self.is_kicked(*peer, misdeed.clone()),
            MasterInput::Disconnected { peer } => self.goes(*peer),
            MasterInput::TimerFired(timer) => self.is_overdue(*timer, seen),
            MasterInput::TourSolved {
                round,
                group,
                found,
            } => {
                let ring = found.as_ref().map(|found| &found.ring);
                self.solved(*round, *group, ring);
            }
            // What it found is for an update to come.
            MasterInput::TourImproved { .. } => {}
            MasterInput::Stop => {
                let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
                *self = Self {
                    arrivals: self.arrivals,
                    has_stopped: true,
                    ..Self::new(self.config.clone())
                };
                self.tell_all(everybody, &ToPeer::Stopping);
            }
        }
        self.settle(seen);
        let begun = std::mem::take(&mut self.begun);
        assert_eq!(begun, seen.attempts.len(), "attempts after {input:?}");
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
    fn arrives(&mut self, hello: &Hello, from: IpAddr) {
        let is_sound = !self.has_stopped
            && hello.protocol == ProtocolVersion::CURRENT
            && hello.port != 0
            && hello.lanes != 0
            && self.peers.len() < self.config.peers_max as usize;
        if !is_sound {
            return;
        }
        self.arrivals += 1;
        let peer = PeerId(self.arrivals);
        let person = Person {
            group: hello.group,
            lanes: hello.lanes,
            site: hello.site.clone(),
            address: hello.advertise.unwrap_or(from),
        };
        self.peers.insert(peer, person);
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
            &mut self.resting,
            &mut self.suspects,
        ] {
            set.remove(&peer);
        }
        self.kept_aside.remove(&peer);
        self.spared.remove(&peer);
        self.veterans.remove(&peer);
        self.aside.remove(&peer);
        self.passed.remove(&peer);
        let is_out = |(one, other): &RingEdge| *one == peer || *other == peer;
        self.failed_pairs.retain(|pair| !is_out(pair));
        self.invited.as_mut().map(|invited| invited.remove(&peer));
        self.rings_lose(peer);
        if self.members(person.group).is_empty() {
            let ended = self.groups.remove(&person.group).is_some();
            if ended && !self.groups.is_empty() {
                self.epoch = self.epoch.next();
            }
        }
        let Some(group) = self.groups.get_mut(&person.group) else {
            return;
        };
        group.offers.remove(&peer);
        group.stalls.remove(&peer);
        group.cancels.remove(&peer);
        group.breaks.retain(|pair, _| !is_out(pair));
        group.mishaps.without(peer);
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

    /// Goes, and is told why.
    fn is_kicked(&mut self, peer: PeerId, why: Misdeed) {
        if self.peers.contains_key(&peer) {
            self.tell(peer, ToPeer::Kicked(why));
            self.goes(peer);
        }
    }

    /// A newcomer is refused, a peer of the run kicked.
    fn is_sent_away(&mut self, peer: PeerId, refusal: Refusal, misdeed: Misdeed) {
        if self.accepted.contains(&peer) {
            self.is_kicked(peer, misdeed);
        } else {
            self.tell(peer, ToPeer::Refused(refusal));
            self.goes(peer);
        }
    }
}
