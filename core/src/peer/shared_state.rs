//! Synchronizing: moving what the master planned, writing it only when everybody has it.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major};
use super::io::{Answer, CallError, PeerOutput, Synchronized};
use super::{Out, Step, answer, send};
use crate::id::{ContentHash, EntryIndex, PeerId, Revision, Round};
use crate::messages::ToMaster;
use crate::shared_state::{SyncFailure, SyncPlan, SyncRole};

/// A plan that the data plane carries out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunningPlan {
    round: Round,
    revision: Revision,
    fetched: Vec<(EntryIndex, ContentHash)>,
    /// What was reported; `None`: not over yet.
    reported: Option<bool>,
}

impl RunningPlan {
    fn of(plan: &SyncPlan) -> Self {
        let fetched = match &plan.role {
            SyncRole::Distribute { .. } => Vec::new(),
            SyncRole::Request { entries, .. } => entries.to_vec(),
        };
        Self {
            round: plan.round,
            revision: plan.revision,
            fetched,
            reported: None,
        }
    }

    pub(super) fn dropped(&self) -> PeerOutput {
        PeerOutput::DropState { round: self.round }
    }
}

impl Accepted {
    pub(super) fn plan(&mut self, plan: SyncPlan, out: &mut Out) -> Step {
        let Some(Major::Sync(running @ None)) = &mut self.major else {
            return Err(CallError::MasterMisbehaved);
        };
        *running = Some(RunningPlan::of(&plan));
        out.push(PeerOutput::MoveState(plan));
        Ok(())
    }

    pub(super) fn transfers_ended(
        &mut self,
        round: Round,
        ok: bool,
        with: Option<PeerId>,
        out: &mut Out,
    ) {
        if let Some(Major::Sync(Some(plan))) = &mut self.major
            && plan.round == round
            && plan.reported.is_none()
        {
            plan.reported = Some(ok);
            send(out, ToMaster::SharedStateDone { round, ok, with });
        }
    }

    pub(super) fn sync_concluded(
        &mut self,
        round: Round,
        result: Result<Revision, SyncFailure>,
        out: &mut Out,
    ) -> Step {
        let Some(Major::Sync(plan)) = &self.major else {
            return Err(CallError::MasterMisbehaved);
        };
        let is_sound = match (plan, &result) {
            // Without a plan nothing had to move, or the vote was refused.
            (None, Ok(_) | Err(_)) => true,
            (Some(plan), Err(_)) => plan.round == round,
            (Some(plan), Ok(revision)) => {
                plan.round == round && plan.revision == *revision && plan.reported == Some(true)
            }
        };
        if !is_sound {
            return Err(CallError::MasterMisbehaved);
        }
        let plan = match self.major.take() {
            Some(Major::Sync(plan)) => plan,
            Some(Major::Update | Major::Optimize(_)) | None => None,
        };
        answer_sync(plan, result, out);
        Ok(())
    }
}

fn answer_sync(plan: Option<RunningPlan>, result: Result<Revision, SyncFailure>, out: &mut Out) {
    let result = match result {
        Ok(revision) => {
            let fetched = plan.map_or_else(Vec::new, |plan| {
                let written = PeerOutput::CommitState { round: plan.round };
                out.push(rule!(written; FetchedStateDropped => plan.dropped()));
                plan.fetched
            });
            Ok(Synchronized { revision, fetched })
        }
        Err(failure) => {
            out.extend(plan.map(|plan| {
                rule!(plan.dropped(); FailedSyncWritten => PeerOutput::CommitState { round: plan.round })
            }));
            Err(CallError::SyncFailed(failure))
        }
    };
    answer(out, Some(Answer::Synchronized(result)));
}
