//! Which ring edges stand, which are being connected, and which have lost a lane.
//!
//! Which lanes become an edge of a ring is the master's decision: it names the round in which they were
//! built. Both ends of an edge are told the same round, so they use the same lanes, whatever else was
//! connected in attempts that came to nothing.

use super::io::{AdoptedEdge, CallError, PeerOutput};
use super::{Out, Step, send};
use crate::id::{PeerId, Round};
use crate::messages::ToMaster;
use crate::topology::{BrokenEdges, Edge, LaneFailure, LaneOrder, RingEdges, Topology};

/// The two ring edges of a peer, and the last attempt to connect them anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Wiring {
    next: Option<Standing>,
    previous: Option<Standing>,
    /// The last order, until a ring is adopted.
    attempt: Option<Attempt>,
    /// The newest round that was ordered.
    newest: Option<Round>,
}

/// The lanes of one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Standing {
    with: PeerId,
    built: Round,
    broken: bool,
}

/// One order to connect edges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    round: Round,
    next: Option<Ordered>,
    previous: Option<Ordered>,
}

/// One edge of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ordered {
    lanes: Standing,
    report: Report,
}

/// What was told to the master about an ordered edge; each is reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Report {
    Owed,
    Up,
    Failed,
}

/// The edges of a ring that a peer adopts.
pub(super) struct Adopted {
    next: Option<AdoptedEdge>,
    previous: Option<AdoptedEdge>,
}

impl Adopted {
    /// What the driver is told.
    pub(super) fn order(self, topology: Topology) -> PeerOutput {
        let Self { next, previous } = self;
        PeerOutput::AdoptRing {
            topology,
            next,
            previous,
        }
    }
}

/// What `EstablishRing` says.
pub(super) struct RingOrder {
    pub(super) round: Round,
    pub(super) next: Option<LaneOrder>,
    pub(super) previous: Option<LaneOrder>,
}

impl Attempt {
    fn edge_mut(&mut self, edge: Edge) -> Option<&mut Ordered> {
        match edge {
            Edge::ToNext => self.next.as_mut(),
            Edge::FromPrevious => self.previous.as_mut(),
        }
    }
}

impl Wiring {
    /// Hands an order on, unless it is older than another that was taken: then it means nothing any
    /// more.
    pub(super) fn establish(&mut self, me: PeerId, order: RingOrder, out: &mut Out) -> Step {
        let RingOrder {
            round,
            next,
            previous,
        } = order;
        let makes_no_sense = |order: &LaneOrder| order.with == me || order.lanes == 0;
        if next.iter().chain(previous.iter()).any(makes_no_sense) {
            return Err(CallError::MasterMisbehaved);
        }
        if self.newest.is_some_and(|newest| round <= newest) {
            return Ok(());
        }
        self.newest = Some(round);
        self.attempt = Some(Attempt {
            round,
            next: next.map(|order| Ordered::of(order, round)),
            previous: previous.map(|order| Ordered::of(order, round)),
        });
        out.push(PeerOutput::Establish {
            round,
            next,
            previous,
        });
        Ok(())
    }

    pub(super) fn edge_up(&mut self, round: Round, edge: Edge, out: &mut Out) {
        if self.report(round, edge, Report::Up) {
            send(out, ToMaster::EdgeUp { round, edge });
        }
    }

    pub(super) fn edge_failed(
        &mut self,
        round: Round,
        edge: Edge,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        if self.report(round, edge, Report::Failed) {
            let failed = ToMaster::EdgeFailed {
                round,
                edge,
                failure,
            };
            send(out, failed);
        }
    }

    /// False: nothing is to be reported.
    fn report(&mut self, round: Round, edge: Edge, report: Report) -> bool {
        let attempt = self.attempt.as_mut().filter(|a| a.round == round);
        match attempt.and_then(|attempt| attempt.edge_mut(edge)) {
            Some(ordered) if ordered.report == Report::Owed => {
                ordered.report = report;
                true
            }
            Some(_) | None => false,
        }
    }

