//! What can go wrong between two hosts, or with one, and making it go wrong.
//!
//! | fault | lanes that are open | lanes to be opened |
//! |---|---|---|
//! | [`cut`](MemoryNet::cut) | end on both sides, with what is under way | as before |
//! | [`half_open`](MemoryNet::half_open) | end on one side; the other one is told nothing | as before |
//! | [`lose`](MemoryNet::lose) | bring nothing more in one direction, for ever | as before |
//! | [`stall`](MemoryNet::stall), [`partition`](MemoryNet::partition) | bring nothing, until it is over | get no answer, until it is over |
//! | [`refuse`](MemoryNet::refuse) | as before | are refused |
//! | [`freeze`](MemoryNet::freeze) | stand still at one host, until it is over | are opened, and not accepted |
//! | [`kill`](MemoryNet::kill) | end on both sides; what was sent to others arrives | are refused |
//!
//! Delays, rates and flipped bits are the [`Path`]'s.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use crate::MemoryNet;
use crate::net::wait_among;
use crate::path::{Path, Wire};
use crate::pipe::Pipe;

/// The way from one host to another.
#[derive(Default)]
pub(crate) struct Route {
    /// `None`: the usual one of the network.
    pub(crate) path: Option<Path>,
    wire: Arc<Wire>,
    refuses: bool,
    stalled: bool,
    pipes: Vec<Weak<Pipe>>,
    /// Who waits to open a lane until the way is no longer stalled.
    openers: Vec<Waker>,
}

impl Route {
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refuses
    }

    /// Pending while stalled.
    pub(crate) fn poll_usable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.stalled {
            false => Poll::Ready(()),
            true => wait_among(&mut self.openers, cx),
        }
    }

    /// Remembers a pipe, for faults to come.
    pub(crate) fn carry(&mut self, pipe: &Arc<Pipe>) {
        self.pipes.retain(|known| known.strong_count() > 0);
        self.pipes.push(Arc::downgrade(pipe));
    }

    /// How many pipes somebody holds an end of.
    pub(crate) fn holds(&self) -> usize {
        self.pipes().count()
    }

    fn pipes(&self) -> impl Iterator<Item = Arc<Pipe>> {
        self.pipes.iter().filter_map(Weak::upgrade)
    }
}

impl MemoryNet {
    /// The way from `from` to `to` is like this from here on, also for lanes that are open. What is under way
    /// arrives when it would have.
    pub fn set_path(&self, from: IpAddr, to: IpAddr, path: Path) {
        self.with(|state| state.route(from, to).path = Some(path));
        self.each(from, to, |pipe| pipe.set_path(path));
    }

    /// Breaks all lanes between two hosts: what is under way is lost, and every end gets
    /// [`LaneError::Reset`](pccl_core::transport::LaneError::Reset). Lanes opened later are not
    /// concerned. The two may be the same host.
    pub fn cut(&self, a: IpAddr, b: IpAddr) {
        self.each(a, b, Pipe::reset);
        self.each(b, a, Pipe::reset);
    }

    /// Leaves all lanes between two hosts half open, as where one of them has lost its power: the ends of `gone`
    /// get [`LaneError::Reset`](pccl_core::transport::LaneError::Reset). Those of `left` can be read up to what
    /// was sent, and wait then; what they send is lost. They are told nothing, unless they
    /// [give up](pccl_core::transport::LaneTx::give_up_after) themselves. Lanes opened later are not
    /// concerned.
    pub fn half_open(&self, gone: IpAddr, left: IpAddr) {
        self.lose(gone, left);
        self.lose(left, gone);
        self.each(gone, left, Pipe::reset_writer);
        self.each(left, gone, Pipe::reset_reader);
    }

    /// Cuts all lanes between two hosts one way: what `from` sends to `to` from here on is lost, the end of the
    /// stream included, and neither is told. The other direction goes on. Lanes opened later are not
    /// concerned.
    pub fn lose(&self, from: IpAddr, to: IpAddr) {
        self.each(from, to, Pipe::lose);
        self.each(to, from, Pipe::mute);
    }

    /// From here on `from` cannot open lanes to `to`. Lanes that are open live on.
    pub fn refuse(&self, from: IpAddr, to: IpAddr) {
        self.with(|state| state.route(from, to).refuses = true);
    }

    /// Takes [`refuse`](Self::refuse) back.
    pub fn allow(&self, from: IpAddr, to: IpAddr) {
        self.with(|state| state.route(from, to).refuses = false);
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
        self.with(|state| state.route(from, to).stalled = true);
        self.each(from, to, |pipe| pipe.stall(true));
        self.each(to, from, |pipe| pipe.deafen(true));
    }

