//! One host of the network in memory, as a transport.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneError, Listener, Security, Transport};

use crate::MemoryNet;
use crate::net::Proofs;

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
    identity: Option<Identity>,
}

impl MemoryHost {
    pub(crate) fn new(net: MemoryNet, ip: IpAddr) -> Self {
        Self {
            net,
            ip,
            lanes: DEFAULT_LANES,
            open_timeout: DEFAULT_OPEN_TIMEOUT,
            identity: None,
        }
    }

    /// How many lanes a ring edge should have: two by default, at least one.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// Proves this on lanes that are to be proven; without it the host has plain lanes alone. Within one
    /// process nobody has to be convinced: no key is needed, and nothing is encrypted.
    #[must_use]
    pub fn proving(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// How long opening a lane may take, on a slow path or while it waits, by tokio's clock: five seconds
    /// by default.
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

impl MemoryHost {
    /// One way to the listener, and one back, however long they are.
    async fn attempt(&self, to: SocketAddr, expect: Option<Identity>) -> Result<Lane, LaneError> {
        let proofs = match expect {
            None => None,
            Some(expect) => {
                let own = self.identity.ok_or(LaneError::NotEncrypted)?;
                Some(Proofs { own, expect })
            }
        };
        pause(self.net.delay(self.ip, to.ip())).await;
        let lane = poll_fn(|cx| self.net.poll_open(self.ip, to, proofs, cx)).await?;
        pause(self.net.delay(to.ip(), self.ip)).await;
        Ok(lane)
    }
}

/// Without a runtime where there is nothing to wait for.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
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
            let proves = match security {
                Security::Plain => None,
                Security::Proven => Some(self.identity.ok_or(LaneError::NotEncrypted)?),
            };
            let listener = self.net.listen(self.ip, on, proves)?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    /// Done at the first poll, unless the path takes time or is stalled, or one of the hosts is frozen. An
    /// unspecified address means this host.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let mut to = self.net.resolve(to)?;
            if to.ip().is_unspecified() {
                to.set_ip(self.ip);
            }
            let mut attempt = pin!(self.attempt(to, expect));
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
