//! What each message of the master leads to. One that makes no sense ends the peer's part in the run.

use super::{Collective, End, Major, NONSENSE, Reference, Stage, only_if};
use crate::desk::*;

impl Reference {
    pub(super) fn hears(&mut self, message: &ToPeer) -> End {
        match message {
            ToPeer::Refused(why) => Err(CallError::Refused(why.clone())),
            ToPeer::Kicked(why) => Err(CallError::Kicked(why.clone())),
            ToPeer::Stopping => Err(CallError::MasterStopped),
            _ => match self.stage {
                Stage::Unconnected => NONSENSE,
                Stage::Greeting => self.is_welcomed(message),
                Stage::Registered => self.hears_before_admission(message),
                Stage::Accepted => self.hears_in_the_run(message),
                Stage::Gone(_) => Ok(()),
            },
        }
    }

    fn is_welcomed(&mut self, message: &ToPeer) -> End {
        only_if(*message == welcome())?;
        self.stage = Stage::Registered;
        Ok(())
    }

    fn hears_before_admission(&mut self, message: &ToPeer) -> End {
        match message {
            ToPeer::Heartbeat => Ok(()),
            ToPeer::EstablishLinks { .. } => self.is_ordered(message),
            ToPeer::TopologyEstablished { topology, layout } => {
                self.adopts(topology, layout)?;
                self.stage = Stage::Accepted;
                (self.fresh, self.rests) = (true, true);
                let (peer, topology) = (ME, topology.clone());
                self.answer(Answer::Connected(Ok(Joined { peer, topology })));
                Ok(())
            }
            _ => NONSENSE,
        }
    }

    fn hears_in_the_run(&mut self, message: &ToPeer) -> End {
        match message {
            ToPeer::Heartbeat => Ok(()),
            ToPeer::EstablishLinks { .. } => {
                only_if(self.may_get_a_ring())?;
                self.is_ordered(message)
            }
            ToPeer::TopologyEstablished { topology, layout } => {
                only_if(self.may_get_a_ring() && topology.epoch >= self.topology.epoch)?;
                self.adopts(topology, layout)?;
                if let Some(Major::Update) = self.major {
                    self.major = None;
                    self.answer(Answer::TopologyUpdated(Ok(topology.clone())));
                } else if self.rests {
                    self.fresh = true;
                }
                Ok(())
            }
            ToPeer::PeersPending { pending } => {
                only_if(std::mem::take(&mut self.asking))?;
                self.answer(Answer::PeersPending(Ok(*pending)));
                Ok(())
            }
            ToPeer::CallFailed(CallFailure::Conflict(conflict)) => self.gives_way(*conflict),
            ToPeer::Probe { round, probes } => self.is_to_measure(*round, probes),
            ToPeer::OptimizationConcluded { improved_or_kept } => {
                only_if(matches!(self.major, Some(Major::Optimize(_))))?;
                self.major = None;
                let result = match improved_or_kept {
                    true => Ok(self.topology.clone()),
                    false => Err(CallError::OptimizationFailed),
                };
                self.answer(Answer::TopologyOptimized(result));
                Ok(())
            }
            ToPeer::SharedStatePlan(plan) => {
                only_if(matches!(self.major, Some(Major::Sync(None))))?;
                self.major = Some(Major::Sync(Some((plan.clone(), None))));
                self.out.push(PeerOutput::MoveState(plan.clone()));
                Ok(())
            }
            ToPeer::SharedStateConcluded { round, result } => self.sync_ends(*round, result),
            ToPeer::Commence {
                tag,
                seq,
                algorithm,
            } => self.commences(*tag, *seq, *algorithm),
            ToPeer::CollectiveRefused { tag, reason } => self.is_refused(*tag, reason),
            ToPeer::Verdict { tag, seq, verdict } => self.is_decided(*tag, *seq, verdict),
            ToPeer::Welcome { .. } | ToPeer::Refused(_) | ToPeer::Kicked(_) | ToPeer::Stopping => {
                NONSENSE
            }
        }
    }

    fn gives_way(&mut self, conflict: Conflict) -> End {
        let why = CallError::Conflict(conflict);
        match self.major.take() {
            Some(Major::Update) => self.answer(Answer::TopologyUpdated(Err(why))),
            Some(Major::Optimize(_)) => self.answer(Answer::TopologyOptimized(Err(why))),
            Some(Major::Sync(plan)) => self.sync_fails(plan.as_ref(), why),
            None => return NONSENSE,
        }
        Ok(())
    }

