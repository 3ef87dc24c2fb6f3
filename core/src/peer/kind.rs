//! Kinds of calls, and the kind of answer of each.

use super::io::{Answer, Call, CallError};
use crate::id::Tag;

/// A kind of call, and of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Call::Connect`]
    Connect,
    /// [`Call::UpdateTopology`]
    UpdateTopology,
    /// [`Call::ArePeersPending`]
    ArePeersPending,
    /// [`Call::OptimizeTopology`]
    OptimizeTopology,
    /// [`Call::SyncSharedState`]
    SyncSharedState,
    /// [`Call::Initiate`] of this tag.
    Collective(Tag),
}

impl Kind {
    /// The answer that reports why a call of this kind failed.
    pub(super) const fn failed(self, why: CallError) -> Answer {
        match self {
            Self::Connect => Answer::Connected(Err(why)),
            Self::UpdateTopology => Answer::TopologyUpdated(Err(why)),
            Self::ArePeersPending => Answer::PeersPending(Err(why)),
            Self::OptimizeTopology => Answer::TopologyOptimized(Err(why)),
            Self::SyncSharedState => Answer::Synchronized(Err(why)),
            Self::Collective(tag) => Answer::CollectiveEnded {
                tag,
                result: Err(why),
            },
        }
    }
}

impl Call {
    /// The kind of the call.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Connect => Kind::Connect,
            Self::UpdateTopology => Kind::UpdateTopology,
            Self::ArePeersPending => Kind::ArePeersPending,
            Self::OptimizeTopology => Kind::OptimizeTopology,
            Self::SyncSharedState(_) => Kind::SyncSharedState,
            Self::Initiate { tag, .. } => Kind::Collective(*tag),
        }
    }
}

impl Answer {
    /// The kind of call that it answers.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Connected(_) => Kind::Connect,
            Self::TopologyUpdated(_) => Kind::UpdateTopology,
            Self::PeersPending(_) => Kind::ArePeersPending,
            Self::TopologyOptimized(_) => Kind::OptimizeTopology,
            Self::Synchronized(_) => Kind::SyncSharedState,
            Self::CollectiveEnded { tag, .. } => Kind::Collective(*tag),
        }
    }

    /// The error of the call, if it has failed.
    #[must_use]
    pub fn error(&self) -> Option<&CallError> {
        match self {
            Self::Connected(result) => result.as_ref().err(),
            Self::TopologyOptimized(result) => result.as_ref().err(),
            Self::TopologyUpdated(result) => result.as_ref().err(),
            Self::PeersPending(result) => result.as_ref().err(),
            Self::Synchronized(result) => result.as_ref().err(),
            Self::CollectiveEnded { result, .. } => result.as_ref().err(),
        }
    }
}
