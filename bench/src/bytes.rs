//! Numbers of bytes on a command line.

use std::num::ParseIntError;

/// Why a text is no number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBytes {
    /// Something else than digits and one unit behind them.
    #[error("a number, with K, M or G at most")]
    NoNumber(#[from] ParseIntError),
    /// None at all, or more than a `usize` holds.
    #[error("more than nothing and less than everything")]
    OutOfRange,
}

/// Bytes, with a binary suffix: `4K` is 4096. At least one.
///
/// # Errors
/// It is no number, or none that a buffer can have.
pub fn bytes(text: &str) -> Result<usize, NotBytes> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (text.get(..at), 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 30),
        _ => (Some(text), 0),
    };
    let number: usize = digits.unwrap_or_default().parse()?;
    let bytes = number.checked_mul(1 << shift);
    bytes.filter(|bytes| *bytes > 0).ok_or(NotBytes::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_a_power_of_1024() {
        let read = ["1", "4K", "64m", "2G"].map(bytes);

        assert_eq!(read, [Ok(1), Ok(4 << 10), Ok(64 << 20), Ok(2 << 30)]);
    }

    #[test]
    fn nothing_too_much_and_other_words_are_refused() {
        let out_of_range = ["0", "0K", "18446744073709551615G"].map(bytes);

        assert!(
            out_of_range
                .iter()
                .all(|read| *read == Err(NotBytes::OutOfRange))
        );
        for text in ["", "K", "4KiB", "-1", "1.5M", "4 K"] {
            assert!(matches!(bytes(text), Err(NotBytes::NoNumber(_))), "{text}");
        }
    }
}
