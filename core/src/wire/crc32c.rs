//! CRC-32C (Castagnoli), for headers and control frames: short, so tables are fast enough.

/// The polynomial, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Bytes that are processed by one step.
const SLICE: usize = 8;

/// By distance from the end of a slice, what each byte adds.
static TABLES: [[u32; 256]; SLICE] = tables();

/// The CRC-32C of these bytes: `0xe306_9283` for `123456789` in ASCII. It detects every burst of up to 32 bits, and
/// in up to 655 bytes every five flipped bits.
#[must_use]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let (slices, rest) = bytes.as_chunks::<SLICE>();
    let crc = slices.iter().fold(!0, |crc: u32, slice| {
        let [a, b, c, d] = crc.to_le_bytes();
        let [s0, s1, s2, s3, s4, s5, s6, s7] = *slice;
        let mixed = [s0 ^ a, s1 ^ b, s2 ^ c, s3 ^ d, s4, s5, s6, s7];
        let parts = TABLES.iter().rev().zip(mixed);
        parts.fold(0, |crc, (table, byte)| crc ^ at(table, byte))
    });
    let crc = rest.iter().fold(crc, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        let [table, ..] = &TABLES;
        (crc >> 8) ^ at(table, low ^ byte)
    });
    !crc
}

/// A table has a value for every byte.
fn at(table: &[u32; 256], byte: u8) -> u32 {
    table.get(usize::from(byte)).copied().unwrap_or_default()
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "runs at compile time, where iterators and conversions are not available"
)]
const fn tables() -> [[u32; 256]; SLICE] {
    let mut tables = [[0; 256]; SLICE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 1;
            crc = (crc >> 1) ^ (carry * POLYNOMIAL);
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut further = 1;
    while further < SLICE {
        let mut byte = 0;
        while byte < 256 {
            let crc: u32 = tables[further - 1][byte];
            tables[further][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        further += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, as the polynomial says.
    fn slowly(bytes: &[u8]) -> u32 {
        let mut crc = !0;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ ((crc & 1) * POLYNOMIAL);
            }
        }
        !crc
    }

    #[test]
    fn published_values_are_reproduced() {
        // RFC 3720, section B.4, and the check value of the catalogues.
        let ascending: Vec<u8> = (0..32).collect();

        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn slices_give_what_single_bits_give(
            bytes in proptest::collection::vec(any::<u8>(), 0..100)
        ) {
            prop_assert_eq!(crc32c(&bytes), slowly(&bytes));
        }
    }
}
