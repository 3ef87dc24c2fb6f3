//! Lanes in memory: deterministic, without sockets, with faults on demand. For tests.
//!
//! Every [`MemoryHost`] of one [`MemoryNet`] is a transport with an address of its own. Nothing here
//! has a thread, a task or a clock, except that opening over a stalled path gives up after
//! [`MemoryHost::open_timeout`] by tokio's clock; all else works without a runtime.
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

#![forbid(unsafe_code)]

mod faults;
mod host;
mod listener;
mod net;
mod pipe;
#[cfg(test)]
mod tests;
pub mod throttle;

pub use host::MemoryHost;
pub use net::MemoryNet;
