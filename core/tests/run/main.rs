//! The whole protocol without I/O: one real master and real peers, joined by ordered links and a
//! simulated data plane.

mod harness;
mod watch;

mod deaths;
mod joining;
mod walk;
