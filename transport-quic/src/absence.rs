//! Detecting that no process is at the other end any more.
//!
//! If a process has died, its host answers in its place: TCP gets a reset, and UDP an ICMP error, which only a
//! connected socket receives. QUIC ignores such errors, because anybody could send them, and ends a connection for
//! silence seconds later. So if packets leave and none comes back, this end sends a packet from a connected socket.
//! If the host answers that no process listens there, and the other end does not answer on the connection either, the
//! connection is closed.

use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use pccl_core::transport::LaneError;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use crate::error::of_socket;
use crate::shared::SharedConnection;
use crate::socket::bind_towards;

/// How often a connection is checked on which nothing is sent.
const LOOK: Duration = Duration::from_millis(250);

/// How often a connection is checked while packets leave, at most: two round trips are always let pass, because no
/// answer can come sooner than after one.
const LOOK_WHILE_SENDING: Duration = Duration::from_millis(25);

/// How long to wait for the answer of the host.
const HOST_ANSWER: Duration = Duration::from_millis(250);

/// How long the other end may take to show that it lives after all, in addition to three round trips.
const ANSWER: Duration = Duration::from_millis(50);

/// How long a connection may be without any answer, or three round trips if that is longer, until new lanes do not take
/// it any more. Nobody waits for less before trying again.
const UNANSWERED_MAX: Duration = Duration::from_millis(500);

/// How many questions may be without an answer. The last packet of an exchange is an acknowledgement, which has none.
const QUESTIONS_MAX: u32 = 3;

/// Waits until the host at `at` reports that no process listens there. It sends one meaningless packet as a question.
/// If no such report comes, it waits forever.
pub(crate) async fn absence(at: SocketAddr) -> LaneError {
    match ask(at).await {
        Ok(never) => match never {},
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => LaneError::Refused,
        Err(error) => of_socket(&error),
    }
}

async fn ask(at: SocketAddr) -> Result<Infallible, Error> {
    let socket = UdpSocket::from_std(bind_towards(at)?)?;
    socket.connect(at).await?;
    socket.send(&[0]).await?;
    loop {
        socket.recv(&mut [0; 1]).await?;
    }
}

/// What this end has sent since anything came back, by the looks of `watch`.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(Mutex<Since>);

#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// Looks at which more packets had left.
    questions: u32,
    /// Time since the first of them.
    lasting: Duration,
}

impl Unanswered {
    /// Whether the connection is so silent that what begins should have another one. The other end may only be slow, so
    /// lanes that are open stay.
    pub(crate) fn is_long(&self, round_trip: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.questions >= QUESTIONS_MAX && since.lasting >= UNANSWERED_MAX.max(round_trip * 3)
    }

    /// Notes what a look has found, this long after the one before.
    fn note(&self, (before, now): (Traffic, Traffic), pause: Duration) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.received != before.received {
            return *since = Since::default();
        }
        since.questions = since
            .questions
            .saturating_add((now.sent != before.sent).into());
        if since.questions > 0 {
            since.lasting = since.lasting.saturating_add(pause);
        }
    }
}

/// Closes the connection once no process is at its other end.
pub(crate) async fn watch(shared: Weak<SharedConnection>) {
    let mut before = Traffic::default();
    let mut pause = LOOK;
    loop {
        sleep(pause).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.connection.close_reason().is_some() {
            return;
        }
        let now = Traffic::of(&shared);
        shared.unanswered.note((before, now), pause);
        if now.received == before.received && now.sent != before.sent && is_absent(&shared).await {
            tracing::debug!(from = %shared.from, "nobody is there any more");
            return shared.give_up(LaneError::Reset);
        }
        pause = match now.sent == before.sent {
            true => LOOK,
            false => LOOK_WHILE_SENDING
                .max(shared.connection.rtt() * 2)
                .min(LOOK),
        };
        before = now;
    }
}

/// Numbers of datagrams of a connection.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Traffic {
    sent: u64,
    received: u64,
}

impl Traffic {
    fn of(shared: &SharedConnection) -> Self {
        let stats = shared.connection.stats();
        Self {
            sent: stats.udp_tx.datagrams,
            received: stats.udp_rx.datagrams,
        }
    }
}

/// Whether the host reports that no process listens, and nothing arrives on the connection.
pub(crate) async fn is_absent(shared: &Arc<SharedConnection>) -> bool {
    let before = Traffic::of(shared).received;
    if timeout(HOST_ANSWER, absence(shared.from)).await != Ok(LaneError::Refused) {
        return false;
    }
    // A forged message ends nothing: who is there answers this.
    let _ = shared.connection.send_datagram(Bytes::new());
    sleep(shared.connection.rtt() * 3 + ANSWER).await;
    Traffic::of(shared).received == before
}
