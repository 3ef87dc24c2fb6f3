//! Admission control: which calls may be made, which of them wait, and what a given-up call leaves behind.
//!
//! A given-up call gets no answer, but what it began continues until the master ends it: a vote was cast, or a plan
//! runs. A call that conflicts with such an abandoned operation waits for its end. It does not fail for a reason that
//! its caller does not know.
//!
//! Collectives wait for a second reason: a peer has at most [`collectives_max`](super::PeerConfig::collectives_max)
//! of them in flight. They start in the order of their calls. So peers that call the same ones in the same order
//! never deadlock: of the collectives that have not ended, the first one is in flight on all of them.
//!
//! **Invariant:** a call that waits is never refused later. Either one major call waits, or collectives do; the other
//! kind is then a usage error.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::accepted::{Accepted, Major, OpenMajor};
use super::collectives::OpenCollective;
use super::io::{Answer, Call, CallError, Usage};
use super::kind::Kind;
use super::optimize::Optimization;
use super::{Out, answer, misuse, send};
use crate::element::CollectiveSpec;
use crate::id::{CallId, Tag};
use crate::messages::ToMaster;
use crate::shared_state::SyncVote;

/// The caller of an operation, until it gives up its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(Option<CallId>);

/// A call that excludes all others except `are_peers_pending`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum MajorCall {
    Update,
    Optimize,
    Sync(Box<SyncVote>),
}

/// Calls that wait for the end of something else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    Major(CallId, MajorCall),
    /// In the order of the calls. May be empty.
    Collectives(VecDeque<WaitingCollective>),
}

/// A collective without a vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitingCollective {
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

    /// Whether the operation was for this call, which is now given up.
    pub(super) fn gives_up(&mut self, call: CallId) -> bool {
        let is_meant = self.0 == Some(call);
        if is_meant {
            rule!(self.0 = None; AbandonedCallAnswered => {});
        }
        is_meant
    }

    /// Answers the call, unless it was given up.
    pub(super) fn is_told(self, how: Answer, out: &mut Out) {
        if let Some(call) = self.0 {
            answer(out, call, how);
        }
    }
}

impl MajorCall {
    /// Whether the answer to the running operation answers this call as well. Two synchronizations vote for two
    /// contents.
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

    const fn kind(&self) -> Kind {
        match self {
            Self::Update => Kind::UpdateTopology,
            Self::Optimize => Kind::OptimizeTopology,
            Self::Sync(_) => Kind::SyncSharedState,
        }
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self::Collectives(VecDeque::new())
    }
}

impl Waiting {
    /// The calls that wait.
    pub(super) fn calls(&self) -> impl Iterator<Item = CallId> {
        let (major, collectives) = match self {
            Self::Major(call, _) => (Some(*call), None),
            Self::Collectives(waiting) => (None, Some(waiting)),
        };
        let collectives = collectives.into_iter().flatten();
        let collectives = collectives.map(|waiting| waiting.call);
        major.into_iter().chain(collectives)
    }

    /// Whether the call waited here. Removes it.
    fn forget(&mut self, call: CallId) -> bool {
        match self {
            Self::Major(waiting, _) if *waiting == call => {
                *self = Self::default();
                true
            }
            Self::Major(..) => false,
            Self::Collectives(waiting) => {
                let at = waiting.iter().position(|waiting| waiting.call == call);
                at.and_then(|at| waiting.remove(at)).is_some()
            }
        }
    }

    fn take_major(&mut self) -> Option<(CallId, MajorCall)> {
        match core::mem::take(self) {
            Self::Major(call, what) => Some((call, what)),
            collectives @ Self::Collectives(_) => {
                *self = collectives;
                None
            }
        }
    }

    /// The first collective in the order of the calls whose tag is free.
    fn next_collective(&mut self, is_free: impl Fn(Tag) -> bool) -> Option<WaitingCollective> {
        match self {
            Self::Major(..) => None,
            Self::Collectives(waiting) => {
                let at = waiting.iter().position(|waiting| is_free(waiting.tag))?;
                waiting.remove(at)
            }
        }
    }

    /// Answers every waiting call: the run has ended for this peer.
    pub(super) fn end(self, why: &CallError, out: &mut Out) {
        match self {
            Self::Major(call, what) => answer(out, call, what.kind().failed(why.clone())),
            Self::Collectives(waiting) => {
                for WaitingCollective { call, tag, .. } in waiting {
                    answer(out, call, Kind::Collective(tag).failed(why.clone()));
                }
            }
        }
    }
}

impl Accepted {
    /// Takes a call: it starts, it waits, or it is refused as a usage error.
    pub(super) fn called(&mut self, call: CallId, what: Call, out: &mut Out) {
        let taken = match &what {
            Call::Connect => Err(Usage::AlreadyConnected),
            Call::UpdateTopology => self.take_major(call, MajorCall::Update),
            Call::OptimizeTopology => self.take_major(call, MajorCall::Optimize),
            Call::SyncSharedState(vote) => {
                self.take_major(call, MajorCall::Sync(Box::new(vote.clone())))
            }
            Call::ArePeersPending => self.take_query(call, out),
            Call::Initiate { tag, spec } => self.take_collective(call, *tag, *spec),
        };
        if let Err(usage) = taken {
            misuse(call, &what, usage, out);
        }
    }

    fn take_major(&mut self, call: CallId, what: MajorCall) -> Result<(), Usage> {
        match &self.waiting {
            Waiting::Major(..) => return Err(Usage::Busy),
            Waiting::Collectives(waiting) if !waiting.is_empty() => {
                return Err(Usage::PendingCollectives);
            }
            Waiting::Collectives(_) => {}
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
        self.waiting = Waiting::Major(call, what);
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
        let is_busy = self.major.as_ref().is_some_and(is_busy);
        let Waiting::Collectives(waiting) = &mut self.waiting else {
            return Err(Usage::Busy);
        };
        if is_busy {
            return Err(Usage::Busy);
        }
        let mut open = self.tags.get(&tag).into_iter();
        let waits = waiting.iter().any(|waiting| waiting.tag == tag);
        let in_use = open.any(|open| !open.caller.has_gone()) || waits;
        if rule!(in_use; DuplicateTagAccepted => false) {
            return Err(Usage::TagInUse(tag));
        }
        let called = WaitingCollective { call, tag, spec };
        rule!(
            waiting.push_back(called);
            LaterCallsOvertake => waiting.push_front(called)
        );
        Ok(())
    }

    /// Starts waiting calls that nothing blocks any more.
    pub(super) fn start_waiting(&mut self, out: &mut Out) {
        if self.major.is_some() {
            return;
        }
        if self.tags.is_empty()
            && let Some((call, what)) = self.waiting.take_major()
        {
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
                send(out, ToMaster::SyncSharedState(*vote));
            }
        }
    }

    /// The caller has given up this call.
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
