//! Remembers what went wrong between peers, and forgets what is mended.

use std::collections::BTreeSet;

use pccl_core::id::{PeerId, Round};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{AbortCause, ToMaster, ToPeer, Verdict};
use pccl_core::shared_state::{SyncFailure, SyncRole};
use pccl_core::states::{ConnectionPhase, ConnectionState};
use pccl_core::topology::{BrokenLinks, LinkId, Way};

use super::innocence::CHOICE_MIN;
use super::{accepted, is_wired};
use crate::claim::Claim;
use crate::run::Run;
use crate::state::{Life, Seat};
use crate::trouble::{MANY, Opened, count, pair};

/// The master hears from a peer.
pub(super) fn hears(run: &mut Run<'_>, before: &Master, peer: PeerId, message: &ToMaster) {
    match message {
        ToMaster::LinkUp { round, link } => report(run, before, peer, *round, *link, true),
        ToMaster::LinkFailed { round, link, .. } => {
            report(run, before, peer, *round, *link, false);
        }
        ToMaster::UpdateTopology { epoch, broken }
        | ToMaster::InitiateCollective { epoch, broken, .. } => {
            let group = before.view().peer(peer).map(|known| known.group());
            if group.and_then(|group| before.view().epoch(group)) == Some(*epoch) {
                lost_lanes(run, before, peer, broken);
            }
        }
        ToMaster::CompleteCollective { broken, .. } => lost_lanes(run, before, peer, broken),
        ToMaster::SharedStateDone {
            ok: false, with, ..
        } => could_not_fetch(run, before, peer, *with),
        _ => {}
    }
}

fn report(run: &mut Run<'_>, before: &Master, peer: PeerId, round: Round, link: LinkId, up: bool) {
    let known = before.view().peer(peer);
    let Some(group) = known
        .filter(|known| is_wired(known.state()))
        .map(|known| known.group())
    else {
        return;
    };
    let present = run.state.ghost.trouble.attempts.get(&group);
    if present.is_none_or(|attempts| attempts.round != round) {
        return;
    }
    let attempts = &mut run.state.ghost.edit().trouble.attempts;
    let Some(attempts) = attempts.get_mut(&group) else {
        return;
    };
    if let Some(opened) = attempts.links.get_mut(&link.ends(peer)) {
        match link.way {
            _ if !up => opened.failed = true,
            Way::Out => opened.up_at_sender = true,
            Way::In => opened.up_at_receiver = true,
        }
    }
}

fn lost_lanes(run: &mut Run<'_>, before: &Master, peer: PeerId, broken: &BrokenLinks) {
    let accepted = before.view().peer(peer);
    if accepted.is_none_or(|known| known.phase() != ConnectionPhase::Accepted) {
        return;
    }
    // With one that is gone no ring is built.
    let are_there = |(from, to): (PeerId, PeerId)| {
        [from, to]
            .iter()
            .all(|peer| before.view().peer(*peer).is_some())
    };
    for ends in broken.0.iter().map(|link| link.ends(peer)) {
        if are_there(ends) && !run.state.ghost.trouble.broken.contains_key(&ends) {
            run.state.ghost.edit().trouble.broken.insert(ends, false);
        }
    }
}

/// A transfer has failed: to the peer, or to the one that it was to serve.
fn could_not_fetch(run: &mut Run<'_>, before: &Master, peer: PeerId, with: Option<PeerId>) {
    let part = [
        ConnectionState::DistributeSharedState,
        ConnectionState::RequestSharedState,
    ];
    let known = before.view().peer(peer);
    if known.is_none_or(|known| !part.contains(&known.state())) {
        return;
    }
    let seat = run.state.seat_with(peer);
    let fetched_from = |from: &[PeerId]| match from {
        [] => None,
        [holder] => Some(Unfetched::From(*holder)),
        [_, _, ..] => Some(Unfetched::FromSeveral),
    };
    let ends = match seat.and_then(|seat| role_of(seat)) {
        Some(SyncRole::Request { from, .. }) => {
            let from: Vec<PeerId> = from.iter().map(|from| from.with).collect();
            fetched_from(&from).map(|unfetched| (peer, unfetched))
        }
        // Who has what it asked for has fetched it, whatever its holder says.
        Some(SyncRole::Distribute { .. }) => {
            let asker = with.filter(|asker| {
                let known = before.view().peer(*asker);
                let fetches = ConnectionState::RequestSharedState;
                known.is_some_and(|known| known.state() == fetches)
            });
            asker.map(|asker| (asker, Unfetched::From(peer)))
        }
        // Its caller has given up before it was told what to fetch.
        None => fetched_from(before.view().sources_of(peer)).map(|unfetched| (peer, unfetched)),
    };
    let Some((asker, unfetched)) = ends else {
        return;
    };
    let trouble = &mut run.state.ghost.edit().trouble;
    match unfetched {
        Unfetched::From(holder) => {
            count(trouble.unfetched.entry((asker, holder)).or_default());
        }
        Unfetched::FromSeveral => {
            trouble.one_at_a_time.insert(asker);
        }
    }
}

