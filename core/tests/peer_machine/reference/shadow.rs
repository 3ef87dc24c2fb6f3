//! The comparison with a real peer after every input.

use std::time::Duration;

use super::Reference;
use crate::desk::*;

/// Follows a peer and objects at the first difference from what it should do.
pub(crate) struct Shadow {
    reference: Reference,
    /// Whether the timers run: the sign of life that the peer owes, and the one that it expects.
    timers: (bool, bool),
}

impl Shadow {
    /// Follows a peer that has called nothing.
    pub(crate) fn new() -> Self {
        Self {
            reference: Reference::new(),
            timers: (false, false),
        }
    }

    /// Panics where the peer did anything else about the input than the reference says.
    pub(crate) fn follow(&mut self, input: &PeerInput, peer: &Peer, out: &[PeerOutput]) {
        let hears = matches!(
            (input, peer.view().phase()),
            (
                PeerInput::Message(_),
                PeerPhase::Registered | PeerPhase::Accepted
            )
        );
        let restarted = out.contains(&PeerOutput::StartTimer {
            timer: PeerTimer::MasterSilence,
            after: Duration::from_secs(5),
        });
        assert!(
            !hears || restarted,
            "a sign of life is not noticed: {input:?}"
        );
        let (mut done, mut expected) = (Vec::new(), self.reference.take(input));
        if let PeerInput::TimerFired(timer) = input {
            *self.timer(*timer) = false;
        }
        for output in out {
            match output {
                PeerOutput::StartTimer { timer, .. } => *self.timer(*timer) = true,
                PeerOutput::StopTimer(timer) => *self.timer(*timer) = false,
                _ => done.push(output.clone()),
            }
        }
        check_order(&done);
        // In which order several calls are answered is the peer's choice.
        done.sort_by_cached_key(|output| format!("{output:?}"));
        expected.sort_by_cached_key(|output| format!("{output:?}"));
        assert_eq!(done, expected, "what the peer does (left) about {input:?}");
        assert_eq!(
            self.timers,
            self.reference.timers(),
            "timers after {input:?}"
        );
        assert_eq!(
            peer.view().rests(),
            self.reference.rests(),
            "rest after {input:?}"
        );
    }

    fn timer(&mut self, timer: PeerTimer) -> &mut bool {
        match timer {
            PeerTimer::HeartbeatDue => &mut self.timers.0,
            PeerTimer::MasterSilence => &mut self.timers.1,
        }
    }
}

/// Whoever is answered finds everything done that its call led to, and nothing comes after the end.
fn check_order(done: &[PeerOutput]) {
    let is_answer = |output: &&PeerOutput| matches!(output, PeerOutput::Answer { .. });
    let is_work = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::AdoptRing { .. }
                | PeerOutput::StopPlan { .. }
                | PeerOutput::CommitState { .. }
                | PeerOutput::DropState { .. }
        )
    };
    let first_answer = done.iter().position(|output| is_answer(&output));
    let after = done[first_answer.unwrap_or(done.len())..].iter();
    assert!(!after.clone().any(is_work), "answered too early: {done:?}");
    let closed = done.iter().position(|output| *output == PeerOutput::Close);
    assert!(closed.is_none_or(|at| at + 1 == done.len()), "{done:?}");
}
