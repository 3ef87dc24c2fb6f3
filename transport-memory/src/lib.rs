//! Lanes in memory: deterministic, without sockets, with faults on demand. For tests.
//!
//! | module | what it is for |
//! |---|---|
//! | `net`, `host`, `listener` | [`MemoryNet`]: hosts with addresses, each of them a transport ([`MemoryHost`]) |
//! | `path` | [`Path`]: how long bytes take, how many pass, which of them are lost or arrive wrong |
//! | `faults` | what can go wrong between hosts, as methods of [`MemoryNet`] |
//! | `pipe` | one direction of a lane; [`pair`]: a lane without a network |
//! | `intercept` | [`Intercepted`]: any transport whose lanes are observed, held back or changed |
//! | `meter` | [`Meter`]: counts what lanes carry |
//! | [`throttle`] | a link of limited rate above any transport |
//!
//! A test makes a [`MemoryNet`] and a host for each peer, hands the hosts out as transports, and lets things
//! go wrong between them:
//!
//! ```
//! # use pccl_transport_memory::MemoryNet;
//! # use pccl_core::transport::{Endpoint, LaneError, Security, Transport};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let net = MemoryNet::new();
//! let (alpha, beta) = (net.transport(), net.transport());
//! let listener = beta.listen(beta.any_port(), Security::Plain).await?;
//! let lane = alpha.open(&Endpoint::Address(listener.local_addr()), None).await?;
//!
//! net.cut(alpha.ip(), beta.ip()); // `lane` answers `LaneError::Reset`
//! net.refuse(alpha.ip(), beta.ip());
//! let again = alpha.open(&Endpoint::Address(listener.local_addr()), None).await;
//! assert_eq!(again.unwrap_err(), LaneError::Refused);
//! # drop(lane);
//! # Ok::<(), LaneError>(())
//! # }).unwrap();
//! ```
//!
//! # Faults
//!
//! | what | by |
//! |---|---|
//! | a delay, a bandwidth, a full lane | [`Path::delay`], [`Path::bytes_per_second`], [`Path::window`] |
//! | a partition, in both directions or one | [`MemoryNet::partition`], [`stall`](MemoryNet::stall), [`stall_one_way`](MemoryNet::stall_one_way) |
//! | a cut in one direction, whose bytes never come | [`MemoryNet::lose`], [`Path::carries`] |
//! | a reset | [`MemoryNet::cut`] |
//! | a half-open lane: one end is gone, and the other one is not told | [`MemoryNet::half_open`] |
//! | a process that stands still | [`MemoryNet::freeze`] |
//! | a process that dies | [`MemoryNet::kill`] |
//! | nobody who listens | [`MemoryNet::refuse`] |
//! | a flipped bit | [`Path::flips`] |
//! | anything else | [`Interceptor`] |
//!
//! # Time and chance
//!
//! Nothing here has a thread or a task. A network whose paths take no time works without a runtime. Where
//! something takes time it is tokio's: under its paused clock, a run of minutes takes none. The same calls in
//! the same order on one thread give the same result: ports are given out in order, lanes are disturbed in
//! the order in which they were opened, and what is drawn by lot comes from a seed that is handed in.

#![forbid(unsafe_code)]

mod faults;
mod host;
mod intercept;
mod listener;
mod meter;
mod net;
mod path;
mod pipe;
#[cfg(test)]
mod tests;
pub mod throttle;

pub use host::MemoryHost;
pub use intercept::{Intercepted, Interceptor, claim_local, on_recv, on_send};
pub use meter::Meter;
pub use net::MemoryNet;
pub use path::{Flips, Path};
pub use pipe::pair;
