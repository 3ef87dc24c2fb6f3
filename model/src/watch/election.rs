//! Which revision and whose content the master elects, and what it says where it elects none.

use pccl_core::id::{GroupId, PeerId, Revision};
use pccl_core::master::{Master, MasterInput};
use pccl_core::messages::{Misdeed, ToMaster};
use pccl_core::shared_state::{
    EntryMismatch, EntryShape, MISMATCHES_NAMED_MAX, SyncFailure, SyncStrategy,
};
use pccl_core::states::ConnectionState;

use super::voters::{Voter, camp, candidates, expected_revision, reached, speakers, voters};
use crate::claim::Claim;
use crate::contents::Compared;
use crate::milestone::Milestone;
use crate::run::Run;

/// What everybody is to hold, as what the candidates held when they voted has it. `None`: nobody can tell,
/// or the group repeats what only the master remembers.
pub(super) struct Elected {
    pub(super) voters: Vec<Voter>,
    /// Who holds it.
    pub(super) camp: Vec<Voter>,
}

/// A revision was elected, and a peer is told so.
pub(super) fn elected(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    peer: PeerId,
    revision: Revision,
) -> Option<Elected> {
    let view = before.view().peer(peer)?;
    // Where transfers end, the election was before.
    match view.state() {
        ConnectionState::VoteSyncSharedState | ConnectionState::Idle => {}
        _ => return None,
    }
    let group = view.group();
    let voters = voters(run, before, after, group)?;
    let held = before.view().revision(group);
    let reached = reached(before, group, &voters);
    if expected_revision(&voters, reached) != Some(revision) {
        run.state.breaks(Claim::Election);
    }
    if held.is_some_and(|held| revision < held) {
        run.state.reach(Milestone::Restarted);
    }
    let repeats = reached == Some(revision) && speakers(&voters, reached).is_empty();
    let camp = match repeats {
        true => what_was_held(run, group, revision, &voters)?,
        false => camp(&voters, revision),
    };
    Some(Elected { voters, camp })
}

/// A group that repeats its revision, without anybody who was in it, goes on with what it held. Where
/// nobody heard how its last synchronization ended, only the master knows what that was.
fn what_was_held(
    run: &Run<'_>,
    group: GroupId,
    revision: Revision,
    voters: &[Voter],
) -> Option<Vec<Voter>> {
    let held = run.state.ghost.contents.get(&group);
    let (_, _, content) = held.filter(|(_, known, _)| *known == revision)?;
    let holds = |voter: &&Voter| voter.revision == revision && voter.compared() == *content;
    let candidates = candidates(voters);
    let holders: Vec<Voter> = candidates.iter().filter(holds).copied().collect();
    match holders.is_empty() {
        true => Some(camp(voters, revision)),
        false => Some(holders),
    }
}

/// A synchronization has failed: is it true what its users are told?
pub(super) fn failed(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    group: GroupId,
    why: &SyncFailure,
) {
    run.state.reach(Milestone::SyncFailed);
    let is_true = match why {
        SyncFailure::TransferFailed { peer } => {
            let is_lost = after.view().peer(*peer).is_none();
            is_lost || reports_failure(heard, *peer) && !others_serve(heard, before)
        }
        SyncFailure::TimedOut => matches!(heard, MasterInput::TimerFired(_)),
        SyncFailure::NobodyToSend
        | SyncFailure::SendersDiffer { .. }
        | SyncFailure::RevisionLost { .. }
        | SyncFailure::SenderBehind { .. }
        | SyncFailure::RevisionSkipped { .. } => voters(run, before, after, group)
            .is_none_or(|voters| is_hopeless(before, group, &voters, why)),
    };
    if !is_true {
        run.state.breaks(Claim::Failures);
    }
}

/// A holder could not serve a peer that has others to fetch from: what that one says decides.
fn others_serve(heard: &MasterInput, before: &Master) -> bool {
    let MasterInput::Message {
        peer,
        message: ToMaster::SharedStateDone {
            with: Some(asker), ..
        },
    } = heard
    else {
        return false;
    };
    let sources = before.view().sources_of(*asker);
    sources.len() > 1 && sources.contains(peer)
}

fn reports_failure(heard: &MasterInput, peer: PeerId) -> bool {
    matches!(
        heard,
        MasterInput::Message { peer: from, message: ToMaster::SharedStateDone { ok: false, .. } }
            if *from == peer
    )
}

