//! The stateright model of pccl: the very machines of the product, links that break, fault budgets,
//! and the properties of the design as sentences.
//!
//! ```text
//!   User ── call ──▶ Peer ◀── down ──┐          a Step is one of these arrows, or a fault
//!                     │  ▲           │
//!             outputs ▼  │        Master        Peer and Master are pccl-core's own values
//!                    Plane ── up ────▲
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`scenario`], [`catalogue`] | what is explored: processes, programs, faults |
//! | [`script`] | the users' programs |
//! | [`state`] | a state of the whole run |
//! | [`step`] | everything that can happen next |
//! | [`claim`] | what must always hold, as sentences |
//! | [`milestone`] | what must be reached at least once |
//! | [`coverage`] | what the exploration has seen |
//! | [`trace`], [`story`] | a way through a run, as text for machines and for people |
//! | [`bystander`] | a run that is not the model's, held against the same claims |
//! | [`recorded`] | the logs of a real run, before a bystander |
//! | [`fabric`] | what lies between the processes: lanes, frames, transfers |
//! | [`connection`], [`plane`], [`plan_run`], [`contents`], [`trouble`], [`journal`], [`hashed`] | parts of a state |

pub mod bystander;
mod calls;
pub mod catalogue;
pub mod claim;
pub mod connection;
pub mod contents;
pub mod coverage;
mod enabled;
pub mod fabric;
pub mod hashed;
pub mod journal;
mod lanes;
mod memo;
pub mod milestone;
mod model;
pub mod plan_run;
pub mod plane;
mod prologue;
pub mod recorded;
mod restart;
mod run;
pub mod scenario;
pub mod script;
pub mod show;
mod solver;
pub mod state;
pub mod step;
pub mod story;
pub mod trace;
mod transfer;
pub mod trouble;
mod watch;

pub use model::RunModel;
pub use pccl_core as core;
