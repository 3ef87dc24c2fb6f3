//! A relay between one peer and its master that reads along, and holds or cuts the connection at an exact
//! message.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, ControlReader, PREAMBLE_BYTES, REPLY_HEAD_BYTES, encode_control,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What master and peer tell each other, in the order in which a newcomer first comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The hello was accepted.
    Welcome,
    /// Lanes are to be opened.
    Orders,
    /// The first of several ordered links is up, or is not.
    FirstReport,
    /// The last of the ordered links is up, or is not.
    LastReport,
    /// The ring stands: who was a newcomer is in.
    Ring,
    /// A vote to update the topology.
    UpdateVote,
    /// A vote to synchronize.
    SyncVote,
    /// Shared state is to be sent or fetched.
    SyncPlan,
    /// The peer's part of that is over.
    SyncReport,
    /// The synchronization is over.
    SyncEnd,
    /// A vote to start a reduce.
    ReduceVote,
    /// The reduce starts.
    Commence,
    /// The peer's part of the reduce is over.
    ReduceReport,
    /// The reduce is committed or aborted.
    Verdict,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 14] = [
        Self::Welcome,
        Self::Orders,
        Self::FirstReport,
        Self::LastReport,
        Self::Ring,
        Self::UpdateVote,
        Self::SyncVote,
        Self::SyncPlan,
        Self::SyncReport,
        Self::SyncEnd,
        Self::ReduceVote,
        Self::Commence,
        Self::ReduceReport,
        Self::Verdict,
    ];
}

/// On which side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It was sent, and is not delivered.
    Before,
    /// It was delivered, and nothing after it.
    After,
}

/// A point in the conversation of master and peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// At which message.
    pub step: Step,
    /// Before or after it.
    pub side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    /// Nothing passes, in either direction.
    Held,
    /// Both connections are closed.
    Cut,
}

#[derive(Debug)]
struct State {
    passage: Passage,
    hold_at: Option<Point>,
    /// Of the last orders: links that were not reported yet, and whether any was.
    unreported: usize,
    reported: bool,
    /// Of both connections.
    streams: Vec<TcpStream>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The relay of one peer. Dropping it cuts the connection.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Waits for one connection, and passes on what is said on it.
    ///
    /// # Errors
    /// What the system says.
    pub fn before(master: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                passage: Passage::Open,
                hold_at: None,
                unreported: 0,
                reported: false,
                streams: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let relaying = Arc::clone(&shared);
        thread::spawn(move || {
            if relaying.serve(&listener, master).is_err() {
                relaying.cut();
            }
        });
        Ok(Self { address, shared })
    }

    /// Where the peer finds its master.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing pass any more, in either direction, from the next time that this comes to pass.
    pub fn hold_at(&self, point: Point) {
        self.shared.lock().hold_at = Some(point);
    }

