//! Whom to let in: lanes that others open, and the orders that expect them.
//!
//! A lane says what it is for in its preamble and shows the ticket of an order. It may come before the
//! order does, because the master tells the two ends one after the other; then it is held for a
//! while, and told to come again if the order does not come. What has a ticket that was used or given up
//! is refused for good, with a text that its sender can read; and so is what has the ticket of a process
//! whose key it has not proved.
//!
//! **Invariant:** a lane of an order is accepted once.
//!
//! **Invariant:** strangers cost a bounded number of tasks and sockets, each for a bounded time, and
//! never keep the next connection from being accepted.
//!
//! **Invariant:** however many lanes come from one address, they push out none of an address from which
//! fewer come.

mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::time::Duration;

use pccl_core::crowd::Crowd;
use pccl_core::id::{Identity, Ticket};
use pccl_core::origin::Origin;
use pccl_core::seldom::Seldom;
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, Listener};
use pccl_core::wire::{Preamble, Purpose, Reply, recv_preamble, refuse, send_reply};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::patience;

use refusals::Refusals;

/// How long a connection may take to say what it is for, and to take the answer.
const PREAMBLE_LIMIT: Duration = Duration::from_secs(5);

/// How long a lane waits for the order that expects it.
const HOLD_LIMIT: Duration = Duration::from_secs(5);

/// Room for connections of strangers, beside that for the lanes of two orders.
const STRANGERS_MAX: usize = 64;

/// Pause after the listener has failed, for want of descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Tickets, with their lanes, that are remembered as spent, for each that may wait. Whoever comes with
/// one that is forgotten is told to come again, in vain.
const SPENT_FACTOR: usize = 4;

const NOT_THE_MASTER: &str = "a peer of a run listens here, and not the master: connect to the address that the master was started with";

const NO_ROOM: &str = "too many connections have not said yet what they are for; try again";

const UNKNOWN_TICKET: &str = "no such lane is expected here yet: the ticket is unknown; try again";

const SPENT_TICKET: &str =
    "no such lane is expected here: the ticket was used, or is of an attempt that was given up";

const UNTRUSTED: &str =
    "no such lane is expected here: the ticket is of a process with another key";

/// A lane that has said what it is for and waits for an answer.
#[derive(Debug)]
pub(super) struct Knock {
    preamble: Preamble,
    from: Origin,
    /// What the lane's other end has proved.
    identity: Option<Identity>,
    /// Dropped: the lane may come again.
    answer: oneshot::Sender<Answer>,
}

/// What becomes of a lane.
#[derive(Debug)]
enum Answer {
    /// It goes there.
    Expected(oneshot::Sender<Lane>),
    /// Its ticket is of no use any more.
    Spent,
    /// Its ticket is another process's.
    Untrusted,
}

/// A lane of an order, as its preamble names it.
type Key = (Purpose, Ticket, u16);

/// Somebody who waits for a lane.
#[derive(Debug)]
struct Expectation {
    order: LaneOrder,
    lanes: u16,
    lane: oneshot::Sender<Lane>,
}

/// The peer's listening port.
#[derive(Debug)]
pub(super) struct Door {
    knocks: mpsc::UnboundedReceiver<Knock>,
    expected: BTreeMap<Key, Expectation>,
    /// Lanes that were accepted or given up, the last ones.
    spent: VecDeque<Key>,
    spent_max: usize,
    held: Crowd<Knock>,
    accepting: AbortHandle,
    port: u16,
}

impl Door {
    /// Starts to accept, where an order has at most so many lanes. Has to be called inside a tokio
    /// runtime.
    ///
    /// All lanes of an order are opened at once. Where more connections have not said what they are for
    /// than there is room for, or more lanes wait for their order, the oldest of the address with the
    /// most gives way.
    pub(super) fn open(listener: Box<dyn Listener>, lanes: u16) -> Self {
        let (sender, knocks) = mpsc::unbounded_channel();
        let room = STRANGERS_MAX + 2 * usize::from(lanes);
        Self {
            knocks,
            expected: BTreeMap::new(),
            spent: VecDeque::new(),
            spent_max: SPENT_FACTOR * room,
            held: Crowd::new(room),
            port: listener.local_addr().port(),
            accepting: tokio::spawn(accept(listener, sender, room)).abort_handle(),
        }
    }

