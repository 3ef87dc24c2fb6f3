//! Looking for better rings, between peers of one machine.

mod support;

use support::{Run, together};

#[test]
fn all_peers_are_told_what_can_be_expected_of_the_ring() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let reports = together(&mut peers, |peer| peer.optimize_topology().unwrap());

    let found = reports[0].optimized.clone().expect("it was optimized");
    for report in &reports {
        assert_eq!(report.optimized.as_ref(), Some(&found));
    }
    let mut before: Vec<_> = found.before.0.clone();
    let mut after = reports[0].ring.clone();
    before.sort_unstable();
    after.sort_unstable();
    assert_eq!(before, after);
    let expected = found.expected.expect("all edges were measured");
    assert!(expected.bytes_per_s > 1_000_000, "{expected:?}");
    assert!(expected.reduce_time(1 << 20) > expected.reduce_time(1 << 10));
    assert!(found.gap().is_some_and(|gap| gap >= 0.0));
}

#[test]
fn an_update_says_nothing_of_what_was_not_looked_for() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let reports = together(&mut peers, |peer| peer.update_topology().unwrap());

    assert!(reports.iter().all(|report| report.optimized.is_none()));
}

#[test]
fn what_is_known_is_adopted_at_once_the_second_time() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let first = together(&mut peers, |peer| peer.optimize_topology().unwrap());

    let second = together(&mut peers, |peer| peer.optimize_topology().unwrap());

    let of = |report: &pccl::TopologyReport| report.optimized.clone().unwrap();
    assert_eq!(of(&second[0]).expected_before, of(&first[0]).expected);
    assert_eq!(second[0].ring, first[0].ring);
}
