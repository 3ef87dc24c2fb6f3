//! The secrets of a handshake, one per direction, and the record keys that are derived from them (RFC 8446, section
//! 7). They are wiped on drop.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::aead::{self, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::tls13::{HkdfExpander, OkmBlock};
use rustls::{CipherSuite, KeyLog, SupportedCipherSuite, Tls13CipherSuite};
use zeroize::Zeroizing;

use super::error::TlsError;

/// The names under which rustls logs the secrets of application data.
const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

/// Bytes of a nonce, for every cipher suite of TLS 1.3.
const NONCE_BYTES: usize = 12;

/// Bytes of the longest key of a cipher suite.
const KEY_BYTES_MAX: usize = 32;

/// Stores the secrets that the handshake of one connection logs. Secrets are extracted, not keys, because later keys
/// are derived from them.
#[derive(Default)]
pub(super) struct Overheard {
    client: Mutex<Option<OkmBlock>>,
    server: Mutex<Option<OkmBlock>>,
}

impl Overheard {
    /// The secret with which the client sends. `None` if the handshake is not over, or the secret was taken.
    pub(super) fn take_client(&self) -> Option<OkmBlock> {
        take(&self.client)
    }

    /// As [`take_client`](Self::take_client), for the server.
    pub(super) fn take_server(&self) -> Option<OkmBlock> {
        take(&self.server)
    }
}

fn take(kept: &Mutex<Option<OkmBlock>>) -> Option<OkmBlock> {
    kept.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl KeyLog for Overheard {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let kept = match label {
            CLIENT => &self.client,
            SERVER => &self.server,
            _ => return,
        };
        if secret.len() <= OkmBlock::MAX_LEN {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, CLIENT | SERVER)
    }
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overheard")
    }
}

/// The current secret of one direction.
pub(super) struct TrafficSecret {
    suite: &'static Tls13CipherSuite,
    algorithm: &'static aead::Algorithm,
    secret: OkmBlock,
}

impl TrafficSecret {
    /// The secret for this cipher suite.
    ///
    /// # Errors
    /// [`TlsError::Internal`] if this process does not offer the cipher suite.
    pub(super) fn new(suite: SupportedCipherSuite, secret: OkmBlock) -> Result<Self, TlsError> {
        let algorithm = match suite.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => &aead::AES_128_GCM,
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &aead::AES_256_GCM,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &aead::CHACHA20_POLY1305,
            _ => return Err(TlsError::Internal),
        };
        let suite = match suite {
            SupportedCipherSuite::Tls13(suite) => suite,
            // There is another where any crate of the program asks for it.
            #[allow(unreachable_patterns)]
            _ => return Err(TlsError::Internal),
        };
        Ok(Self {
            suite,
            algorithm,
            secret,
        })
    }

    /// Maximum number of records that may be sealed with the key of one secret.
    pub(super) const fn records_max(&self) -> u64 {
        self.suite.common.confidentiality_limit
    }

    /// The key of this secret.
    pub(super) fn key(&self) -> Result<RecordKey, TlsError> {
        let expander = self.expander();
        let mut bytes = Zeroizing::new([0; KEY_BYTES_MAX]);
        let length = self.algorithm.key_len();
        let key = bytes.get_mut(..length).ok_or(TlsError::Internal)?;
        expand_label(&*expander, b"key", key)?;
        let mut iv = Zeroizing::new([0; NONCE_BYTES]);
        expand_label(&*expander, b"iv", iv.as_mut_slice())?;
        let key = UnboundKey::new(self.algorithm, key).map_err(|_| TlsError::Internal)?;
        Ok(RecordKey {
            aead: LessSafeKey::new(key),
            iv,
            sequence: 0,
        })
    }

    /// The secret after this one. The derivation cannot be reversed.
    pub(super) fn next(&self) -> Result<Self, TlsError> {
        let expander = self.expander();
        let mut bytes = Zeroizing::new([0; OkmBlock::MAX_LEN]);
        let secret = bytes.get_mut(..expander.hash_len());
        let secret = secret.ok_or(TlsError::Internal)?;
        expand_label(&*expander, b"traffic upd", secret)?;
        Ok(Self {
            secret: OkmBlock::new(secret),
            ..*self
        })
    }

    fn expander(&self) -> Box<dyn HkdfExpander> {
        self.suite.hkdf_provider.expander_for_okm(&self.secret)
    }
}

