//! Limits that transports enforce, and those on keys and join strings.

use crate::mistakes::{FoundBy, Mistake};

const fn tcp(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-transport-tcp",
        target: "--lib",
        test,
    }
}

const fn quic(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-transport-quic",
        target: "--lib",
        test,
    }
}

const fn trust(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-trust",
        target: "--lib",
        test,
    }
}

const ACCEPTOR: &str = "transport-tcp/src/tls/acceptor.rs";
const DOOR: &str = "transport-quic/src/door.rs";
const SETTINGS: &str = "transport-quic/src/settings.rs";
const BOOK: &str = "trust/src/invitations/book.rs";

/// What is removed from transports.
pub const TRANSPORTS: &[Mistake] = &[
    Mistake {
        name: "a-tls-handshake-may-take-for-ever",
        file: ACCEPTOR,
        edits: &[(
            "timeout(HANDSHAKE_LIMIT, receive(",
            "timeout(1000 * HANDSHAKE_LIMIT, receive(",
        )],
        found_by: tcp("tls::acceptor::tests::a_handshake_that_does_not_end_is_given_up"),
    },
    Mistake {
        name: "any-number-of-tls-handshakes",
        file: ACCEPTOR,
        edits: &[("Crowd::new(HANDSHAKES_MAX)", "Crowd::new(usize::MAX)")],
        found_by: tcp(
            "tls::acceptor::tests::of_too_many_half_finished_handshakes_the_oldest_gives_way",
        ),
    },
    Mistake {
        name: "handshake-records-may-be-longer-than-tls-allows",
        file: "transport-tcp/src/tls/handshake.rs",
        edits: &[
            ("bytes > RECORD_MAX ||", "bytes > usize::MAX ||"),
            ("if said > RECORD_MAX", "if said > usize::MAX"),
        ],
        found_by: tcp(
            "tls::acceptor::tests::a_record_longer_than_tls_allows_ends_the_handshake_before_its_time_is_over",
        ),
    },
    Mistake {
        name: "records-may-be-longer-than-tls-allows",
        file: "transport-tcp/src/tls/record.rs",
        edits: &[(
            "TRAILER_BYTES..=BODY_MAX => Ok",
            "TRAILER_BYTES..=usize::MAX => Ok",
        )],
        found_by: tcp(
            "tls::tests::hostile::lengths_and_kinds_that_cannot_be_are_refused_before_anything_is_waited_for",
        ),
    },
    Mistake {
        name: "any-number-of-records-without-data",
        file: "transport-tcp/src/tls/record_reader.rs",
        edits: &[(
            "self.idle += 1;\n        if self.idle > IDLE_MAX",
            "self.idle = self.idle.saturating_add(1);\n        if self.idle > u8::MAX",
        )],
        found_by: tcp(
            "tls::tests::hostile::who_sends_records_without_data_for_ever_is_not_heard_for_ever",
        ),
    },
    Mistake {
        name: "what-was-read-and-not-opened-grows-for-ever",
        file: "transport-tcp/src/tls/read_buffer.rs",
        edits: &[("BYTES_MAX.min(2 * bytes)", "2 * bytes")],
        found_by: tcp(
            "tls::tests::bounds::what_is_read_at_a_time_grows_with_what_comes_and_never_beyond_a_bound",
        ),
    },
    Mistake {
        name: "foreign-connection-ids-draw-resets",
        file: "transport-quic/src/resets.rs",
        edits: &[(
            "Some((random, tag)) if self.tag(random) == *tag => Ok(()),",
            "Some((random, _)) if random.len() == RANDOM_BYTES => Ok(()),",
        )],
        found_by: quic("tests::resets::packets_whose_connection_ids_are_foreign_draw_no_reset"),
    },
    Mistake {
        name: "a-quic-handshake-may-take-for-ever",
        file: DOOR,
        edits: &[(
            "timeout(HANDSHAKE_LIMIT, receive(",
            "timeout(1000 * HANDSHAKE_LIMIT, receive(",
        )],
        found_by: quic("tests::strangers::a_handshake_that_does_not_end_is_given_up"),
    },
    Mistake {
        name: "any-number-of-quic-connections-without-a-lane",
        file: DOOR,
        edits: &[("Crowd::new(HANDSHAKES_MAX)", "Crowd::new(usize::MAX)")],
        found_by: quic(
            "tests::strangers::openers_that_finish_their_handshake_and_say_nothing_keep_nobody_out",
        ),
    },
    Mistake {
        name: "no-address-has-to-be-proved",
        file: DOOR,
        edits: &[(
            "under_way >= HANDSHAKES_UNASKED &&",
            "under_way == usize::MAX &&",
        )],
        found_by: quic(
            "tests::strangers::a_flood_of_half_finished_handshakes_keeps_nobody_out_and_takes_little_room",
        ),
    },
    Mistake {
        name: "any-number-of-unread-bytes",
        file: SETTINGS,
        edits: &[(
            "transport.receive_window(VarInt::from_u32(UNREAD_BYTES));",
            "",
        )],
        found_by: quic("tests::strangers::a_lane_that_nobody_reads_takes_little_memory"),
    },
    Mistake {
        name: "any-number-of-quic-connections",
        file: DOOR,
        edits: &[(
            "endpoint.open_connections() >= host.connections_max",
            "endpoint.open_connections() == usize::MAX",
        )],
        found_by: quic("tests::bounds::one_connection_more_than_a_listener_may_have_is_refused"),
    },
    Mistake {
        name: "a-quic-connection-without-lanes-is-kept",
        file: DOOR,
        edits: &[("() = sleep(GRACE) => {}", "() = sleep(1000 * GRACE) => {}")],
        found_by: quic("tests::bounds::a_connection_that_has_no_lane_any_more_is_closed_soon"),
    },
    Mistake {
        name: "many-more-lanes-of-a-quic-connection",
        file: SETTINGS,
        edits: &[(
            "VarInt::from_u32(LANES_MAX)",
            "VarInt::from_u32(4 * LANES_MAX)",
        )],
        found_by: quic("tests::bounds::a_connection_has_so_many_lanes_and_none_in_one_direction"),
    },
    Mistake {
        name: "quic-lanes-in-one-direction",
        file: SETTINGS,
        edits: &[(
            ".max_concurrent_uni_streams(VarInt::from_u32(0))",
            ".max_concurrent_uni_streams(VarInt::from_u32(100))",
        )],
        found_by: quic("tests::bounds::a_connection_has_so_many_lanes_and_none_in_one_direction"),
    },
    Mistake {
        name: "any-number-of-quic-lanes-that-nobody-accepts",
        file: "transport-quic/src/listener.rs",
        edits: &[("channel(LANES_WAITING)", "channel(1000 * LANES_WAITING)")],
        found_by: quic(
            "tests::bounds::of_lanes_that_nobody_accepts_so_many_wait_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "any-number-of-quic-attempts-that-nobody-takes",
        file: SETTINGS,
        edits: &[(".max_incoming(ATTEMPTS_MAX)", ".max_incoming(usize::MAX)")],
        found_by: quic(
            "tests::bounds::of_attempts_that_nobody_takes_so_many_wait_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "join-strings-of-any-length",
        file: "trust/src/join.rs",
        edits: &[("word.len() > WORD_MAX", "word.len() > usize::MAX")],
        found_by: trust("join::tests::what_is_wrong_with_a_word_is_said"),
    },
    Mistake {
        name: "any-number-of-members-is-remembered",
        file: BOOK,
        edits: &[(
            "self.members.len() >= MEMBERS_MAX",
            "self.members.len() == usize::MAX",
        )],
        found_by: trust(
            "invitations::book::tests::of_too_many_members_the_first_is_a_stranger_again",
        ),
    },
    Mistake {
        name: "files-of-any-length",
        file: "trust/src/private_file.rs",
        edits: &[
            (
                "u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1)",
                "u64::MAX",
            ),
            ("if bytes.len() > limit {", "if bytes.len() == usize::MAX {"),
        ],
        found_by: trust("key_pair::tests::a_file_that_is_no_key_is_refused_and_left_as_it_is"),
    },
    Mistake {
        name: "names-of-hosts-of-any-length",
        file: "trust/src/address.rs",
        edits: &[("(1..=NAME_MAX).contains", "(1..=usize::MAX).contains")],
        found_by: trust("address::tests::what_is_no_address_is_refused"),
    },
];
