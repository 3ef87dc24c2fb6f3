//! How large the datagrams are that a connection sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use pccl_core::transport::{Lane, recv_exact, send_all};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::relay::Relay;
use super::{GUARD, Host, accept, hear_hello};
use crate::dial::dial_along;
use crate::lane::split;
use crate::locality::Locality;
use crate::peers::RemotePeer;
use crate::shared::SharedConnection;

const BYTES: usize = 8 << 20;

/// The connection on which `a` has opened lanes.
async fn shared(a: &Host, at: SocketAddr, b: &Host) -> Arc<SharedConnection> {
    let peer = RemotePeer {
        at,
        expect: b.identity,
        runtime: Handle::current().id(),
    };
    let places = a.quic.peers.places(peer, 1);
    let place = places.next().unwrap().lock().await;
    place.upgrade().expect("the connection stands")
}

async fn carry(from: &mut Lane, to: &mut Lane) {
    let (bytes, mut received) = (vec![9; BYTES], vec![0; BYTES]);
    let carried = async {
        tokio::join!(
            send_all(&mut *from.tx, &bytes, &[]),
            recv_exact(&mut *to.rx, &mut received),
        )
    };
    let carried = timeout(GUARD, carried).await.expect("no hang");
    assert_eq!(carried, (Ok(()), Ok(())));
    assert!(received == bytes);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn within_a_machine_datagrams_are_large_in_both_directions() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let at = listener.local_addr();
    let mut opened = a.greet(at, &b).await;
    let mut accepted = accept(&mut *listener).await.lane;
    hear_hello(&mut accepted).await;

    carry(&mut opened, &mut accepted).await;
    let shared = shared(&a, at, &b).await;
    let there = shared.connection.stats();
    carry(&mut accepted, &mut opened).await;
    let back = shared.connection.stats();

    assert_eq!(there.path.current_mtu, 32 << 10);
    let largest = BYTES as u64 / (16 << 10);
    let received = back.udp_rx.datagrams - there.udp_rx.datagrams;
    assert!(there.udp_tx.datagrams < largest, "{there:?}");
    assert!(received < largest, "{received}");
    assert_eq!(back.path.black_holes_detected, 0);
}

/// It swallows what is larger than 2 KiB.
#[tokio::test]
async fn where_large_datagrams_get_lost_small_ones_are_sent() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let relay = Relay::to(listener.local_addr()).await;
    let mut opened = a.greet(relay.local_addr(), &b).await;
    let mut accepted = accept(&mut *listener).await.lane;
    hear_hello(&mut accepted).await;

    carry(&mut opened, &mut accepted).await;
    carry(&mut accepted, &mut opened).await;

    let shared = shared(&a, relay.local_addr(), &b).await;
    let stats = shared.connection.stats();
    assert!(stats.path.current_mtu <= 2048, "{stats:?}");
}

#[tokio::test]
async fn beyond_a_machine_datagrams_fit_an_ethernet_frame() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let (settings, configs) = (&a.quic.settings, a.quic.keys.configs().unwrap());
    let to = listener.local_addr();

    let shared = dial_along(Locality::Far, to, b.identity, settings, configs).await;

    let shared = shared.unwrap();
    let (tx, rx) = shared.connection.open_bi().await.unwrap();
    let mut opened = split(&shared, tx, rx);
    send_all(&mut *opened.tx, b"hello", &[]).await.unwrap();
    let mut accepted = accept(&mut *listener).await.lane;
    hear_hello(&mut accepted).await;
    carry(&mut opened, &mut accepted).await;
    let stats = shared.connection.stats();
    assert!(stats.path.current_mtu <= 1452, "{stats:?}");
    assert!(stats.udp_tx.bytes / stats.udp_tx.datagrams <= 1452);
}

#[test]
fn a_path_is_local_where_its_addresses_say_so() {
    let here = IpAddr::from([192, 0, 2, 1]);
    let there = IpAddr::from([192, 0, 2, 2]);
    for loopback in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        assert_eq!(Locality::between(None, loopback), Locality::Local);
    }
    assert_eq!(Locality::between(Some(here), here), Locality::Local);
    assert_eq!(Locality::between(Some(here), there), Locality::Far);
    assert_eq!(Locality::between(None, there), Locality::Far);

    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    assert_eq!(Locality::towards(loopback), Locality::Local);
    // Kept for documents: no machine should have it.
    assert_eq!(
        Locality::towards(([198, 51, 100, 7], 9).into()),
        Locality::Far
    );
}
