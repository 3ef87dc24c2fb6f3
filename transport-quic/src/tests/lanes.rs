//! Lanes and the connections that they share.

use std::time::Duration;

use pccl_core::transport::{
    Endpoint, Lane, LaneError, Security, Transport, close, recv_exact, recv_some, send_all,
};
use tokio::time::timeout;

use super::relay::Relay;
use super::{GUARD, Host, V4, accept, hear_hello, meet};
use crate::Quic;

#[tokio::test]
async fn both_ends_know_each_other_and_share_a_binding_of_this_connection() {
    let (a, b) = (Host::new(), Host::new());
    let mut bindings = Vec::new();

    for _ in 0..2 {
        let mut listener = b.listen().await;
        let opened = a.greet(listener.local_addr(), &b).await;
        let incoming = accept(&mut *listener).await;

        let (here, there) = (opened.proven.unwrap(), incoming.lane.proven.unwrap());
        assert_eq!((here.own, here.identity), (a.identity, b.identity));
        assert_eq!((there.own, there.identity), (b.identity, a.identity));
        assert_eq!(here.binding, there.binding);
        bindings.push(here.binding);
    }

    assert_ne!(bindings[0], bindings[1]);
    assert!(bindings.iter().all(|binding| *binding != [0; 32]));
}

#[tokio::test]
async fn a_lane_that_need_not_be_proven_is_proven_all_the_same() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.quic.listen(V4, Security::Plain).await.unwrap();

    let _opened = a.greet(listener.local_addr(), &b).await;

    let incoming = accept(&mut *listener).await;
    assert_eq!(incoming.lane.identity(), Some(a.identity));
}

#[tokio::test]
async fn a_lane_to_nobody_in_particular_is_not_opened() {
    let listener = Host::new().listen().await;
    let to = Endpoint::Address(listener.local_addr());

    let outcome = Quic::new().open(&to, None).await;

    assert_eq!(outcome.err(), Some(LaneError::Untrusted));
}

/// The ports from which lanes come.
async fn ports(a: &Host, b: &Host, lanes: usize) -> Vec<u16> {
    let mut listener = b.listen().await;
    let mut kept = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..lanes {
        kept.push(a.greet(listener.local_addr(), b).await);
        let incoming = accept(&mut *listener).await;
        ports.push(incoming.from.port());
        kept.push(incoming.lane);
    }
    ports
}

#[tokio::test]
async fn lanes_are_dealt_over_the_connections_to_a_peer() {
    let one = ports(&Host::new(), &Host::new(), 4).await;
    assert!(one.iter().all(|port| *port == one[0]), "{one:?}");

    let two = ports(&Host::with(Quic::new().connections(2)), &Host::new(), 4).await;
    assert_eq!(two[..2], two[2..], "{two:?}");
    assert_ne!(two[0], two[1]);
}

#[tokio::test]
async fn a_connection_ends_with_its_last_lane_and_is_made_again() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let first = a.greet(to, &b).await;
    let first_port = accept(&mut *listener).await.from;

    drop(first);
    let _second = a.greet(to, &b).await;

    assert_ne!(accept(&mut *listener).await.from, first_port);
}

/// 1 MiB of which nothing is read before the other end is gone.
#[tokio::test]
async fn what_was_sent_before_a_lane_is_dropped_arrives() {
    let (mut opened, mut incoming) = meet().await;
    let sent: Vec<u8> = (0..1 << 20).map(|index: u32| index as u8).collect();
    send_all(&mut *opened.tx, &sent, &[]).await.unwrap();

    drop(opened);

    let mut received = vec![0; sent.len()];
    let outcome = recv_exact(&mut *incoming.lane.rx, &mut received).await;
    assert_eq!(outcome, Ok(()));
    assert!(received == sent);
    assert_eq!(recv_some(&mut *incoming.lane.rx, &mut [0]).await, Ok(0));
}