    /// A lane ended. Lanes that are up and wait to become the ring count as well: their end would
    /// otherwise be forgotten by the time they are in use.
    pub(super) fn broke(&mut self, edge: Edge, built: Round) {
        let standing = match edge {
            Edge::ToNext => &mut self.next,
            Edge::FromPrevious => &mut self.previous,
        };
        let ordered = self.attempt.as_mut().and_then(|a| a.edge_mut(edge));
        let fresh = ordered.map(|ordered| &mut ordered.lanes);
        for lanes in standing
            .iter_mut()
            .chain(rule!(fresh; FreshBreakForgotten => None))
        {
            lanes.broken |= lanes.built == built;
        }
    }

    /// Edges of the present ring that have lost a lane.
    pub(super) fn broken(&self) -> BrokenEdges {
        let is_broken = |edge: &Option<Standing>| edge.is_some_and(|lanes| lanes.broken);
        BrokenEdges {
            to_next: is_broken(&self.next),
            from_previous: is_broken(&self.previous),
        }
    }

    /// Makes `topology` the ring of `me`, with the lanes that the master names. A ring without `me`, or
    /// an edge that is not here, is nothing a master says: `None`, and nothing has changed.
    pub(super) fn adopt(
        &mut self,
        me: PeerId,
        topology: &Topology,
        built: RingEdges,
    ) -> Option<Adopted> {
        let ring = &topology.ring;
        ring.rank_of(me)?;
        let attempt = self.attempt.as_ref();
        let fresh = |edge: fn(&Attempt) -> Option<Ordered>| {
            let ordered = attempt.and_then(edge);
            ordered.filter(|ordered| ordered.report == Report::Up)
        };
        let next = adopt_edge(
            ring.next_of(me),
            built.next,
            self.next,
            fresh(|attempt| attempt.next),
        )?;
        let previous = adopt_edge(
            ring.previous_of(me),
            built.previous,
            self.previous,
            fresh(|attempt| attempt.previous),
        )?;
        let lanes = |edge: &Option<(Standing, AdoptedEdge)>| edge.map(|(lanes, _)| lanes);
        (self.next, self.previous, self.attempt) = (lanes(&next), lanes(&previous), None);
        let adopted = |edge: Option<(Standing, AdoptedEdge)>| edge.map(|(_, adopted)| adopted);
        Some(Adopted {
            next: adopted(next),
            previous: adopted(previous),
        })
    }
}

impl Ordered {
    fn of(order: LaneOrder, round: Round) -> Self {
        Self {
            lanes: Standing {
                with: order.with,
                built: round,
                broken: false,
            },
            report: Report::Owed,
        }
    }
}

/// The lanes that were built in that round and lead to that neighbour, and where they are. The outer
/// `None`: there are none.
fn adopt_edge(
    neighbour: Option<PeerId>,
    built: Option<Round>,
    standing: Option<Standing>,
    fresh: Option<Ordered>,
) -> Option<Option<(Standing, AdoptedEdge)>> {
    let (with, round) = match (neighbour, built) {
        (None, None) => return Some(None),
        (Some(with), Some(round)) => (with, round),
        (None, Some(_)) | (Some(_), None) => return None,
    };
    let is_meant = |lanes: &Standing| lanes.with == with && lanes.built == round;
    let kept = standing.filter(is_meant);
    let used = fresh.map(|ordered| ordered.lanes).filter(is_meant);
    let kept = kept.map(|lanes| (lanes, AdoptedEdge::Keep));
    let used = used.map(|lanes| {
        let adopted = AdoptedEdge::Use(round);
        (lanes, adopted)
    });
    rule!(
        kept.or(used);
        FreshLanesAdopted if fresh.is_some() => {
            fresh.map(|ordered| (ordered.lanes, AdoptedEdge::Use(ordered.lanes.built)))
        }
    )
    .map(Some)
}
