//! A strong hash of content: BLAKE3, computed by all cores.

/// The BLAKE3 hash of `bytes`, which may start at any address.
///
/// Nobody can make two contents of the same hash, so a hash that came from a trusted place proves
/// content that came from anywhere.
///
/// ```
/// assert_ne!(pccl_kernels::content_hash(b"weights"), pccl_kernels::content_hash(b"weight"));
/// ```
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}