    /// Lets go what was held back between two hosts, in both directions. What a sender has
    /// [given up](pccl_core::transport::LaneTx::give_up_after) meanwhile stays away.
    pub fn resume(&self, a: IpAddr, b: IpAddr) {
        for (from, to) in [(a, b), (b, a)] {
            let openers = self.with(|state| {
                let route = state.route(from, to);
                route.stalled = false;
                std::mem::take(&mut route.openers)
            });
            self.each(from, to, |pipe| pipe.stall(false));
            self.each(to, from, |pipe| pipe.deafen(false));
            openers.into_iter().for_each(Waker::wake);
        }
    }

    /// [Stalls](Self::stall) all paths between the hosts of one side and those of the other.
    pub fn partition(&self, one: &[IpAddr], other: &[IpAddr]) {
        each_pair(one, other, |a, b| self.stall(a, b));
    }

    /// [Resumes](Self::resume) all paths between the hosts of one side and those of the other.
    pub fn heal(&self, one: &[IpAddr], other: &[IpAddr]) {
        each_pair(one, other, |a, b| self.resume(a, b));
    }

    /// A host stands still, as a process that is stopped: its ends of lanes neither send nor receive, and it
    /// neither opens nor accepts lanes. Its system goes on: what it has sent arrives, what others send to it is
    /// kept until their lanes are full, and lanes to it are opened.
    pub fn freeze(&self, host: IpAddr) {
        self.with(|state| {
            state.frozen.entry(host).or_default();
        });
        self.set_frozen(host, true);
    }

    /// A frozen host goes on.
    pub fn thaw(&self, host: IpAddr) {
        let openers = self.with(|state| state.frozen.remove(&host));
        self.set_frozen(host, false);
        openers.into_iter().flatten().for_each(Waker::wake);
        let queues = self.with(|state| {
            let of_host = state.listeners.iter().filter(|(on, _)| on.ip() == host);
            of_host.map(|(_, queue)| Arc::clone(queue)).collect()
        });
        let queues: Vec<Arc<_>> = queues;
        queues.iter().for_each(|queue| queue.wake_acceptor());
    }

    /// The process of a host dies, as by a signal, and its system lives on: what it has sent arrives, and then the
    /// end of the stream. Whoever sends to it gets [`LaneError::Reset`](pccl_core::transport::LaneError::Reset), and
    /// so do its own ends. It opens nothing, and lanes to it are refused, until it is [revived](Self::revive).
    pub fn kill(&self, host: IpAddr) {
        self.with(|state| state.dead.insert(host));
        for (from, to) in self.routes_of(host) {
            if from == host {
                self.each(from, to, Pipe::kill_writer);
            }
            if to == host {
                self.each(from, to, Pipe::kill_reader);
            }
        }
        let routes = self.routes_of(host).into_iter();
        let openers = self.with(|state| {
            let openers =
                routes.map(|(from, to)| std::mem::take(&mut state.route(from, to).openers));
            openers.collect::<Vec<_>>()
        });
        openers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Another process begins on a host whose process was [killed](Self::kill).
    pub fn revive(&self, host: IpAddr) {
        self.with(|state| state.dead.remove(&host));
    }

    fn routes_of(&self, host: IpAddr) -> Vec<(IpAddr, IpAddr)> {
        let is_of = |(from, to): &&(IpAddr, IpAddr)| *from == host || *to == host;
        self.with(|state| state.routes.keys().filter(is_of).copied().collect())
    }

    fn set_frozen(&self, host: IpAddr, is_frozen: bool) {
        for (from, to) in self.routes_of(host) {
            if from == host {
                self.each(from, to, |pipe| pipe.freeze_writer(is_frozen));
            }
            if to == host {
                self.each(from, to, |pipe| pipe.freeze_reader(is_frozen));
            }
        }
    }

    /// Does this to each pipe from one host to the other, in the order in which they were opened. It is done
    /// beyond the lock, because wakers run.
    fn each(&self, from: IpAddr, to: IpAddr, act: impl Fn(&Pipe)) {
        let pipes: Vec<Arc<Pipe>> = self.with(|state| state.route(from, to).pipes().collect());
        pipes.iter().for_each(|pipe| act(pipe));
    }
}

fn each_pair(one: &[IpAddr], other: &[IpAddr], act: impl Fn(IpAddr, IpAddr)) {
    for a in one {
        for b in other {
            act(*a, *b);
        }
    }
}