/// A synchronization that cannot succeed, however often it is repeated.
fn is_hopeless(master: &Master, group: GroupId, voters: &[Voter], why: &SyncFailure) -> bool {
    let candidates = candidates(voters);
    let known = reached(master, group, voters);
    let newest = candidates.iter().map(|voter| voter.revision).max();
    let is_held = |revision| voters.iter().any(|voter| voter.revision >= revision);
    let sends = |peer: PeerId| {
        let mut senders = voters.iter();
        senders.find(|voter| voter.id == peer && voter.strategy == SyncStrategy::SendOnly)
    };
    match why {
        SyncFailure::NobodyToSend => candidates.is_empty(),
        SyncFailure::SendersDiffer { one, other } => {
            let held =
                |voter: &Voter| -> (Revision, Compared) { (voter.revision, voter.compared()) };
            let both = sends(*one).zip(sends(*other));
            both.is_some_and(|(one, other)| held(one) != held(other))
        }
        SyncFailure::RevisionLost { reached, offered } => {
            let senders_only = candidates.iter().any(|voter| sends(voter.id).is_some());
            known == Some(*reached)
                && newest == Some(*offered)
                && offered < reached
                && (!senders_only || !is_held(*reached))
        }
        SyncFailure::SenderBehind {
            sender,
            reached,
            offered,
        } => {
            known == Some(*reached)
                && sends(*sender).is_some_and(|voter| voter.revision == *offered)
                && newest == Some(*offered)
                && offered < reached
                && is_held(*reached)
        }
        SyncFailure::RevisionSkipped { expected, offered } => {
            let beyond = voters.iter().filter(|voter| is_beyond(voter, *expected));
            known.map(Revision::next) == Some(*expected)
                && beyond.map(|voter| voter.revision).min() == Some(*offered)
        }
        SyncFailure::TransferFailed { .. } | SyncFailure::TimedOut => false,
    }
}

fn is_beyond(voter: &Voter, expected: Revision) -> bool {
    voter.strategy != SyncStrategy::ReceiveOnly && voter.revision > expected
}

/// Who is told that it cannot stay with what it holds: is that so?
pub(super) fn cannot_stay(run: &Run<'_>, before: &Master, peer: PeerId, misdeed: &Misdeed) -> bool {
    let Some(group) = before.view().peer(peer).map(|known| known.group()) else {
        return false;
    };
    let Some(voters) = voters(run, before, before, group) else {
        return true;
    };
    let Some(own) = voters.iter().find(|voter| voter.id == peer) else {
        return false;
    };
    match misdeed {
        Misdeed::RevisionAhead { expected, offered } => {
            let known = reached(before, group, &voters);
            known.map(Revision::next) == Some(*expected)
                && own.revision == *offered
                && is_beyond(own, *expected)
        }
        Misdeed::StateMismatch { entries, named } => {
            let revision = expected_revision(&voters, reached(before, group, &voters));
            let Some(measure) = revision.and_then(|revision| measure(&voters, revision)) else {
                return false;
            };
            let differing = differing_entries(own, &measure);
            let is_so = |named: &EntryMismatch| {
                let shape = |voter| shape_of(voter, &named.name);
                (named.own, named.theirs) == (shape(own), shape(&measure))
                    && named.own != named.theirs
            };
            let all_named = named.len() == (differing as usize).min(MISMATCHES_NAMED_MAX);
            differing > 0 && *entries == differing && all_named && named.iter().all(is_so)
        }
        _ => false,
    }
}

/// Whose entries everybody is to have: the winner's, but where that is a newcomer those of most who were in
/// the group.
pub(super) fn measure(voters: &[Voter], revision: Revision) -> Option<Voter> {
    let winner = *camp(voters, revision).first()?;
    let veterans = || voters.iter().filter(|voter| voter.is_veteran);
    if winner.is_veteran || veterans().next().is_none() {
        return Some(winner);
    }
    let alike = |one: &Voter| {
        let described = one.contents.described();
        veterans().filter(move |other| other.contents.described() == described)
    };
    let most = veterans().map(|one| alike(one).count()).max()?;
    let mut most_like = veterans().filter(|one| alike(one).count() == most);
    most_like.next().copied()
}

/// What a voter has under this name.
fn shape_of(voter: &Voter, name: &str) -> Option<EntryShape> {
    let mut entries = voter.contents.entries().into_iter();
    let entry = entries.find(|entry| entry.name == name)?;
    Some(entry.shape())
}

/// Entries that only one of the two has, or that they describe otherwise.
fn differing_entries(one: &Voter, other: &Voter) -> u32 {
    let described = |voter: &Voter| voter.contents.described().entries();
    let (one, other) = (described(one), described(other));
    let names = one.iter().chain(&other).map(|entry| &entry.name);
    let names: std::collections::BTreeSet<_> = names.collect();
    let shared = one.iter().filter(|entry| other.contains(entry));
    u32::try_from(names.len() - shared.count()).unwrap_or(u32::MAX)
}
