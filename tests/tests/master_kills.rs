//! Masters that are killed with SIGKILL again and again, and go on from their journals: no call fails because of it, no
//! peer starts again, and no two peers are told different verdicts.
//!
//! The short version of `--bin churn -- --kill-master SECONDS`. The environment variable `CHURN_SEED` chooses another
//! seed. Over QUIC no connection ends with its master: it is the next one that ends those of the one before.

use std::path::Path;
use std::time::Duration;

use pccl_tests::churn::report::Report;
use pccl_tests::churn::{Churn, Kills, Length, churn};
use pccl_tests::over::Over;

/// The default seed.
const SEED: u64 = 16;

fn run(over: Over, kills: Kills, faults: u32, every: Duration) -> Report {
    let chosen = std::env::var("CHURN_SEED").ok();
    let seed = chosen.map_or(SEED, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let schedule = Churn {
        seed,
        length: Length::Faults(faults),
        max_peers: 5,
        elements: 1 << 16,
        state_bytes: 1 << 18,
        over,
        kill_master: Some(every),
        kills,
        is_verbose: false,
    };
    let report = churn(Path::new(env!("CARGO_BIN_EXE_churn")), schedule).unwrap();
    println!("{report}");
    assert_eq!(report.findings, []);
    assert!(report.tally.verdicts > 0, "no verdict was compared");
    report
}

fn kill_the_master_alone(over: Over) {
    let report = run(over, Kills::None, 6, Duration::from_secs(4));

    let kills = report.master_kills.unwrap();
    assert_eq!(kills.kills, 6);
    assert_eq!(kills.restart_ms.count, 6);
    assert_eq!(kills.stall_ms.count, 6 * report.max_peers);
    assert_eq!(report.tally.joins, report.max_peers as u64);
    let failed = report.tally.aborts + report.tally.restarts + report.tally.lost;
    assert_eq!(failed, 0);
}

#[test]
fn no_call_fails_and_no_peer_starts_again_while_the_master_alone_is_killed() {
    kill_the_master_alone(Over::of_environment());
}

#[test]
fn no_call_fails_and_no_peer_starts_again_while_the_master_alone_is_killed_over_quic() {
    kill_the_master_alone(Over::Quic);
}

#[test]
fn every_result_and_every_state_is_right_while_the_master_and_peers_are_killed() {
    // A master that lives for less than the 5 s of silence that it tolerates gives up nobody who has died with the one
    // before it.
    let over = Over::of_environment();
    let report = run(over, Kills::Peers, 60, Duration::from_secs(8));

    let kills = report.master_kills.unwrap();
    assert!(kills.kills > 0, "no master was killed");
    assert_eq!(kills.restart_ms.count as u64, kills.kills);
    assert!(report.tally.deaths > 0, "no peer was killed");
}
