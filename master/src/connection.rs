//! A connection after its hello: its messages go to the desk, and the desk's messages go out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{ConnId, Identity, PeerId, Ticket};
use pccl_core::messages::{Hello, ToMaster};
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use pccl_core::wire::{ControlError, DecodeError, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::doorkeeper::Inside;
use crate::gate::Permit;
use crate::granted::Granted;
use crate::greeting::{discard, say_and_close};
use crate::intake::{BudgetShare, Intake};
use crate::limits::Limits;
use crate::outbox::{Attachment, Outbox};
use crate::pulse::Pulse;

/// How many messages of all peers may wait for the machine. While the queue is full, connections are not read
/// (backpressure). Room is given in the order of requests, so a flood from one peer delays the others by one turn.
const EVENTS_MAX: usize = 64;

/// The queue in which connections wait for the desk.
pub(crate) fn desk_queue() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
    mpsc::channel(EVENTS_MAX)
}

/// The reports of connections to the desk.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection sent its hello.
    Hello(Newcomer),
    /// A peer sent a message.
    Message {
        peer: PeerId,
        conn: ConnId,
        message: ToMaster,
        /// The memory of a long message, until it was processed.
        share: Option<BudgetShare>,
    },
    /// A peer sent bytes that are not a message. Nothing follows.
    Malformed {
        peer: PeerId,
        conn: ConnId,
        error: ControlError,
    },
    /// A peer's connection ended.
    Gone {
        peer: PeerId,
        conn: ConnId,
        error: ControlError,
        /// Whether the peer may come back over another connection.
        may_return: bool,
    },
    /// A peer came back over another connection.
    Return(Returning),
}

/// A connection that has sent its hello.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) conn: ConnId,
    pub(crate) hello: Hello,
    pub(crate) from: SocketAddr,
    /// The identity that its transport has proved.
    pub(crate) identity: Option<Identity>,
    /// The queue of messages to it.
    pub(crate) outbox: Arc<Outbox>,
    /// The time of the last arrival from it.
    pub(crate) pulse: Arc<Pulse>,
    /// Its permissions.
    pub(crate) granted: Arc<Granted>,
    /// Receives its id. Dropped if it is not registered.
    pub(crate) registered: oneshot::Sender<PeerId>,
}

/// A connection of a peer that resumes its session.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) conn: ConnId,
    pub(crate) from: SocketAddr,
    pub(crate) session: Session,
    /// The identity that its transport has proved.
    pub(crate) identity: Option<Identity>,
    /// The time of the last arrival from it.
    pub(crate) pulse: Arc<Pulse>,
    /// Its permissions.
    pub(crate) granted: Arc<Granted>,
    /// Dropped if there is no such session.
    pub(crate) resumed: oneshot::Sender<Resumed>,
}

/// A session that goes on over another connection.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) by: Attachment,
    /// Number of messages that the desk has received.
    pub(crate) heard: u64,
}

/// A connection whose hello was read.
pub(crate) struct Greeted {
    pub(crate) conn: ConnId,
    pub(crate) from: SocketAddr,
    pub(crate) lane: Lane,
    pub(crate) hello: Hello,
    pub(crate) intake: Intake,
    pub(crate) permit: Permit,
    /// The result of its proof. `None` if no proof is required.
    pub(crate) inside: Option<Inside>,
}

/// A connection that says which session it resumes.
pub(crate) struct Returned {
    pub(crate) conn: ConnId,
    pub(crate) from: SocketAddr,
    pub(crate) lane: Lane,
    pub(crate) intake: Intake,
    pub(crate) permit: Permit,
    /// The result of its proof. `None` if no proof is required.
    pub(crate) inside: Option<Inside>,
    pub(crate) session: Session,
}

/// A session, as a returning peer describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) peer: PeerId,
    pub(crate) token: Ticket,
    /// Number of messages that the peer has received.
    pub(crate) received: u64,
    /// Grows with each connection that the peer opens for the session.
    pub(crate) attempt: u64,
}

