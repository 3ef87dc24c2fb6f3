//! Whether everybody shows that it lives, and is heard by those who watch it.

use std::time::Duration;

use pccl_core::id::PeerId;
use pccl_core::master::{MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{Call, PeerInput, PeerOutput, PeerPhase, PeerTimer, WELCOME_LIMIT};

use super::deadlines::Moment;
use super::source::Source;
use crate::claim::Claim;
use crate::prologue;
use crate::run::Run;
use crate::step::SeatNo;

impl<S: Source> Moment<'_, S> {
    /// Whoever says something has all the time again until its silence is noticed, and nobody else has. When
    /// they are due, everybody is given a sign of life.
    pub(super) fn who_speaks_lives(&self) -> bool {
        let (before, after) = (self.before.view(), self.after.view());
        let speaker = match self.heard {
            MasterInput::Message { peer, .. } => Some(*peer),
            _ => None,
        };
        let is_new = |peer: PeerId| before.peer(peer).is_none();
        let is_heard = speaker.is_none_or(|peer| {
            let stays = !is_new(peer) && after.peer(peer).is_some();
            !stays || self.begins(MasterTimer::Silence(peer))
        });
        let only_its_own = self.begun.iter().all(|(timer, _)| match timer {
            MasterTimer::Silence(peer) => is_new(*peer) || speaker == Some(*peer),
            _ => true,
        });
        let everybody = !self.out.iter().any(is_sign_of_life) && !self.is_due()
            || before.peers().all(|(peer, _)| self.is_given_a_sign(peer)) && self.is_due();
        is_heard && only_its_own && everybody
    }

    fn is_due(&self) -> bool {
        let due = MasterTimer::HeartbeatDue;
        *self.heard == MasterInput::TimerFired(due) && self.before.view().timers().any(|t| t == due)
    }

    fn is_given_a_sign(&self, to: PeerId) -> bool {
        let is_meant = |output: &MasterOutput| match output {
            MasterOutput::Send { peer, .. } => *peer == to && is_sign_of_life(output),
            _ => false,
        };
        self.out.iter().any(is_meant)
    }
}

fn is_sign_of_life(output: &MasterOutput) -> bool {
    matches!(
        output,
        MasterOutput::Send {
            message: ToPeer::Heartbeat,
            ..
        }
    )
}

/// What a peer does about an input.
pub(super) fn signs_of_life(run: &mut Run<'_>, no: SeatNo, heard: &PeerInput, out: &[PeerOutput]) {
    let broken = if !both_timers_run_while_connected(run, no, out) {
        Some(Claim::Watched)
    } else if !begin_anew_when_they_should(run, no, heard, out) {
        Some(Claim::SignsOfLife)
    } else if !who_is_out_hears_no_timer(run, no, out) {
        Some(Claim::Unmoved)
    } else {
        None
    };
    if let Some(claim) = broken {
        run.state.breaks(claim);
    }
}

/// While it is connected a peer watches its master, and gives signs of life from its welcome on.
fn both_timers_run_while_connected(run: &Run<'_>, no: SeatNo, out: &[PeerOutput]) -> bool {
    let seat = run.seat(no);
    let is_connected = |timer| match seat.peer.view().phase() {
        PeerPhase::AwaitingWelcome => timer == PeerTimer::MasterSilence,
        PeerPhase::Registered | PeerPhase::Accepted => true,
        PeerPhase::Unconnected | PeerPhase::Gone => false,
    };
    let runs = |timer| {
        let last = out.iter().rev().find_map(|output| match output {
            PeerOutput::StartTimer { timer: begun, .. } if *begun == timer => Some(true),
            PeerOutput::StopTimer(stopped) if *stopped == timer => Some(false),
            _ => None,
        });
        last.unwrap_or_else(|| seat.timers.contains(&timer))
    };
    let timers = [PeerTimer::HeartbeatDue, PeerTimer::MasterSilence];
    timers
        .into_iter()
        .all(|timer| runs(timer) == is_connected(timer))
}

/// Every message of the master, and nothing else, gives it all its time again; a sign of life is followed by
/// the wait for the next one, and says whether bytes have moved.
fn begin_anew_when_they_should(
    run: &Run<'_>,
    no: SeatNo,
    heard: &PeerInput,
    out: &[PeerOutput],
) -> bool {
    let seat = run.seat(no);
    let phase = seat.peer.view().phase();
    if phase == PeerPhase::Gone {
        return true;
    }
    let config = prologue::config(run.scenario);
    let begun = |timer: PeerTimer| -> Vec<Duration> {
        let begun = out.iter().filter_map(|output| match output {
            PeerOutput::StartTimer { timer: t, after } if *t == timer => Some(*after),
            _ => None,
        });
        begun.collect()
    };
    let said: Vec<bool> = out
        .iter()
        .filter_map(|output| match output {
            PeerOutput::Send(ToMaster::Heartbeat { moved }) => Some(*moved),
            _ => None,
        })
        .collect();
    let (silence, heartbeat, signs): (Option<Duration>, Option<Duration>, Option<bool>) =
        match heard {
            PeerInput::Call {
                what: Call::Connect,
                ..
            } if phase == PeerPhase::AwaitingWelcome => (Some(WELCOME_LIMIT), None, None),
            PeerInput::Message(message) => {
                let is_welcome = matches!(message, ToPeer::Welcome { .. });
                let heartbeat = is_welcome.then_some(config.heartbeat);
                (Some(config.silence), heartbeat, None)
            }
            PeerInput::TimerFired(PeerTimer::HeartbeatDue) => {
                let moved = seat.plane.is_at_work();
                (None, Some(config.heartbeat), Some(moved))
            }
            _ => (None, None, None),
        };
    begun(PeerTimer::MasterSilence) == Vec::from_iter(silence)
        && begun(PeerTimer::HeartbeatDue) == Vec::from_iter(heartbeat)
        && said == Vec::from_iter(signs)
}

/// A timer that fires when the peer is out of the run, as one may that expired together with that of its
/// master's silence, means nothing.
fn who_is_out_hears_no_timer(run: &Run<'_>, no: SeatNo, out: &[PeerOutput]) -> bool {
    if !out.contains(&PeerOutput::Close) {
        return true;
    }
    let mut later = run.seat(no).peer.clone();
    let mut said = Vec::new();
    for timer in [PeerTimer::HeartbeatDue, PeerTimer::MasterSilence] {
        later.handle(PeerInput::TimerFired(timer), &mut said);
    }
    said.is_empty()
}
