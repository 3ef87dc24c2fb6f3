//! The user's program: a short list of calls, and what it does about the answers.
//!
//! A user does what a careful program does: it makes an aborted collective again, makes a call again
//! whose failure says that it may, goes back to the top of its loop where another peer's call has
//! precedence, and leaves when the run has ended for it or its program is over.

use pccl_core::id::{CallId, Revision, Tag};
use pccl_core::messages::{CallKind, CollectiveRefusal};
use pccl_core::peer::{Answer, CallError, Committed};
use pccl_core::shared_state::SyncStrategy;

use crate::calls::{CONNECT, OPTIMIZE, QUERY, SYNC, UPDATE};
use crate::contents::Contents;

/// A program: the steps, and how often they are gone through.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// What is done in each round.
    pub steps: &'static [Do],
    /// How many rounds, before the user leaves.
    pub rounds: u8,
    /// The step with which the first round begins.
    pub first: u8,
    /// The step where the user goes on when its call gave way.
    pub top: u8,
    /// At the end the user stays, and calls nothing any more, instead of leaving.
    pub rests: bool,
    /// Goes back there whatever failed, if it may be tried again: the loop of the README.
    pub starts_over: bool,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Do {
    /// Call `update_topology` and wait.
    Update,
    /// The same where the last answer to [`Ask`](Self::Ask) was yes.
    UpdateIfPending,
    /// Call `are_peers_pending` and wait.
    Ask,
    /// Call `optimize_topology` and wait.
    Optimize,
    /// Call `sync_shared_state` and wait.
    Sync(SyncStrategy),
    /// Start a collective of this tag, and go on at once.
    Start(u8),
    /// Wait for it; where it was aborted, start it again and wait.
    Finish(u8),
    /// Start a collective that computes something else than the others want.
    StartOdd(u8),
    /// Start one that computes the same of more numbers.
    StartLonger(u8),
    /// Start a tag that is in use, by mistake.
    StartTwice(u8),
    /// Give a collective up.
    Cancel(u8),
    /// Ask for the vote to start a collective back, and go on when it is answered.
    AskBack(u8),
    /// Give the call of the step before up, unless it was answered first.
    Drop,
    /// Compute: the content changes, and its revision grows by one.
    Advance,
    /// Leave the run in the middle of the program.
    Leave,
}

/// A call that a user is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Join the run.
    Connect,
    /// A step of the program.
    Do(Do),
    /// An aborted collective again.
    Again(u8),
    /// Leave the run.
    Leave,
}

/// What became of a tag that the user has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Job {
    #[default]
    Free,
    Running,
    Committed,
    Aborted,
}

/// What a user waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Waits {
    /// For nothing: it computes, and calls when it likes.
    No,
    Major(CallKind),
    Query,
    Connect,
    /// For nothing any more: it has left, or the run has ended for it.
    Over,
}

/// Updates after which one has passed over a call that waits too often for it to go on waiting.
pub(crate) const UPDATES_MANY: u8 = 9;

/// The highest tag that programs use.
const TAGS_MAX: usize = 3;

/// More patience than this is not remembered, so that runs that differ in nothing else are one.
const PATIENCE_MAX: u8 = 4;

/// Where a user is in its program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User {
    at: u8,
    round: u8,
    waits: Waits,
    inside: bool,
    jobs: [Job; TAGS_MAX],
    /// Goes back to the top as soon as no collective runs.
    back_to_top: bool,
    told_pending: bool,
    /// How many more calls it may make again before something must explain another one: `None` once
    /// it has made one too many.
    patience: Option<u8>,
    /// Makes an aborted collective again.
    tries_again: bool,
    /// The revision of its shared state.
    pub revision: Revision,
    /// The content of its shared state.
    pub contents: Contents,
}

impl User {
    /// A user before its first call.
    #[must_use]
    pub fn new(inside: bool, first: u8, revision: Revision, contents: Contents) -> Self {
        Self {
            at: first,
            round: 0,
            waits: Waits::No,
            inside,
            jobs: [Job::Free; TAGS_MAX],
            back_to_top: false,
            told_pending: false,
            patience: Some(1),
            tries_again: false,
            revision,
            contents,
        }
    }

    /// Ends the program.
    pub fn end(&mut self) {
        self.waits = Waits::Over;
    }

    /// Waits for the answer to an `update_topology` that was made for it.
    pub(crate) fn expect_update(&mut self) {
        self.waits = Waits::Major(CallKind::UpdateTopology);
    }

    /// Waits to be admitted, after a call that was made for it.
    pub(crate) fn expect_connect(&mut self) {
        self.waits = Waits::Connect;
    }

    /// Does it wait to be admitted?
    #[must_use]
    pub fn waits_to_connect(&self) -> bool {
        self.waits == Waits::Connect
    }

    /// Does it wait in a major call of this kind?
    #[must_use]
    pub fn waits_in(&self, kind: CallKind) -> bool {
        self.waits == Waits::Major(kind)
    }

