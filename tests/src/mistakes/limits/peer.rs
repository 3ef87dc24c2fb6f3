//! Limits that peers enforce: against strangers, against other members, and against the master.

use crate::mistakes::{FoundBy, Mistake};

/// A unit test of the client.
const fn unit(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl",
        target: "--lib",
        test,
    }
}

const DOOR: &str = "client/src/engine/door.rs";
const CONTROL: &str = "client/src/engine/control.rs";

const CROWD: &str = "core/src/crowd.rs";

const ANY_ADDRESS: (&str, &str) = (
    "counts.get(origin) == Some(&most)",
    "counts.get(origin) <= Some(&most)",
);

/// What is removed from peers.
pub const PEER: &[Mistake] = &[
    Mistake {
        name: "a-preamble-to-a-peer-may-take-for-ever",
        file: DOOR,
        edits: &[(
            "patience::within(PREAMBLE_LIMIT, recv_preamble",
            "patience::within(1000 * PREAMBLE_LIMIT, recv_preamble",
        )],
        found_by: unit("engine::door::tests::who_does_not_say_what_it_is_for_is_given_up_in_time"),
    },
    Mistake {
        name: "any-number-of-lanes-that-say-nothing",
        file: DOOR,
        edits: &[(
            "let mut silent: Crowd<Silent> = Crowd::new(room);",
            "let mut silent: Crowd<Silent> = Crowd::new(usize::MAX);",
        )],
        found_by: unit(
            "engine::door::tests::of_silent_connections_so_many_stay_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "any-number-of-lanes-that-wait-for-their-order",
        file: DOOR,
        edits: &[("held: Crowd::new(room),", "held: Crowd::new(usize::MAX),")],
        found_by: unit(
            "engine::door::tests::of_lanes_that_wait_for_their_order_so_many_stay_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "a-lane-waits-for-its-order-for-ever",
        file: DOOR,
        edits: &[(
            "timeout(HOLD_LIMIT, wanted)",
            "timeout(1000 * HOLD_LIMIT, wanted)",
        )],
        found_by: unit("engine::door::tests::who_is_not_expected_yet_is_told_to_come_again"),
    },
    Mistake {
        name: "any-number-of-refusals-that-nobody-takes",
        file: "client/src/engine/door/refusals.rs",
        edits: &[("Crowd::new(room)", "Crowd::new(room.max(usize::MAX))")],
        found_by: unit(
            "engine::door::refusals::tests::of_refusals_that_nobody_takes_so_many_go_on_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "a-refusal-may-take-for-ever",
        file: "client/src/engine/door/refusals.rs",
        edits: &[(
            "timeout(self.limit, refuse",
            "timeout(1000 * self.limit, refuse",
        )],
        found_by: unit(
            "engine::door::refusals::tests::of_refusals_that_nobody_takes_so_many_go_on_as_there_is_room_for",
        ),
    },
    Mistake {
        name: "any-number-of-spent-tickets",
        file: DOOR,
        edits: &[(
            "self.spent.len() >= self.spent_max",
            "self.spent.len() == usize::MAX",
        )],
        found_by: unit(
            "engine::door::tests::of_many_orders_that_are_over_the_last_ones_are_remembered",
        ),
    },
    Mistake {
        name: "the-master-may-send-messages-of-any-length",
        file: CONTROL,
        edits: &[(
            "ControlReader::with_cap(CONTROL_FRAME_MAX)",
            "ControlReader::with_cap(usize::MAX)",
        )],
        found_by: unit(
            "engine::control::tests::a_message_that_the_master_announces_longer_than_messages_are_is_not_waited_for",
        ),
    },
    Mistake {
        name: "a-master-that-is-met-again-may-send-messages-of-any-length",
        file: CONTROL,
        edits: &[(
            "ControlReader::resumed(CONTROL_FRAME_MAX,",
            "ControlReader::resumed(usize::MAX,",
        )],
        found_by: unit(
            "engine::control::tests::a_message_that_the_master_announces_longer_than_messages_are_is_not_waited_for",
        ),
    },
    Mistake {
        name: "what-the-master-does-not-acknowledge-is-kept",
        file: CONTROL,
        edits: &[(
            "while self.kept_bytes > UNACKNOWLEDGED_MAX",
            "while self.kept_bytes > usize::MAX",
        )],
        found_by: unit(
            "engine::control::tests::of_messages_that_the_master_does_not_acknowledge_a_bounded_number_of_bytes_is_kept",
        ),
    },
    Mistake {
        name: "any-number-of-bytes-in-a-measurement",
        file: "client/src/engine/probe/receiving.rs",
        edits: &[("> PROBE_BYTES_MAX {", "> u64::MAX {")],
        found_by: unit(
            "engine::probe::tests::of_a_peer_that_sends_too_much_there_is_no_measurement",
        ),
    },
    Mistake {
        name: "a-lane-may-be-opened-for-ever",
        file: "client/src/engine/dial.rs",
        edits: &[(
            "patience::within(DIAL_LIMIT, opening)",
            "patience::within(1000 * DIAL_LIMIT, opening)",
        )],
        found_by: unit("engine::door::tests::who_is_told_to_come_again_and_again_gives_up_in_time"),
    },
    Mistake {
        name: "a-master-may-take-for-ever-to-answer",
        file: "client/src/reaching.rs",
        edits: &[(
            "patience::within(self.answer, reaching)",
            "patience::within(1000 * self.answer, reaching)",
        )],
        found_by: unit("reaching::tests::a_master_that_does_not_answer_is_given_up_in_time"),
    },
    Mistake {
        name: "a-measurement-by-another-may-take-for-ever",
        file: "client/src/engine/probe.rs",
        edits: &[(
            "timeout(PROBE_LIMIT, received)",
            "timeout(1000 * PROBE_LIMIT, received)",
        )],
        found_by: unit(
            "engine::probe::tests::a_peer_that_is_to_measure_and_says_nothing_is_given_up_in_time",
        ),
    },
    Mistake {
        name: "a-measurement-may-take-for-ever",
        file: "client/src/engine/probe.rs",
        edits: &[(
            "timeout(PROBE_LIMIT, sent)",
            "timeout(1000 * PROBE_LIMIT, sent)",
        )],
        found_by: unit(
            "engine::probe::tests::a_peer_that_answers_no_measurement_is_given_up_in_time",
        ),
    },
    Mistake {
        name: "the-oldest-silent-lane-of-whatever-address-gives-way",
        file: CROWD,
        edits: &[ANY_ADDRESS],
        found_by: unit(
            "engine::door::tests::a_flood_of_silent_connections_from_one_address_ends_none_of_another",
        ),
    },
    Mistake {
        name: "the-oldest-waiting-lane-of-whatever-address-gives-way",
        file: CROWD,
        edits: &[ANY_ADDRESS],
        found_by: unit(
            "engine::door::tests::a_flood_from_one_address_keeps_no_lane_of_another_from_waiting_for_its_order",
        ),
    },
];
