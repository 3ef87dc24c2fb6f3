//! Which lanes lead to the neighbours on the ring: those that stand, and those of the last order.

use super::{Collective, End, Fresh, Lanes, Major, NONSENSE, Order, Reference, Stage, only_if};
use crate::desk::*;

impl Reference {
    /// A ring is built for who waits until others do what it did, and for who does nothing; never under a
    /// collective that runs, under transfers, or under measurements.
    pub(super) fn may_get_a_ring(&self) -> bool {
        let none_runs = (self.tags.values()).all(|tag| matches!(tag, Collective::Wanted { .. }));
        match &self.major {
            Some(Major::Update | Major::Optimize(None | Some((_, true))) | Major::Sync(None)) => {
                true
            }
            Some(Major::Optimize(Some((_, false))) | Major::Sync(Some(_))) => false,
            None => none_runs,
        }
    }

    pub(super) fn is_ordered(&mut self, message: &ToPeer) -> End {
        let ToPeer::EstablishRing {
            round,
            next,
            previous,
        } = message
        else {
            return NONSENSE;
        };
        let (round, next, previous) = (*round, *next, *previous);
        let ordered = [next, previous];
        let mut edges = ordered.iter().flatten();
        only_if(edges.all(|order| order.with != ME && order.lanes > 0))?;
        if self.newest.is_some_and(|newest| round <= newest) {
            return Ok(());
        }
        let fresh = |order: LaneOrder| Fresh {
            lanes: Lanes {
                with: order.with,
                built: round,
                broken: false,
            },
            up: None,
        };
        self.newest = Some(round);
        let ends = ordered.map(|order| order.map(fresh));
        self.order = Some(Order { round, ends });
        self.out.push(PeerOutput::Establish {
            round,
            next,
            previous,
        });
        Ok(())
    }

    /// A ring is made of exactly the lanes that the master names: of each edge those of one round, which
    /// stand here or have come up, and lead to that neighbour.
    pub(super) fn adopts(&mut self, topology: &Topology, built: RingEdges) -> End {
        only_if(topology.ring.rank_of(ME).is_some())?;
        let neighbours = [topology.ring.next_of(ME), topology.ring.previous_of(ME)];
        let named = [built.next, built.previous];
        let mut edges = [None; 2];
        let mut adopted = [None; 2];
        for end in 0..2 {
            only_if(neighbours[end].is_some() == named[end].is_some())?;
            let (Some(with), Some(round)) = (neighbours[end], named[end]) else {
                continue;
            };
            let stands = self.edges[end].filter(|lanes| lanes.with == with && lanes.built == round);
            if stands.is_some() {
                (edges[end], adopted[end]) = (stands, KEEP);
                continue;
            }
            let came_up = self.order.as_ref().and_then(|order| order.ends[end]);
            let came_up = came_up.filter(|fresh| fresh.up == Some(true));
            let lanes = came_up.map(|fresh| fresh.lanes);
            only_if(lanes.is_some_and(|lanes| lanes.with == with && lanes.built == round))?;
            (edges[end], adopted[end]) = (lanes, from_round(round.0));
        }
        (self.edges, self.order) = (edges, None);
        self.topology = topology.clone();
        let [next, previous] = adopted;
        self.out.push(adopt(topology.clone(), next, previous));
        Ok(())
    }

    pub(super) fn edge(&mut self, input: &PeerInput) {
        if !matches!(self.stage, Stage::Registered | Stage::Accepted) {
            return;
        }
        match input {
            PeerInput::EdgeUp { round, edge } => {
                let (round, edge) = (*round, *edge);
                self.reports(round, edge, true, ToMaster::EdgeUp { round, edge });
            }
            PeerInput::EdgeFailed {
                round,
                edge,
                failure,
            } => {
                let (round, edge, failure) = (*round, *edge, *failure);
                let message = ToMaster::EdgeFailed {
                    round,
                    edge,
                    failure,
                };
                self.reports(round, edge, false, message);
            }
            PeerInput::EdgeBroke { edge, built } => self.breaks(*edge, *built),
            _ => {}
        }
    }

    /// Each edge of the last order is reported once.
    fn reports(&mut self, round: Round, edge: Edge, up: bool, message: ToMaster) {
        let order = self.order.as_mut().filter(|order| order.round == round);
        let fresh = order.and_then(|order| order.ends[end_of(edge)].as_mut());
        if let Some(fresh) = fresh.filter(|fresh| fresh.up.is_none()) {
            fresh.up = Some(up);
            self.send(message);
        }
    }

    /// Lanes that stand, or that are up and wait to stand.
    fn breaks(&mut self, edge: Edge, built: Round) {
        let end = end_of(edge);
        let fresh = self
            .order
            .as_mut()
            .and_then(|order| order.ends[end].as_mut());
        let fresh = fresh.map(|fresh| &mut fresh.lanes);
        for lanes in self.edges[end].as_mut().into_iter().chain(fresh) {
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

fn end_of(edge: Edge) -> usize {
    match edge {
        Edge::ToNext => 0,
        Edge::FromPrevious => 1,
    }
}
