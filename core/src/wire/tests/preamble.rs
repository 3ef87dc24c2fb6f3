//! The first bytes of a connection and of its answer.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::select;

use crate::id::{PeerId, ProtocolVersion, Ticket};
use crate::wire::{
    PREAMBLE_BYTES, Preamble, PreambleError, Purpose, REFUSAL_TEXT_MAX, REPLY_HEAD_BYTES, Reply,
    ReplyError, ReplyHead,
};

const EXAMPLE: Preamble = Preamble {
    purpose: Purpose::LinkLane,
    from: PeerId(0x0807_0605_0403_0201),
    ticket: Ticket(0x1f1e_1d1c_1b1a_1918_1716_1514_1312_1110),
    lane: 0x0302,
    lanes: 0x0504,
};

#[rustfmt::skip]
const EXAMPLE_BYTES: [u8; PREAMBLE_BYTES] = [
    b'P', b'C', b'C', b'L', 16, 0, 2, 0,
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
    0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
    0x02, 0x03, 0x04, 0x05,
];

fn preamble() -> impl Strategy<Value = Preamble> {
    let ids = (any::<u64>(), any::<u128>());
    (select(&Purpose::ALL[..]), ids, any::<u16>(), 1..=u16::MAX).prop_map(
        |(purpose, (from, ticket), lane, lanes)| Preamble {
            purpose,
            from: PeerId(from),
            ticket: Ticket(ticket),
            lane: lane % lanes,
            lanes,
        },
    )
}

fn with_byte(at: usize, byte: u8) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = EXAMPLE_BYTES;
    bytes[at] = byte;
    bytes
}

/// Understands a reply as a stream would bring it.
fn decode_reply(bytes: &[u8]) -> Result<Reply, ReplyError> {
    let (head, text) = bytes.split_first_chunk::<REPLY_HEAD_BYTES>().unwrap();
    ReplyHead::decode(head)?.finish(text)
}

#[test]
fn the_layout_of_a_preamble_never_changes() {
    assert_eq!(EXAMPLE.encode(), EXAMPLE_BYTES);
    assert_eq!(Preamble::decode(&EXAMPLE_BYTES), Ok(EXAMPLE));
}

#[test]
fn every_field_that_makes_no_sense_is_named() {
    let theirs = ProtocolVersion(272);
    let no_such_lane = PreambleError::NoSuchLane {
        lane: 0x0302,
        lanes: 0x0104,
    };
    let cases = [
        (0, b'H', PreambleError::WrongMagic),
        (5, 1, PreambleError::UnsupportedVersion { theirs }),
        (6, 0, PreambleError::UnknownPurpose { purpose: 0 }),
        (6, 6, PreambleError::UnknownPurpose { purpose: 6 }),
        (7, 1, PreambleError::ReservedNotZero),
        (35, 1, no_such_lane),
    ];

    for (at, byte, error) in cases {
        assert_eq!(Preamble::decode(&with_byte(at, byte)), Err(error));
    }
}

#[test]
fn an_edge_of_three_lanes_has_no_fourth_and_an_edge_without_lanes_none() {
    for (lane, lanes) in [(3, 3), (0, 0)] {
        let preamble = Preamble {
            lane,
            lanes,
            ..EXAMPLE
        };
        let error = PreambleError::NoSuchLane { lane, lanes };
        assert_eq!(Preamble::decode(&preamble.encode()), Err(error));
    }
}

#[test]
fn whoever_speaks_another_version_reads_both_versions() {
    let error = Preamble::decode(&with_byte(4, 17)).unwrap_err();

    let Reply::Refused(text) = decode_reply(&Reply::from(error).encode()).unwrap() else {
        panic!("accepted")
    };

    assert!(text.contains("protocol version 16"), "{text}");
    assert!(text.contains("protocol version 17"), "{text}");
}

#[test]
fn whoever_speaks_something_else_reads_what_this_is() {
    let http = *b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n\0";

    let error = Preamble::decode(&http).unwrap_err();

    assert_eq!(error, PreambleError::WrongMagic);
    assert!(
        error
            .to_string()
            .contains("this port speaks pccl, protocol version 16")
    );
}

