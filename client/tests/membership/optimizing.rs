//! Looking for better rings, between peers of one machine.

use pccl::Reduce;

use crate::support::{Run, together};

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
fn a_ring_that_was_looked_for_twice_reduces() {
    let run = Run::new();
    let mut peers = run.peers(4);

    let results = together(&mut peers, |peer| {
        peer.optimize_topology().unwrap();
        let report = peer.optimize_topology().unwrap();
        let mut buffer = [1_u32; 1000];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (report.ring, buffer)
    });

    assert!(results.iter().all(|(ring, _)| *ring == results[0].0));
    assert!(results.iter().all(|(_, buffer)| *buffer == [4; 1000]));
}
