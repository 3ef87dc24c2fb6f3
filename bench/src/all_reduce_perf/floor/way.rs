//! The ways in which the floor can be made: who sends what to whom, and in pieces of which size.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::collective::Collective;

/// Who sends what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Exchange {
    /// A ring that sleeps only when neither direction moves.
    Ring,
    /// A ring that waits in `recv` when it has nothing to send.
    Blocking,
    /// Every rank with every other.
    Direct,
}

impl Exchange {
    /// Those that a collective can be made by.
    pub(crate) const fn of(collective: Collective) -> &'static [Self] {
        match collective {
            Collective::AllReduce => &[Self::Ring, Self::Blocking, Self::Direct],
            Collective::ReduceScatter | Collective::AllGather | Collective::Broadcast => {
                &[Self::Ring, Self::Blocking]
            }
        }
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Blocking => "blocking",
            Self::Direct => "direct",
        })
    }
}

/// An exchange in pieces of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) exchange: Exchange,
    pub(crate) piece_bytes: usize,
}
