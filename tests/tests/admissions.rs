//! The short version of `--bin admissions`: a newcomer is lost at each point of its admission, once by a kill
//! and once by a cut of its connection to the master. The peers of the run go on each time, with right
//! results, and at the end what all machines said comes out the same.

use std::path::Path;

use pccl_tests::losses::{Loop, Loss, Run};
use pccl_tests::processes::Swarm;

#[test]
fn the_others_go_on_wherever_in_its_admission_a_newcomer_is_lost() {
    let swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let mut run = Run::start(swarm, Loop::Usual, 3).unwrap();

    for loss in Loss::of_admission() {
        let recovery = run.lose(loss);

        assert!(recovery.is_ok(), "{loss}: {recovery:?}");
    }

    println!("{}", run.conform().unwrap());
}
