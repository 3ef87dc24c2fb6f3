//! The state of one peer and of one group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::ahead::Begun;
use super::conflicts::Conflicts;
use super::manifest::{Offer, Offers};
use super::newcomers::STRIKES_MAX;
use super::remembered::Reached;
use super::tally::{Counted, Tally};
use super::transfers::FailedTransfers;
use crate::element::CollectiveSpec;
use crate::id::{Epoch, GroupId, Identity, PeerId, Round, Seq, Tag};
use crate::name::PeerName;
use crate::plan::{Algorithm, Costs, Reach};
use crate::site::SiteName;
use crate::site::found::FoundSites;
use crate::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use crate::topology::{BrokenLinks, BuiltLink, Layout, LinkId, Ring};

/// Number of failed attempts after which a newcomer is refused that has been connected to a peer.
const STRIKES_JOINED_MAX: u8 = 6;

/// One connected peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct PeerRecord {
    pub(super) phase: ConnectionPhase,
    pub(super) state: ConnectionState,
    pub(super) group: GroupId,
    /// The address at which others open lanes to it.
    pub(super) address: SocketAddr,
    /// The identity that it has proved, and has to prove to every neighbour.
    pub(super) identity: Option<Identity>,
    /// Number of lanes per ring edge that its transport wants.
    pub(super) lanes: u16,
    /// The site that it named.
    pub(super) site: SiteName,
    /// The name that its user gives it. No decision depends on it.
    pub(super) name: PeerName,
    /// Its tags.
    pub(super) tags: Tags,
    /// Whether it voted in the running `are_peers_pending` ballot.
    pub(super) asked_pending: bool,
    /// The wiring or optimization in which it takes part.
    pub(super) round: Option<Round>,
    /// Why it takes part in a wiring, and so the state to which it returns if the attempt is given up.
    pub(super) stake: Stake,
    /// Whether it was admitted and has not voted since. Its admission counts as its vote to update.
    pub(super) rests: bool,
    /// Whether another peer has opened lanes to it.
    pub(super) reached: bool,
    /// Whether the last peer that was to open lanes to it got no answer, or was refused.
    pub(super) missed: bool,
    /// Whether it has opened lanes to another peer.
    pub(super) has_dialled: bool,
    /// Whether it did not get through the last time it was to open lanes, and the other end was not the cause as far
    /// as can be told.
    pub(super) stuck: bool,
    /// The evidence against it while it is a newcomer.
    pub(super) strikes: Strikes,
    /// Number of admissions that it is left out of.
    pub(super) left_out: u8,
    /// Number of updates of others that have passed over the call in which it waits.
    pub(super) passed: u8,
    /// Whether it has taken part in a successful synchronization, so that it is not a newcomer to the shared state.
    pub(super) synced: bool,
    /// Whether it was set aside once because it could not fetch what others could.
    pub(super) spared: bool,
    /// Its vote to synchronize, while it is set aside.
    pub(super) aside: Option<Offer>,
    /// What others wait for it to do, if its timer runs for that.
    pub(super) late: Option<Lateness>,
    /// Its contribution to the tallies.
    pub(super) counted: Option<Counted>,
}

/// Attempts in which an edge of a newcomer failed because of it, as far as the master can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Strikes {
    pub(super) all: u8,
    /// Number of attempts in which the peer at the other end has shown that its own end works.
    pub(super) proven: u8,
    /// Number of admissions without a place between two reachable peers.
    pub(super) waits: u8,
}

/// What others wait for a peer to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Lateness {
    /// It is idle, and a ballot lacks its vote.
    Vote,
    /// It waits to start collectives, and the start of another one lacks its vote.
    Join,
    /// A running operation lacks its part.
    Part,
    /// Its measurements of a rotation are missing.
    Probe,
}

impl Lateness {
    /// Whether others wait for a vote, and not for a part of a running operation.
    pub(super) const fn is_for_vote(self) -> bool {
        match self {
            Self::Vote | Self::Join => true,
            Self::Part | Self::Probe => false,
        }
    }
}

/// Why a peer takes part in a wiring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Stake {
    /// It waits to be admitted, or it is accepted and waits for nothing.
    Admission,
    /// It called `update_topology`.
    Update,
    /// It waits to synchronize.
    Sync,
    /// It waits to optimize.
    Vote,
    /// Its collectives wait for another ring.
    Rewire,
    /// Its `optimize_topology` has found another ring.
    Optimization,
}

/// The tags of one peer, and the number of tags in each state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Tags {
    by_tag: BTreeMap<Tag, CollectiveCommunicationState>,
    initiating: usize,
    performing: usize,
}

impl Tags {
    pub(super) fn len(&self) -> usize {
        self.by_tag.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_tag.is_empty()
    }

