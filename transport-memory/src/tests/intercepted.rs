//! Lanes that somebody stands between.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneError, Security, Transport, recv_exact, send_all};

use super::{accept, recv_now, send_now};
use crate::{
    Intercepted, Interceptor, MemoryNet, Meter, Path, claim_local, on_recv, on_send, pair,
};

#[tokio::test]
async fn an_interceptor_has_each_lane_of_its_transport_and_no_other() {
    let net = MemoryNet::new();
    let (alpha, beta) = (net.transport(), net.transport());
    let meter = Arc::new(Meter::default());
    let counts = Arc::clone(&meter);
    let on = beta.any_port();
    let counted = Intercepted::over(Arc::new(beta), move |lane: Lane| counts.on(lane));
    let mut listener = counted.listen(on, Security::Plain).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());

    let mut opened = alpha.open(&to, None).await.unwrap();
    let mut accepted = accept(&mut *listener).await;
    send_all(&mut *opened.tx, b"12345", b"").await.unwrap();
    recv_exact(&mut *accepted.rx, &mut [0; 5]).await.unwrap();
    send_all(&mut *accepted.tx, b"123", b"4").await.unwrap();
    let mut itself = counted.open(&to, None).await.unwrap();
    send_all(&mut *itself.tx, &[0; 100], b"").await.unwrap();

    assert_eq!((meter.sent(), meter.received(), meter.calls()), (104, 5, 3));
    assert_eq!(recv_now(&mut *accepted.rx).await, None);
    assert_eq!(meter.calls(), 4);
}

/// Notes all that it is told, and leads elsewhere.
#[derive(Default)]
struct Notes {
    elsewhere: Option<Endpoint>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    fn note(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

impl Interceptor for Notes {
    fn listening(&self, at: SocketAddr) {
        self.note(format!("listening at {at}"));
    }

    fn destination(&self, to: &Endpoint) -> Endpoint {
        self.elsewhere.as_ref().unwrap_or(to).clone()
    }

    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        self.note(format!("opened to {to}"));
        lane
    }

    fn accepted(&self, lane: Lane, from: SocketAddr) -> Lane {
        self.note(format!("accepted from {}", from.ip()));
        lane
    }
}

#[tokio::test]
async fn an_interceptor_is_told_what_its_transport_does_and_says_where_lanes_lead() {
    let net = MemoryNet::new();
    let (alpha, beta) = (net.transport(), net.transport());
    let on = SocketAddr::new(beta.ip(), 7);
    let notes = Notes {
        elsewhere: Some(Endpoint::Address(on)),
        ..Notes::default()
    };
    let told = Arc::clone(&notes.told);
    let noted = Intercepted::over(Arc::new(beta), notes);
    let mut listener = noted.listen(on, Security::Plain).await.unwrap();

    alpha.open(&Endpoint::Address(on), None).await.unwrap();
    accept(&mut *listener).await;
    let nowhere = Endpoint::Name("nowhere:1".into());
    noted.open(&nowhere, None).await.unwrap();

    let told = told.lock().unwrap();
    let expected = [
        "listening at 10.77.0.2:7",
        "accepted from 10.77.0.1",
        "opened to nowhere:1",
    ];
    assert_eq!(*told, expected);
}

#[tokio::test]
async fn what_is_sent_and_received_can_be_changed() {
    let (here, there) = pair(Path::DIRECT, Path::DIRECT);
    let mut tx = on_send(here.tx, |tx, cx, parts| {
        let louder: Vec<Vec<u8>> = parts.iter().map(|part| part.to_ascii_uppercase()).collect();
        let louder: Vec<&[u8]> = louder.iter().map(Vec::as_slice).collect();
        tx.poll_send(cx, &louder)
    });
    let mut rx = on_recv(there.rx, |rx, cx, into| {
        let received = rx.poll_recv(cx, into);
        into.reverse();
        received
    });

    send_all(&mut *tx, b"ab", b"c").await.unwrap();

    let mut word = [0; 3];
    recv_exact(&mut *rx, &mut word).await.unwrap();
    assert_eq!(&word, b"CBA");
}

#[tokio::test]
async fn a_lane_can_be_cut_after_so_many_bytes() {
    let (here, mut there) = pair(Path::DIRECT, Path::DIRECT);
    let mut left = 5;
    let mut tx = on_send(here.tx, move |tx, cx, parts| {
        let most = parts[0].len().min(left);
        if most == 0 {
            return Poll::Ready(Err(LaneError::Reset));
        }
        left -= most;
        tx.poll_send(cx, &[&parts[0][..most]])
    });

    assert_eq!(send_now(&mut *tx, b"abc").await, Some(Ok(3)));
    assert_eq!(send_now(&mut *tx, b"def").await, Some(Ok(2)));
    assert_eq!(send_now(&mut *tx, b"f").await, Some(Err(LaneError::Reset)));
    assert_eq!(recv_now(&mut *there.rx).await, Some(Ok(5)));
}

#[test]
fn a_lane_says_what_it_is_told_to_say_of_where_it_leads() {
    let (here, there) = pair(Path::DIRECT, Path::DIRECT);

    let near = claim_local(here.tx, true);
    let far = claim_local(
        on_send(claim_local(there.tx, true), |_, _, _| Poll::Pending),
        false,
    );

    assert!(near.is_local());
    assert!(!far.is_local());
}
