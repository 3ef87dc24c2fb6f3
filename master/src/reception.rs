//! Accepting connections, and the tasks that serve them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::ConnId;
use pccl_core::transport::{Incoming, Lane, LaneError, Listener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::apology::Apologies;
use crate::connection::{Event, Greeted, attend};
use crate::gate::{Gate, Place, Turn};
use crate::greeting::{greet, part};
use crate::intake::{Budget, Intake};
use crate::limits::Limits;
use crate::pulse::Noted;
use crate::server::StopHandle;

/// Time that the tasks get, beyond their own limits, to end by themselves.
const SLACK: Duration = Duration::from_millis(100);

/// Accepts connections. Dropping it cuts all of them.
pub(crate) struct Reception {
    listener: Box<dyn Listener>,
    limits: Limits,
    gate: Arc<Gate>,
    apologies: Apologies,
    budget: Budget,
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
            apologies: Apologies::within(limits.farewell),
            budget: Budget::of(limits.long_messages_bytes_max),
            limits,
            stop,
            desk,
            next: ConnId(0),
            connections: JoinSet::new(),
        }
    }

    /// Never ends by itself.
    pub(crate) async fn run(&mut self) {
        let gate = Arc::clone(&self.gate);
        tokio::select! {
            () = gate.keep() => {}
            () = self.accept() => {}
        }
    }

    async fn accept(&mut self) {
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
        match self.gate.arrive(incoming.from.ip()) {
            Ok(turn) => {
                let (visit, stop) = (self.visit(), self.stop.clone());
                self.connections
                    .spawn(async move { visit.run(incoming, turn, &stop).await });
            }
            Err(full) => {
                let apologies = self.apologies.clone();
                self.connections
                    .spawn(async move { apologies.turn_away(incoming, full).await });
            }
        }
    }

    fn visit(&mut self) -> Visit {
        let conn = self.next;
        self.next = conn.next();
        Visit {
            conn,
            limits: self.limits.clone(),
            budget: self.budget.clone(),
            apologies: self.apologies.clone(),
            desk: self.desk.clone(),
        }
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

/// One connection's way through the house.
struct Visit {
    conn: ConnId,
    limits: Limits,
    budget: Budget,
    apologies: Apologies,
    desk: mpsc::Sender<Event>,
}

impl Visit {
    /// Serves the connection to its end. A master that stops takes leave of its peers only.
    async fn run(self, incoming: Incoming, turn: Turn, stop: &StopHandle) {
        tracing::debug!(conn = self.conn.0, from = %incoming.from, "connected");
        let greeted = tokio::select! {
            biased;
            greeted = self.welcome(incoming, turn) => greeted,
            () = stop.stopped() => None,
        };
        if let Some(greeted) = greeted {
            // Whoever waits outside needs no memory for what comes after.
            Box::pin(attend(greeted, &self.limits, self.desk)).await;
        }
    }

    /// `None`: it was not welcome, and has been told so.
    async fn welcome(&self, incoming: Incoming, turn: Turn) -> Option<Greeted> {
        match turn.comes().await {
            Ok(place) => Box::pin(self.greet(incoming, place)).await,
            Err(full) => {
                self.apologies.turn_away(incoming, full).await;
                None
            }
        }
    }

    async fn greet(&self, incoming: Incoming, place: Place) -> Option<Greeted> {
        let Incoming { lane, from } = incoming;
        let mut lane = noted(lane, &place);
        let mut intake = Intake::new(&self.budget);
        match greet(&mut lane, &mut intake, &place, self.limits.handshake).await {
            Ok(hello) => Some(Greeted {
                conn: self.conn,
                from,
                lane,
                hello,
                intake,
                place,
            }),
            Err(error) => {
                if error.concerns_operator() {
                    tracing::warn!("a connection from {from} is refused: {error}");
                } else {
                    tracing::debug!("a connection from {from} came to nothing: {error}");
                }
                part(lane, &error, self.limits.farewell).await;
                None
            }
        }
    }
}

/// The same lane, whose arriving bytes the gate hears of.
fn noted(lane: Lane, place: &Place) -> Lane {
    Lane {
        rx: Box::new(Noted {
            rx: lane.rx,
            pulse: Arc::clone(place.pulse()),
        }),
        ..lane
    }
}
