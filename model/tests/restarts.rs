//! What another master that goes on from a journal leaves as it was, and what it has to hear again.

use pccl_model::catalogue::standard;
use pccl_model::milestone::Milestone;
use pccl_model::scenario::Fault;
use pccl_model::state::RunState;
use pccl_model::trace::{Replay, Trace};

fn gone(way: &str) -> Replay {
    let trace: Trace = way.parse().unwrap();
    trace.replay().unwrap()
}

fn last(way: &str) -> RunState {
    gone(way).last_state().clone()
}

#[test]
fn a_master_whose_journal_is_whole_is_the_one_that_died() {
    let before = last("restart-reduce: call 1; up 1");
    let after = last("restart-reduce: call 1; up 1; restart-master");

    assert!(after.master == before.master && after.seats == before.seats);
    assert_eq!(after.faults + 1, before.faults);
    assert!(after.has_reached(Milestone::CameBack));
}

#[test]
fn a_vote_whose_record_is_lost_is_cast_again() {
    let before = last("restart-reduce: call 1");
    let after = last("restart-reduce: call 1; up 1; restart-machine");

    assert!(after.master == before.master && after.seats == before.seats);
    assert!(after.has_reached(Milestone::HeardAgain));
}

#[test]
fn a_record_after_which_a_peer_was_told_anything_is_not_lost() {
    let both_have_voted = "restart-reduce: call 1; up 1; call 2; up 2";

    let possible = gone(both_have_voted).possible();

    let words: Vec<String> = possible.iter().map(ToString::to_string).collect();
    assert!(words.contains(&"restart-master".to_owned()), "{words:?}");
    assert!(!words.contains(&"restart-machine".to_owned()), "{words:?}");
}

#[test]
fn only_where_it_may_be_followed_does_a_master_keep_a_journal() {
    for scenario in standard() {
        let may_follow = scenario.allows(Fault::RestartMaster);
        let name = scenario.name;
        let model = pccl_model::RunModel::new(scenario);

        assert_eq!(model.first_state().journal.is_some(), may_follow, "{name}");
    }
}
