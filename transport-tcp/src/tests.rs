//! What is special about TCP; what every transport must do is tested for all of them together.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::time::Duration;

use pccl_core::transport::{
    Endpoint, Incoming, LaneError, Listener, Security, Transport, close, recv_exact, recv_some,
    send_all,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Keepalive, Tcp, open, options};

#[cfg(target_os = "linux")]
mod control;

const V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
const V6_WILDCARD: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// Against hangs only; nothing here takes this long.
const GUARD: Duration = Duration::from_secs(30);

async fn listen(on: SocketAddr) -> Box<dyn Listener> {
    Tcp::new()
        .listen(on, Security::Plain)
        .await
        .expect("a free port")
}

/// A listener on an IPv6 address, or `None` and the reason in the test's output.
async fn listen_v6(on: SocketAddr) -> Option<Box<dyn Listener>> {
    match Tcp::new().listen(on, Security::Plain).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            println!("skipped: this machine has no IPv6 ({error})");
            None
        }
    }
}

async fn accept(listener: &mut dyn Listener) -> Incoming {
    let accepted = timeout(GUARD, poll_fn(|cx| listener.poll_accept(cx))).await;
    accepted.expect("an opener came").expect("a lane")
}

/// Opens `to`, says hello, and gives what the listener saw of it.
async fn hello(listener: &mut dyn Listener, to: Endpoint) -> SocketAddr {
    let mut opened = Tcp::new().open(&to, None).await.expect("somebody listens");
    send_all(&mut *opened.tx, b"hel", b"lo").await.unwrap();
    close(&mut *opened.tx).await.unwrap();

    let mut incoming = accept(listener).await;
    let mut word = [0; 5];
    recv_exact(&mut *incoming.lane.rx, &mut word).await.unwrap();
    assert_eq!(&word, b"hello");
    let rest = recv_some(&mut *incoming.lane.rx, &mut word).await;
    assert_eq!(rest, Ok(0));
    incoming.from
}

/// A connection of `tcp` as it is before it becomes a lane, options set, and its other end.
async fn connection(tcp: &Tcp) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(V4).await.unwrap();
    let to = Endpoint::Address(listener.local_addr().unwrap());
    let (opened, accepted) = tokio::join!(open::connect(&to, GUARD), listener.accept());
    let connected = tcp.options.apply(opened.unwrap()).unwrap();
    (connected.stream, accepted.unwrap().0)
}

#[tokio::test]
async fn a_lane_over_ipv4_says_where_it_came_from() {
    let mut listener = listen(V4).await;
    let to = listener.local_addr();

    let from = hello(&mut *listener, Endpoint::Address(to)).await;

    assert_eq!(from.ip(), V4.ip());
    assert_ne!(to.port(), 0);
}

#[tokio::test]
async fn a_lane_over_ipv6_says_where_it_came_from() {
    let Some(mut listener) = listen_v6(V6).await else {
        return;
    };
    let to = listener.local_addr();

    let from = hello(&mut *listener, Endpoint::Address(to)).await;

    assert_eq!(from.ip(), V6.ip());
}

#[tokio::test]
async fn an_ipv6_wildcard_takes_ipv4_and_reports_it_as_ipv4() {
    let Some(mut listener) = listen_v6(V6_WILDCARD).await else {
        return;
    };
    let to = SocketAddr::new(V4.ip(), listener.local_addr().port());

    let from = hello(&mut *listener, Endpoint::Address(to)).await;

    assert_eq!(from.ip(), V4.ip());
}

#[tokio::test]
async fn an_ipv4_address_in_ipv6_dress_is_listened_on_and_opened_as_ipv4() {
    let dressed = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), port);
    let mut listener = listen(dressed(0)).await;
    let to = listener.local_addr();

    let from = hello(&mut *listener, Endpoint::Address(dressed(to.port()))).await;

    assert_eq!(to.ip(), V4.ip());
    assert_eq!(from.ip(), V4.ip());
}

#[tokio::test]
async fn a_name_is_looked_up_and_all_its_addresses_are_tried() {
    // localhost may lead to ::1 first, where nobody listens on this port.
    let mut listener = listen(V4).await;
    let name = format!("localhost:{}", listener.local_addr().port());

    let from = hello(&mut *listener, Endpoint::Name(name)).await;

    assert_eq!(from.ip(), V4.ip());
}

