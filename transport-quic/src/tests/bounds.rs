//! How much one who dials may have, and all of them together.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use quinn::ConnectionError;
use tokio::task::{JoinSet, yield_now};

use super::strangers::listen_and_count;
use super::*;
use crate::dial::dial;
use crate::door::LANES_WAITING;
use crate::listener::open_endpoint;
use crate::locality::Locality;
use crate::settings::{ATTEMPTS_MAX, LANES_MAX};
use crate::shared::SharedConnection;

/// A connection of `a` to `b`, without a lane.
async fn connection(a: &Host, to: SocketAddr, b: &Host) -> Arc<SharedConnection> {
    let configs = a.quic.keys.configs().unwrap();
    let dialled = dial(to, b.identity, &a.quic.settings, configs).await;
    dialled.expect("somebody listens")
}

/// Whether there is nothing to be had at once.
fn is_pending(future: impl Future) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).as_mut().poll(&mut context).is_pending()
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

    assert!(is_pending(connection.open_bi()));
    assert!(is_pending(connection.open_uni()));
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

/// While the process is busy nobody takes them.
#[tokio::test]
async fn of_attempts_that_nobody_takes_so_many_wait_as_there_is_room_for() {
    const MORE: usize = 20;
    let (a, b) = (Host::new(), Host::new());
    let server = b.quic.keys.configs().unwrap();
    let endpoint = open_endpoint(V4, &b.quic.left, &b.quic.settings, server).await;
    let endpoint = endpoint.unwrap();
    let to = endpoint.local_addr().unwrap();
    let configs = a.quic.keys.configs().unwrap();
    let config = a.quic.settings.client(configs, Locality::Far).unwrap();
    let name = pccl_trust::PublicKey::from(b.identity.0).server_name();
    let dialler = quinn::Endpoint::client(V4).unwrap();

    let mut attempts = JoinSet::new();
    for _ in 0..ATTEMPTS_MAX + MORE {
        attempts.spawn(dialler.connect_with(config.clone(), to, &name).unwrap());
    }

    let limit = Duration::from_secs(5);
    let mut refused = 0;
    while refused < MORE {
        let ended = timeout(limit, attempts.join_next()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{refused} were refused"));
        let outcome = ended.unwrap().unwrap();
        assert!(
            matches!(outcome, Err(ConnectionError::ConnectionClosed(_))),
            "{outcome:?}"
        );
        refused += 1;
    }
    assert_eq!(attempts.len(), ATTEMPTS_MAX);
    assert!(is_pending(attempts.join_next()));
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
