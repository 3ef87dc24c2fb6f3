//! What the master has measured, and when: told from its orders, and from what it says that it knows.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::PeerId;
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::ToPeer;
use pccl_core::states::ConnectionState;
use pccl_core::topology::{LinkId, LinkOrder, Way};

use super::source::Source;
use crate::claim::Claim;
use crate::milestone::Milestone;

pub(super) fn probes(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let is_there = |peer: PeerId| after.view().peer(peer).is_some();
    let known = after.view().measured().map(|(edge, _)| edge);
    let mut ends = known
        .chain(after.view().unusable())
        .flat_map(|(from, to)| [from, to]);
    if !ends.all(is_there) {
        run.breaks(Claim::Rotations);
    }
    adopts_better(run, before, after);
    if let MasterInput::TimerFired(MasterTimer::Late(peer)) = heard
        && let Some(late) = before.view().peer(*peer)
        && late.state() == ConnectionState::OptimizeTopology
    {
        run.edit_ghost().slow.insert(*peer);
    }
    let orders = orders(out);
    if orders.keys().any(|peer| run.ghost().slow.contains(peer)) {
        run.breaks(Claim::Rotations);
    }
    let may_be = orders.is_empty()
        || nobody_else_measures(before, after, out)
            && match heard {
                MasterInput::TourSolved { .. } => {
                    is_rotation(before, &orders) || is_load(run, &orders)
                }
                MasterInput::Connected { .. }
                | MasterInput::Message { .. }
                | MasterInput::Misbehaved { .. }
                | MasterInput::Disconnected { .. }
                | MasterInput::TimerFired(_)
                | MasterInput::TourImproved { .. }
                | MasterInput::Stop => is_rotation(before, &orders),
            };
    if !may_be {
        run.breaks(Claim::Rotations);
    }
    let is_answer = matches!(heard, MasterInput::TourSolved { .. });
    if is_answer && !orders.is_empty() && is_rotation(before, &orders) {
        run.reach(Milestone::EdgesWanted);
    }
    let is_over = out.iter().any(|output| match output {
        MasterOutput::Send { message, .. } => {
            matches!(message, ToPeer::OptimizationConcluded { .. })
        }
        _ => false,
    });
    let all_are_gone = after.view().groups().next().is_none();
    let is_begun = run.ghost().loads > 0 || !run.ghost().slow.is_empty();
    if is_begun && (is_over || all_are_gone) {
        run.edit_ghost().loads = 0;
        run.edit_ghost().slow.clear();
    }
}

/// What a search has found is being connected, or stands.
fn adopts_better(run: &mut impl Source, before: &Master, after: &Master) {
    for (_, group, better) in before.view().searches() {
        let (now, planned) = (after.view().ring(group), after.view().planned_ring(group));
        let is_news = better != before.view().ring(group);
        if better.is_some() && is_news && [now, planned].contains(&better) {
            run.reach(Milestone::BetterAdopted);
        }
    }
}

/// What each peer is to measure.
fn orders(out: &[MasterOutput]) -> BTreeMap<PeerId, Vec<LinkId>> {
    let orders = out.iter().filter_map(|output| match output {
        MasterOutput::Send {
            peer,
            message: ToPeer::Probe { probes, .. },
        } => Some((*peer, probes.iter().map(LinkOrder::link).collect())),
        _ => None,
    });
    orders.collect()
}

/// Who measured until then has ended, or is not waited for any more.
fn nobody_else_measures(before: &Master, after: &Master, out: &[MasterOutput]) -> bool {
    let measured = before.view().peers().filter(|(peer, known)| {
        known.state() == ConnectionState::OptimizeTopology && after.view().peer(*peer).is_some()
    });
    let ended: BTreeSet<PeerId> = out
        .iter()
        .filter_map(|output| match output {
            MasterOutput::Moved { peer, from, .. } => {
                (*from == ConnectionState::OptimizeTopology).then_some(*peer)
            }
            _ => None,
        })
        .collect();
    measured
        .map(|(peer, _)| peer)
        .all(|peer| ended.contains(&peer))
}

/// Each peer has one probe, and measures what is not known.
fn is_rotation(before: &Master, orders: &BTreeMap<PeerId, Vec<LinkId>>) -> bool {
    let measured = before.view().measured().map(|(edge, _)| edge);
    let known: BTreeSet<(PeerId, PeerId)> = measured.chain(before.view().unusable()).collect();
    orders.iter().all(|(peer, links)| {
        let is_unknown = |link: &LinkId| !known.contains(&link.ends(*peer));
        links.len() == 1 && links.iter().all(is_unknown)
    })
}

/// All edges of rings at the same time, twice in an optimization at most: each peer sends on one, and receives on
/// one, unless the other end measures no more.
fn is_load(run: &mut impl Source, orders: &BTreeMap<PeerId, Vec<LinkId>>) -> bool {
    let somebody_is_slow = !run.ghost().slow.is_empty();
    let loads = &mut run.edit_ghost().loads;
    *loads = loads.saturating_add(1);
    let is_allowed = *loads <= 2;
    let of_ring = |links: &Vec<LinkId>| {
        let ways: Vec<Way> = links.iter().map(|link| link.way).collect();
        ways == [Way::Out, Way::In] || somebody_is_slow && links.len() == 1
    };
    is_allowed && orders.values().all(of_ring)
}
