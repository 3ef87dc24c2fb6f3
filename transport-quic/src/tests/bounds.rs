//! How much one who dials may have, and all of them together.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use tokio::task::yield_now;

use super::strangers::{counted_flood, listen_and_count};
use super::*;
use crate::dial::dial;
use crate::door::LANES_WAITING;
use crate::listener::open_endpoint;
use crate::settings::{ATTEMPTS_MAX, LANES_MAX};
use crate::shared::SharedConnection;

/// A connection of `a` to `b`, without a lane.
async fn connection(a: &Host, to: SocketAddr, b: &Host) -> Arc<SharedConnection> {
    let configs = a.quic.keys.configs().unwrap();
    let dialled = dial(to, b.identity, &a.quic.settings, configs).await;
    dialled.expect("somebody listens")
}

/// What is to be had at once.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).as_mut().poll(&mut context)
}

#[tokio::test]
async fn a_connection_has_so_many_lanes_and_none_in_one_direction() {
    let (a, b) = (Host::new(), Host::new());
    let listener = b.listen().await;
    let shared = connection(&a, listener.local_addr(), &b).await;
    let connection = &shared.connection;

    let mut lanes = Vec::new();
    for number in 0..LANES_MAX {
        let opened = timeout(GUARD, connection.open_bi()).await;
        lanes.push(opened.unwrap_or_else(|_| panic!("no more than {number} lanes")));
    }

    assert!(poll_once(connection.open_bi()).is_pending());
    assert!(poll_once(connection.open_uni()).is_pending());
}

#[tokio::test]
async fn of_lanes_that_nobody_accepts_so_many_wait_as_there_is_room_for() {
    const MORE: usize = 50;
    let (a, b) = (Host::new(), Host::new());
    let (listener, _endpoint) = listen_and_count(&b).await;
    let shared = connection(&a, listener.local_addr(), &b).await;

    for _ in 0..LANES_WAITING + MORE {
        let (mut tx, _rx) = shared.connection.open_bi().await.unwrap();
        tx.write_all(b"hello").await.unwrap();
        tx.finish().unwrap();
        // It has arrived at the other end's connection.
        timeout(GUARD, tx.stopped()).await.unwrap().ok();
    }
    let waits = async {
        while listener.waiting() < LANES_WAITING {
            yield_now().await;
        }
        // Those behind them would have come by then.
        for _ in 0..100 * MORE {
            yield_now().await;
        }
    };
    timeout(GUARD, waits).await.expect("lanes wait");

    assert_eq!(listener.waiting(), LANES_WAITING);
}

#[tokio::test]
async fn one_connection_more_than_a_listener_may_have_is_refused() {
    let (a, mut b) = (Host::new(), Host::new());
    b.quic.settings.connections_max = 2;
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let others = [Host::new(), Host::new()];
    let mut opened = Vec::new();
    for other in &others {
        opened.push(other.greet(to, &b).await);
        hear_hello(&mut accept(&mut *listener).await.lane).await;
    }

    let refused = a.open(to, &b).await.err();

    assert_eq!(refused, Some(LaneError::Refused));
    drop(opened);
}

/// A packet of a version that there is not, which a listener answers as soon as it has read all that came before.
fn of_no_version() -> Vec<u8> {
    let mut packet = vec![0; 1200];
    packet[0] = 0xc0;
    packet[1..5].copy_from_slice(&0x1a2a_3a4a_u32.to_be_bytes());
    // The lengths of both connection ids.
    (packet[5], packet[14]) = (8, 8);
    packet
}

/// While the process is busy nobody takes them.
#[tokio::test]
async fn of_attempts_that_nobody_takes_so_many_wait_as_there_is_room_for() {
    const COUNT: usize = ATTEMPTS_MAX + 20;
    let host = Host::new();
    let configs = host.quic.keys.configs().unwrap();
    let endpoint = open_endpoint(V4, &host.quic.left, &host.quic.settings, configs).await;
    let endpoint = endpoint.unwrap();
    let to = endpoint.local_addr().unwrap();

    let (_dialler, _attempts, sent) = counted_flood(to, COUNT);
    while sent.load(Ordering::Relaxed) < COUNT {
        yield_now().await;
    }
    let last = tokio::net::UdpSocket::bind(V4).await.unwrap();
    last.send_to(&of_no_version(), to).await.unwrap();
    let answered = timeout(GUARD, last.recv(&mut [0; 100])).await;
    answered.expect("an answer").unwrap();

    let mut waiting = Vec::new();
    while let Poll::Ready(attempt) = poll_once(endpoint.accept()) {
        waiting.push(attempt.expect("it listens"));
    }
    assert_eq!(waiting.len(), ATTEMPTS_MAX);
}

#[tokio::test]
async fn a_connection_that_has_no_lane_any_more_is_closed_soon() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let shared = connection(&a, listener.local_addr(), &b).await;
    let (mut tx, rx) = shared.connection.open_bi().await.unwrap();
    tx.write_all(b"hello").await.unwrap();
    let incoming = accept(&mut *listener).await;

    drop((tx, rx, incoming));

    // Sooner than the idle time-out.
    let limit = Duration::from_secs(5);
    let closed = timeout(limit, shared.connection.closed()).await;
    assert!(closed.is_ok(), "it was kept");
}
