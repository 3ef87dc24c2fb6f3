//! The lengths of the contributions to a collective, if they differ.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// By rank: number of elements that each participant contributes to an
/// [`AllGatherV`](crate::element::CollectiveKind::AllGatherV). Empty for other kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Lengths(pub Vec<u64>);

impl Lengths {
    /// The lengths of a collective whose buffers all have the same length.
    pub const NONE: Self = Self(Vec::new());

    /// The sum of the lengths. `None` if it does not fit in a `u64`.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let mut lengths = self.0.iter();
        lengths.try_fold(0_u64, |total, length| total.checked_add(*length))
    }
}
