//! The ring edges of one process: those that stand, and those that an order has it connect.

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::topology::Edge;

use super::machines::AdoptedEdge;
use super::network::SeatNo;

/// The lanes of one ring edge, as both ends name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    /// The round in which they were built.
    pub built: Round,
    /// Who sends.
    pub from: SeatNo,
    /// Who receives.
    pub to: SeatNo,
}

impl LaneKey {
    /// The end that is not this one.
    #[must_use]
    pub fn other_end(self, one: SeatNo) -> SeatNo {
        if self.from == one { self.to } else { self.from }
    }
}

/// One end of an edge that is to be connected.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Who is at the other end.
    pub with: PeerId,
    /// Where that is.
    pub seat: SeatNo,
    /// What the two ends know each other by.
    pub ticket: Ticket,
    /// This end opens the lanes.
    pub dials: bool,
    /// The lanes are up.
    pub up: bool,
    /// It was reported that they cannot be opened.
    pub failed: bool,
}

/// The last order to connect edges, until a ring stands.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The round of the order.
    pub round: Round,
    /// The edge to send on.
    pub next: Option<End>,
    /// The edge to receive on.
    pub previous: Option<End>,
}

impl Attempt {
    /// The order about one edge.
    #[must_use]
    pub fn end(&self, edge: Edge) -> Option<&End> {
        match edge {
            Edge::ToNext => self.next.as_ref(),
            Edge::FromPrevious => self.previous.as_ref(),
        }
    }

    fn end_mut(&mut self, edge: Edge) -> Option<&mut End> {
        match edge {
            Edge::ToNext => self.next.as_mut(),
            Edge::FromPrevious => self.previous.as_mut(),
        }
    }

    fn fresh(&self, me: SeatNo, edge: Edge) -> Option<LaneKey> {
        let end = self.end(edge).filter(|end| end.up)?;
        Some(key(me, end.seat, edge, self.round))
    }
}

/// How the two ends of an edge name it: `edge` is what it is to `me`.
#[must_use]
pub fn key(me: SeatNo, other: SeatNo, edge: Edge, built: Round) -> LaneKey {
    let (from, to) = match edge {
        Edge::ToNext => (me, other),
        Edge::FromPrevious => (other, me),
    };
    LaneKey { built, from, to }
}

/// The edges of one process.
#[derive(Clone, Debug)]
pub struct Plane {
    me: SeatNo,
    /// The last order, until a ring stands.
    pub attempt: Option<Attempt>,
    /// The edge that it sends on.
    pub next: Option<LaneKey>,
    /// The edge that it receives on.
    pub previous: Option<LaneKey>,
    /// The ring in use.
    pub ring: Vec<SeatNo>,
}

impl Plane {
    /// Without any edge.
    #[must_use]
    pub fn new(me: SeatNo) -> Self {
        Self {
            me,
            attempt: None,
            next: None,
            previous: None,
            ring: Vec::new(),
        }
    }

    /// Takes an order; returns the lanes of the one before, which are dropped.
    pub fn take_order(&mut self, order: Attempt) -> Vec<LaneKey> {
        let before = self.attempt.replace(order);
        before.map(|a| self.fresh_of(&a)).unwrap_or_default()
    }

    /// The edge whose lanes another end opens with this ticket, if they are expected.
    #[must_use]
    pub fn expects(&self, ticket: Ticket) -> Option<Edge> {
        let attempt = self.attempt.as_ref()?;
        [Edge::ToNext, Edge::FromPrevious].into_iter().find(|edge| {
            let end = attempt.end(*edge);
            end.is_some_and(|end| end.ticket == ticket && !end.dials && !end.up)
        })
    }

    /// The ordered lanes of an edge are up. The round, if that was not known.
    pub fn comes_up(&mut self, edge: Edge) -> Option<Round> {
        let attempt = self.attempt.as_mut()?;
        let was_up = std::mem::replace(&mut attempt.end_mut(edge)?.up, true);
        (!was_up).then_some(attempt.round)
    }

    /// The lanes of an edge cannot be opened. False: that was known.
    pub fn fails(&mut self, edge: Edge) -> bool {
        let end = self
            .attempt
            .as_mut()
            .and_then(|attempt| attempt.end_mut(edge));
        end.is_some_and(|end| !std::mem::replace(&mut end.failed, true))
    }

