//! Ways through a run on which a claim of the model was broken once. Each is a line that `cargo run -p
//! verification` prints when it finds one: copy it, and name it after what must not happen again.
//!
//! A line is followed as far as it goes: what only the mistake made possible is left out. Then nothing
//! fails any more, the run comes to rest, and no claim may be broken.

use pccl_model::story::Story;
use pccl_model::trace::Trace;

macro_rules! traces {
    ($($(#[$attribute:meta])* $name:ident: $line:literal,)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                holds($line);
            }
        )*
    };
}

fn holds(line: &str) {
    let trace: Trace = line.parse().expect("a trace in one line");

    let replay = trace.follow().expect("a way through a scenario");

    let steps = trace.steps.len();
    assert!(replay.left_out.len() < steps, "nothing of it is possible");
    assert_eq!(replay.broken(), None, "\n{}", Story(&replay));
}

traces! {
    nobody_is_told_of_a_commit_before_the_last_vote:
        "reduce-2: call 1; up 1; call 2; up 2; down 1; down 2; frame 1 1; frame 2 1; frame 1 1; \
         up 1; down 2",
    a_reduce_is_committed_although_a_participant_dies_after_its_vote:
        "reduce-2: call 1; call 2; up 1; up 2; down 1; down 2; frame 1 1; frame 2 1; frame 1 1; \
         frame 2 1; up 1; up 2; crash 1; up-ends 1; down 2",
    a_peer_that_dies_while_a_ballot_is_late_is_missed_once:
        "reduce-2: call 2; up 2; crash 1; late peer; down 2",
    a_vote_to_update_that_crosses_the_ring_is_not_counted_for_the_next_one:
        "beats-optimize: call 1; call 2; up 1; down 2; call 2; up 2; up 2",
    measurements_that_nobody_goes_on_with_are_given_up:
        "beats-optimize faults=4: call 1; up 1; down 1; call 1; up 1; late peer; late peer",
    who_takes_a_vote_back_while_its_ring_is_connected_may_call_again_at_once:
        "withdraw-2: break-link 2 to:1; call 2; call 2; up 2; notice 1 from:2; call 1; up 1; down 2; \
         up 2; down 2; call 2; up 2",
    who_takes_a_vote_back_while_another_group_is_connected_may_call_again_at_once:
        "withdraw-groups: call 1; call 2; up 2; call 2; call 3; up 3; call 4; up 4; up 1; up 2; \
         down 2; call 2; up 2",
    a_ring_of_two_that_has_lost_one_way_is_not_tried_for_ever:
        "port-2: break-link 2 to:1; close-port 1; notice 2 to:1; call 1; call 2; up 2; up 1",
    of_two_newcomers_the_one_is_refused_that_two_attempts_have_failed_for:
        "entries-majority faults=4: call 2; up 2; down 2; call 3; call 1; up 1; up 3; down 3; \
         down 1; call 1; up 1; down 2; down 3; dial 2 to:3; up 2; down 1; refuse-dial 1 to:2; \
         dial 3 to:1; up 1; up 1; up 3; up 3; pause-ends; late wiring",
    who_goes_for_a_link_that_broke_again_is_told_of_that_link_and_of_no_peer_that_died:
        "reduce-3 faults=4: call 3; call 1; call 2; up 2; up 3; up 1; down 2; down 3; \
         break-link 2 to:3; notice 3 from:2; up 3; down 1; down 1; call 1; up 1; down 3; call 3; \
         down 2; call 2; up 2; up 3; down 3; down 2; dial 2 to:3; up 3; up 2; down 1; down 2; down 2; \
         down 3; down 3; down 1; frame 1 1; frame 2 1; frame 2 1; frame 3 1; frame 1 1; frame 2 1; \
         frame 3 1; frame 1 1; frame 2 1; up 2; frame 3 1; frame 1 1; up 1; crash 1; notice 3 to:1; \
         up-ends 1; up 3; down 3; down 2; call 3; call 2; up 3; up 2; down 2; down 3; dial 3 to:2; \
         up 3; up 2; down 3; down 3; break-link 3 to:2; notice 3 to:2; up 3",
    of_three_between_whom_nothing_can_be_connected_one_stays:
        "train-3 faults=4: break-link 2 to:3; call 1; notice 2 to:3; call 2; up 2; up 1; late wiring; \
         late wiring; late wiring",
    a_newcomer_is_refused_for_what_was_said_of_one_link_where_nothing_was_said_of_the_other:
        "halves-3 faults=4: call 2; up 2; call 3; up 3; down 3; late peer; down 2; down 3; \
         late wiring; down 2; down 3; refuse-dial 2 to:3; up 2; late wiring",
}
