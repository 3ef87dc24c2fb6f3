//! A UDP socket for quinn, with room for the largest datagrams at little memory.

use std::fmt;
use std::io::{Error, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, UdpPoller,
};

/// An endpoint on this socket. Must be called in a tokio runtime.
pub(crate) fn endpoint(
    config: EndpointConfig,
    server: Option<ServerConfig>,
    socket: UdpSocket,
) -> Result<Endpoint, Error> {
    let socket = Arc::new(Intake(TokioRuntime.wrap_udp_socket(socket)?));
    Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(TokioRuntime))
}

/// Limits the receive buffer of quinn. quinn allocates for as many of the largest datagrams as the system may deliver
/// in one batch: 64 of 64 KiB, 32 times. But a batch has at most 64 KiB, whatever number of datagrams is in it, and
/// the largest datagram is as large (`Settings::dialling_endpoint`).
struct Intake(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for Intake {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> Result<(), Error> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<Result<usize, Error>> {
        self.0.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.0.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        1
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
