//! One host of the network in memory, as a transport.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneError, Listener, Security, Transport};

use crate::MemoryNet;

/// Few, but more than one, so that striping is at work.
const DEFAULT_LANES: u16 = 2;

/// How long opening over a stalled path waits, unless [`MemoryHost::open_timeout`] says otherwise.
const DEFAULT_OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A host of a [`MemoryNet`]: opens lanes from its address, and listens on it.
///
/// Clones are the same host with the same settings.
#[derive(Clone)]
pub struct MemoryHost {
    net: MemoryNet,
    ip: IpAddr,
    lanes: u16,
    open_timeout: Duration,
}

impl MemoryHost {
    pub(crate) fn new(net: MemoryNet, ip: IpAddr) -> Self {
        Self {
            net,
            ip,
            lanes: DEFAULT_LANES,
            open_timeout: DEFAULT_OPEN_TIMEOUT,
        }
    }

    /// How many lanes a ring edge should have: two by default, at least one.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// How long opening a lane waits while the path is stalled, by tokio's clock: five seconds by
    /// default.
    #[must_use]
    pub fn open_timeout(mut self, limit: Duration) -> Self {
        self.open_timeout = limit;
        self
    }

    /// The host's address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The host's address with port zero, to listen on.
    #[must_use]
    pub fn any_port(&self) -> SocketAddr {
        SocketAddr::new(self.ip, 0)
    }
}

impl Transport for MemoryHost {
    /// The address must be the host's own or unspecified.
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            if security == Security::Proven {
                return Err(LaneError::NotEncrypted);
            }
            let listener = self.net.listen(self.ip, on)?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    /// Done at the first poll, unless the path is stalled. An unspecified address means this host.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            if expect.is_some() {
                return Err(LaneError::NotEncrypted);
            }
            let mut to = self.net.resolve(to)?;
            if to.ip().is_unspecified() {
                to.set_ip(self.ip);
            }
            let mut attempt = pin!(poll_fn(|cx| self.net.poll_open(self.ip, to, cx)));
            let at_once = poll_fn(|cx| Poll::Ready(attempt.as_mut().poll(cx))).await;
            if let Poll::Ready(outcome) = at_once {
                return outcome;
            }
            let limit = tokio::time::timeout(self.open_timeout, attempt).await;
            limit.unwrap_or(Err(LaneError::TimedOut))
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.lanes
    }
}