/// What a transfer that failed says about who is at fault.
enum Unfetched {
    /// One of two.
    From(PeerId),
    /// The one that asked, or any that it asked.
    FromSeveral,
}

/// What a peer was told last to do about shared state, which may still be on its way to it.
fn role_of(seat: &Seat) -> Option<&SyncRole> {
    let on_its_way = seat.connection.down.queue.iter().rev();
    let mut plans = on_its_way.filter_map(|message| match message {
        ToPeer::SharedStatePlan(plan) => Some(&plan.role),
        _ => None,
    });
    let under_way = || Some(&seat.plane.moving.as_ref()?.plan.role);
    plans.next().or_else(under_way)
}

/// What the master's input shows, before what it does about it is looked at.
pub(super) fn befell(
    run: &mut Run<'_>,
    before: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    if let MasterInput::TimerFired(MasterTimer::RetryWiring(round) | MasterTimer::Wiring(round)) =
        heard
    {
        attempt_failed(run, before, *round);
    }
    for output in out {
        let MasterOutput::Send { peer, message } = output else {
            continue;
        };
        if let ToPeer::SharedStateConcluded {
            result: Err(SyncFailure::TimedOut),
            ..
        } = message
        {
            let known = before.view().peer(*peer);
            let fetches = ConnectionState::RequestSharedState;
            if known.is_some_and(|known| known.state() == fetches) {
                could_not_fetch(run, before, *peer, None);
            }
        }
    }
    lanes_ended(run, before, heard, out);
}

/// A collective was aborted because lanes of a peer ended: those that it named when it said so, as far as it
/// was right and the first to say so. However many collectives there were, lanes end once.
fn lanes_ended(run: &mut Run<'_>, before: &Master, heard: &MasterInput, out: &[MasterOutput]) {
    let MasterInput::Message {
        peer,
        message: ToMaster::CompleteCollective { broken, .. },
    } = heard
    else {
        return;
    };
    let is_cause = |output: &MasterOutput| {
        matches!(
            output,
            MasterOutput::Send {
                message: ToPeer::Verdict {
                    verdict: Verdict::Aborted(AbortCause::LaneLost { .. }),
                    ..
                },
                ..
            }
        )
    };
    if !out.iter().any(is_cause) {
        return;
    }
    let seat = run.state.seat_with(*peer);
    let is_gone = seat.is_none_or(|seat| seat.life == Life::Departed);
    let is_dead = |link: &&LinkId| {
        let lanes = seat.and_then(|seat| seat.plane.standing(**link));
        is_gone || lanes.is_some_and(|lanes| lanes.noticed)
    };
    let dead = broken.0.iter().filter(is_dead);
    let links: Vec<_> = dead
        .map(|link| link.ends(*peer))
        .filter(|ends| {
            let trouble = &run.state.ghost.trouble;
            trouble.broken.contains_key(ends) && !trouble.aborted_for.contains(ends)
        })
        .collect();
    let trouble = &mut run.state.ghost.edit().trouble;
    trouble.aborted_for.extend(&links);
    // In a ring of two both links join the same pair.
    let pairs: BTreeSet<_> = links.into_iter().map(|(from, to)| pair(from, to)).collect();
    let mut most = 0;
    for pair in pairs {
        let times = trouble.breaks.entry(pair).or_default();
        count(times);
        most = most.max(*times);
    }
    let somebody_goes = || {
        out.iter()
            .any(|output| matches!(output, MasterOutput::Lost { .. }))
    };
    let group = before.view().peer(*peer).map(|known| known.group());
    // Of few peers every ring has all pairs. Between two of a mesh there are two links, and the ring needs one.
    let are_few = group.is_some_and(|group| accepted(before, group).count() < CHOICE_MIN);
    let are_few = are_few && !run.scenario.mesh;
    if most >= MANY && are_few && !somebody_goes() {
        run.state.breaks(Claim::Persistence);
    }
}

