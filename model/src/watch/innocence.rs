//! Who is thrown out or refused, and whether it had to go.
//!
//! All peers here keep to the protocol, so they go for what befell them only, in the way that the reason says,
//! and not more of them than have to: the rules of `core::master`'s `deadlines` and `blame`, said once more and
//! differently. Whose time is over says the timer that fires; between whom lanes failed, and how often, is
//! remembered (`trouble`).

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{Master, MasterInput, MasterTimer, PeerView};
use pccl_core::messages::{CallKind, Misdeed, Refusal, ToPeer};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use pccl_core::topology::LaneFailure;

use super::election::cannot_stay;
use super::source::Source;
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::Run;
use crate::trouble::{self, MANY, pair};

/// Fewer peers than this are on each other's rings, whatever the order.
pub(super) const CHOICE_MIN: usize = 4;

/// Failed transfers for which a newcomer is set aside, and does not go, while others lack the content as well.
const SPARED_FOR: u8 = 2;

/// A peer is told to go: is it so as far as the master's own knowledge goes?
pub(super) fn sent_away(
    run: &mut impl Source,
    before: &Master,
    heard: &MasterInput,
    peer: PeerId,
    message: &ToPeer,
) {
    let is_possible = match message {
        ToPeer::Kicked(misdeed) => may_be_kicked(run, before, heard, peer, misdeed),
        ToPeer::Refused(refusal) => may_be_refused(run, before, peer, refusal),
        _ => true,
    };
    if !is_possible && run.is_honest(peer) {
        run.breaks(Claim::Innocence);
    }
    if let ToPeer::Kicked(misdeed) = message {
        run.reach(Milestone::ThrownOut);
        match misdeed {
            Misdeed::Stalled => run.reach(Milestone::Stalled),
            Misdeed::StateMismatch { .. } => run.reach(Milestone::Mismatched),
            _ => {}
        }
    }
}

/// Whose time is over says the timer that fires, and a machine that keeps to the protocol commits few misdeeds.
fn may_be_kicked(
    run: &impl Source,
    before: &Master,
    heard: &MasterInput,
    peer: PeerId,
    misdeed: &Misdeed,
) -> bool {
    let is_over = |timer| *heard == MasterInput::TimerFired(timer);
    match misdeed {
        Misdeed::Silent => is_over(MasterTimer::Silence(peer)),
        Misdeed::Stalled => is_over(MasterTimer::Late(peer)),
        Misdeed::MissedBallot => {
            let is_late = is_over(MasterTimer::Late(peer));
            is_late && fewer_go_than_wait(before, peer)
                || run.users_err() && may_miss_a_ballot(run, before, peer, is_late)
        }
        // What befell it, and what it holds.
        Misdeed::RevisionAhead { .. }
        | Misdeed::StateMismatch { .. }
        | Misdeed::Unfetchable
        | Misdeed::Unconnectable { .. } => true,
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::TooManyTags { .. } => false,
        Misdeed::BadManifest | Misdeed::Cancels | Misdeed::SlowReader => run.users_err(),
    }
}

/// Whether a peer may go for a ballot where users do anything: it may be late for its group alone, if what all
/// groups wait for is nothing that it owes; and a newcomer may be in the way, again and again, of others that
/// synchronize.
fn may_miss_a_ballot(run: &impl Source, before: &Master, peer: PeerId, is_late: bool) -> bool {
    if is_late {
        return fewer_go_than_wait_in(before, peer, false);
    }
    let known = |peer| before.view().peer(peer);
    let Some(newcomer) = known(peer).filter(|known| !known.is_synchronized()) else {
        return false;
    };
    let waits = |at| run.peer(at).view().open_calls().major == Some(CallKind::SyncSharedState);
    run.places().into_iter().any(|at| {
        let veteran = run.id(at).and_then(known);
        let veteran = veteran.filter(|known| known.is_synchronized());
        waits(at) && veteran.is_some_and(|known| known.group() == newcomer.group())
    })
}

/// A newcomer goes, and it is told where the other one is.
fn may_be_refused(run: &impl Source, before: &Master, peer: PeerId, refusal: &Refusal) -> bool {
    let (dialled, at) = match refusal {
        Refusal::CannotReach {
            peer: other, at, ..
        } => (*other, at),
        Refusal::CannotBeReached { at, .. } => (peer, at),
        Refusal::Stopping => return true,
        Refusal::Version { .. }
        | Refusal::RunFull { .. }
        | Refusal::BadHello
        | Refusal::SlowHello => return false,
    };
    let known = before.view().peer(peer);
    known.is_some_and(|known| known.phase() == ConnectionPhase::Registered)
        && run.whereabouts(dialled).is_none_or(|right| *at == right)
}

