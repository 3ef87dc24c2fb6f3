//! Which lanes lead to other peers: those that stand, and those of the last order.

use std::collections::BTreeSet;

use super::{Collective, End, Fresh, Lanes, Major, NONSENSE, Order, Reference, Stage, only_if};
use crate::desk::*;

impl Reference {
    /// A ring is built for who waits until others do what it did, and for who does nothing; never under a
    /// collective that runs, or under transfers.
    pub(super) fn may_get_a_ring(&self) -> bool {
        let none_runs = (self.tags.values()).all(|tag| matches!(tag, Collective::Wanted { .. }));
        match &self.major {
            Some(Major::Update | Major::Optimize(_) | Major::Sync(None)) => true,
            Some(Major::Sync(Some(_))) => false,
            None => none_runs,
        }
    }

    pub(super) fn is_ordered(&mut self, message: &ToPeer) -> End {
        let ToPeer::EstablishLinks { round, links } = message else {
            return NONSENSE;
        };
        let round = *round;
        let name = |order: &LinkOrder| LinkId {
            way: order.way,
            with: order.lanes.with,
        };
        let names: Vec<LinkId> = links.iter().map(name).collect();
        only_if(in_order_and_once(&names))?;
        only_if(names.iter().all(|link| link.with != ME))?;
        only_if(links.iter().all(|order| order.lanes.lanes > 0))?;
        if self.newest.is_some_and(|newest| round <= newest) {
            return Ok(());
        }
        let fresh = |link: LinkId| {
            let (built, broken) = (round, false);
            let lanes = Lanes { built, broken };
            (link, Fresh { lanes, up: None })
        };
        self.newest = Some(round);
        let ordered = names.into_iter().map(fresh).collect();
        self.order = Some(Order { round, ordered });
        let links = links.clone();
        self.out.push(PeerOutput::Establish { round, links });
        Ok(())
    }

    /// A ring comes with exactly the lanes that the master names: of each link those of one round, which stand
    /// here or have come up. Those to the neighbours are among them, and all lead to others on the ring, each rank of
    /// which has a site.
    pub(super) fn adopts(&mut self, topology: &Topology, layout: &Layout) -> End {
        let (Ring(ring), Layout(layout)) = (&topology.ring, layout);
        let at = ring.iter().position(|peer| *peer == ME);
        let at = at.ok_or(CallError::MasterMisbehaved)?;
        only_if(topology.sites.by_rank().count() == ring.len())?;
        let names: Vec<LinkId> = layout.iter().map(|built| built.link).collect();
        only_if(in_order_and_once(&names))?;
        let is_on_ring = |link: &LinkId| link.with != ME && ring.contains(&link.with);
        only_if(names.iter().all(is_on_ring))?;
        if ring.len() > 1 {
            let next = ring[(at + 1) % ring.len()];
            let previous = ring[(at + ring.len() - 1) % ring.len()];
            let (to_next, from_previous) = (to(next.0), from(previous.0));
            only_if(names.contains(&to_next) && names.contains(&from_previous))?;
        }
        let mut standing = Vec::new();
        let mut adopted = Vec::new();
        for BuiltLink { link, built } in layout {
            let is_meant = |lanes: &Lanes| lanes.built == *built;
            let stands = self.links.get(link).copied().filter(is_meant);
            let ordered = self
                .order
                .as_ref()
                .and_then(|order| order.ordered.get(link));
            let came_up = ordered.filter(|fresh| fresh.up == Some(true));
            let came_up = came_up.map(|fresh| fresh.lanes).filter(is_meant);
            let (lanes, which) = match (stands, came_up) {
                (Some(lanes), _) => (lanes, KEEP),
                (None, Some(lanes)) => (lanes, from_round(built.0)),
                (None, None) => return NONSENSE,
            };
            standing.push((*link, lanes));
            adopted.push((*link, which));
        }
        (self.links, self.order) = (standing.into_iter().collect(), None);
        self.topology = topology.clone();
        self.repeat = None;
        self.stops_all_but(None);
        self.out.push(adopt(topology.clone(), &adopted));
        Ok(())
    }

    pub(super) fn link(&mut self, input: &PeerInput) {
        if !matches!(self.stage, Stage::Registered | Stage::Accepted) {
            return;
        }
        match input {
            PeerInput::LinkUp { round, link } => {
                let (round, link) = (*round, *link);
                self.reports(round, link, true, ToMaster::LinkUp { round, link });
            }
            PeerInput::LinkFailed {
                round,
                link,
                failure,
            } => {
                let (round, link, failure) = (*round, *link, *failure);
                let message = ToMaster::LinkFailed {
                    round,
                    link,
                    failure,
                };
                self.reports(round, link, false, message);
            }
            PeerInput::LinkBroke { link, built } => self.breaks(*link, *built),
            _ => {}
        }
    }

    /// Each link of the last order is reported once.
    fn reports(&mut self, round: Round, link: LinkId, up: bool, message: ToMaster) {
        let order = self.order.as_mut().filter(|order| order.round == round);
        let fresh = order.and_then(|order| order.ordered.get_mut(&link));
        if let Some(fresh) = fresh.filter(|fresh| fresh.up.is_none()) {
            fresh.up = Some(up);
            self.send(message);
        }
    }

    /// Lanes that stand, or that are up and wait to stand.
    fn breaks(&mut self, link: LinkId, built: Round) {
        let order = self.order.as_mut();
        let fresh = order.and_then(|order| order.ordered.get_mut(&link));
        let fresh = fresh.map(|fresh| &mut fresh.lanes);
        for lanes in self.links.get_mut(&link).into_iter().chain(fresh) {
            lanes.broken |= lanes.built == built;
        }
    }

    pub(super) fn broken(&self) -> BrokenLinks {
        let links = self.links.iter().filter(|(_, lanes)| lanes.broken);
        let mut broken: Vec<LinkId> = links.map(|(link, _)| *link).collect();
        broken.sort_by_key(|link| place(*link));
        BrokenLinks(broken)
    }
}

/// Where a link stands among others: those on which this peer sends come first, then it goes by the numbers of
/// the others.
fn place(link: LinkId) -> (bool, u64) {
    (link.way == Way::In, link.with.0)
}

fn in_order_and_once(links: &[LinkId]) -> bool {
    let places: Vec<(bool, u64)> = links.iter().map(|link| place(*link)).collect();
    let each_once: BTreeSet<(bool, u64)> = places.iter().copied().collect();
    places.into_iter().eq(each_once)
}