    /// Where it listens.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// The next lane that has said what it is for. Cancel-safe.
    pub(super) async fn next_knock(&mut self) -> Option<Knock> {
        self.knocks.recv().await
    }

    /// Lets the lane in if it is expected, and holds it if it may be soon.
    pub(super) fn answer(&mut self, knock: Knock) {
        self.held.retain(|held| !held.answer.is_closed());
        if let Some(knock) = self.admit(knock) {
            let gives_way = self.held.push(knock.from, knock);
            // Dropped, it is told to come again.
            drop(gives_way);
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
            order: *order,
            lanes,
            lane,
        };
        let mut given_up = Vec::new();
        self.expected.retain(|key, other| {
            let is_wanted = !other.lane.is_closed();
            given_up.extend((!is_wanted).then_some(*key));
            is_wanted
        });
        given_up.into_iter().for_each(|key| self.spend(key));
        self.expected
            .insert((purpose, order.ticket, number), expectation);
        for knock in self.held.take_all() {
            if let Some(knock) = self.admit(knock) {
                self.held.push(knock.from, knock);
            }
        }
        expected
    }

    /// Gives the knock back where nobody expects it yet.
    fn admit(&mut self, knock: Knock) -> Option<Knock> {
        let preamble = &knock.preamble;
        let key = (preamble.purpose, preamble.ticket, preamble.lane);
        let answer = match self.expected.remove(&key) {
            None if self.spent.contains(&key) => Answer::Spent,
            None => return Some(knock),
            Some(expected) => {
                let (with, lanes) = (expected.order.with, expected.lanes);
                let is_trusted = expected.order.is_with(knock.identity);
                if (with, lanes) != (preamble.from, preamble.lanes) || !is_trusted {
                    // Not a lane of this order, which still expects its own.
                    self.expected.insert(key, expected);
                    if is_trusted {
                        return Some(knock);
                    }
                    Answer::Untrusted
                } else {
                    self.spend(key);
                    match expected.lane.is_closed() {
                        true => Answer::Spent,
                        false => Answer::Expected(expected.lane),
                    }
                }
            }
        };
        // Where it has gone meanwhile, its dialler will notice.
        let _ = knock.answer.send(answer);
        None
    }