/// Serves the connection to its end.
pub(crate) async fn attend(greeted: Greeted, limits: &Limits, desk: mpsc::Sender<Event>) {
    let identity = greeted.lane.identity();
    let Lane { mut tx, mut rx, .. } = greeted.lane;
    let outbox = Arc::new(Outbox::new(limits.outbox_bytes_max));
    let pulse = Arc::clone(greeted.permit.pulse());
    let granted = Arc::new(Granted::new(greeted.permit));
    let (registered, registration) = oneshot::channel();
    let newcomer = Newcomer {
        conn: greeted.conn,
        hello: greeted.hello,
        from: greeted.from,
        identity,
        outbox: Arc::clone(&outbox),
        pulse: Arc::clone(&pulse),
        granted: Arc::clone(&granted),
        registered,
    };
    if desk.send(Event::Hello(newcomer)).await.is_err() {
        return;
    }
    let reading = Reading {
        registration: Some(registration),
        peer: None,
        conn: greeted.conn,
        intake: greeted.intake,
        pulse,
        granted,
        desk,
    };
    let by = outbox.first_attachment();
    let inside = greeted.inside;
    serve(
        reading,
        (&mut tx, &mut rx),
        (&*outbox, &by, &[]),
        inside,
        greeted.from,
        limits,
    )
    .await;
}

/// Lets a peer resume its session, and serves the connection to its end.
pub(crate) async fn attend_again(returned: Returned, limits: &Limits, desk: mpsc::Sender<Event>) {
    let Returned {
        conn,
        from,
        lane,
        session,
        ..
    } = returned;
    let pulse = Arc::clone(returned.permit.pulse());
    let granted = Arc::new(Granted::new(returned.permit));
    let (resumed, answer) = oneshot::channel();
    let returning = Returning {
        conn,
        from,
        session,
        identity: lane.identity(),
        pulse: Arc::clone(&pulse),
        granted: Arc::clone(&granted),
        resumed,
    };
    if desk.send(Event::Return(returning)).await.is_err() {
        return;
    }
    let Ok(Resumed { outbox, by, heard }) = answer.await else {
        let words =
            Reply::Refused("there is no such session: the peer is out of the run".to_owned());
        return say_and_close(lane, &words.encode(), limits.farewell).await;
    };
    let Lane { mut tx, mut rx, .. } = lane;
    let reading = Reading {
        registration: None,
        peer: Some(session.peer),
        conn,
        intake: returned.intake,
        pulse,
        granted,
        desk,
    };
    let mut first = Reply::Accepted.encode();
    first.extend_from_slice(&heard.to_le_bytes());
    let session = (&*outbox, &by, &first[..]);
    serve(
        reading,
        (&mut tx, &mut rx),
        session,
        returned.inside,
        from,
        limits,
    )
    .await;
}

/// Serves the connection of a session to its end.
async fn serve(
    mut reading: Reading,
    (tx, rx): (&mut Box<dyn LaneTx>, &mut Box<dyn LaneRx>),
    (outbox, by, first): (&Outbox, &Attachment, &[u8]),
    inside: Option<Inside>,
    from: SocketAddr,
    limits: &Limits,
) {
    let mut writing = std::pin::pin!(outbox.write_to(tx.as_mut(), by, first, limits.farewell));
    let written = tokio::select! {
        biased;
        () = expelled(inside.as_ref()) => {
            tracing::warn!("{from} has to go: its invitation was revoked");
            Err(LaneError::Untrusted)
        }
        written = &mut writing => written,
        () = reading.run(rx.as_mut(), outbox, by) => writing.await,
    };
    match written {
        Ok(()) => linger(rx.as_mut(), limits.farewell).await,
        Err(error) => reading.gone(error.into()).await,
    }
}

/// Waits until the connection's key is no longer admitted.
async fn expelled(inside: Option<&Inside>) {
    match inside {
        Some(inside) => inside.expelled().await,
        None => std::future::pending().await,
    }
}

/// Waits until the other end has read everything and closed, within `limit`.
async fn linger(rx: &mut dyn LaneRx, limit: Duration) {
    // Whatever still goes wrong goes wrong for a connection that is over.
    timeout(limit, discard(rx)).await.ok();
}

/// The reading half of a connection.
struct Reading {
    registration: Option<oneshot::Receiver<PeerId>>,
    peer: Option<PeerId>,
    conn: ConnId,
    intake: Intake,
    pulse: Arc<Pulse>,
    granted: Arc<Granted>,
    desk: mpsc::Sender<Event>,
}

