//! Who is sent to whom for shared state, where something has failed before.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::MasterOutput;
use pccl_core::messages::ToPeer;
use pccl_core::shared_state::SyncRole;

use crate::claim::Claim;
use crate::run::Run;

/// Who could not fetch from one is sent to another, if there is one.
pub(super) fn sources(run: &mut Run<'_>, out: &[MasterOutput]) {
    let failed = &run.state.ghost.trouble.unfetched;
    if failed.is_empty() {
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
    let is_sent_back = plans().any(|(peer, plan)| {
        let SyncRole::Request {
            from: Some(from), ..
        } = &plan.role
        else {
            return false;
        };
        let has_failed = |holder: PeerId| failed.contains_key(&(peer, holder));
        has_failed(from.with) && !holders.iter().all(|holder| has_failed(*holder))
    });
    if is_sent_back {
        run.state.breaks(Claim::Avoidance);
    }
}
