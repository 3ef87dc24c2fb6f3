//! One attempt to connect rings: which edges are to be built, and what their ends have reported.

use alloc::collections::BTreeMap;

use super::Scope;
use super::record::StandingEdge;
use crate::id::{GroupId, PeerId, Round};
use crate::topology::{Edge, LaneFailure, Ring};

/// One attempt to connect the rings of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wiring {
    pub(super) scope: Scope,
    pub(super) rings: BTreeMap<GroupId, PlannedRing>,
    /// Edges to build, of all groups, sender first.
    pub(super) edges: BTreeMap<(PeerId, PeerId), Progress>,
    /// The sender of each edge to build, by its receiver.
    senders: BTreeMap<PeerId, PeerId>,
    /// Edges that are neither up nor failed.
    pub(super) open: usize,
    /// Some edges have failed: waits for the pause to end.
    pub(super) pausing: bool,
}

/// A ring that is to stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlannedRing {
    pub(super) ring: Ring,
    /// Its edges, sender first.
    pub(super) edges: BTreeMap<(PeerId, PeerId), StandingEdge>,
}

/// What is known of an edge that is to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Progress {
    /// Not the sender: the receiver opens the lanes.
    receiver_dials: bool,
    up_at_sender: bool,
    up_at_receiver: bool,
    /// The end that has reported a failure.
    failed_at: Option<Edge>,
    pub(super) failed: Option<Failure>,
}

/// The ends of an edge, by who opens its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) dialler: PeerId,
    pub(super) dialled: PeerId,
}

/// Why an edge counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Failure {
    /// One end said so.
    Reported(LaneFailure),
    /// Not both ends had reported it when the time was over.
    Overdue {
        /// The end that was to open the lanes had: the other one had not.
        dialler_reported: bool,
    },
}

impl Progress {
    pub(super) fn is_up(self) -> bool {
        let is_up = rule!(
            self.up_at_sender && self.up_at_receiver;
            UpAtOneEnd => self.up_at_sender || self.up_at_receiver
        );
        is_up && self.failed.is_none()
    }

    pub(super) fn is_decided(self) -> bool {
        self.failed.is_some() || self.is_up()
    }

    pub(super) fn is_reported_at(self, end: Edge) -> bool {
        match end {
            Edge::ToNext => self.up_at_sender,
            Edge::FromPrevious => self.up_at_receiver,
        }
    }
}

/// What one end says about an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Up,
    Failed(LaneFailure),
}

impl Wiring {
    pub(super) fn new(
        scope: Scope,
        round: Round,
        rings: BTreeMap<GroupId, PlannedRing>,
        dialler: impl Fn(PeerId, PeerId) -> PeerId,
    ) -> Self {
        let planned = rings.values().flat_map(|plan| &plan.edges);
        let fresh = planned.filter(|(_, edge)| edge.built == round);
        let untried = |(from, to): (PeerId, PeerId)| Progress {
            receiver_dials: dialler(from, to) != from,
            ..Progress::default()
        };
        let edges: BTreeMap<_, _> = fresh.map(|(edge, _)| (*edge, untried(*edge))).collect();
        Self {
            scope,
            rings,
            senders: edges.keys().map(|(from, to)| (*to, *from)).collect(),
            open: edges.len(),
            edges,
            pausing: false,
        }
    }

    /// The edge to build that is meant by one of its ends.
    pub(super) fn edge_at(&self, peer: PeerId, end: Edge) -> Option<(PeerId, PeerId)> {
        match end {
            Edge::ToNext => {
                let first = (peer, PeerId(0));
                let from_there = self.edges.range(first..).next();
                from_there
                    .map(|(edge, _)| *edge)
                    .filter(|edge| edge.0 == peer)
            }
            Edge::FromPrevious => self.senders.get(&peer).map(|from| (*from, peer)),
        }
    }

    /// Whether the peer has edges to build and has not reported all of them up.
    pub(super) fn awaits(&self, peer: PeerId) -> bool {
        [Edge::ToNext, Edge::FromPrevious].into_iter().any(|end| {
            let edge = self.edge_at(peer, end);
            let progress = edge.and_then(|edge| self.edges.get(&edge));
            progress.is_some_and(|progress| !progress.is_reported_at(end))
        })
    }

    /// Who was told to open the lanes of an edge, and who to expect them.
    pub(super) fn ends(&self, (from, to): (PeerId, PeerId)) -> Ends {
        let progress = self.edges.get(&(from, to));
        let receiver_dials = progress.is_some_and(|progress| progress.receiver_dials);
        let (dialler, dialled) = if receiver_dials {
            (to, from)
        } else {
            (from, to)
        };
        Ends { dialler, dialled }
    }

    /// False: that end has reported this edge before.
    pub(super) fn note(&mut self, edge: (PeerId, PeerId), end: Edge, report: Report) -> bool {
        let Some(progress) = self.edges.get_mut(&edge) else {
            return false;
        };
        let was_decided = progress.is_decided();
        let has_failed_there = progress.failed_at == Some(end);
        if progress.is_reported_at(end) || has_failed_there {
            return false;
        }
        match report {
            Report::Up => match end {
                Edge::ToNext => progress.up_at_sender = true,
                Edge::FromPrevious => progress.up_at_receiver = true,
            },
            Report::Failed(failure) => {
                progress.failed_at = Some(end);
                let before = progress.failed.replace(Failure::Reported(failure));
                if before.is_some() {
                    return false;
                }
            }
        }
        if !was_decided && progress.is_decided() {
            self.open = self.open.saturating_sub(1);
        }
        true
    }

    pub(super) fn has_failed(&self) -> bool {
        self.edges.values().any(|edge| edge.failed.is_some())
    }

    /// Whatever was not reported in time has failed.
    pub(super) fn close(&mut self) {
        let open = self.edges.values_mut().filter(|edge| !edge.is_decided());
        for progress in open {
            let dialler_reported = match progress.receiver_dials {
                true => progress.up_at_receiver,
                false => progress.up_at_sender,
            };
            progress.failed = Some(Failure::Overdue { dialler_reported });
        }
        self.open = 0;
    }
}
