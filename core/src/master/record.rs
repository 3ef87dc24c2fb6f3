//! What the master remembers about one peer and about one group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::manifest::Offers;
use super::remembered::Reached;
use super::transfers::FailedTransfers;
use crate::element::CollectiveSpec;
use crate::id::{Epoch, GroupId, PeerId, Round, Seq, Tag};
use crate::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use crate::topology::{BrokenEdges, Ring};

/// One connected peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PeerRecord {
    pub(super) phase: ConnectionPhase,
    pub(super) state: ConnectionState,
    pub(super) group: GroupId,
    /// Where others open lanes to it.
    pub(super) address: SocketAddr,
    /// Lanes per ring edge that its transport would like.
    pub(super) lanes: u16,
    /// What it does with each tag.
    pub(super) tags: BTreeMap<Tag, CollectiveCommunicationState>,
    /// Voted in the running `are_peers_pending` ballot.
    pub(super) asked_pending: bool,
    /// The wiring or optimization that it is part of.
    pub(super) round: Option<Round>,
    /// What its part in a wiring stands for: where it goes back to when the attempt is given up.
    pub(super) stake: Stake,
    /// Has taken part in a successful synchronization: no newcomer to the shared state.
    pub(super) synced: bool,
}

/// Why a peer takes part in a wiring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stake {
    /// It waits to be admitted.
    Admission,
    /// It called `update_topology`.
    Update,
    /// Its collectives wait for another ring.
    Rewire,
    /// It called `optimize_topology`.
    Optimization,
}

impl PeerRecord {
    pub(super) fn is_accepted(&self) -> bool {
        self.phase == ConnectionPhase::Accepted
    }

    /// Does every collective of this peer wait to start (and is there one)?
    pub(super) fn only_initiates(&self) -> bool {
        !self.tags.is_empty()
            && self
                .tags
                .values()
                .all(|tag| *tag == CollectiveCommunicationState::VoteInitiate)
    }
}

/// One group that has, or is about to have, accepted peers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct GroupRecord {
    /// The ring as it was last established. May name peers that are gone: then it is stale.
    pub(super) ring: Ring,
    pub(super) epoch: Epoch,
    /// Lanes per edge of the ring.
    pub(super) lanes: u16,
    /// Edges of the ring, sender first, that lost a lane.
    pub(super) broken: BTreeSet<(PeerId, PeerId)>,
    /// Whole edges of the ring that an attempt at another one ordered afresh. Until a ring stands each
    /// attempt does: the two ends may have newer lanes, of which they must not keep different ones.
    pub(super) distrusted: BTreeSet<(PeerId, PeerId)>,
    pub(super) sync: SyncProgress,
    pub(super) failed: FailedTransfers,
    pub(super) collectives: BTreeMap<Tag, Collective>,
}

impl GroupRecord {
    /// Notes what `peer` says about its edges of the present ring.
    pub(super) fn note_broken(&mut self, peer: PeerId, broken: BrokenEdges) {
        if let (true, Some(next)) = (broken.to_next, self.ring.next_of(peer)) {
            self.broken.insert((peer, next));
        }
        if let (true, Some(previous)) = (broken.from_previous, self.ring.previous_of(peer)) {
            self.broken.insert((previous, peer));
        }
    }

    /// Is this an edge of the ring that can be kept: is it whole as far as anybody said?
    pub(super) fn can_keep(&self, edge: (PeerId, PeerId)) -> bool {
        let is_whole = rule!(!self.broken.contains(&edge); EdgeKeptThoughBroken => true);
        is_whole && !self.distrusted.contains(&edge) && self.ring.next_of(edge.0) == Some(edge.1)
    }

    /// Has all edges of these peers that the next ring shares with the present one connected afresh.
    pub(super) fn distrust(&mut self, ends: &BTreeSet<PeerId>, next: &Ring) {
        let shared = |(from, to): &(PeerId, PeerId)| next.next_of(*from) == Some(*to);
        let edges = self.ring.edges().filter(shared);
        let concerned = edges.filter(|(from, to)| ends.contains(from) || ends.contains(to));
        self.distrusted.extend(concerned);
    }
}

/// How far a group's synchronization is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SyncProgress {
    /// Votes are collected (maybe none yet).
    Voting(Offers),
    /// Entries move.
    Moving {
        round: Round,
        /// What the group will hold.
        reached: Reached,
        /// Who fetches something, and from whom.
        sources: BTreeMap<PeerId, PeerId>,
        /// Who has not reported. The loss of one of them ends the attempt.
        awaiting: BTreeSet<PeerId>,
    },
}

impl Default for SyncProgress {
    fn default() -> Self {
        Self::Voting(Offers::new())
    }
}

/// One tag of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Collective {
    /// Votes to start it are collected.
    Initiating(BTreeMap<PeerId, CollectiveSpec>),
    /// It runs.
    Running {
        seq: Seq,
        /// In ring order, the departed included.
        contributors: Vec<PeerId>,
        /// Participants that have not voted on the outcome.
        awaiting: BTreeSet<PeerId>,
    },
}
