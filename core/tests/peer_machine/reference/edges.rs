//! Which lanes lead to the neighbours on the ring: those that stand, and those of the last order.

use super::{Collective, End, Lanes, Major, NONSENSE, Order, Reference, Stage, only_if};
use crate::desk::*;

impl Reference {
    /// A ring is built only for who has called for one, and never under a collective that runs.
    pub(super) fn may_get_a_ring(&self) -> bool {
        match &self.major {
            Some(Major::Update) => true,
            Some(Major::Optimize(measured)) => matches!(measured, Some((_, true))),
            Some(Major::Sync(_)) => false,
            None if self.tags.is_empty() => self.order.is_some(),
            None => (self.tags.values()).all(|tag| matches!(tag, Collective::Wanted { .. })),
        }
    }

    pub(super) fn is_ordered(&mut self, message: &ToPeer) -> End {
        let ToPeer::EstablishRing {
            round,
            lanes,
            next,
            previous,
        } = message
        else {
            return NONSENSE;
        };
        let (round, lanes, next, previous) = (*round, *lanes, *next, *previous);
        let ordered = [next, previous];
        let mut edges = ordered.iter().flatten();
        only_if(edges.all(|order| order.with != ME && lanes > 0))?;
        if self.newest.is_some_and(|newest| round <= newest) {
            return Ok(());
        }
        let fresh = |order: LaneOrder| Lanes {
            with: order.with,
            built: round,
            broken: false,
        };
        let is_empty = ordered == [None, None];
        self.newest = Some(round);
        self.order = Some(Order {
            round,
            ends: ordered.map(|order| order.map(fresh)),
            up: is_empty.then_some(true),
        });
        self.out.push(PeerOutput::Establish {
            round,
            lanes,
            next,
            previous,
        });
        if is_empty {
            self.send(ToMaster::EdgesEstablished { round });
        }
        Ok(())
    }

    /// Both neighbours must have lanes: those that came up last, else those that stand.
    pub(super) fn adopts(&mut self, topology: &Topology) -> End {
        only_if(topology.ring.rank_of(ME).is_some())?;
        let neighbours = [topology.ring.next_of(ME), topology.ring.previous_of(ME)];
        let order = self.order.as_ref().filter(|order| order.up == Some(true));
        let fresh = order.map_or([None; 2], |order| order.ends);
        let mut edges = [None; 2];
        for end in 0..2 {
            if let Some(neighbour) = neighbours[end] {
                let mut known = fresh[end].into_iter().chain(self.edges[end]);
                edges[end] = known.find(|lanes| lanes.with == neighbour);
                only_if(edges[end].is_some())?;
            }
        }
        (self.edges, self.order) = (edges, None);
        self.topology = topology.clone();
        self.out.push(PeerOutput::AdoptRing(topology.clone()));
        Ok(())
    }

    pub(super) fn edge(&mut self, input: &PeerInput) {
        if !matches!(self.stage, Stage::Registered | Stage::Accepted) {
            return;
        }
        match input {
            PeerInput::EdgesUp { round } => {
                let round = *round;
                self.reports(round, true, ToMaster::EdgesEstablished { round });
            }
            PeerInput::EdgeFailed {
                round,
                with,
                failure,
            } => {
                let (round, with, failure) = (*round, *with, *failure);
                let message = ToMaster::EdgeFailed {
                    round,
                    with,
                    failure,
                };
                self.reports(round, false, message);
            }
            PeerInput::EdgeBroke { edge, built } => self.breaks(*edge, *built),
            _ => {}
        }
    }

    /// Each order is reported once, and only the last one.
    fn reports(&mut self, round: Round, up: bool, message: ToMaster) {
        let order = self.order.as_mut();
        let owed = order.filter(|order| order.round == round && order.up.is_none());
        if let Some(order) = owed {
            order.up = Some(up);
            self.send(message);
        }
    }

    /// Lanes that stand, or that are up and wait to stand.
    fn breaks(&mut self, edge: Edge, built: Round) {
        let end = match edge {
            Edge::ToNext => 0,
            Edge::FromPrevious => 1,
        };
        let ordered = self
            .order
            .as_mut()
            .and_then(|order| order.ends[end].as_mut());
        for lanes in self.edges[end].as_mut().into_iter().chain(ordered) {
            lanes.broken |= lanes.built == built;
        }
    }

    pub(super) fn broken(&self) -> BrokenEdges {
        let [to_next, from_previous] = self.edges.map(|end| end.is_some_and(|lanes| lanes.broken));
        BrokenEdges {
            to_next,
            from_previous,
        }
    }
}
