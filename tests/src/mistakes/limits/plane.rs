//! Limits of the data plane: which frames it takes, and for how long it waits.

use crate::mistakes::{FoundBy, Mistake};

/// A unit test of the data plane.
const fn plane(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-plane",
        target: "--lib",
        test,
    }
}

const ARRIVING: &str = "plane/src/work/arriving.rs";
const STALL: &str = "plane/src/run/stall.rs";

const MISFITS: &str =
    "tests::hostile::a_frame_that_does_not_fit_the_plan_fails_the_operation_and_is_not_written";

/// What is removed from the data plane.
pub const PLANE: &[Mistake] = &[
    Mistake {
        name: "a-frame-of-any-stripe",
        file: ARRIVING,
        edits: &[(
            "self.stripes.get_mut(usize::from(header.stripe));\n        let stripe = stripe.ok_or(Misfit",
            "self.stripes.get_mut(0);\n        let stripe = stripe.ok_or(Misfit",
        )],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "a-frame-of-any-step",
        file: ARRIVING,
        edits: &[
            ("stripe.flows.get(step)", "stripe.flows.get(0 * step)"),
            (
                "stripe.flows.get_mut(step)",
                "stripe.flows.get_mut(0 * step)",
            ),
        ],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "a-frame-at-any-place",
        file: ARRIVING,
        edits: &[("header.offset != flow.rest.start ||", "")],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "a-frame-beyond-the-end-of-its-flow",
        file: ARRIVING,
        edits: &[("|| end > flow.rest.end", "")],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "a-frame-of-half-an-element",
        file: ARRIVING,
        edits: &[(
            "&& bytes.is_multiple_of(element_bytes)",
            "&& element_bytes > 0",
        )],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "frames-as-short-as-one-element",
        file: ARRIVING,
        edits: &[(
            "(long_enough && short_enough",
            "((long_enough || true) && short_enough",
        )],
        found_by: plane(MISFITS),
    },
    Mistake {
        name: "frames-longer-than-frames-are",
        file: ARRIVING,
        edits: &[(
            "(long_enough && short_enough",
            "(long_enough && (short_enough || true)",
        )],
        found_by: plane(
            "tests::hostile::a_frame_longer_than_frames_are_fails_the_operation_before_it_arrives",
        ),
    },
    Mistake {
        name: "copied-frames-of-any-length",
        file: ARRIVING,
        edits: &[(
            "Action::Copy => COPIED_PAYLOAD_MAX,",
            "Action::Copy => usize::MAX,",
        )],
        found_by: plane(
            "tests::misfits::a_frame_may_be_longer_if_it_is_copied_than_if_it_is_added",
        ),
    },
    Mistake {
        name: "a-frame-of-any-operation",
        file: "plane/src/handover/registry.rs",
        edits: &[(
            "let refused = match state.running.get(&header.seq) {",
            "let refused = match state.running.values().next() {",
        )],
        found_by: plane(
            "tests::hostile::late_frames_of_an_operation_that_is_over_are_not_taken_by_one_that_runs",
        ),
    },
    Mistake {
        name: "a-frame-on-any-lane",
        file: ARRIVING,
        edits: &[(
            "source.rank != from || source.arrives_on.is_some_and(|arrives| arrives != lane)",
            "source.rank != from",
        )],
        found_by: plane("tests::misfits::frames_of_a_stripe_come_on_one_lane"),
    },
    Mistake {
        name: "a-frame-from-any-rank",
        file: ARRIVING,
        edits: &[("source.rank != from || ", "")],
        found_by: plane("tests::misfits::what_another_rank_should_have_sent_directly_is_not_taken"),
    },
    Mistake {
        name: "a-result-before-the-contribution-has-left",
        file: ARRIVING,
        edits: &[(
            "if stripe.ready_up_to(flow.after, kept) < end {",
            "if stripe.ready_up_to(flow.after, kept) < 0 * end {",
        )],
        found_by: plane(
            "tests::misfits::a_result_that_comes_before_the_contribution_has_left_is_too_early",
        ),
    },
    Mistake {
        name: "encoded-frames-of-any-length",
        file: "plane/src/work/coded.rs",
        edits: &[(
            "(u32::try_from(expected) == Ok(length)).then_some(elements)",
            "(length > 0 || expected > 0).then_some(elements)",
        )],
        found_by: plane("tests::misfits::an_encoded_frame_has_one_length_and_no_other"),
    },
    Mistake {
        name: "a-neighbour-that-sends-nothing-is-waited-for",
        file: STALL,
        edits: &[
            (
                "is_starved: self.idle_looks >= LOOKS_UNTIL_STARVED",
                "is_starved: self.idle_looks == u32::MAX",
            ),
            (
                "is_behind: self.idle_looks >= LOOKS_UNTIL_BEHIND &&",
                "is_behind: self.idle_looks == u32::MAX &&",
            ),
        ],
        found_by: plane("tests::interrupted::a_silent_neighbour_is_given_up_after_the_stall_time"),
    },
    Mistake {
        name: "a-neighbour-that-takes-nothing-is-waited-for",
        file: STALL,
        edits: &[(
            "frame_stuck |= *looks >= LOOKS_PER_STALL;",
            "frame_stuck |= *looks == u32::MAX;",
        )],
        found_by: plane(
            "tests::interrupted::a_neighbour_that_does_not_read_is_given_up_after_the_stall_time",
        ),
    },
];
