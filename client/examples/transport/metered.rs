//! A transport that wraps another one, and counts the bytes of all lanes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pccl::transport::{
    BoxFuture, CongestionControl, Endpoint, Identity, Incoming, Lane, LaneError, LaneRx, LaneTx,
    Listener, Protocol, Security, Transport,
};

/// Bytes that lanes of this peer have carried.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// Opens lanes of another transport, and counts what they carry.
#[derive(Debug)]
pub(crate) struct Metered<T> {
    below: T,
    meter: Arc<Meter>,
}

impl<T: Transport> Metered<T> {
    pub(crate) fn new(below: T, meter: Arc<Meter>) -> Self {
        Self { below, meter }
    }
}

fn metered(lane: Lane, meter: &Arc<Meter>) -> Lane {
    let (tx, rx) = (
        Tx(lane.tx, Arc::clone(meter)),
        Rx(lane.rx, Arc::clone(meter)),
    );
    // Who is at the other end was proved by the handshake below.
    Lane::new(Box::new(tx), Box::new(rx)).with_proof(lane.proven)
}

impl<T: Transport> Transport for Metered<T> {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let below = self.below.listen(on, security).await?;
            let meter = Arc::clone(&self.meter);
            Ok(Box::new(MeteredListener { below, meter }) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let lane = self.below.open(to, expect).await?;
            Ok(metered(lane, &self.meter))
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.below.lanes_per_edge()
    }

    fn security(&self) -> Security {
        self.below.security()
    }

    fn has_plain_lanes(&self) -> bool {
        self.below.has_plain_lanes()
    }

    fn protocol(&self) -> Option<Protocol> {
        self.below.protocol()
    }
}

struct MeteredListener {
    below: Box<dyn Listener>,
    meter: Arc<Meter>,
}

impl Listener for MeteredListener {
    fn local_addr(&self) -> SocketAddr {
        self.below.local_addr()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let incoming = self.below.poll_accept(cx);
        incoming.map_ok(|incoming| Incoming {
            lane: metered(incoming.lane, &self.meter),
            from: incoming.from,
        })
    }
}

struct Tx(Box<dyn LaneTx>, Arc<Meter>);

impl LaneTx for Tx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let sent = self.0.poll_send(cx, parts);
        if let Poll::Ready(Ok(bytes)) = sent {
            self.1.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        sent
    }

    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.0.give_up_after(limit);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.0.congestion_control()
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        self.0.set_congestion_control(control);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.0.poll_close(cx)
    }
}

struct Rx(Box<dyn LaneRx>, Arc<Meter>);

impl LaneRx for Rx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let received = self.0.poll_recv(cx, into);
        if let Poll::Ready(Ok(bytes)) = received {
            self.1.received.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        received
    }
}
