//! The peer machine alone: what each call sends, what each message leads to, and that no sequence of
//! inputs breaks it.

mod admission;
mod ahead;
mod calls;
mod collectives;
mod desk;
mod farewell;
mod joining;
mod major;
mod random;
mod reference;
#[path = "../support/replayable.rs"]
mod replayable;
mod rings;
mod waiting;
