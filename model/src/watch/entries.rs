//! What each peer is to fetch: what differs, all of it, and nothing else.

use std::collections::BTreeSet;

use pccl_core::id::{ContentHash, EntryIndex, PeerId};
use pccl_core::shared_state::{SyncPlan, SyncRole, SyncStrategy};
use pccl_core::topology::LaneOrder;

use super::election::Elected;
use super::voters::Voter;
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::Run;

/// A peer is told its part in moving the content of the camp that has won.
pub(super) fn planned_part(run: &mut Run<'_>, peer: PeerId, plan: &SyncPlan, elected: &Elected) {
    let Elected { voters, camp } = elected;
    let Some(own) = voters.iter().find(|voter| voter.id == peer) else {
        return;
    };
    let holders = holders(camp);
    let is_right = match &plan.role {
        SyncRole::Distribute { .. } => holds(&holders, peer),
        SyncRole::Request { from, entries } => {
            let mut sources = from.iter().map(|order| order.with);
            let serves = sources.all(|source| holds(&holders, source)) && are_different(from);
            let source = from.first().map(|order| order.with);
            let source = source.and_then(|with| voters.iter().find(|voter| voter.id == with));
            let wanted = match source.or(holders.first()) {
                Some(source) => lacking(own, source),
                None => Vec::new(),
            };
            let known = own.contents.entries().len();
            if !wanted.is_empty() && wanted.len() < known {
                run.state.reach(Milestone::PartMoved);
            }
            let moves = source.is_some() != wanted.is_empty();
            !holds(&holders, peer) && serves && moves && entries.to_vec() == wanted
        }
    };
    if !is_right {
        run.state.breaks(Claim::Fetched);
    }
    let describes_alike = |voter: &Voter| voter.contents.described() == own.contents.described();
    if !voters.iter().all(describes_alike) {
        run.state.breaks(Claim::SharedState);
    }
}

/// No holder is named twice.
fn are_different(from: &[LaneOrder]) -> bool {
    let peers: BTreeSet<PeerId> = from.iter().map(|order| order.with).collect();
    peers.len() == from.len()
}

/// A peer is told that all is well, and that nothing had to move.
pub(super) fn nothing_moves(run: &mut Run<'_>, elected: &Elected) {
    let Elected { voters, camp } = elected;
    let holders = holders(camp);
    let Some(source) = holders.first() else {
        return;
    };
    let others = voters.iter().filter(|voter| !holds(&holders, voter.id));
    if others
        .into_iter()
        .any(|voter| !lacking(voter, source).is_empty())
    {
        run.state.breaks(Claim::Fetched);
    }
}

fn holds(holders: &[Voter], peer: PeerId) -> bool {
    holders.iter().any(|voter| voter.id == peer)
}

/// Of those that have the elected content, newcomers take what may differ from those that were there.
fn holders(camp: &[Voter]) -> Vec<Voter> {
    let may_differ = |voter: &Voter| {
        let mut entries = voter.contents.entries().into_iter();
        entries.any(|entry| entry.allow_content_inequality)
    };
    let was_there = camp.iter().any(|voter| voter.is_veteran);
    let mut holders = camp.to_vec();
    if was_there && camp.iter().any(may_differ) {
        let gives = |voter: &Voter| voter.is_veteran || voter.strategy == SyncStrategy::SendOnly;
        holders.retain(gives);
    }
    holders
}

/// What somebody lacks of what another holds, by the places of the entries.
fn lacking(own: &Voter, source: &Voter) -> Vec<(EntryIndex, ContentHash)> {
    let (own_entries, theirs) = (own.contents.entries(), source.contents.entries());
    let both = own_entries.iter().zip(&theirs).zip(0..);
    let lacks = both.filter(
        |((own_entry, theirs), _)| match theirs.allow_content_inequality {
            true => !own.is_veteran,
            false => own_entry.hash != theirs.hash,
        },
    );
    lacks
        .map(|((_, theirs), at)| (EntryIndex(at), theirs.hash))
        .collect()
}
