//! The short version of `--bin crowd`: as many peers as the founders of a run may start from one address at
//! once, each a process.

use std::path::Path;

use pccl_tests::crowd::let_in;
use pccl_tests::processes::Swarm;

#[test]
fn all_of_64_peers_of_one_address_that_start_at_once_are_admitted_and_reduce_together() {
    let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();

    let report = let_in(&mut swarm, 64).unwrap();

    println!("{report:?}");
    println!("{}", swarm.conform().unwrap());
}
