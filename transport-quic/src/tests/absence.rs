//! Whose process has died, and who only seems to be gone.

use pccl_core::transport::recv_some;

use super::relay::Relay;
use super::*;
use crate::absence::{absence, is_absent};
use crate::dial::dial;
use crate::shared::SharedConnection;

/// A lane through a relay: its opener, its acceptor, and the relay.
async fn through_a_relay() -> (Lane, Lane, Relay) {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let relay = Relay::to(listener.local_addr()).await;
    let opened = a.greet(relay.local_addr(), &b).await;
    let mut accepted = accept(&mut *listener).await.lane;
    hear_hello(&mut accepted).await;
    (opened, accepted, relay)
}

/// Sends until the lane says why that is over.
async fn send_to_the_end(lane: &mut Lane) -> LaneError {
    let sending = async {
        loop {
            if let Err(error) = send_all(&mut *lane.tx, b"still there?", &[]).await {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(GUARD, sending).await.expect("it ends")
}

#[tokio::test]
async fn both_ends_notice_that_nobody_listens_at_the_other_one() {
    let (mut opened, mut accepted, relay) = through_a_relay().await;

    // Its sockets are closed, as those of a process that is killed.
    drop(relay);

    // The silence alone would be a time-out.
    let (here, there) = tokio::join!(send_to_the_end(&mut opened), send_to_the_end(&mut accepted));
    assert_eq!((here, there), (LaneError::Reset, LaneError::Reset));
    let read = recv_some(&mut *accepted.rx, &mut [0]).await;
    assert_eq!(read, Err(LaneError::Reset));
}

/// A connection through a relay, and what keeps it.
async fn connection_through_a_relay() -> (std::sync::Arc<SharedConnection>, Relay, Box<dyn Listener>)
{
    let (a, b) = (Host::new(), Host::new());
    let listener = b.listen().await;
    let relay = Relay::to(listener.local_addr()).await;
    let configs = a.quic.keys.configs().unwrap();
    let shared = dial(relay.local_addr(), b.identity, &a.quic.settings, configs).await;
    (shared.unwrap(), relay, listener)
}

#[tokio::test]
async fn who_answers_is_there_whatever_the_system_was_made_to_say() {
    let (shared, relay, _listener) = connection_through_a_relay().await;
    relay.be_deaf_to_others();
    let _streams = shared.connection.open_bi().await.unwrap();
    shared
        .connection
        .send_datagram(bytes::Bytes::new())
        .unwrap();

    // It is deaf from the next packet on.
    while absence_or_not(&shared).await.is_none() {}

    assert_eq!(absence_or_not(&shared).await, Some(LaneError::Refused));
    assert!(!is_absent(&shared).await);
}

#[tokio::test]
async fn who_is_only_silent_is_not_taken_for_gone() {
    let (shared, relay, _listener) = connection_through_a_relay().await;

    relay.swallow_all();

    assert!(!is_absent(&shared).await);
}

/// As whoever opens one lane after the other until there is an answer.
#[tokio::test]
async fn a_lane_that_is_opened_because_another_one_is_silent_does_not_share_its_connection() {
    let long = Quic::new().idle_timeout(2 * GUARD);
    let (a, b) = (Host::with(long), Host::new());
    let mut listener = b.listen().await;
    let relay = Relay::to(listener.local_addr()).await;
    let mut silent = a.greet(relay.local_addr(), &b).await;
    let _accepted = accept(&mut *listener).await;
    relay.swallow_all_of_this_sender();
    send_all(&mut *silent.tx, b"still there?", &[])
        .await
        .unwrap();

    let answered = async {
        loop {
            let opened = a.greet(relay.local_addr(), &b).await;
            let coming = accept(&mut *listener);
            if let Ok(incoming) = timeout(Duration::from_millis(100), coming).await {
                return (opened, incoming);
            }
        }
    };

    let (_opened, mut incoming) = timeout(GUARD, answered).await.expect("another connection");
    hear_hello(&mut incoming.lane).await;
    // It may only be slow, and so keeps its connection.
    let sent = send_all(&mut *silent.tx, b"still there?", &[]).await;
    assert_eq!(sent, Ok(()));
}

#[tokio::test]
async fn lanes_share_a_connection_on_which_nothing_was_said_for_long() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let _first = a.greet(listener.local_addr(), &b).await;
    let first = accept(&mut *listener).await;
    // Longer than questions may be without an answer.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let _second = a.greet(listener.local_addr(), &b).await;

    assert_eq!(accept(&mut *listener).await.from, first.from);
}

async fn absence_or_not(shared: &SharedConnection) -> Option<LaneError> {
    let asked = timeout(Duration::from_millis(100), absence(shared.from)).await;
    asked.ok()
}
