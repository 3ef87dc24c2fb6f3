//! Accepting connections, and the tasks that serve them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::ConnId;
use pccl_core::transport::{Incoming, LaneError, Listener};
use pccl_core::wire::Reply;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Event, Greeted, attend};
use crate::gate::{Full, Gate, Permit};
use crate::greeting::{greet, part, say_and_close};
use crate::limits::Limits;
use crate::server::StopHandle;

/// How many may be told at once that there is no room. More are cut off without a word.
const APOLOGIES_MAX: usize = 64;

/// Time that the tasks get, beyond their own limits, to end by themselves.
const SLACK: Duration = Duration::from_millis(100);

/// Accepts connections. Dropping it cuts all of them.
pub(crate) struct Reception {
    listener: Box<dyn Listener>,
    limits: Limits,
    gate: Arc<Gate>,
    apologies: Arc<Semaphore>,
    stop: StopHandle,
    desk: mpsc::Sender<Event>,
    next: ConnId,
    connections: JoinSet<()>,
}

impl Reception {
    pub(crate) fn new(
        listener: Box<dyn Listener>,
        limits: Limits,
        stop: StopHandle,
        desk: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            listener,
            gate: Gate::new(&limits),
            limits,
            apologies: Arc::new(Semaphore::new(APOLOGIES_MAX)),
            stop,
            desk,
            next: ConnId(0),
            connections: JoinSet::new(),
        }
    }

    /// Never ends by itself.
    pub(crate) async fn accept(&mut self) {
        loop {
            tokio::select! {
                biased;
                Some(_) = self.connections.join_next() => {}
                incoming = poll_fn(|cx| self.listener.poll_accept(cx)) => match incoming {
                    Ok(incoming) => self.admit(incoming),
                    Err(LaneError::Closed) => self.serve_on().await,
                    Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
                }
            }
        }
    }

    /// The run goes on without newcomers.
    async fn serve_on(&mut self) {
        tracing::error!("the listener has ended; nobody can join from here on");
        loop {
            if self.connections.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn admit(&mut self, incoming: Incoming) {
        match self.gate.enter(incoming.from.ip()) {
            Ok(permit) => self.serve(incoming, permit),
            Err(full) => self.turn_away(incoming, full),
        }
    }

    fn serve(&mut self, incoming: Incoming, permit: Permit) {
        let conn = self.next;
        self.next = conn.next();
        tracing::debug!(conn = conn.0, from = %incoming.from, "connected");
        let (limits, stop, desk) = (self.limits.clone(), self.stop.clone(), self.desk.clone());
        self.connections.spawn(async move {
            tokio::select! {
                biased;
                greeted = welcome(conn, incoming, permit, &limits) => {
                    if let Some(greeted) = greeted {
                        attend(greeted, &limits, desk).await;
                    }
                }
                () = stop.stopped() => {}
            }
        });
    }

    fn turn_away(&mut self, incoming: Incoming, full: Full) {
        tracing::debug!(from = %incoming.from, reason = %full, "turned away");
        let Ok(apology) = Arc::clone(&self.apologies).try_acquire_owned() else {
            return;
        };
        let limit = self.limits.farewell;
        self.connections.spawn(async move {
            let reply = Reply::NotYet(full.to_string()).encode();
            say_and_close(incoming.lane, &reply, limit).await;
            drop(apology);
        });
    }

    /// Stops listening and gives the connections their time to end.
    pub(crate) async fn close(self) {
        let Self {
            listener,
            limits,
            mut connections,
            ..
        } = self;
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // Who is not done by then is cut off with the set.
        timeout(limits.farewell + SLACK, all).await.ok();
    }
}

/// `None`: it was not welcome, and has been told so.
async fn welcome(
    conn: ConnId,
    incoming: Incoming,
    permit: Permit,
    limits: &Limits,
) -> Option<Greeted> {
    let Incoming { mut lane, from } = incoming;
    match greet(&mut lane, limits.handshake).await {
        Ok((hello, reader)) => Some(Greeted {
            conn,
            from,
            lane,
            hello,
            reader,
            permit,
        }),
        Err(error) => {
            if error.concerns_operator() {
                tracing::warn!("a connection from {from} is refused: {error}");
            } else {
                tracing::debug!("a connection from {from} came to nothing: {error}");
            }
            part(lane, &error, limits.farewell).await;
            None
        }
    }
}