    pub(super) fn get(&self, tag: Tag) -> Option<CollectiveCommunicationState> {
        self.by_tag.get(&tag).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, CollectiveCommunicationState)> + '_ {
        self.by_tag.iter().map(|(tag, state)| (*tag, *state))
    }

    /// Number of tags that wait to start.
    pub(super) fn initiating(&self) -> usize {
        self.initiating
    }

    /// Whether an execution lacks this peer's vote on its outcome.
    pub(super) fn performs(&self) -> bool {
        self.performing > 0
    }

    /// Whether every collective of this peer waits to start, and there is one.
    pub(super) fn only_initiate(&self) -> bool {
        !self.by_tag.is_empty() && self.initiating == self.by_tag.len()
    }

    /// `None` frees the tag.
    pub(super) fn set(&mut self, tag: Tag, state: Option<CollectiveCommunicationState>) {
        let before = match state {
            Some(state) => self.by_tag.insert(tag, state),
            None => self.by_tag.remove(&tag),
        };
        let is = |wanted: CollectiveCommunicationState, state: Option<_>| {
            usize::from(state == Some(wanted))
        };
        let counts =
            |wanted, count: usize| (count + is(wanted, state)).saturating_sub(is(wanted, before));
        self.initiating = counts(CollectiveCommunicationState::VoteInitiate, self.initiating);
        self.performing = counts(CollectiveCommunicationState::Perform, self.performing);
    }
}

impl PeerRecord {
    pub(super) fn is_accepted(&self) -> bool {
        self.phase == ConnectionPhase::Accepted
    }

    /// Whether a newcomer has failed often enough to be refused.
    pub(super) fn has_struck_out(&self) -> bool {
        let Strikes { all, proven, waits } = self.strikes;
        let has_failed = match self.is_joined() {
            true => all > STRIKES_JOINED_MAX,
            false => proven >= STRIKES_MAX || all > STRIKES_MAX,
        };
        has_failed || waits > STRIKES_MAX
    }

    /// Whether lanes between it and another peer came up.
    pub(super) fn is_joined(&self) -> bool {
        self.reached || self.has_dialled
    }

    /// Whether another peer has tried to reach it, and none has succeeded.
    pub(super) fn is_hidden(&self) -> bool {
        self.missed && !self.reached
    }
}

/// One group that has, or is about to have, accepted peers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    /// Its accepted peers.
    pub(super) members: BTreeSet<PeerId>,
    /// Number of members in each state.
    pub(super) tally: Tally,
    /// The waits, as of the last update of the deadlines.
    pub(super) waits: GroupWaits,
    /// The ring as it was last established. If it has departed peers, it is stale.
    pub(super) ring: Ring,
    /// The found sites of its members, as they were announced with the ring. None if any of them has named its site.
    pub(super) found: FoundSites,
    /// The links between its members, sender first: those of the ring, and of the mesh if it has one.
    pub(super) links: BTreeMap<(PeerId, PeerId), StandingLink>,
    pub(super) epoch: Epoch,
    /// The known costs of the paths between its members when the ring was established.
    pub(super) costs: Option<Costs>,
    /// The links that lost a lane.
    pub(super) broken: BTreeSet<(PeerId, PeerId)>,
    /// The broken links for which a collective was aborted.
    pub(super) aborted_for: BTreeSet<(PeerId, PeerId)>,
    /// Pairs whose edge broke under collectives that were aborted for it, lower id first. Forgotten when a collective
    /// of at least that size is committed.
    pub(super) breaks: BTreeMap<(PeerId, PeerId), Breaks>,
    /// Peers that stalled, and how often, since the last committed collective or successful synchronization.
    pub(super) stalls: BTreeMap<PeerId, u8>,
    /// Peers that have cancelled collectives, and how often. Forgotten when a collective of at least that size is
    /// committed.
    pub(super) cancels: BTreeMap<PeerId, Breaks>,
    /// Collectives that gave way to a synchronization, in a row.
    pub(super) conflicts: Conflicts,
    pub(super) sync: SyncProgress,
    pub(super) failed: FailedTransfers,
    pub(super) collectives: BTreeMap<Tag, Collective>,
    /// The running collectives, by their numbers.
    pub(super) running: BTreeMap<Seq, Tag>,
    /// The collectives that all members have voted to start.
    pub(super) ready: BTreeSet<Tag>,
    /// The collectives on whose outcome all participants have voted.
    pub(super) whole: BTreeSet<Tag>,
    /// The collective that participants may have begun ahead.
    pub(super) begun: Option<Begun>,
    /// The number that was reserved last.
    pub(super) reserved: Option<Seq>,
    /// The number that was reserved last before the ring was established.
    pub(super) void: Option<Seq>,
}

