//! Why lanes are opened, between whom, by whom, and how often.
//!
//! A bystander knows the ring that stands, who has come and gone since, and what was lost ([`trouble`]).
//! So it knows what a new attempt has to open at least, and what it must not.
//!
//! [`trouble`]: crate::trouble

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round};
use pccl_core::master::{Master, MasterOutput};
use pccl_core::messages::ToPeer;
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BuiltLink, LinkId, Ring, Way};

use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::Run;
use crate::state::Seat;
use crate::trouble::{Opened, is_a_ring_left, pair};

/// With fewer members, those that nobody reaches are never so many that a ring can set them apart.
const HIDDEN_MIN: usize = 4;

/// A new attempt at the ring of a group.
struct Attempt {
    group: GroupId,
    /// What it opens, sender first.
    links: BTreeMap<(PeerId, PeerId), Opened>,
    /// The ring that stands, with those who are gone.
    standing: Ring,
    /// Who is to be on the ring.
    members: BTreeSet<PeerId>,
    /// The ring that stands, without those who are gone.
    present: Vec<PeerId>,
    /// A better ring was looked for.
    optimizes: bool,
}

/// A ring stands: whatever was reported broken was connected again.
pub(super) fn stand(run: &mut Run<'_>, after: &Master, out: &[MasterOutput]) {
    for output in out {
        let MasterOutput::Send {
            peer,
            message: ToPeer::TopologyEstablished { layout, .. },
        } = output
        else {
            continue;
        };
        let seat = run
            .state
            .seat_with(*peer)
            .filter(|_| after.view().peer(*peer).is_some());
        let is_kept = |built: &BuiltLink| {
            let standing = seat.and_then(|seat| seat.plane.standing(built.link));
            standing.is_some_and(|lanes| lanes.built == built.built)
        };
        let broken = &run.state.ghost.trouble.broken;
        let was_broken = |built: &BuiltLink| broken.get(&built.link.ends(*peer)) == Some(&true);
        let out = layout.0.iter().filter(|built| built.link.way == Way::Out);
        if out.clone().any(|built| was_broken(built) && is_kept(built)) {
            run.state.breaks(Claim::Rewiring);
        }
    }
}

/// Peers are told to open lanes.
pub(super) fn ordered(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    let mut opened: BTreeMap<(GroupId, Round), BTreeMap<(PeerId, PeerId), Opened>> =
        BTreeMap::new();
    for output in out {
        let MasterOutput::Send {
            peer,
            message: ToPeer::EstablishLinks { round, links },
        } = output
        else {
            continue;
        };
        let Some(known) = after.view().peer(*peer) else {
            continue;
        };
        for order in links.iter().filter(|order| order.way == Way::Out) {
            let of_group = opened.entry((known.group(), *round)).or_default();
            let ring = after.view().planned_ring(known.group());
            let ends = order.link().ends(*peer);
            let opened = Opened {
                is_extra: ring.is_some_and(|ring| !ring.has_edge(ends)),
                sender_dials: order.lanes.dial.is_some(),
                ..Opened::default()
            };
            of_group.insert(ends, opened);
        }
    }
    for ((group, round), links) in opened {
        let attempt = Attempt::new(before, after, group, links);
        judge(run, &attempt);
        let Attempt { links, .. } = attempt;
        let trouble = &mut run.state.ghost.edit().trouble;
        let attempts = trouble.attempts.entry(group).or_default();
        (attempts.round, attempts.links) = (round, links);
        attempts.count = attempts.count.saturating_add(1);
        let count = attempts.count;
        if count > attempts_explained(run) {
            run.state.breaks(Claim::Persistence);
        }
    }
}

/// Attempts at one ring, until one succeeds, that faults and newcomers explain.
fn attempts_explained(run: &Run<'_>) -> u8 {
    let used = run.scenario.faults.saturating_sub(run.state.faults);
    let seats = u8::try_from(run.scenario.seats.len()).unwrap_or(u8::MAX);
    used.saturating_add(seats).saturating_mul(2)
}

impl Attempt {
    fn new(
        before: &Master,
        after: &Master,
        group: GroupId,
        links: BTreeMap<(PeerId, PeerId), Opened>,
    ) -> Self {
        let in_group = after
            .view()
            .peers()
            .filter(|(_, known)| known.group() == group);
        let wired = in_group.filter(|(_, known)| {
            let wiring = [
                ConnectionState::ConnectingToPeers,
                ConnectionState::WaitingForOtherPeers,
            ];
            wiring.contains(&known.state())
        });
        let members: BTreeSet<PeerId> = wired.map(|(peer, _)| peer).collect();
        let standing = after.view().ring(group).cloned().unwrap_or_default();
        let present = standing.0.iter().filter(|peer| members.contains(peer));
        let present: Vec<PeerId> = present.copied().collect();
        let mut searches = before.view().searches();
        let has_better = searches.any(|(_, of, better)| of == group && better.is_some());
        let optimizes = has_better
            || members.iter().any(|peer| {
                let known = before.view().peer(*peer);
                known.is_some_and(|known| {
                    let optimizing = [
                        ConnectionState::OptimizeTopology,
                        ConnectionState::VoteCompleteTopologyOptimization,
                    ];
                    optimizing.contains(&known.state())
                })
            });
        Self {
            group,
            links,
            standing,
            members,
            present,
            optimizes,
        }
    }

    /// Who comes behind a peer on the ring that stands, without those who are gone.
    fn behind(&self, peer: PeerId) -> Option<PeerId> {
        let at = self.present.iter().position(|known| *known == peer)?;
        self.present.get((at + 1) % self.present.len()).copied()
    }
}

