//! The faults, the paths and the interceptors; what every transport must do is tested for all of them together.

mod faults;
mod intercepted;
mod paths;

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use pccl_core::transport::{
    Endpoint, Lane, LaneError, LaneRx, LaneTx, Listener, Security, Transport,
};
use tokio::task::JoinHandle;

use crate::{MemoryHost, MemoryNet};

/// A lane between two hosts, and all that keeps it alive.
struct Joined {
    net: MemoryNet,
    alpha: MemoryHost,
    beta: MemoryHost,
    listener: Box<dyn Listener>,
    opened: Lane,
    accepted: Lane,
}

async fn joined() -> Joined {
    joined_in(MemoryNet::with_capacity(1000)).await
}

async fn joined_in(net: MemoryNet) -> Joined {
    let (alpha, beta) = (net.transport(), net.transport());
    let mut listener = beta.listen(beta.any_port(), Security::Plain).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());
    let opened = alpha.open(&to, None).await.unwrap();
    let accepted = accept(&mut *listener).await;
    Joined {
        net,
        alpha,
        beta,
        listener,
        opened,
        accepted,
    }
}

async fn accept(listener: &mut dyn Listener) -> Lane {
    let incoming = poll_fn(|cx| listener.poll_accept(cx)).await;
    incoming.unwrap().lane
}

impl Joined {
    fn listening(&self) -> Endpoint {
        Endpoint::Address(self.listener.local_addr())
    }

    fn cut(&self) {
        self.net.cut(self.beta.ip(), self.alpha.ip());
    }

    fn stall(&self) {
        self.net.stall(self.alpha.ip(), self.beta.ip());
    }

    fn resume(&self) {
        self.net.resume(self.alpha.ip(), self.beta.ip());
    }
}

/// The outcome of a task that must not need the clock: in paused time a hang is over at once.
async fn without_waiting<T>(task: JoinHandle<T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(1), task).await;
    outcome.expect("the task is woken").unwrap()
}

/// What the lane answers at once, `None` where it waits.
async fn recv_now(rx: &mut dyn LaneRx) -> Option<Result<usize, LaneError>> {
    now(poll_fn(|cx| rx.poll_recv(cx, &mut [0; 16]))).await
}

async fn send_now(tx: &mut dyn LaneTx, bytes: &[u8]) -> Option<Result<usize, LaneError>> {
    now(poll_fn(|cx| tx.poll_send(cx, &[bytes]))).await
}

/// The outcome of a future that is over at once, else `None`.
async fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
