//! Leaving a run.

use pccl::{Error, Reduce};

use crate::support::{Run, together};

/// The engine, its thread and its transport: nothing of them is left to end later, or to be waited for in
/// vain while the one who could drive it waits.
#[test]
fn a_shutdown_has_ended_the_engine_when_it_returns() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    assert!(run.traffic.is_counted());

    peer.shutdown();

    assert!(!run.traffic.is_counted(), "the engine has not ended");
}

#[test]
fn a_drop_has_ended_the_engine_when_it_returns() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    assert!(run.traffic.is_counted());

    drop(peer);

    assert!(!run.traffic.is_counted(), "the engine has not ended");
}

#[test]
fn whoever_shuts_down_after_a_reduce_leaves_the_others_to_go_on() {
    let run = Run::new();
    let mut peers = run.peers(3);
    together(&mut peers, |peer| {
        peer.all_reduce(&mut [1_u32; 10], Reduce::sum()).unwrap();
    });

    peers.remove(1).shutdown();

    let sums = together(&mut peers, |peer| {
        let mut buffer = [1_u32; 10];
        while let Err(error) = peer.all_reduce(&mut buffer, Reduce::sum()) {
            assert!(error.is_retryable(), "{error}");
        }
        buffer
    });
    assert_eq!(sums, [[2; 10]; 2]);
}

#[test]
fn what_runs_in_a_handle_ends_with_left_when_its_peer_shuts_down() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let peer = peers.remove(0);
    // The other one never calls.
    let handle = peer.start_all_reduce(vec![7_u32; 10], Reduce::sum());

    peer.shutdown();

    let failed = handle.wait().unwrap_err();
    assert_eq!(failed.error, Error::Left);
    assert_eq!(failed.buffer, [7; 10]);
}
