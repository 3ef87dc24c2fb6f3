//! The tags: vote to start, run, vote on the outcome, verdict.

use super::accepted::Accepted;
use super::admission::Caller;
use super::io::{Answer, CallError, Committed, PeerOutput};
use super::{Out, Step, send};
use crate::element::CollectiveSpec;
use crate::id::{CallId, Membership, Seq, Tag};
use crate::lengths::Lengths;
use crate::messages::{AbortCause, CollectiveRefusal, PlanOutcome, Reserved, ToMaster, Verdict};
use crate::plan::{Algorithm, Paths};
use crate::reserved::Repeat;
use crate::states::CollectiveCommunicationState as State;
use crate::topology::BrokenLinks;

/// One tag in use, and its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenCollective {
    pub(super) caller: Caller,
    /// What its caller asked for.
    pub(super) spec: CollectiveSpec,
    pub(super) at: Collective,
}

/// An execution that has begun ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ahead {
    reserved: Reserved,
    /// `None` while it runs. The vote is cast if it is done; any other outcome is voted on when the execution commences.
    ended: Option<PlanOutcome>,
}

/// The progress of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Collective {
    /// What has begun ahead counts only if it is what commences.
    VoteInitiate {
        ahead: Option<Ahead>,
    },
    Perform {
        seq: Seq,
    },
    VoteComplete {
        seq: Seq,
        outcome: PlanOutcome,
    },
}

impl Collective {
    pub(super) fn waits_to_start(&self) -> bool {
        match self {
            Self::VoteInitiate { .. } => true,
            Self::Perform { .. } | Self::VoteComplete { .. } => false,
        }
    }

    pub(super) fn seq(&self) -> Option<Seq> {
        match self {
            Self::VoteInitiate { .. } => None,
            Self::Perform { seq } | Self::VoteComplete { seq, .. } => Some(*seq),
        }
    }

    /// What has begun ahead of it.
    fn ahead(&self) -> Option<Ahead> {
        match self {
            Self::VoteInitiate { ahead } => *ahead,
            Self::Perform { .. } | Self::VoteComplete { .. } => None,
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::VoteInitiate { .. } => State::VoteInitiate,
            Self::Perform { .. } => State::Perform,
            Self::VoteComplete { .. } => State::VoteComplete,
        }
    }

    fn performs(&self, seq: Seq) -> bool {
        *self == Self::Perform { seq }
    }

    /// The execution, if it was not stopped when it was given up.
    fn not_stopped(self) -> Option<Seq> {
        match self {
            Self::VoteInitiate { ahead } => {
                rule!(ahead.and_then(Ahead::not_stopped); AheadOutlivesRefusal => None)
            }
            Self::Perform { seq } => rule!(Some(seq); RingRunsOnAfterAbort => None),
            Self::VoteComplete { seq, outcome } => not_stopped_after(seq, outcome),
        }
    }
}

impl Ahead {
    fn is_voted(&self) -> bool {
        self.ended == Some(PlanOutcome::Done)
    }

    /// The execution, if it was not stopped when it ended.
    fn not_stopped(self) -> Option<Seq> {
        let seq = self.reserved.seq;
        match self.ended {
            None => Some(seq),
            Some(outcome) => not_stopped_after(seq, outcome),
        }
    }
}

fn not_stopped_after(seq: Seq, outcome: PlanOutcome) -> Option<Seq> {
    match outcome {
        PlanOutcome::Cancelled => None,
        PlanOutcome::Done | PlanOutcome::LaneLost => {
            rule!(Some(seq); FramesOutliveVerdict => None)
        }
    }
}

impl Accepted {
    pub(super) fn initiate(
        &mut self,
        caller: Caller,
        tag: Tag,
        spec: CollectiveSpec,
        out: &mut Out,
    ) {
        (self.fresh, self.rests) = (false, false);
        let (epoch, broken) = (self.topology.epoch, self.wiring.broken());
        let reserved = self.begins_ahead(tag, &spec, &broken);
        let at = Collective::VoteInitiate {
            ahead: reserved.map(|reserved| Ahead {
                reserved,
                ended: None,
            }),
        };
        self.tags.insert(tag, OpenCollective { caller, spec, at });
        let vote = ToMaster::InitiateCollective {
            tag,
            spec,
            epoch,
            broken,
        };
        send(out, vote);
        if let (Some(Reserved { seq, algorithm }), Some(call)) = (reserved, caller.call()) {
            out.push(PeerOutput::RunPlan {
                call,
                tag,
                seq,
                spec,
                lengths: Lengths::NONE,
                algorithm,
                ahead: true,
            });
        }
    }

