//! Which of two calls gives way, and how often: the rules of `core::master`'s `precedence`, said once more and
//! differently.

use std::collections::BTreeSet;

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::master::{Master, MasterInput, MasterOutput, PeerView};
use pccl_core::messages::{CallFailure, CallKind, CollectiveRefusal, Conflict, ToPeer, Verdict};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};

use crate::claim::Claim;
use crate::run::Run;
use crate::script::UPDATES_MANY;

/// Updates that pass over a call, of which the last one ends it.
const PASSES_MAX: u8 = 8;

/// Conflicts in a row before it is not the collective that gives way.
const IN_A_ROW_MAX: u8 = 2;

/// As long as all who reduce are newcomers and some of those who synchronize are not.
const OF_NEWCOMERS_MAX: u8 = 4;

/// The master has moved: who gave way, and to whom?
pub(super) fn precedence(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    count_passes(run, before, out);
    for output in out {
        let MasterOutput::Send { peer, message } = output else {
            continue;
        };
        let (conflict, tag) = match message {
            ToPeer::CallFailed(CallFailure::Conflict(conflict)) => (conflict, None),
            ToPeer::CollectiveRefused {
                tag,
                reason: CollectiveRefusal::Conflict(conflict),
            } => (conflict, Some(*tag)),
            ToPeer::PeersPending { pending } => {
                if !is_true(before, after, heard, *peer, *pending) {
                    run.state.breaks(Claim::Truth);
                }
                continue;
            }
            _ => continue,
        };
        if !is_right(run, before, after, *peer, tag, conflict) {
            run.state.breaks(Claim::Precedence);
        }
    }
    count_conflicts(run, before, after, out);
    forget(run, before, after, out);
    if after
        .view()
        .groups()
        .any(|group| exclude_each_other(after, group))
    {
        run.state.breaks(Claim::Precedence);
    }
}

/// Does the one that gave way wait in that call, the other one in the other, and does that go first?
fn is_right(
    run: &Run<'_>,
    before: &Master,
    after: &Master,
    loser: PeerId,
    tag: Option<Tag>,
    conflict: &Conflict,
) -> bool {
    let known = before.view().peer(loser);
    let other = after.view().peer(conflict.peer);
    let (Some(known), Some(other)) = (known, other) else {
        return false;
    };
    let is_own = match (conflict.yours, tag) {
        (CallKind::Collective, Some(_)) => true,
        (CallKind::SyncSharedState | CallKind::OptimizeTopology, None) => {
            calls(run, loser, conflict.yours).unwrap_or(true)
        }
        (_, None | Some(_)) => false,
    };
    let is_theirs = calls(run, conflict.peer, conflict.theirs).unwrap_or(true);
    let is_of_group = other.group() == known.group();
    let goes_first = match (conflict.yours, conflict.theirs) {
        (CallKind::SyncSharedState, CallKind::OptimizeTopology)
        | (CallKind::Collective, CallKind::OptimizeTopology | CallKind::SyncSharedState) => {
            is_of_group
        }
        (CallKind::SyncSharedState, CallKind::Collective) => {
            is_of_group && are_newcomers_alone(before, known.group())
        }
        (_, CallKind::UpdateTopology) => was_passed_over(run, before, known.group()),
        (_, _) => false,
    };
    loser != conflict.peer && is_own && is_theirs && goes_first
}

/// Is this what the peer itself waits in? `None`: it is gone, and cannot be asked.
fn calls(run: &Run<'_>, peer: PeerId, kind: CallKind) -> Option<bool> {
    let seat = run.state.seat_with(peer)?;
    let view = seat.peer.view();
    // Who has left is asked no more, though its farewell is on its way.
    (seat.id.is_some() && view.peer_id() == Some(peer)).then(|| match kind {
        CallKind::Collective => view.tags().next().is_some(),
        CallKind::UpdateTopology | CallKind::OptimizeTopology | CallKind::SyncSharedState => {
            view.open_calls().major == Some(kind)
        }
    })
}

fn members(master: &Master, group: GroupId) -> impl Iterator<Item = (PeerId, PeerView<'_>)> {
    let peers = master.view().peers();
    peers.filter(move |(_, known)| {
        known.group() == group && known.phase() == ConnectionPhase::Accepted
    })
}

