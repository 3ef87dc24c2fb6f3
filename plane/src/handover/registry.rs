//! Which operations run, so that a frame finds the one that it belongs to.
//!
//! Operations are registered in the order of their numbers, as the master starts them. A number that
//! is not running is therefore over if a higher one, or itself, was ever registered; otherwise it is
//! yet to come, because the neighbour has heard of it first, or has begun ahead.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pccl_core::id::{Round, Seq};
use pccl_core::topology::LinkId;
use pccl_core::wire::FrameHeader;

use super::link::LinkState;
use super::mailbox::{self, mailbox};
use super::receiving::RxLane;
use super::sending::TxLane;
use crate::pace::Share;

/// What an operation is told or given. Never blocks the sender.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A lane on which a frame of the operation comes next.
    Frame(RxLane, FrameHeader),
    /// The operation's turn to send on this lane.
    Turn(TxLane),
    /// Another operation waits for a lane that this one holds.
    Wanted,
    /// How much the operation may contribute from here on.
    Share(Share),
    /// A lane of the link that was built in this round is of no more use.
    LaneEnded {
        link: LinkId,
        built: Round,
        lane: u16,
    },
    /// The link is no longer in use.
    LinkGone { link: LinkId, built: Round },
    /// Look at the flag.
    Stop,
}

/// Where to send deliveries for one operation.
pub(crate) type DeliverySender = mailbox::Sender<Delivery>;

/// Deliveries that an operation has room for at first. Before it looks it is given a few for each lane;
/// where that is more, the room grows once and stays.
const ROOM: usize = 32;

/// Where an operation finds its deliveries. What it has not taken out when this is dropped is passed on.
#[derive(Debug)]
pub(crate) struct Inbox(mailbox::Receiver<Delivery>);

impl Inbox {
    pub(crate) fn new() -> (DeliverySender, Self) {
        let (address, deliveries) = mailbox(ROOM);
        (address, Self(deliveries))
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        self.0.poll_recv(cx)
    }

    #[cfg(test)]
    pub(crate) fn try_next(&mut self) -> Option<Delivery> {
        self.0.try_recv()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // From here on senders keep what they have.
        self.0.close().into_iter().for_each(Delivery::pass_on);
    }
}

impl Delivery {
    /// Nobody takes it: lanes go to whoever is next.
    fn pass_on(self) {
        match self {
            Self::Frame(lane, header) => lane.go_home(header.length as usize),
            Self::Turn(lane) => lane.pass_on(),
            Self::Wanted
            | Self::Share(_)
            | Self::LaneEnded { .. }
            | Self::LinkGone { .. }
            | Self::Stop => {}
        }
    }
}

/// The plane's side of a running operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) address: DeliverySender,
    pub(crate) course: Arc<Course>,
}

/// What its run looks at.
#[derive(Debug, Default)]
pub(crate) struct Course {
    is_stopped: AtomicBool,
    /// Others may not have been told to run it.
    is_ahead: AtomicBool,
}

impl Course {
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ahead(&self, is_ahead: bool) {
        self.is_ahead.store(is_ahead, Ordering::Relaxed);
    }
}

impl Operation {
    /// Ends the run at its next frame.
    pub(crate) fn stop(&self) {
        self.course.is_stopped.store(true, Ordering::Release);
        // Fails only where nobody runs it any more.
        let _ = self.address.send(Delivery::Stop);
    }
}

/// The running operations, and lanes with frames for those to come.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    /// Odd: stalls are excused. Grows with each change.
    excuses: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<Seq, Operation>,
    /// The highest number ever registered.
    newest: Option<Seq>,
    /// Lanes whose next frame belongs to an operation that is yet to come.
    early: Vec<(RxLane, FrameHeader)>,
}

impl State {
    fn runs_alone(&self, seq: Seq) -> bool {
        self.running.len() == 1 && self.running.contains_key(&seq)
    }
}

