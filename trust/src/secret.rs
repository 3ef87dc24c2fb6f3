//! The secret of an invitation.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::provider::{NoRandomness, random};

/// 256 random bits, known to a master and the peers that it has invited. They are never sent: a
/// [`Proof`](crate::Proof) shows that a peer has them.
///
/// It is wiped from memory on drop. `Debug` hides it. Comparing two secrets takes a time that does not depend on
/// their bits.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// A fresh random secret.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn generate() -> Result<Self, NoRandomness> {
        random().map(Self)
    }

    /// The bits, to store or pass on the secret.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Secret {
    fn from(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // The comparison of hashes takes a constant time.
        blake3::Hash::from_bytes(*self.0) == blake3::Hash::from_bytes(*other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// For `#[serde(with = ..)]`, so that a secret is serialized only on purpose.
pub(crate) mod exposed {
    use super::{Deserialize, Deserializer, Secret, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        secret.expose().serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Secret, D::Error> {
        <[u8; 32]>::deserialize(from).map(Secret::from)
    }
}
