//! The stateright model of the protocol will live here: core's own `Master` and `Peer` values joined
//! by links that break, under fault budgets, with the properties of the design as sentences.
//!
//! The crate holds no code yet. The machines it will explore are complete in [`pccl_core`].

pub use pccl_core as core;
