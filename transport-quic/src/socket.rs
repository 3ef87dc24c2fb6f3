//! UDP sockets.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::time::{Instant, sleep};

/// Size of the socket buffers to request. The system may have a lower limit.
const BUFFER_BYTES: usize = 8 << 20;

/// How long a port may be held by connections of a listener that was dropped: they are kept for three round trips
/// after their end.
const CLOSING: Duration = Duration::from_secs(1);

/// Pause between two attempts to bind a port.
const PAUSE: Duration = Duration::from_millis(5);

/// Ports on which this transport has stopped listening a moment ago. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left(Arc<Mutex<Vec<(u16, Instant)>>>);

impl Left {
    /// Notes that the listener of this address was dropped.
    pub(crate) fn add(&self, address: SocketAddr) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|(_, when)| when.elapsed() < CLOSING);
        left.push((address.port(), Instant::now()));
    }

    fn holds(&self, address: SocketAddr) -> bool {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.iter()
            .any(|(port, when)| *port == address.port() && when.elapsed() < CLOSING)
    }
}

/// A socket on this address. Retries if connections of a dropped listener still hold it.
pub(crate) async fn bind_again(on: SocketAddr, left: &Left) -> Result<UdpSocket, Error> {
    loop {
        match bind(on) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && left.holds(on) => {
                sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// A socket on any port, from which `to` can be reached.
pub(crate) fn bind_towards(to: SocketAddr) -> Result<UdpSocket, Error> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    bind(SocketAddr::new(any, 0))
}

fn bind(on: SocketAddr) -> Result<UdpSocket, Error> {
    let socket = Socket::new(Domain::for_address(on), Type::DGRAM, Some(Protocol::UDP))?;
    if on.is_ipv6()
        && on.ip().is_unspecified()
        && let Err(error) = socket.set_only_v6(false)
    {
        tracing::debug!(%error, "the wildcard address takes IPv6 only");
    }
    socket.set_nonblocking(true)?;
    enlarge_buffers(&socket);
    socket.bind(&on.into())?;
    Ok(socket.into())
}

fn enlarge_buffers(socket: &Socket) {
    /// Linux adds what it needs itself, and reports twice the requested size.
    const REPORTED: usize = if cfg!(target_os = "linux") { 2 } else { 1 };
    let set = [
        socket.set_recv_buffer_size(BUFFER_BYTES),
        socket.set_send_buffer_size(BUFFER_BYTES),
    ];
    let got = [socket.recv_buffer_size(), socket.send_buffer_size()];
    for ((name, set), got) in ["receive", "send"].into_iter().zip(set).zip(got) {
        let got = got.unwrap_or(0) / REPORTED;
        if set.is_err() || got < BUFFER_BYTES {
            tracing::debug!(
                buffer = name,
                bytes = got,
                wanted = BUFFER_BYTES,
                "the system limits a UDP buffer: packets get lost at high rates \
                 (Linux: net.core.rmem_max, net.core.wmem_max)"
            );
        }
    }
}

/// Converts an IPv4-mapped IPv6 address to the IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}
