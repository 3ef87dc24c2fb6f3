//! Bytes as text that survives a shell, a YAML file and being read aloud: base32 of RFC 4648, in lower case, without
//! padding.

use data_encoding::BASE32_NOPAD;
use zeroize::{Zeroize, Zeroizing};

/// Encodes bytes.
pub(crate) fn encode(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(BASE32_NOPAD.encode(bytes));
    text.make_ascii_lowercase();
    text
}

/// Decodes a text of either case. `None` if [`encode`] would not write it.
///
/// The memory that it allocates is bounded by the length of the text. The caller bounds that length.
pub(crate) fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut upper = text.to_ascii_uppercase();
    let bytes = BASE32_NOPAD.decode(upper.as_bytes()).ok();
    upper.zeroize();
    bytes.map(Zeroizing::new)
}

/// Decodes a text of exactly `N` bytes.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    // As long as N bytes are, so that nothing longer is looked at.
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    decode(text)?.as_slice().try_into().ok()
}

/// Whether the character may occur in such a text.
pub(crate) fn has(character: char) -> bool {
    matches!(character, 'a'..='z' | 'A'..='Z' | '2'..='7')
}
