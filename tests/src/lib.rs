//! What the tests of the whole are built from.
//!
//! | module | what it is for |
//! |---|---|
//! | [`memory`] | a network in memory, with faults on demand |

pub mod memory;
