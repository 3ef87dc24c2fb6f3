//! Limits that the master enforces.

use crate::mistakes::{FoundBy, Mistake};

/// A unit test of the master.
const fn unit(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-master",
        target: "--lib",
        test,
    }
}

/// A test of the master over connections.
const fn server(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-master",
        target: "--test server",
        test,
    }
}

const GREETING: &str = "master/src/greeting.rs";
const ROOM: &str = "master/src/gate/room.rs";
const GATE: &str = "master/src/gate.rs";
const GRANTED: &str = "master/src/granted.rs";
const INTAKE: &str = "master/src/intake.rs";
const OUTBOX: &str = "master/src/outbox.rs";

/// What is removed from the master.
pub const MASTER: &[Mistake] = &[
    Mistake {
        name: "a-preamble-may-take-for-ever",
        file: GREETING,
        edits: &[(
            "introduced = patience.wait(introduction(lane, permit, door)) => introduced,",
            "introduced = introduction(lane, permit, door) => Some(introduced),",
        )],
        found_by: server("handshake::a_stranger_that_dawdles_over_its_preamble_is_cut_off"),
    },
    Mistake {
        name: "a-proof-may-take-for-ever",
        file: GREETING,
        edits: &[(
            "introduced = patience.wait(introduction(lane, permit, door)) => introduced,",
            "introduced = introduction(lane, permit, door) => Some(introduced),",
        )],
        found_by: server(
            "handshake::a_stranger_that_has_proved_a_key_and_dawdles_over_its_proof_is_cut_off",
        ),
    },
    Mistake {
        name: "a-hello-may-take-for-ever",
        file: GREETING,
        edits: &[(
            "first = patience.wait(first) => first,",
            "first = first => Some(first),",
        )],
        found_by: server("handshake::a_stranger_that_dawdles_over_its_hello_is_cut_off"),
    },
    Mistake {
        name: "a-hello-has-the-time-of-the-preamble-once-more",
        file: GREETING,
        edits: &[(
            "let replied = Instant::now();",
            "let replied = Instant::now();\n    patience = Patience::of(limit);",
        )],
        found_by: server(
            "handshake::a_stranger_that_drips_its_preamble_or_its_hello_has_no_more_time_than_one_that_is_silent",
        ),
    },
    Mistake {
        name: "any-number-of-strangers",
        file: ROOM,
        edits: &[(
            "self.strangers >= self.limits.strangers_max",
            "self.strangers == usize::MAX",
        )],
        found_by: unit(
            "gate::tests::at_every_time_the_limits_hold_and_nobody_waits_beside_a_place",
        ),
    },
    Mistake {
        name: "any-number-of-strangers-of-one-address",
        file: ROOM,
        edits: &[(
            "tally.strangers < self.limits.strangers_per_address_max",
            "tally.strangers < usize::MAX",
        )],
        found_by: unit("gate::tests::one_address_cannot_take_the_places_of_the_others"),
    },
    Mistake {
        name: "any-number-of-newcomers-of-one-address",
        file: ROOM,
        edits: &[
            (
                "if newcomers >= self.limits.newcomers_per_address_max {\n            return",
                "if newcomers == usize::MAX {\n            return",
            ),
            (
                "tally.strangers + tally.newcomers < self.limits.newcomers_per_address_max",
                "tally.strangers + tally.newcomers < usize::MAX",
            ),
        ],
        found_by: unit(
            "gate::tests::newcomers_of_one_address_are_few_and_the_refusal_says_what_to_do",
        ),
    },
    Mistake {
        name: "strangers-are-not-counted-as-the-newcomers-that-they-become",
        file: ROOM,
        edits: &[(
            "tally.strangers + tally.newcomers < self.limits.newcomers_per_address_max",
            "tally.newcomers < self.limits.newcomers_per_address_max",
        )],
        found_by: unit(
            "gate::tests::newcomers_of_one_address_are_few_and_the_refusal_says_what_to_do",
        ),
    },
    Mistake {
        name: "any-number-of-connections-waits-for-a-place",
        file: ROOM,
        edits: &[(
            "self.waiting.len() >= self.limits.waiting_max",
            "self.waiting.len() == usize::MAX",
        )],
        found_by: unit("gate::tests::the_line_outside_is_bounded_per_address_and_in_total"),
    },
    Mistake {
        name: "any-number-of-connections-of-one-address-waits-for-a-place",
        file: ROOM,
        edits: &[(
            "here >= self.limits.waiting_per_address_max",
            "here == usize::MAX",
        )],
        found_by: unit("gate::tests::the_line_outside_is_bounded_per_address_and_in_total"),
    },
    Mistake {
        name: "a-connection-waits-for-a-place-for-ever",
        file: GATE,
        edits: &[(
            "patience.wait(&mut self.permit).await",
            "Some((&mut self.permit).await)",
        )],
        found_by: unit("gate::tests::whoever_waits_too_long_is_turned_away"),
    },
    Mistake {
        name: "a-silent-stranger-never-gives-way",
        file: GATE,
        edits: &[(
            "until(next.map(|(at, _)| at))",
            "until(next.map(|(at, _)| at).filter(|_| false))",
        )],
        found_by: unit(
            "gate::tests::a_silent_stranger_of_the_largest_crowd_gives_way_after_the_grace",
        ),
    },
    Mistake {
        name: "a-stranger-may-send-long-messages",
        file: GREETING,
        edits: &[("|| FIRST_CONTROL_FRAME_MAX", "|| usize::MAX")],
        found_by: server(
            "handshake::a_stranger_that_announces_a_long_message_is_turned_away_at_once",
        ),
    },
    Mistake {
        name: "a-newcomer-may-send-long-messages",
        file: GRANTED,
        edits: &[(
            "{\n            FIRST_CONTROL_FRAME_MAX",
            "{\n            CONTROL_FRAME_MAX",
        )],
        found_by: server("crowd::a_newcomer_has_nothing_long_to_say_until_it_is_admitted"),
    },
    Mistake {
        name: "a-member-may-send-messages-of-any-length",
        file: GRANTED,
        edits: &[(
            "{\n            CONTROL_FRAME_MAX",
            "{\n            usize::MAX",
        )],
        found_by: server(
            "membership::a_peer_that_announces_a_message_beyond_the_limit_is_kicked_before_it_sends_it",
        ),
    },
    Mistake {
        name: "long-messages-need-no-share-of-the-budget",
        file: INTAKE,
        edits: &[("bytes.min(CONTROL_FRAME_MAX)", "bytes.min(0)")],
        found_by: unit("intake::tests::long_messages_that_dawdle_pin_no_more_than_the_budget"),
    },
    Mistake {
        name: "a-long-message-may-take-for-ever",
        file: INTAKE,
        edits: &[(
            "match long.pace.wait(reading).await {",
            "match Some(reading.await) {",
        )],
        found_by: unit("intake::tests::a_long_message_may_be_slow_but_not_slower_than_its_pace"),
    },
    Mistake {
        name: "a-peer-that-does-not-read-is-kept",
        file: OUTBOX,
        edits: &[(
            "waiting.unsent_bytes() + bytes > self.bytes_max",
            "waiting.unsent_bytes() + bytes > usize::MAX",
        )],
        found_by: server("membership::a_peer_that_does_not_read_is_kicked_and_the_others_go_on"),
    },
    Mistake {
        name: "what-nobody-acknowledges-is-kept",
        file: OUTBOX,
        edits: &[(
            "while self.kept_bytes > bytes_max &&",
            "while self.kept_bytes > usize::MAX &&",
        )],
        found_by: unit(
            "outbox::tests::a_peer_that_acknowledges_nothing_costs_a_bounded_number_of_bytes",
        ),
    },
    Mistake {
        name: "everybody-is-told-at-once-that-there-is-no-place",
        file: "master/src/apology.rs",
        edits: &[(
            "Semaphore::new(APOLOGIES_MAX)",
            "Semaphore::new(1000 * APOLOGIES_MAX)",
        )],
        found_by: unit(
            "apology::tests::so_many_are_told_at_a_time_why_they_are_refused_and_no_more",
        ),
    },
    Mistake {
        name: "a-refusal-of-the-master-may-take-for-ever",
        file: GREETING,
        edits: &[(
            "timeout(limit, farewell)",
            "timeout(1000 * limit, farewell)",
        )],
        found_by: unit(
            "apology::tests::so_many_are_told_at_a_time_why_they_are_refused_and_no_more",
        ),
    },
    Mistake {
        name: "any-number-of-messages-waits-for-the-machine",
        file: "master/src/connection.rs",
        edits: &[(
            "mpsc::channel(EVENTS_MAX)",
            "mpsc::channel(1000 * EVENTS_MAX)",
        )],
        found_by: unit(
            "connection::tests::of_peers_that_say_more_than_the_machine_processes_the_others_are_not_read",
        ),
    },
    Mistake {
        name: "a-journal-is-never-long",
        file: "master/src/journal.rs",
        edits: &[("self.bytes > LONG_BYTES &&", "self.bytes > u64::MAX &&")],
        found_by: unit("journal::tests::a_journal_that_has_become_long_is_followed_by_a_short_one"),
    },
    Mistake {
        name: "every-warning-is-told",
        file: "core/src/seldom.rs",
        edits: &[("now < since + SILENCE", "now < since")],
        found_by: unit(
            "seldom::tests::what_happens_all_the_time_takes_one_line_of_the_log_at_a_time",
        ),
    },
];
