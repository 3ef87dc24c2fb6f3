//! The names that users give their peers, so that logs and errors have more than a number.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::id::PeerId;

/// Maximum length of the name of a peer, in bytes.
pub const PEER_NAME_BYTES_MAX: usize = 64;

/// The name of a peer, as its user gave it: at most [`PEER_NAME_BYTES_MAX`] bytes, without control characters.
///
/// Names are for people. No decision depends on them, and several peers may have the same name. The default is the
/// empty name, which means none.
///
/// ```
/// use pccl_core::name::PeerName;
///
/// let name = PeerName::try_from("node-7".to_string());
/// assert_eq!(name.as_ref().map(PeerName::as_str), Ok("node-7"));
/// assert!(PeerName::try_from("node\n7".to_string()).is_err());
/// assert_eq!(PeerName::default().as_str(), "");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerName(String);

impl PeerName {
    /// The name of a peer whose user gave none.
    pub const NONE: Self = Self(String::new());

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PeerName {
    type Error = BadPeerName;

    fn try_from(name: String) -> Result<Self, BadPeerName> {
        if name.len() > PEER_NAME_BYTES_MAX {
            return Err(BadPeerName::TooLong { bytes: name.len() });
        }
        if name.chars().any(char::is_control) {
            return Err(BadPeerName::ControlCharacter);
        }
        Ok(Self(name))
    }
}

impl From<PeerName> for String {
    fn from(name: PeerName) -> Self {
        name.0
    }
}

/// Why a text is not the name of a peer. Correct it in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BadPeerName {
    /// It has more than [`PEER_NAME_BYTES_MAX`] bytes.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has a control character.
    ControlCharacter,
}

impl fmt::Display for BadPeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "the name of a peer has at most {PEER_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            Self::ControlCharacter => f.write_str("the name of a peer has no control characters"),
        }
    }
}

impl core::error::Error for BadPeerName {}

/// A peer with its name. `Display` writes `3 (node-7)`, or `3` without a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedPeer {
    /// Its id.
    pub peer: PeerId,
    /// Its name, which may be empty.
    pub name: PeerName,
}

impl fmt::Display for NamedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "{}", self.peer.0),
            name => write!(f, "{} ({name})", self.peer.0),
        }
    }
}
