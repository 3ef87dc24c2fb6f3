//! Collective communication between machines that come and go.
//!
//! A run has one master (`pccl-master`) and any number of peers. A peer joins with [`Communicator::builder`]. All peers
//! then make the same calls, in the order that [a section below](#which-calls-in-which-order) describes. Peers may die
//! at any moment, even in the middle of a collective. Every call then either succeeds on all survivors, or fails on all
//! of them and leaves their buffers unchanged.
//!
//! # Example
//!
//! ```rust,no_run
//! use pccl::{Communicator, Error, Reduce};
//!
//! fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
//!     let rounds = Communicator::builder(master).rounds();
//!     rounds.run(weights, |round| {
//!         if round.revision() == 1000 {
//!             return Ok(round.end());
//!         }
//!         let mut step = compute(round.state());
//!         round.retry(|| round.all_reduce(&mut step, Reduce::avg()))?;
//!         Ok(round.commit(|weights| {
//!             weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
//!         }))
//!     })
//! }
//! # fn compute(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
//! ```
//!
//! Each round [updates the topology](Communicator::update_topology), [synchronizes](Communicator::sync_shared_state)
//! the state, and calls the closure, which changes the state in [`Round::commit`] alone. After each error the loop does
//! what [`Error::next`] says; [`Rounds`] has the details, and a state of several entries. The same loop without it,
//! which gives up if it cannot connect again at once:
//!
//! ```rust,no_run
//! use pccl::{Communicator, Error, Next, Reduce, SharedState, SyncStrategy};
//!
//! fn train(master: &str, weights: &mut [f32], mut revision: u64) -> Result<(), Error> {
//!     let builder = Communicator::builder(master);
//!     let mut comm = builder.clone().connect()?;
//!     while revision < 1000 {
//!         let Err(error) = round(&mut comm, weights, &mut revision) else {
//!             continue;
//!         };
//!         match error.next() {
//!             // Nothing has changed, and the next round makes all calls again, in the order of all peers.
//!             Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_) => {}
//!             Next::Reconnect => comm = builder.clone().connect()?,
//!             _ => return Err(error),
//!         }
//!     }
//!     Ok(())
//! }
//!
//! fn round(comm: &mut Communicator, weights: &mut [f32], revision: &mut u64) -> Result<(), Error> {
//!     comm.update_topology()?; // newcomers come in here
//!     let mut state = SharedState::at(*revision);
//!     state.entry("weights", weights)?;
//!     comm.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
//!     *revision = state.revision;
//!
//!     let mut step = compute(weights);
//!     comm.all_reduce(&mut step, Reduce::avg())?;
//!     weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
//!     *revision += 1;
//!     Ok(())
//! }
//! # fn compute(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
//! ```
//!
//! # Which calls, in which order
//!
//! - **Major calls** ([`update_topology`](Communicator::update_topology),
//!   [`optimize_topology`](Communicator::optimize_topology),
//!   [`sync_shared_state`](Communicator::sync_shared_state)): in the same order on all peers. The first two
//!   are votes of all groups, the last one is a vote of one group.
//! - **Collectives**: between the same major calls on all peers of the group. Tags tell them apart, so collectives that
//!   run at once ([handles](CollectiveHandle), futures, threads) may begin and be awaited in a different
//!   order on each peer. Three rules limit this. Blocking collectives come in the same order on all peers. So do
//!   collectives that reuse a tag. And if more than 1000 run at once, start them in the same order
//!   ([`start_all_reduce`](Communicator::start_all_reduce) has the exact rule).
//! - **[`are_peers_pending`](Communicator::are_peers_pending)**: a vote of all peers of all groups, which ends
//!   at once if another peer waits in a major call. It may run beside collectives. If a program calls it between
//!   collectives, it does so in the same order on all peers.
//!
//! If the calls of two peers do not match, neither waits forever. The master lets one of the two calls give way
//! ([`Error::Conflict`]), refuses a collective that the other peers do not join ([`Error::NotJoined`]), and evicts a
//! peer that all others wait for ([`Error::Kicked`]). [`update_topology`](Communicator::update_topology) never
//! conflicts with another call.
//!
//! # Map
//!
//! | | |
//! |---|---|
//! | [`Rounds`], [`Round`], [`Shared`] | the training loop, and what it keeps identical |
//! | [`Communicator`], [`Builder`] | joining a run, and everything that a peer can call |
//! | [`Reduce`], [`CollectiveReport`], [`Element`] | what a reduce computes, and what it did |
//! | [`Shard`], [`Scattered`], [`Gather`], [`GatherV`], [`GatheredV`], [`Broadcast`] | the other collectives |
//! | [`ErrorFeedback`] | recovers the losses of quantization |
//! | [`CollectiveHandle`], [`ReduceItem`] | collectives in the background, and lists of reduces |
//! | [`Awaited`], [`Wait`], [`NamedPeer`] | the peers that this peer's calls wait for |
//! | [`Phases`] | where the time of a collective went |
//! | [`Waited`] | for whom a collective waited while nothing moved |
//! | [`SharedState`], [`SyncOptions`] | what peers keep identical, and how |
//! | [`Error`], [`Next`] | what went wrong, and what to do next |
//! | [`Tcp`], [`Transport`] | how lanes are opened; with the feature `quic` also `Quic`; [`transport`] has what a transport of your own needs |
//!
//! Inside, `engine` drives the peer machine of `pccl-core`, and `pccl-plane` moves the bytes.

