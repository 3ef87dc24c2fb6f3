//! Bytes.
/// Longest entry name.
pub const MAX_ENTRY_NAME_BYTES: usize = 255;
