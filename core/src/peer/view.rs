//! The state that tests, the model and the logs may read.

use super::accepted::{Accepted, Major};
use super::collectives::Collective;
use super::io::CallError;
use super::joining::Welcomed;
use super::{Peer, Stage};
use crate::id::{CallId, PeerId, Seq, Tag};
use crate::messages::CallKind;
use crate::states::CollectiveCommunicationState;
use crate::topology::{BrokenLinks, Topology, WorldSizes};

/// Read access to a [`Peer`].
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    peer: &'a Peer,
}

/// The stage of a peer's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerPhase {
    /// `connect` was not called.
    Unconnected,
    /// It has sent its hello.
    AwaitingWelcome,
    /// The master knows it, and it waits to be admitted.
    Registered,
    /// It is part of the run.
    Accepted,
    /// It is out of the run for good.
    Gone,
}

/// The calls in flight, given-up ones included, except for collectives (see [`PeerView::tags`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct OpenCalls {
    /// `connect`.
    pub connect: bool,
    /// A major call.
    pub major: Option<CallKind>,
    /// `are_peers_pending`.
    pub query: bool,
}

/// One tag in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TagView {
    /// The tag.
    pub tag: Tag,
    /// The state of the collective.
    pub state: CollectiveCommunicationState,
    /// The execution, once it has started.
    pub seq: Option<Seq>,
}

impl<'a> PeerView<'a> {
    pub(super) fn new(peer: &'a Peer) -> Self {
        Self { peer }
    }

    /// The stage of the membership.
    #[must_use]
    pub fn phase(&self) -> PeerPhase {
        match &self.peer.stage {
            Stage::Unconnected => PeerPhase::Unconnected,
            Stage::AwaitingWelcome(_) => PeerPhase::AwaitingWelcome,
            Stage::Registered(_) => PeerPhase::Registered,
            Stage::Accepted(_) => PeerPhase::Accepted,
            Stage::Gone(_) => PeerPhase::Gone,
        }
    }

    /// The id of the peer, while it is registered or accepted.
    #[must_use]
    pub fn peer_id(&self) -> Option<PeerId> {
        self.welcomed().map(|welcomed| welcomed.peer)
    }

    /// Whether it was admitted and has not voted since, so that its admission counts as its vote to update.
    #[must_use]
    pub fn rests(&self) -> bool {
        match &self.peer.stage {
            Stage::Accepted(accepted) => accepted.rests,
            Stage::Unconnected
            | Stage::AwaitingWelcome(_)
            | Stage::Registered(_)
            | Stage::Gone(_) => false,
        }
    }

    /// The ring of the peer, while it is accepted.
    #[must_use]
    pub fn topology(&self) -> Option<&'a Topology> {
        self.accepted().map(|accepted| &accepted.topology)
    }

    /// World sizes in the epoch of the ring. All zero before the peer is accepted.
    #[must_use]
    pub fn world_sizes(&self) -> WorldSizes {
        self.topology()
            .map(|topology| topology.world)
            .unwrap_or_default()
    }

    /// Ring edges that have lost a lane.
    #[must_use]
    pub fn broken_links(&self) -> BrokenLinks {
        self.accepted()
            .map(|accepted| accepted.wiring.broken())
            .unwrap_or_default()
    }

    /// Whether `update_topology` would be answered at once: the peer was admitted, or was given another ring while it
    /// rests, and has made no call since.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.accepted().is_some_and(|accepted| accepted.fresh)
    }

    /// The calls in flight, except for collectives.
    #[must_use]
    pub fn open_calls(&self) -> OpenCalls {
        match &self.peer.stage {
            Stage::Unconnected | Stage::Gone(_) => OpenCalls::default(),
            Stage::AwaitingWelcome(_) | Stage::Registered(_) => OpenCalls {
                connect: true,
                ..OpenCalls::default()
            },
            Stage::Accepted(accepted) => OpenCalls {
                connect: false,
                major: accepted.major.as_ref().map(|major| kind(&major.what)),
                query: accepted.query.is_some(),
            },
        }
    }

    /// The tags in use, in ascending order.
    pub fn tags(&self) -> impl Iterator<Item = TagView> + 'a {
        let tags = self.accepted().map(|accepted| accepted.tags.iter());
        tags.into_iter()
            .flatten()
            .map(|(tag, open)| look_at(*tag, &open.at))
    }

    /// The calls that wait until others have ended, in the order in which they will start.
    pub fn waiting(&self) -> impl Iterator<Item = CallId> + 'a {
        let waiting = self.accepted().map(|accepted| accepted.waiting.calls());
        waiting.into_iter().flatten()
    }

    /// Whether nothing is in flight and no call waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let in_flight = self.open_calls() != OpenCalls::default() || self.tags().next().is_some();
        !in_flight && self.waiting().next().is_none()
    }

    /// Why the peer is out of the run.
    #[must_use]
    pub fn ended(&self) -> Option<&'a CallError> {
        match &self.peer.stage {
            Stage::Gone(why) => Some(why),
            Stage::Unconnected
            | Stage::AwaitingWelcome(_)
            | Stage::Registered(_)
            | Stage::Accepted(_) => None,
        }
    }

    fn welcomed(&self) -> Option<&'a Welcomed> {
        match &self.peer.stage {
            Stage::Registered(registered) => Some(&registered.welcomed),
            Stage::Accepted(accepted) => Some(&accepted.welcomed),
            Stage::Unconnected | Stage::AwaitingWelcome(_) | Stage::Gone(_) => None,
        }
    }

    fn accepted(&self) -> Option<&'a Accepted> {
        match &self.peer.stage {
            Stage::Accepted(accepted) => Some(accepted),
            Stage::Unconnected
            | Stage::AwaitingWelcome(_)
            | Stage::Registered(_)
            | Stage::Gone(_) => None,
        }
    }
}

fn kind(major: &Major) -> CallKind {
    match major {
        Major::Update => CallKind::UpdateTopology,
        Major::Optimize(_) => CallKind::OptimizeTopology,
        Major::Sync(_) => CallKind::SyncSharedState,
    }
}

fn look_at(tag: Tag, collective: &Collective) -> TagView {
    TagView {
        tag,
        state: collective.state(),
        seq: collective.seq(),
    }
}