/// The same as far as everything that went wrong is remembered: is that why it goes?
pub(super) fn sent_away_for_what_befell_it(
    run: &mut Run<'_>,
    (before, after): (&Master, &Master),
    peer: PeerId,
    message: &ToPeer,
) {
    let is_explained = match message {
        ToPeer::Kicked(misdeed) => is_why_it_is_kicked(run, (before, after), peer, misdeed),
        ToPeer::Refused(refusal) => is_why_it_is_refused(run, before, peer, refusal),
        _ => true,
    };
    if !is_explained {
        run.breaks(Claim::Innocence);
    }
}

fn is_why_it_is_kicked(
    run: &Run<'_>,
    (before, after): (&Master, &Master),
    peer: PeerId,
    misdeed: &Misdeed,
) -> bool {
    let trouble = &run.state.ghost.trouble;
    match misdeed {
        // Content that does not fit the group's is no fault of the network.
        Misdeed::RevisionAhead { .. } | Misdeed::StateMismatch { .. } => {
            cannot_stay(run, before, peer, misdeed)
        }
        Misdeed::Unfetchable => {
            let is_spared = faults_used(run) <= SPARED_FOR && !all_others_agree(run, before, peer);
            trouble.unfetched_by(peer) >= MANY && !is_spared
        }
        Misdeed::Stalled => trouble.stalled.contains(&peer) || most_are_done(before, peer),
        Misdeed::Unconnectable { with } => is_cut_off(run, (before, after), peer, *with),
        // See `may_be_kicked`.
        Misdeed::Silent
        | Misdeed::MissedBallot
        | Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest
        | Misdeed::Cancels
        | Misdeed::SlowReader => true,
    }
}

/// Whether the other members of its group hold the same content, apart from those that have failed to fetch as well:
/// none of them is known to be able to fetch what it lacks.
fn all_others_agree(run: &Run<'_>, before: &Master, peer: PeerId) -> bool {
    let view = before.view();
    let group = view.peer(peer).map(|known| known.group());
    let others = view.peers().filter(|(id, known)| {
        let is_accepted = known.phase() == ConnectionPhase::Accepted;
        *id != peer && is_accepted && Some(known.group()) == group
    });
    let trouble = &run.state.ghost.trouble;
    let able = others.filter(|(id, _)| trouble.unfetched_by(*id) == 0);
    let contents = able.filter_map(|(id, _)| Some(run.content(run.place_of(id)?)));
    let contents: BTreeSet<_> = contents.collect();
    contents.len() < 2
}

/// One failed attempt is not enough to refuse a newcomer, and it is told between whom and in which direction it
/// was.
fn is_why_it_is_refused(run: &Run<'_>, before: &Master, peer: PeerId, refusal: &Refusal) -> bool {
    let (dial, failure) = match refusal {
        Refusal::CannotReach {
            peer: other,
            failure,
            ..
        } => ((peer, *other), *failure),
        Refusal::CannotBeReached { by, failure, .. } => ((*by, peer), *failure),
        // See `may_be_refused`.
        Refusal::Stopping
        | Refusal::Version { .. }
        | Refusal::RunFull { .. }
        | Refusal::BadHello
        | Refusal::SlowHello => return true,
    };
    let trouble = &run.state.ghost.trouble;
    let strikes = trouble.strikes.get(&peer).copied().unwrap_or_default();
    let group = before.view().peer(peer).map(|known| known.group());
    let attempts = group.and_then(|group| trouble.attempts.get(&group));
    let are_many = strikes >= MANY || attempts.is_some_and(|attempts| attempts.count >= MANY);
    let is_named = failure == LaneFailure::TimedOut || !trouble.overdue.contains(&dial);
    trouble.undialled.contains(&dial) && is_named && are_many && !is_a_ring_left(run, before, peer)
}

/// Whether no ring is left with a peer, because of what failed between it and another, among others.
fn is_cut_off(
    run: &Run<'_>,
    (before, after): (&Master, &Master),
    peer: PeerId,
    with: PeerId,
) -> bool {
    let trouble = &run.state.ghost.trouble;
    let Some(members) = members_with(before, peer) else {
        return false;
    };
    let dead = trouble.dead_pairs();
    let is_inside =
        |(one, other): &(PeerId, PeerId)| members.contains(one) && members.contains(other);
    // Of few peers every ring has all pairs; one that is alone has none, but with newcomers.
    let is_one_dead =
        members.len() == 1 || members.len() >= CHOICE_MIN || dead.iter().any(is_inside);
    trouble.is_between(peer, with)
        && is_one_dead
        && !is_a_ring_left(run, before, peer)
        && !is_another_worse(run, (before, after), peer, &members)
}

