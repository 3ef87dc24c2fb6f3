//! What the master has reserved for the next execution of a collective.

use serde::{Deserialize, Serialize};

use crate::element::CollectiveSpec;
use crate::id::{Seq, Tag};
use crate::plan::Algorithm;

/// What the next execution of a tag will be if its participants call the same collective again, on the same ring and
/// without another collective in between.
///
/// A participant that calls it may begin at once, without waiting for [`Commence`]: it begins *ahead*. If it is done before
/// that comes, it votes on the outcome at once. The result and the vote count only if `Commence` comes with this number. Both
/// are void, and the buffer has its content before the call again, if `Commence` comes with another number, for this tag or
/// another one, if the collective is refused, or if another ring is established. What is not done is void, too, if it is
/// given up.
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
