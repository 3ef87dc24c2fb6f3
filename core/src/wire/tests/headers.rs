//! The headers of data frames and of ranges of shared state.

use proptest::prelude::*;

use crate::id::{EntryIndex, Seq};
use crate::wire::crc32c::crc32c;
use crate::wire::{
    DATA_FRAME_MAX, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, FrameError, FrameHeader, PayloadSum,
    STATE_RANGE_HEADER_BYTES, StateRange, UnexpectedRange,
};

const FRAME: FrameHeader = FrameHeader {
    seq: Seq(0x0807_0605_0403_0201),
    offset: 0x1817_1615_1413_1211,
    length: 0x0002_2120,
    step: 0x2726_2524,
    stripe: 0x2928,
    flags: 0,
    sum: Some(PayloadSum(0x3736_3534_3332_3130)),
};

#[rustfmt::skip]
const FRAME_BYTES: [u8; FRAME_HEADER_BYTES] = [
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    0x20, 0x21, 0x02, 0x00, 0x24, 0x25, 0x26, 0x27,
    0x28, 0x29, 0x02, 0x00, 0x30, 0x31, 0x32, 0x33,
    0x34, 0x35, 0x36, 0x37, 0x1F, 0xAB, 0x1D, 0x9F,
];

/// A header without a checksum of its payload.
const BARE: FrameHeader = FrameHeader { sum: None, ..FRAME };

/// What becomes of a header whose other end sums whatever it sends.
fn with_its_sum(mut bytes: [u8; FRAME_HEADER_BYTES]) -> [u8; FRAME_HEADER_BYTES] {
    let (covered, own) = bytes.split_last_chunk_mut().unwrap();
    *own = crc32c(covered).to_le_bytes();
    bytes
}

/// A header without a checksum of its payload, of a sender that sets this byte.
fn frame_with(at: usize, byte: u8) -> Result<FrameHeader, FrameError> {
    let mut bytes = BARE.encode();
    bytes[at] = byte;
    FrameHeader::decode(&with_its_sum(bytes))
}

#[test]
fn the_layout_of_a_data_frame_is_documented() {
    assert_eq!(FRAME.encode(), FRAME_BYTES);
    assert_eq!(FrameHeader::decode(&FRAME_BYTES), Ok(FRAME));
}

#[test]
fn what_a_later_version_may_mean_is_not_guessed() {
    assert_eq!(
        frame_with(26, 4),
        Err(FrameError::UnknownFlags { flags: 4 })
    );
    assert_eq!(frame_with(28, 1), Err(FrameError::ReservedNotZero));
    assert_eq!(frame_with(35, 1), Err(FrameError::ReservedNotZero));
}

#[test]
fn a_header_without_a_checksum_of_its_payload_says_so() {
    assert_eq!(FrameHeader::decode(&BARE.encode()), Ok(BARE));
    let zero = FrameHeader {
        sum: Some(PayloadSum(0)),
        ..FRAME
    };
    assert_eq!(FrameHeader::decode(&zero.encode()), Ok(zero));
}

#[test]
fn a_header_with_a_flipped_bit_is_refused_whichever_it_is() {
    for header in [FRAME, BARE] {
        for bit in 0..8 * FRAME_HEADER_BYTES {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                FrameHeader::decode(&bytes),
                Err(FrameError::Damaged),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn a_frame_of_the_greatest_length_is_taken_and_a_longer_one_is_not() {
    let frame = |length: usize| FrameHeader {
        length: length as u32,
        ..FRAME
    };

    let longest = FrameHeader::decode(&frame(DATA_FRAME_MAX).encode());
    let longer = FrameHeader::decode(&frame(DATA_FRAME_MAX + 1).encode());

    assert_eq!(longest, Ok(frame(DATA_FRAME_MAX)));
    let length = DATA_FRAME_MAX as u32 + 1;
    assert_eq!(longer, Err(FrameError::TooLong { length }));
    const { assert!(FRAME_PAYLOAD_MAX <= DATA_FRAME_MAX) };
}

#[test]
fn the_layout_of_a_range_is_documented() {
    let range = StateRange {
        entry: EntryIndex(0x0403_0201),
        length: 0x0807_0605,
        offset: 0x1817_1615_1413_1211,
    };
    let bytes: [u8; STATE_RANGE_HEADER_BYTES] = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    ];

    assert_eq!(range.encode(), bytes);
    assert_eq!(StateRange::decode(&bytes), range);
}

#[test]
fn a_range_that_was_not_asked_for_is_not_taken() {
    let expected = StateRange {
        entry: EntryIndex(1),
        length: 10,
        offset: 20,
    };
    let others = [
        StateRange {
            entry: EntryIndex(2),
            ..expected
        },
        StateRange {
            length: 11,
            ..expected
        },
        StateRange {
            offset: 21,
            ..expected
        },
    ];

    for arrived in others {
        let result = StateRange::decode_expecting(&arrived.encode(), expected);
        assert_eq!(result, Err(UnexpectedRange { arrived, expected }));
    }
    assert_eq!(
        StateRange::decode_expecting(&expected.encode(), expected),
        Ok(())
    );
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn a_frame_header_arrives_as_it_was_sent(
        seq in any::<u64>(), offset in any::<u64>(), length in 0..=DATA_FRAME_MAX as u32,
        step in any::<u32>(), stripe in any::<u16>(), flags in 0..=FrameHeader::LEFT_MACHINE,
        sum in any::<Option<u64>>()
    ) {
        let (seq, sum) = (Seq(seq), sum.map(PayloadSum));
        let header = FrameHeader { seq, offset, length, step, stripe, flags, sum };

        prop_assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn whatever_is_taken_for_a_frame_header_is_exactly_one(
        bytes in any::<[u8; FRAME_HEADER_BYTES]>(), plausible in any::<bool>()
    ) {
        let mut bytes = bytes;
        if plausible {
            bytes[26..].fill(0);
            bytes[18..20].fill(0);
            bytes = with_its_sum(bytes);
        }

        match FrameHeader::decode(&bytes) {
            Ok(header) => prop_assert_eq!(header.encode(), bytes),
            Err(_) => prop_assert!(!plausible),
        }
    }

    #[test]
    fn whatever_is_taken_for_a_range_is_exactly_one(
        bytes in any::<[u8; STATE_RANGE_HEADER_BYTES]>()
    ) {
        prop_assert_eq!(StateRange::decode(&bytes).encode(), bytes);
    }
}
