//! How many elements each participant of a collective contributes, if the contributions have different lengths.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// By rank: how many elements each participant contributes to an
/// [`AllGatherV`](crate::element::CollectiveKind::AllGatherV). None for other kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Lengths(pub Vec<u64>);

impl Lengths {
    /// Of a collective whose buffers all have the same length.
    pub const NONE: Self = Self(Vec::new());

    /// The sum of the lengths. `None`: it does not fit into a `u64`.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let mut lengths = self.0.iter();
        lengths.try_fold(0_u64, |total, length| total.checked_add(*length))
    }
}
