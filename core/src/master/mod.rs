//! The deciding machine.

mod io;

pub use io::{Ballot, MasterConfig, MasterInput, MasterOutput, MasterTimer, Scope, TourProblem};