/// An attempt to connect a ring is over, and not all of it is connected.
fn attempt_failed(run: &mut Run<'_>, before: &Master, round: Round) {
    let is_in = |peer: &PeerId, phase| {
        let known = before.view().peer(*peer);
        known.is_some_and(|known| known.phase() == phase)
    };
    let trouble = &mut run.state.ghost.edit().trouble;
    let mut struck = BTreeSet::new();
    for attempts in trouble.attempts.values_mut() {
        if attempts.round != round {
            continue;
        }
        let links = std::mem::take(&mut attempts.links);
        let known = trouble.undialled.clone();
        for ((from, to), _) in links.iter().filter(|(_, opened)| opened.is_up()) {
            for dial in [(*from, *to), (*to, *from)] {
                trouble.undialled.remove(&dial);
                trouble.overdue.remove(&dial);
            }
        }
        let missing = |opened: &Opened| !opened.is_up() && !opened.is_extra;
        let missed = || links.iter().filter(|(_, opened)| missing(opened));
        // One end may be to open both links between two, and say of one of them only that it has failed.
        let said = missed().filter(|(_, opened)| opened.failed);
        let said: BTreeSet<_> = said.map(|(ends, opened)| opened.dial(*ends)).collect();
        for (ends, opened) in missed() {
            let (dialler, dialled) = opened.dial(*ends);
            trouble.undialled.insert((dialler, dialled));
            match said.contains(&(dialler, dialled)) {
                true => trouble.overdue.remove(&(dialler, dialled)),
                false => trouble.overdue.insert((dialler, dialled)),
            };
            // Between two of whom one direction works on the other link, both have been tried all the same.
            let other_way = (dialled, dialler);
            trouble.undialled.extend(known.get(&other_way).copied());
            let both = [dialler, dialled];
            attempts.doubted |= both
                .iter()
                .all(|peer| is_in(peer, ConnectionPhase::Accepted));
            let newcomers = both.into_iter();
            struck.extend(newcomers.filter(|peer| is_in(peer, ConnectionPhase::Registered)));
        }
    }
    for newcomer in struck {
        count(trouble.strikes.entry(newcomer).or_default());
    }
}