    /// What this call begins without waiting for the others. Only one collective that is alone here does: the frames of
    /// an execution that others have not begun would be in the way of those of another one.
    fn begins_ahead(
        &mut self,
        tag: Tag,
        spec: &CollectiveSpec,
        broken: &BrokenLinks,
    ) -> Option<Reserved> {
        let repeat = self.repeat.take_if(|repeat| repeat.tag == tag)?;
        let is_same = repeat.spec == *spec;
        let is_alone = self.tags.is_empty() && broken.0.is_empty();
        (is_same && is_alone).then_some(repeat.reserved)
    }

    /// What has begun ahead under another number is void.
    fn void_ahead(&mut self, but: Option<Seq>, out: &mut Out) {
        for open in self.tags.values_mut() {
            if let Collective::VoteInitiate { ahead } = &mut open.at
                && let Some(void) = ahead.take_if(|ahead| Some(ahead.reserved.seq) != but)
            {
                let stop = void.not_stopped().map(|seq| PeerOutput::StopPlan { seq });
                out.extend(stop);
            }
        }
    }

    /// Another ring is established: nothing is reserved on it, and nothing runs.
    pub(super) fn forget_ahead(&mut self, out: &mut Out) {
        self.repeat = None;
        self.void_ahead(None, out);
    }

    /// Ends a collective whose caller has given it up, as far as this peer can.
    pub(super) fn cancel(&mut self, tag: Tag, out: &mut Out) {
        match self.tags.get_mut(&tag).map(|open| &mut open.at) {
            Some(Collective::VoteInitiate { ahead }) => {
                // A vote on the outcome stands: if the withdrawal comes too late, it counts.
                let unvoted = rule!(
                    ahead.take_if(|ahead| !ahead.is_voted());
                    VoteAheadForgotten => ahead.take()
                );
                let void = unvoted.and_then(Ahead::not_stopped);
                out.extend(void.map(|seq| PeerOutput::StopPlan { seq }));
                send(out, ToMaster::Withdraw { tag });
            }
            Some(Collective::Perform { seq }) => {
                let seq = *seq;
                rule!(out.push(PeerOutput::StopPlan { seq }); CancelledRingRunsOn => {});
                self.complete(tag, seq, PlanOutcome::Cancelled, out);
            }
            Some(Collective::VoteComplete { .. }) | None => {}
        }
    }

    /// The caller wants its vote to start back, and waits for the answer.
    pub(super) fn withdraw(&mut self, call: CallId, out: &mut Out) {
        let is_meant =
            |open: &OpenCollective| open.caller.call() == Some(call) && open.at.waits_to_start();
        let mut meant = self.tags.iter().filter(|(_, open)| is_meant(open));
        let tag = meant.next().map(|(tag, _)| *tag);
        out.extend(tag.map(|tag| PeerOutput::Send(ToMaster::Withdraw { tag })));
    }

    pub(super) fn commence(
        &mut self,
        (tag, seq): (Tag, Seq),
        algorithm: Algorithm,
        (lengths, total_weight): (Lengths, u64),
        out: &mut Out,
    ) -> Step {
        self.repeat = None;
        rule!(self.void_ahead(Some(seq), out); AheadCountsForAnother => {});
        let mut others = self.tags.iter().filter(|(other, _)| **other != tag);
        if others.any(|(_, open)| open.at.ahead().is_some()) {
            // Two collectives cannot have one number.
            return Err(CallError::MasterMisbehaved);
        }
        let Some(OpenCollective {
            caller,
            spec,
            at: Collective::VoteInitiate { ahead },
        }) = self.tags.get(&tag)
        else {
            return Err(CallError::MasterMisbehaved);
        };
        let (call, ahead) = (caller.call(), *ahead);
        if ahead.is_some_and(|ahead| ahead.reserved.algorithm != algorithm) {
            return Err(CallError::MasterMisbehaved);
        }
        let known = self.of_lengths(spec, &lengths);
        let known = known.and_then(|spec| spec.of_weights(total_weight));
        let Some(spec) = known.filter(|spec| self.can_take(spec, algorithm)) else {
            return Err(CallError::MasterMisbehaved);
        };
        let is_voted = ahead.is_some_and(|ahead| ahead.is_voted());
        if rule!(is_voted; VoteAheadCastTwice => false) {
            let outcome = PlanOutcome::Done;
            if let Some(open) = self.tags.get_mut(&tag) {
                open.at = Collective::VoteComplete { seq, outcome };
            }
            out.extend(call.map(|call| PeerOutput::Confirm { call, seq }));
            return Ok(());
        }
        let caller = rule!(call; CancelForgottenAtStart => Some(call.unwrap_or_default()));
        let Some(call) = caller else {
            // The neighbours may have begun: their frames would wait here for a plan that never runs.
            rule!(out.push(PeerOutput::StopPlan { seq }); CancelledFramesKept => {});
            self.complete(tag, seq, PlanOutcome::Cancelled, out);
            return Ok(());
        };
        if let Some(open) = self.tags.get_mut(&tag) {
            open.at = Collective::Perform { seq };
        }
        if let Some(Ahead { ended, .. }) = ahead {
            out.push(PeerOutput::Confirm { call, seq });
            if let Some(outcome) = ended {
                self.complete(tag, seq, outcome, out);
            }
            return Ok(());
        }
        let told = rule!(lengths; OwnLengthTakenForAll => own_for_all(&spec, &lengths));
        out.push(PeerOutput::RunPlan {
            call,
            tag,
            seq,
            spec,
            lengths: told,
            algorithm,
            ahead: false,
        });
        Ok(())
    }

