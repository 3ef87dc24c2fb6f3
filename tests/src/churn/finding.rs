//! What must not be: everything that a churn can find.

use serde::Serialize;

use super::plan::Number;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
pub enum Finding {
    /// A result does not hold the contributions that it names.
    #[error(
        "peer {number}, revision {revision}, tag {tag}: the result has the digest {digest}, and {contributors:?} give \
         {expected}"
    )]
    WrongResult {
        /// The process.
        number: Number,
        /// The step.
        revision: u64,
        /// The reduce.
        tag: u64,
        /// Whom the result names.
        contributors: Vec<u64>,
        /// What it has.
        digest: u64,
        /// What it must have.
        expected: u64,
    },
    /// A peer is not among the contributors of its own result.
    #[error(
        "peer {number}, revision {revision}, tag {tag}: its result is of {contributors:?}, without itself"
    )]
    NotAContributor {
        /// The process.
        number: Number,
        /// The step.
        revision: u64,
        /// The reduce.
        tag: u64,
        /// Whom the result names.
        contributors: Vec<u64>,
    },
    /// A step has other reduces than it must have.
    #[error("peer {number}, revision {revision}: the step has {got} reduces, not {expected}")]
    OtherWork {
        /// The process.
        number: Number,
        /// The step.
        revision: u64,
        /// Number of reduces.
        got: usize,
        /// What it must be.
        expected: usize,
    },
    /// Two peers have different results of one reduce.
    #[error("peers {one} and {other}, revision {revision}, tag {tag}: different results")]
    ResultsDiffer {
        /// A process.
        one: Number,
        /// Another one.
        other: Number,
        /// The step.
        revision: u64,
        /// The reduce.
        tag: u64,
    },
    /// Two peers were told different verdicts on one attempt.
    #[error("peers {one} and {other}, attempt {seq} of tag {tag}: {first}, and {second}")]
    VerdictsDiffer {
        /// A process.
        one: Number,
        /// Another one.
        other: Number,
        /// The attempt.
        seq: u64,
        /// The reduce.
        tag: u64,
        /// What the one was told.
        first: String,
        /// What the other was told.
        second: String,
    },
    /// The group went back to an older revision than a peer of it had.
    #[error("peer {number} had revision {had}, and the group has gone back to {revision}")]
    StepLost {
        /// The process.
        number: Number,
        /// The revision of the group.
        revision: u64,
        /// What the peer had.
        had: u64,
    },
    /// Two peers have different states of one revision.
    #[error("peers {one} and {other}: different states of revision {revision}")]
    StatesDiffer {
        /// A process.
        one: Number,
        /// Another one.
        other: Number,
        /// The revision.
        revision: u64,
    },
    /// A peer had the revision of the group, and other content.
    #[error("peer {number} had revision {revision}, and {entries} entries of it were replaced")]
    Diverged {
        /// The process.
        number: Number,
        /// The revision.
        revision: u64,
        /// Entries that were replaced.
        entries: usize,
    },
    /// A peer has found that the library breaks a promise.
    #[error("peer {number}: {what}")]
    BrokenPromise {
        /// The process.
        number: Number,
        /// Which.
        what: String,
    },
    /// A call failed for good.
    #[error("peer {number} gave up: {error}")]
    GaveUp {
        /// The process.
        number: Number,
        /// The error's text.
        error: String,
    },
    /// A call failed, or a connection was lost, though nothing was done to any peer.
    #[error("peer {number}, to which nothing was done: {error}")]
    CallFailed {
        /// The process.
        number: Number,
        /// The error's text.
        error: String,
    },
    /// A peer has lost the master, though another one went on from its journal.
    #[error("peer {number} lost a master that came back")]
    MasterLost {
        /// The process.
        number: Number,
    },
    /// Peers waited too long for a commit of the next master.
    #[error(
        "99 of 100 stalls after a kill of the master were {p99_ms:.0} ms or less beyond its restart, which is too long"
    )]
    SlowReturn {
        /// In milliseconds.
        p99_ms: f64,
    },
    /// A process has ended that nobody killed.
    #[error("{who} has ended")]
    Ended {
        /// Which.
        who: String,
    },
    /// Nobody has done a step for too long.
    #[error("no step for {seconds} s")]
    Hang {
        /// How long.
        seconds: u64,
    },
    /// The run did not come to a world of all peers for too long.
    #[error("no step of all {peers} peers for {seconds} s, though nobody was disturbed")]
    NeverWhole {
        /// How many peers there are.
        peers: usize,
        /// How long.
        seconds: u64,
    },
    /// A process holds more and more.
    #[error("{who}: {what} grew from {first} to {last}")]
    Growth {
        /// Which process.
        who: String,
        /// Of what.
        what: String,
        /// The median after the warm-up.
        first: u64,
        /// The median at the end.
        last: u64,
    },
}
