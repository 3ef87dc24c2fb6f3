//! The programs of the README as they stand there (`client/tests/documented_programs.rs` compares them), run by
//! processes of which one is lost at each point of its conversation with the master. All others go on.

use std::path::Path;

use pccl_tests::losses::{Loop, Loss, Who, lose_all};
use pccl_tests::readme::Program;

fn assert_the_others_go_on(program: Program, who: Who) {
    let losses = Loss::of_readme().into_iter().filter(|loss| loss.who == who);
    let losses: Vec<Loss> = losses.collect();
    let process = Path::new(env!("CARGO_BIN_EXE_test_peer"));

    let outcomes = lose_all(process, Loop::Readme(program), 2, &losses, |_| {}).unwrap();

    let stuck = outcomes.iter().filter(|outcome| outcome.recovery.is_err());
    let stuck: Vec<_> = stuck.collect();
    assert!(stuck.is_empty(), "{stuck:#?}");
}

#[test]
fn the_others_go_on_wherever_in_the_first_program_a_newcomer_is_lost() {
    assert_the_others_go_on(Program::Run, Who::Newcomer);
}

#[test]
fn the_others_go_on_wherever_in_the_first_program_a_veteran_is_lost() {
    assert_the_others_go_on(Program::Run, Who::Veteran);
}

#[test]
fn the_others_go_on_wherever_in_the_loop_without_the_helper_a_newcomer_is_lost() {
    assert_the_others_go_on(Program::Manual, Who::Newcomer);
}

#[test]
fn the_others_go_on_wherever_in_the_loop_without_the_helper_a_veteran_is_lost() {
    assert_the_others_go_on(Program::Manual, Who::Veteran);
}
