//! What orders to open lanes contain: whether the two ends of each link will meet, and nobody else.
//!
//! The master gives each end its own order. Here both are laid side by side, with what the bystander knows of
//! the two processes: where each is, and how many lanes it would like.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::master::{Master, MasterConfig, MasterOutput};
use pccl_core::messages::ToPeer;
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::{self, LaneOrder, Ring};

use super::source::Source;
use crate::claim::Claim;
use crate::run::Run;

/// What lanes are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Ring,
    Measuring,
    State,
}

/// Lanes in one direction: sender first, or who asks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    purpose: Purpose,
    round: Round,
    from: PeerId,
    to: PeerId,
}

/// What each end of a way is told.
#[derive(Clone, Default)]
struct Ends {
    from: Vec<LaneOrder>,
    to: Vec<LaneOrder>,
}

/// The master has given orders.
pub(super) fn given(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    let mut ways: BTreeMap<Way, Ends> = BTreeMap::new();
    for output in out {
        if let MasterOutput::Send { peer, message } = output {
            sort_in(&mut ways, *peer, message);
        }
    }
    let rounds = before.view().next_round()..after.view().next_round();
    for (way, ends) in &ways {
        let ([one], [other]) = (&ends.from[..], &ends.to[..]) else {
            run.state.breaks(Claim::Meeting);
            return;
        };
        let is_extra = is_beside_the_ring(after, *way);
        if !rounds.contains(&way.round) || !do_meet(run, (*way, is_extra), one, other) {
            run.state.breaks(Claim::Meeting);
        }
        if one.ticket != other.ticket || !is_of_this_way_alone(run, *way, one.ticket) {
            run.state.breaks(Claim::Tickets);
        }
    }
}

fn sort_in(ways: &mut BTreeMap<Way, Ends>, me: PeerId, message: &ToPeer) {
    let mut note = |purpose, round, sends: bool, order: &LaneOrder| {
        let (from, to) = if sends {
            (me, order.with)
        } else {
            (order.with, me)
        };
        let way = Way {
            purpose,
            round,
            from,
            to,
        };
        let ends = ways.entry(way).or_default();
        let mine = if sends { &mut ends.from } else { &mut ends.to };
        mine.push(*order);
    };
    match message {
        ToPeer::EstablishLinks { round, links } => {
            for order in links {
                let sends = order.way == topology::Way::Out;
                note(Purpose::Ring, *round, sends, &order.lanes);
            }
        }
        ToPeer::Probe { round, probes } => {
            for order in probes {
                let sends = order.way == topology::Way::Out;
                note(Purpose::Measuring, *round, sends, &order.lanes);
            }
        }
        ToPeer::SharedStatePlan(SyncPlan { round, role, .. }) => match role {
            SyncRole::Distribute { to } => {
                to.iter()
                    .for_each(|order| note(Purpose::State, *round, false, order));
            }
            SyncRole::Request { from, .. } => {
                from.iter()
                    .for_each(|order| note(Purpose::State, *round, true, order));
            }
        },
        _ => {}
    }
}

/// Is it a link that the ring which is being connected does not need?
fn is_beside_the_ring(after: &Master, way: Way) -> bool {
    let group = after.view().peer(way.from).map(|known| known.group());
    let ring = group.and_then(|group| after.view().planned_ring(group));
    way.purpose == Purpose::Ring && ring.is_some_and(|ring| !ring.has_edge((way.from, way.to)))
}

/// One end opens as many lanes as the other expects, and knows where that one is.
fn do_meet(
    run: &Run<'_>,
    (way, is_extra): (Way, bool),
    one: &LaneOrder,
    other: &LaneOrder,
) -> bool {
    let lanes = match way.purpose {
        Purpose::Ring if is_extra => Some(1),
        Purpose::Ring | Purpose::State | Purpose::Measuring => lanes_between(run, way.from, way.to),
    };
    let is_at = |peer: PeerId, dialled: SocketAddr| run.whereabouts(peer) == Some(dialled);
    let is_found = match (one.dial, other.dial) {
        (Some(dialled), None) => is_at(way.to, dialled),
        (None, Some(dialled)) => is_at(way.from, dialled),
        (Some(_), Some(_)) | (None, None) => false,
    };
    one.lanes == other.lanes && Some(one.lanes) == lanes && is_found
}

/// As many lanes as both would like.
fn lanes_between(run: &impl Source, one: PeerId, other: PeerId) -> Option<u16> {
    Some(run.lanes_wished(one)?.min(run.lanes_wished(other)?))
}

/// Is it what the run's mint makes for this way, and for no other of this round or of an earlier one?
fn is_of_this_way_alone(run: &Run<'_>, way: Way, ticket: Ticket) -> bool {
    let mint = MasterConfig::default().tickets;
    let members = || run.state.seats.iter().filter_map(|seat| seat.id);
    let own = (way.round, way.from, way.to);
    let is_another = |round: u64, from, to| {
        let other = (Round(round), from, to);
        other != own && mint.mint(other.0, from, to) == ticket
    };
    let mut ends = members().flat_map(|from| members().map(move |to| (from, to)));
    let is_used = ends.any(|(from, to)| (0..=way.round.0).any(|round| is_another(round, from, to)));
    mint.mint(way.round, way.from, way.to) == ticket && !is_used
}

/// The lanes of the edge that has the most.
pub(super) fn most_lanes(run: &impl Source, ring: &Ring) -> u16 {
    let lanes = ring
        .edges()
        .filter_map(|(from, to)| lanes_between(run, from, to));
    lanes.max().unwrap_or(1)
}