    /// The specification to run, if these are the lengths of all participants, this peer's own included.
    fn of_lengths(&self, spec: &CollectiveSpec, lengths: &Lengths) -> Option<CollectiveSpec> {
        if let Some((own, _)) = spec.kind.own_and_limit() {
            let ring = &self.topology.ring;
            let rank = ring.rank_of(self.welcomed.peer)?;
            let is_own = lengths.0.get(rank) == Some(&own);
            if !is_own || lengths.0.len() != ring.world_size() {
                return None;
            }
        }
        spec.of_lengths(lengths)
    }

    /// Whether a collective can take this algorithm on the links here, whatever the master knows of their costs; and its
    /// root and those for whom its shards were laid out are here.
    fn can_take(&self, spec: &CollectiveSpec, algorithm: Algorithm) -> bool {
        let ring = &self.topology.ring;
        let Ok(world) = u32::try_from(ring.world_size()) else {
            return false;
        };
        let has_root = spec.kind.among(&ring.0).is_some();
        let laid_out_for = spec.kind.laid_out_for();
        let is_laid_out = laid_out_for.is_none_or(|peers| peers == Membership::of(&ring.0));
        let sites = self.topology.sites.sites();
        let paths = Paths {
            reach: self.wiring.reach(ring),
            within_machine: false,
            rounds_from: u32::MAX,
            two_levels: sites.has_two_levels(),
            site_ring: sites.has_site_ring(),
            even_sites: true,
            sites_whole_max: 0,
            in_order: false,
            costs: None,
        };
        has_root && is_laid_out && algorithm.is_possible(spec, world, paths)
    }

    /// The data plane has ended a plan. Ignored if the execution has ended meanwhile.
    pub(super) fn plan_ended(&mut self, seq: Seq, outcome: PlanOutcome, out: &mut Out) {
        let performing = self.tags.iter().find(|(_, open)| {
            rule!(open.at.performs(seq); RingEndOfAnotherTag => open.at.state() == State::Perform)
        });
        if let Some(tag) = performing.map(|(tag, _)| *tag) {
            if outcome == PlanOutcome::Cancelled {
                out.push(PeerOutput::StopPlan { seq });
            }
            self.complete(tag, seq, outcome, out);
        } else if let Some(ahead) = self.running_ahead(seq) {
            ahead.ended = Some(outcome);
            if outcome == PlanOutcome::Cancelled {
                out.push(PeerOutput::StopPlan { seq });
            }
            if rule!(ahead.is_voted(); FailureAheadVotedAtOnce => true) {
                self.vote(seq, outcome, out);
            }
        }
    }

    /// The execution of this number, if it has begun ahead and has not ended.
    fn running_ahead(&mut self, seq: Seq) -> Option<&mut Ahead> {
        self.tags.values_mut().find_map(|open| match &mut open.at {
            Collective::VoteInitiate { ahead } => ahead
                .as_mut()
                .filter(|ahead| ahead.reserved.seq == seq && ahead.ended.is_none()),
            Collective::Perform { .. } | Collective::VoteComplete { .. } => None,
        })
    }

    fn complete(&mut self, tag: Tag, seq: Seq, outcome: PlanOutcome, out: &mut Out) {
        if let Some(open) = self.tags.get_mut(&tag) {
            open.at = Collective::VoteComplete { seq, outcome };
        }
        self.vote(seq, outcome, out);
    }

    fn vote(&self, seq: Seq, outcome: PlanOutcome, out: &mut Out) {
        let vote = ToMaster::CompleteCollective {
            seq,
            outcome,
            broken: self.wiring.broken(),
        };
        send(out, vote);
    }

