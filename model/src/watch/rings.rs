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
use pccl_core::topology::Edge;

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
    edges: BTreeMap<(PeerId, PeerId), Opened>,
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
            message: ToPeer::TopologyEstablished { topology, built },
        } = output
        else {
            continue;
        };
        let Some(next) = topology.ring.next_of(*peer) else {
            continue;
        };
        let seat = run
            .state
            .seat_with(*peer)
            .filter(|_| after.view().peer(*peer).is_some());
        let standing = seat.and_then(|seat| seat.plane.standing(Edge::ToNext));
        let is_kept =
            |lanes: &crate::plane::Lanes| lanes.with == next && Some(lanes.built) == built.next;
        let was_broken = run.state.ghost.trouble.broken.get(&(*peer, next));
        if was_broken == Some(&true) && standing.is_some_and(is_kept) {
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
            message: ToPeer::EstablishRing { round, next, .. },
        } = output
        else {
            continue;
        };
        let (Some(known), Some(next)) = (after.view().peer(*peer), next) else {
            continue;
        };
        let edges = opened.entry((known.group(), *round)).or_default();
        let sender_dials = next.dial.is_some();
        edges.insert(
            (*peer, next.with),
            Opened {
                sender_dials,
                ..Opened::default()
            },
        );
    }
    for ((group, round), edges) in opened {
        let attempt = Attempt::new(before, after, group, edges);
        judge(run, &attempt);
        let Attempt { edges, .. } = attempt;
        let trouble = &mut run.state.ghost.edit().trouble;
        let attempts = trouble.attempts.entry(group).or_default();
        (attempts.round, attempts.edges) = (round, edges);
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
        edges: BTreeMap<(PeerId, PeerId), Opened>,
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
        let standing = after.view().ring(group).map_or(&[][..], |ring| &ring.0);
        let present = standing.iter().filter(|peer| members.contains(peer));
        let present: Vec<PeerId> = present.copied().collect();
        let optimizes = members.iter().any(|peer| {
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
            edges,
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
    let needed = attempt
        .edges
        .keys()
        .all(|(from, to)| is_needed(run, attempt, *from, *to));
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
    let avoids = !attempt.edges.keys().any(side_by_side);
    let in_turn = attempt.edges.iter().all(|(ends, opened)| {
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

/// Has this edge to be opened?
fn is_needed(run: &Run<'_>, attempt: &Attempt, from: PeerId, to: PeerId) -> bool {
    let trouble = &run.state.ghost.trouble;
    let doubted = trouble.attempts.get(&attempt.group);
    let doubted = doubted.is_some_and(|attempts| attempts.doubted);
    let stood = attempt.behind(from) == Some(to);
    if stood && from != to {
        // Where somebody stood between them, no lanes do.
        return doubted || trouble.broken.contains_key(&(from, to)) || !is_sound(run, from, to);
    }
    let is_newcomer = |peer| !attempt.present.contains(&peer);
    if is_newcomer(from) || is_newcomer(to) || attempt.optimizes || doubted {
        return true;
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
    let (Some(out), Some(back)) = (&sender.plane.next, &receiver.plane.previous) else {
        return false;
    };
    let meet = out.with == to && back.with == from && out.built == back.built;
    let is_whole = |lanes: &crate::plane::Lanes| !lanes.cut && !lanes.noticed;
    meet && is_whole(out) && is_whole(back)
}
