//! Bytes that somebody else has made, changed, repeated, left out, moved or cut: errors, and never data.

use proptest::prelude::*;
use rustls::AlertDescription;

use super::super::record::{Content, HEADER_BYTES, OVERHEAD_BYTES, RECORD_MAX};
use super::*;

/// Two ends of this crate.
fn pair() -> (Ours, Ours) {
    let met = meet(SUITES[0]);
    (met.our_client, met.our_server)
}

/// The records of several pieces.
fn records(from: &mut Ours, sizes: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let sent = pattern(sizes.iter().sum());
    let mut rest = sent.as_slice();
    let mut records = Vec::new();
    for size in sizes {
        let (piece, others) = rest.split_at(*size);
        records.push(from.say(piece).unwrap());
        rest = others;
    }
    (sent, records)
}

/// What somebody in between does.
#[derive(Clone, Debug)]
enum Attack {
    Flip {
        at: prop::sample::Index,
        bit: u8,
    },
    Cut {
        at: prop::sample::Index,
    },
    Insert {
        at: prop::sample::Index,
        bytes: Vec<u8>,
    },
    Drop {
        record: prop::sample::Index,
    },
    Repeat {
        record: prop::sample::Index,
    },
    Swap {
        record: prop::sample::Index,
    },
}

fn attack() -> impl Strategy<Value = Attack> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Attack::Flip { at, bit }),
        at().prop_map(|at| Attack::Cut { at }),
        (at(), prop::collection::vec(any::<u8>(), 1..50))
            .prop_map(|(at, bytes)| Attack::Insert { at, bytes }),
        at().prop_map(|record| Attack::Drop { record }),
        at().prop_map(|record| Attack::Repeat { record }),
        at().prop_map(|record| Attack::Swap { record }),
    ]
}

impl Attack {
    fn on(&self, mut records: Vec<Vec<u8>>) -> Vec<u8> {
        match self {
            Self::Drop { record } => {
                records.remove(record.index(records.len()));
            }
            Self::Repeat { record } => {
                let record = record.index(records.len());
                records.insert(record, records[record].clone());
            }
            Self::Swap { record } => {
                let record = record.index(records.len() - 1);
                records.swap(record, record + 1);
            }
            Self::Flip { .. } | Self::Cut { .. } | Self::Insert { .. } => {}
        }
        let mut wire = records.concat();
        match self {
            Self::Flip { at, bit } => {
                let at = at.index(wire.len());
                wire[at] ^= 1 << bit;
            }
            Self::Cut { at } => wire.truncate(at.index(wire.len())),
            Self::Insert { at, bytes } => {
                let at = at.index(wire.len());
                wire.splice(at..at, bytes.iter().copied());
            }
            Self::Drop { .. } | Self::Repeat { .. } | Self::Swap { .. } => {}
        }
        wire
    }
}

proptest! {
    #[test]
    fn what_is_heard_is_the_beginning_of_what_was_sent_whatever_happens_in_between(
        sizes in prop::collection::vec(prop_oneof![1..60_usize, 1000..3000_usize, Just(16384)], 2..6),
        attack in attack(),
        room in prop_oneof![1..100_usize, Just(16384), Just(16385), Just(300_000)],
    ) {
        let (mut sends, mut hears) = pair();
        let (sent, records) = records(&mut sends, &sizes);
        let whole = records.concat();
        let wire = attack.on(records);
        prop_assume!(wire != whole);

        let (heard, end) = hears.hear(&wire, room);

        prop_assert!(sent.starts_with(&heard));
        prop_assert!(heard.len() < sent.len() || end.is_err());
        prop_assert_ne!(end, Ok(Received::Closed));
        if let Err(error) = end {
            // What follows is not believed either, and nothing is sent any more.
            let (more, again) = hears.hear(&whole, room);
            prop_assert_eq!((more, again), (vec![], Err(error)));
        }
    }

    #[test]
    fn bytes_out_of_nowhere_are_never_data(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        as_record in any::<bool>(),
        room in 1..3000_usize,
    ) {
        let (_, mut hears) = pair();
        let mut wire = bytes;
        if as_record {
            let [high, low] = u16::try_from(wire.len()).unwrap().to_be_bytes();
            wire.splice(0..0, [23, 3, 3, high, low]);
        }

        let (heard, end) = hears.hear(&wire, room);

        prop_assert_eq!(heard, vec![]);
        prop_assert_ne!(end, Ok(Received::Closed));
    }
}

