//! A transport of bounded pipes within the process, for tests under paused time and for tests that
//! must fill a connection.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Incoming, Lane, LaneError, LaneRx, LaneTx, Listener, Proven, Security,
    Transport,
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::mpsc;

/// Where the one listener listens.
pub(crate) const ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// Opens pipes to the one listener.
#[derive(Clone)]
pub(crate) struct Pipes {
    bytes_max: usize,
    /// What whoever dials has proved.
    proven: Option<Proven>,
    arriving: mpsc::UnboundedSender<Incoming>,
    listener: Arc<Mutex<Option<mpsc::UnboundedReceiver<Incoming>>>>,
}

impl Pipes {
    /// Pipes that hold so many bytes in each direction.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (arriving, incoming) = mpsc::unbounded_channel();
        Self {
            bytes_max,
            proven: None,
            arriving,
            listener: Arc::new(Mutex::new(Some(incoming))),
        }
    }

    /// The same, as after a handshake in which whoever dials has proved this.
    pub(crate) fn proving(self, proven: Proven) -> Self {
        let proven = Some(proven);
        Self { proven, ..self }
    }

    /// A lane to the listener.
    pub(crate) fn dial(&self) -> Lane {
        self.dial_from(ADDRESS.ip())
    }

    /// A lane to the listener, which takes it to come from there.
    pub(crate) fn dial_from(&self, ip: IpAddr) -> Lane {
        let (here, there) = duplex(self.bytes_max);
        let incoming = Incoming {
            lane: lane(there).with_proof(self.proven),
            from: SocketAddr::new(ip, ADDRESS.port()),
        };
        self.arriving.send(incoming).expect("a listener");
        lane(here)
    }
}

impl Transport for Pipes {
    fn listen(
        &self,
        _on: SocketAddr,
        _: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        let taken = self.listener.lock().unwrap().take();
        Box::pin(async move {
            let incoming = taken.ok_or(LaneError::AddressInUse)?;
            Ok(Box::new(PipeListener(incoming)) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        _to: &'a Endpoint,
        _: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async { Ok(self.dial()) })
    }

    fn lanes_per_edge(&self) -> u16 {
        1
    }
}

struct PipeListener(mpsc::UnboundedReceiver<Incoming>);

impl Listener for PipeListener {
    fn local_addr(&self) -> SocketAddr {
        ADDRESS
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        self.0
            .poll_recv(cx)
            .map(|next| next.ok_or(LaneError::Closed))
    }
}

fn lane(stream: DuplexStream) -> Lane {
    let (rx, tx) = split(stream);
    Lane::new(Box::new(PipeTx(tx)), Box::new(PipeRx(rx)))
}

struct PipeTx(WriteHalf<DuplexStream>);

impl LaneTx for PipeTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let part = parts.iter().find(|part| !part.is_empty());
        Pin::new(&mut self.0)
            .poll_write(cx, part.copied().unwrap_or_default())
            .map_err(|error| lane_error(&error))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Pin::new(&mut self.0)
            .poll_shutdown(cx)
            .map_err(|error| lane_error(&error))
    }
}

struct PipeRx(ReadHalf<DuplexStream>);

impl LaneRx for PipeRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))
            .map_err(|error| lane_error(&error))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

fn lane_error(error: &Error) -> LaneError {
    match error.kind() {
        ErrorKind::BrokenPipe => LaneError::Reset,
        _ => LaneError::Failed,
    }
}
