//! Those who begin and do not go on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, TransportConfig, UdpPoller};

use pccl_core::transport::recv_some;

use super::lanes::fill;
use super::*;
use crate::door::{HANDSHAKES_MAX, HANDSHAKES_UNASKED};
use crate::listener::{QuicLanes, open_endpoint};
use crate::locality::Locality;
use crate::settings::UNREAD_BYTES;

/// Hears nothing, so its handshakes never end. Counts what it sends.
#[derive(Debug)]
struct Deaf(Arc<dyn AsyncUdpSocket>, Arc<AtomicUsize>);

impl AsyncUdpSocket for Deaf {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [io::IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// So many half-finished handshakes, which are never given up. Nothing is sent a second time: it would fill the buffer
/// of the listener's socket each time that a peer of good faith tries again, in the same rhythm.
fn flood(to: SocketAddr, count: usize) -> (quinn::Endpoint, Vec<quinn::Connecting>) {
    let (endpoint, begun, _) = counted_flood(to, count);
    (endpoint, begun)
}

/// The same, and how many datagrams were sent.
pub(super) fn counted_flood(
    to: SocketAddr,
    count: usize,
) -> (quinn::Endpoint, Vec<quinn::Connecting>, Arc<AtomicUsize>) {
    let stranger = Host::new();
    let configs = stranger.quic.keys.configs().unwrap();
    let mut config = stranger
        .quic
        .settings
        .client(configs, Locality::Far)
        .unwrap();
    let mut once = TransportConfig::default();
    once.initial_rtt(GUARD);
    config.transport_config(Arc::new(once));
    let name = pccl_trust::PublicKey::from(stranger.identity.0).server_name();
    let socket = crate::socket::bind_towards(to).unwrap();
    let sent = Arc::default();
    let deaf = Deaf(
        TokioRuntime.wrap_udp_socket(socket).unwrap(),
        Arc::clone(&sent),
    );
    let endpoint = quinn::Endpoint::new_with_abstract_socket(
        quinn::EndpointConfig::default(),
        None,
        Arc::new(deaf),
        Arc::new(TokioRuntime),
    );
    let endpoint = endpoint.unwrap();
    let begun = (0..count).map(|_| endpoint.connect_with(config.clone(), to, &name).unwrap());
    let begun = begun.collect();
    (endpoint, begun, sent)
}

/// A listener, and how many connections it has.
pub(super) async fn listen_and_count(host: &Host) -> (QuicLanes, quinn::Endpoint) {
    let configs = host.quic.keys.configs().unwrap();
    let endpoint = open_endpoint(V4, &host.quic.left, &host.quic.settings, configs)
        .await
        .unwrap();
    let counted = endpoint.clone();
    let listener = QuicLanes::new(endpoint, &host.quic.left, &host.quic.settings, configs).unwrap();
    (listener, counted)
}

#[tokio::test]
async fn a_flood_of_half_finished_handshakes_keeps_nobody_out_and_takes_little_room() {
    let (a, b) = (Host::new(), Host::new());
    let (mut listener, connections) = listen_and_count(&b).await;
    let to = listener.local_addr();

    let _strangers = flood(to, 2000);
    let _opened = a.greet(to, &b).await;
    hear_hello(&mut accept(&mut listener).await.lane).await;

    // Packets that come later are none of its own.
    let open = connections.open_connections();
    assert!(open > 1, "the flood came");
    assert!(open <= HANDSHAKES_UNASKED + 1, "{open} connections");
}

#[tokio::test]
async fn openers_that_finish_their_handshake_and_say_nothing_keep_nobody_out() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX + 20 {
        // Each has a key and a connection of its own.
        let stranger = Host::new();
        let lane = stranger.open(to, &b).await;
        silent.push((stranger, lane));
    }

    let _opened = a.greet(to, &b).await;

    hear_hello(&mut accept(&mut *listener).await.lane).await;
    let first = &mut silent[0].1.as_mut().unwrap().rx;
    // Sooner than it is given up for its silence.
    let read = timeout(Duration::from_secs(2), recv_some(&mut **first, &mut [0])).await;
    assert_eq!(read, Ok(Err(LaneError::Closed)), "the oldest gave way");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_given_up() {
    let b = Host::new();
    let mut listener = b.listen().await;

    let _stranger = flood(listener.local_addr(), 1);

    // Sooner than the idle time-out.
    let limit = Duration::from_secs(7);
    let ended = timeout(limit, poll_fn(|cx| listener.poll_accept(cx))).await;
    assert_eq!(ended.unwrap().err(), Some(LaneError::TimedOut));
}

#[tokio::test]
async fn a_lane_that_nobody_reads_takes_little_memory() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let (mut first, mut second) = (a.greet(to, &b).await, a.greet(to, &b).await);
    let mut incoming = accept(&mut *listener).await;

    let taken = fill(&mut first).await + fill(&mut second).await;
    assert!(taken <= UNREAD_BYTES as usize, "{taken} bytes");

    hear_hello(&mut incoming.lane).await;
    let more = fill(&mut first).await;
    assert!(
        more >= 4 << 20,
        "a lane that is read is let go: {more} bytes"
    );
}

#[tokio::test]
async fn garbage_is_ignored() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let socket = tokio::net::UdpSocket::bind(V4).await.unwrap();
    let mut bytes = vec![0_u8; 1400];
    for round in 0..2000_u32 {
        for (index, byte) in (0..).zip(&mut bytes) {
            *byte = (round
                .wrapping_mul(2_654_435_761)
                .wrapping_add(index * 40_503)
                >> 11) as u8;
        }
        let length = (round as usize * 37) % bytes.len();
        socket.send_to(&bytes[..length], to).await.unwrap();
    }

    let _opened = a.greet(to, &b).await;

    hear_hello(&mut accept(&mut *listener).await.lane).await;
}
