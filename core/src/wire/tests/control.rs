//! Control frames: round trips, hostile bytes, splits at any point, memory.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::collection::vec as list;
use proptest::prelude::*;
use proptest::sample::Index;

use super::frame;
use super::strategies::{hello, to_master, to_peer};
use crate::element::ElementType;
use crate::id::{ContentHash, GroupId, PeerId, ProtocolVersion, Revision, Ticket};
use crate::master::MasterConfig;
use crate::messages::{Hello, ToMaster, ToPeer};
use crate::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use crate::site::{SiteMap, SiteName};
use crate::wire::crc32c::crc32c;
use crate::wire::{
    CONTROL_FRAME_MAX, CONTROL_HEAD_BYTES, ControlHead, ControlReader, DecodeError, EncodeError,
    FIRST_CONTROL_FRAME_MAX, MAX_ENTRY_NAME_BYTES, QUIET_MAX, QuietPeer, STATE_REQUEST_MAX,
    SessionFrame, SessionTerms, StateRequest, encode_control,
};

const HEARTBEAT: ToMaster = ToMaster::Heartbeat { moved: true };

fn encoded(messages: &[ToMaster]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        encode_control(message, &mut bytes).unwrap();
    }
    bytes
}

/// All messages that the reader has.
fn drain(reader: &mut ControlReader) -> Result<Vec<ToMaster>, DecodeError> {
    core::iter::from_fn(|| reader.next_message().transpose()).collect()
}

#[test]
fn a_frame_is_its_length_two_checksums_and_the_message() {
    let bytes = encoded(&[ToMaster::ArePeersPending, HEARTBEAT]);

    let (first, second) = bytes.split_at(CONTROL_HEAD_BYTES + 1);
    let [four, heartbeat] = [&[4][..], &[13, 1]];
    for (frame, length, body) in [(first, 1_u32, four), (second, 2, heartbeat)] {
        let summed = [length.to_le_bytes(), crc32c(body).to_le_bytes()].concat();
        let sum = crc32c(&summed).to_le_bytes();
        assert_eq!(frame, [&summed, &sum[..], body].concat());
    }
}

#[test]
fn a_frame_of_which_any_bit_was_changed_is_no_message() {
    let told = SessionFrame::Received { messages: 7 };
    let mut sound = encoded(&[HEARTBEAT]);
    let (of_message, mut of_session) = (sound.len(), Vec::new());
    told.encode(&mut of_session);
    sound.extend(&of_session);

    for bit in 0..8 * sound.len() {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut reader = ControlReader::new();
        reader.feed(&bytes);

        let is_in_first = bit / 8 < of_message;
        let first = reader.next_message::<ToMaster>();
        if is_in_first {
            assert_eq!(first, Err(DecodeError::Damaged), "bit {bit}");
            continue;
        }
        assert_eq!(first, Ok(Some(HEARTBEAT)), "bit {bit}");
        let second = reader.next_message::<ToMaster>();
        assert_eq!(second, Err(DecodeError::Damaged), "bit {bit}");
        assert_eq!(reader.take_acknowledged(), None);
    }
}

#[test]
fn a_frame_longer_than_allowed_is_refused_before_its_body_arrives() {
    let mut reader = ControlReader::new();
    let length = FIRST_CONTROL_FRAME_MAX + 1;
    reader.feed(&frame(length, &[]));

    let refused = DecodeError::TooLong {
        length,
        cap: FIRST_CONTROL_FRAME_MAX,
    };
    assert_eq!(drain(&mut reader), Err(refused));
    assert_eq!(reader.capacity(), 0);

    reader.feed(&encoded(&[HEARTBEAT]));
    assert_eq!(
        drain(&mut reader),
        Err(refused),
        "a broken stream stays broken"
    );
}