/// HKDF-Expand-Label without a context.
fn expand_label(
    expander: &dyn HkdfExpander,
    label: &[u8],
    into: &mut [u8],
) -> Result<(), TlsError> {
    const PREFIX: &[u8] = b"tls13 ";
    let wide = u16::try_from(into.len()).map_err(|_| TlsError::Internal)?;
    let long = u8::try_from(PREFIX.len() + label.len()).map_err(|_| TlsError::Internal)?;
    let info: [&[u8]; 5] = [&wide.to_be_bytes(), &[long], PREFIX, label, &[0]];
    let expanded = expander.expand_slice(&info, into);
    expanded.map_err(|_| TlsError::Internal)
}

/// A key, and the number of records for which it was used. No nonce is used twice.
pub(super) struct RecordKey {
    pub(super) aead: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_BYTES]>,
    pub(super) sequence: u64,
}

impl RecordKey {
    /// The nonce of the next record.
    pub(super) fn next_nonce(&mut self) -> Result<Nonce, TlsError> {
        let mut nonce = *self.iv;
        let counter = self.sequence.to_be_bytes();
        let low = nonce.iter_mut().rev().zip(counter.iter().rev());
        low.for_each(|(byte, count)| *byte ^= count);
        self.sequence = self.sequence.checked_add(1).ok_or(TlsError::Internal)?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    /// RFC 8448, section 3: the server's application traffic.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let secret = bytes("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
        let secret = TrafficSecret::new(TLS13_AES_128_GCM_SHA256, OkmBlock::new(&secret)).unwrap();
        let mut key = [0; 16];
        expand_label(&*secret.expander(), b"key", &mut key).unwrap();

        let made = secret.key().unwrap();

        assert_eq!(key[..], bytes("9f02283b6c9c07efc26bb9f2ac92e356"));
        assert_eq!(made.iv[..], bytes("cf782b88dd83549aadf1e984"));
    }

    #[test]
    fn no_two_records_have_one_nonce_and_the_first_has_the_iv() {
        let secret = OkmBlock::new(&[7; 32]);
        let secret = TrafficSecret::new(TLS13_AES_128_GCM_SHA256, secret).unwrap();
        let mut key = secret.key().unwrap();
        let iv = *key.iv;

        let first = *key.next_nonce().unwrap().as_ref();
        key.sequence = 0x0102_0304_0506_0708;
        let later = *key.next_nonce().unwrap().as_ref();
        key.sequence = u64::MAX;

        assert_eq!(first, iv);
        let difference: Vec<u8> = iv.iter().zip(later).map(|(a, b)| a ^ b).collect();
        assert_eq!(difference, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(key.next_nonce().err(), Some(TlsError::Internal));
    }

    #[test]
    fn a_secret_and_the_next_one_have_nothing_in_common() {
        let secret = OkmBlock::new(&[7; 32]);
        let secret = TrafficSecret::new(TLS13_AES_128_GCM_SHA256, secret).unwrap();

        let next = secret.next().unwrap();

        assert_ne!(secret.secret.as_ref(), next.secret.as_ref());
        assert_ne!(*secret.key().unwrap().iv, *next.key().unwrap().iv);
    }

    #[test]
    fn what_is_overheard_is_not_shown() {
        let overheard = Overheard::default();
        overheard.log(CLIENT, &[], &[42; 32]);
        overheard.log("EXPORTER_SECRET", &[], &[42; 32]);

        assert_eq!(format!("{overheard:?}"), "Overheard");
        assert!(overheard.take_server().is_none());
        assert_eq!(overheard.take_client().unwrap().as_ref(), [42; 32]);
        assert!(overheard.take_client().is_none());
    }
}
