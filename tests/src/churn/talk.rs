//! What the driver of a churn and its processes tell each other: one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::over::MasterAt;
use crate::talk::Nanos;

/// From a process to the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A master listens.
    Listening {
        /// Where it is.
        at: MasterAt,
        /// When it began to.
        since: Nanos,
    },
    /// A peer is part of the run, for the first time or again.
    Joined {
        /// Who it is.
        peer: u64,
    },
    /// The master has decided one attempt of a reduce.
    Verdict(Verdict),
    /// The shared state is synchronized.
    Synced(Synced),
    /// A step is done: all its reduces are committed.
    Step(Step),
    /// What a process holds while it rests.
    Resting(Holdings),
    /// A step failed, and is started again.
    Failed {
        /// The error's text.
        error: String,
    },
    /// The connection to the run is lost, and another one is tried.
    Lost {
        /// The error's text.
        error: String,
    },
    /// The library has broken a promise.
    Wrong {
        /// Which.
        what: String,
    },
    /// A call failed for good. The process ends.
    GaveUp {
        /// The error's text.
        error: String,
    },
}

/// A synchronization that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synced {
    /// The revision of the group.
    pub revision: u64,
    /// A hash of the content, bit for bit.
    pub state: String,
    /// Entries that were replaced.
    pub entries_received: usize,
    /// The revision that the peer had before.
    pub had: u64,
}

/// What the master has decided about one attempt of a reduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which attempt: one number for all peers, and never another attempt of the run.
    pub seq: u64,
    /// Of which reduce.
    pub tag: u64,
    /// Whether it is committed.
    pub is_commit: bool,
    /// The verdict, with the ring that has contributed or the cause.
    pub verdict: String,
    /// When the peer heard it.
    pub at: Nanos,
}

/// A step of a peer, from the update of the topology to its last reduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Who tells it.
    pub peer: u64,
    /// The revision of the shared state with which it began.
    pub revision: u64,
    /// The reduces, in the order of their tags.
    pub reduces: Vec<Done>,
    /// Reduces that were aborted since the step before.
    pub aborts: u64,
    /// Calls that were made again since the step before.
    pub retries: u64,
}

/// A reduce that was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Its tag.
    pub tag: u64,
    /// Whose contributions its result holds.
    pub contributors: Vec<u64>,
    /// The bits of all elements of the result, added.
    pub digest: u64,
}

/// What a process holds of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// File descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// What it has allocated and not freed. What C libraries allocate is not counted.
    pub heap_bytes: u64,
    /// Memory that is resident and not of a file, in KiB.
    pub memory_kib: u64,
}

/// From the driver to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Leave the run before the next step, and connect again.
    Leave,
    /// Leave the run while reduces are in flight, and connect again.
    LeaveMidway,
    /// Rest before the next step, and tell what the process holds.
    Rest,
    /// Reset the connections to other peers, at once.
    CutLanes,
    /// Reset all connections, also the one to the master, at once.
    CutAll,
}
