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
            ToPeer::Awaited(awaited) => {
                self.out.push(PeerOutput::Awaited(awaited.clone()));
                Ok(())
            }
            ToPeer::EstablishLinks { .. } => self.is_ordered(message),
            ToPeer::TopologyEstablished { topology, layout } => {
                self.adopts(topology, layout)?;
                self.stage = Stage::Accepted;
                (self.fresh, self.rests) = (true, true);
                let (peer, topology) = (ME, topology.clone());
                let connecting = self.connecting.take();
                self.answer(connecting, Answer::Connected(Ok(Joined { peer, topology })));
                Ok(())
            }
            _ => NONSENSE,
        }
    }

    fn hears_in_the_run(&mut self, message: &ToPeer) -> End {
        match message {
            ToPeer::Heartbeat => Ok(()),
            ToPeer::Awaited(awaited) => {
                self.out.push(PeerOutput::Awaited(awaited.clone()));
                Ok(())
            }
            ToPeer::EstablishLinks { .. } => {
                only_if(self.may_get_a_ring())?;
                self.is_ordered(message)?;
                self.measures_no_more();
                Ok(())
            }
            ToPeer::TopologyEstablished { topology, layout } => {
                only_if(self.may_get_a_ring() && topology.epoch >= self.topology.epoch)?;
                self.adopts(topology, layout)?;
                self.measures_no_more();
                if let Some(Major::Update) = self.major {
                    self.major = None;
                    let caller = self.in_major.take();
                    self.answer(caller, Answer::TopologyUpdated(Ok(topology.clone())));
                } else if self.rests {
                    self.fresh = true;
                }
                Ok(())
            }
            ToPeer::PeersPending { pending } => {
                only_if(self.asking.is_some())?;
                let caller = self.asking.take().flatten();
                self.answer(caller, Answer::PeersPending(Ok(*pending)));
                Ok(())
            }
            ToPeer::CallFailed(CallFailure::Conflict(conflict)) => self.gives_way(*conflict),
            ToPeer::Probe { round, probes } => self.is_to_measure(*round, probes),
            ToPeer::OptimizationConcluded { report } => {
                only_if(matches!(self.major, Some(Major::Optimize(_))))?;
                self.measures_no_more();
                self.major = None;
                let result = match report.clone() {
                    Some(report) => Ok(Optimized {
                        topology: self.topology.clone(),
                        report,
                    }),
                    None => Err(CallError::OptimizationFailed),
                };
                let caller = self.in_major.take();
                self.answer(caller, Answer::TopologyOptimized(result));
                Ok(())
            }
            ToPeer::SharedStatePlan(plan) => {
                only_if(matches!(self.major, Some(Major::Sync(None))))?;
                let plan = plan.clone();
                let reported = self.in_major.is_none().then_some(false);
                self.major = Some(Major::Sync(Some((plan.clone(), reported))));
                match self.in_major {
                    Some(call) => self.out.push(PeerOutput::MoveState { call, plan }),
                    None => self.cannot_move(plan.round),
                }
                Ok(())
            }
            ToPeer::SharedStateConcluded { round, result } => self.sync_ends(*round, result),
            ToPeer::Commence {
                tag,
                seq,
                algorithm,
                lengths,
                total_weight,
            } => self.commences((*tag, *seq), *algorithm, (lengths, *total_weight)),
            ToPeer::CollectiveRefused { tag, reason } => self.is_refused(*tag, reason),
            ToPeer::Verdict { tag, seq, verdict } => self.is_decided(*tag, *seq, verdict),
            ToPeer::Welcome { .. } | ToPeer::Refused(_) | ToPeer::Kicked(_) | ToPeer::Stopping => {
                NONSENSE
            }
        }
    }

    fn gives_way(&mut self, conflict: Conflict) -> End {
        only_if(self.major_fails(&CallError::Conflict(conflict)))
    }

    /// Another ring, and the end of the search for one, leave no time to measure.
    pub(super) fn measures_no_more(&mut self) {
        if let Some(Major::Optimize(Some((round, over @ false)))) = &mut self.major {
            *over = true;
            let round = *round;
            self.out.push(PeerOutput::StopProbes { round });
        }
    }

    fn is_to_measure(&mut self, round: Round, probes: &[LinkOrder]) -> End {
        let name = |order: &LinkOrder| (order.way == Way::In, order.lanes.with);
        only_if(probes.is_sorted_by(|one, next| name(one) < name(next)))?;
        only_if((probes.iter()).all(|order| order.lanes.with != ME && order.lanes.lanes > 0))?;
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
        match result {
            Err(failure) => {
                self.major_fails(&CallError::SyncFailed(failure.clone()));
            }
            Ok(revision) => {
                self.major = None;
                let caller = self.in_major.take();
                let mut fetched = Vec::new();
                if let Some((plan, _)) = plan.filter(|_| caller.is_some()) {
                    self.out.push(PeerOutput::CommitState { round: plan.round });
                    if let SyncRole::Request { entries, .. } = plan.role {
                        fetched = entries.to_vec();
                    }
                }
                let revision = *revision;
                let synchronized = Synchronized { revision, fetched };
                self.answer(caller, Answer::Synchronized(Ok(synchronized)));
            }
        }
        Ok(())
    }

    fn commences(
        &mut self,
        (tag, seq): (Tag, Seq),
        algorithm: Algorithm,
        (lengths, total_weight): (&Lengths, u64),
    ) -> End {
        self.repeat = None;
        self.stops_all_but(Some(seq));
        let is_ahead = |wanted: &Collective| matches!(wanted, Collective::Wanted { ahead: Some((other, _)), .. } if other.seq == seq);
        only_if(
            self.tags
                .iter()
                .all(|(other, wanted)| *other == tag || !is_ahead(wanted)),
        )?;
        let Some(Collective::Wanted { spec, ahead }) = self.tags.get(&tag).cloned() else {
            return NONSENSE;
        };
        only_if(self.has_links_for(algorithm))?;
        // And all have buffers of one length, and no weights.
        only_if(lengths.0.is_empty() && total_weight == 0)?;
        if let Some((reserved, _)) = ahead {
            only_if(reserved.algorithm == algorithm)?;
        }
        let caller = self.wanted.get(&tag).copied();
        if let Some((_, Some(PlanOutcome::Done))) = ahead {
            // It has said so.
            self.tags.insert(tag, Collective::Over(seq, true));
            let confirm = caller.map(|call| PeerOutput::Confirm { call, seq });
            self.out.extend(confirm);
        } else if let Some(call) = caller {
            self.tags.insert(tag, Collective::Running(seq));
            if let Some((_, ended)) = ahead {
                self.out.push(PeerOutput::Confirm { call, seq });
                match ended {
                    None => {}
                    Some(PlanOutcome::Cancelled) => {
                        self.says_how_it_ended(tag, seq, PlanOutcome::Cancelled)
                    }
                    Some(ended) => self.votes(tag, seq, ended),
                }
                return Ok(());
            }
            self.out.push(PeerOutput::RunPlan {
                call,
                tag,
                seq,
                spec,
                lengths: Lengths::NONE,
                algorithm,
                ahead: false,
            });
        } else {
            self.votes(tag, seq, PlanOutcome::Cancelled);
        }
        Ok(())
    }

    /// Whether what is small can go this way. Which of several it takes, the master chooses.
    fn has_links_for(&self, algorithm: Algorithm) -> bool {
        let Ring(ring) = &self.topology.ring;
        let mut others = ring.iter().filter(|peer| **peer != ME);
        match algorithm {
            Algorithm::Ring | Algorithm::Whole(Pattern::Ring) => true,
            Algorithm::Direct if ring.len() > 2 => others.all(|peer| {
                let links = [to(peer.0), from(peer.0)];
                links.iter().all(|link| self.links.contains_key(link))
            }),
            _ => false,
        }
    }

    fn is_refused(&mut self, tag: Tag, reason: &CollectiveRefusal) -> End {
        let Some(wanted @ Collective::Wanted { .. }) = self.tags.get(&tag).cloned() else {
            return NONSENSE;
        };
        self.tags.remove(&tag);
        self.repeat = None;
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
        if !self.stopped.remove(&tag) {
            self.out.push(PeerOutput::StopPlan { seq });
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
            Verdict::Committed { epoch, next } => {
                only_if(collective == Collective::Over(seq, true))?;
                only_if(*epoch == self.topology.epoch)?;
                if let Some(reserved) = *next {
                    let is_possible = self.has_links_for(reserved.algorithm);
                    only_if(reserved.seq > seq && is_possible)?;
                    self.repeat = Some((tag, self.specs[&tag], reserved));
                }
                self.is_over(tag, seq);
                let contributors = self.topology.ring.0.clone();
                let result = Ok(Committed { seq, contributors });
                let caller = self.wanted.remove(&tag);
                self.answer(caller, Answer::CollectiveEnded { tag, result });
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
