//! The network: hosts, listeners, and the routes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Incoming, Lane, LaneError, Proven};

use crate::MemoryHost;
use crate::faults::Route;
use crate::listener::{MemoryListener, Queue};
use crate::path::Path;
use crate::pipe::{Pipe, lanes};

/// The first port that is given out where nobody asks for a number.
const FIRST_FREE_PORT: u16 = 49152;

/// A network of [`MemoryHost`]s. Clones are the same network.
#[derive(Clone)]
pub struct MemoryNet {
    state: Arc<Mutex<State>>,
}

pub(crate) struct State {
    /// Of routes of which nothing else was said.
    path: Path,
    hosts: u16,
    names: BTreeMap<String, IpAddr>,
    pub(crate) listeners: BTreeMap<SocketAddr, Arc<Queue>>,
    next_port: BTreeMap<IpAddr, u16>,
    /// What is particular about the way from one host to another.
    pub(crate) routes: BTreeMap<(IpAddr, IpAddr), Route>,
    /// Hosts that stand still, and who waits for them to go on.
    pub(crate) frozen: BTreeMap<IpAddr, Vec<Waker>>,
    /// Hosts whose process is dead.
    pub(crate) dead: BTreeSet<IpAddr>,
    /// Directions of lanes so far.
    pipes: u64,
}

/// What a lane's opener proves, and to whom.
#[derive(Clone, Copy)]
pub(crate) struct Proofs {
    pub(crate) own: Identity,
    /// Who has to answer.
    pub(crate) expect: Identity,
}

impl Default for MemoryNet {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryNet {
    /// A network whose paths are [`Path::DIRECT`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_path(Path::DIRECT)
    }

