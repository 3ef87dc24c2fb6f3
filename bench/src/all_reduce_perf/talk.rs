//! What the parent and its children tell each other.

use std::net::SocketAddr;
use std::time::Duration;
use std::{io, process, thread};

use pccl::{Algorithm, Phases};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::floor::Way;
use super::optimized::Told;

/// From the parent to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A rank: join the run with this, its join string or the address of its master. Answered by `Admitted` and,
    /// when all ranks are, by `Connected`.
    Join { join: String },
    /// A rank: connect to all ranks for the floor. Answered by `Joined`.
    JoinFloor { ranks: Vec<SocketAddr> },
    /// A rank: make buffers. Answered by `Prepared`.
    Prepare(Buffers),
    /// A rank: measure. Answered by `Ready` before and after each batch, and by `Measured` at the end.
    Measure(Series),
    /// A rank: optimize the topology. Answered by `Optimized`.
    Optimize,
    /// A rank that is ready: all others are, too.
    Go,
    /// The master: how much CPU time so far? Answered by `CpuTime`.
    TellCpuTime,
    /// End.
    Quit,
}

/// The memory of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Buffers {
    /// Elements of one reduce.
    pub(crate) count: usize,
    /// Iterations that run back to back, each with buffers of its own.
    pub(crate) batch: usize,
}

/// Some iterations of one row.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) of: Contestant,
    /// The number of the first one: each iteration of a row has other contributions.
    pub(crate) first: u64,
    pub(crate) iterations: u32,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contestant {
    /// With this algorithm, if it can carry the buffer. `None`: as the command line says.
    Ours(Option<Algorithm>),
    Floor(Way),
}

/// From a child to the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The master accepts peers here, who join with this.
    Serving { address: SocketAddr, join: String },
    /// A rank accepts the connections of the other ranks for the floor here.
    Listening { address: SocketAddr },
    /// A rank is part of the run.
    Admitted,
    /// A rank is part of the run, with all others. Do its lanes stay on this machine, and is it proved who is
    /// at their other ends?
    Connected {
        lanes_are_local: bool,
        lanes_are_proven: bool,
    },
    /// A rank is connected to all others for the floor.
    Joined,
    /// The buffers are there.
    Prepared,
    /// It waits for the other ranks, before or after a batch.
    Ready,
    /// A series is over.
    Measured(Measured),
    /// What the topology was optimized to.
    Optimized(Box<Told>),
    /// What the process has used so far.
    CpuTime { ns: u64 },
    /// It cannot go on.
    Failed { error: String },
}

/// Where the time of an iteration went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhasesNs {
    pub(crate) start: u64,
    pub(crate) transfer: u64,
    pub(crate) commit: u64,
}

impl From<Phases> for PhasesNs {
    fn from(phases: Phases) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            start: ns(phases.start),
            transfer: ns(phases.transfer),
            commit: ns(phases.commit),
        }
    }
}

/// What one rank has measured in a series.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// By iteration.
    pub(crate) times_ns: Vec<u64>,
    /// By iteration of ours, what its report says of the time; of concurrent reduces, the first.
    pub(crate) phases: Vec<PhasesNs>,
    /// CPU time of the process in all of them.
    pub(crate) cpu_ns: u64,
    /// Elements that were not as expected.
    pub(crate) wrong: u64,
    /// By iteration of ours, of the result's bits: ranks must not differ.
    pub(crate) checksums: Vec<u32>,
    /// Lanes to the next rank that carried anything of it.
    pub(crate) lanes_used: usize,
    /// How the data travelled in the last iteration of ours.
    pub(crate) algorithm: Option<Algorithm>,
}

/// The parent's next order. Where there is none any more, or none that makes sense, the end.
pub(crate) fn next_order() -> Order {
    pccl_subprocess::next_order().unwrap_or(Order::Quit)
}

/// Ends this process when its parent does, whatever it is doing then.
pub(crate) fn end_with_parent() {
    thread::spawn(|| {
        let stdin = io::stdin();
        // No event is asked for: what remains is that the other end was closed.
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        while poll(&mut fds, None).is_err() {}
        process::exit(1);
    });
}
