//! What can go wrong between two hosts, and making it go wrong.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use crate::MemoryNet;
use crate::pipe::Pipe;

/// The way from one host to another.
#[derive(Default)]
pub(crate) struct Link {
    refuses: bool,
    stalled: bool,
    pipes: Vec<Weak<Pipe>>,
    /// Who waits to open a lane until the way is no longer stalled.
    openers: Vec<Waker>,
}

impl Link {
    pub(crate) fn refuses(&self) -> bool {
        self.refuses
    }

    /// Pending while stalled.
    pub(crate) fn poll_usable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.stalled {
            return Poll::Ready(());
        }
        if !self.openers.iter().any(|known| known.will_wake(cx.waker())) {
            self.openers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Remembers a pipe, for faults to come.
    pub(crate) fn carry(&mut self, pipe: &Arc<Pipe>) {
        self.pipes.retain(|known| known.strong_count() > 0);
        self.pipes.push(Arc::downgrade(pipe));
    }

    fn pipes(&self) -> Vec<Arc<Pipe>> {
        self.pipes.iter().filter_map(Weak::upgrade).collect()
    }
}

impl MemoryNet {
    /// Breaks all lanes between two hosts: what is under way is lost, and every end gets
    /// [`LaneError::Reset`](pccl_core::transport::LaneError::Reset). Lanes opened later are not
    /// concerned. The two may be the same host.
    pub fn cut(&self, a: IpAddr, b: IpAddr) {
        self.pipes(a, b).iter().for_each(|pipe| pipe.reset());
        self.pipes(b, a).iter().for_each(|pipe| pipe.reset());
    }

    /// From here on `from` cannot open lanes to `to`. Lanes that are open live on.
    pub fn refuse(&self, from: IpAddr, to: IpAddr) {
        self.with(|state| state.link(from, to).refuses = true);
    }

    /// Takes [`refuse`](Self::refuse) back.
    pub fn allow(&self, from: IpAddr, to: IpAddr) {
        self.with(|state| state.link(from, to).refuses = false);
    }

    /// Nothing arrives between two hosts any more, in either direction, and nobody is told: bytes and
    /// ends of streams are held back, senders go on until the lanes are full, and opening a lane gets
    /// no answer.
    pub fn stall(&self, a: IpAddr, b: IpAddr) {
        self.stall_one_way(a, b);
        self.stall_one_way(b, a);
    }

    /// As [`stall`](Self::stall), for what goes from `from` to `to` only.
    pub fn stall_one_way(&self, from: IpAddr, to: IpAddr) {
        self.with(|state| state.link(from, to).stalled = true);
        self.pipes(from, to).iter().for_each(|pipe| pipe.stall());
    }

    /// Lets go what was held back between two hosts, in both directions.
    pub fn resume(&self, a: IpAddr, b: IpAddr) {
        for (from, to) in [(a, b), (b, a)] {
            let openers = self.with(|state| {
                let link = state.link(from, to);
                link.stalled = false;
                std::mem::take(&mut link.openers)
            });
            self.pipes(from, to).iter().for_each(|pipe| pipe.resume());
            openers.into_iter().for_each(Waker::wake);
        }
    }

    /// The pipes, held beyond the lock: their wakers run outside of it.
    fn pipes(&self, from: IpAddr, to: IpAddr) -> Vec<Arc<Pipe>> {
        self.with(|state| state.link(from, to).pipes())
    }
}
