//! What the user may call, what it opens, and what it leaves when it gives a call up.

use super::{Collective, End, Major, Reference, Stage};
use crate::desk::*;

impl Reference {
    pub(super) fn call(&mut self, name: CallId, call: &Call) -> End {
        if let Stage::Gone(why) = &self.stage {
            let why = why.clone();
            self.fails_at_once(name, call, why);
        } else if let Some(usage) = self.misuse(call) {
            self.fails_at_once(name, call, CallError::Usage(usage));
        } else if !self.is_answered_by_what_runs(name, call) {
            self.waiting.push((name, call.clone()));
        }
        Ok(())
    }

    pub(super) fn leaves(&self) -> End {
        match self.stage {
            Stage::Gone(_) => Ok(()),
            _ => Err(CallError::Left),
        }
    }

    pub(super) fn fails_at_once(&mut self, name: CallId, call: &Call, why: CallError) {
        let answer = match call {
            Call::Connect => Answer::Connected(Err(why)),
            Call::UpdateTopology => Answer::TopologyUpdated(Err(why)),
            Call::ArePeersPending => Answer::PeersPending(Err(why)),
            Call::OptimizeTopology => Answer::TopologyOptimized(Err(why)),
            Call::SyncSharedState(_) => Answer::Synchronized(Err(why)),
            Call::Initiate { tag, .. } => {
                let (tag, result) = (*tag, Err(why));
                Answer::CollectiveEnded { tag, result }
            }
        };
        self.answer(Some(name), answer);
    }

    /// Whether a collective of this tag, or of any, is wanted: in flight or waiting.
    fn is_wanted(&self, of: Option<Tag>) -> bool {
        let is_meant = |tag: &Tag| of.is_none_or(|of| of == *tag);
        let waits = self.waiting.iter().any(|(_, call)| match call {
            Call::Initiate { tag, .. } => is_meant(tag),
            _ => false,
        });
        waits || self.wanted.keys().any(is_meant)
    }

    fn misuse(&self, call: &Call) -> Option<Usage> {
        let is_connect = *call == Call::Connect;
        match self.stage {
            Stage::Unconnected => return (!is_connect).then_some(Usage::NotConnected),
            Stage::Greeting | Stage::Registered if !is_connect => return Some(Usage::NotConnected),
            _ => {}
        }
        let is_collective = |call: &Call| matches!(call, Call::Initiate { .. });
        let major_waits = self.waiting.iter().any(|(_, call)| !is_collective(call));
        let in_major = major_waits || (self.major.is_some() && self.in_major.is_some());
        match call {
            Call::Connect => Some(Usage::AlreadyConnected),
            Call::ArePeersPending => {
                matches!(self.asking, Some(Some(_))).then_some(Usage::QueryPending)
            }
            _ if in_major => Some(Usage::Busy),
            Call::Initiate { tag, .. } => {
                let in_use = self.is_wanted(Some(*tag));
                in_use.then_some(Usage::TagInUse(*tag))
            }
            Call::UpdateTopology | Call::OptimizeTopology | Call::SyncSharedState(_) => {
                self.is_wanted(None).then_some(Usage::PendingCollectives)
            }
        }
    }

    /// What was given up, and goes on, answers a call that asks for the same.
    fn is_answered_by_what_runs(&mut self, name: CallId, call: &Call) -> bool {
        match (call, &self.major, &mut self.asking) {
            (Call::UpdateTopology, Some(Major::Update), _)
            | (Call::OptimizeTopology, Some(Major::Optimize(_)), _) => self.in_major = Some(name),
            (Call::ArePeersPending, _, Some(asking)) => *asking = Some(name),
            _ => return false,
        }
        true
    }

    /// Starts what waits, as far as it may: the first calls first.
    pub(super) fn starts_what_waits(&mut self) {
        for (name, call) in std::mem::take(&mut self.waiting) {
            let may_start = match &call {
                Call::Connect | Call::ArePeersPending => true,
                Call::UpdateTopology | Call::OptimizeTopology | Call::SyncSharedState(_) => {
                    self.major.is_none() && self.tags.is_empty()
                }
                Call::Initiate { tag, .. } => {
                    let is_free = self.major.is_none() && !self.tags.contains_key(tag);
                    is_free && self.tags.len() < usize::from(COLLECTIVES_AT_ONCE)
                }
            };
            match may_start {
                true => self.opens(name, &call),
                false => self.waiting.push((name, call)),
            }
        }
    }

