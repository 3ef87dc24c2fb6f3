//! Links that are connected side by side, over TCP on this machine.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use pccl_core::id::Ticket;
use pccl_core::topology::Way;
use pccl_core::transport::{Listener, Security};
use pccl_core::wire::{Reply, recv_preamble, send_reply};
use pccl_transport_tcp::Tcp;
use tokio::time::timeout;

use super::*;

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

const ME: PeerId = PeerId(1);

const NEXT: LinkId = LinkId::to(PeerId(2));

const PREVIOUS: LinkId = LinkId::from(PeerId(3));

async fn listen() -> Box<dyn Listener> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Tcp::new().listen(any_port, Security::Plain).await.unwrap()
}

/// Somebody who opens the door to so many lanes, and to no more.
async fn neighbour(lanes: usize) -> SocketAddr {
    let mut listener = listen().await;
    let address = listener.local_addr();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while kept.len() < lanes {
            let incoming = poll_fn(|cx| listener.poll_accept(cx)).await.unwrap();
            let mut lane = incoming.lane;
            recv_preamble(&mut lane).await.unwrap();
            send_reply(lane.tx.as_mut(), &Reply::Accepted)
                .await
                .unwrap();
            kept.push(lane);
        }
        drop(listener);
        // The lanes stay open until the test ends.
        std::future::pending::<()>().await;
    });
    address
}

fn order(with: u64, dial: SocketAddr, lanes: u16) -> LaneOrder {
    LaneOrder {
        with: PeerId(with),
        ticket: Ticket(with.into()),
        dial: Some(dial),
        lanes,
        identity: None,
    }
}

/// The link to the next rank and the one from the previous rank.
async fn start(next: LaneOrder, previous: LaneOrder) -> Wiring {
    let transport: Arc<dyn Transport> = Arc::new(Tcp::new());
    let mut door = Door::open(listen().await, 1);
    let order = |way, lanes| LinkOrder { way, lanes };
    let orders = [order(Way::Out, next), order(Way::In, previous)];
    Wiring::start(Round(5), &orders, ME, &transport, &mut door)
}

async fn soon(wiring: &mut Wiring) -> Wired {
    timeout(HANG, wiring.next()).await.expect("nothing is told")
}

/// Is there nothing to tell?
fn is_silent(wiring: &mut Wiring) -> bool {
    let next = pin!(wiring.next());
    next.poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

#[tokio::test]
async fn each_link_is_told_when_all_of_its_own_lanes_are_up() {
    let next = order(2, neighbour(3).await, 3);
    let previous = order(3, neighbour(1).await, 1);
    let mut wiring = start(next, previous).await;

    let mut told = [soon(&mut wiring).await, soon(&mut wiring).await];

    told.sort_by_key(|wired| wired.link);
    let lanes = told.map(|wired| (wired.round, wired.link, wired.lanes.unwrap().len()));
    let expected = [(NEXT, 3), (PREVIOUS, 1)];
    assert_eq!(lanes, expected.map(|(link, lanes)| (Round(5), link, lanes)));
    assert!(is_silent(&mut wiring));
}

#[tokio::test]
async fn a_link_that_fails_is_told_once_and_the_other_one_is_connected() {
    let nobody = listen().await.local_addr();
    let next = order(2, nobody, 4);
    let previous = order(3, neighbour(2).await, 2);
    let mut wiring = start(next, previous).await;

    let mut told = [soon(&mut wiring).await, soon(&mut wiring).await];

    told.sort_by_key(|wired| wired.link);
    let [failed, up] = told;
    assert_eq!((failed.link, up.link), (NEXT, PREVIOUS));
    assert_eq!(failed.lanes.unwrap_err(), LaneFailure::Refused);
    assert_eq!(up.lanes.unwrap().len(), 2);
    assert!(is_silent(&mut wiring), "three more lanes have failed");
}

#[tokio::test]
async fn a_link_is_told_before_the_other_one_is_decided() {
    let next = order(2, neighbour(2).await, 2);
    // Expected from somebody who never comes.
    let previous = LaneOrder {
        dial: None,
        ..order(3, SocketAddr::from(([127, 0, 0, 1], 1)), 1)
    };
    let mut wiring = start(next, previous).await;

    let up = soon(&mut wiring).await;

    assert_eq!((up.link, up.lanes.unwrap().len()), (NEXT, 2));
    assert!(is_silent(&mut wiring));
}