#[tokio::test]
async fn the_second_address_is_tried_where_the_first_refuses() {
    let nobody = listen(V4).await.local_addr();
    let somebody = TcpListener::bind(V4).await.unwrap();
    let address = somebody.local_addr().unwrap();

    let stream = open::connect_to_any(&[nobody, address], GUARD).await;

    assert_eq!(stream.unwrap().peer_addr().unwrap(), address);
}

#[tokio::test]
async fn what_is_no_name_is_said_to_be_unresolved() {
    for name in [
        "",
        "no port",
        "localhost",
        "localhost:99999",
        "a.invalid.:1",
    ] {
        let outcome = Tcp::new().open(&Endpoint::Name(name.into()), None).await;

        assert_eq!(outcome.unwrap_err(), LaneError::NameNotResolved, "{name}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let to = Endpoint::Address(listen(V4).await.local_addr());

    let outcome = Tcp::new().open(&to, None).await;

    assert_eq!(outcome.unwrap_err(), LaneError::Refused);
}

#[tokio::test]
async fn a_port_in_use_cannot_be_taken_again() {
    let listener = listen(V4).await;

    let second = Tcp::new()
        .listen(listener.local_addr(), Security::Plain)
        .await;
    let wildcard = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), listener.local_addr().port());
    let third = Tcp::new().listen(wildcard, Security::Plain).await;

    assert_eq!(second.err(), Some(LaneError::AddressInUse));
    assert_eq!(third.err(), Some(LaneError::AddressInUse));
}

#[tokio::test]
async fn a_socket_that_was_bound_first_but_listens_later_loses_the_port() {
    let bound = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    bound.set_reuse_address(true).unwrap();
    bound.bind(&V4.into()).unwrap();
    let address = bound.local_addr().unwrap().as_socket().unwrap();

    let winner = Tcp::new().listen(address, Security::Plain).await;

    assert!(winner.is_ok());
    assert!(bound.listen(1).is_err());
}

#[tokio::test]
async fn a_failed_listen_leaves_the_port_free() {
    let first = listen(V4).await;
    let address = first.local_addr();
    assert!(Tcp::new().listen(address, Security::Plain).await.is_err());

    drop(first);

    assert!(Tcp::new().listen(address, Security::Plain).await.is_ok());
}

#[tokio::test]
async fn a_port_with_connections_in_time_wait_is_taken_back_at_once() {
    let mut listener = listen(V4).await;
    let address = listener.local_addr();
    let mut opened = Tcp::new()
        .open(&Endpoint::Address(address), None)
        .await
        .unwrap();
    let mut incoming = accept(&mut *listener).await;
    // The side that closes first goes through TIME_WAIT.
    close(&mut *incoming.lane.tx).await.unwrap();
    assert_eq!(recv_some(&mut *opened.rx, &mut [0]).await, Ok(0));
    drop(opened);
    assert_eq!(recv_some(&mut *incoming.lane.rx, &mut [0]).await, Ok(0));
    drop((incoming, listener));

    let again = Tcp::new().listen(address, Security::Plain).await;

    assert!(again.is_ok());
}

#[tokio::test]
async fn an_address_of_another_machine_cannot_be_listened_on() {
    let documentation = SocketAddr::from(([192, 0, 2, 1], 0));

    let outcome = Tcp::new().listen(documentation, Security::Plain).await;

    assert_eq!(outcome.err(), Some(LaneError::AddressNotAvailable));
}

#[tokio::test]
async fn the_default_options_are_set() {
    let (opened, _other) = connection(&Tcp::new()).await;

    let socket = SockRef::from(&opened);
    assert!(socket.tcp_nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(5));
    let interval = socket.tcp_keepalive_interval().unwrap();
    assert_eq!(interval, Duration::from_secs(2));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    #[cfg(target_os = "linux")]
    assert_eq!(
        socket.tcp_user_timeout().unwrap(),
        Some(Duration::from_secs(11))
    );
}

