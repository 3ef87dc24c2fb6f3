//! Listening and opening, and how both fail.

use std::future::poll_fn;
use std::task::Poll;

use pccl_core::transport::{Endpoint, LaneError};

use super::subject::{Subject, accept_who_says_hello};

/// Port zero is only ever a question.
pub async fn a_listener_says_which_port_it_took(subject: Subject) {
    let (first, second) = (subject.listen().await, subject.listen().await);

    assert_ne!(first.local_addr().port(), 0);
    assert_ne!(first.local_addr(), second.local_addr());
}

/// Host and port, as seen by the listener; two openers are told apart.
pub async fn an_opener_is_known_by_its_address(subject: Subject) {
    let mut listener = subject.listen().await;

    let (_opened, incoming) = subject.lane_through(&mut *listener).await;

    assert_eq!(incoming.from.ip(), listener.local_addr().ip());
    assert_ne!(incoming.from.port(), 0);
}

/// An answer of some kind, within the transport's own limit.
pub async fn opening_to_nobody_fails_instead_of_hanging(subject: Subject) {
    let nobody = subject.listen().await.local_addr();

    let outcome = subject.open(nobody).await;

    assert_nobody_there(outcome.err());
}

fn assert_nobody_there(error: Option<LaneError>) {
    let told = matches!(error, Some(LaneError::Refused | LaneError::TimedOut));
    assert!(told, "nobody listens, but opening says {error:?}");
}

/// Neither a hang nor another error.
pub async fn an_unknown_name_is_not_resolved(subject: Subject) {
    let name = Endpoint::Name("no name and no port".into());

    let outcome = subject.transport.open(&name, subject.expect).await;

    assert_eq!(outcome.err(), Some(LaneError::NameNotResolved));
}

/// The port can be taken again at once.
pub async fn a_dropped_listener_frees_its_port_and_refuses_newcomers(subject: Subject) {
    let mut listener = subject.listen().await;
    let address = listener.local_addr();
    drop(subject.lane_through(&mut *listener).await);

    drop(listener);

    assert_nobody_there(subject.open(address).await.err());
    let again = subject.listen_again(address).await;
    let mut again = again.expect("the port is free");
    assert_eq!(again.local_addr(), address);
    subject.lane_through(&mut *again).await;
}

/// The first listener is not disturbed by the attempt.
pub async fn a_port_that_is_listened_on_cannot_be_taken(subject: Subject) {
    let mut listener = subject.listen().await;

    let second = subject.listen_again(listener.local_addr()).await;

    assert_eq!(second.err(), Some(LaneError::AddressInUse));
    subject.lane_through(&mut *listener).await;
}

/// Openers that say nothing and go concern themselves only.
pub async fn a_listener_survives_openers_that_vanish(subject: Subject) {
    let mut listener = subject.listen().await;
    let to = listener.local_addr();

    // All at once: where nobody answers a handshake, each takes as long as connecting may.
    let vanish = async || drop(subject.open(to).await);
    tokio::join!(vanish(), vanish(), vanish(), vanish(), vanish());

    subject.lane_through(&mut *listener).await;
}

/// Where the listener got a lane of it all the same, that lane has ended.
pub async fn a_cancelled_open_leaves_no_lane(subject: Subject) {
    let mut listener = subject.listen().await;
    let to = Endpoint::Address(listener.local_addr());

    for _ in 0..5 {
        let mut opening = subject.transport.open(&to, subject.expect);
        let polled = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await;
        drop((polled, opening));
    }

    // Whatever comes before the serious opener must read as ended, or this waits for ever.
    let serious = subject.open_and_say_hello(listener.local_addr());
    let (_opened, _incoming) = tokio::join!(serious, accept_who_says_hello(&mut *listener));
}

/// Zero lanes would be a ring edge that cannot carry anything.
pub async fn an_edge_has_at_least_one_lane(subject: Subject) {
    assert!(subject.transport.lanes_per_edge() >= 1);
}