#[tokio::test]
async fn a_lane_is_closed_when_everything_has_arrived_though_the_other_end_goes_at_once() {
    let (mut opened, mut incoming) = meet().await;
    let sent = vec![7; 300_000];
    let speak = async {
        send_all(&mut *opened.tx, &sent, &[]).await.unwrap();
        close(&mut *opened.tx).await
    };
    let listen = async {
        let mut received = vec![0; sent.len()];
        recv_exact(&mut *incoming.lane.rx, &mut received).await?;
        assert_eq!(recv_some(&mut *incoming.lane.rx, &mut [0]).await, Ok(0));
        drop(incoming);
        Ok::<_, LaneError>(())
    };

    let (closed, heard) = tokio::join!(speak, listen);

    assert_eq!((closed, heard), (Ok(()), Ok(())));
    assert_eq!(
        close(&mut *opened.tx).await,
        Ok(()),
        "closing is idempotent"
    );
}

#[tokio::test]
async fn closing_says_where_the_other_end_has_not_taken_what_was_sent() {
    let (mut opened, incoming) = meet().await;
    let Lane { tx: _tx, rx, .. } = incoming.lane;
    drop(rx);

    let error = loop {
        if let Err(error) = send_all(&mut *opened.tx, &[0; 1000], &[]).await {
            break error;
        }
        tokio::task::yield_now().await;
    };

    assert_eq!(error, LaneError::Reset);
    assert_eq!(close(&mut *opened.tx).await, Err(LaneError::Reset));
}

/// The one that stands still has all under way that it may have.
#[tokio::test]
async fn a_reader_that_stands_still_holds_up_no_other_lane_of_its_connection() {
    let (a, b) = (
        Host::with(Quic::new().window(1 << 20)),
        Host::with(Quic::new().window(1 << 20)),
    );
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let mut lanes = Vec::new();
    for _ in 0..2 {
        let opened = a.greet(to, &b).await;
        let mut incoming = accept(&mut *listener).await;
        hear_hello(&mut incoming.lane).await;
        lanes.push((opened, incoming.lane));
    }
    let (mut busy, mut heard) = lanes.pop().unwrap();
    let (mut stands, _unread) = lanes.pop().unwrap();
    let stood = fill(&mut stands).await;
    assert!(stood > 1_000_000, "{stood} bytes");

    let bytes = vec![3; 8 << 20];
    let mut received = vec![0; bytes.len()];
    let carried = async {
        tokio::join!(
            send_all(&mut *busy.tx, &bytes, &[]),
            recv_exact(&mut *heard.rx, &mut received),
        )
    };

    let carried = timeout(GUARD, carried).await.expect("no hang");
    assert_eq!(carried, (Ok(()), Ok(())));
}

/// Sends until nothing is taken for a while; how much was.
pub(super) async fn fill(lane: &mut Lane) -> usize {
    let bytes = [0; 64 << 10];
    let mut taken = 0;
    loop {
        let sending = std::future::poll_fn(|cx| lane.tx.poll_send(cx, &[&bytes]));
        match timeout(Duration::from_millis(250), sending).await {
            Ok(sent) => taken += sent.expect("the lane stands"),
            Err(_elapsed) => return taken,
        }
    }
}

/// In either direction alone as well. The other end says nothing meanwhile.
#[tokio::test]
async fn a_lane_whose_bytes_do_not_arrive_ends_after_the_time_that_was_named() {
    let directions = [
        Relay::swallow_there,
        Relay::swallow_back,
        Relay::swallow_all,
    ];
    for swallow in directions {
        let (a, b) = (Host::new(), Host::new());
        let mut listener = b.listen().await;
        let relay = Relay::to(listener.local_addr()).await;
        let mut opened = a.greet(relay.local_addr(), &b).await;
        let mut incoming = accept(&mut *listener).await;
        hear_hello(&mut incoming.lane).await;
        opened.tx.give_up_after(Duration::from_secs(20));
        opened.tx.give_up_after(Duration::from_millis(400));

        swallow(&relay);
        send_all(&mut *opened.tx, b"a few bytes", &[])
            .await
            .unwrap();

        // Sooner than the idle time-out.
        let limit = Duration::from_secs(9);
        let closed = timeout(limit, close(&mut *opened.tx)).await;
        assert_eq!(closed, Ok(Err(LaneError::TimedOut)));
        let read = recv_some(&mut *opened.rx, &mut [0]).await;
        assert_eq!(read, Err(LaneError::TimedOut));
        let sent = send_all(&mut *opened.tx, b"more", &[]).await;
        assert_eq!(sent, Err(LaneError::TimedOut));
    }
}

