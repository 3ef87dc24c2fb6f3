//! Who is sent to whom for shared state, where something has failed before.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{Master, MasterOutput};
use pccl_core::messages::ToPeer;
use pccl_core::shared_state::SyncRole;

use crate::claim::Claim;
use crate::run::Run;
use crate::trouble::MANY;

/// Who could not fetch from one is sent to another, if there is one. A newcomer that has failed so often with
/// all of them goes, or is set aside, as long as nobody else of the run has.
pub(super) fn sources(run: &mut Run<'_>, before: &Master, out: &[MasterOutput]) {
    let trouble = &run.state.ghost.trouble;
    let failed = &trouble.unfetched;
    if failed.is_empty() && trouble.one_at_a_time.is_empty() {
        return;
    }
    let plans = || {
        out.iter().filter_map(|output| match output {
            MasterOutput::Send {
                peer,
                message: ToPeer::SharedStatePlan(plan),
            } => Some((*peer, plan)),
            _ => None,
        })
    };
    let holders: BTreeSet<PeerId> = plans()
        .filter(|(_, plan)| matches!(plan.role, SyncRole::Distribute { .. }))
        .map(|(peer, _)| peer)
        .collect();
    let has_failed = |peer: PeerId, holder: PeerId| failed.contains_key(&(peer, holder));
    let has_tried_all = |peer: PeerId| holders.iter().all(|holder| has_failed(peer, *holder));
    let sent = || {
        plans().flat_map(|(peer, plan)| {
            let from = match &plan.role {
                SyncRole::Request { from, .. } => from.as_slice(),
                SyncRole::Distribute { .. } => &[],
            };
            from.iter().map(move |from| (peer, from.with))
        })
    };
    let is_sent_back =
        sent().any(|(peer, holder)| has_failed(peer, holder) && !has_tried_all(peer));
    let is_newcomer = |peer: PeerId| {
        let known = before.view().peer(peer);
        known.is_some_and(|known| !known.is_synchronized())
    };
    let had_to_go = |peer: PeerId| {
        is_newcomer(peer)
            && has_tried_all(peer)
            && run.state.ghost.trouble.unfetched_by(peer) >= MANY
    };
    // Who has gone, or waits, has spared others.
    let all_are_here = plans().count() == run.state.seats.len();
    let is_sent_in_vain = all_are_here && sent().any(|(peer, _)| had_to_go(peer));
    let sent_to = |asker: PeerId| sent().filter(|(peer, _)| *peer == asker).count();
    let mut had_failed = plans().map(|(peer, _)| peer).filter(|peer| {
        let has_failed_with_one = || failed.keys().any(|(to, _)| to == peer);
        trouble.one_at_a_time.contains(peer) || has_failed_with_one()
    });
    let is_sent_to_several = had_failed.any(|peer| sent_to(peer) > 1);
    if is_sent_back || is_sent_to_several {
        run.state.breaks(Claim::Avoidance);
    }
    if is_sent_in_vain {
        run.state.breaks(Claim::Persistence);
    }
}
