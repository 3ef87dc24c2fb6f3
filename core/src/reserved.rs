//! What the master has reserved for the next execution of a collective.

use serde::{Deserialize, Serialize};

use crate::element::CollectiveSpec;
use crate::id::{Seq, Tag};
use crate::plan::Algorithm;

/// What the next execution of a tag will be if its participants call the same collective again, on the same ring and
/// without another collective in between.
///
/// A participant that calls it may begin at once, without waiting for [`Commence`]: it begins *ahead*. What it has computed
/// counts only if `Commence` comes with this number. It is void, and the buffer has its content before the call again, if
/// `Commence` comes with another number, for this tag or another one, or if the collective is refused or given up, or if
/// another ring is established.
///
/// [`Commence`]: crate::messages::ToPeer::Commence
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reserved {
    /// The number of the execution. Frames carry it, and no other execution gets it.
    pub seq: Seq,
    /// The algorithm.
    pub algorithm: Algorithm,
}

/// A collective that was committed, and begins ahead if it is called again before another one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Repeat {
    pub(crate) tag: Tag,
    pub(crate) spec: CollectiveSpec,
    pub(crate) reserved: Reserved,
}
