//! The transport under test, and what the cases do with it over and over.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    Endpoint, Incoming, Lane, LaneError, LaneRx, LaneTx, Listener, Security, Transport, recv_exact,
    recv_some, send_all,
};

/// The byte with which an opener shows that it means it.
const HELLO: u8 = 0xA5;

/// A sender that gets nothing away for this long, while nobody reads, counts as waiting. Where the
/// machine is slow a case stops filling earlier, which spoils nothing.
const STANDSTILL: Duration = Duration::from_millis(250);

/// A transport, and the address it listens on.
#[derive(Clone)]
pub struct Subject {
    pub(super) transport: Arc<dyn Transport>,
    listen_on: SocketAddr,
    /// Who has to answer; `None`: lanes are plain.
    pub(super) expect: Option<Identity>,
}

impl Subject {
    /// `listen_on` has port zero.
    pub fn new(transport: Arc<dyn Transport>, listen_on: SocketAddr) -> Self {
        Self {
            transport,
            listen_on,
            expect: None,
        }
    }

    /// The same with lanes on which the transport proves this.
    #[must_use]
    pub fn proving(self, identity: Identity) -> Self {
        Self {
            expect: Some(identity),
            ..self
        }
    }

    fn security(&self) -> Security {
        match self.expect {
            Some(_) => Security::Proven,
            None => Security::Plain,
        }
    }

    pub(super) async fn listen(&self) -> Box<dyn Listener> {
        let listener = self.transport.listen(self.listen_on, self.security()).await;
        listener.expect("port zero is always free")
    }

    /// Listens on a port by number.
    pub(super) async fn listen_again(
        &self,
        address: SocketAddr,
    ) -> Result<Box<dyn Listener>, LaneError> {
        self.transport.listen(address, self.security()).await
    }

    pub(super) async fn open(&self, address: SocketAddr) -> Result<Lane, LaneError> {
        let to = Endpoint::Address(address);
        self.transport.open(&to, self.expect).await
    }

    /// The two ends of a lane, opener's first.
    pub(super) async fn lane(&self) -> (Lane, Lane) {
        let mut listener = self.listen().await;
        let (opened, accepted) = self.lane_through(&mut *listener).await;
        (opened, accepted.lane)
    }

    pub(super) async fn lane_through(&self, listener: &mut dyn Listener) -> (Lane, Incoming) {
        let to = listener.local_addr();
        tokio::join!(self.open_and_say_hello(to), accept_who_says_hello(listener))
    }

    pub(super) async fn open_and_say_hello(&self, to: SocketAddr) -> Lane {
        let mut lane = self.open(to).await.expect("somebody listens");
        let said = send_all(&mut *lane.tx, &[HELLO], &[]).await;
        said.expect("the lane is open");
        lane
    }
}

/// The next lane whose opener is serious; all before it must have ended.
pub(super) async fn accept_who_says_hello(listener: &mut dyn Listener) -> Incoming {
    loop {
        let Ok(mut incoming) = poll_fn(|cx| listener.poll_accept(cx)).await else {
            continue;
        };
        let mut word = [0];
        match recv_some(&mut *incoming.lane.rx, &mut word).await {
            Ok(0) | Err(_) => {}
            Ok(_) => {
                assert_eq!(word, [HELLO], "the lane brought what nobody sent");
                return incoming;
            }
        }
    }
}

/// `length` bytes that differ by `seed`, without a period that buffers have.
pub(super) fn pattern(seed: usize, length: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..251_u8).collect();
    let (before, after) = block.split_at(seed % block.len());
    let mut bytes = [after, before]
        .concat()
        .repeat(length.div_ceil(block.len()));
    bytes.truncate(length);
    bytes
}

/// Compares without printing megabytes.
pub(super) fn assert_same(received: &[u8], sent: &[u8]) {
    if received == sent {
        return;
    }
    let differs = received.iter().zip(sent).position(|(a, b)| a != b);
    panic!(
        "{} bytes were received for {} sent ones, and the first to differ is {differs:?}",
        received.len(),
        sent.len(),
    );
}

pub(super) async fn send_pattern(tx: &mut dyn LaneTx, seed: usize, length: usize) {
    let sent = send_all(tx, &pattern(seed, length), &[]).await;
    sent.expect("the lane takes everything");
}

pub(super) async fn recv_pattern(rx: &mut dyn LaneRx, seed: usize, length: usize) {
    let mut received = vec![0; length];
    let outcome = recv_exact(rx, &mut received).await;
    outcome.expect("the lane brings everything");
    assert_same(&received, &pattern(seed, length));
}

/// Sends `bytes` over and over until the lane takes no more; how many bytes it took.
///
/// # Panics
/// Where the lane has taken `limit` bytes that nobody reads.
pub(super) async fn send_until_standstill(
    tx: &mut dyn LaneTx,
    bytes: &[u8],
    limit: usize,
) -> usize {
    let mut taken = 0;
    loop {
        // Starts where the last call stopped, so that the stream is `bytes` repeated.
        let (_, rest) = bytes.split_at(taken % bytes.len());
        let sending = poll_fn(|cx| tx.poll_send(cx, &[rest]));
        match tokio::time::timeout(STANDSTILL, sending).await {
            Ok(sent) => taken += sent.expect("the lane is open"),
            Err(_elapsed) => return taken,
        }
        assert!(taken < limit, "the lane takes bytes without bound");
    }
}

/// Polls once: whether the receiver waits.
pub(super) async fn recv_waits(rx: &mut dyn LaneRx) -> bool {
    poll_fn(|cx| Poll::Ready(rx.poll_recv(cx, &mut [0]).is_pending())).await
}