/// What the master has done mends some of it, and whoever is gone explains nothing more.
pub(super) fn mended(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    held_up(run, before, after, heard);
    for output in out {
        match output {
            MasterOutput::Send { peer, message } => ended_well(run, after, *peer, message),
            MasterOutput::Lost { .. } | MasterOutput::Stopped => {
                let is_there = |peer| after.view().peer(peer).is_some();
                run.state.ghost.edit().trouble.keep(is_there);
            }
            MasterOutput::Register { .. }
            | MasterOutput::Refuse { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::SolveTour { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Inconsistent { .. } => {}
        }
    }
    attempts_given_up(run, after);
    attempts_begin(run, before, after, out);
}

/// What is known to be broken when an attempt begins has to be connected again.
fn attempts_begin(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    let broken = &run.state.ghost.trouble.broken;
    if broken.values().all(|known| *known) {
        return;
    }
    let group_of = |peer| after.view().peer(peer).map(|known| known.group());
    let is_ordered = |output: &MasterOutput| match output {
        MasterOutput::Send {
            peer,
            message: ToPeer::EstablishLinks { .. },
        } => group_of(*peer),
        _ => None,
    };
    let wired = after.view().peers().filter(|(peer, known)| {
        let was = before.view().peer(*peer).map(|known| known.state());
        is_wired(known.state()) && !was.is_some_and(is_wired)
    });
    let begun: BTreeSet<_> = out
        .iter()
        .filter_map(is_ordered)
        .chain(wired.map(|(_, known)| known.group()))
        .collect();
    if begun.is_empty() {
        return;
    }
    for ((from, _), known) in &mut run.state.ghost.edit().trouble.broken {
        *known |= group_of(*from).is_some_and(|group| begun.contains(&group));
    }
}

/// Others have waited for its part in vain, and it stays.
fn held_up(run: &mut Run<'_>, before: &Master, after: &Master, heard: &MasterInput) {
    let MasterInput::TimerFired(MasterTimer::Late(peer)) = heard else {
        return;
    };
    let is_part = before
        .view()
        .peer(*peer)
        .is_some_and(|known| super::innocence::has_a_part(&known));
    if is_part && after.view().peer(*peer).is_some() {
        run.state.ghost.edit().trouble.stalled.insert(*peer);
    }
}

fn ended_well(run: &mut Run<'_>, after: &Master, peer: PeerId, message: &ToPeer) {
    let Some(group) = after.view().peer(peer).map(|known| known.group()) else {
        return;
    };
    let is_in_group = |peer: &PeerId| {
        let known = after.view().peer(*peer);
        known.is_none_or(|known| known.group() == group)
    };
    let is_accepted = |peer: &PeerId| {
        let known = after.view().peer(*peer);
        known.is_none_or(|known| known.phase() == ConnectionPhase::Accepted)
    };
    let trouble = || run.state.ghost.trouble.clone();
    let mut mended = match message {
        ToPeer::Verdict {
            verdict: Verdict::Committed { .. },
            ..
        } => {
            let mut trouble = trouble();
            trouble.breaks.retain(|(one, _), _| !is_in_group(one));
            trouble.stalled.retain(|peer| !is_in_group(peer));
            trouble
        }
        ToPeer::SharedStateConcluded { result: Ok(_), .. } => {
            let mut trouble = trouble();
            let waits = |peer: &PeerId| !is_in_group(peer) || !is_accepted(peer);
            trouble.unfetched.retain(|(to, _), _| waits(to));
            trouble.one_at_a_time.retain(|asker| waits(asker));
            trouble.stalled.retain(|peer| !is_in_group(peer));
            trouble
        }
        ToPeer::OptimizationConcluded { .. } => {
            let mut trouble = trouble();
            trouble.attempts.remove(&group);
            trouble
        }
        ToPeer::TopologyEstablished { layout, .. } => {
            let mut trouble = trouble();
            if let Some(attempts) = trouble.attempts.remove(&group) {
                for (from, to) in attempts.links.into_keys() {
                    trouble.connected(from, to);
                }
            }
            // What was reported meanwhile is kept, and stays broken.
            let is_kept = |(from, to): &(PeerId, PeerId)| {
                let seat = run.state.seat_with(*from);
                let link = LinkId::to(*to);
                let lanes = seat.and_then(|seat| seat.plane.standing(link));
                lanes.is_some_and(|lanes| Some(lanes.built) == layout.built(link))
            };
            trouble
                .broken
                .retain(|ends, known| ends.0 != peer || !*known && is_kept(ends));
            let broken = &trouble.broken;
            trouble.aborted_for.retain(|ends| broken.contains_key(ends));
            trouble.strikes.retain(|peer, _| !is_accepted(peer));
            trouble
        }
        _ => return,
    };
    if mended != run.state.ghost.trouble {
        std::mem::swap(&mut run.state.ghost.edit().trouble, &mut mended);
    }
}

/// An attempt that nobody is in any more is over.
fn attempts_given_up(run: &mut Run<'_>, after: &Master) {
    let is_over = |group| {
        let mut members = after
            .view()
            .peers()
            .filter(|(_, known)| known.group() == group);
        !members.any(|(_, known)| is_wired(known.state()))
    };
    let attempts = run.state.ghost.trouble.attempts.iter();
    let over: Vec<_> = attempts
        .filter(|(group, attempts)| !attempts.links.is_empty() && is_over(**group))
        .map(|(group, _)| *group)
        .collect();
    for group in over {
        if let Some(attempts) = run.state.ghost.edit().trouble.attempts.get_mut(&group) {
            attempts.links.clear();
            attempts.round = Round(0);
        }
    }
}
