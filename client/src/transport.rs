//! What a transport of your own is made of.
//!
//! A transport opens *lanes*, ordered and reliable byte streams, and accepts those that others open. Everything above a
//! lane is written once, for all transports: handshakes, frames, striping, checks of who is at the other end. So a
//! transport implements four small traits, and knows nothing of collectives:
//!
//! | trait | what it does |
//! |---|---|
//! | [`Transport`] | opens lanes, and listens |
//! | [`Listener`] | accepts lanes |
//! | [`LaneTx`] | sends bytes; the pieces of a frame are not copied together before |
//! | [`LaneRx`] | receives bytes |
//!
//! Rules that are not seen in the types:
//!
//! - What [`poll_send`](LaneTx::poll_send) has taken has to arrive without another call. A lane that collects bytes, in
//!   order to compress them, say, sends what it has before it returns.
//! - Both directions of a lane are independent. If sending waited for receiving, a ring of peers that all send first
//!   would stand still.
//! - A lane that has failed says so in both directions of its end, and each time that it is asked.
//! - All methods that return [`Poll`](std::task::Poll) keep the waker of their last call, as futures do.
//! - Defaults say less than you know. A transport that wraps another one passes on what that one says, or lanes within
//!   a machine are treated as if they were far.
//!
//! All peers of a run and their master use the same transport. Hand it to
//! [`Builder::transport`](crate::Builder::transport) and to `pccl_master::MasterBuilder::transport`.
//! `client/examples/transport` has one that counts what passes.

pub use pccl_core::id::Identity;
pub use pccl_core::transport::{
    BoxFuture, CongestionControl, Endpoint, Incoming, Lane, LaneError, LaneRx, LaneTx, Listener,
    Protocol, Proven, Security, Transport,
};