fn judge(run: &mut Run<'_>, attempt: &Attempt) {
    let needed = attempt.links.iter().all(|((from, to), opened)| {
        if opened.is_extra {
            is_wanted(run, attempt, *from, *to)
        } else {
            is_needed(run, attempt, *from, *to)
        }
    });
    if !needed {
        run.state.breaks(Claim::Rewiring);
    }
    let trouble = &run.state.ghost.trouble;
    let bad = trouble.bad_pairs();
    let members: Vec<PeerId> = attempt.members.iter().copied().collect();
    let of_members = |(one, other): &&(PeerId, PeerId)| {
        attempt.members.contains(one) && attempt.members.contains(other)
    };
    let is_choice = bad.iter().any(|pair| of_members(&pair)) && is_a_ring_left(&members, &bad);
    let side_by_side = |(from, to): &(PeerId, PeerId)| {
        let run_both = [*from, *to]
            .iter()
            .all(|peer| run.state.seat_with(*peer).is_some_and(Seat::runs));
        run_both && bad.contains(&pair(*from, *to))
    };
    let of_ring = attempt.links.iter().filter(|(_, opened)| !opened.is_extra);
    let avoids = !of_ring.map(|(ends, _)| ends).any(side_by_side);
    let in_turn = attempt.links.iter().all(|(ends, opened)| {
        let (dialler, dialled) = opened.dial(*ends);
        let has_failed = trouble.undialled.contains(&(dialler, dialled));
        !has_failed || trouble.undialled.contains(&(dialled, dialler))
    });
    let keeps_apart = attempt.optimizes || !is_choice || avoids;
    if !keeps_apart || !in_turn {
        run.state.breaks(Claim::Avoidance);
    }
    if is_choice {
        run.state.reach(Milestone::RoutedAround);
    }
}

/// Is this link of a mesh, and not of the ring, one to open? Nothing is known to stand between any two of the
/// members, and no lanes stand between these.
fn is_wanted(run: &Run<'_>, attempt: &Attempt, from: PeerId, to: PeerId) -> bool {
    let trouble = &run.state.ghost.trouble;
    let bad = trouble.bad_pairs();
    let is_inside = |(one, other): &(PeerId, PeerId)| {
        attempt.members.contains(one) && attempt.members.contains(other)
    };
    let is_lost = trouble.broken.contains_key(&(from, to)) || !is_sound(run, from, to);
    run.scenario.mesh && is_lost && !bad.iter().any(is_inside)
}

/// Has this edge to be opened?
fn is_needed(run: &Run<'_>, attempt: &Attempt, from: PeerId, to: PeerId) -> bool {
    let trouble = &run.state.ghost.trouble;
    let doubted = trouble.attempts.get(&attempt.group);
    let doubted = doubted.is_some_and(|attempts| attempts.doubted);
    let stood = attempt.behind(from) == Some(to);
    // Beside the ring a link has one lane.
    let had_one_lane = run.scenario.mesh && !attempt.standing.has_edge((from, to));
    if had_one_lane {
        return true;
    }
    if stood && from != to {
        // Where somebody stood between them, no lanes do.
        return doubted || trouble.broken.contains_key(&(from, to)) || !is_sound(run, from, to);
    }
    let is_newcomer = |peer| !attempt.present.contains(&peer);
    if is_newcomer(from) || is_newcomer(to) || attempt.optimizes || doubted {
        return true;
    }
    // Newcomers have a place in the ring that stands: nothing else of it is opened.
    if has_a_place(attempt, &trouble.bad_pairs()) {
        return false;
    }
    // Another order of the same peers: only if some of them cannot be neighbours.
    let bad = trouble.bad_pairs();
    let is_inside = |(one, other): &(PeerId, PeerId)| {
        attempt.members.contains(one) && attempt.members.contains(other)
    };
    let used = run.scenario.faults.saturating_sub(run.state.faults);
    let may_hide = attempt.members.len() >= HIDDEN_MIN && used > 1;
    bad.iter().any(is_inside) || may_hide
}

/// Do lanes stand between these two that are whole at both ends?
fn is_sound(run: &Run<'_>, from: PeerId, to: PeerId) -> bool {
    let (Some(sender), Some(receiver)) = (run.state.seat_with(from), run.state.seat_with(to))
    else {
        return false;
    };
    let out = sender.plane.standing(LinkId::to(to));
    let back = receiver.plane.standing(LinkId::from(from));
    let (Some(out), Some(back)) = (out, back) else {
        return false;
    };
    let meet = out.built == back.built;
    let is_whole = |lanes: &crate::plane::Lanes| !lanes.cut && !lanes.noticed;
    meet && is_whole(out) && is_whole(back)
}

/// Whether the newcomers, in the order of their numbers, fit between two of the ring that stands.
fn has_a_place(attempt: &Attempt, bad: &BTreeSet<(PeerId, PeerId)>) -> bool {
    let newcomers = attempt
        .members
        .iter()
        .filter(|p| !attempt.present.contains(p));
    let newcomers: Vec<PeerId> = newcomers.copied().collect();
    let stood = |from: PeerId, to: PeerId| attempt.behind(from) == Some(to);
    !newcomers.is_empty()
        && (0..attempt.present.len()).any(|place| {
            let (front, behind) = attempt.present.split_at(place);
            let order: Vec<PeerId> = front
                .iter()
                .chain(&newcomers)
                .chain(behind)
                .copied()
                .collect();
            let next = order.iter().cycle().skip(1);
            order
                .iter()
                .zip(next)
                .all(|(from, to)| stood(*from, *to) || !bad.contains(&pair(*from, *to)))
        })
}