/// Does a collective of this peer wait to start?
fn waits_to_start(known: PeerView<'_>) -> bool {
    let begins = CollectiveCommunicationState::VoteInitiate;
    known.tags().any(|(_, state)| state == begins)
}

/// Is there a pair of calls in the group of which one has to give way?
fn exclude_each_other(master: &Master, group: GroupId) -> bool {
    let is_in = |state| members(master, group).any(|(_, known)| known.state() == state);
    let optimizes = is_in(ConnectionState::VoteOptimizeTopology);
    let synchronizes = is_in(ConnectionState::VoteSyncSharedState);
    let starts = members(master, group).any(|(_, known)| waits_to_start(known));
    (optimizes && synchronizes) || ((optimizes || synchronizes) && starts)
}

/// Those who wait to reduce have never synchronized, and some who wait to do so have.
fn are_newcomers_alone(before: &Master, group: GroupId) -> bool {
    let mut reducing = members(before, group).filter(|(_, known)| waits_to_start(*known));
    let mut others = members(before, group).filter(|(_, known)| !waits_to_start(*known));
    reducing.all(|(_, known)| !known.is_synchronized())
        && others.any(|(_, known)| known.is_synchronized())
}

// How often.

fn are_passes_counted(run: &Run<'_>) -> bool {
    let mut plans = run.scenario.seats.iter();
    plans.any(|plan| plan.program.rounds >= UPDATES_MANY)
}

/// An update that is answered has passed over the calls that others wait in.
fn count_passes(run: &mut Run<'_>, before: &Master, out: &[MasterOutput]) {
    let is_answered = |output: &MasterOutput| match output {
        MasterOutput::Send {
            peer,
            message: ToPeer::TopologyEstablished { .. },
        } => calls(run, *peer, CallKind::UpdateTopology) == Some(true),
        _ => false,
    };
    if !are_passes_counted(run) || !out.iter().any(is_answered) {
        return;
    }
    let waits = |known: PeerView<'_>| {
        let calls = [
            ConnectionState::VoteSyncSharedState,
            ConnectionState::VoteOptimizeTopology,
            ConnectionState::VoteNoNewPeersEstablishP2p,
        ];
        let is_wired = known.round().is_some();
        calls.contains(&known.state()) || waits_to_start(known) || is_wired
    };
    let peers = before.view().peers().filter(|(_, known)| waits(*known));
    let others = peers.filter(|(id, _)| calls(run, *id, CallKind::UpdateTopology) == Some(false));
    let others: Vec<PeerId> = others.map(|(id, _)| id).collect();
    for peer in others {
        let passed = run.state.ghost.edit().passed.entry(peer).or_default();
        *passed += 1;
        if *passed > PASSES_MAX {
            run.state.breaks(Claim::Patience);
        }
    }
}

fn was_passed_over(run: &Run<'_>, before: &Master, group: GroupId) -> bool {
    let mut passed = run.state.ghost.passed.iter();
    let is_of_group = |peer: PeerId| before.view().peer(peer).is_some_and(|p| p.group() == group);
    // Who is gone counts for the master until it knows.
    let went_wrong = run.state.faults < run.scenario.faults;
    went_wrong || passed.any(|(peer, times)| *times >= PASSES_MAX && is_of_group(*peer))
}

/// A collective that gives way to a synchronization for the third time in a row should not have.
fn count_conflicts(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    let mut refused: BTreeSet<(GroupId, Tag)> = BTreeSet::new();
    for output in out {
        if let MasterOutput::Send {
            peer,
            message:
                ToPeer::CollectiveRefused {
                    tag,
                    reason: CollectiveRefusal::Conflict(conflict),
                },
        } = output
            && conflict.theirs == CallKind::SyncSharedState
            && let Some(known) = before.view().peer(*peer)
        {
            refused.insert((known.group(), *tag));
        }
    }
    for (group, tag) in refused {
        let max = match are_newcomers_alone(before, group) {
            true => OF_NEWCOMERS_MAX,
            false => IN_A_ROW_MAX,
        };
        let (times, tags) = run.state.ghost.edit().in_a_row.entry(group).or_default();
        if *times == 0 || tags.contains(&tag) {
            *times += 1;
            tags.clear();
        }
        tags.insert(tag);
        if *times > max {
            run.state.breaks(Claim::Patience);
        }
    }
    let aside = set_aside(before, after);
    for (peer, group) in aside {
        if !may_be_set_aside(run, after, peer, group) {
            run.state.breaks(Claim::Patience);
        }
    }
}

