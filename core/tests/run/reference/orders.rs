//! Attempts at connecting rings that the master began: with whom, and what each was told to build.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::master::MasterOutput;
use pccl_core::messages::ToPeer;
use pccl_core::states::Event;
use pccl_core::topology::{LaneOrder, LinkId, LinkOrder, Way};

use super::seen::one_of;
use super::{Peers, RingEdge};

/// One attempt.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Who becomes part of it.
    pub(super) handed: Peers,
    told: BTreeMap<PeerId, (Round, Vec<LinkOrder>)>,
}

impl Orders {
    /// All that began, in order. One input can begin several with the same peers: an update that has nothing to
    /// build ends at once, and a group may then be rewired. The peers of an attempt get their parts without
    /// anything else in between, and then their orders.
    pub(super) fn in_outputs(out: &[MasterOutput]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut is_handing_out = false;
        for output in out {
            match output {
                MasterOutput::Moved { peer, event, .. } if *event == Event::RingHandedOut => {
                    if !is_handing_out {
                        all.push(Self::default());
                    }
                    is_handing_out = true;
                    let of_attempt = all.last_mut().unwrap();
                    assert!(of_attempt.handed.insert(*peer), "{peer} is part of it once");
                }
                MasterOutput::Moved { event, .. }
                    if [Event::LinksUp, Event::RingFoundStale].contains(event) => {}
                MasterOutput::Send { peer, message } => {
                    is_handing_out = false;
                    if let ToPeer::EstablishLinks { round, links } = message {
                        let attempt = all.last_mut().expect("orders are part of an attempt");
                        attempt.note(*peer, *round, links);
                    }
                }
                _ => is_handing_out = false,
            }
        }
        all
    }

    /// Each is told its links in order, and each once.
    fn note(&mut self, peer: PeerId, round: Round, links: &[LinkOrder]) {
        let place = |order: &LinkOrder| (order.way == Way::In, order.lanes.with);
        let in_order = links.is_sorted_by(|one, next| place(one) < place(next));
        assert!(in_order, "{peer} is told {links:?}");
        assert!(self.handed.contains(&peer), "{peer} is no part of it");
        let before = self.told.insert(peer, (round, links.to_vec()));
        assert_eq!(before, None, "{peer} is told once");
    }

    /// Links to build. Both ends are told, with the same ticket, and one dials.
    pub(super) fn edges(&self) -> BTreeSet<RingEdge> {
        let mut sending: BTreeSet<(Ticket, bool, PeerId, PeerId)> = BTreeSet::new();
        let mut mirrored = BTreeSet::new();
        for (peer, order) in self.links() {
            let LaneOrder {
                with, ticket, dial, ..
            } = order.lanes;
            match order.way {
                Way::Out => sending.insert((ticket, dial.is_some(), peer, with)),
                Way::In => mirrored.insert((ticket, dial.is_none(), with, peer)),
            };
        }
        assert_eq!(sending, mirrored, "both ends of a link are told the same");
        let edges = sending.into_iter();
        edges.map(|(_, _, from, to)| (from, to)).collect()
    }

    /// Who opens the lanes of which of its links.
    pub(super) fn dialling(&self) -> BTreeSet<(PeerId, LinkId)> {
        let dialling = self.links().filter(|(_, order)| order.lanes.dial.is_some());
        let ends = dialling.map(|(peer, order)| {
            let (way, with) = (order.way, order.lanes.with);
            (peer, LinkId { way, with })
        });
        ends.collect()
    }

    fn links(&self) -> impl Iterator<Item = (PeerId, &LinkOrder)> {
        let told = self.told.iter();
        told.flat_map(|(peer, (_, links))| links.iter().map(|order| (*peer, order)))
    }

    pub(super) fn round(&self) -> Round {
        one_of(self.told.values().map(|(round, _)| *round))
    }
}