    /// Makes a ring the one in use, with the lanes that are named. Returns the lanes that are dropped.
    ///
    /// # Panics
    /// If lanes are named that are not here: the machine contradicts itself.
    pub fn adopt(
        &mut self,
        ring: Vec<SeatNo>,
        next: Option<AdoptedEdge>,
        previous: Option<AdoptedEdge>,
    ) -> Vec<LaneKey> {
        let attempt = self.attempt.take();
        let fresh = |edge| attempt.as_ref().and_then(|a| a.fresh(self.me, edge));
        let mut dropped = Vec::new();
        let mut choose = |edge, adopted, standing: Option<LaneKey>| {
            let fresh: Option<LaneKey> = fresh(edge);
            let chosen = match adopted {
                None => None,
                Some(AdoptedEdge::Keep) => Some(standing.expect("what is kept stands")),
                Some(AdoptedEdge::Use(round)) => {
                    let fresh = fresh.filter(|lanes| lanes.built == round);
                    Some(fresh.expect("what is used is up"))
                }
            };
            let known = standing.into_iter().chain(fresh);
            dropped.extend(known.filter(|lanes| Some(*lanes) != chosen));
            chosen
        };
        let next = choose(Edge::ToNext, next, self.next);
        let previous = choose(Edge::FromPrevious, previous, self.previous);
        (self.next, self.previous, self.ring) = (next, previous, ring);
        dropped
    }

    /// Which edge these lanes are, standing or up and waiting to stand.
    #[must_use]
    pub fn edge_of(&self, lanes: LaneKey) -> Option<Edge> {
        let fresh = |edge| self.attempt.as_ref().and_then(|a| a.fresh(self.me, edge));
        let is =
            |standing: Option<LaneKey>, edge| standing == Some(lanes) || fresh(edge) == Some(lanes);
        if is(self.next, Edge::ToNext) {
            Some(Edge::ToNext)
        } else {
            is(self.previous, Edge::FromPrevious).then_some(Edge::FromPrevious)
        }
    }

    /// Everything that this end holds; it drops it all.
    pub fn drop_all(&mut self) -> Vec<LaneKey> {
        let mut dropped = self
            .attempt
            .take()
            .map_or_else(Vec::new, |a| self.fresh_of(&a));
        dropped.extend(self.next.take());
        dropped.extend(self.previous.take());
        self.ring.clear();
        dropped
    }

    fn fresh_of(&self, attempt: &Attempt) -> Vec<LaneKey> {
        let edges = [Edge::ToNext, Edge::FromPrevious].into_iter();
        edges
            .filter_map(|edge| attempt.fresh(self.me, edge))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(seat: usize, dials: bool) -> Option<End> {
        Some(End {
            with: PeerId(seat as u64),
            seat: SeatNo(seat),
            ticket: Ticket(seat as u128),
            dials,
            up: false,
            failed: false,
        })
    }

    fn order(round: u64, next: Option<End>, previous: Option<End>) -> Attempt {
        Attempt {
            round: Round(round),
            next,
            previous,
        }
    }

    fn ring(seats: &[usize]) -> Vec<SeatNo> {
        seats.iter().copied().map(SeatNo).collect()
    }

    /// A process that stands between 1 and 2 on a ring of three, with lanes of round 1.
    fn between_one_and_two() -> Plane {
        let mut plane = Plane::new(SeatNo(0));
        plane.take_order(order(1, end(2, true), end(1, false)));
        plane.comes_up(Edge::ToNext);
        plane.comes_up(Edge::FromPrevious);
        let use_it = Some(AdoptedEdge::Use(Round(1)));
        plane.adopt(ring(&[0, 2, 1]), use_it, use_it);
        plane
    }

    #[test]
    fn each_edge_of_an_order_is_reported_once() {
        let mut plane = Plane::new(SeatNo(0));
        plane.take_order(order(4, end(2, true), end(1, false)));

        assert_eq!(plane.expects(Ticket(1)), Some(Edge::FromPrevious));
        assert_eq!(plane.expects(Ticket(2)), None);
        assert_eq!(plane.comes_up(Edge::ToNext), Some(Round(4)));
        assert_eq!(plane.comes_up(Edge::FromPrevious), Some(Round(4)));
        assert_eq!(plane.comes_up(Edge::FromPrevious), None);
    }

    #[test]
    fn lanes_that_are_to_be_used_replace_those_that_stood() {
        let mut plane = between_one_and_two();
        let before = plane.next;
        plane.take_order(order(2, end(3, true), None));
        plane.comes_up(Edge::ToNext);

        let used = Some(AdoptedEdge::Use(Round(2)));
        let dropped = plane.adopt(ring(&[0, 3, 2, 1]), used, Some(AdoptedEdge::Keep));

        assert_eq!(
            plane.next,
            Some(key(SeatNo(0), SeatNo(3), Edge::ToNext, Round(2)))
        );
        assert_eq!(Some(dropped), before.map(|lanes| vec![lanes]));
    }

    #[test]
    fn lanes_that_came_up_in_vain_are_dropped_and_those_that_are_kept_stay() {
        let mut plane = between_one_and_two();
        let before = plane.next;
        plane.take_order(order(2, end(3, true), None));
        plane.comes_up(Edge::ToNext);

        let kept = Some(AdoptedEdge::Keep);
        let dropped = plane.adopt(ring(&[0, 2, 1]), kept, kept);

        assert_eq!(plane.next, before);
        assert_eq!(dropped, [key(SeatNo(0), SeatNo(3), Edge::ToNext, Round(2))]);
    }
}
