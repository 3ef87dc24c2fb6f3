//! The policy of the master, tried in situations: a simulation under virtual time.
//!
//! One real [`Master`](pccl_core::master::Master) and the real [`Peer`](pccl_core::peer::Peer)s; around
//! them a clock that jumps from event to event, control connections that keep their order, machines that
//! can or cannot reach each other, and users that run small programs. Hours of a run with a hundred peers
//! take seconds, and the same seed gives the same run.
//!
//! ```text
//!   situations ─▶ World ─▶ agenda: what comes next, by its instant
//!                   │ one event at a time
//!                   ▼
//!       master's machine ◀─ control connections ─▶ peers' machines     (machines.rs speaks to both)
//!                                                    ▲       │ orders
//!                                            answers │       ▼
//!                                              users' programs   links, reduces, transfers
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `time`, `agenda` | virtual time, and what comes next |
//! | `network` | who can connect to whom, and how long things take |
//! | `machines` | the real machines, in the simulator's words: the one folder that names messages and timers |
//! | `program`, `users` | what users run, and how their calls are answered |
//! | `seat`, `plane` | a process, and its links |
//! | `world`, `control` | the simulation: events and timers; control connections |
//! | `wiring`, `reduces`, `transfers` | what the client's data plane would do |
//! | `faults` | what breaks |
//! | `log`, `trial`, `table` | what was seen, what was expected, and how it is printed |
//! | `situations` | what is tried |
//!
//! What it leaves out: bytes and their order within a reduce; lanes one by one; a master or a peer that
//! stands still or runs out of something. A link that carries nothing is reported by its two ends after
//! the stall time, or, where a situation says so, every rank reports the link that it receives on: in a
//! ring that stands still all wait for their neighbours.
//!
//! **Invariant:** nothing here reads a clock, a random source that is not seeded, or a hash map.

pub mod agenda;
mod control;
pub mod faults;
pub mod log;
pub mod machines;
pub mod network;
pub mod plane;
pub mod program;
mod reduces;
pub mod seat;
pub mod situations;
pub mod table;
pub mod time;
mod transfers;
pub mod trial;
mod users;
mod wiring;
pub mod world;

#[cfg(test)]
mod tests;
