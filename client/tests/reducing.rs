//! Reducing: what comes out, for every type, operation and shape.

mod support;

use pccl::Reduce;
use support::{Run, together, together_with};

#[test]
fn two_peers_get_the_sum_of_what_they_hold() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = vec![1.0_f32 + index as f32; 1000];
        let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (buffer, report.world_size)
    });

    assert_eq!(results, vec![(vec![3.0; 1000], 2); 2]);
}