impl Registry {
    /// Whether an operation that stalls waits on.
    pub(crate) fn excuse_stalls(&self, are_excused: bool) {
        let excuses = self.excuses.load(Ordering::Relaxed);
        if Self::are_excused_in(excuses) != are_excused {
            self.excuses
                .store(excuses.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Another number after each change of whether stalls are excused.
    pub(crate) fn excuses(&self) -> u64 {
        self.excuses.load(Ordering::Relaxed)
    }

    /// Whether stalls are excused while there is this number.
    pub(crate) const fn are_excused_in(excuses: u64) -> bool {
        excuses % 2 == 1
    }

    /// Registers an operation. Returns the lanes of each of these links that had ended before: no end will
    /// be delivered for those.
    pub(crate) fn begin<'a>(
        &self,
        seq: Seq,
        op: Operation,
        links: impl Iterator<Item = &'a LinkState>,
    ) -> Vec<Vec<u16>> {
        let mut state = self.state();
        state.running.insert(seq, op);
        state.newest = state.newest.max(Some(seq));
        let ended = links.map(LinkState::ended_lanes).collect();
        let early = mem::take(&mut state.early);
        drop(state);
        for (lane, header) in early {
            self.route(lane, header);
        }
        ended
    }

    /// Everybody runs the operation from here on.
    pub(crate) fn confirm(&self, seq: Seq) {
        if let Some(op) = self.state().running.get(&seq) {
            op.course.set_ahead(false);
        }
    }

    /// Does no other operation run than this one?
    pub(crate) fn is_alone(&self, seq: Seq) -> bool {
        self.state().runs_alone(seq)
    }

    /// How many operations run.
    pub(crate) fn at_once(&self) -> usize {
        self.state().running.len()
    }

    /// Does it run, alone or not?
    pub(crate) fn runs(&self, seq: Seq) -> bool {
        self.state().running.contains_key(&seq)
    }

    /// Does no other operation run, and has no other one begun since it did?
    pub(crate) fn was_alone(&self, seq: Seq) -> bool {
        let state = self.state();
        state.newest == Some(seq) && state.runs_alone(seq)
    }

    /// Gives a lane to the operation whose frame comes next on it; sends it home to have the frame
    /// thrown away where that is over, and keeps it where it is yet to come.
    pub(crate) fn route(&self, lane: RxLane, header: FrameHeader) {
        let mut state = self.state();
        let refused = match state.running.get(&header.seq) {
            Some(op) => match op.address.send(Delivery::Frame(lane, header)) {
                Ok(()) => None,
                Err(refused) => Some(refused.0),
            },
            None if state.newest < Some(header.seq) => {
                lane.strayed();
                state.early.push((lane, header));
                None
            }
            None => {
                lane.strayed();
                Some(Delivery::Frame(lane, header))
            }
        };
        drop(state);
        if let Some(Delivery::Frame(lane, header)) = refused {
            lane.go_home(header.length as usize);
        }
    }

    /// Whether a lane of this link waits for an operation that is yet to come.
    pub(crate) fn holds_lane_of(&self, link: &LinkState) -> bool {
        let state = self.state();
        let mut early = state.early.iter();
        early.any(|(lane, _)| lane.is_of(link.link(), link.built()))
    }

    /// A lane is of no more use: the link is reported, and every operation is told.
    pub(crate) fn lane_ended(&self, link: &LinkState, lane: u16) {
        let state = self.state();
        link.mark_ended(lane);
        link.report();
        for op in state.running.values() {
            // Fails only where nobody runs it any more.
            let _ = op.address.send(Delivery::LaneEnded {
                link: link.link(),
                built: link.built(),
                lane,
            });
        }
    }

    /// Stops an operation. Its frames find nobody from here on.
    ///
    /// It may never have begun here: lanes on which its frames come next have waited in vain then.
    pub(crate) fn stop(&self, seq: Seq) {
        let mut state = self.state();
        let ended = state.running.remove(&seq);
        state.newest = state.newest.max(Some(seq));
        let early = mem::take(&mut state.early);
        drop(state);
        ended.into_iter().for_each(|op| op.stop());
        for (lane, header) in early {
            self.route(lane, header);
        }
    }

    /// Stops everything.
    pub(crate) fn end_all(&self) {
        let mut state = self.state();
        state.early.clear();
        for op in mem::take(&mut state.running).into_values() {
            op.stop();
        }
    }

    /// Tells everybody that a link is no longer in use.
    pub(crate) fn link_gone(&self, link: LinkId, built: Round) {
        let mut state = self.state();
        state.early.retain(|(lane, _)| !lane.is_of(link, built));
        for op in state.running.values() {
            let _ = op.address.send(Delivery::LinkGone { link, built });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