#[test]
fn whoever_speaks_tls_is_told_from_other_strangers() {
    // As every ClientHello begins: a handshake record of version 3.1, here of 512 bytes.
    let mut hello = [0; PREAMBLE_BYTES];
    hello[..6].copy_from_slice(&[0x16, 3, 1, 2, 0, 1]);

    let error = Preamble::decode(&hello).unwrap_err();

    assert_eq!(error, PreambleError::Encrypted);
    assert!(error.to_string().len() <= REFUSAL_TEXT_MAX);
    hello[1] = 4;
    assert_eq!(Preamble::decode(&hello), Err(PreambleError::WrongMagic));
}

#[test]
fn the_layout_of_a_reply_never_changes() {
    assert_eq!(Reply::Accepted.encode(), b"PCCL\x10\0\0\0");
    assert_eq!(
        Reply::Refused("no".to_string()).encode(),
        b"PCCL\x10\0\x01\x02no"
    );
    assert_eq!(
        Reply::NotYet("wait".to_string()).encode(),
        b"PCCL\x10\0\x02\x04wait"
    );
}

#[test]
fn a_long_refusal_is_cut_between_two_characters() {
    let long = "é".repeat(200);

    let reply = decode_reply(&Reply::Refused(long).encode()).unwrap();

    assert_eq!(reply, Reply::Refused("é".repeat(REFUSAL_TEXT_MAX / 2)));
}

#[test]
fn a_refusal_of_another_version_is_understood_and_an_acceptance_is_not() {
    let refused = decode_reply(b"PCCL\x11\0\x01\x03bye");
    let of_a_kind_not_known_here = decode_reply(b"PCCL\x11\0\x03\x03bye");
    let not_yet = decode_reply(b"PCCL\x11\0\x02\x05later");
    let accepted = decode_reply(b"PCCL\x11\0\0\0");

    assert_eq!(refused, Ok(Reply::Refused("bye".to_string())));
    assert_eq!(of_a_kind_not_known_here, refused);
    assert_eq!(not_yet, Ok(Reply::NotYet("later".to_string())));
    let theirs = ProtocolVersion(17);
    assert_eq!(accepted, Err(ReplyError::UnsupportedVersion { theirs }));
}

#[test]
fn answers_that_make_no_sense_are_named() {
    assert_eq!(decode_reply(b"SSH-2.0-"), Err(ReplyError::WrongMagic));
    assert_eq!(
        decode_reply(b"PCCL\x10\0\0\x01a"),
        Err(ReplyError::TextWithoutRefusal)
    );
    assert_eq!(
        decode_reply(b"PCCL\x10\0\x01\x02a"),
        Err(ReplyError::TextLength)
    );
    assert_eq!(
        decode_reply(b"PCCL\x10\0\x01\x01\xff"),
        Err(ReplyError::TextNotUtf8)
    );
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn a_preamble_arrives_as_it_was_sent(preamble in preamble()) {
        prop_assert_eq!(Preamble::decode(&preamble.encode()), Ok(preamble));
    }

    #[test]
    fn whatever_is_taken_for_a_preamble_is_exactly_one(
        mut bytes in any::<[u8; 32]>(), end in any::<[u8; 4]>(), front in 0..=8_usize
    ) {
        bytes[..front].copy_from_slice(&EXAMPLE_BYTES[..front]);
        let bytes: Vec<u8> = [&bytes[..], &end].concat();
        let bytes: [u8; PREAMBLE_BYTES] = bytes.try_into().unwrap();

        if let Ok(preamble) = Preamble::decode(&bytes) {
            prop_assert_eq!(preamble.encode(), bytes);
        }
    }

    #[test]
    fn a_reply_arrives_as_it_was_sent(text in ".{0,60}") {
        for reply in [Reply::Accepted, Reply::Refused(text.clone()), Reply::NotYet(text)] {
            prop_assert_eq!(decode_reply(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn any_answer_is_survived(head in any::<[u8; 4]>(), text in any::<[u8; 255]>()) {
        let bytes: Vec<u8> = [b"PCCL", &head[..], &text].concat();
        let head = ReplyHead::decode(bytes.first_chunk().unwrap());

        if let Ok(head) = head {
            let text = &bytes[REPLY_HEAD_BYTES..][..head.text_bytes()];
            let expected = core::str::from_utf8(text).is_ok();
            prop_assert_eq!(head.finish(text).is_ok(), expected);
        }
    }

    #[test]
    fn the_text_of_any_refusal_fits(text in any::<String>()) {
        let bytes = Reply::Refused(text.repeat(20)).encode();

        prop_assert!(bytes.len() <= REPLY_HEAD_BYTES + REFUSAL_TEXT_MAX);
        prop_assert!(decode_reply(&bytes).is_ok());
    }
}