#[tokio::test]
async fn options_that_were_asked_for_are_set() {
    let keepalive = Keepalive {
        idle: Duration::from_secs(7),
        interval: Duration::from_secs(3),
        probes: 4,
    };
    let limit = Duration::from_millis(2500);
    let tcp = Tcp::new().keepalive(keepalive).user_timeout(limit);

    let (opened, _other) = connection(&tcp).await;

    let socket = SockRef::from(&opened);
    assert_eq!(socket.tcp_keepalive_time().unwrap(), keepalive.idle);
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(limit));
}

#[tokio::test]
async fn what_was_switched_off_is_off() {
    let tcp = Tcp::new().keepalive(None).user_timeout(None);

    let (opened, _other) = connection(&tcp).await;

    let socket = SockRef::from(&opened);
    assert!(!socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), None);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_lane_is_given_up_after_the_shorter_of_the_two_times() {
    let (short, long) = (Duration::from_secs(3), Duration::from_secs(20));
    let default = Some(Duration::from_secs(11));
    let cases = [
        (Tcp::new(), short, Some(short)),
        (Tcp::new(), long, default),
        (Tcp::new().user_timeout(None), long, Some(long)),
    ];

    for (tcp, limit, expected) in cases {
        let (opened, _other) = connection(&tcp).await;
        options::shorten_user_timeout(&opened, limit);

        let set = SockRef::from(&opened).tcp_user_timeout().unwrap();
        assert_eq!(set, expected);
    }
}

/// The one way to keep a small frame from being acknowledged that needs no rights: nobody reads, until
/// the window is shut.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_lane_whose_bytes_do_not_arrive_ends_by_itself() {
    let mut listener = listen(V4).await;
    let to = Endpoint::Address(listener.local_addr());
    let mut opened = Tcp::new().open(&to, None).await.unwrap();
    let _nobody_reads = accept(&mut *listener).await;

    opened.tx.give_up_after(Duration::from_millis(200));
    let bytes = vec![0; 1 << 20];
    let flood = async {
        loop {
            if let Err(error) = send_all(&mut *opened.tx, &bytes, &[]).await {
                return error;
            }
        }
    };

    let ended = timeout(GUARD, flood).await.expect("the lane ends");
    assert_eq!(ended, LaneError::TimedOut);
}

/// The name that the system gives, which comes padded with zeros.
#[cfg(target_os = "linux")]
fn congestion_of(socket: &impl AsFd) -> String {
    let used = SockRef::from(socket).tcp_congestion().unwrap();
    let name = String::from_utf8(used).unwrap();
    name.trim_end_matches('\0').to_owned()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_congestion_control_that_the_system_has_is_used() {
    // Every process may use the system's own, which is hardly ever the one of the loopback.
    let own = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();

    let (opened, _other) = connection(&Tcp::new().congestion(own.trim())).await;

    assert_eq!(congestion_of(&opened), own.trim());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn lanes_within_a_machine_are_not_paced() {
    let (opened, _other) = connection(&Tcp::new()).await;

    // Every Linux has reno.
    assert_eq!(congestion_of(&opened), "reno");
}

#[tokio::test]
async fn a_congestion_control_that_the_system_lacks_does_not_stop_the_lane() {
    let listener = listen(V4).await;
    let tcp = Tcp::new().congestion("no-such-control");

    let outcome = tcp
        .open(&Endpoint::Address(listener.local_addr()), None)
        .await;

    assert!(outcome.is_ok());
}

#[tokio::test(start_paused = true)]
async fn paused_time_does_not_run_ahead_of_a_connection() {
    let mut listener = listen(V4).await;
    let to = Endpoint::Address(listener.local_addr());

    let from = hello(&mut *listener, to).await;

    assert_eq!(from.ip(), V4.ip());
}

#[test]
fn lanes_default_to_what_the_congestion_control_wants_and_are_at_least_one() {
    assert!([4, 16].contains(&Tcp::default().lanes_per_edge()));
    assert_eq!(Tcp::new().congestion("reno").lanes_per_edge(), 16);
    assert_eq!(Tcp::new().lanes(16).lanes_per_edge(), 16);
    assert_eq!(Tcp::new().lanes(0).lanes_per_edge(), 1);
}