    fn opens(&mut self, name: CallId, call: &Call) {
        let was_fresh = self.fresh;
        let asks = matches!(call, Call::ArePeersPending);
        self.fresh &= asks;
        self.rests &= asks || (was_fresh && *call == Call::UpdateTopology);
        let broken = self.broken();
        match call {
            Call::Connect => {
                self.stage = Stage::Greeting;
                self.connecting = Some(name);
                self.send(ToMaster::Hello(Hello {
                    protocol: ProtocolVersion::CURRENT,
                    group: GroupId(0),
                    port: 48149,
                    advertise: None,
                    lanes: 2,
                    site: site_of(ME.0),
                    name: Default::default(),
                }));
            }
            // The update that admitted it was its own.
            Call::UpdateTopology if was_fresh => {
                let topology = self.topology.clone();
                self.answer(Some(name), Answer::TopologyUpdated(Ok(topology)));
            }
            Call::UpdateTopology => {
                self.begins(name, Major::Update);
                let epoch = self.topology.epoch;
                self.send(ToMaster::UpdateTopology { epoch, broken });
            }
            Call::ArePeersPending => {
                self.asking = Some(Some(name));
                self.send(ToMaster::ArePeersPending);
            }
            Call::OptimizeTopology => {
                self.begins(name, Major::Optimize(None));
                self.send(ToMaster::OptimizeTopology);
            }
            Call::SyncSharedState(vote) => {
                self.begins(name, Major::Sync(None));
                self.send(ToMaster::SyncSharedState(vote.clone()));
            }
            Call::Initiate { tag, spec } => {
                let (tag, spec) = (*tag, *spec);
                let repeated = self.repeat.take_if(|(repeated, ..)| *repeated == tag);
                let may = self.tags.is_empty() && broken.0.is_empty();
                let repeated = repeated.filter(|(_, before, _)| may && *before == spec);
                let ahead = repeated.map(|(.., reserved)| (reserved, None));
                self.tags.insert(tag, Collective::Wanted { spec, ahead });
                self.specs.insert(tag, spec);
                self.wanted.insert(tag, name);
                if let Some((Reserved { seq, algorithm }, _)) = ahead {
                    self.out.push(PeerOutput::RunPlan {
                        call: name,
                        tag,
                        seq,
                        spec,
                        lengths: Lengths::NONE,
                        algorithm,
                        ahead: true,
                    });
                }
                let epoch = self.topology.epoch;
                self.send(ToMaster::InitiateCollective {
                    tag,
                    spec,
                    epoch,
                    broken,
                });
            }
        }
    }

    fn begins(&mut self, name: CallId, major: Major) {
        (self.in_major, self.major) = (Some(name), Some(major));
    }

    /// Nobody wants this any more.
    pub(super) fn is_given_up(&mut self, name: CallId) {
        self.waiting.retain(|(waiting, _)| *waiting != name);
        self.connecting.take_if(|connecting| *connecting == name);
        if let Some(asking) = &mut self.asking {
            asking.take_if(|asking| *asking == name);
        }
        if self.in_major.take_if(|major| *major == name).is_some()
            && let Some(Major::Sync(Some((plan, reported)))) = &mut self.major
        {
            let (round, first) = (plan.round, reported.is_none());
            reported.get_or_insert(false);
            self.out.push(PeerOutput::DropState { round });
            if first {
                self.cannot_move(round);
            }
        }
        let mut wanted = self.wanted.iter();
        if let Some(tag) = wanted.find_map(|(tag, wanted)| (*wanted == name).then_some(*tag)) {
            self.wanted.remove(&tag);
            match self.tags[&tag] {
                Collective::Wanted { spec, mut ahead } => {
                    // What it has voted for it cannot take back by this.
                    let void = ahead.take_if(|(_, ended)| *ended != Some(PlanOutcome::Done));
                    self.stops(void);
                    self.tags.insert(tag, Collective::Wanted { spec, ahead });
                    self.send(ToMaster::Withdraw { tag });
                }
                Collective::Running(seq) => self.votes(tag, seq, PlanOutcome::Cancelled),
                Collective::Over(..) => {}
            }
        }
    }

    /// This is wanted no longer, if it has not started; and whoever called it waits to hear what comes of that.
    pub(super) fn is_asked_back(&mut self, name: CallId) {
        let mut wanted = self.wanted.iter();
        let tag = wanted.find_map(|(tag, wanted)| (*wanted == name).then_some(*tag));
        let is_wanted = |tag: &Tag| matches!(self.tags[tag], Collective::Wanted { .. });
        if let Some(tag) = tag.filter(is_wanted) {
            self.send(ToMaster::Withdraw { tag });
        }
    }

    pub(super) fn cannot_move(&mut self, round: Round) {
        let (ok, with) = (false, None);
        self.send(ToMaster::SharedStateDone { round, ok, with });
    }

    pub(super) fn votes(&mut self, tag: Tag, seq: Seq, outcome: PlanOutcome) {
        if outcome == PlanOutcome::Cancelled {
            self.out.push(PeerOutput::StopPlan { seq });
        }
        self.says_how_it_ended(tag, seq, outcome);
    }

    pub(super) fn says_how_it_ended(&mut self, tag: Tag, seq: Seq, outcome: PlanOutcome) {
        if outcome == PlanOutcome::Cancelled {
            self.stopped.insert(tag);
        }
        let is_whole = outcome == PlanOutcome::Done;
        self.tags.insert(tag, Collective::Over(seq, is_whole));
        self.tells_how_it_ended(seq, outcome);
    }

    pub(super) fn tells_how_it_ended(&mut self, seq: Seq, outcome: PlanOutcome) {
        let broken = self.broken();
        self.send(ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        });
    }
}