/// A link between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct StandingLink {
    pub(super) built: Round,
    pub(super) lanes: u16,
}

/// How often collectives were aborted because of an edge, or of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Breaks {
    pub(super) times: u8,
    /// Size of the largest of those collectives: an edge may carry small ones, and nothing large.
    pub(super) bytes: u64,
}

/// The calls in which members of a group wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct GroupWaits {
    pub(super) syncing: bool,
    pub(super) rewiring: bool,
    pub(super) initiating: usize,
}

impl Breaks {
    /// Counts another aborted collective of this size, and returns the count.
    pub(super) fn count(&mut self, bytes: u64) -> u8 {
        self.times = self.times.saturating_add(1);
        self.bytes = self.bytes.max(bytes);
        self.times
    }
}

impl GroupRecord {
    /// Notes the broken links that `peer` names.
    pub(super) fn note_broken(&mut self, peer: PeerId, broken: &BrokenLinks) {
        let links = self.links_of(peer, broken);
        self.broken.extend(links);
    }

    /// The established links that are named, sender first.
    pub(super) fn links_of(&self, peer: PeerId, named: &BrokenLinks) -> Vec<(PeerId, PeerId)> {
        let named = named.0.iter().map(|link| link.ends(peer));
        let meant = rule!(named.collect::<Vec<_>>(); OtherEdgeMarkedBroken => {
            let others = self.links.keys().filter(|(from, to)| *from == peer || *to == peer);
            others.filter(|link| !named.clone().any(|named| named == **link)).copied().collect()
        });
        let stand = meant
            .into_iter()
            .filter(|link| self.links.contains_key(link));
        stand.collect()
    }

    /// All established links of a peer, sender first.
    pub(super) fn all_links_of(&self, peer: PeerId) -> Vec<(PeerId, PeerId)> {
        let links = self.links.keys().copied();
        let its = links.filter(|(from, to)| *from == peer || *to == peer);
        its.collect()
    }

    /// Whether this link is established and was not reported broken.
    pub(super) fn can_keep(&self, link: (PeerId, PeerId)) -> bool {
        let is_whole = rule!(!self.broken.contains(&link); EdgeKeptThoughBroken => true);
        is_whole && self.links.contains_key(&link)
    }

    /// The links of a peer, with the rounds of their lanes.
    pub(super) fn layout_of(&self, peer: PeerId) -> Layout {
        let links = self.links.iter().filter_map(|((from, to), standing)| {
            let link = if peer == *from {
                LinkId::to(*to)
            } else if peer == *to {
                LinkId::from(*from)
            } else {
                return None;
            };
            let built = standing.built;
            Some(BuiltLink { link, built })
        });
        let mut layout: Vec<BuiltLink> = links.collect();
        layout.sort_unstable();
        Layout(layout)
    }

    /// The members between which there are links.
    pub(super) fn reach(&self) -> Reach {
        let world = self.ring.world_size();
        let pairs = world.saturating_mul(world.saturating_sub(1));
        // A link has two ends, and there is one of each direction.
        if self.links.len() < pairs {
            Reach::Ring
        } else {
            Reach::Mesh
        }
    }

    /// Number of lanes of the ring edge that has the most.
    pub(super) fn lanes(&self) -> u16 {
        let of_ring = self.ring.edges().filter_map(|edge| self.links.get(&edge));
        let lanes = of_ring.map(|link| link.lanes);
        rule!(lanes.max(); ThinnestEdgeCounted => lanes.min()).unwrap_or(1)
    }

    /// Number of tags that wait to start.
    pub(super) fn initiating(&self) -> usize {
        self.collectives.len().saturating_sub(self.running.len())
    }
}

/// The progress of a group's synchronization.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum SyncProgress {
    /// Votes are collected. There may be none yet.
    Voting(Offers),
    /// Transfers run.
    Moving {
        round: Round,
        /// The content that the group will hold.
        reached: Reached,
        /// The holders from which each requester fetches.
        sources: BTreeMap<PeerId, Vec<PeerId>>,
        /// The peers that have not reported. The loss of one of them ends the attempt.
        awaiting: BTreeSet<PeerId>,
    },
}

impl Default for SyncProgress {
    fn default() -> Self {
        Self::Voting(Offers::new())
    }
}

/// One tag of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Collective {
    /// Votes to start it are collected.
    Initiating(BTreeMap<PeerId, CollectiveSpec>),
    /// It runs on the group's ring, which does not change while it runs.
    Running {
        seq: Seq,
        spec: CollectiveSpec,
        algorithm: Algorithm,
        /// Participants that have not voted on the outcome.
        awaiting: BTreeSet<PeerId>,
    },
}
