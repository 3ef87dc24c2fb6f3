//! Synchronizing: moving shared state by the master's plan, and writing it only after all peers have it.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major, OpenMajor};
use super::admission::Caller;
use super::io::{Answer, CallError, PeerOutput, Synchronized};
use super::{Out, Step, send};
use crate::id::{ContentHash, EntryIndex, PeerId, Revision, Round};
use crate::messages::ToMaster;
use crate::shared_state::{SyncFailure, SyncPlan, SyncRole};

/// A plan that the data plane executes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunningPlan {
    round: Round,
    revision: Revision,
    fetched: Vec<(EntryIndex, ContentHash)>,
    serves: bool,
    /// `None`: not over yet.
    reported: Option<Reported>,
}

/// The report of this peer's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reported {
    Done,
    /// It could not serve a peer, which may have fetched from others.
    Unserved,
    Failed,
}

impl Reported {
    /// Whether the group may still succeed.
    fn may_succeed(self) -> bool {
        match self {
            Self::Done => true,
            Self::Unserved => rule!(true; UnservedForbidsSuccess => false),
            Self::Failed => false,
        }
    }
}

impl RunningPlan {
    fn of(plan: &SyncPlan) -> Self {
        let (serves, fetched) = match &plan.role {
            SyncRole::Distribute { .. } => (true, Vec::new()),
            SyncRole::Request { entries, .. } => (false, entries.to_vec()),
        };
        Self {
            round: plan.round,
            revision: plan.revision,
            fetched,
            serves,
            reported: None,
        }
    }

    /// Drops the fetched content, unless that happened when the caller gave up.
    pub(super) fn dropped(&self, caller: Caller) -> Option<PeerOutput> {
        let round = self.round;
        (!caller.has_gone()).then_some(PeerOutput::DropState { round })
    }

    /// Reports the end of the transfers, once.
    fn report(&mut self, ok: bool, with: Option<PeerId>, out: &mut Out) {
        if self.reported.is_none() {
            self.reported = Some(match (ok, with) {
                (true, _) => Reported::Done,
                (false, Some(_)) if self.serves => Reported::Unserved,
                (false, Some(_) | None) => Reported::Failed,
            });
            let round = self.round;
            send(out, ToMaster::SharedStateDone { round, ok, with });
        }
    }
}

impl Accepted {
    pub(super) fn plan(&mut self, plan: SyncPlan, out: &mut Out) -> Step {
        let Some(OpenMajor {
            caller,
            what: Major::Sync(running @ None),
        }) = &mut self.major
        else {
            return Err(CallError::MasterMisbehaved);
        };
        let ordered = running.insert(RunningPlan::of(&plan));
        match caller.call() {
            Some(call) => out.push(PeerOutput::MoveState { call, plan }),
            // The others must not wait for what nobody moves.
            None => rule!(ordered.report(false, None, out); PlanOfNobodyIgnored => {}),
        }
        Ok(())
    }

    pub(super) fn transfers_ended(
        &mut self,
        round: Round,
        ok: bool,
        with: Option<PeerId>,
        out: &mut Out,
    ) {
        if let Some(plan) = self.running_plan()
            && plan.round == round
        {
            plan.report(ok, with, out);
        }
    }

    /// The caller has given up a synchronization: its transfers fail, and nothing is kept.
    pub(super) fn leave_transfers(&mut self, out: &mut Out) {
        if let Some(plan) = self.running_plan() {
            let round = plan.round;
            out.push(PeerOutput::DropState { round });
            rule!(plan.report(false, None, out); GivenUpTransfersUnreported => {});
        }
    }

    fn running_plan(&mut self) -> Option<&mut RunningPlan> {
        match &mut self.major.as_mut()?.what {
            Major::Sync(plan) => plan.as_mut(),
            Major::Update | Major::Optimize(_) => None,
        }
    }

    pub(super) fn sync_concluded(
        &mut self,
        round: Round,
        result: Result<Revision, SyncFailure>,
        out: &mut Out,
    ) -> Step {
        let Some(major) = self
            .major
            .take_if(|major| major.may_conclude(round, &result))
        else {
            return Err(CallError::MasterMisbehaved);
        };
        major.concludes_sync(result, out);
        Ok(())
    }
}

impl OpenMajor {
    /// Whether a synchronization may end with this result.
    fn may_conclude(&self, round: Round, result: &Result<Revision, SyncFailure>) -> bool {
        let Major::Sync(plan) = &self.what else {
            return false;
        };
        match (plan, result) {
            // Without a plan nothing had to move, or the vote was refused.
            (None, Ok(_) | Err(_)) => true,
            (Some(plan), Err(_)) => plan.round == round,
            (Some(plan), Ok(revision)) => {
                let may_succeed = plan.reported.is_some_and(Reported::may_succeed);
                plan.round == round && plan.revision == *revision && may_succeed
            }
        }
    }

    fn concludes_sync(self, result: Result<Revision, SyncFailure>, out: &mut Out) {
        let Self { caller, what } = self;
        let plan = match what {
            // What its caller has given up was dropped then.
            Major::Sync(plan) => plan.filter(|_| !caller.has_gone()),
            Major::Update | Major::Optimize(_) => None,
        };
        let result = match result {
            Ok(revision) => {
                let fetched = plan.map_or_else(Vec::new, |plan| {
                    let round = plan.round;
                    out.push(rule!(
                        PeerOutput::CommitState { round };
                        FetchedStateDropped => PeerOutput::DropState { round }
                    ));
                    plan.fetched
                });
                Ok(Synchronized { revision, fetched })
            }
            Err(failure) => {
                let round = plan.map(|plan| plan.round);
                out.extend(round.map(|round| {
                    rule!(
                        PeerOutput::DropState { round };
                        FailedSyncWritten => PeerOutput::CommitState { round }
                    )
                }));
                Err(CallError::SyncFailed(failure))
            }
        };
        caller.is_told(Answer::Synchronized(result), out);
    }
}
