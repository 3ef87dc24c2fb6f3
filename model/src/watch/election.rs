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
    let Some(voters) = voters(run, after, group) else {
        return;
    };
    let right = expected_revision(&voters, before.view().revision(group)) == Some(revision)
        && fetched.is_none_or(|hash| expected_content(&voters, revision) == Some(hash));
    if !right {
        run.state.breaks(Claim::Election);
    }
}

/// Who votes, with what it holds. `None`: somebody has gone, and the others cannot tell whether its
/// vote had arrived.
fn voters(run: &Run<'_>, after: &Master, group: GroupId) -> Option<Vec<Voter>> {
    let voters = run.state.seats.iter().filter_map(|seat| {
        let id = seat.id?;
        let known = after.view().peer(id)?;
        let votes = known.group() == group && known.phase() == ConnectionPhase::Accepted;
        let strategy = seat
            .strategy
            .filter(|_| votes && seat.life != Life::Departed)?;
        Some((id, seat.user.revision, seat.user.content, strategy))
    });
    let voters: Vec<_> = voters.collect();
    (voters.len() == accepted(after, group).count()).then_some(voters)
}

/// Who, the revision and the content that it holds, and how it takes part.
type Voter = (PeerId, Revision, ContentHash, SyncStrategy);

fn candidates(voters: &[Voter]) -> Vec<(PeerId, Revision, ContentHash)> {
    let sender = voters.iter().any(|voter| voter.3 == SyncStrategy::SendOnly);
    let may_win = |strategy: SyncStrategy| match strategy {
        SyncStrategy::SendOnly => true,
        SyncStrategy::EnforcePopular => !sender,
        SyncStrategy::ReceiveOnly => false,
    };
    let may_win = voters.iter().filter(|voter| may_win(voter.3));
    may_win
        .map(|(id, revision, content, _)| (*id, *revision, *content))
        .collect()
}

fn expected_revision(voters: &[Voter], reached: Option<Revision>) -> Option<Revision> {
    let candidates = candidates(voters);
    let offers = |revision| {
        candidates
            .iter()
            .any(|(_, offered, _)| *offered == revision)
    };
    match reached {
        None => candidates.iter().map(|(_, offered, _)| *offered).max(),
        Some(reached) if offers(reached.next()) => Some(reached.next()),
        Some(reached) => offers(reached).then_some(reached),
    }
}

/// The content that wins.
fn expected_content(voters: &[Voter], revision: Revision) -> Option<ContentHash> {
    let current: Vec<_> = candidates(voters)
        .into_iter()
        .filter(|(_, offered, _)| *offered == revision)
        .collect();
    let camp = |content: ContentHash| current.iter().filter(|known| known.2 == content).count();
    let longest_in_the_run = |content: ContentHash| {
        let holders = current.iter().filter(|known| known.2 == content);
        holders.map(|known| known.0).min()
    };
    let contents = current.iter().map(|known| known.2);
    contents.max_by_key(|content| {
        (
            camp(*content),
            std::cmp::Reverse(longest_in_the_run(*content)),
        )
    })
}
