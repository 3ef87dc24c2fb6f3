//! Listening: binding a port in one step, and accepting without spinning on errors.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::transport::{Incoming, LaneError, Listener};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

use crate::error::lane_error;
use crate::lane;
use crate::options::{Connected, Options};
use crate::tls::Acceptor;

/// Maximum number of connections that wait to be accepted: the lanes of many peers that start at once. The system may
/// have a lower limit.
const BACKLOG: i32 = 4096;

/// Pause after a failure that would repeat at once, such as running out of file descriptors. It doubles with each
/// further failure until a connection is accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum of the pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often to draw another port if the drawn one was taken between binding and listening.
const DRAWS: usize = 16;

/// Accepts connections as lanes.
pub(crate) struct TcpLanes {
    inner: TcpListener,
    local: SocketAddr,
    options: Options,
    /// `None`: lanes are plain.
    acceptor: Option<Acceptor>,
    pause: Option<Pin<Box<Sleep>>>,
    next_pause: Duration,
}

impl TcpLanes {
    /// Binds and listens. Must be called within a tokio runtime.
    pub(crate) fn bind(
        on: SocketAddr,
        options: Options,
        acceptor: Option<Acceptor>,
    ) -> Result<Self, LaneError> {
        let inner = bind_and_listen(canonical(on))
            .and_then(TcpListener::from_std)
            .map_err(|error| lane_error(&error))?;
        let local = inner.local_addr().map_err(|error| lane_error(&error))?;
        Ok(Self {
            inner,
            local: canonical(local),
            options,
            acceptor,
            pause: None,
            next_pause: PAUSE,
        })
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }
}

impl TcpLanes {
    fn poll_connection(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Connected, SocketAddr), LaneError>> {
        ready!(self.poll_pause(cx));
        match ready!(self.inner.poll_accept(cx)) {
            Ok((stream, from)) => {
                self.next_pause = PAUSE;
                let connected = self.options.apply(stream)?;
                Poll::Ready(Ok((connected, canonical(from))))
            }
            Err(error) => {
                if !concerns_one_connection(&error) {
                    self.pause = Some(Box::pin(sleep(self.next_pause)));
                    self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
                }
                Poll::Ready(Err(lane_error(&error)))
            }
        }
    }
}

impl Listener for TcpLanes {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        loop {
            if let Some(acceptor) = &mut self.acceptor
                && let Poll::Ready(next) = acceptor.poll_next(cx)
            {
                return Poll::Ready(next);
            }
            let (connected, from) = ready!(self.poll_connection(cx))?;
            match &mut self.acceptor {
                None => {
                    let lane = lane::split(connected);
                    return Poll::Ready(Ok(Incoming { lane, from }));
                }
                Some(acceptor) => acceptor.begin(connected, from),
            }
        }
    }
}

/// Whether the error concerns only the connection that was to be accepted, which the failed call has removed from the
/// queue.
fn concerns_one_connection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
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

/// With `SO_REUSEADDR` two sockets may be bound to one port as long as neither listens. So a port that the system
/// drew can be lost before listening, and another one is drawn. A port that was asked for by number is tried once.
fn bind_and_listen(on: SocketAddr) -> Result<StdListener, Error> {
    let mut draws = if on.port() == 0 { DRAWS } else { 1 };
    loop {
        draws -= 1;
        match bind_and_listen_once(on) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && draws > 0 => {}
            outcome => return outcome,
        }
    }
}

/// Every early return drops the socket, which frees the port.
fn bind_and_listen_once(on: SocketAddr) -> Result<StdListener, Error> {
    let socket = Socket::new(Domain::for_address(on), Type::STREAM, Some(Protocol::TCP))?;
    allow_quick_rebinding(&socket)?;
    if on.is_ipv6()
        && on.ip().is_unspecified()
        && let Err(error) = socket.set_only_v6(false)
    {
        tracing::debug!(%error, "the wildcard address accepts IPv6 only");
    }
    socket.set_nonblocking(true)?;
    socket.bind(&on.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Lets a restarted process bind its port although connections of its predecessor are in TIME_WAIT. On Unix two
/// sockets can still not listen on one port: the second bind or listen fails. On Windows the option would permit
/// exactly that, and TIME_WAIT is no obstacle.
fn allow_quick_rebinding(socket: &Socket) -> Result<(), Error> {
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    Ok(())
}
