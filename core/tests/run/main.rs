//! The whole protocol without I/O: one real master and real peers, joined by ordered links and a
//! simulated data plane.

mod harness;
mod reference;
#[path = "../support/replayable.rs"]
mod replayable;
mod watch;

mod ahead;
mod aside;
mod blame;
mod collectives;
mod deadlines;
mod deaths;
mod fairness;
mod joining;
mod journal;
mod refinement;
mod revisions;
mod rings;
mod shared_state;
mod stubborn;
mod transfers;
mod walk;