/// Whether one that stays is an end of more failed pairs.
fn is_another_worse(
    run: &Run<'_>,
    (before, after): (&Master, &Master),
    peer: PeerId,
    members: &[PeerId],
) -> bool {
    let bad = run.state.ghost.trouble.bad_pairs();
    let failures = |peer: PeerId| {
        let others = members.iter().filter(|other| **other != peer);
        others
            .filter(|other| bad.contains(&pair(peer, **other)))
            .count()
    };
    let view = before.view();
    // What failed with peers that are gone may decide between equals.
    let has_lost_nobody = view.next_peer().0 == view.peers().count() as u64 + 1;
    let rank = |peer: PeerId| {
        let known = view.peer(peer);
        let is_new = known.is_some_and(|known| known.phase() == ConnectionPhase::Registered);
        (failures(peer), has_lost_nobody.then_some((is_new, peer)))
    };
    let stays = |other: &&PeerId| after.view().peer(**other).is_some();
    let mut stay = members.iter().filter(stays);
    stay.any(|other| rank(*other) > rank(peer))
}

/// Of those who wait in a ballot and those who are missed in it, the latter are not more.
pub(crate) fn fewer_go_than_wait(before: &Master, peer: PeerId) -> bool {
    let view = before.view();
    let mut accepted = view
        .peers()
        .filter(|(_, known)| known.phase() == ConnectionPhase::Accepted);
    let concerns_all = accepted.any(|(_, known)| {
        let calls = [
            ConnectionState::VoteAcceptNewPeers,
            ConnectionState::VoteOptimizeTopology,
        ];
        known.asks_pending() || calls.contains(&known.state())
    });
    fewer_go_than_wait_in(before, peer, concerns_all)
}

/// The same among those whom the ballot concerns: all, or the peer's group.
fn fewer_go_than_wait_in(before: &Master, peer: PeerId, concerns_all: bool) -> bool {
    let view = before.view();
    let Some(victim) = view.peer(peer) else {
        return false;
    };
    let accepted = || {
        let peers = view.peers();
        peers.filter(|(_, known)| known.phase() == ConnectionPhase::Accepted)
    };
    let concerned =
        || accepted().filter(|(_, known)| concerns_all || known.group() == victim.group());
    let is_late = |peer| view.timers().any(|timer| timer == MasterTimer::Late(peer));
    let idle = |state| state == ConnectionState::Idle;
    let missed = concerned().filter(|(id, known)| idle(known.state()) && is_late(*id));
    let waiting = concerned().filter(|(_, known)| !idle(known.state()) || known.asks_pending());
    idle(victim.state()) && missed.count() <= waiting.count()
}

/// Does something run that lacks the part of a peer?
pub(super) fn has_a_part(known: &PeerView<'_>) -> bool {
    match known.state() {
        ConnectionState::DistributeSharedState | ConnectionState::RequestSharedState => true,
        _ => {
            let performs = CollectiveCommunicationState::Perform;
            known.tags().any(|(_, state)| state == performs)
        }
    }
}

/// Of something that runs and lacks the peer's part, at least as many parts are done as are not.
fn most_are_done(before: &Master, peer: PeerId) -> bool {
    let view = before.view();
    let Some(victim) = view.peer(peer) else {
        return false;
    };
    let accepted = || {
        let peers = view.peers().map(|(_, known)| known);
        peers.filter(|known| known.phase() == ConnectionPhase::Accepted)
    };
    let group = || accepted().filter(|known| known.group() == victim.group());
    match victim.state() {
        ConnectionState::DistributeSharedState | ConnectionState::RequestSharedState => {
            let done = ConnectionState::VoteCompleteSharedStateSync;
            let lacking = group().filter(|known| known.state() != done);
            2 * lacking.count() <= group().count()
        }
        _ => victim.tags().any(|tag| {
            let performs = CollectiveCommunicationState::Perform;
            let lacking = group().filter(|known| known.tags().any(|other| other == tag));
            tag.1 == performs && 2 * lacking.count() <= group().count()
        }),
    }
}

/// Is there a ring of the peer's group, with it, in which no two are neighbours between whom lanes failed?
fn is_a_ring_left(run: &Run<'_>, before: &Master, peer: PeerId) -> bool {
    let bad = run.state.ghost.trouble.bad_pairs();
    let members = members_with(before, peer).filter(|members| members.len() >= CHOICE_MIN);
    members.is_some_and(|members| trouble::is_a_ring_left(&members, &bad))
}

/// The members of a peer's group, and the peer. A newcomer that came meanwhile would be one more to choose from.
fn members_with(before: &Master, peer: PeerId) -> Option<Vec<PeerId>> {
    let group = before.view().peer(peer)?.group();
    let peers = before.view().peers();
    let members = peers.filter(|(id, known)| {
        let is_accepted = known.phase() == ConnectionPhase::Accepted;
        known.group() == group && (*id == peer || is_accepted)
    });
    Some(members.map(|(id, _)| id).collect())
}

fn faults_used(run: &Run<'_>) -> u8 {
    run.scenario.faults.saturating_sub(run.state.faults)
}
