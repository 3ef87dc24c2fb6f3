//! Whose content the master elects, said once more and differently.

use pccl_core::id::{ContentHash, GroupId, PeerId, Revision};
use pccl_core::master::Master;
use pccl_core::shared_state::SyncStrategy;
use pccl_core::states::{ConnectionPhase, ConnectionState};

use super::accepted;
use crate::claim::Claim;
use crate::run::Run;
use crate::state::Life;

/// The election, stated once more: what each candidate held when it voted decides.
pub(super) fn elected(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    peer: PeerId,
    revision: Revision,
    fetched: Option<ContentHash>,
) {
    let Some(view) = before.view().peer(peer) else {
        return;
    };
    // Where transfers end, the election was before.
    match view.state() {
        ConnectionState::VoteSyncSharedState | ConnectionState::Idle => {}
        _ => return,
    }
    let group = view.group();
    let Some(voters) = voters(run, before, after, group) else {
        return;
    };
    let reached = before.view().revision(group);
    let expected = expected_revision(&voters, reached);
    let has_moved = fetched.is_none_or(|hash| {
        let repeats = reached == Some(revision) && speakers(&voters, reached).is_empty();
        expected_content(&voters, revision) == Some(hash)
            || (repeats && may_have_been_held(run, group, revision, hash))
    });
    if expected != Some(revision) || !has_moved {
        run.state.breaks(Claim::Election);
    }
}

/// A group that repeats its revision, without anybody who was in it, goes on with what it held. Where
/// nobody heard how its last synchronization ended, only the master knows what that was.
fn may_have_been_held(
    run: &Run<'_>,
    group: GroupId,
    revision: Revision,
    content: ContentHash,
) -> bool {
    let held = run.state.ghost.contents.get(&group);
    held.is_none_or(|(_, known, held)| *known != revision || *held == content)
}

/// Who votes, with what it holds. `None`: somebody has gone, and the others cannot tell whether its
/// vote had arrived.
fn voters(run: &Run<'_>, before: &Master, after: &Master, group: GroupId) -> Option<Vec<Voter>> {
    let voters = run.state.seats.iter().filter_map(|seat| {
        let id = seat.id?;
        let known = after.view().peer(id)?;
        let votes = known.group() == group && known.phase() == ConnectionPhase::Accepted;
        let strategy = seat
            .strategy
            .filter(|_| votes && seat.life != Life::Departed)?;
        Some(Voter {
            id,
            revision: seat.user.revision,
            content: seat.user.content,
            strategy,
            is_veteran: before.view().peer(id)?.is_synchronized(),
        })
    });
    let voters: Vec<_> = voters.collect();
    (voters.len() == accepted(after, group).count()).then_some(voters)
}

/// Who votes, and what it holds.
#[derive(Clone, Copy)]
struct Voter {
    id: PeerId,
    revision: Revision,
    content: ContentHash,
    strategy: SyncStrategy,
    /// It has been through a synchronization of the group.
    is_veteran: bool,
}

fn candidates(voters: &[Voter]) -> Vec<Voter> {
    let sender = voters
        .iter()
        .any(|voter| voter.strategy == SyncStrategy::SendOnly);
    let may_win = |strategy: SyncStrategy| match strategy {
        SyncStrategy::SendOnly => true,
        SyncStrategy::EnforcePopular => !sender,
        SyncStrategy::ReceiveOnly => false,
    };
    let may_win = voters.iter().filter(|voter| may_win(voter.strategy));
    may_win.copied().collect()
}

/// Candidates that were in the group and keep up with it: no newcomer goes further than they.
fn speakers(voters: &[Voter], reached: Option<Revision>) -> Vec<Voter> {
    let mut speakers = candidates(voters);
    let keeps_up = |voter: &Voter| reached.is_some_and(|reached| voter.revision >= reached);
    speakers.retain(|voter| voter.is_veteran && keeps_up(voter));
    speakers
}

fn expected_revision(voters: &[Voter], reached: Option<Revision>) -> Option<Revision> {
    let (candidates, speakers) = (candidates(voters), speakers(voters, reached));
    let heard = match speakers.is_empty() {
        true => candidates,
        false => speakers,
    };
    let offers = |revision| heard.iter().any(|voter| voter.revision == revision);
    match reached {
        None => heard.iter().map(|voter| voter.revision).max(),
        Some(reached) if offers(reached.next()) => Some(reached.next()),
        Some(reached) => offers(reached).then_some(reached),
    }
}

/// The content that wins where it is counted.
fn expected_content(voters: &[Voter], revision: Revision) -> Option<ContentHash> {
    let mut current = candidates(voters);
    current.retain(|voter| voter.revision == revision);
    let camp = |content: ContentHash| {
        let holders = current.iter().filter(|voter| voter.content == content);
        holders.count()
    };
    let longest_in_the_run = |content: ContentHash| {
        let holders = current.iter().filter(|voter| voter.content == content);
        holders.map(|voter| voter.id).min()
    };
    let contents = current.iter().map(|voter| voter.content);
    contents.max_by_key(|content| {
        (
            camp(*content),
            std::cmp::Reverse(longest_in_the_run(*content)),
        )
    })
}
