//! Admission control for strangers: the tasks and locks around [`room`].
//!
//! Connections wait for a place. One is refused only if there is no place to wait, or if it has waited too long.

mod room;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::origin::Origin;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

pub(crate) use room::Full;
use room::{ArrivalNumber, Decision, Room};

use crate::limits::Limits;
use crate::patience::Patience;
use crate::pulse::Pulse;

/// The entrance of connections.
#[derive(Debug)]
pub(crate) struct Gate {
    waiting: Duration,
    book: Mutex<Book>,
    /// Notified if a connection has begun to wait, or if the conditions for those that wait have changed.
    changed: Notify,
}

/// The room, and the channels to the connections in it.
#[derive(Debug)]
struct Book {
    room: Room,
    /// Connections that wait outside.
    waiting: BTreeMap<ArrivalNumber, oneshot::Sender<Permit>>,
    /// Accepted connections that may have to give way.
    inside: BTreeMap<ArrivalNumber, Arc<Notify>>,
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            waiting: limits.waiting,
            book: Mutex::new(Book {
                room: Room::new(limits),
                waiting: BTreeMap::new(),
                inside: BTreeMap::new(),
            }),
            changed: Notify::new(),
        })
    }

    /// A connection arrives from this address. It gets a place, or a turn in the queue.
    pub(crate) fn arrive(self: &Arc<Self>, from: IpAddr) -> Result<Turn, Full> {
        let mut book = self.lock();
        let (number, arrival) = book.room.arrive(Origin::from(from));
        let instead_of = match arrival {
            Decision::Waits { instead_of } => instead_of,
            Decision::TurnedAway(full) => return Err(full),
        };
        // Whoever loses its place outside learns it from its sender being dropped.
        drop(instead_of.and_then(|other| book.waiting.remove(&other)));
        let (granted, permit) = oneshot::channel();
        book.waiting.insert(number, granted);
        self.let_in(book);
        let gate = Arc::clone(self);
        Ok(Turn {
            gate,
            number,
            permit,
        })
    }

    /// Closes silent strangers while others wait. Never ends.
    pub(crate) async fn keep(self: &Arc<Self>) {
        loop {
            let next = self.lock().room.next_to_give_way();
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = until(next.map(|(at, _)| at)) => {
                    // Whatever has arrived from them is read first.
                    yield_now().await;
                    self.clear();
                }
            }
        }
    }

    /// Takes the places of connections that have to give way by this moment.
    fn clear(self: &Arc<Self>) {
        let now = Instant::now();
        loop {
            let mut book = self.lock();
            match book.room.next_to_give_way() {
                Some((at, number)) if at <= now => {
                    book.room.leave(number);
                    if let Some(dismissed) = book.inside.remove(&number) {
                        dismissed.notify_one();
                    }
                    self.let_in(book);
                }
                _ => return,
            }
        }
    }

    /// Accepts the connections that have a place, after a change.
    fn let_in(self: &Arc<Self>, mut book: MutexGuard<'_, Book>) {
        let mut granted = Vec::new();
        while let Some((number, pulse)) = book.room.next_turn() {
            let dismissed = Arc::new(Notify::new());
            book.inside.insert(number, Arc::clone(&dismissed));
            if let Some(waiter) = book.waiting.remove(&number) {
                let gate = Arc::clone(self);
                let permit = Permit {
                    gate,
                    number,
                    pulse,
                    dismissed,
                };
                granted.push((waiter, permit));
            }
        }
        let somebody_waits = !book.waiting.is_empty();
        drop(book);
        if somebody_waits {
            self.changed.notify_one();
        }
        for (waiter, permit) in granted {
            // A place that nobody takes is given back when it is dropped here.
            waiter.send(permit).ok();
        }
    }

    fn leave(self: &Arc<Self>, number: ArrivalNumber) {
        let mut book = self.lock();
        book.room.leave(number);
        book.inside.remove(&number);
        book.waiting.remove(&number);
        self.let_in(book);
    }

    /// Nothing that holds the lock can panic. Even if it were poisoned, the counts would be right.
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A connection's turn in the queue. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Turn {
    gate: Arc<Gate>,
    number: ArrivalNumber,
    permit: oneshot::Receiver<Permit>,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) async fn comes(mut self) -> Result<Permit, Full> {
        let mut patience = Patience::of(self.gate.waiting);
        match patience.wait(&mut self.permit).await {
            Some(Ok(permit)) => Ok(permit),
            Some(Err(_)) => Err(Full::Outside),
            None => Err(self.gate.lock().room.reason(self.number)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A place that was granted belongs to whoever holds it; in this moment that may be the channel.
        if self.gate.lock().waiting.contains_key(&self.number) {
            self.gate.leave(self.number);
        }
    }
}

/// A place among the accepted connections. Dropping it makes room for the next one.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    number: ArrivalNumber,
    pulse: Arc<Pulse>,
    dismissed: Arc<Notify>,
}

impl Permit {
    /// The time of the last arrival. The reader must update it.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Waits until the stranger has to give way. Its place is then lost.
    pub(crate) async fn dismissed(&self) {
        self.dismissed.notified().await;
    }

    /// It has said hello, and need not give way any more.
    pub(crate) fn greeted(&self) {
        let mut book = self.gate.lock();
        book.room.greeted(self.number);
        book.inside.remove(&self.number);
    }

    /// From here on it is a newcomer.
    pub(crate) fn registered(&self) {
        let mut book = self.gate.lock();
        book.room.registered(self.number);
        self.gate.let_in(book);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(self.number);
    }
}

#[cfg(test)]
mod tests;
