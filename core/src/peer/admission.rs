//! Which calls may be made, which of them wait, and what a call leaves behind that is given up.
//!
//! A call that is given up has no answer, but what it began goes on until the master ends it: a vote was
//! cast, a ring runs. What such an abandoned operation stands in the way of waits for its end, and does not
//! fail for a reason that its caller does not know.
//!
//! Collectives wait for a second reason: a peer has at most
//! [`collectives_max`](super::PeerConfig::collectives_max) of them in flight. They start in the order in which
//! they were called. So peers that call the same ones in the same order never wait for each other in vain: of
//! those that have not ended the one that was called first is in flight at all of them.
//!
//! **Invariant:** a call that waits is never refused later. Either one major call waits, or collectives do:
//! while one does, the other is a mistake of the calling program.

use alloc::collections::{BTreeSet, VecDeque};

use super::accepted::{Accepted, Major, OpenMajor};
use super::collectives::OpenCollective;
use super::io::{Answer, Call, CallError, Usage};
use super::optimize::Optimization;
use super::{Out, answer, misuse, send};
use crate::element::CollectiveSpec;
use crate::id::{CallId, Tag};
use crate::messages::ToMaster;
use crate::shared_state::SyncVote;

/// Whoever waits for an answer, until it gives its call up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(Option<CallId>);

/// A call that excludes all others but `are_peers_pending`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum MajorCall {
    Update,
    Optimize,
    Sync(SyncVote),
}

/// Calls that wait until something else has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Waiting {
    major: Option<(CallId, MajorCall)>,
    /// In the order of the calls.
    collectives: VecDeque<WaitingCollective>,
    tags: BTreeSet<Tag>,
}

/// A collective that has not been voted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WaitingCollective {
    call: CallId,
    tag: Tag,
    spec: CollectiveSpec,
}

impl Caller {
    pub(super) const fn of(call: CallId) -> Self {
        Self(Some(call))
    }

    /// The call, unless it was given up.
    pub(super) const fn call(self) -> Option<CallId> {
        self.0
    }

    pub(super) const fn has_gone(self) -> bool {
        self.0.is_none()
    }

    /// Whether it waited for this call.
    pub(super) fn gives_up(&mut self, call: CallId) -> bool {
        let is_meant = self.0 == Some(call);
        if is_meant {
            rule!(self.0 = None; AbandonedCallAnswered => {});
        }
        is_meant
    }

    /// Answers the call, if somebody waits for it.
    pub(super) fn is_told(self, how: Answer, out: &mut Out) {
        if let Some(call) = self.0 {
            answer(out, call, how);
        }
    }
}

impl MajorCall {
    /// Whether the answer to what runs answers this call as well. Two synchronizations vote for two contents.
    fn is_answered_by(&self, running: &Major) -> bool {
        match (self, running) {
            (Self::Update, Major::Update) | (Self::Optimize, Major::Optimize(_)) => true,
            (Self::Update, Major::Optimize(_) | Major::Sync(_))
            | (Self::Optimize, Major::Update | Major::Sync(_))
            | (Self::Sync(_), Major::Update | Major::Optimize(_) | Major::Sync(_)) => {
                rule!(false; AnyMajorJoined => true)
            }
        }
    }

    fn failed(&self, why: CallError) -> Answer {
        match self {
            Self::Update => Answer::TopologyUpdated(Err(why)),
            Self::Optimize => Answer::TopologyOptimized(Err(why)),
            Self::Sync(_) => Answer::Synchronized(Err(why)),
        }
    }
}

impl Waiting {
    /// The calls that wait.
    pub(super) fn calls(&self) -> impl Iterator<Item = CallId> {
        let major = self.major.iter().map(|(call, _)| *call);
        major.chain(self.collectives.iter().map(|waiting| waiting.call))
    }

    /// Whether the call has waited here.
    fn forget(&mut self, call: CallId) -> bool {
        if self
            .major
            .take_if(|(waiting, _)| *waiting == call)
            .is_some()
        {
            return true;
        }
        let mut collectives = self.collectives.iter();
        let at = collectives.position(|waiting| waiting.call == call);
        let forgotten = at.and_then(|at| self.collectives.remove(at));
        forgotten.is_some_and(|waiting| self.tags.remove(&waiting.tag))
    }

    fn push(&mut self, call: CallId, tag: Tag, spec: CollectiveSpec) {
        self.tags.insert(tag);
        let waiting = WaitingCollective { call, tag, spec };
        rule!(
            self.collectives.push_back(waiting);
            LaterCallsOvertake => self.collectives.push_front(waiting)
        );
    }

    /// The collective that was called first of those whose tag is free.
    fn next_collective(&mut self, is_free: impl Fn(Tag) -> bool) -> Option<WaitingCollective> {
        let mut collectives = self.collectives.iter();
        let at = collectives.position(|waiting| is_free(waiting.tag))?;
        let next = self.collectives.remove(at)?;
        self.tags.remove(&next.tag);
        Some(next)
    }

