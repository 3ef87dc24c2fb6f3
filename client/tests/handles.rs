//! Waiting for a handle no longer than one wants to.

mod support;

use std::time::Duration;

use pccl::Reduce;
use support::Run;

/// Far beyond what the reduce takes.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_handle_that_was_waited_for_in_vain_gives_its_buffer_later() {
    let run = Run::new();
    let peers = run.peers(2);
    let [first, second] = &peers[..] else {
        panic!("there are two");
    };
    let mut handle = first.start_all_reduce(vec![1_u32; 100], Reduce::sum());

    assert!(!handle.is_finished());
    assert_eq!(handle.try_wait(), None);
    assert_eq!(handle.wait_timeout(Duration::from_millis(1)), None);

    let mut other = second.start_all_reduce(vec![2_u32; 100], Reduce::sum());
    let reduced = handle.wait_timeout(LONG).expect("it has ended").unwrap();
    assert_eq!(reduced.buffer, [3; 100]);
    assert!(handle.is_finished());

    while !other.is_finished() {
        std::thread::yield_now();
    }
    let reduced = other.try_wait().expect("it has ended").unwrap();
    assert_eq!(reduced.buffer, [3; 100]);
}
