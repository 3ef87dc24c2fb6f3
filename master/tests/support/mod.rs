//! What the master's tests are built from.

pub(crate) mod client;
pub(crate) mod fuzz;
pub(crate) mod messages;
pub(crate) mod pipes;
pub(crate) mod proven;
