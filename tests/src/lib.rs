//! What the tests of the whole are built from.
//!
//! | module | what it is for |
//! |---|---|
//! | [`conformance`] | what every transport must do, as one list of cases |
//! | [`memory`] | a network in memory, with faults on demand |

pub mod conformance;
pub mod memory;
