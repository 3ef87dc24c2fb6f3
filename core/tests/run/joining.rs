//! Joining a run.

use pccl_core::id::GroupId;
use pccl_core::peer::Call;

use crate::harness::{Run, reduce};

#[test]
fn peers_join_update_and_reduce_under_every_order_of_events() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 3);

        let peers = run.accepted();
        run.call_all(&peers, &reduce(1));
        run.settle();

        assert_eq!(peers.len(), 3);
        assert_eq!(run.watch.commits, 3, "seed {seed}");
        let newcomer = run.join(GroupId(0));
        run.settle();
        run.call_all(&peers, &Call::UpdateTopology);
        run.settle();
        assert!(run.is_accepted(newcomer));
    }
}
