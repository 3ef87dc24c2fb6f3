//! Garbage for a run of real processes: the short version of `--bin siege`.

use std::path::Path;
use std::time::Duration;

use pccl_tests::over::Over;
use pccl_tests::siege::{Siege, besiege};

#[test]
fn a_run_goes_on_while_its_master_and_its_peers_are_sent_garbage() {
    let siege = Siege {
        over: Over::of_environment(),
        seed: 11,
        lasting: Duration::from_secs(3),
        to_master: 50,
        to_each_peer: 10,
    };

    let report = besiege(Path::new(env!("CARGO_BIN_EXE_test_peer")), siege).unwrap();

    println!("{report:?}");
    assert!(report.rounds > 0, "no round was committed under siege");
    assert!(
        report.master_connections.1 > 0,
        "the master ended no connection"
    );
    assert!(
        report.peer_connections.1 > 0,
        "the peers ended no connection"
    );
    assert!(report.outputs_replayed > 0, "nothing was recorded");
}
