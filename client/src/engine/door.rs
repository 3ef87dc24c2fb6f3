//! Whom to let in: lanes that others open, and the orders that expect them.
//!
//! A lane says what it is for in its preamble and shows the ticket of an order. It may come before the
//! order does, because the master tells the two ends one after the other; then it is held for a
//! while. What comes with an unknown ticket is refused with a text that its sender can read.
//!
//! **Invariant:** a lane of an order is accepted once.
//!
//! **Invariant:** strangers cost a bounded number of tasks and sockets, each for a bounded time, and
//! never keep the next connection from being accepted.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::time::Duration;

use pccl_core::id::{PeerId, Ticket};
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, Listener};
use pccl_core::wire::{Preamble, Purpose, Reply, recv_preamble, refuse, send_reply};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// How long a connection may take to say what it is for, and to take the answer.
const PREAMBLE_LIMIT: Duration = Duration::from_secs(5);

/// How long a lane waits for the order that expects it.
const HOLD_LIMIT: Duration = Duration::from_secs(5);

/// Room for connections of strangers, beside that for the lanes of two orders.
const STRANGERS_MAX: usize = 64;

/// Pause after the listener has failed, for want of descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

const UNKNOWN_TICKET: &str = "no such lane is expected here: the ticket is unknown, used, or of an attempt that was given up";

/// A lane that has said what it is for and waits for an answer.
#[derive(Debug)]
pub(super) struct Knock {
    preamble: Preamble,
    /// Where the lane goes; dropped: it is not wanted.
    answer: oneshot::Sender<oneshot::Sender<Lane>>,
}

/// A lane of an order, as its preamble names it.
type Key = (Purpose, Ticket, u16);

/// Somebody who waits for a lane.
#[derive(Debug)]
struct Expectation {
    from: PeerId,
    lanes: u16,
    lane: oneshot::Sender<Lane>,
}

/// The peer's listening port.
#[derive(Debug)]
pub(super) struct Door {
    knocks: mpsc::UnboundedReceiver<Knock>,
    expected: BTreeMap<Key, Expectation>,
    held: VecDeque<Knock>,
    room: usize,
    accepting: AbortHandle,
}

impl Door {
    /// Starts to accept, where an order has at most so many lanes. Has to be called inside a tokio
    /// runtime.
    ///
    /// All lanes of an order are opened at once. Of connections that have not said what they are for the
    /// oldest gives way where there are more than there is room for, and of lanes that wait for their
    /// order the next one is refused.
    pub(super) fn open(listener: Box<dyn Listener>, lanes: u16) -> Self {
        let (sender, knocks) = mpsc::unbounded_channel();
        let room = STRANGERS_MAX + 2 * usize::from(lanes);
        Self {
            knocks,
            expected: BTreeMap::new(),
            held: VecDeque::new(),
            room,
            accepting: tokio::spawn(accept(listener, sender, room)).abort_handle(),
        }
    }

    /// The next lane that has said what it is for. Cancel-safe.
    pub(super) async fn next_knock(&mut self) -> Option<Knock> {
        self.knocks.recv().await
    }

    /// Lets the lane in if it is expected, and holds it if it may be soon.
    pub(super) fn answer(&mut self, knock: Knock) {
        self.held.retain(|held| !held.answer.is_closed());
        if let Some(knock) = self.admit(knock)
            && self.held.len() < self.room
        {
            self.held.push_back(knock);
        }
    }

    /// Expects one lane of an order that the other end dials.
    pub(super) fn expect(
        &mut self,
        purpose: Purpose,
        order: &LaneOrder,
        (number, lanes): (u16, u16),
    ) -> oneshot::Receiver<Lane> {
        let (lane, expected) = oneshot::channel();
        let expectation = Expectation {
            from: order.with,
            lanes,
            lane,
        };
        self.expected.retain(|_, other| !other.lane.is_closed());
        self.expected
            .insert((purpose, order.ticket, number), expectation);
        for knock in std::mem::take(&mut self.held) {
            let still_held = self.admit(knock);
            self.held.extend(still_held);
        }
        expected
    }

    /// Gives the knock back where nobody expects it.
    fn admit(&mut self, knock: Knock) -> Option<Knock> {
        let preamble = &knock.preamble;
        let key = (preamble.purpose, preamble.ticket, preamble.lane);
        let fits = |expected: &Expectation| {
            expected.from == preamble.from && expected.lanes == preamble.lanes
        };
        if !self.expected.get(&key).is_some_and(fits) {
            return Some(knock);
        }
        let expected = self.expected.remove(&key)?;
        // Where it has gone meanwhile, its dialler will notice.
        let _ = knock.answer.send(expected.lane);
        None
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts until the listener is closed; at most `room` connections have not said what they are for.
async fn accept(
    mut listener: Box<dyn Listener>,
    knocks: mpsc::UnboundedSender<Knock>,
    room: usize,
) {
    let mut callers = JoinSet::new();
    let mut silent: VecDeque<(AbortHandle, oneshot::Receiver<()>)> = VecDeque::new();
    loop {
        let incoming = tokio::select! {
            incoming = poll_fn(|cx| listener.poll_accept(cx)) => incoming,
            Some(_) = callers.join_next() => continue,
        };
        match incoming {
            Ok(incoming) => {
                let (spoke, speaks) = oneshot::channel();
                let from = incoming.from;
                tracing::trace!(%from, "a connection came in");
                let caller = callers.spawn(receive(incoming.lane, spoke, knocks.clone()));
                silent.retain_mut(|(_, speaks)| !has_ended(speaks));
                silent.push_back((caller, speaks));
                if silent.len() > room
                    && let Some((oldest, _)) = silent.pop_front()
                {
                    oldest.abort();
                }
            }
            Err(LaneError::Closed) => return,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Has the sender been dropped?
fn has_ended(receiver: &mut oneshot::Receiver<()>) -> bool {
    receiver.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

/// Hears what a connection is for, and answers it. `spoke` is dropped once it has said so.
async fn receive(mut lane: Lane, spoke: oneshot::Sender<()>, knocks: mpsc::UnboundedSender<Knock>) {
    let preamble = match timeout(PREAMBLE_LIMIT, recv_preamble(&mut lane)).await {
        Ok(Ok(preamble)) => preamble,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection was refused");
            return;
        }
        Err(_) => return,
    };
    drop(spoke);
    let (answer, wanted) = oneshot::channel();
    if knocks.send(Knock { preamble, answer }).is_err() {
        return;
    }
    let reply = match timeout(HOLD_LIMIT, wanted).await {
        Ok(Ok(expected)) => {
            let accepted = send_reply(lane.tx.as_mut(), &Reply::Accepted);
            if let Ok(Ok(())) = timeout(PREAMBLE_LIMIT, accepted).await {
                // Where nobody waits any more the lane is dropped, which its dialler notices.
                let _ = expected.send(lane);
            }
            return;
        }
        Ok(Err(_)) | Err(_) => Reply::Refused(UNKNOWN_TICKET.into()),
    };
    // A dialler that does not take the refusal sees the end of the connection.
    let _ = timeout(PREAMBLE_LIMIT, refuse(lane.tx.as_mut(), &reply)).await;
}
