//! Which ring edges stand, which are being connected, and which have lost a lane.

use super::io::{CallError, PeerOutput};
use super::{Out, Step, send};
use crate::id::{PeerId, Round};
use crate::messages::ToMaster;
use crate::topology::{BrokenEdges, Edge, LaneFailure, LaneOrder, Topology};

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

/// A ring edge in use.
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
    next: Option<Standing>,
    previous: Option<Standing>,
    report: Report,
}

/// What was told to the master about an attempt; each attempt is reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Report {
    Owed,
    Up,
    Failed,
}

impl Wiring {
    /// Takes an order. False: it is older than another that was taken, and means nothing any more.
    fn order(
        &mut self,
        round: Round,
        next: Option<LaneOrder>,
        previous: Option<LaneOrder>,
    ) -> bool {
        if self.newest.is_some_and(|newest| round <= newest) {
            return false;
        }
        let standing = |order: LaneOrder| Standing {
            with: order.with,
            built: round,
            broken: false,
        };
        self.newest = Some(round);
        self.attempt = Some(Attempt {
            round,
            next: next.map(standing),
            previous: previous.map(standing),
            report: Report::Owed,
        });
        true
    }

    /// Is an order waiting to be reported, or to become the ring?
    pub(super) fn is_unfinished(&self) -> bool {
        self.attempt.is_some()
    }

    /// The ordered lanes are up. False: nothing is to be reported.
    fn came_up(&mut self, round: Round) -> bool {
        self.report(round, Report::Up)
    }

    /// A lane of the order did not come up. False: nothing is to be reported.
    fn failed(&mut self, round: Round) -> bool {
        self.report(round, Report::Failed)
    }

    fn report(&mut self, round: Round, report: Report) -> bool {
        match &mut self.attempt {
            Some(attempt) if attempt.round == round && attempt.report == Report::Owed => {
                attempt.report = report;
                true
            }
            Some(_) | None => false,
        }
    }

    /// A lane ended. Lanes that are up and wait to become the ring count as well: their end would
    /// otherwise be forgotten by the time they are in use.
    pub(super) fn broke(&mut self, edge: Edge, built: Round) {
        let (standing, fresh) = match edge {
            Edge::ToNext => (
                &mut self.next,
                self.attempt.as_mut().and_then(|a| a.next.as_mut()),
            ),
            Edge::FromPrevious => (
                &mut self.previous,
                self.attempt.as_mut().and_then(|a| a.previous.as_mut()),
            ),
        };
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

    /// Makes `topology` the ring of `me`. Edges that were ordered and came up replace those that
    /// stood; a neighbour without lanes, or a ring without `me`, is nothing a master says: `None`,
    /// and nothing has changed.
    pub(super) fn adopt(&mut self, me: PeerId, topology: &Topology) -> Option<()> {
        topology.ring.rank_of(me)?;
        let attempt = self.attempt.as_ref().filter(|a| a.report == Report::Up);
        let edge = |neighbour: Option<PeerId>, fresh: Option<Standing>, old: Option<Standing>| {
            let Some(neighbour) = neighbour else {
                return Some(None);
            };
            let leads_there = |lanes: &Standing| lanes.with == neighbour;
            fresh
                .filter(leads_there)
                .or(old.filter(leads_there))
                .map(Some)
        };
        let next = edge(
            topology.ring.next_of(me),
            attempt.and_then(|a| a.next),
            self.next,
        )?;
        let previous = edge(
            topology.ring.previous_of(me),
            attempt.and_then(|a| a.previous),
            self.previous,
        )?;
        (self.next, self.previous, self.attempt) = (next, previous, None);
        Some(())
    }
}

/// What `EstablishRing` says.
pub(super) struct RingOrder {
    pub(super) round: Round,
    pub(super) lanes: u16,
    pub(super) next: Option<LaneOrder>,
    pub(super) previous: Option<LaneOrder>,
}

impl Wiring {
    /// Hands an order on. One that orders nothing is reported at once.
    pub(super) fn establish(&mut self, me: PeerId, order: RingOrder, out: &mut Out) -> Step {
        let RingOrder {
            round,
            lanes,
            next,
            previous,
        } = order;
        let orders = || next.iter().chain(previous.iter());
        if orders().any(|order| order.with == me || lanes == 0) {
            return Err(CallError::MasterMisbehaved);
        }
        if !self.order(round, next, previous) {
            return Ok(());
        }
        let nothing_to_do = orders().next().is_none();
        out.push(PeerOutput::Establish {
            round,
            lanes,
            next,
            previous,
        });
        if nothing_to_do {
            self.edges_up(round, out);
        }
        Ok(())
    }

    pub(super) fn edges_up(&mut self, round: Round, out: &mut Out) {
        if self.came_up(round) {
            send(out, ToMaster::EdgesEstablished { round });
        }
    }

    pub(super) fn edge_failed(
        &mut self,
        round: Round,
        with: PeerId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        if self.failed(round) {
            send(
                out,
                ToMaster::EdgeFailed {
                    round,
                    with,
                    failure,
                },
            );
        }
    }
}
