//! Limits of the transfer of shared state.

use crate::mistakes::{FoundBy, Mistake};

/// A unit test of the client.
const fn unit(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl",
        target: "--lib",
        test,
    }
}

const SERVING: &str = "client/src/transfer/serving.rs";
const FETCHING: &str = "client/src/transfer/fetching.rs";

/// What is removed from the transfer of shared state.
pub const TRANSFERS: &[Mistake] = &[
    Mistake {
        name: "requests-for-shared-state-of-any-length",
        file: SERVING,
        edits: &[(
            "ControlReader::with_cap(STATE_REQUEST_MAX)",
            "ControlReader::with_cap(usize::MAX)",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_request_that_announces_more_than_one_may_have_is_not_waited_for",
        ),
    },
    Mistake {
        name: "any-number-of-ranges-in-a-request",
        file: SERVING,
        edits: &[(
            "(1..=STATE_RANGES_MAX).contains",
            "(1..=usize::MAX).contains",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_request_of_no_ranges_or_of_too_many_is_not_served",
        ),
    },
    Mistake {
        name: "ranges-of-any-length",
        file: SERVING,
        edits: &[("(1..=STATE_RANGE_MAX).contains", "(1..=u32::MAX).contains")],
        found_by: unit(
            "transfer::tests::hostile::a_range_that_there_is_not_or_that_is_too_long_is_not_sent",
        ),
    },
    Mistake {
        name: "ranges-beyond-their-entry",
        file: SERVING,
        edits: &[(
            "content.get(start..end)",
            "content.get(start.min(content.len())..end.min(content.len()))",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_range_that_there_is_not_or_that_is_too_long_is_not_sent",
        ),
    },
    Mistake {
        name: "another-range-than-was-asked-for",
        file: FETCHING,
        edits: &[(
            "StateRange::decode_expecting(&header, range)?;",
            "let _ = StateRange::decode_expecting(&header, range);",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_range_that_was_not_asked_for_is_not_taken_for_one_that_was",
        ),
    },
    Mistake {
        name: "who-asks-for-no-shared-state-is-waited-for",
        file: SERVING,
        edits: &[(
            "within(self.means.stall, request)",
            "within(1000 * self.means.stall, request)",
        )],
        found_by: unit(
            "transfer::tests::hostile::who_asks_for_nothing_is_given_up_after_the_stall_time",
        ),
    },
    Mistake {
        name: "who-takes-no-shared-state-is-waited-for",
        file: "client/src/transfer.rs",
        edits: &[(
            "within(stall, poll_fn(|cx| tx.poll_send(cx, &[head, piece])))",
            "within(1000 * stall, poll_fn(|cx| tx.poll_send(cx, &[head, piece])))",
        )],
        found_by: unit(
            "transfer::tests::hostile::who_does_not_take_what_it_has_asked_for_is_given_up_after_the_stall_time",
        ),
    },
    Mistake {
        name: "a-holder-that-sends-nothing-is-waited-for",
        file: FETCHING,
        edits: &[(
            "within(stall, recv_exact(lane.rx.as_mut(), &mut header))",
            "within(1000 * stall, recv_exact(lane.rx.as_mut(), &mut header))",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_holder_that_stands_still_is_given_up_after_the_stall_time",
        ),
    },
    Mistake {
        name: "a-holder-that-sends-half-a-range-is-waited-for",
        file: FETCHING,
        edits: &[(
            "within(stall, hands.receive(lane.rx.as_mut()))",
            "within(1000 * stall, hands.receive(lane.rx.as_mut()))",
        )],
        found_by: unit(
            "transfer::tests::hostile::a_holder_that_stands_still_is_given_up_after_the_stall_time",
        ),
    },
];