    /// Waits until the connection is held; false after this time.
    #[must_use]
    pub fn is_held_within(&self, limit: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, limit, |s| s.passage != Passage::Held);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.passage == Passage::Held
    }

    /// Lets everything pass again, and from here on.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        state.hold_at = None;
        if state.passage == Passage::Held {
            state.passage = Passage::Open;
            self.shared.changed.notify_all();
        }
    }

    /// Ends both connections. What was not delivered is lost.
    pub fn cut(&self) {
        self.shared.cut();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        let mut state = self.lock();
        state.passage = Passage::Cut;
        self.changed.notify_all();
        for stream in state.streams.drain(..) {
            // One that has ended already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(self: &Arc<Self>, listener: &TcpListener, master: SocketAddr) -> io::Result<()> {
        let (peer, _) = listener.accept()?;
        let master = TcpStream::connect(master)?;
        for stream in [&peer, &master] {
            stream.set_nodelay(true)?;
            self.lock().streams.push(stream.try_clone()?);
        }
        let (from_peer, to_master) = (peer.try_clone()?, master.try_clone()?);
        let upwards = Arc::clone(self);
        thread::spawn(move || {
            // However it ends, that is the end of both directions.
            let _ = upwards.pass_all(from_peer, to_master, PREAMBLE_BYTES, of_peer);
            upwards.cut();
        });
        let passed = self.pass_all(master, peer, REPLY_HEAD_BYTES, of_master);
        self.cut();
        passed
    }

    /// Passes on so many bytes, and then messages, until one of the connections ends.
    fn pass_all<M: Serialize + DeserializeOwned>(
        &self,
        mut from: TcpStream,
        mut to: TcpStream,
        head: usize,
        step: fn(&M, &mut State) -> Option<Step>,
    ) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let head = &mut bytes[..head];
        from.read_exact(head)?;
        to.write_all(head)?;
        let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
        loop {
            match from.read(&mut bytes)? {
                0 => return Ok(()),
                read => reader.feed(&bytes[..read]),
            }
            while let Some(message) = reader.next_message().map_err(io::Error::other)? {
                self.pass(&message, &mut to, step)?;
            }
        }
    }

    /// Passes one message on, or holds it.
    fn pass<M: Serialize>(
        &self,
        message: &M,
        to: &mut TcpStream,
        step: fn(&M, &mut State) -> Option<Step>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode_control(message, &mut bytes).map_err(io::Error::other)?;
        let mut state = self.when_open(self.lock())?;
        let step = step(message, &mut state);
        let is_at = |state: &mut State, side| {
            let here = step.map(|step| Point { step, side });
            state.hold_at.take_if(|at| Some(*at) == here).is_some()
        };
        if is_at(&mut state, Side::Before) {
            state = self.when_open(self.hold(state))?;
        }
        to.write_all(&bytes)?;
        if is_at(&mut state, Side::After) {
            drop(self.hold(state));
        }
        Ok(())
    }

    fn hold<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.passage = Passage::Held;
        self.changed.notify_all();
        state
    }

    fn when_open<'a>(&self, state: MutexGuard<'a, State>) -> io::Result<MutexGuard<'a, State>> {
        let open = self
            .changed
            .wait_while(state, |state| state.passage == Passage::Held)
            .unwrap_or_else(PoisonError::into_inner);
        match open.passage {
            Passage::Open | Passage::Held => Ok(open),
            Passage::Cut => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

fn of_master(message: &ToPeer, state: &mut State) -> Option<Step> {
    match message {
        ToPeer::Welcome { .. } => Some(Step::Welcome),
        ToPeer::EstablishLinks { links, .. } => {
            state.unreported = links.len();
            state.reported = false;
            Some(Step::Orders)
        }
        ToPeer::TopologyEstablished { .. } => Some(Step::Ring),
        ToPeer::SharedStatePlan(_) => Some(Step::SyncPlan),
        ToPeer::SharedStateConcluded { .. } => Some(Step::SyncEnd),
        ToPeer::Commence { .. } => Some(Step::Commence),
        ToPeer::Verdict { .. } => Some(Step::Verdict),
        ToPeer::Refused(_)
        | ToPeer::CallFailed(_)
        | ToPeer::PeersPending { .. }
        | ToPeer::Probe { .. }
        | ToPeer::OptimizationConcluded { .. }
        | ToPeer::CollectiveRefused { .. }
        | ToPeer::Kicked(_)
        | ToPeer::Heartbeat
        | ToPeer::Stopping
        | ToPeer::Awaited(_) => None,
    }
}

fn of_peer(message: &ToMaster, state: &mut State) -> Option<Step> {
    match message {
        ToMaster::LinkUp { .. } | ToMaster::LinkFailed { .. } => {
            state.unreported = state.unreported.saturating_sub(1);
            let first = !std::mem::replace(&mut state.reported, true);
            match state.unreported {
                0 => Some(Step::LastReport),
                _ => first.then_some(Step::FirstReport),
            }
        }
        ToMaster::UpdateTopology { .. } => Some(Step::UpdateVote),
        ToMaster::SyncSharedState(_) => Some(Step::SyncVote),
        ToMaster::SharedStateDone { .. } => Some(Step::SyncReport),
        ToMaster::InitiateCollective { .. } => Some(Step::ReduceVote),
        ToMaster::CompleteCollective { .. } => Some(Step::ReduceReport),
        ToMaster::Hello(_)
        | ToMaster::ArePeersPending
        | ToMaster::OptimizeTopology
        | ToMaster::Measured { .. }
        | ToMaster::ProbesDone { .. }
        | ToMaster::Withdraw { .. }
        | ToMaster::Heartbeat { .. }
        | ToMaster::Leave
        | ToMaster::WhoIsAwaited => None,
    }
}