    /// Does it wait for the answer to `are_peers_pending`?
    #[must_use]
    pub fn waits_in_query(&self) -> bool {
        self.waits == Waits::Query
    }

    /// Does a collective of this tag run for it?
    #[must_use]
    pub fn runs(&self, tag: u8) -> bool {
        self.job(tag) == Job::Running
    }

    /// The name of the call that it waits in.
    pub(crate) fn open_call(&self) -> CallId {
        match self.waits {
            Waits::Major(CallKind::UpdateTopology) => UPDATE,
            Waits::Query => QUERY,
            Waits::Major(CallKind::OptimizeTopology) => OPTIMIZE,
            Waits::Major(CallKind::SyncSharedState) => SYNC,
            Waits::Major(CallKind::Collective) | Waits::No | Waits::Connect | Waits::Over => {
                CONNECT
            }
        }
    }

    /// Will it give up the call that it waits in?
    fn drops_its_call(&self, program: &Program) -> bool {
        let next = program.steps.get(usize::from(self.at) + 1);
        let waits = matches!(self.waits, Waits::Major(_) | Waits::Query);
        waits && next == Some(&Do::Drop)
    }

    /// Has its program ended, or the run for it?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waits == Waits::Over
    }

    /// Has it come to the end of its program, and stays?
    #[must_use]
    pub fn rests(&self, program: &Program) -> bool {
        let is_at_the_end = program.steps.get(usize::from(self.at)).is_none();
        let is_free = self.waits == Waits::No && self.inside && !self.back_to_top;
        program.rests && is_free && is_at_the_end
    }

    /// The call that it makes next, unless it waits for an answer.
    #[must_use]
    pub fn wish(&self, program: &Program) -> Option<Wish> {
        match self.waits {
            Waits::Major(_) | Waits::Query if self.drops_its_call(program) => {
                return Some(Wish::Do(Do::Drop));
            }
            Waits::Major(_) | Waits::Query | Waits::Connect | Waits::Over => return None,
            Waits::No => {}
        }
        if !self.inside {
            return Some(Wish::Connect);
        }
        if self.back_to_top {
            return None;
        }
        match program.steps.get(usize::from(self.at)) {
            None => (!program.rests).then_some(Wish::Leave),
            Some(Do::Leave) => Some(Wish::Leave),
            // Whatever was aborted is started again before anything is waited for: two users who
            // waited for different tags of which each has not been started at the other would wait
            // for ever.
            Some(Do::Finish(_)) => self.an_aborted_tag().map(Wish::Again),
            Some(step) => Some(Wish::Do(*step)),
        }
    }

    /// Notes that the call was made, before its answer.
    pub fn calls(&mut self, wish: Wish, program: &Program) {
        match wish {
            Wish::Connect => self.waits = Waits::Connect,
            Wish::Leave => self.waits = Waits::Over,
            Wish::Again(tag) => {
                self.retry();
                self.tries_again = true;
                self.set(tag, Job::Running);
            }
            Wish::Do(Do::Start(tag) | Do::StartOdd(tag) | Do::StartLonger(tag)) => {
                self.set(tag, Job::Running);
                self.at += 1;
            }
            Wish::Do(Do::StartTwice(_) | Do::AskBack(_)) => self.at += 1,
            Wish::Do(Do::Cancel(tag)) => {
                self.set(tag, Job::Free);
                self.at += 1;
            }
            Wish::Do(Do::Drop) => {
                self.waits = Waits::No;
                self.at += 2;
            }
            Wish::Do(Do::Ask) => self.waits = Waits::Query,
            Wish::Do(Do::Update | Do::UpdateIfPending) => {
                self.waits = Waits::Major(CallKind::UpdateTopology);
            }
            Wish::Do(Do::Optimize) => self.waits = Waits::Major(CallKind::OptimizeTopology),
            Wish::Do(Do::Sync(_)) => self.waits = Waits::Major(CallKind::SyncSharedState),
            Wish::Do(Do::Finish(_) | Do::Advance | Do::Leave) => {}
        }
        self.go_on(program);
    }

    /// Takes an answer, and goes on as far as it can without a call.
    pub fn hears(&mut self, answer: &Answer, program: &Program) {
        match answer {
            Answer::Connected(result) => self.connected(result.is_ok()),
            Answer::TopologyOptimized(Err(CallError::OptimizationFailed)) => {
                self.major_ended(None, program);
            }
            Answer::TopologyUpdated(result) => self.major_ended(result.as_ref().err(), program),
            Answer::TopologyOptimized(result) => self.major_ended(result.as_ref().err(), program),
            Answer::Synchronized(result) => self.major_ended(result.as_ref().err(), program),
            Answer::PeersPending(result) => match result {
                Ok(pending) => {
                    self.told_pending = *pending;
                    self.waits = Waits::No;
                    self.at += 1;
                }
                Err(why) => self.failed(why, program),
            },
            Answer::CollectiveEnded { tag, result } => {
                self.collective_ended(*tag, result, program);
            }
        }
        self.go_on(program);
    }

    fn retry(&mut self) {
        self.patience = self.patience.and_then(|left| left.checked_sub(1));
    }

    /// Something happened that may explain that a call is made again: two of them, one for what
    /// happened to this user, and one because another user had to make a call again.
    pub fn is_shocked(&mut self) {
        self.patience = self.patience.map(|left| (left + 2).min(PATIENCE_MAX));
    }

    /// Has it made a call again that nothing explains?
    #[must_use]
    pub fn has_lost_patience(&self) -> bool {
        self.patience.is_none()
    }

    /// Makes an aborted collective again?
    #[must_use]
    pub fn tries_again(&self) -> bool {
        self.tries_again
    }

    fn connected(&mut self, inside: bool) {
        self.inside = inside;
        self.waits = if inside { Waits::No } else { Waits::Over };
    }

    fn major_ended(&mut self, why: Option<&CallError>, program: &Program) {
        self.waits = Waits::No;
        match why {
            None => self.at += 1,
            Some(why) => self.failed(why, program),
        }
    }

    fn collective_ended(
        &mut self,
        tag: Tag,
        result: &Result<Committed, CallError>,
        program: &Program,
    ) {
        let tag = u8::try_from(tag.0).unwrap_or(u8::MAX);
        match result {
            Ok(_) => {
                self.tries_again = false;
                self.set(tag, Job::Committed);
            }
            Err(CallError::Aborted { .. }) if program.starts_over => {
                self.set(tag, Job::Free);
                self.tries_again = true;
                self.start_over();
            }
            Err(
                CallError::Aborted { .. }
                | CallError::CollectiveRefused {
                    reason: CollectiveRefusal::WorldChanged | CollectiveRefusal::Withdrawn,
                    ..
                },
            ) => self.set(tag, Job::Aborted),
            Err(why) => {
                self.set(tag, Job::Free);
                self.failed(why, program);
            }
        }
    }

    fn start_over(&mut self) {
        if !self.back_to_top {
            self.retry();
        }
        self.back_to_top = true;
    }

    fn failed(&mut self, why: &CallError, program: &Program) {
        match why {
            CallError::SyncFailed(failure) if failure.is_retryable() && !program.starts_over => {
                self.retry();
            }
            CallError::SyncFailed(failure) if failure.is_retryable() => self.start_over(),
            CallError::Conflict(_)
            | CallError::CollectiveRefused {
                reason: CollectiveRefusal::NotJoined { .. },
                ..
            } => self.start_over(),
            // What cannot be mended: the user gives up.
            CallError::SyncFailed(_) | CallError::CollectiveRefused { .. } => self.at = u8::MAX,
            _ => self.waits = Waits::Over,
        }
    }

    /// What needs no call: going back to the top, reaping what is committed, computing.
    fn go_on(&mut self, program: &Program) {
        if self.waits != Waits::No {
            return;
        }
        if self.back_to_top && !self.jobs.contains(&Job::Running) {
            self.back_to_top = false;
            self.jobs = [Job::Free; TAGS_MAX];
            self.at = program.top;
        }
        while !self.back_to_top && self.goes_on_by_itself(program) {}
    }

    fn goes_on_by_itself(&mut self, program: &Program) -> bool {
        match program.steps.get(usize::from(self.at)) {
            Some(Do::Finish(tag)) if self.job(*tag) == Job::Committed => {
                self.set(*tag, Job::Free);
                self.at += 1;
                true
            }
            Some(Do::Advance) => {
                self.revision = self.revision.next();
                self.contents.advance(self.revision);
                self.at += 1;
                true
            }
            Some(Do::Cancel(tag)) if self.job(*tag) != Job::Running => {
                self.set(*tag, Job::Free);
                self.at += 1;
                true
            }
            Some(Do::StartTwice(tag) | Do::AskBack(tag)) if self.job(*tag) != Job::Running => {
                self.at += 1;
                true
            }
            Some(Do::Drop) => {
                self.at += 1;
                true
            }
            Some(Do::UpdateIfPending) if !self.told_pending => {
                self.at += 1;
                true
            }
            None if self.round + 1 < program.rounds && self.at != u8::MAX => {
                self.round += 1;
                self.at = 0;
                true
            }
            _ => false,
        }
    }

    fn an_aborted_tag(&self) -> Option<u8> {
        let at = self.jobs.iter().position(|job| *job == Job::Aborted)?;
        u8::try_from(at + 1).ok()
    }

    fn job(&self, tag: u8) -> Job {
        let at = usize::from(tag).wrapping_sub(1);
        self.jobs.get(at).copied().unwrap_or_default()
    }

    fn set(&mut self, tag: u8, job: Job) {
        if let Some(known) = self.jobs.get_mut(usize::from(tag).wrapping_sub(1)) {
            *known = job;
        }
    }
}
