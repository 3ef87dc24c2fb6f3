//! The cryptography for TLS and QUIC. Every configuration names this provider, so that providers which other crates
//! of a program install have no effect.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use zeroize::Zeroizing;

/// The operating system gave no randomness, so no key and no secret can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source failed: no key and no secret can be made on this machine")]
pub struct NoRandomness;

/// Cipher suites and key exchanges of TLS 1.3, in order of preference.
///
/// AES-128 comes before AES-256, because it is faster, and nothing here is broken by 2^128 guesses. The hybrid key
/// exchange comes first, so that traffic recorded today stays closed to a quantum computer of tomorrow.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..default_provider()
    })
}

/// Random bytes that only this process knows.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; N]);
    let source = default_provider().secure_random;
    source
        .fill(bytes.as_mut_slice())
        .map_err(|_| NoRandomness)?;
    Ok(bytes)
}
