//! The protocol of pccl as plain values: no sockets, clocks, threads or randomness inside.
//!
//! A run has one [`Master`](master::Master), which keeps the membership and decides, and any number of
//! [`Peer`](peer::Peer)s, which move the data among themselves. Both are state machines: `handle` takes a fact, and
//! appends orders to a list. A state is a value that can be cloned, hashed and compared. The model checker explores
//! the same types that run in production.
//!
//! | module | what it is for |
//! |---|---|
//! | [`id`] | newtypes for everything that has a number |
//! | [`element`] | element types, reduction operations, the specification of a collective |
//! | [`messages`] | the messages between master and peers |
//! | [`states`] | the states of a connection and of a collective, and the table of legal transitions |
//! | [`master`] | the deciding machine |
//! | [`peer`] | the machine beside each training process |
//! | [`plan`] | data movement of a collective: the exact list for one rank and one operation |
//! | [`tour`] | choosing the order of a ring |
//! | [`wire`] | the wire format: preambles, control frames, data-frame headers |
//! | [`transport`] | the transport traits, and reading and writing whole pieces over lanes |
//! | [`ticket`] | minting the secrets that permit a lane |
//! | [`site`] | sites: which peers are near each other |
//! | [`name`] | the names that users give their peers |
//! | [`awaited`] | the peers for which a peer waits |
//! | [`origin`] | counting connections by remote address |
//! | [`rhythm`] | how regularly somebody is heard, and how long a silence may last |
//! | [`seldom`] | rate limiting of log lines that remote peers can cause |
//! | [`timers`] | a queue of deadlines for drivers |
//! | `mutants` | deliberate mistakes that the model checker must find; only with the feature of that name |
//! | [`log`] | recording and replaying the inputs and outputs of a machine |
//! | [`journal`] | what of a master outlives its process |
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
pub mod journal;
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
mod reserved;
pub mod rhythm;
pub mod seldom;
pub mod session;
pub mod shared_state;
pub mod site;
pub mod states;
pub mod ticket;
pub mod timers;
pub mod topology;
pub mod tour;
pub mod transport;
pub mod wire;
