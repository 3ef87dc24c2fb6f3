//! The transport of a peer that loses the master in the middle of its admission.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneTx, Listener, Security, Transport};

use super::under::Under;

/// The transport under test, whose connection to the master takes so many writes and ends with the next one.
#[derive(Clone, Debug)]
pub(crate) struct Cutting {
    pub(crate) under: Under,
    pub(crate) writes: usize,
}

impl Transport for Cutting {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        self.under.listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let lane = self.under.open(to, expect).await?;
            match to {
                Endpoint::Address(_) => Ok(lane),
                // Peers know each other by addresses.
                Endpoint::Name(_) => {
                    let left = Arc::new(AtomicUsize::new(self.writes));
                    let tx = Box::new(CuttingTx { tx: lane.tx, left });
                    Ok(Lane { tx, ..lane })
                }
            }
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.under.lanes_per_edge()
    }
}

struct CuttingTx {
    tx: Box<dyn LaneTx>,
    left: Arc<AtomicUsize>,
}

impl LaneTx for CuttingTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(Err(LaneError::Reset));
        }
        let sent = self.tx.poll_send(cx, parts);
        if sent.is_ready() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        sent
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}
