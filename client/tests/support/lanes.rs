//! A transport that counts what its lanes carry, and that may say of them that they lead to another machine.
//!
//! Between two ends on one machine a collective uses one lane, however many there are. So over loopback
//! only lanes that deny it show how peers on different machines work together.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Incoming, Lane, LaneRx, LaneTx, Listener, Security, Transport,
};

use super::under::Under;

/// Where lanes say that they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// To this machine, as is the case: all bytes of a collective take one lane.
    Near,
    /// To another machine: many lanes, and as many bytes under way as they take.
    Far,
}

/// Both.
pub(crate) const DISTANCES: [Distance; 2] = [Distance::Near, Distance::Far];

/// The transport under test, with counters.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    under: Under,
    distance: Distance,
    traffic: Traffic,
}

impl Counted {
    pub(crate) fn new(under: Under, distance: Distance, traffic: &Traffic) -> Self {
        Self {
            under,
            distance,
            traffic: traffic.clone(),
        }
    }

    fn counted(&self, lane: Lane) -> Lane {
        let counts = Arc::new(Counts::default());
        self.traffic.lanes().push(Arc::clone(&counts));
        let distance = self.distance;
        Lane {
            tx: Box::new(CountedTx {
                tx: lane.tx,
                distance,
                counts: Arc::clone(&counts),
            }),
            rx: Box::new(CountedRx {
                rx: lane.rx,
                counts,
            }),
            ..lane
        }
    }
}

impl Transport for Counted {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let listener = self.under.listen(on, security).await?;
            let transport = self.clone();
            let counted = CountedListener {
                listener,
                transport,
            };
            Ok(Box::new(counted) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move { Ok(self.counted(self.under.open(to, expect).await?)) })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.under.lanes_per_edge()
    }
}

struct CountedListener {
    listener: Box<dyn Listener>,
    transport: Counted,
}

impl Listener for CountedListener {
    fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let Incoming { lane, from } = ready!(self.listener.poll_accept(cx))?;
        let lane = self.transport.counted(lane);
        Poll::Ready(Ok(Incoming { lane, from }))
    }
}

struct CountedTx {
    tx: Box<dyn LaneTx>,
    distance: Distance,
    counts: Arc<Counts>,
}

impl LaneTx for CountedTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let sent = ready!(self.tx.poll_send(cx, parts))?;
        self.counts.sent.fetch_add(sent as u64, Ordering::Relaxed);
        Poll::Ready(Ok(sent))
    }

    fn is_local(&self) -> bool {
        match self.distance {
            Distance::Near => self.tx.is_local(),
            Distance::Far => false,
        }
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.tx.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}

struct CountedRx {
    rx: Box<dyn LaneRx>,
    counts: Arc<Counts>,
}

impl LaneRx for CountedRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.rx.poll_recv(cx, into)
    }
}

/// What the lanes of some peers have carried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Mutex<Vec<Arc<Counts>>>>);

/// One end of a lane.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes.
    sent: AtomicU64,
    /// How often something was to be sent or received, whether or not the lane had or took anything.
    calls: AtomicU64,
}

impl Traffic {
    /// What each end of a lane has sent, in bytes.
    pub(crate) fn bytes_sent(&self) -> Vec<u64> {
        let lanes = self.lanes();
        let sent = lanes.iter().map(|lane| lane.sent.load(Ordering::Relaxed));
        sent.collect()
    }

    /// How often all lanes together were asked to send or to receive.
    pub(crate) fn calls(&self) -> u64 {
        let lanes = self.lanes();
        let calls = lanes.iter().map(|lane| lane.calls.load(Ordering::Relaxed));
        calls.sum()
    }

    /// Is there still a transport that counts here? Each engine has one until it ends.
    pub(crate) fn is_counted(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
