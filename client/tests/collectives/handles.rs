//! Waiting for a handle no longer than one wants to.

use std::time::{Duration, Instant};

use pccl::{Error, Reduce};

use crate::support::{Run, together_with};

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

#[test]
fn a_report_tells_how_long_a_peer_waited_for_one_that_called_late() {
    let run = Run::new();
    let peers = run.peers(2);
    let [first, second] = &peers[..] else {
        panic!("there are two");
    };
    let begun = Instant::now();
    let early = first.start_all_reduce(vec![1_u32; 100], Reduce::sum());
    let called = Instant::now();
    while called.elapsed() < Duration::from_millis(5) {
        std::thread::yield_now();
    }
    let late_by = called.elapsed();
    let late = second.start_all_reduce(vec![2_u32; 100], Reduce::sum());

    let (early, late) = (
        early.wait().unwrap().returned,
        late.wait().unwrap().returned,
    );
    assert!(early.phases.start >= late_by, "{early} after {late_by:?}");
    for report in [early, late] {
        assert_eq!(report.phases.total(), report.duration);
        assert!(report.phases.total() <= begun.elapsed(), "{report}");
        let phases = format!("({})", report.phases);
        assert!(report.to_string().ends_with(&phases), "{report}");
    }
}

/// Memory of a kind that this library knows nothing of.
struct Pinned {
    elements: Box<[f32]>,
    name: &'static str,
}

impl AsMut<[f32]> for Pinned {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.elements
    }
}

#[test]
fn a_handle_owns_any_buffer_that_lends_a_slice_and_gives_the_same_one_back() {
    let run = Run::new();
    let mut peers = run.peers(2);

    together_with(&mut peers, |index, peer| {
        let own = index as f32;
        let boxed = peer.start_all_reduce(vec![own; 10].into_boxed_slice(), Reduce::sum());
        let array = peer.start_all_reduce([own; 3], Reduce::max().tag(1));
        let pinned = Pinned {
            elements: vec![own; 1000].into(),
            name: "pinned",
        };
        let pinned = peer.start_all_reduce(pinned, Reduce::avg().tag(2));

        assert_eq!(*boxed.wait().unwrap().buffer, [1.0; 10]);
        assert_eq!(array.wait().unwrap().buffer, [1.0; 3]);
        let Ok(reduced) = pinned.wait() else {
            panic!("it was reduced");
        };
        assert_eq!(*reduced.buffer.elements, [0.5; 1000]);
        assert_eq!(reduced.buffer.name, "pinned");
    });
}

#[test]
fn a_handle_that_fails_at_once_gives_the_buffer_back() {
    let run = Run::new();
    let peers = run.peers(1);
    let boxed: Box<[i32]> = vec![7; 5].into();

    let failed = peers[0].start_all_reduce(boxed, Reduce::weighted_avg(1));

    let failed = failed.wait().unwrap_err();
    assert_eq!(*failed.buffer, [7; 5]);
    assert!(matches!(failed.error, Error::WeightedIntegers { .. }));
}
