//! What the data plane says. What it says about something that is over means nothing.

use pccl_core::shared_state::SyncRole;

use super::{Collective, Major, Reference};
use crate::desk::*;

impl Reference {
    pub(super) fn plan_ended(&mut self, seq: Seq, outcome: PlanOutcome) {
        let running = |tag: &&Tag| self.tags[tag] == Collective::Running(seq);
        if let Some(tag) = self.tags.keys().find(running).copied() {
            self.votes(tag, seq, outcome);
            return;
        }
        let begun = self.tags.values_mut().find_map(|tag| match tag {
            Collective::Wanted {
                ahead: Some((reserved, ended @ None)),
                ..
            } if reserved.seq == seq => Some(ended),
            _ => None,
        });
        let Some(ended) = begun else {
            return;
        };
        *ended = Some(outcome);
        match outcome {
            // Whoever has the result need not wait to say so.
            PlanOutcome::Done => self.tells_how_it_ended(seq, outcome),
            PlanOutcome::LaneLost => {}
            PlanOutcome::Cancelled => self.out.push(PeerOutput::StopPlan { seq }),
        }
    }

    pub(super) fn data_plane_is_done(&mut self, input: &PeerInput) {
        let message = match (&mut self.major, input) {
            (
                Some(Major::Sync(Some((plan, reported @ None)))),
                PeerInput::TransfersEnded { round, ok, with },
            ) if plan.round == *round => {
                // Whom it could not serve, others may have served.
                let serves = matches!(plan.role, SyncRole::Distribute { .. });
                *reported = Some(*ok || (serves && with.is_some()));
                let (round, ok, with) = (*round, *ok, *with);
                ToMaster::SharedStateDone { round, ok, with }
            }
            (
                Some(Major::Optimize(Some((present, false)))),
                PeerInput::Measured {
                    round,
                    to,
                    measured,
                },
            ) if present == round => {
                let (round, to, measured) = (*round, *to, *measured);
                ToMaster::Measured {
                    round,
                    to,
                    measured,
                }
            }
            (
                Some(Major::Optimize(Some((present, over @ false)))),
                PeerInput::ProbesEnded { round, ok },
            ) if present == round => {
                *over = true;
                let (round, ok) = (*round, *ok);
                ToMaster::ProbesDone { round, ok }
            }
            _ => return,
        };
        self.send(message);
    }
}
