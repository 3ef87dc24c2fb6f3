//! Whether a peer passes on what it heard: to its user what the master said, to the master what its driver
//! did.

use pccl_core::messages::{CallFailure, CollectiveRefusal, ToMaster, ToPeer};
use pccl_core::peer::{CallError, PeerInput, PeerOutput, PeerTimer};

use super::source::Source;
use crate::claim::Claim;

pub(super) fn passed_on(
    run: &mut impl Source,
    was_connected: bool,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    // Who is out of the run, and calls, is told once more what has ended it.
    let is_over = !was_connected && matches!(heard, PeerInput::Call { .. });
    let is_true = |output: &PeerOutput| match output {
        PeerOutput::Answer { answer, .. } => {
            is_over || answer.error().is_none_or(|why| is_told(heard, why))
        }
        PeerOutput::Send(message) => is_reported(heard, message),
        _ => true,
    };
    if !out.iter().all(is_true) {
        run.breaks(Claim::Reasons);
    }
}

/// The user is told what the master has said, or what has ended the run for the peer.
fn is_told(heard: &PeerInput, why: &CallError) -> bool {
    let message = match heard {
        PeerInput::Message(message) => Some(message),
        _ => None,
    };
    match why {
        // Checked with the verdicts, and with the users' programs.
        CallError::Aborted { .. } | CallError::Usage(_) => true,
        CallError::CollectiveRefused { tag, reason } => matches!(message,
            Some(ToPeer::CollectiveRefused { tag: of, reason: said })
                if of == tag && said == reason),
        CallError::Conflict(conflict) => match message {
            Some(ToPeer::CallFailed(CallFailure::Conflict(said))) => said == conflict,
            Some(ToPeer::CollectiveRefused {
                reason: CollectiveRefusal::Conflict(said),
                ..
            }) => said == conflict,
            _ => false,
        },
        CallError::SyncFailed(failure) => matches!(message,
            Some(ToPeer::SharedStateConcluded { result: Err(said), .. }) if said == failure),
        CallError::OptimizationFailed => matches!(
            message,
            Some(ToPeer::OptimizationConcluded { report: None })
        ),
        CallError::MasterLost => matches!(
            heard,
            PeerInput::MasterDisconnected | PeerInput::TimerFired(PeerTimer::MasterSilence)
        ),
        CallError::MasterStopped => matches!(message, Some(ToPeer::Stopping)),
        CallError::Refused(reason) => {
            matches!(message, Some(ToPeer::Refused(said)) if said == reason)
        }
        CallError::Kicked(misdeed) => {
            matches!(message, Some(ToPeer::Kicked(said)) if said == misdeed)
        }
        CallError::Left => *heard == PeerInput::Leave,
        // Another claim's.
        _ => true,
    }
}

/// The master is told what the driver has done.
fn is_reported(heard: &PeerInput, message: &ToMaster) -> bool {
    let said = match message {
        ToMaster::LinkUp { round, link } => PeerInput::LinkUp {
            round: *round,
            link: *link,
        },
        ToMaster::LinkFailed {
            round,
            link,
            failure,
        } => PeerInput::LinkFailed {
            round: *round,
            link: *link,
            failure: *failure,
        },
        // Nobody moves what was given up.
        ToMaster::SharedStateDone {
            ok: false,
            with: None,
            ..
        } if is_for_nobody(heard) => return true,
        ToMaster::SharedStateDone { round, ok, with } => PeerInput::TransfersEnded {
            round: *round,
            ok: *ok,
            with: *with,
        },
        ToMaster::Measured {
            round,
            to,
            measured,
        } => PeerInput::Measured {
            round: *round,
            to: *to,
            measured: *measured,
        },
        ToMaster::ProbesDone { round, ok } => PeerInput::ProbesEnded {
            round: *round,
            ok: *ok,
        },
        _ => return true,
    };
    said == *heard
}

/// Whether a synchronization is given up, or a plan comes for one that was.
fn is_for_nobody(heard: &PeerInput) -> bool {
    matches!(
        heard,
        PeerInput::GiveUp { .. } | PeerInput::Message(ToPeer::SharedStatePlan(_))
    )
}
