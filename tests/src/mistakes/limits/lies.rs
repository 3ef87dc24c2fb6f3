//! Checks against members that lie.

use crate::mistakes::{FoundBy, Mistake};

/// A test of the client with strangers, impostors and members that lie.
const fn trust(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl",
        target: "--test trust",
        test,
    }
}

/// A test of the master's machine with peers that say anything.
const fn hostile(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--test hostile",
        test,
    }
}

const DOOR: &str = "client/src/engine/door.rs";
const FETCHING: &str = "client/src/transfer/fetching.rs";
const ARRIVING: &str = "plane/src/work/arriving.rs";

const NO_NUMBER: &str =
    "liars::no_number_is_taken_from_a_frame_of_another_operation_place_or_length";

/// What is removed.
pub const LIES: &[Mistake] = &[
    Mistake {
        name: "a-ticket-is-good-for-everybody",
        file: DOOR,
        edits: &[(
            "let is_trusted = expected.order.is_with(knock.identity);",
            "let is_trusted = true;",
        )],
        found_by: trust(
            "impostors::over_tls::a_ticket_is_worth_nothing_to_another_member_nor_to_a_stranger_on_a_plain_lane",
        ),
    },
    Mistake {
        name: "a-ticket-is-good-more-than-once",
        file: DOOR,
        edits: &[("None if self.spent.contains(&key) => Answer::Spent,", "")],
        found_by: trust(
            "impostors::over_tls::a_peer_that_was_kicked_opens_nothing_with_its_old_tickets",
        ),
    },
    Mistake {
        name: "a-lane-with-a-ticket-of-nobody-is-held-for-ever",
        file: DOOR,
        edits: &[(
            "timeout(HOLD_LIMIT, wanted)",
            "timeout(1000 * HOLD_LIMIT, wanted)",
        )],
        found_by: trust("strangers::an_unknown_ticket_is_refused_once_no_order_has_come_for_it"),
    },
    Mistake {
        name: "a-second-collective-of-a-tag-is-as-good-as-the-first",
        file: "core/src/master/collectives.rs",
        edits: &[(
            "if record.tags.get(tag).is_some() {",
            "if record.tags.get(tag).is_some() {\n            return;\n        }\n        if false {",
        )],
        found_by: trust("liars::a_member_that_votes_twice_goes_and_the_others_reduce_without_it"),
    },
    Mistake {
        name: "an-edge-may-be-reported-twice",
        file: "core/src/master/wiring.rs",
        edits: &[(
            "if wiring.open > 0 {\n                self.kick",
            "if false {\n                self.kick",
        )],
        found_by: hostile(
            "stories::who_reports_an_edge_twice_goes_and_the_others_connect_without_it",
        ),
    },
    Mistake {
        name: "numbers-at-any-place",
        file: ARRIVING,
        edits: &[("header.offset != flow.rest.start ||", "")],
        found_by: trust("liars::no_number_is_taken_from_a_frame_that_is_moved_within_its_flow"),
    },
    Mistake {
        name: "numbers-of-any-step",
        file: ARRIVING,
        edits: &[
            ("stripe.flows.get(step)", "stripe.flows.get(0 * step)"),
            (
                "stripe.flows.get_mut(step)",
                "stripe.flows.get_mut(0 * step)",
            ),
        ],
        found_by: trust(NO_NUMBER),
    },
    Mistake {
        name: "content-is-not-compared-with-its-hash",
        file: FETCHING,
        edits: &[
            ("if !is_right {", "if false {"),
            ("checked(entry, is_right)", "checked(entry, true)"),
        ],
        found_by: trust(
            "liars::content_that_is_not_what_was_elected_is_written_nowhere_and_fetched_elsewhere",
        ),
    },
    Mistake {
        name: "a-second-collective-of-a-tag-starts-another-time",
        file: "core/src/master/collectives.rs",
        edits: &[("if record.tags.get(tag).is_some() {", "if false {")],
        found_by: hostile("whatever_peers_say_the_master_stays_consistent"),
    },
];
