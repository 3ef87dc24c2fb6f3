//! The state that tests, the model and the logs may read.

use super::record::{Collective, PeerRecord, SyncProgress};
use super::{Master, MasterTimer};
use crate::id::{Epoch, GroupId, PeerId, Revision, Round, Seq, Tag};
use crate::paths::Measurement;
use crate::site::{SiteMap, SiteName};
use crate::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use crate::topology::{Ring, WorldSizes};

/// Read access to a master.
#[derive(Clone, Copy, Debug)]
pub struct MasterView<'a> {
    master: &'a Master,
}

/// The master's record of one peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    record: &'a PeerRecord,
}

impl<'a> MasterView<'a> {
    pub(super) fn new(master: &'a Master) -> Self {
        Self { master }
    }

    /// All connected peers, registered or accepted, by id.
    pub fn peers(self) -> impl Iterator<Item = (PeerId, PeerView<'a>)> {
        self.master
            .peers
            .iter()
            .map(|(peer, record)| (*peer, PeerView { record }))
    }

    /// Whether the operator has stopped the run.
    #[must_use]
    pub const fn is_stopping(self) -> bool {
        self.master.stopping
    }

    /// One connected peer.
    #[must_use]
    pub fn peer(self, peer: PeerId) -> Option<PeerView<'a>> {
        self.master
            .peers
            .get(&peer)
            .map(|record| PeerView { record })
    }

    /// The id of the next peer.
    #[must_use]
    pub fn next_peer(self) -> PeerId {
        self.master.next_peer
    }

    /// The number of the next round.
    #[must_use]
    pub fn next_round(self) -> Round {
        self.master.next_round
    }

    /// Groups that have accepted peers.
    pub fn groups(self) -> impl Iterator<Item = GroupId> {
        self.master.groups.keys().copied()
    }

    /// The established ring of the group.
    #[must_use]
    pub fn ring(self, group: GroupId) -> Option<&'a Ring> {
        self.master.groups.get(&group).map(|record| &record.ring)
    }

    /// The site of each rank of the group's ring.
    #[must_use]
    pub fn sites(self, group: GroupId) -> Option<SiteMap> {
        let record = self.master.groups.get(&group);
        record.map(|record| self.master.sites_of(record))
    }

    /// The ring of the group that is being connected, if there is one.
    #[must_use]
    pub fn planned_ring(self, group: GroupId) -> Option<&'a Ring> {
        let mut wirings = self.master.wirings.values();
        let plan = wirings.find_map(|wiring| wiring.rings.get(&group));
        plan.map(|plan| &plan.ring)
    }

    /// The epoch in which the group's ring was established.
    #[must_use]
    pub fn epoch(self, group: GroupId) -> Option<Epoch> {
        self.master.groups.get(&group).map(|record| record.epoch)
    }

    /// The revision of the group's last successful synchronization, even if the group has no members any more.
    #[must_use]
    pub fn revision(self, group: GroupId) -> Option<Revision> {
        let reached = self.master.remembered.of(group);
        reached.map(|reached| reached.revision)
    }

    /// The running timers, in their own order.
    pub fn timers(self) -> impl Iterator<Item = MasterTimer> + 'a {
        self.master.armed.iter().copied()
    }

    /// The background searches: the round of the question, the group, and the best ring that was found since.
    pub fn searches(self) -> impl Iterator<Item = (Round, GroupId, Option<&'a Ring>)> {
        let searches = self.master.searches.iter();
        searches.map(|(group, search)| {
            let better = search.better.as_ref().map(|better| &better.ring);
            (search.round, *group, better)
        })
    }

    /// The peers from which this peer was told to fetch shared state, in the current synchronization.
    pub fn sources_of(self, peer: PeerId) -> &'a [PeerId] {
        let mut groups = self.master.groups.values();
        let sources = groups.find_map(|group| match &group.sync {
            SyncProgress::Moving { sources, .. } => sources.get(&peer),
            SyncProgress::Voting(_) => None,
        });
        sources.map_or(&[], |sources| sources.as_slice())
    }

    /// The edges with current measurements, sender first.
    pub fn measured(self) -> impl Iterator<Item = ((PeerId, PeerId), Measurement)> + 'a {
        self.master.known.iter()
    }

    /// Edges on which nothing arrived in a current measurement.
    pub fn unusable(self) -> impl Iterator<Item = (PeerId, PeerId)> + 'a {
        self.master.known.unusable()
    }

    /// World sizes as a peer of `group` sees them.
    #[must_use]
    pub fn world_sizes(self, group: GroupId) -> WorldSizes {
        self.master.world_sizes(group)
    }

    /// Whether the group's ring must be rebuilt before a collective can start.
    #[must_use]
    pub fn is_ring_stale(self, group: GroupId) -> bool {
        self.master.is_stale(group)
    }

    /// Collectives of the group that have started and are not decided.
    pub fn running(self, group: GroupId) -> impl Iterator<Item = (Tag, Seq)> {
        let collectives = self
            .master
            .groups
            .get(&group)
            .into_iter()
            .flat_map(|g| &g.collectives);
        collectives.filter_map(|(tag, collective)| match collective {
            Collective::Running { seq, .. } => Some((*tag, *seq)),
            Collective::Initiating(_) => None,
        })
    }
}

impl<'a> PeerView<'a> {
    /// Its phase: registered, or accepted as part of the run.
    #[must_use]
    pub fn phase(self) -> ConnectionPhase {
        self.record.phase
    }

    /// Its state.
    #[must_use]
    pub fn state(self) -> ConnectionState {
        self.record.state
    }

    /// Its group.
    #[must_use]
    pub fn group(self) -> GroupId {
        self.record.group
    }

    /// The site that it named.
    #[must_use]
    pub fn site(self) -> &'a SiteName {
        &self.record.site
    }

    /// The attempt in which it takes part, to connect rings or to find better ones.
    #[must_use]
    pub fn round(self) -> Option<Round> {
        self.record.round
    }

    /// The state of each of its tags.
    pub fn tags(self) -> impl Iterator<Item = (Tag, CollectiveCommunicationState)> + 'a {
        self.record.tags.iter()
    }

    /// Whether it waits for the answer to `are_peers_pending`.
    #[must_use]
    pub fn asks_pending(self) -> bool {
        self.record.asked_pending
    }

    /// Whether it has taken part in a successful synchronization.
    #[must_use]
    pub fn is_synchronized(self) -> bool {
        self.record.synced
    }
}
