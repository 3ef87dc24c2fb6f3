//! Mistakes in drivers.

use super::Mistake;

/// What the simulator has to find.
pub const DRIVERS: &[Mistake] = &[];