/// Members that have to wait for the next update, and their groups.
fn set_aside(before: &Master, after: &Master) -> Vec<(PeerId, GroupId)> {
    let phase = |master: &Master, peer| master.view().peer(peer).map(PeerView::phase);
    let peers = before.view().peers().filter(|(peer, known)| {
        known.phase() == ConnectionPhase::Accepted
            && phase(after, *peer) == Some(ConnectionPhase::Registered)
    });
    peers.map(|(peer, known)| (peer, known.group())).collect()
}

/// Who waits to synchronize, with all others who do, after two conflicts in a row; or after transfers that
/// broke.
fn may_be_set_aside(run: &Run<'_>, after: &Master, peer: PeerId, group: GroupId) -> bool {
    let in_a_row = run.state.ghost.in_a_row.get(&group);
    let conflicts = in_a_row.map_or(0, |(times, _)| *times);
    let went_wrong = run.state.faults < run.scenario.faults;
    let waits = calls(run, peer, CallKind::SyncSharedState).unwrap_or(true);
    let synchronizes = ConnectionState::VoteSyncSharedState;
    let others_stay = members(after, group).any(|(_, known)| known.state() == synchronizes);
    waits && (conflicts >= IN_A_ROW_MAX && !others_stay || went_wrong)
}

/// What succeeded ends the row, and so does an answer.
fn forget(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    let ghost = &run.state.ghost;
    if ghost.in_a_row.is_empty() && ghost.passed.is_empty() {
        return;
    }
    let group_of = |peer: PeerId| after.view().peer(peer).map(PeerView::group);
    let over = out.iter().filter_map(|output| match output {
        MasterOutput::Send {
            peer,
            message:
                ToPeer::Verdict {
                    verdict: Verdict::Committed { .. },
                    ..
                }
                | ToPeer::SharedStateConcluded { result: Ok(_), .. },
        } => group_of(*peer),
        _ => None,
    });
    let aside = set_aside(before, after);
    let aside = aside.into_iter().map(|(_, group)| group);
    let over: BTreeSet<GroupId> = over.chain(aside).collect();
    let is_there = |group: GroupId| after.view().groups().any(|known| known == group);
    let waits = |peer: PeerId| {
        let known = after.view().peer(peer);
        known.is_some_and(|known| known.state() != ConnectionState::Idle)
    };
    let ghost = run.state.ghost.edit();
    ghost
        .in_a_row
        .retain(|group, _| is_there(*group) && !over.contains(group));
    ghost.passed.retain(|peer, _| waits(*peer));
}

/// What a peer is told that asks whether anybody waits: the truth if all have asked, else what leads it to
/// where the others of its group wait for it.
fn is_true(
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    peer: PeerId,
    pending: bool,
) -> bool {
    let Some(known) = before.view().peer(peer) else {
        return false;
    };
    if known.phase() == ConnectionPhase::Registered {
        return pending;
    }
    let asks = |(id, known): (PeerId, PeerView<'_>)| {
        let just_now = matches!(heard, MasterInput::Message { peer, .. } if *peer == id);
        known.phase() == ConnectionPhase::Registered || known.asks_pending() || just_now
    };
    let is_left = |(id, _): &(PeerId, PeerView<'_>)| after.view().peer(*id).is_some();
    let all_ask = before.view().peers().filter(is_left).all(asks);
    let mut peers = after.view().peers();
    let truth = peers.any(|(_, known)| known.phase() == ConnectionPhase::Registered);
    let is_wanted = [before, after].into_iter().any(|master| {
        let mut peers = master.view().peers();
        peers.any(|(_, other)| match other.state() {
            ConnectionState::VoteAcceptNewPeers | ConnectionState::VoteOptimizeTopology => true,
            ConnectionState::VoteSyncSharedState => other.group() == known.group(),
            _ => false,
        })
    });
    let is_awaited = [before, after].into_iter().any(|master| {
        members(master, known.group()).any(|(id, other)| id != peer && waits_to_start(other))
    });
    (all_ask && pending == truth) || if pending { is_wanted } else { is_awaited }
}
