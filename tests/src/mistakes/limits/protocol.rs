//! Limits of the protocol: of decoders, and of the master's machine.

use crate::mistakes::{FoundBy, Mistake};

const fn unit(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--lib",
        test,
    }
}

const fn machine(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--test limits",
        test,
    }
}

/// A test of the master's machine with peers in memory.
const fn run(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--test run",
        test,
    }
}

/// A test of what the master says to who asks for whom it waits.
const fn awaited(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--test awaited",
        test,
    }
}

/// A test of a peer's machine.
const fn peer(test: &'static str) -> FoundBy {
    FoundBy::Test {
        package: "pccl-core",
        target: "--test peer_machine",
        test,
    }
}

const DEADLINES: &str = "core/src/master/deadlines.rs";
const CONTROL: &str = "core/src/wire/control.rs";

/// What is removed from the protocol.
pub const PROTOCOL: &[Mistake] = &[
    Mistake {
        name: "session-frames-of-any-length",
        file: "core/src/wire/session.rs",
        edits: &[("true => BODY_MAX,", "true => usize::MAX,")],
        found_by: unit("wire::tests::control::a_session_frame_that_makes_no_sense_ends_the_stream"),
    },
    Mistake {
        name: "an-announced-length-reserves-memory",
        file: CONTROL,
        edits: &[(
            "needed.max(self.buffer.capacity().saturating_mul(2).min(frame))",
            "needed.max(frame)",
        )],
        found_by: unit("wire::tests::control::an_announced_length_reserves_no_memory"),
    },
    Mistake {
        name: "bytes-after-a-message-are-ignored",
        file: CONTROL,
        edits: &[(
            "if rest.is_empty() {\n        Ok(",
            "if true {\n        Ok(",
        )],
        found_by: unit("wire::tests::damage::a_message_that_is_cut_short_or_goes_on_is_refused"),
    },
    Mistake {
        name: "any-number-of-quiet-peers",
        file: CONTROL,
        edits: &[(
            "self.quiet.len() < QUIET_MAX",
            "self.quiet.len() < usize::MAX",
        )],
        found_by: unit(
            "wire::tests::control::of_quiet_peers_as_many_are_kept_as_one_heartbeat_tells",
        ),
    },
    Mistake {
        name: "data-frames-of-any-length",
        file: "core/src/wire/frame.rs",
        edits: &[(
            "header.length as usize > DATA_FRAME_MAX",
            "header.length as usize > usize::MAX",
        )],
        found_by: unit(
            "wire::tests::headers::a_frame_of_the_greatest_length_is_taken_and_a_longer_one_is_not",
        ),
    },
    Mistake {
        name: "names-of-sites-of-any-length",
        file: "core/src/site.rs",
        edits: &[(
            "name.len() > SITE_NAME_BYTES_MAX",
            "name.len() > usize::MAX",
        )],
        found_by: unit("wire::tests::control::a_hello_whose_site_has_no_possible_name_is_refused"),
    },
    Mistake {
        name: "names-of-peers-of-any-length",
        file: "core/src/name.rs",
        edits: &[(
            "name.len() > PEER_NAME_BYTES_MAX",
            "name.len() > usize::MAX",
        )],
        found_by: unit("wire::tests::control::a_hello_whose_peer_has_no_possible_name_is_refused"),
    },
    Mistake {
        name: "any-number-of-peers",
        file: "core/src/master/membership.rs",
        edits: &[(
            "self.peers.len() >= peers_max as usize",
            "self.peers.len() == usize::MAX",
        )],
        found_by: machine("one_peer_more_than_a_run_takes_is_refused_and_the_others_stay"),
    },
    Mistake {
        name: "any-number-of-collectives-in-flight",
        file: "core/src/master/collectives.rs",
        edits: &[(
            "record.tags.len() >= tags_max as usize",
            "record.tags.len() == usize::MAX",
        )],
        found_by: machine("one_collective_in_flight_more_than_a_peer_may_have_is_its_end"),
    },
    Mistake {
        name: "any-number-of-entries",
        file: "core/src/master/shared_state.rs",
        edits: &[(
            "vote.entries.len() <= self.config.entries_max.0 as usize",
            "vote.entries.len() < usize::MAX",
        )],
        found_by: machine("one_entry_more_than_a_shared_state_may_have_is_its_end"),
    },
    Mistake {
        name: "names-of-entries-of-any-length",
        file: "core/src/master/shared_state.rs",
        edits: &[(
            "entry.name.len() <= MAX_ENTRY_NAME_BYTES",
            "entry.name.len() < usize::MAX",
        )],
        found_by: machine("a_name_of_one_byte_more_than_an_entry_may_have_is_its_end"),
    },
    Mistake {
        name: "any-number-of-groups-is-remembered",
        file: "core/src/master/remembered.rs",
        edits: &[(
            "self.groups.len() <= GROUPS_REMEMBERED_MAX",
            "self.groups.len() < usize::MAX",
        )],
        found_by: unit(
            "master::remembered::tests::of_too_many_groups_the_one_with_the_lowest_revision_is_forgotten",
        ),
    },
    Mistake {
        name: "records-of-a-log-of-any-length",
        file: "core/src/log/decode.rs",
        edits: &[("if length > BODY_MAX", "if length > usize::MAX")],
        found_by: unit("log::tests::a_length_that_nobody_writes_is_refused"),
    },
    Mistake {
        name: "a-silent-peer-is-kept",
        file: DEADLINES,
        edits: &[(
            "self.set_timer(silence, watched, out);",
            "self.set_timer(silence, watched && false, out);",
        )],
        found_by: run("deadlines::whatever_a_peer_was_doing_when_it_froze_its_silence_is_noticed"),
    },
    Mistake {
        name: "a-peer-that-does-not-vote-is-waited-for",
        file: DEADLINES,
        edits: &[(
            "if wanted.is_some() && (!runs",
            "if wanted.is_some_and(|late| !late.is_for_vote()) && (!runs",
        )],
        found_by: run(
            "deadlines::who_misses_a_ballot_is_kicked_with_that_reason_and_who_waits_elsewhere_is_not",
        ),
    },
    Mistake {
        name: "a-peer-that-does-not-do-its-part-is-waited-for",
        file: DEADLINES,
        edits: &[(
            "if wanted.is_some() && (!runs",
            "if wanted.is_some_and(Lateness::is_for_vote) && (!runs",
        )],
        found_by: run(
            "deadlines::who_neither_moves_nor_votes_is_kicked_for_it_where_the_others_have_voted",
        ),
    },
    Mistake {
        name: "links-that-nobody-reports-are-waited-for",
        file: DEADLINES,
        edits: &[(
            ".wirings\n            .iter()\n",
            ".wirings\n            .iter()\n            .take(0)\n",
        )],
        found_by: run(
            "deadlines::a_newcomer_that_never_reports_is_refused_when_the_time_for_wiring_is_over",
        ),
    },
    Mistake {
        name: "a-peer-may-cancel-for-ever",
        file: "core/src/master/evict.rs",
        edits: &[("times >= CANCELS_MAX", "times == u8::MAX")],
        found_by: run("blame::breaks::who_cancels_every_collective_goes_and_the_others_reduce"),
    },
    Mistake {
        name: "a-welcome-may-take-for-ever",
        file: "core/src/peer/joining.rs",
        edits: &[("rule!(out.push(limit); ", "rule!(drop(limit); ")],
        found_by: peer("joining::a_master_that_never_welcomes_counts_as_lost"),
    },
    Mistake {
        name: "contributions-of-any-length-are-gathered",
        file: "core/src/element.rs",
        edits: &[(
            "lengths.total().filter(|total| *total <= limit)?",
            "lengths.total().filter(|total| *total <= limit.max(u64::MAX))?",
        )],
        found_by: run(
            "collectives::who_would_gather_more_than_all_allow_hears_how_much_and_nothing_starts",
        ),
    },
    Mistake {
        name: "all-entries-that-differ-are-named",
        file: "core/src/master/manifest.rs",
        edits: &[(
            "named.len() < MISMATCHES_NAMED_MAX",
            "named.len() < usize::MAX",
        )],
        found_by: unit(
            "master::manifest::tests::a_merge_finds_what_a_comparison_of_each_with_each_does",
        ),
    },
    Mistake {
        name: "all-calls-that-are-waited-for-are-named",
        file: "core/src/master/awaited.rs",
        edits: &[
            ("collectives.take(WAITS_MAX)", "collectives"),
            ("waits.truncate(WAITS_MAX);", ""),
        ],
        found_by: awaited("an_answer_is_bounded_no_matter_how_many_calls_and_peers_there_are"),
    },
    Mistake {
        name: "all-peers-that-are-waited-for-are-named",
        file: "core/src/master/awaited.rs",
        edits: &[(".take(WAITED_FOR_MAX)", ".take(usize::MAX)")],
        found_by: awaited("an_answer_is_bounded_no_matter_how_many_calls_and_peers_there_are"),
    },
    Mistake {
        name: "conflicts-of-any-number-of-tags-are-one",
        file: "core/src/master/conflicts.rs",
        edits: &[(
            "self.tags.len() >= TAGS_MAX",
            "self.tags.len() == usize::MAX",
        )],
        found_by: unit(
            "master::conflicts::tests::tags_that_never_come_again_do_not_put_the_end_off_for_ever",
        ),
    },
];