impl Reading {
    /// Reports arrivals to the desk until the connection ends. Then the desk closes the outbox, unless it is gone or
    /// does not know the connection.
    async fn run(&mut self, rx: &mut dyn LaneRx, outbox: &Outbox, by: &Attachment) {
        if self.report(rx, outbox).await.is_none() {
            outbox.end(by);
        }
    }

    /// `None`: the desk takes no more reports.
    async fn report(&mut self, rx: &mut dyn LaneRx, outbox: &Outbox) -> Option<()> {
        let (peer, conn) = (self.identify().await?, self.conn);
        loop {
            let message_max = || self.granted.message_max();
            let event = match self.intake.receive(rx, &self.pulse, message_max).await {
                Ok((message, share)) => Event::Message {
                    peer,
                    conn,
                    message,
                    share,
                },
                Err(
                    error @ (ControlError::Ended
                    | ControlError::Lane(_)
                    | ControlError::Decode(DecodeError::Damaged)),
                ) => {
                    let may_return = !self.intake.was_slow();
                    let gone = Event::Gone {
                        peer,
                        conn,
                        error,
                        may_return,
                    };
                    return self.tell(gone).await;
                }
                Err(error @ (ControlError::Decode(_) | ControlError::Encode(_))) => {
                    return self.tell(Event::Malformed { peer, conn, error }).await;
                }
            };
            let received = self.intake.take_acknowledged();
            if received.is_some_and(|received| outbox.acknowledge(received).is_err()) {
                let error = DecodeError::Malformed.into();
                return self.tell(Event::Malformed { peer, conn, error }).await;
            }
            self.tell(event).await?;
        }
    }

    /// Waits for the desk to assign an id. `None`: it assigns none. Cancel-safe: a connection whose welcome cannot be
    /// written still needs its id to report its end.
    async fn identify(&mut self) -> Option<PeerId> {
        if let Some(registration) = &mut self.registration {
            self.peer = registration.await.ok();
            self.registration = None;
        }
        self.peer
    }

    async fn gone(&mut self, error: ControlError) {
        if let Some(peer) = self.identify().await {
            let conn = self.conn;
            let gone = Event::Gone {
                peer,
                conn,
                error,
                may_return: true,
            };
            self.tell(gone).await;
        }
    }

    /// Waits for room in the queue; the peer is not at fault for this time.
    async fn tell(&self, event: Event) -> Option<()> {
        let _excused = self.pulse.excuse();
        self.desk.send(event).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::gate::Gate;
    use crate::intake::Budget;

    /// The reading half of a connection from this address.
    async fn reading(gate: &Arc<Gate>, from: u8, desk: mpsc::Sender<Event>) -> Reading {
        let turn = gate.arrive([192, 0, 2, from].into()).unwrap();
        let permit = turn.comes().await.unwrap();
        Reading {
            registration: None,
            peer: Some(PeerId(1)),
            conn: ConnId(1),
            intake: Intake::new(&Budget::of(0)),
            pulse: Arc::clone(permit.pulse()),
            granted: Arc::new(Granted::new(permit)),
            desk,
        }
    }

    fn event() -> Event {
        Event::Message {
            peer: PeerId(1),
            conn: ConnId(1),
            message: ToMaster::Heartbeat { moved: false },
            share: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_peers_that_say_more_than_the_machine_processes_the_others_are_not_read() {
        let gate = Gate::new(&Limits::default());
        let (desk, queue) = desk_queue();
        let mut tellers = Vec::new();
        for from in 1..10 {
            let reading = reading(&gate, from, desk.clone()).await;
            tellers.push(tokio::spawn(async move {
                for _ in 0..10 {
                    reading.tell(event()).await.unwrap();
                }
            }));
        }

        sleep(Duration::from_secs(3600)).await;

        assert_eq!(queue.len(), EVENTS_MAX);
        let waiting = tellers.iter().filter(|teller| !teller.is_finished());
        assert!(waiting.count() >= 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_waits_behind_a_full_queue_is_not_silent() {
        let gate = Gate::new(&Limits::default());
        let (desk, _queue) = mpsc::channel(1);
        let reading = reading(&gate, 1, desk).await;
        let pulse = Arc::clone(&reading.pulse);
        reading.tell(event()).await.unwrap();
        tokio::spawn(async move { reading.tell(event()).await });

        sleep(Duration::from_secs(3600)).await;

        assert_eq!(pulse.last(), Instant::now());
    }
}