    pub(super) fn refused(&mut self, tag: Tag, reason: CollectiveRefusal, out: &mut Out) -> Step {
        let mut open = self.tags.get(&tag).into_iter();
        if !open.any(|open| open.at.waits_to_start()) {
            return Err(CallError::MasterMisbehaved);
        }
        // The master reserves no more what it has refused.
        self.repeat = None;
        let why = match reason {
            CollectiveRefusal::Conflict(conflict) => CallError::Conflict(conflict),
            CollectiveRefusal::Disagreement { .. }
            | CollectiveRefusal::NotJoined { .. }
            | CollectiveRefusal::NoSuchRoot { .. }
            | CollectiveRefusal::WorldChanged
            | CollectiveRefusal::TooLong { .. }
            | CollectiveRefusal::NoWeight
            | CollectiveRefusal::Withdrawn => CallError::CollectiveRefused { tag, reason },
        };
        self.conclude(tag, Err(why), out);
        Ok(())
    }

    pub(super) fn verdict(&mut self, tag: Tag, seq: Seq, verdict: Verdict, out: &mut Out) -> Step {
        let Some(OpenCollective { at: collective, .. }) = self.tags.get(&tag) else {
            return Ok(());
        };
        if collective.seq() != Some(seq) {
            return Ok(());
        }
        match verdict {
            Verdict::Committed { epoch, next } => {
                let outcome = PlanOutcome::Done;
                let whole = *collective == Collective::VoteComplete { seq, outcome };
                // The ring cannot have changed since the collective started: it was in use.
                if !whole || epoch != self.topology.epoch {
                    return Err(CallError::MasterMisbehaved);
                }
                let contributors = rule!(self.topology.ring.0.clone(); ContributorsSorted => {
                    let mut sorted = self.topology.ring.0.clone();
                    sorted.sort_unstable();
                    sorted
                });
                self.may_repeat(tag, seq, next)?;
                self.conclude(tag, Ok(Committed { seq, contributors }), out);
            }
            Verdict::Aborted(cause) => self.abort(tag, cause, out),
        }
        Ok(())
    }

    /// Remembers under which number the collective that was just committed may begin ahead if it is called again.
    fn may_repeat(&mut self, tag: Tag, seq: Seq, next: Option<Reserved>) -> Step {
        let (Some(reserved), Some(open)) = (next, self.tags.get(&tag)) else {
            return Ok(());
        };
        let spec = open.spec;
        if reserved.seq <= seq || !self.can_take(&spec, reserved.algorithm) {
            return Err(CallError::MasterMisbehaved);
        }
        self.repeat = Some(Repeat {
            tag,
            spec,
            reserved,
        });
        Ok(())
    }

    fn abort(&mut self, tag: Tag, cause: AbortCause, out: &mut Out) {
        let why = CallError::Aborted { tag, cause };
        let result = rule!(Err(why); WholeHereIsCommitted => self.committed_if_whole(tag, why));
        self.conclude(tag, result, out);
    }

    fn conclude(&mut self, tag: Tag, result: Result<Committed, CallError>, out: &mut Out) {
        if let Some(OpenCollective { caller, at, .. }) = self.tags.remove(&tag) {
            out.extend(at.not_stopped().map(|seq| PeerOutput::StopPlan { seq }));
            caller.is_told(Answer::CollectiveEnded { tag, result }, out);
        }
    }

    #[cfg(feature = "mutants")]
    pub(super) fn committed_if_whole(
        &self,
        tag: Tag,
        otherwise: CallError,
    ) -> Result<Committed, CallError> {
        let whole = self.tags.get(&tag).map(|open| &open.at).filter(|collective| {
            matches!(collective, Collective::VoteComplete { outcome, .. } if *outcome == PlanOutcome::Done)
        });
        let seq = whole.and_then(Collective::seq).ok_or(otherwise)?;
        let contributors = self.topology.ring.0.clone();
        Ok(Committed { seq, contributors })
    }

    pub(super) fn stop_plans(&mut self, out: &mut Out) {
        self.void_ahead(None, out);
        for open in self.tags.values() {
            if let Collective::Perform { seq } = &open.at {
                out.push(PeerOutput::StopPlan { seq: *seq });
            }
        }
    }
}

/// A mistake: every rank has as many elements as this one.
#[cfg(feature = "mutants")]
fn own_for_all(spec: &CollectiveSpec, lengths: &Lengths) -> Lengths {
    let own = spec.kind.own_and_limit().map(|(own, _)| own);
    let all = lengths.0.iter().map(|length| own.unwrap_or(*length));
    Lengths(all.collect())
}
