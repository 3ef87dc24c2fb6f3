//! What the user may call, and what it opens.

use super::{Collective, End, Major, Reference, Stage};
use crate::desk::*;

impl Reference {
    pub(super) fn call(&mut self, call: &Call) -> End {
        if let Stage::Gone(why) = &self.stage {
            let why = why.clone();
            self.fails_at_once(call, why);
        } else if *call == Call::Leave {
            return Err(CallError::Left);
        } else if let Some(usage) = self.misuse(call) {
            self.fails_at_once(call, CallError::Usage(usage));
        } else {
            self.opens(call);
        }
        Ok(())
    }

    fn fails_at_once(&mut self, call: &Call, why: CallError) {
        match call {
            Call::Connect => self.answer(Answer::Connected(Err(why))),
            Call::UpdateTopology => self.answer(Answer::TopologyUpdated(Err(why))),
            Call::ArePeersPending => self.answer(Answer::PeersPending(Err(why))),
            Call::OptimizeTopology => self.answer(Answer::TopologyOptimized(Err(why))),
            Call::SyncSharedState(_) => self.answer(Answer::Synchronized(Err(why))),
            Call::Initiate { tag, .. } => {
                let (tag, result) = (*tag, Err(why));
                self.answer(Answer::CollectiveEnded { tag, result });
            }
            Call::Cancel { .. } | Call::Leave => {}
        }
    }

    fn misuse(&self, call: &Call) -> Option<Usage> {
        let is_connect = *call == Call::Connect;
        match self.stage {
            Stage::Unconnected => return (!is_connect).then_some(Usage::NotConnected),
            Stage::Greeting | Stage::Registered if !is_connect => return Some(Usage::NotConnected),
            _ => {}
        }
        match call {
            Call::Connect => Some(Usage::AlreadyConnected),
            Call::ArePeersPending => self.asking.then_some(Usage::QueryPending),
            Call::Cancel { .. } | Call::Leave => None,
            _ if self.major.is_some() => Some(Usage::Busy),
            Call::Initiate { tag, .. } => {
                let in_use = self.tags.contains_key(tag);
                in_use.then_some(Usage::TagInUse(*tag))
            }
            Call::UpdateTopology | Call::OptimizeTopology | Call::SyncSharedState(_) => {
                (!self.tags.is_empty()).then_some(Usage::PendingCollectives)
            }
        }
    }

    fn opens(&mut self, call: &Call) {
        let was_fresh = self.fresh;
        let asks = matches!(call, Call::ArePeersPending | Call::Cancel { .. });
        self.fresh &= asks;
        self.rests &= asks || (was_fresh && *call == Call::UpdateTopology);
        let broken = self.broken();
        match call {
            Call::Connect => {
                self.stage = Stage::Greeting;
                self.send(ToMaster::Hello(Hello {
                    protocol: ProtocolVersion::CURRENT,
                    group: GroupId(0),
                    port: 48149,
                    advertise: None,
                    lanes: 2,
                }));
            }
            // The update that admitted it was its own.
            Call::UpdateTopology if was_fresh => {
                self.answer(Answer::TopologyUpdated(Ok(self.topology.clone())));
            }
            Call::UpdateTopology => {
                self.major = Some(Major::Update);
                let epoch = self.topology.epoch;
                self.send(ToMaster::UpdateTopology { epoch, broken });
            }
            Call::ArePeersPending => {
                self.asking = true;
                self.send(ToMaster::ArePeersPending);
            }
            Call::OptimizeTopology => {
                self.major = Some(Major::Optimize(None));
                self.send(ToMaster::OptimizeTopology);
            }
            Call::SyncSharedState(vote) => {
                self.major = Some(Major::Sync(None));
                self.send(ToMaster::SyncSharedState(vote.clone()));
            }
            Call::Initiate { tag, spec } => {
                let (tag, spec, cancelled) = (*tag, *spec, false);
                self.tags
                    .insert(tag, Collective::Wanted { spec, cancelled });
                let epoch = self.topology.epoch;
                self.send(ToMaster::InitiateCollective {
                    tag,
                    spec,
                    epoch,
                    broken,
                });
            }
            Call::Cancel { tag } => self.cancel(*tag),
            Call::Leave => {}
        }
    }

    fn cancel(&mut self, tag: Tag) {
        match self.tags.get_mut(&tag) {
            Some(Collective::Wanted { cancelled, .. }) => {
                let asked_before = std::mem::replace(cancelled, true);
                if !asked_before {
                    self.send(ToMaster::Withdraw { tag });
                }
            }
            Some(Collective::Running(seq)) => {
                let seq = *seq;
                self.votes(tag, seq, RingOutcome::Cancelled);
            }
            Some(Collective::Over(..)) | None => {}
        }
    }

    pub(super) fn votes(&mut self, tag: Tag, seq: Seq, outcome: RingOutcome) {
        if outcome == RingOutcome::Cancelled {
            self.given_up.insert(tag);
            self.out.push(PeerOutput::StopRing { seq });
        }
        let is_whole = outcome == RingOutcome::Done;
        self.tags.insert(tag, Collective::Over(seq, is_whole));
        let broken = self.broken();
        self.send(ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        });
    }
}
