//! The peers for which a peer waits: the answer to [`WhoIsAwaited`](crate::messages::ToMaster::WhoIsAwaited).
//!
//! The master computes it from its current state, and changes nothing. It covers calls that other peers have not
//! made. Operations that run have their own deadlines.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::element::CollectiveKind;
use crate::id::{PeerId, Tag};
use crate::name::NamedPeer;
use crate::peer::Kind;

/// Maximum number of entries of one [`Awaited`].
pub const WAITS_MAX: usize = 16;

/// Maximum number of peers that one [`Wait`] names.
pub const WAITED_FOR_MAX: usize = 16;

/// All waits of a peer for calls of other peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Awaited {
    /// At most [`WAITS_MAX`]. Of collectives, those with the lowest tags.
    pub waits: Vec<Wait>,
}

/// One call, and the peers that have not made it.
///
/// ```
/// use pccl_core::awaited::{AwaitedCall, Wait};
/// use pccl_core::id::PeerId;
/// use pccl_core::name::NamedPeer;
///
/// let named = |peer, name: &str| NamedPeer {
///     peer: PeerId(peer),
///     name: name.to_string().try_into().unwrap_or_default(),
/// };
/// let wait = Wait {
///     call: AwaitedCall::SyncSharedState,
///     peers: vec![named(3, "node-7"), named(7, "")],
///     others: 2,
/// };
/// let text = "sync_shared_state waits for peers 3 (node-7), 7 and 2 others to make the same call";
/// assert_eq!(wait.to_string(), text);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// The call of the peer that asks.
    pub call: AwaitedCall,
    /// The peers that have not made it, in the order of their ids, at most [`WAITED_FOR_MAX`].
    pub peers: Vec<NamedPeer>,
    /// Number of further peers that have not made it.
    pub others: u32,
}

impl Wait {
    /// Number of peers that have not made the call.
    #[must_use]
    pub fn count(&self) -> usize {
        let others = usize::try_from(self.others).unwrap_or(usize::MAX);
        self.peers.len().saturating_add(others)
    }
}

/// A call that a peer has made and others have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AwaitedCall {
    /// `connect`: to admit the peer, the members have to call `update_topology`. If no member has made a call since
    /// its admission, one member's call is enough.
    Connect,
    /// `update_topology`
    UpdateTopology,
    /// `are_peers_pending`
    ArePeersPending,
    /// `optimize_topology`
    OptimizeTopology,
    /// `sync_shared_state`
    SyncSharedState,
    /// A collective.
    Collective {
        /// The tag.
        tag: Tag,
        /// The kind of the collective.
        kind: CollectiveKind,
    },
}

impl AwaitedCall {
    /// The kind of the call, as in the peer machine.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Connect => Kind::Connect,
            Self::UpdateTopology => Kind::UpdateTopology,
            Self::ArePeersPending => Kind::ArePeersPending,
            Self::OptimizeTopology => Kind::OptimizeTopology,
            Self::SyncSharedState => Kind::SyncSharedState,
            Self::Collective { tag, .. } => Kind::Collective(*tag),
        }
    }
}

impl fmt::Display for AwaitedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::UpdateTopology => f.write_str("update_topology"),
            Self::ArePeersPending => f.write_str("are_peers_pending"),
            Self::OptimizeTopology => f.write_str("optimize_topology"),
            Self::SyncSharedState => f.write_str("sync_shared_state"),
            // There is one at a time, whose tag says nothing.
            Self::Collective {
                kind: CollectiveKind::Barrier,
                ..
            } => write!(f, "{}", CollectiveKind::<PeerId>::Barrier),
            Self::Collective { tag, kind } => write!(f, "{kind} with {tag}"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count() == 1 { "" } else { "s" };
        match self.call {
            AwaitedCall::Connect => {
                let count = self.count();
                write!(f, "waiting to be admitted by {count} peer{plural}: ")?;
                self.list(f)?;
                f.write_str(" to call update_topology")
            }
            AwaitedCall::UpdateTopology
            | AwaitedCall::ArePeersPending
            | AwaitedCall::OptimizeTopology
            | AwaitedCall::SyncSharedState
            | AwaitedCall::Collective { .. } => {
                write!(f, "{} waits for peer{plural} ", self.call)?;
                self.list(f)?;
                f.write_str(" to make the same call")
            }
        }
    }
}

impl Wait {
    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, peer) in self.peers.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{peer}")?;
        }
        match self.others {
            0 => Ok(()),
            1 => f.write_str(" and 1 other"),
            others => write!(f, " and {others} others"),
        }
    }
}
