//! The identity of a process: an Ed25519 public key, and its forms on the wire and in text.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

use crate::base32;

/// The bytes before the key in the SubjectPublicKeyInfo of an Ed25519 key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The suffix of the key in a server name. No name under `.invalid` can be resolved (RFC 2606).
const NAME_SUFFIX: &str = ".pccl.invalid";

/// Characters of [`PublicKey`]'s short form: 80 bits, too many to make another key that looks the same.
const SHORT: usize = 16;

/// The Ed25519 public key of a process, which identifies it.
///
/// `Display` writes a short form, for people and logs. [`full`](Self::full) is the whole key, which [`FromStr`]
/// parses.
///
/// ```
/// use pccl_trust::PublicKey;
///
/// let key = PublicKey::from([7; 32]);
/// assert_eq!(key.to_string(), "a4dqobyha4dqobyh");
/// assert_eq!(key.full().parse::<PublicKey>().unwrap(), key);
/// assert_eq!(<[u8; 32]>::from(key), [7; 32]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PublicKey([u8; 32]);

/// A text that is not a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a public key is written with 52 letters and digits (a-z, 2-7)")]
pub struct NotAPublicKey;

impl PublicKey {
    /// The key as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The whole key as text: 52 letters and digits.
    #[must_use]
    pub fn full(&self) -> String {
        base32::encode(&self.0).to_string()
    }

    /// The name with which a client dials the holder of this key, in TLS and in QUIC. The verifier of
    /// [`client_config`](crate::client_config) takes the expected key from it. It is not sent.
    ///
    /// ```
    /// use rustls::pki_types::ServerName;
    ///
    /// let key = pccl_trust::PublicKey::from([7; 32]);
    /// assert!(ServerName::try_from(key.server_name()).is_ok());
    /// ```
    #[must_use]
    pub fn server_name(&self) -> String {
        format!("{}{NAME_SUFFIX}", base32::encode(&self.0).as_str())
    }

    /// The key in a name of [`server_name`](Self::server_name).
    pub(crate) fn from_server_name(name: &ServerName<'_>) -> Option<Self> {
        let ServerName::DnsName(name) = name else {
            return None;
        };
        let text = name.as_ref().strip_suffix(NAME_SUFFIX)?;
        base32::decode_array(text).map(Self)
    }

    /// The key as a handshake carries it: a SubjectPublicKeyInfo.
    pub(crate) fn to_spki(self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.0].concat()
    }

    /// The key of a SubjectPublicKeyInfo. `None` if it is of another kind, or has extra bytes.
    pub(crate) fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_PREFIX)?;
        key.try_into().ok().map(Self)
    }
}

impl From<[u8; 32]> for PublicKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<PublicKey> for [u8; 32] {
    fn from(key: PublicKey) -> Self {
        key.0
    }
}

impl FromStr for PublicKey {
    type Err = NotAPublicKey;

    fn from_str(text: &str) -> Result<Self, NotAPublicKey> {
        base32::decode_array(text).map(Self).ok_or(NotAPublicKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = base32::encode(&self.0);
        f.write_str(text.get(..SHORT).unwrap_or(&text))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_server_name_and_from_its_wire_form() {
        let key = PublicKey::from([0xa5; 32]);
        let name = ServerName::try_from(key.server_name()).unwrap();
        assert_eq!(PublicKey::from_server_name(&name), Some(key));
        assert_eq!(PublicKey::from_spki(&key.to_spki()), Some(key));
    }

    #[test]
    fn other_names_hold_no_key() {
        for name in ["localhost", "127.0.0.1", "abc.pccl.invalid", "pccl.invalid"] {
            let name = ServerName::try_from(name).unwrap();
            assert_eq!(PublicKey::from_server_name(&name), None, "{name:?}");
        }
    }

    #[test]
    fn a_wire_form_with_another_algorithm_or_length_is_no_key() {
        let good = PublicKey::from([1; 32]).to_spki();
        // X25519 instead of Ed25519.
        let mut other = good.clone();
        other[8] = 0x6e;
        let longer = [good.as_slice(), &[0]].concat();
        for spki in [&other, &longer, &good[..43].to_vec(), &Vec::new()] {
            assert_eq!(PublicKey::from_spki(spki), None);
        }
    }
}