    fn spend(&mut self, key: Key) {
        if self.spent.len() >= self.spent_max {
            self.spent.pop_front();
        }
        self.spent.push_back(key);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A connection that has not said what it is for.
#[derive(Debug)]
struct Silent {
    /// Dropped: it has to give way.
    _stays: oneshot::Sender<()>,
    /// Closed once it has said so, or is gone.
    spoke: oneshot::Receiver<()>,
}

/// Accepts until the listener is closed; at most `room` connections have not said what they are for, and at most as many
/// are being refused.
async fn accept(
    mut listener: Box<dyn Listener>,
    knocks: mpsc::UnboundedSender<Knock>,
    room: usize,
) {
    let mut callers = JoinSet::new();
    let mut silent: Crowd<Silent> = Crowd::new(room);
    let refusals = Refusals::within(PREAMBLE_LIMIT, room);
    let mut troubles = Seldom::default();
    loop {
        let incoming = tokio::select! {
            // Each caller ends once, so they do not hold back those who come.
            biased;
            Some(_) = callers.join_next() => continue,
            incoming = poll_fn(|cx| listener.poll_accept(cx)) => incoming,
        };
        match incoming {
            Ok(incoming) => {
                tracing::trace!(from = %incoming.from, "a connection came in");
                let from = Origin::from(incoming.from.ip());
                let (speaks, spoke) = oneshot::channel();
                let (_stays, stays) = oneshot::channel();
                callers.spawn(serve(
                    (incoming.lane, from),
                    (speaks, stays),
                    knocks.clone(),
                    refusals.clone(),
                ));
                silent.retain(|silent| !has_ended(&mut silent.spoke));
                let gives_way = silent.push(from, Silent { _stays, spoke });
                // Dropped, it is told to come again.
                drop(gives_way);
            }
            Err(LaneError::Closed) => return,
            Err(error) => {
                tell_trouble(&mut troubles, error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What only this machine can be blamed for repeats itself until somebody does something about it.
fn tell_trouble(troubles: &mut Seldom<LaneError, Instant>, trouble: LaneError) {
    let due = match trouble {
        LaneError::NoDescriptors | LaneError::Os(_) => troubles.another(trouble, Instant::now()),
        _ => None,
    };
    match due {
        Some(times) => tracing::warn!(
            times,
            "lanes of other peers could not be accepted: {trouble}"
        ),
        None => tracing::debug!("a connection could not be accepted: {trouble}"),
    }
}

/// Has the sender been dropped?
fn has_ended(receiver: &mut oneshot::Receiver<()>) -> bool {
    receiver.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

/// Hears what a connection is for, and answers it. `speaks` is dropped once it has said so; once `stays` has
/// ended there is no room for it before that.
async fn serve(
    (mut lane, from): (Lane, Origin),
    (speaks, stays): (oneshot::Sender<()>, oneshot::Receiver<()>),
    knocks: mpsc::UnboundedSender<Knock>,
    refusals: Refusals,
) {
    let heard = tokio::select! {
        // What has arrived is heard, also from who has to give way.
        biased;
        heard = patience::within(PREAMBLE_LIMIT, recv_preamble(&mut lane)) => heard,
        _ = stays => {
            // No room means no time either: what does not leave at once does not leave.
            let not_yet = Reply::NotYet(NO_ROOM.into());
            let _ = timeout(Duration::ZERO, refuse(lane.tx.as_mut(), &not_yet)).await;
            return;
        }
    };
    let preamble = match heard {
        Some(Ok(preamble)) => preamble,
        Some(Err(error)) => {
            tracing::debug!(%error, "a connection was refused");
            return;
        }
        None => return,
    };
    drop(speaks);
    match preamble.purpose {
        Purpose::Control | Purpose::Resume => {
            let refused = Reply::Refused(NOT_THE_MASTER.into());
            refusals.tell(lane, from, &refused).await;
        }
        Purpose::LinkLane | Purpose::SharedState | Purpose::Probe => {
            answer((lane, from), preamble, knocks, refusals).await;
        }
    }
}

/// Answers a connection that has said what it is for.
async fn answer(
    (mut lane, from): (Lane, Origin),
    preamble: Preamble,
    knocks: mpsc::UnboundedSender<Knock>,
    refusals: Refusals,
) {
    let (answer, wanted) = oneshot::channel();
    let knock = Knock {
        preamble,
        from,
        identity: lane.identity(),
        answer,
    };
    if knocks.send(knock).is_err() {
        return;
    }
    let reply = match timeout(HOLD_LIMIT, wanted).await {
        Ok(Ok(Answer::Expected(expected))) => {
            let accepted = send_reply(lane.tx.as_mut(), &Reply::Accepted);
            if let Ok(Ok(())) = timeout(PREAMBLE_LIMIT, accepted).await {
                // Where nobody waits any more the lane is dropped, which its dialler notices.
                let _ = expected.send(lane);
            }
            return;
        }
        Ok(Ok(Answer::Spent)) => Reply::Refused(SPENT_TICKET.into()),
        Ok(Ok(Answer::Untrusted)) => Reply::Refused(UNTRUSTED.into()),
        Ok(Err(_)) | Err(_) => Reply::NotYet(UNKNOWN_TICKET.into()),
    };
    refusals.tell(lane, from, &reply).await;
}
