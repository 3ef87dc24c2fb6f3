//! What `update_topology` and `optimize_topology` lead to.

use pccl_core::id::{Epoch, PeerId};
use pccl_core::paths::RingReport;
use pccl_core::site::SiteName;
use pccl_core::topology::Topology;

/// What a change of the topology led to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyReport {
    /// The epoch of the ring.
    pub epoch: Epoch,
    /// The ring of this peer's group: data flows from each peer to the next.
    pub ring: Vec<PeerId>,
    /// This peer's position in the ring.
    pub rank: usize,
    /// Number of peers in the ring.
    pub world_size: usize,
    /// The site of each peer of the ring, in its order, as [`site_of`](crate::Communicator::site_of) tells it: `None`
    /// if it names none and none was found. The sites that [`optimize_topology`](crate::Communicator::optimize_topology)
    /// finds are called `~` and a number.
    pub sites: Vec<Option<String>>,
    /// What `optimize_topology` has found. `None`: the topology was updated only.
    pub optimized: Option<RingReport>,
}

impl TopologyReport {
    pub(crate) fn new(topology: Topology, me: PeerId, optimized: Option<RingReport>) -> Self {
        let named = |site: &SiteName| site.is_named().then(|| site.to_string());
        Self {
            epoch: topology.epoch,
            rank: topology.ring.rank_of(me).unwrap_or_default(),
            world_size: topology.ring.world_size(),
            sites: topology.sites.by_rank().map(named).collect(),
            ring: topology.ring.0,
            optimized,
        }
    }
}