    /// Every call that waits is answered: the run has ended for this peer.
    pub(super) fn end(self, why: &CallError, out: &mut Out) {
        if let Some((call, what)) = self.major {
            answer(out, call, what.failed(why.clone()));
        }
        for WaitingCollective { call, tag, .. } in self.collectives {
            let result = Err(why.clone());
            answer(out, call, Answer::CollectiveEnded { tag, result });
        }
    }
}

impl Accepted {
    /// Takes a call: it starts, it waits, or it is refused as a mistake of the calling program.
    pub(super) fn called(&mut self, call: CallId, what: Call, out: &mut Out) {
        let taken = match &what {
            Call::Connect => Err(Usage::AlreadyConnected),
            Call::UpdateTopology => self.take_major(call, MajorCall::Update),
            Call::OptimizeTopology => self.take_major(call, MajorCall::Optimize),
            Call::SyncSharedState(vote) => self.take_major(call, MajorCall::Sync(vote.clone())),
            Call::ArePeersPending => self.take_query(call, out),
            Call::Initiate { tag, spec } => self.take_collective(call, *tag, *spec),
        };
        if let Err(usage) = taken {
            misuse(call, &what, usage, out);
        }
    }

    fn take_major(&mut self, call: CallId, what: MajorCall) -> Result<(), Usage> {
        if self.waiting.major.is_some() {
            return Err(Usage::Busy);
        }
        if !self.waiting.collectives.is_empty() {
            return Err(Usage::PendingCollectives);
        }
        match &mut self.major {
            Some(running) if !running.caller.has_gone() => return Err(Usage::Busy),
            Some(running) if what.is_answered_by(&running.what) => {
                rule!(running.caller = Caller::of(call); JoinedCallForgotten => {});
                return Ok(());
            }
            Some(_) | None => {}
        }
        let is_wanted =
            |open: &OpenCollective| !rule!(open.caller.has_gone(); AbandonedCountsAsOpen => false);
        if self.tags.values().any(is_wanted) {
            return Err(Usage::PendingCollectives);
        }
        self.waiting.major = Some((call, what));
        Ok(())
    }

    fn take_query(&mut self, call: CallId, out: &mut Out) -> Result<(), Usage> {
        match &mut self.query {
            Some(caller) if !caller.has_gone() => return Err(Usage::QueryPending),
            Some(caller) => *caller = Caller::of(call),
            None => {
                self.query = Some(Caller::of(call));
                send(out, ToMaster::ArePeersPending);
            }
        }
        Ok(())
    }

    fn take_collective(
        &mut self,
        call: CallId,
        tag: Tag,
        spec: CollectiveSpec,
    ) -> Result<(), Usage> {
        let is_busy = |major: &OpenMajor| !major.caller.has_gone();
        if self.waiting.major.is_some() || self.major.as_ref().is_some_and(is_busy) {
            return Err(Usage::Busy);
        }
        let mut open = self.tags.get(&tag).into_iter();
        let in_use = open.any(|open| !open.caller.has_gone()) || self.waiting.tags.contains(&tag);
        if rule!(in_use; DuplicateTagAccepted => false) {
            return Err(Usage::TagInUse(tag));
        }
        self.waiting.push(call, tag, spec);
        Ok(())
    }

    /// Starts what waits and has nothing in its way.
    pub(super) fn start_waiting(&mut self, out: &mut Out) {
        if self.major.is_some() {
            return;
        }
        let is_free = self.tags.is_empty();
        if let Some((call, what)) = self.waiting.major.take_if(|_| is_free) {
            self.start_major(Caller::of(call), what, out);
        }
        while self.may_start_another()
            && let Some(next) = self
                .waiting
                .next_collective(|tag| !self.tags.contains_key(&tag))
        {
            self.initiate(Caller::of(next.call), next.tag, next.spec, out);
        }
    }

    fn may_start_another(&self) -> bool {
        rule!(self.tags.len() < self.collectives_max; CollectivesUnbounded => true)
    }

    fn start_major(&mut self, caller: Caller, what: MajorCall, out: &mut Out) {
        match what {
            MajorCall::Update => self.update_topology(caller, out),
            MajorCall::Optimize => {
                self.open_major(caller, Major::Optimize(Optimization::Voted));
                send(out, ToMaster::OptimizeTopology);
            }
            MajorCall::Sync(vote) => {
                self.open_major(caller, Major::Sync(None));
                send(out, ToMaster::SyncSharedState(vote));
            }
        }
    }

    /// Nobody waits for this call any more.
    pub(super) fn given_up(&mut self, call: CallId, out: &mut Out) {
        if rule!(self.waiting.forget(call); WaitingCallNotForgotten => false) {
            return;
        }
        if self
            .query
            .as_mut()
            .is_some_and(|caller| caller.gives_up(call))
        {
            return;
        }
        if let Some(major) = &mut self.major
            && major.caller.gives_up(call)
        {
            self.leave_transfers(out);
            return;
        }
        let mut open = self.tags.iter_mut();
        let given_up = open.find_map(|(tag, open)| open.caller.gives_up(call).then_some(*tag));
        if let Some(tag) = given_up {
            self.cancel(tag, out);
        }
    }
}
