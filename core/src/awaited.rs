//! Who a peer waits for: the answer to [`WhoIsAwaited`](crate::messages::ToMaster::WhoIsAwaited).
//!
//! The master computes it from what it knows at that moment, and changes nothing. It is about calls that others have not
//! made; what has begun and moves bytes has its own deadlines.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::element::CollectiveKind;
use crate::id::{PeerId, Tag};
use crate::name::NamedPeer;
use crate::peer::Kind;

/// Most entries of one [`Awaited`].
pub const WAITS_MAX: usize = 16;

/// Most peers that one [`Wait`] names.
pub const WAITED_FOR_MAX: usize = 16;

/// Everything that a peer waits for others to call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Awaited {
    /// At most [`WAITS_MAX`]: of collectives those with the lowest tags.
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
    /// What the peer that asks has called.
    pub call: AwaitedCall,
    /// Who has not called it, in the order of their numbers: at most [`WAITED_FOR_MAX`].
    pub peers: Vec<NamedPeer>,
    /// How many have not called it beyond those.
    pub others: u32,
}

impl Wait {
    /// How many peers have not made the call.
    #[must_use]
    pub fn count(&self) -> usize {
        let others = usize::try_from(self.others).unwrap_or(usize::MAX);
        self.peers.len().saturating_add(others)
    }
}

/// What a peer has called and others have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AwaitedCall {
    /// `connect`: to be admitted, the members have to call `update_topology`. If no member has called anything since it
    /// was admitted, one that calls is enough.
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
        /// The user's name for it.
        tag: Tag,
        /// Of which kind it is.
        kind: CollectiveKind,
    },
}

impl AwaitedCall {
    /// The call, as the peer machine names it.
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