    fn is_to_measure(&mut self, round: Round, probes: &[LaneOrder]) -> End {
        let Some(Major::Optimize(measuring)) = &mut self.major else {
            return NONSENSE;
        };
        if measuring.is_none_or(|(present, _)| present < round) {
            *measuring = Some((round, false));
            let probes = probes.to_vec();
            self.out.push(PeerOutput::Probe { round, probes });
        }
        Ok(())
    }

    /// Success is told only to who has its part; then what was fetched is written, else forgotten.
    fn sync_ends(&mut self, round: Round, result: &Result<Revision, SyncFailure>) -> End {
        let Some(Major::Sync(plan)) = &self.major else {
            return NONSENSE;
        };
        let plan = plan.clone();
        if let Some((plan, reported)) = &plan {
            only_if(plan.round == round)?;
            let is_mine =
                |revision: &Revision| plan.revision == *revision && *reported == Some(true);
            only_if(result.as_ref().map_or(true, is_mine))?;
        }
        self.major = None;
        match result {
            Err(failure) => {
                self.sync_fails(plan.as_ref(), CallError::SyncFailed(failure.clone()));
            }
            Ok(revision) => {
                let mut fetched = Vec::new();
                if let Some((plan, _)) = plan {
                    self.out.push(PeerOutput::CommitState { round: plan.round });
                    if let SyncRole::Request { entries, .. } = plan.role {
                        fetched = entries.to_vec();
                    }
                }
                let revision = *revision;
                self.answer(Answer::Synchronized(Ok(Synchronized { revision, fetched })));
            }
        }
        Ok(())
    }

    fn commences(&mut self, tag: Tag, seq: Seq, algorithm: Algorithm) -> End {
        let Some(Collective::Wanted { spec, cancelled }) = self.tags.get(&tag).cloned() else {
            return NONSENSE;
        };
        // Small, and no peer of these runs has links beside those of its ring.
        only_if(algorithm == Algorithm::Whole(Reach::Ring))?;
        if cancelled {
            self.votes(tag, seq, RingOutcome::Cancelled);
        } else {
            self.tags.insert(tag, Collective::Running(seq));
            self.out.push(PeerOutput::RunRing {
                tag,
                seq,
                spec,
                algorithm,
            });
        }
        Ok(())
    }

    fn is_refused(&mut self, tag: Tag, reason: &CollectiveRefusal) -> End {
        let Some(wanted @ Collective::Wanted { .. }) = self.tags.get(&tag).cloned() else {
            return NONSENSE;
        };
        self.tags.remove(&tag);
        let reason = reason.clone();
        let why = match reason {
            CollectiveRefusal::Conflict(conflict) => CallError::Conflict(conflict),
            _ => CallError::CollectiveRefused { tag, reason },
        };
        self.collective_fails(tag, &wanted, why);
        Ok(())
    }

    /// Nobody takes the frames of what is decided; of what was given up nobody does before.
    fn is_over(&mut self, tag: Tag, seq: Seq) {
        self.tags.insert(tag, Collective::Over(seq, false));
        if !self.given_up.remove(&tag) {
            self.out.push(PeerOutput::StopRing { seq });
        }
    }

    /// A commit is believed only by who has the whole result, and on no other ring than its own: all
    /// peers of that ring have contributed.
    fn is_decided(&mut self, tag: Tag, seq: Seq, verdict: &Verdict) -> End {
        let collective = match self.tags.get(&tag) {
            Some(Collective::Running(present) | Collective::Over(present, _))
                if *present == seq =>
            {
                self.tags[&tag].clone()
            }
            _ => return Ok(()),
        };
        match verdict {
            Verdict::Committed { epoch } => {
                only_if(collective == Collective::Over(seq, true))?;
                only_if(*epoch == self.topology.epoch)?;
                self.is_over(tag, seq);
                let contributors = self.topology.ring.0.clone();
                let result = Ok(Committed { seq, contributors });
                self.answer(Answer::CollectiveEnded { tag, result });
            }
            Verdict::Aborted(cause) => {
                let cause = *cause;
                self.is_over(tag, seq);
                let over = Collective::Over(seq, false);
                self.collective_fails(tag, &over, CallError::Aborted { tag, cause });
            }
        }
        self.tags.remove(&tag);
        Ok(())
    }
}
