//! The measurement of `--bin recovery`, on a few kills: it measures, it does not judge.

use std::path::Path;

use pccl_bench::recovery::{STAGES, Setting, measure};
use pccl_tests::processes::Swarm;

#[test]
fn the_recovery_from_each_kill_is_measured() {
    let program = Path::new(env!("CARGO_BIN_EXE_recovery"));
    let setting = Setting {
        peers: 3,
        elements: 1024,
    };

    let mut swarm = Swarm::recorded(program).unwrap();

    let outcome = measure(&mut swarm, setting, 3, |_| {}).unwrap();

    assert_eq!(outcome.recoveries.len(), 3);
    assert!(!outcome.undisturbed.is_empty());
    for recovery in &outcome.recoveries {
        assert_eq!(recovery.stages.len(), STAGES.len());
        assert_eq!(
            recovery.stages.iter().sum::<u64>(),
            recovery.total,
            "{recovery:?}"
        );
    }
    println!("{}", swarm.conform().unwrap());
}