#[test]
fn a_frame_of_the_greatest_length_is_read() {
    let mut reader = ControlReader::with_cap(2);
    reader.feed(&encoded(&[HEARTBEAT, HEARTBEAT]));

    assert_eq!(drain(&mut reader), Ok(vec![HEARTBEAT; 2]));
}

#[test]
fn the_cap_rises_once_the_peer_is_known() {
    let mut reader = ControlReader::with_cap(0);
    reader.set_cap(1);
    reader.feed(&encoded(&[ToMaster::Leave]));

    assert_eq!(drain(&mut reader), Ok(vec![ToMaster::Leave]));
}

#[test]
fn a_body_that_goes_on_after_its_message_is_refused() {
    let mut reader = ControlReader::new();
    reader.feed(&frame(3, &[14, 0, 0]));

    assert_eq!(drain(&mut reader), Err(DecodeError::Rest { bytes: 2 }));
}

#[test]
fn bodies_that_are_no_message_are_refused() {
    let unknown_variant = frame(1, &[99]);
    let cut_short = frame(1, &[2]);
    let empty = frame(0, &[]);
    // A vote whose list claims four billion entries.
    let many = frame(9, &[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);

    for bytes in [unknown_variant, cut_short, empty, many] {
        let mut reader = ControlReader::new();
        reader.feed(&bytes);
        assert_eq!(drain(&mut reader), Err(DecodeError::Malformed), "{bytes:?}");
    }
}

/// As it travels: its length, then its bytes.
fn text(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[test]
fn a_hello_whose_site_has_no_possible_name_is_refused() {
    let decoded = |site: &[u8]| {
        // Version 5, group 0, port 1, no address of its own, one lane.
        let body = [&[0, 5, 0, 1, 0, 1], &text(site)[..], &text(b"")].concat();
        let mut reader = ControlReader::new();
        reader.feed(&frame(body.len(), &body));
        drain(&mut reader)
    };

    for site in ["", "eu-west-1", "Zürich", &"n".repeat(64)] {
        let hello = ToMaster::Hello(Hello {
            protocol: ProtocolVersion(5),
            group: GroupId(0),
            port: 1,
            advertise: None,
            lanes: 1,
            site: site.to_string().try_into().unwrap(),
            name: Default::default(),
        });
        assert_eq!(decoded(site.as_bytes()), Ok(vec![hello]));
    }
    let too_long = "n".repeat(65);
    for site in [
        too_long.as_bytes(),
        b"eu\nwest",
        b"eu\0",
        b"\x7f",
        "\u{85}".as_bytes(),
        b"\xff",
        b"~",
        b"~eu",
        b"~03",
        b"~+3",
    ] {
        assert_eq!(decoded(site), Err(DecodeError::Malformed), "{site:?}");
    }
}

#[test]
fn a_hello_whose_peer_has_no_possible_name_is_refused() {
    let decoded = |name: &[u8]| {
        let body = [&[0, 5, 0, 1, 0, 1], &text(b"")[..], &text(name)].concat();
        let mut reader = ControlReader::new();
        reader.feed(&frame(body.len(), &body));
        drain(&mut reader)
    };

    for name in ["", "gpu-7", "Zürich", &"n".repeat(64)] {
        assert!(decoded(name.as_bytes()).is_ok(), "{name:?}");
    }
    let too_long = "n".repeat(65);
    for name in [too_long.as_bytes(), b"gpu\n7", b"gpu\0", b"\xff"] {
        assert_eq!(decoded(name), Err(DecodeError::Malformed), "{name:?}");
    }
}

#[test]
fn a_topology_whose_sites_are_not_numbered_in_the_order_of_the_ranks_is_refused() {
    let decoded = |names: &[&str], numbers: &[u8]| {
        let list = |items: Vec<Vec<u8>>| [vec![items.len() as u8], items.concat()].concat();
        let names = list(names.iter().map(|name| text(name.as_bytes())).collect());
        let numbers = list(numbers.iter().map(|number| vec![*number]).collect());
        // Epoch 1 and a ring of one peer; one lane, not within a machine, four sizes of the world, no names and no
        // links.
        let body = [
            &[3, 1, 1, 7],
            &names[..],
            &numbers,
            &[1, 0, 1, 1, 1, 1, 0, 0],
        ]
        .concat();
        let mut reader = ControlReader::new();
        reader.feed(&frame(body.len(), &body));
        match reader.next_message()? {
            Some(ToPeer::TopologyEstablished { topology, .. }) => Ok(topology.sites),
            other => panic!("{other:?}"),
        }
    };
    let [eu, us, none] = ["eu", "us", ""].map(|name| name.to_string().try_into().unwrap());

    assert_eq!(decoded(&[], &[]), Ok(SiteMap::default()));
    assert_eq!(decoded(&[""], &[0, 0]), Ok(SiteMap::new([&none, &none])));
    let found = SiteName::found_around(PeerId(7));
    assert_eq!(
        decoded(&["~7"], &[0, 0]),
        Ok(SiteMap::new([&found, &found]))
    );
    let four = SiteMap::new([&eu, &none, &eu, &us]);
    assert_eq!(decoded(&["eu", "", "us"], &[0, 1, 0, 2]), Ok(four));
    let bad: [(&str, &[&str], &[u8]); 8] = [
        ("a number without a name", &["eu"], &[0, 1]),
        ("a large number", &["eu"], &[0, 127]),
        ("numbers without names", &[], &[0]),
        ("a name without ranks", &["eu", "us"], &[0, 0]),
        ("names without ranks", &["eu"], &[]),
        ("a name twice", &["eu", "eu"], &[0, 1]),
        ("another order", &["us", "eu"], &[1, 0]),
        ("no possible name", &["e\nu"], &[0]),
    ];
    for (what, names, numbers) in bad {
        let refused = Err(DecodeError::Malformed);
        assert_eq!(decoded(names, numbers), refused, "{what}");
    }
}

#[test]
fn an_announced_length_reserves_no_memory() {
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    reader.feed(&frame(CONTROL_FRAME_MAX, &[0; 10]));
    reader.feed(&[0; 20]);

    assert_eq!(drain(&mut reader), Ok(vec![]));
    assert!(reader.capacity() <= 64, "{}", reader.capacity());
}

fn largest_vote() -> ToMaster {
    let entry = EntryInfo {
        name: "n".repeat(MAX_ENTRY_NAME_BYTES),
        element: ElementType::F64,
        count: u64::MAX,
        hash: ContentHash(u128::MAX),
        allow_content_inequality: true,
    };
    ToMaster::SyncSharedState(SyncVote {
        revision: Revision(u64::MAX),
        strategy: SyncStrategy::ReceiveOnly,
        restart: true,
        entries: vec![entry; MasterConfig::default().entries_max.0 as usize],
    })
}

#[test]
fn the_longest_legal_vote_fits_and_its_memory_is_given_back() {
    let vote = largest_vote();
    let bytes = encoded(core::slice::from_ref(&vote));
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    let mut most = 0;

    for piece in bytes.chunks(4096) {
        assert_eq!(drain(&mut reader), Ok(vec![]));
        reader.feed(piece);
        most = most.max(reader.capacity());
    }

    assert_eq!(drain(&mut reader), Ok(vec![vote]));
    assert!(most <= CONTROL_FRAME_MAX + 4 + 4096, "{most}");
    assert!(reader.capacity() <= 16 * 1024, "{}", reader.capacity());
}

#[test]
fn the_longest_state_request_fits() {
    use crate::id::{EntryIndex, Round};
    use crate::wire::{STATE_RANGES_MAX, StateRange};
    let range = StateRange {
        entry: EntryIndex(u32::MAX),
        length: u32::MAX,
        offset: u64::MAX,
    };
    let request = StateRequest {
        round: Round(u64::MAX),
        ranges: vec![range; STATE_RANGES_MAX],
    };
    let mut bytes = Vec::new();
    encode_control(&request, &mut bytes).unwrap();
    let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
    reader.feed(&bytes);

    assert_eq!(reader.next_message(), Ok(Some(request)));
}

#[test]
fn a_message_that_nobody_would_take_is_not_sent() {
    let ToMaster::SyncSharedState(mut vote) = largest_vote() else {
        unreachable!()
    };
    vote.entries.extend_from_within(..4096);
    let mut out = vec![7];

    let result = encode_control(&ToMaster::SyncSharedState(vote), &mut out);

    assert!(matches!(result, Err(EncodeError::TooLong { length }) if length > CONTROL_FRAME_MAX));
    assert_eq!(out, [7]);
    assert!(result.unwrap_err().to_string().contains("5242880"));
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn messages_to_the_master_arrive_as_they_were_sent_however_the_stream_is_cut(
        messages in list(to_master(), 0..6), cuts in list(any::<Index>(), 0..8)
    ) {
        let bytes = encoded(&messages);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut reader = ControlReader::new();
        let mut arrived = Vec::new();
        let mut from = 0;

        for end in ends {
            reader.feed(&bytes[from..end]);
            arrived.extend(drain(&mut reader).unwrap());
            from = end;
        }

        prop_assert_eq!(arrived, messages);
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn messages_to_peers_arrive_as_they_were_sent(messages in list(to_peer(), 0..6)) {
        let mut reader = ControlReader::new();
        for message in &messages {
            let mut bytes = Vec::new();
            encode_control(message, &mut bytes).unwrap();
            reader.feed(&bytes);
        }

        for message in messages {
            prop_assert_eq!(reader.next_message::<ToPeer>(), Ok(Some(message)));
        }
        prop_assert_eq!(reader.next_message::<ToPeer>(), Ok(None));
    }

    #[test]
    fn a_hello_fits_what_strangers_may_send(hello in hello()) {
        let bytes = encoded(&[ToMaster::Hello(hello)]);

        prop_assert!(bytes.len() <= 192);
    }

    #[test]
    fn any_bytes_are_survived_within_the_memory_allowed(
        pieces in list(list(any::<u8>(), 0..300), 0..20), cap in 0..600_usize, small in any::<bool>()
    ) {
        let mut reader = ControlReader::with_cap(cap);
        for (at, mut piece) in pieces.into_iter().enumerate() {
            if small && at == 0 {
                // A length that is allowed, so that the body is looked at.
                piece = frame(cap / 2, &piece);
            }
            reader.feed(&piece);
            let result = drain(&mut reader);
            prop_assert!(reader.capacity() <= 2 * CONTROL_HEAD_BYTES + cap + 300, "{}", reader.capacity());
            if result.is_err() {
                prop_assert_eq!(reader.capacity(), 0);
            }
        }
    }

    #[test]
    fn any_body_is_decoded_or_refused(body in list(any::<u8>(), 0..200)) {
        for as_master in [true, false] {
            let mut reader = ControlReader::new();
            reader.feed(&frame(body.len(), &body));
            let whole = if as_master {
                reader.next_message::<ToMaster>().map(|message| message.is_some())
            } else {
                reader.next_message::<ToPeer>().map(|message| message.is_some())
            };
            prop_assert_ne!(whole, Ok(false));
        }
    }

    #[test]
    fn a_message_with_a_flipped_bit_is_decoded_or_refused(
        message in to_peer(), at in any::<Index>(), bit in 0..8
    ) {
        let mut bytes = Vec::new();
        encode_control(&message, &mut bytes).unwrap();
        let at = 4 + at.index(bytes.len() - 4);
        bytes[at] ^= 1_u8 << bit;
        let mut reader = ControlReader::new();
        reader.feed(&bytes);

        prop_assert_ne!(reader.next_message::<ToPeer>(), Ok(None));
    }
}

/// Session frames, as bytes.
fn session(frames: &[SessionFrame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes
}

#[test]
fn session_frames_come_between_messages_and_are_not_counted() {
    let terms = SessionTerms {
        token: Ticket(u128::MAX - 1),
        away_max: Duration::from_millis(60_001),
    };
    let mut bytes = session(&[SessionFrame::Opened(terms)]);
    encode_control(&ToPeer::Heartbeat, &mut bytes).unwrap();
    let (two, three) = (2, u64::MAX);
    bytes.extend(session(
        &[two, three].map(|messages| SessionFrame::Received { messages }),
    ));
    encode_control(&ToPeer::Stopping, &mut bytes).unwrap();
    let mut reader = ControlReader::new();
    let mut messages = Vec::new();

    for byte in bytes {
        reader.feed(&[byte]);
        messages.extend(reader.next_message::<ToPeer>().unwrap());
    }

    assert_eq!(messages, [ToPeer::Heartbeat, ToPeer::Stopping]);
    assert_eq!(reader.received(), 2);
    assert_eq!(reader.take_terms(), Some(terms));
    assert_eq!(reader.take_acknowledged(), Some(u64::MAX));
    assert_eq!(
        (reader.take_terms(), reader.take_acknowledged()),
        (None, None)
    );
    assert!(reader.is_empty());
}

#[test]
fn of_quiet_peers_as_many_are_kept_as_one_heartbeat_tells() {
    let quiet = |number: u64| QuietPeer {
        peer: PeerId(u64::MAX - number),
        millis: u32::MAX,
    };
    let frames: Vec<SessionFrame> = (0..100).map(|n| SessionFrame::Quiet(quiet(n))).collect();
    let mut bytes = session(&frames);
    encode_control(&ToPeer::Heartbeat, &mut bytes).unwrap();
    let mut reader = ControlReader::new();

    reader.feed(&bytes);

    assert_eq!(reader.next_message(), Ok(Some(ToPeer::Heartbeat)));
    let told: Vec<QuietPeer> = (0..QUIET_MAX as u64).map(quiet).collect();
    assert_eq!(reader.take_quiet(), told);
    assert_eq!(reader.take_quiet(), []);
}

#[test]
fn a_session_that_is_resumed_goes_on_counting() {
    let mut bytes = Vec::new();
    encode_control(&ToPeer::Heartbeat, &mut bytes).unwrap();
    let mut reader = ControlReader::resumed(100, 41);

    reader.feed(&bytes);

    assert_eq!(reader.next_message(), Ok(Some(ToPeer::Heartbeat)));
    assert_eq!(reader.received(), 42);
}

#[test]
fn a_session_frame_that_makes_no_sense_ends_the_stream() {
    let session = |length: usize, body: &[u8]| {
        let mut frame = frame(length, body);
        let (head, _) = frame.split_first_chunk_mut().unwrap();
        let sound = ControlHead::decode(*head).unwrap();
        *head = ControlHead {
            is_session: true,
            ..sound
        }
        .encode();
        frame
    };
    let too_long = |length| Err(DecodeError::TooLong { length, cap: 21 });
    let cases = [
        (session(0, &[]), Err(DecodeError::Malformed)),
        // There is no such kind; and fields that are too short or too long.
        (session(9, &[2; 9]), Err(DecodeError::Malformed)),
        (session(8, &[1; 8]), Err(DecodeError::Malformed)),
        (session(17, &[0; 17]), Err(DecodeError::Malformed)),
        // None of it is waited for.
        (session(22, &[]), too_long(22)),
        (session(0x7FFF_FFFF, &[]), too_long(0x7FFF_FFFF)),
    ];
    for (bytes, expected) in cases {
        let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);

        reader.feed(&bytes);

        assert_eq!(reader.next_message::<ToPeer>(), expected, "{bytes:?}");
        assert!(reader.capacity() < 1024);
    }
}