#[test]
fn lengths_and_kinds_that_cannot_be_are_refused_before_anything_is_waited_for() {
    let longest = u16::try_from(RECORD_MAX - HEADER_BYTES).unwrap();
    for (kind, length, error) in [
        (23, longest + 1, TlsError::TooLong),
        (23, u16::MAX, TlsError::TooLong),
        (23, 16, TlsError::Forged),
        (23, 0, TlsError::Forged),
        // An alert that is not encrypted, a change of cipher, a handshake anew.
        (21, 2, TlsError::Unexpected),
        (20, 1, TlsError::Unexpected),
        (22, 100, TlsError::Unexpected),
        (b'P', 100, TlsError::Unexpected),
    ] {
        let (_, mut hears) = pair();
        let [high, low] = length.to_be_bytes();
        let heard = hears.hear(&[kind, 3, 3, high, low], 100);
        assert_eq!(heard, (vec![], Err(error)), "{kind} {length}");
    }
}

/// A record that the other end has really sealed, whatever is in it.
fn sealed(by: &mut Ours, content: Content, plain: &[u8]) -> Vec<u8> {
    let mut record = vec![0; plain.len() + OVERHEAD_BYTES];
    by.writer
        .sealer_mut()
        .seal(content, plain, &mut record)
        .unwrap();
    record
}

#[test]
fn messages_that_have_no_place_after_a_handshake_end_the_session() {
    let ticket = [4, 0, 0, 2, 9, 9];
    let cases: [(&[u8], TlsError); 10] = [
        // A client, a server and a certificate, all over again.
        (&[1, 0, 0, 0], TlsError::Unexpected),
        (&[2, 0, 0, 0], TlsError::Unexpected),
        (&[13, 0, 0, 0], TlsError::Unexpected),
        // A ticket, from who has dialled.
        (&ticket, TlsError::Unexpected),
        (&[24, 0, 0, 1, 2], TlsError::Illegal),
        (&[24, 0, 0, 2, 0, 0], TlsError::Illegal),
        (&[24, 0, 0, 0], TlsError::Illegal),
        (&[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], TlsError::Unexpected),
        (&[24, 0, 0, 1], TlsError::Unreadable),
        (&[], TlsError::Unreadable),
    ];
    for (message, error) in cases {
        let (mut sends, mut hears) = pair();
        let wire = sealed(&mut sends, Content::Handshake, message);
        assert_eq!(hears.hear(&wire, 100), (vec![], Err(error)), "{message:?}");
    }
}

#[test]
fn alerts_are_two_bytes_and_all_but_one_are_the_end() {
    for (alert, end) in [
        (&[1, 0][..], Ok(Received::Closed)),
        (&[2, 0], Ok(Received::Closed)),
        (&[1, 90], Ok(Received::Nothing)),
        (
            &[1, 49],
            Err(TlsError::Told(AlertDescription::AccessDenied)),
        ),
        (
            &[2, 20],
            Err(TlsError::Told(AlertDescription::BadRecordMac)),
        ),
        (&[2], Err(TlsError::Unreadable)),
        (&[2, 0, 0], Err(TlsError::Unreadable)),
    ] {
        let (mut sends, mut hears) = pair();
        let wire = sealed(&mut sends, Content::Alert, alert);
        assert_eq!(hears.hear(&wire, 100), (vec![], end), "{alert:?}");
    }
}

#[test]
fn who_sends_records_without_data_for_ever_is_not_heard_for_ever() {
    let update = [24, 0, 0, 1, 1];
    for (content, plain) in [
        (Content::Data, &[][..]),
        (Content::Handshake, &update),
        (Content::Alert, &[1, 90]),
    ] {
        let (mut sends, mut hears) = pair();
        let mut idle = |count| {
            let mut wire = Vec::new();
            for _ in 0..count {
                wire.extend(sealed(&mut sends, content, plain));
                if content == Content::Handshake {
                    sends.writer.sealer_mut().update().unwrap();
                }
            }
            wire.extend(sends.say(b"data").unwrap());
            wire
        };
        let (few, few_again, many) = (idle(30), idle(30), idle(33));

        let data = (b"data".to_vec(), Ok(Received::Nothing));
        assert_eq!(hears.hear(&few, 100), data, "{content:?}");
        assert_eq!(hears.hear(&few_again, 100), data, "{content:?}");
        assert_eq!(
            hears.hear(&many, 100),
            (vec![], Err(TlsError::Unexpected)),
            "{content:?}"
        );
        // However often it was asked for a key, it answers once.
        let answers = hears.written().len() / (5 + OVERHEAD_BYTES);
        assert_eq!(answers, usize::from(content == Content::Handshake));
    }
}