#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("elements travel as they lie in memory, which has to be little-endian");

mod address;
mod admission;
mod advertised;
mod advice;
mod all_reduce;
mod background;
mod backoff;
mod barrier;
mod broadcast;
mod builder;
mod busy_poll;
mod calls;
mod collective;
mod communicator;
mod destination;
mod element;
mod engine;
mod error;
mod error_bound;
mod error_feedback;
mod gather;
mod gather_v;
mod handle;
mod link_scope;
mod many;
mod next;
mod overlap;
mod patience;
mod phases;
mod reaching;
mod reduce;
mod run;
mod runtime;
mod scatter;
mod scatter_into;
mod shard;
#[cfg(test)]
mod simulated;
mod state;
mod suspects;
mod sync;
mod together;
mod topology;
mod transfer;
pub mod transport;
mod turns;
mod weighted;

pub use address::BadAddress;
pub use advertised::Advertised;
pub use broadcast::Broadcast;
pub use builder::Builder;
pub use communicator::Communicator;
pub use element::Element;
pub use error::Error;
pub use error_feedback::ErrorFeedback;
pub use gather::Gather;
pub use gather_v::{GatherV, GatheredV};
pub use handle::{CollectiveFailed, CollectiveHandle, Completed};
pub use many::{ManyFailed, ReduceItem};
pub use next::Next;
pub use overlap::Overlapped;
pub use phases::Phases;
pub use reduce::{CollectiveReport, Reduce};
pub use run::{Outcome, Round, Rounds, Shared, StepError};
pub use scatter::Scattered;
pub use shard::Shard;
pub use state::{SharedState, SyncOptions, SyncReport};
pub use suspects::Waited;
pub use topology::TopologyReport;

pub use half;
pub use pccl_core::awaited::{Awaited, AwaitedCall, Wait};
pub use pccl_core::element::{
    CollectiveKind, ElementType, Quantization, ReduceOp, SpecField, SpecValue,
};
pub use pccl_core::id::{Epoch, GroupId, Membership, PeerId, Revision, Tag};
pub use pccl_core::messages::{AbortCause, CallKind, Conflict, Misdeed, Refusal};
pub use pccl_core::name::{BadPeerName, NamedPeer};
pub use pccl_core::paths::{RingEstimate, RingReport};
pub use pccl_core::plan::{Algorithm, Pattern};
pub use pccl_core::shared_state::{EntryMismatch, EntryShape, SyncFailure, SyncStrategy};
pub use pccl_core::site::BadSiteName;
pub use pccl_core::topology::{LinkId, Way};
pub use pccl_core::transport::{LaneError, Protocol, Transport};
pub use pccl_plane::{Checksums, Defect};
#[cfg(feature = "quic")]
pub use pccl_transport_quic::{Congestion, Quic, UnknownCongestion};
pub use pccl_transport_tcp::Tcp;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
