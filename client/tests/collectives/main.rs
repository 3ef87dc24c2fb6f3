//! Collectives: what every peer ends with, by every call, alone and in crowds, and when peers go.

mod ahead;
mod any_executor;
mod async_calls;
mod crowds;
mod error_feedback;
mod gather_v;
mod handles;
mod kinds;
mod levels;
mod ordered;
mod reducing;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod weighted;