    /// A network whose lanes hold at most `bytes` in each direction, at least one: a sender that is
    /// further ahead waits.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let window = bytes;
        Self::with_path(Path {
            window,
            ..Path::DIRECT
        })
    }

    /// A network whose paths are like this, unless [`set_path`](Self::set_path) says otherwise of one.
    #[must_use]
    pub fn with_path(path: Path) -> Self {
        let state = State {
            path,
            hosts: 0,
            names: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_port: BTreeMap::new(),
            routes: BTreeMap::new(),
            frozen: BTreeMap::new(),
            dead: BTreeSet::new(),
            pipes: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The host with this address. Two calls give the same host twice.
    #[must_use]
    pub fn host(&self, ip: IpAddr) -> MemoryHost {
        MemoryHost::new(self.clone(), ip)
    }

    /// A host with the next address of 10.77.0.0/16, from 10.77.0.1 on.
    #[must_use]
    pub fn transport(&self) -> MemoryHost {
        let number = self.with(|state| {
            state.hosts = state.hosts.wrapping_add(1);
            state.hosts
        });
        let [high, low] = number.to_be_bytes();
        self.host(Ipv4Addr::new(10, 77, high, low).into())
    }

    /// Makes `name` known to all hosts, for [`Endpoint::Name`].
    pub fn name(&self, name: &str, ip: IpAddr) {
        self.with(|state| state.names.insert(name.to_owned(), ip));
    }

    /// Directions of lanes of which somebody holds an end, and listeners. Both are zero when all is over.
    #[must_use]
    pub fn holdings(&self) -> (usize, usize) {
        self.with(|state| {
            let pipes = state.routes.values().map(Route::holds).sum();
            (pipes, state.listeners.len())
        })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn resolve(&self, to: &Endpoint) -> Result<SocketAddr, LaneError> {
        match to {
            Endpoint::Address(address) => Ok(*address),
            Endpoint::Name(name) => self
                .with(|state| state.look_up(name))
                .ok_or(LaneError::NameNotResolved),
        }
    }

    pub(crate) fn listen(
        &self,
        ip: IpAddr,
        on: SocketAddr,
        proves: Option<Identity>,
    ) -> Result<MemoryListener, LaneError> {
        if on.ip() != ip && !on.ip().is_unspecified() {
            return Err(LaneError::AddressNotAvailable);
        }
        let queue = Arc::new(Queue::proving(proves));
        let port = self.with(|state| state.take_port(ip, on.port(), &queue))?;
        Ok(MemoryListener {
            net: self.clone(),
            local: SocketAddr::new(on.ip(), port),
            key: SocketAddr::new(ip, port),
            queue,
        })
    }

    pub(crate) fn unlisten(&self, key: SocketAddr) {
        self.with(|state| state.listeners.remove(&key));
    }

    /// How long a byte takes from one host to the other.
    pub(crate) fn delay(&self, from: IpAddr, to: IpAddr) -> Duration {
        self.with(|state| state.path(from, to).delay)
    }

    /// Opens a lane; pending while the path is stalled in either direction, and while the opener is frozen.
    pub(crate) fn poll_open(
        &self,
        from: IpAddr,
        to: SocketAddr,
        proofs: Option<Proofs>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Lane, LaneError>> {
        let (lane, queue) = ready!(self.with(|state| state.poll_connect(from, to, proofs, cx)))?;
        queue.wake_acceptor();
        Poll::Ready(Ok(lane))
    }
}

impl State {
    pub(crate) fn route(&mut self, from: IpAddr, to: IpAddr) -> &mut Route {
        self.routes.entry((from, to)).or_default()
    }

    fn look_up(&self, name: &str) -> Option<SocketAddr> {
        if let Ok(address) = name.parse() {
            return Some(address);
        }
        let (host, port) = name.rsplit_once(':')?;
        Some(SocketAddr::new(*self.names.get(host)?, port.parse().ok()?))
    }

    /// Registers a listener on `port`, or on a free one where it is zero.
    fn take_port(&mut self, ip: IpAddr, port: u16, queue: &Arc<Queue>) -> Result<u16, LaneError> {
        let port = match port {
            0 => self.free_port(ip).ok_or(LaneError::AddressInUse)?,
            asked_for => asked_for,
        };
        let key = SocketAddr::new(ip, port);
        if self.listeners.contains_key(&key) {
            return Err(LaneError::AddressInUse);
        }
        self.listeners.insert(key, Arc::clone(queue));
        Ok(port)
    }

    /// The ports of a host are given out in order, round and round, so that a run is the same each time.
    fn free_port(&mut self, ip: IpAddr) -> Option<u16> {
        let mut port = self.next_port.get(&ip).copied().unwrap_or(FIRST_FREE_PORT);
        for _ in FIRST_FREE_PORT..=u16::MAX {
            let candidate = port;
            port = port.checked_add(1).unwrap_or(FIRST_FREE_PORT);
            if !self.listeners.contains_key(&SocketAddr::new(ip, candidate)) {
                self.next_port.insert(ip, port);
                return Some(candidate);
            }
        }
        None
    }

    pub(crate) fn path(&mut self, from: IpAddr, to: IpAddr) -> Path {
        let usual = self.path;
        self.route(from, to).path.unwrap_or(usual)
    }

    pub(crate) fn is_frozen(&self, host: IpAddr) -> bool {
        self.frozen.contains_key(&host)
    }

    fn poll_connect(
        &mut self,
        from: IpAddr,
        to: SocketAddr,
        proofs: Option<Proofs>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Lane, Arc<Queue>), LaneError>> {
        if let Some(openers) = self.frozen.get_mut(&from) {
            return wait_among(openers, cx);
        }
        let is_dead = [from, to.ip()].iter().any(|host| self.dead.contains(host));
        if is_dead || self.route(from, to.ip()).refuses() {
            return Poll::Ready(Err(LaneError::Refused));
        }
        ready!(self.route(from, to.ip()).poll_usable(cx));
        ready!(self.route(to.ip(), from).poll_usable(cx));
        Poll::Ready(self.connect(from, to, proofs))
    }

    /// The opener's lane, and the queue whose acceptor is to be woken.
    fn connect(
        &mut self,
        from: IpAddr,
        to: SocketAddr,
        proofs: Option<Proofs>,
    ) -> Result<(Lane, Arc<Queue>), LaneError> {
        let queue = self.listeners.get(&to).ok_or(LaneError::Refused)?.clone();
        let (opener_knows, acceptor_knows) = match proofs {
            None => (None, None),
            Some(proofs) => {
                let answers = queue.proves.ok_or(LaneError::NotEncrypted)?;
                let (here, there) = proofs.of_lane(answers, self.pipes)?;
                (Some(here), Some(there))
            }
        };
        let source = self.free_port(from).ok_or(LaneError::AddressInUse)?;
        let forth = self.pipe(from, to.ip());
        let back = self.pipe(to.ip(), from);
        let (opened, accepted) = lanes(&forth, &back);
        queue.push(Incoming {
            lane: accepted.with_proof(acceptor_knows),
            from: SocketAddr::new(from, source),
        })?;
        self.route(from, to.ip()).carry(&forth);
        self.route(to.ip(), from).carry(&back);
        Ok((opened.with_proof(opener_knows), queue))
    }

    /// One direction of the next lane.
    fn pipe(&mut self, from: IpAddr, to: IpAddr) -> Arc<Pipe> {
        let (path, number) = (self.path(from, to), self.pipes);
        self.pipes += 1;
        let pipe = Pipe::new(path, self.route(from, to).wire(), number);
        pipe.freeze_writer(self.is_frozen(from));
        pipe.freeze_reader(self.is_frozen(to));
        pipe
    }
}

impl Proofs {
    /// What the opener and the acceptor of a lane know of each other, where `answers` is who answers.
    fn of_lane(self, answers: Identity, number: u64) -> Result<(Proven, Proven), LaneError> {
        if answers != self.expect {
            return Err(LaneError::Untrusted);
        }
        let mut binding = [0; 32];
        binding[..8].copy_from_slice(&number.to_le_bytes());
        let known = |own, identity| Proven {
            own,
            identity,
            binding,
        };
        Ok((known(self.own, answers), known(answers, self.own)))
    }
}

/// Waits among others to be woken.
pub(crate) fn wait_among<T>(waiting: &mut Vec<Waker>, cx: &mut Context<'_>) -> Poll<T> {
    if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
        waiting.push(cx.waker().clone());
    }
    Poll::Pending
}
