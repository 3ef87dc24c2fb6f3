//! Proving possession of a secret without sending it.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::public_key::PublicKey;
use crate::secret::Secret;

/// Names the purpose of a proof, so that no other use of the same secret gives the same bytes.
const PURPOSE: &[u8] = b"pccl join proof v1";

/// 32 bytes that only the two ends of a connection can compute: the exporter of its handshake (RFC 8446, section
/// 7.5), under [`LABEL`](Self::LABEL) and without a context.
///
/// [`established`](crate::established) returns it for a connection of rustls. For a connection of quinn call
/// `connection.export_keying_material(&mut bytes, ChannelBinding::LABEL, &[])`.
pub struct ChannelBinding(Zeroizing<[u8; 32]>);

impl ChannelBinding {
    /// The label of the export.
    pub const LABEL: &'static [u8] = b"EXPORTER-pccl-join";

    /// The bytes. They prove nothing without the secret, and are useless on another connection.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for ChannelBinding {
    fn from(exported: [u8; 32]) -> Self {
        Self(Zeroizing::new(exported))
    }
}

impl PartialEq for ChannelBinding {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(*self.0) == blake3::Hash::from_bytes(*other.0)
    }
}

impl Eq for ChannelBinding {}

impl fmt::Debug for ChannelBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelBinding(..)")
    }
}

/// Proves, on one connection, that the holder of a key has a secret.
///
/// It is useless to anybody else: on another connection, or with another key, it is wrong. Comparing two proofs takes
/// a time that does not depend on their bits.
///
/// ```
/// use pccl_trust::{ChannelBinding, Proof, PublicKey, Secret};
///
/// let secret = Secret::generate()?;
/// let binding = ChannelBinding::from([1; 32]);
/// let me = PublicKey::from([2; 32]);
///
/// let shown = Proof::new(&secret, &binding, &me);
/// assert_eq!(Proof::from(shown.to_bytes()), Proof::new(&secret, &binding, &me));
/// assert_ne!(shown, Proof::new(&secret, &ChannelBinding::from([9; 32]), &me));
/// # Ok::<(), pccl_trust::NoRandomness>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Proof(blake3::Hash);

impl Proof {
    /// The proof by `prover`, whose key the other end has verified on the connection of `binding`.
    #[must_use]
    pub fn new(secret: &Secret, binding: &ChannelBinding, prover: &PublicKey) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret.expose());
        hasher.update(PURPOSE);
        hasher.update(binding.0.as_slice());
        hasher.update(prover.as_bytes());
        let proof = Self(hasher.finalize());
        // It holds the secret as its key.
        hasher.zeroize();
        proof
    }

    /// The proof as it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        *self.0.as_bytes()
    }
}

impl From<[u8; 32]> for Proof {
    fn from(bytes: [u8; 32]) -> Self {
        Self(blake3::Hash::from_bytes(bytes))
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}