/// Four times as long as it takes to give up a path that swallows everything.
#[tokio::test]
async fn a_reader_that_stands_still_is_not_taken_for_a_broken_path() {
    let (mut opened, mut incoming) = meet().await;
    let limit = Duration::from_millis(200);
    opened.tx.give_up_after(limit);

    let taken = fill(&mut opened).await;
    tokio::time::sleep(limit * 4).await;

    let mut received = vec![0; taken];
    let outcome = recv_exact(&mut *incoming.lane.rx, &mut received).await;
    assert_eq!(outcome, Ok(()));
    assert_eq!(send_all(&mut *opened.tx, b"more", &[]).await, Ok(()));
}

#[tokio::test]
async fn a_silent_host_is_given_up_and_an_idle_one_is_not() {
    let idle = Duration::from_millis(400);
    let (a, b) = (Host::with(Quic::new().idle_timeout(idle)), Host::new());
    let mut listener = b.listen().await;
    let relay = Relay::to(listener.local_addr()).await;
    let mut opened = a.greet(relay.local_addr(), &b).await;
    let mut incoming = accept(&mut *listener).await;
    hear_hello(&mut incoming.lane).await;

    let nothing = timeout(idle * 4, recv_some(&mut *opened.rx, &mut [0])).await;
    assert!(nothing.is_err(), "an idle lane lives");
    relay.swallow_all();

    let read = timeout(GUARD, recv_some(&mut *opened.rx, &mut [0])).await;
    assert_eq!(read, Ok(Err(LaneError::TimedOut)));
}

#[tokio::test]
async fn a_lane_that_is_opened_on_a_connection_whose_listener_is_gone_ends() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let _first = a.greet(to, &b).await;
    let _accepted = accept(&mut *listener).await;

    drop(listener);

    let mut second = a.open(to, &b).await.expect("the connection stands");
    // The news may have come before.
    let _ = send_all(&mut *second.tx, b"hello", &[]).await;
    let read = timeout(GUARD, recv_some(&mut *second.rx, &mut [0])).await;
    assert_eq!(read, Ok(Ok(0)));
}

#[tokio::test]
async fn a_name_is_looked_up_and_all_its_addresses_are_tried() {
    // localhost may lead to ::1 first, where nobody listens on this port.
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let name = Endpoint::Name(format!("localhost:{}", listener.local_addr().port()));

    let mut opened = a.quic.open(&name, Some(b.identity)).await.unwrap();
    send_all(&mut *opened.tx, b"hello", &[]).await.unwrap();

    hear_hello(&mut accept(&mut *listener).await.lane).await;
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let (a, b) = (Host::new(), Host::new());
    let socket = std::net::UdpSocket::bind(V4).unwrap();
    let to = socket.local_addr().unwrap();
    drop(socket);

    assert_eq!(a.open(to, &b).await.err(), Some(LaneError::Refused));
}

#[tokio::test]
async fn somebody_who_does_not_speak_quic_is_given_up_in_time() {
    let (a, b) = (
        Host::with(Quic::new().connect_timeout(Duration::from_millis(300))),
        Host::new(),
    );
    let silent = std::net::UdpSocket::bind(V4).unwrap();

    let outcome = a.open(silent.local_addr().unwrap(), &b).await;

    assert_eq!(outcome.err(), Some(LaneError::TimedOut));
}

#[test]
fn lanes_default_to_four_and_are_at_least_one() {
    assert_eq!(Quic::default().lanes_per_edge(), 4);
    assert_eq!(Quic::new().lanes(16).lanes_per_edge(), 16);
    assert_eq!(Quic::new().lanes(0).lanes_per_edge(), 1);
}
