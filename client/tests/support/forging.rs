//! The transport of a neighbour that sends other content than it told the master.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Incoming, Lane, LaneTx, Listener, Security, Transport,
};

use super::under::Under;

/// The transport under test, on which `honest`, sent in one piece, is `forged` on arrival.
#[derive(Clone, Debug)]
pub(crate) struct Forging {
    pub(crate) under: Under,
    pub(crate) honest: Vec<u8>,
    /// Of the same length.
    pub(crate) forged: Vec<u8>,
}

impl Forging {
    fn forging(&self, lane: Lane) -> Lane {
        let tx = Box::new(ForgingTx {
            tx: lane.tx,
            forging: self.clone(),
        });
        Lane { tx, ..lane }
    }
}

impl Transport for Forging {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let listener = ForgingListener {
                listener: self.under.listen(on, security).await?,
                forging: self.clone(),
            };
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move { Ok(self.forging(self.under.open(to, expect).await?)) })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.under.lanes_per_edge()
    }
}

struct ForgingListener {
    listener: Box<dyn Listener>,
    forging: Forging,
}

impl Listener for ForgingListener {
    fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let accepted = self.listener.poll_accept(cx);
        accepted.map_ok(|Incoming { lane, from }| Incoming {
            lane: self.forging.forging(lane),
            from,
        })
    }
}

struct ForgingTx {
    tx: Box<dyn LaneTx>,
    forging: Forging,
}

impl LaneTx for ForgingTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let forging = &self.forging;
        let forged = parts.iter().map(|part| match *part == forging.honest {
            true => &*forging.forged,
            false => part,
        });
        self.tx.poll_send(cx, &forged.collect::<Vec<_>>())
    }

    fn is_local(&self) -> bool {
        self.tx.is_local()
    }

    fn give_up_after(&mut self, limit: std::time::Duration) {
        self.tx.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}
