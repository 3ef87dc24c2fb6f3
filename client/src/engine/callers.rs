//! Who waits for the answers to the calls that are open.
//!
//! Which calls may be made, and what a call leaves behind that is given up, is the peer machine's business:
//! see `admission` in `pccl_core::peer`. Whoever drops the future of a call says so by a command of its own, so
//! what nobody takes here is on its way to be given up.

use std::collections::BTreeMap;
use std::time::Duration;

use pccl_core::awaited::Awaited;
use pccl_core::id::{CallId, Round};
use pccl_core::peer::{Answer, Kind};
use tokio::time::Instant;

use super::command::{Caller, CollectiveNotice, MoveOrder, SyncNotice};

/// After how many times the first wait the log says again whom a call waits for.
const REPEATS_AFTER: u32 = 6;

/// How many looks at the calls there are in the time after which the log says whom one waits for, at most.
const LOOKS: u32 = 4;

/// The shortest time between two looks, however short that time is.
const LOOKS_APART: Duration = Duration::from_millis(10);

/// Longer than any call; what would end later ends here.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The callers of all open calls.
#[derive(Debug)]
pub(super) struct Callers {
    open: BTreeMap<CallId, Open>,
    /// The synchronization whose state moves, or has moved.
    moving: Option<(Round, CallId)>,
    /// How long a call waits before the log says for whom.
    warn_after: Duration,
    /// When to look for calls that have waited for so long; `None`: there was none at the last look.
    next_look: Option<Instant>,
}

/// A call that has no answer.
#[derive(Debug)]
struct Open {
    caller: Caller,
    kind: Kind,
    /// When the log is to say whom it waits for, if it still does.
    tell_at: Instant,
    /// The master has been asked whom it waits for, so that the log can say so.
    is_asked: bool,
}

impl Callers {
    pub(super) const fn new(warn_after: Duration) -> Self {
        Self {
            open: BTreeMap::new(),
            moving: None,
            warn_after,
            next_look: None,
        }
    }

    pub(super) fn insert(&mut self, call: CallId, kind: Kind, caller: Caller) {
        let tell_at = after(Instant::now(), self.warn_after);
        let open = Open {
            caller,
            kind,
            tell_at,
            is_asked: false,
        };
        self.open.insert(call, open);
        self.next_look.get_or_insert(tell_at);
    }

    /// When to [look](Self::look); `None`: no call is open that has to be looked at.
    pub(super) const fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Whether calls have waited for so long that the master is to be asked for whom. Looks are a quarter of the time
    /// apart at least, no matter how many calls there are.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        if self.next_look.is_none_or(|at| now < at) {
            return false;
        }
        let again_at = after(now, self.warn_after.saturating_mul(REPEATS_AFTER));
        let due = self.open.values_mut().filter(|open| open.tell_at <= now);
        let due = due.map(|open| (open.is_asked, open.tell_at) = (true, again_at));
        let is_due = due.count() > 0;
        let soonest = after(now, (self.warn_after / LOOKS).max(LOOKS_APART));
        let next = self.open.values().map(|open| open.tell_at).min();
        self.next_look = next.map(|next| next.max(soonest));
        is_due
    }

    /// Writes down whom those calls wait for that the master was asked about.
    pub(super) fn tell_who_is_awaited(&mut self, awaited: &Awaited) {
        for open in self.open.values_mut().filter(|open| open.is_asked) {
            open.is_asked = false;
            let mut waits = awaited.waits.iter();
            match waits.find(|wait| wait.call.kind() == open.kind) {
                // Others admit newcomers when it suits them.
                Some(wait) if open.kind == Kind::Connect => tracing::info!("{wait}"),
                Some(wait) => tracing::warn!("{wait}"),
                // It is on its way, or there are too many to tell.
                None => {}
            }
        }
    }

    /// Whether the call was open.
    pub(super) fn give_up(&mut self, call: CallId) -> bool {
        self.open.remove(&call).is_some()
    }

    /// Gives an answer to whoever waits for it.
    pub(super) fn answer(&mut self, call: CallId, answer: Answer) {
        let Some(Open { caller, .. }) = self.open.remove(&call) else {
            return;
        };
        match (answer, caller) {
            (Answer::Connected(result), Caller::Connect(reply)) => drop(reply.send(result)),
            (Answer::TopologyUpdated(result), Caller::Topology(reply)) => drop(reply.send(result)),
            (Answer::TopologyOptimized(result), Caller::Optimization(reply)) => {
                drop(reply.send(result));
            }
            (Answer::PeersPending(result), Caller::Query(reply)) => drop(reply.send(result)),
            (Answer::Synchronized(result), Caller::Sync(events)) => {
                drop(events.send(SyncNotice::Ended(result)));
            }
            (Answer::CollectiveEnded { result, .. }, Caller::Collective(events)) => {
                drop(events.send(CollectiveNotice::Ended(result)));
            }
            (answer, caller) => debug_assert!(false, "{answer:?} is no answer to {caller:?}"),
        }
    }

    /// Tells a collective.
    pub(super) fn tell_collective(&self, call: CallId, event: CollectiveNotice) {
        if let Some(Caller::Collective(events)) = self.caller(call) {
            drop(events.send(event));
        }
    }

    /// Gives a plan to the synchronization that it is for.
    pub(super) fn move_state(&mut self, call: CallId, order: MoveOrder) {
        let round = order.plan.round;
        self.moving = Some((round, call));
        self.tell_sync(round, SyncNotice::Move(order));
    }

    /// Tells the synchronization whose state moves in this round, if it is still open.
    pub(super) fn tell_sync(&self, of: Round, event: SyncNotice) {
        let call = self.moving.filter(|(round, _)| *round == of);
        let caller = call.and_then(|(_, call)| self.caller(call));
        if let Some(Caller::Sync(events)) = caller {
            drop(events.send(event));
        }
    }

    fn caller(&self, call: CallId) -> Option<&Caller> {
        self.open.get(&call).map(|open| &open.caller)
    }
}

fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(FOREVER)
}
