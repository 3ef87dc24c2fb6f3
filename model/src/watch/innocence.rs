//! Who is thrown out or refused, and whether it had to go.
//!
//! All peers here keep to the protocol, so they go for what befell them only, and not more of them than have
//! to: the rules of `core::master`'s `deadlines` and `blame`, said once more and differently.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{Master, MasterTimer};
use pccl_core::messages::{Misdeed, Refusal, ToPeer};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};
use pccl_core::tour;

use super::source::Source;
use crate::claim::Claim;
use crate::milestone::Milestone;

/// Fewer peers than this are on each other's rings, whatever the order.
const CHOICE_MIN: usize = 4;

/// Failed transfers for which a newcomer is set aside, and does not go, while others lack the content as well.
const SPARED_FOR: u8 = 2;

/// Lanes between two peers failed or stalled. It is remembered where there are rings to choose from.
pub(crate) fn pair_failed<S: Source>(run: &mut S, at: S::Place, with: PeerId) {
    if run.places().len() >= CHOICE_MIN
        && let Some(me) = run.id(at)
    {
        let pair = (me.min(with), me.max(with));
        run.edit_ghost().troubled.insert(pair);
    }
}

/// A peer is told to go.
pub(super) fn sent_away(run: &mut impl Source, before: &Master, peer: PeerId, message: &ToPeer) {
    let explained = match message {
        ToPeer::Kicked(misdeed) => may_be_kicked(run, before, peer, misdeed),
        ToPeer::Refused(refusal) => may_be_refused(run, before, peer, refusal),
        _ => true,
    };
    if !explained && run.is_honest(peer) {
        run.breaks(Claim::Innocence);
    }
    if let ToPeer::Kicked(misdeed) = message {
        run.reach(Milestone::ThrownOut);
        if *misdeed == Misdeed::Stalled {
            run.reach(Milestone::Stalled);
        }
    }
}

fn may_be_kicked(run: &impl Source, before: &Master, peer: PeerId, misdeed: &Misdeed) -> bool {
    let victim = run.place_of(peer);
    // Who has left may be taken for one that cannot be reached until its farewell arrives.
    let has_left = victim.is_none_or(|at| !run.runs(at));
    let went_wrong = has_left || run.faults_used() > 0;
    match misdeed {
        // Content that is ahead of the group's is no fault of the network.
        Misdeed::RevisionAhead { .. } => true,
        Misdeed::Silent => went_wrong,
        Misdeed::Unfetchable => {
            went_wrong && (run.faults_used() > SPARED_FOR || all_others_agree(run, before, peer))
        }
        Misdeed::MissedBallot => went_wrong && fewer_go_than_wait(before, peer),
        Misdeed::Stalled => {
            let is_mute = victim.is_some_and(|at| run.is_mute(at));
            let again = run.faults_used() > 1;
            went_wrong && (is_mute || again || most_are_done(before, peer))
        }
        Misdeed::Unconnectable { .. } => {
            went_wrong && !is_a_ring_left(run, before, peer) && !run.only_one_is_closed()
        }
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::TooManyTags { .. } => false,
        Misdeed::BadManifest
        | Misdeed::Cancels
        | Misdeed::StateMismatch { .. }
        | Misdeed::SlowReader => run.users_err(),
    }
}

/// Whether the other members of its group hold the same content: none of them has to fetch any.
fn all_others_agree(run: &impl Source, before: &Master, peer: PeerId) -> bool {
    let view = before.view();
    let group = view.peer(peer).map(|known| known.group());
    let others = view.peers().filter(|(id, known)| {
        let is_accepted = known.phase() == ConnectionPhase::Accepted;
        *id != peer && is_accepted && Some(known.group()) == group
    });
    let contents = others.filter_map(|(id, _)| Some(run.content(run.place_of(id)?)));
    let contents: BTreeSet<_> = contents.collect();
    contents.len() < 2
}

/// One failure is not enough to refuse a newcomer, if the peer at the other end is there. Who was frozen may
/// have failed more than once by one fault.
fn may_be_refused(run: &impl Source, before: &Master, peer: PeerId, refusal: &Refusal) -> bool {
    let other = match refusal {
        Refusal::CannotReach { peer, .. } => *peer,
        Refusal::CannotBeReached { by, .. } => *by,
        Refusal::Stopping => return true,
        Refusal::Version { .. } | Refusal::RunFull { .. } | Refusal::BadHello => return false,
    };
    let is_there = |peer: PeerId| run.place_of(peer).is_some_and(|at| run.runs(at));
    let may_go = !is_there(peer) || !is_there(other) || run.may_freeze() || run.faults_used() > 1;
    may_go && !is_a_ring_left(run, before, peer)
}

/// Of those who wait in a ballot and those who are missed in it, the latter are not more.
fn fewer_go_than_wait(before: &Master, peer: PeerId) -> bool {
    let view = before.view();
    let Some(victim) = view.peer(peer) else {
        return false;
    };
    let accepted = || {
        let peers = view.peers();
        peers.filter(|(_, known)| known.phase() == ConnectionPhase::Accepted)
    };
    let concerns_all = accepted().any(|(_, known)| {
        let calls = [
            ConnectionState::VoteAcceptNewPeers,
            ConnectionState::VoteOptimizeTopology,
        ];
        known.asks_pending() || calls.contains(&known.state())
    });
    let concerned =
        || accepted().filter(|(_, known)| concerns_all || known.group() == victim.group());
    let is_late = |peer| view.timers().any(|timer| timer == MasterTimer::Late(peer));
    let idle = |state| state == ConnectionState::Idle;
    let missed = concerned().filter(|(id, known)| idle(known.state()) && is_late(*id));
    let waiting = concerned().filter(|(_, known)| !idle(known.state()) || known.asks_pending());
    idle(victim.state()) && missed.count() <= waiting.count()
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
        ConnectionState::OptimizeTopology => {
            let lacking = accepted().filter(|known| known.state() == victim.state());
            2 * lacking.count() <= accepted().count()
        }
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
/// Of few peers every ring has all pairs.
fn is_a_ring_left(run: &impl Source, before: &Master, peer: PeerId) -> bool {
    let Some(group) = before.view().peer(peer).map(|view| view.group()) else {
        return false;
    };
    let peers = before.view().peers();
    let members = peers.filter(|(_, known)| known.group() == group);
    // A newcomer that came meanwhile would be one more to choose from.
    let members: Vec<PeerId> = members
        .filter(|(id, known)| *id == peer || known.phase() == ConnectionPhase::Accepted)
        .map(|(id, _)| id)
        .collect();
    let troubled: &BTreeSet<(PeerId, PeerId)> = &run.ghost().troubled;
    members.len() >= CHOICE_MIN && tour::avoid(&members, troubled).is_some()
}
