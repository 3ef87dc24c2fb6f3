//! The stages of one connection: the queue, the handshake, and the membership.

use std::net::SocketAddr;
use std::sync::Arc;

use pccl_core::id::ConnId;
use pccl_core::transport::{Incoming, Lane};
use tokio::sync::mpsc;

use crate::apology::Apologies;
use crate::connection::{Event, Greeted, Returned, attend, attend_again};
use crate::doorkeeper::Doorkeeper;
use crate::gate::{Permit, Turn};
use crate::greeting::{Concern, GreetError, Introduction, greet, part};
use crate::intake::{Budget, Intake};
use crate::limits::Limits;
use crate::pulse::Noted;
use crate::security::Trust;
use crate::seldom::Seldom;
use crate::server::StopHandle;

/// The state that all connections of a master share. Clones are the same.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) limits: Limits,
    pub(crate) apologies: Apologies,
    pub(crate) stop: StopHandle,
    /// `None`: everybody is admitted.
    pub(crate) door: Option<Arc<Doorkeeper>>,
    budget: Budget,
    desk: mpsc::Sender<Event>,
    refused: Seldom<Concern>,
}

impl House {
    pub(crate) fn new(
        limits: Limits,
        trust: Option<Trust>,
        stop: StopHandle,
        desk: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            apologies: Apologies::within(limits.farewell),
            budget: Budget::of(limits.long_messages_bytes_max),
            door: trust.map(Doorkeeper::new),
            refused: Seldom::default(),
            limits,
            stop,
            desk,
        }
    }

    /// A rate-limited log line for errors that concern the operator.
    fn log(&self, from: SocketAddr, error: &GreetError) {
        let due = error.concern().and_then(|why| self.refused.another(why));
        match due {
            Some(1) => tracing::warn!("a connection from {from} is refused: {error}"),
            Some(connections) => tracing::warn!(
                "{connections} connections have been refused, the latest from {from}: {error}"
            ),
            None => tracing::debug!("a connection from {from} came to nothing: {error}"),
        }
    }
}

/// A connection that has introduced itself.
enum Welcome {
    Greeted(Greeted),
    Returned(Returned),
}

/// One connection.
pub(crate) struct Visit {
    pub(crate) conn: ConnId,
    pub(crate) house: House,
}

impl Visit {
    /// Serves the connection to its end. A stopping master says goodbye to its peers only.
    pub(crate) async fn run(self, incoming: Incoming, turn: Turn) {
        tracing::debug!(conn = self.conn.0, from = %incoming.from, "connected");
        let greeted = tokio::select! {
            biased;
            greeted = self.welcome(incoming, turn) => greeted,
            _ = self.house.stop.stopped() => None,
        };
        if let Some(greeted) = greeted {
            let House { limits, desk, .. } = self.house;
            // Whoever waits outside needs no memory for what comes after.
            match greeted {
                Welcome::Greeted(greeted) => Box::pin(attend(greeted, &limits, desk)).await,
                Welcome::Returned(returned) => {
                    Box::pin(attend_again(returned, &limits, desk)).await;
                }
            }
        }
    }

    /// `None`: the connection was refused, and has been told so.
    async fn welcome(&self, incoming: Incoming, turn: Turn) -> Option<Welcome> {
        match turn.comes().await {
            Ok(permit) => Box::pin(self.greet(incoming, permit)).await,
            Err(full) => {
                self.house.apologies.turn_away(incoming, full).await;
                None
            }
        }
    }

    async fn greet(&self, incoming: Incoming, permit: Permit) -> Option<Welcome> {
        let Incoming { lane, from } = incoming;
        let House { limits, door, .. } = &self.house;
        let mut lane = noted(lane, &permit);
        let mut intake = Intake::new(&self.house.budget);
        match greet(
            &mut lane,
            &mut intake,
            &permit,
            door.as_ref(),
            limits.handshake,
        )
        .await
        {
            Ok((Introduction::Session(session), inside)) => Some(Welcome::Returned(Returned {
                conn: self.conn,
                from,
                lane,
                intake,
                permit,
                inside,
                session,
            })),
            Ok((Introduction::Hello(hello), inside)) => Some(Welcome::Greeted(Greeted {
                conn: self.conn,
                from,
                lane,
                hello,
                intake,
                permit,
                inside,
            })),
            Err(error) => {
                self.house.log(from, &error);
                part(lane, &error, limits.farewell).await;
                None
            }
        }
    }
}

/// The same lane, whose arrivals are reported to the gate.
fn noted(lane: Lane, permit: &Permit) -> Lane {
    Lane {
        rx: Box::new(Noted {
            rx: lane.rx,
            pulse: Arc::clone(permit.pulse()),
        }),
        ..lane
    }
}
