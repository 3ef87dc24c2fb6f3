//! Transports for tests under tokio's paused clock, over lanes in memory.

use std::future::Future;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Incoming, Lane, LaneError, Listener, Proven, Security, Transport,
};
use pccl_transport_memory::{Path, pair};
use tokio::sync::mpsc;
use tokio::time::{Instant, advance, sleep_until, timeout};

/// Begins this, and lets the process stand still then.
pub(crate) async fn begin_and_stand_still<F: Future + Unpin>(future: &mut F, lasting: Duration) {
    tokio::select! {
        biased;
        _ = future => {}
        () = std::future::ready(()) => {}
    }
    advance(lasting).await;
}

/// A transport by which nothing is heard of anybody before a moment. Then nobody was there.
#[derive(Debug)]
pub(crate) struct Late {
    at: Instant,
    /// How long it waits.
    patience: Duration,
}

impl Late {
    pub(crate) const fn at(at: Instant) -> Self {
        let patience = Duration::from_secs(3600);
        Self { at, patience }
    }

    /// The same, which waits for so long.
    pub(crate) const fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl Transport for Late {
    fn listen(
        &self,
        _: SocketAddr,
        _: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(std::future::ready(Err(LaneError::Refused)))
    }

    fn open<'a>(
        &'a self,
        _: &'a Endpoint,
        _: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async {
            match timeout(self.patience, sleep_until(self.at)).await {
                Ok(()) => Err(LaneError::Refused),
                Err(_elapsed) => Err(LaneError::TimedOut),
            }
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        1
    }
}

/// Opens lanes to one listener, whatever the address.
pub(crate) struct Dialler {
    from: SocketAddr,
    proves: Option<Identity>,
    meets: Option<Identity>,
    arrivals: mpsc::UnboundedSender<Incoming>,
}

/// The listener of some diallers.
#[derive(Debug)]
pub(crate) struct Arrivals(mpsc::UnboundedReceiver<Incoming>);

/// A listener, and what makes diallers that reach it.
pub(crate) fn listener() -> (Arrivals, impl Fn(&str) -> Dialler) {
    let (arrivals, incoming) = mpsc::unbounded_channel();
    let dialler = move |from: &str| Dialler {
        from: from.parse().unwrap(),
        proves: None,
        meets: None,
        arrivals: arrivals.clone(),
    };
    (Arrivals(incoming), dialler)
}

impl Dialler {
    /// The same, which proves this to the listener.
    pub(crate) fn proving(self, proves: Option<Identity>) -> Self {
        Self { proves, ..self }
    }

    /// The same, to which the listener proves this.
    pub(crate) fn meeting(self, meets: Option<Identity>) -> Self {
        Self { meets, ..self }
    }

    /// Opens a lane.
    pub(crate) fn dial(&self) -> Lane {
        let (ours, theirs) = pair(Path::NEAR, Path::NEAR);
        let proven = |identity| Proven {
            own: Identity([0; 32]),
            identity,
            binding: [0; 32],
        };
        let (lane, from) = (theirs.with_proof(self.proves.map(proven)), self.from);
        self.arrivals.send(Incoming { lane, from }).unwrap();
        ours.with_proof(self.meets.map(proven))
    }
}

impl Transport for Dialler {
    fn listen(
        &self,
        _: SocketAddr,
        _: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async { Err(LaneError::AddressNotAvailable) })
    }

    fn open<'a>(
        &'a self,
        _: &'a Endpoint,
        _: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async { Ok(self.dial()) })
    }

    fn lanes_per_edge(&self) -> u16 {
        1
    }
}

impl Listener for Arrivals {
    fn local_addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let arrived = self.0.poll_recv(cx);
        arrived.map(|incoming| incoming.ok_or(LaneError::Closed))
    }
}
