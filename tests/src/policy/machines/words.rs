//! What a peer's machine hears and says, translated.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{CallId, ContentHash, Revision, Tag};
use pccl_core::messages::{CollectiveRefusal, PlanOutcome};
use pccl_core::peer::{Answer, Call, CallError, PeerInput};
use pccl_core::shared_state::{EntryInfo, SyncPlan, SyncRole, SyncStrategy, SyncVote};

use super::{Ask, Fact, Heard, Order, Trouble};

/// What the machine is told. `last`: the name of the last call.
pub(super) fn called(ask: Ask, last: CallId) -> PeerInput {
    let what = match ask {
        Ask::Connect => Call::Connect,
        Ask::Update => Call::UpdateTopology,
        Ask::Optimize => Call::OptimizeTopology,
        Ask::Sync {
            revision,
            content,
            bytes,
        } => Call::SyncSharedState(SyncVote {
            revision: Revision(revision),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: vec![EntryInfo {
                name: "weights".to_owned(),
                element: ElementType::U8,
                count: bytes,
                hash: ContentHash(content),
                allow_content_inequality: false,
            }],
        }),
        Ask::Reduce { tag, bytes } => Call::Initiate {
            tag: Tag(tag),
            spec: CollectiveSpec {
                kind: CollectiveKind::AllReduce,
                op: ReduceOp::Sum,
                element: ElementType::U8,
                count: bytes,
                quantization: Quantization::None,
                algorithm: None,
                ordered: false,
            },
        },
        Ask::Drop => return PeerInput::GiveUp { call: last },
        Ask::Leave => return PeerInput::Leave,
    };
    let call = last.next();
    PeerInput::Call { call, what }
}

pub(super) fn input_of(fact: Fact) -> PeerInput {
    match fact {
        Fact::LinkUp { round, link } => PeerInput::LinkUp { round, link },
        Fact::LinkFailed {
            round,
            link,
            failure,
        } => PeerInput::LinkFailed {
            round,
            link,
            failure,
        },
        Fact::LinkBroke { link, built } => PeerInput::LinkBroke { link, built },
        Fact::PlanEnded { seq, done } => {
            let outcome = if done {
                PlanOutcome::Done
            } else {
                PlanOutcome::LaneLost
            };
            PeerInput::PlanEnded { seq, outcome }
        }
        Fact::TransfersEnded { round, ok, with } => PeerInput::TransfersEnded { round, ok, with },
        Fact::Measured {
            round,
            to,
            measured,
        } => PeerInput::Measured {
            round,
            to,
            measured,
        },
        Fact::ProbesEnded(round) => PeerInput::ProbesEnded { round, ok: true },
    }
}

/// `None`: of a question that no program of the simulator asks.
pub(super) fn heard_of(answer: Answer) -> Option<Heard> {
    let result = match answer {
        Answer::Connected(result) => result.map(|_| Heard::Joined),
        Answer::TopologyUpdated(result) => result.map(|_| Heard::Updated),
        Answer::TopologyOptimized(result) => result.map(|_| Heard::Updated),
        Answer::PeersPending(_) => return None,
        Answer::Synchronized(result) => {
            result.map(|synchronized| Heard::Synchronized(synchronized.revision.0))
        }
        Answer::CollectiveEnded { result, .. } => {
            result.map(|committed| Heard::Reduced(committed.seq))
        }
    };
    Some(result.unwrap_or_else(|error| Heard::Failed(trouble_of(&error))))
}

/// As the client sorts errors: what may be called again, and what may not.
fn trouble_of(error: &CallError) -> Trouble {
    match error {
        CallError::Conflict(_)
        | CallError::CollectiveRefused {
            reason: CollectiveRefusal::Conflict(_),
            ..
        } => Trouble::Conflict,
        CallError::Aborted { .. }
        | CallError::OptimizationFailed
        | CallError::CollectiveRefused {
            reason: CollectiveRefusal::NotJoined { .. } | CollectiveRefusal::Withdrawn,
            ..
        } => Trouble::Again,
        CallError::SyncFailed(failure) if failure.is_retryable() => Trouble::Again,
        CallError::MasterLost
        | CallError::MasterStopped
        | CallError::MasterMisbehaved
        | CallError::Refused(_)
        | CallError::Kicked(_)
        | CallError::Left => Trouble::Over,
        other => Trouble::Final(other.to_string()),
    }
}

pub(super) fn part_of(plan: SyncPlan) -> Order {
    let round = plan.round;
    match plan.role {
        SyncRole::Distribute { to } => Order::Serve { round, to },
        SyncRole::Request { from, entries } => Order::Fetch {
            round,
            from: from.first().copied(),
            content: entries.iter().next().map(|(_, hash)| hash.0),
        },
    }
}
