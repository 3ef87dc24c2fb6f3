//! The protocol of pccl as plain values: no sockets, clocks, threads or randomness inside.
//!
//! A run has one [`Master`](master::Master), which keeps membership and decides, and any number of
//! [`Peer`](peer::Peer)s, which move the data among themselves. Both are state machines: facts go in
//! through `handle`, orders come out as a list, and a state is a value that can be cloned, hashed and
//! compared. The same types run in production and are explored by the model checker.
//!
//! | module | what it is for |
//! |---|---|
//! | [`id`] | newtypes for everything that has a number |
//! | [`element`] | element types, reduction operations, what a collective computes |
//! | [`messages`] | everything that master and peers tell each other |
//! | [`states`] | the states of a connection and of a collective, and the table of legal transitions |
//! | [`master`] | the deciding machine |
//! | [`peer`] | the machine beside each training process |
//! | [`plan`] | who moves what in a collective: the exact list for one rank and one operation |
//! | [`tour`] | choosing the order of a ring |
//! | [`wire`] | bytes: preambles, control frames, data-frame headers |
//! | [`transport`] | the port that lanes come through, and reading and writing them |
//! | [`ticket`] | minting the secrets that permit a lane |
//! | [`site`] | where peers are: which of them are near each other |
//! | [`name`] | what users call their peers |
//! | [`awaited`] | whom a peer waits for |
//! | [`origin`] | what counts as one address where visitors are counted |
//! | [`seldom`] | lines of a log that anybody can cause, one now and then |
//! | [`timers`] | a queue of deadlines for whoever drives a machine |
//! | `mutants` | mistakes to check the model checker with; only with the feature of that name |
//! | [`log`] | what a machine heard and said, written down and replayed |
#![no_std]
#![forbid(unsafe_code)]
// Every (state, message) pair is decided, and nothing read from a socket can panic.
// `wildcard_enum_match_arm` ignores a wildcard that stands for a single variant, which
// `match_wildcard_for_single_variants` reports. Tests fail by panicking, so they are exempt.
#![cfg_attr(
    not(test),
    warn(
        clippy::wildcard_enum_match_arm,
        clippy::match_wildcard_for_single_variants,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod rule;

pub mod awaited;
#[cfg(test)]
mod cases;
pub mod crowd;
pub mod element;
pub mod id;
pub mod lengths;
pub mod log;
pub mod master;
pub mod messages;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod name;
pub mod origin;
pub mod paths;
pub mod peer;
pub mod plan;
pub mod seldom;
pub mod shared_state;
pub mod site;
pub mod states;
pub mod ticket;
pub mod timers;
pub mod topology;
pub mod tour;
pub mod transport;
pub mod wire;
