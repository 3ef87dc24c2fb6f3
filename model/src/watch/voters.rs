//! Who votes to synchronize, and what each of them holds: the election, said once more and differently.

use std::cmp::Reverse;

use pccl_core::id::{GroupId, PeerId, Revision};
use pccl_core::master::Master;
use pccl_core::shared_state::SyncStrategy;
use pccl_core::states::ConnectionPhase;

use super::accepted;
use crate::contents::{Compared, Contents};
use crate::run::Run;
use crate::state::Life;

/// Who votes, and what it holds.
#[derive(Clone, Copy)]
pub(super) struct Voter {
    pub(super) id: PeerId,
    pub(super) revision: Revision,
    pub(super) contents: Contents,
    pub(super) strategy: SyncStrategy,
    pub(super) restart: bool,
    /// It has been through a synchronization of the group.
    pub(super) is_veteran: bool,
}

impl Voter {
    pub(super) fn compared(&self) -> Compared {
        self.contents.compared()
    }
}

/// Who votes, with what it holds. `None`: somebody has gone, and the others cannot tell whether its
/// vote had arrived.
pub(super) fn voters(
    run: &Run<'_>,
    before: &Master,
    present: &Master,
    group: GroupId,
) -> Option<Vec<Voter>> {
    let seats = run
        .state
        .seat_numbers()
        .map(|no| (run.seat(no), run.plan(no)));
    let voters = seats.filter_map(|(seat, plan)| {
        let id = seat.id?;
        let known = present.view().peer(id)?;
        let votes = known.group() == group && known.phase() == ConnectionPhase::Accepted;
        let strategy = seat
            .strategy
            .filter(|_| votes && seat.life != Life::Departed)?;
        Some(Voter {
            id,
            revision: seat.user.revision,
            contents: seat.user.contents,
            strategy,
            restart: plan.restart,
            is_veteran: before.view().peer(id)?.is_synchronized(),
        })
    });
    let voters: Vec<_> = voters.collect();
    (voters.len() == accepted(present, group).count()).then_some(voters)
}

/// The revision that the group has reached, unless all agree to go on from any.
pub(super) fn reached(master: &Master, group: GroupId, voters: &[Voter]) -> Option<Revision> {
    let all_restart = voters.iter().all(|voter| voter.restart);
    master.view().revision(group).filter(|_| !all_restart)
}

pub(super) fn candidates(voters: &[Voter]) -> Vec<Voter> {
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
pub(super) fn speakers(voters: &[Voter], reached: Option<Revision>) -> Vec<Voter> {
    let mut speakers = candidates(voters);
    let keeps_up = |voter: &Voter| reached.is_some_and(|reached| voter.revision >= reached);
    speakers.retain(|voter| voter.is_veteran && keeps_up(voter));
    speakers
}

pub(super) fn expected_revision(voters: &[Voter], reached: Option<Revision>) -> Option<Revision> {
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

/// The content that wins where it is counted, and who holds it.
pub(super) fn camp(voters: &[Voter], revision: Revision) -> Vec<Voter> {
    let mut current = candidates(voters);
    current.retain(|voter| voter.revision == revision);
    let of = |content: Compared| {
        current
            .iter()
            .filter(move |voter| voter.compared() == content)
    };
    let longest_in_the_run = |content| of(content).map(|voter| voter.id).min();
    let wins = current.iter().map(Voter::compared).max_by_key(|content| {
        let size = of(*content).count();
        (size, Reverse(longest_in_the_run(*content)))
    });
    wins.into_iter().flat_map(of).copied().collect()
}
