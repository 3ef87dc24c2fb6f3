//! Peers, lanes, handles and masters that go away, and what the others are left with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;

use pccl::{AbortCause, Algorithm, Communicator, Error, Reduce, ReduceItem};

use crate::support::{Run, on_event, together, together_with};

#[test]
fn a_peer_that_dies_before_its_part_aborts_the_reduce_for_everyone_and_costs_one_retry() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("plan_started", 1), |peer| async move {
        let _ = peer
            .all_reduce_async(&mut [5.0_f32; 64], Reduce::sum())
            .await;
    });

    let results = together(&mut peers, |peer| {
        let mut buffer = [1.0_f32; 64];
        let error = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap_err();
        let restored = buffer;
        let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (error, restored, buffer, report.world_size)
    });

    doomed.join().unwrap();
    for (error, restored, result, world_size) in results {
        assert!(matches!(
            error,
            Error::Aborted {
                cause: AbortCause::PeerLost(_) | AbortCause::LaneLost { .. },
                ..
            }
        ));
        assert_eq!(restored, [1.0; 64]);
        assert_eq!((result, world_size), ([2.0; 64], 2));
    }
}

#[test]
fn a_peer_that_dies_in_a_direct_exchange_costs_the_others_one_retry_over_the_mesh_that_is_left() {
    // Few enough to go directly within a machine.
    const COUNT: usize = 10_000;
    let run = Run::new();
    let mut peers = run.peers(3);
    let doomed = run.join_doomed(&mut peers, ("frame_sent", 2), |peer| async move {
        let _ = peer
            .all_reduce_async(&mut [5.0_f32; COUNT], Reduce::sum())
            .await;
    });

    let results = together(&mut peers, |peer| {
        let mut buffer = vec![1.0_f32; COUNT];
        let error = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap_err();
        let is_restored = buffer.iter().all(|element| *element == 1.0);
        let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        let is_right = buffer.iter().all(|element| *element == 3.0);
        (error, is_restored, is_right, report.algorithm)
    });

    doomed.join().unwrap();
    for (error, is_restored, is_right, algorithm) in results {
        assert!(matches!(error, Error::Aborted { .. }), "{error}");
        assert!(is_restored && is_right);
        assert_eq!(algorithm, Algorithm::Direct);
    }
}

/// Defect R-2 of the original: a peer keeps a result that the others threw away.
#[test]
fn a_peer_whose_result_was_whole_restores_its_buffer_when_the_verdict_is_to_abort() {
    let run = Run::new();
    let mut peers = run.peers(2);
    // Nobody goes on before all are whole.
    let all_done = Arc::new(Barrier::new(3));
    let done = Arc::clone(&all_done);
    let dies_of = move |kind: &str| {
        let is_done = kind == "plan_done";
        is_done.then(|| done.wait());
        is_done
    };
    let doomed = run.join_doomed_by(&mut peers, dies_of, |peer| async move {
        let _ = peer
            .all_reduce_async(&mut [5_u64; 3000], Reduce::sum())
            .await;
    });

    let results = together(&mut peers, |peer| {
        let plans_done = Arc::new(AtomicUsize::new(0));
        let (counted, done) = (Arc::clone(&plans_done), Arc::clone(&all_done));
        let count = move |kind: &str| {
            if kind == "plan_done" {
                counted.fetch_add(1, Ordering::Relaxed);
                done.wait();
            }
        };
        let mut buffer = [1_u64; 3000];
        let result = on_event(count, || peer.all_reduce(&mut buffer, Reduce::sum()));
        (result, buffer, plans_done.load(Ordering::Relaxed))
    });

    doomed.join().unwrap();
    for (result, buffer, plans_done) in results {
        assert!(matches!(result, Err(Error::Aborted { .. })));
        assert_eq!(plans_done, 1, "the result was whole here");
        assert_eq!(buffer, [1; 3000]);
    }
}

/// Defect A-1 of the original: a counter that is not taken back after a loss lets the call end in
/// success with buffers that nobody reduced.
#[test]
fn many_buffers_are_all_reduced_although_a_peer_dies_among_them() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("plan_started", 3), |peer| async move {
        // Takes part in three of eight, and is lost with two in flight.
        for tag in 0..3 {
            let reduce = Reduce::sum().tag(tag);
            let _ = peer.all_reduce_async(&mut [100_u64; 500], reduce).await;
        }
    });

    let results = together(&mut peers, |peer| {
        let mut buffers = vec![vec![1_u64; 500]; 8];
        let mut items: Vec<ReduceItem<'_>> = buffers
            .iter_mut()
            .zip(0..)
            .map(|(buffer, tag)| ReduceItem::new(buffer, Reduce::sum().tag(tag)))
            .collect();
        let reports = peer.all_reduce_many_with_retry(&mut items, 2).unwrap();
        (buffers, reports)
    });

    doomed.join().unwrap();
    for (buffers, reports) in results {
        assert_eq!(reports.len(), 8);
        for (buffer, report) in buffers.iter().zip(&reports) {
            let expected = if report.world_size == 3 { 102 } else { 2 };
            assert_eq!(*buffer, vec![expected; 500]);
        }
        assert!(reports.iter().any(|report| report.world_size == 2));
        assert!(reports.iter().any(|report| report.retries > 0));
    }
}

#[test]
fn the_duration_of_an_item_covers_the_attempts_that_were_aborted() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("plan_started", 1), |peer| async move {
        let _ = peer
            .all_reduce_async(&mut [5_u64; 3000], Reduce::sum())
            .await;
    });

    let results = together(&mut peers, |peer| {
        let moments = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&moments);
        let note = move |kind: &str| {
            if ["plan_started", "verdict"].contains(&kind) {
                noted.lock().unwrap().push(Instant::now());
            }
        };
        let mut buffer = [1_u64; 3000];
        let mut items = [ReduceItem::new(&mut buffer, Reduce::sum())];
        let reports = on_event(note, || peer.all_reduce_many_with_retry(&mut items, 1));
        let moments = moments.lock().unwrap();
        let between = *moments.last().unwrap() - *moments.first().unwrap();
        (reports.unwrap().remove(0), between)
    });

    doomed.join().unwrap();
    for (report, between) in results {
        assert!(report.retries > 0);
        assert!(report.duration >= between, "{report:?} of {between:?}");
        // Aborted attempts are in no phase.
        assert!(report.phases.total() < report.duration, "{report:?}");
    }
}

#[test]
fn many_buffers_end_with_an_error_that_lists_what_is_done_where_retrying_cannot_help() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| {
        let mut buffers = [vec![1_u8; 10], vec![1; 10 + index], vec![1; 10]];
        let mut items: Vec<ReduceItem<'_>> = buffers
            .iter_mut()
            .zip(0..)
            .map(|(buffer, tag)| ReduceItem::new(buffer, Reduce::sum().tag(tag)))
            .collect();
        let failed = peer.all_reduce_many_with_retry(&mut items, 1).unwrap_err();
        (failed, buffers)
    });

    for (failed, [done, failing, not_begun]) in results {
        let reported: Vec<bool> = failed.reports.iter().map(Option::is_some).collect();
        assert_eq!(reported, [true, false, false]);
        assert!(matches!(
            failed.errors[..],
            [(1, Error::Disagreement { .. })]
        ));
        assert_eq!(done, [2; 10]);
        assert!(
            failing
                .iter()
                .chain(&not_begun)
                .all(|element| *element == 1)
        );
    }
}

#[test]
fn many_buffers_need_a_tag_each() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    let (mut one, mut other) = ([1_u8; 4], [1_u8; 4]);
    let mut items = [
        ReduceItem::new(&mut one, Reduce::sum()),
        ReduceItem::new(&mut other, Reduce::sum()),
    ];

    let failed = peer.all_reduce_many_with_retry(&mut items, 2).unwrap_err();

    assert!(matches!(failed.errors[..], [(1, Error::TagInUse(_))]));
    assert_eq!(failed.reports, [None, None]);
}

#[test]
fn a_master_that_dies_leaves_buffers_as_they_were_and_says_so_ever_after() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let handles: Vec<_> = peers[..1]
        .iter()
        .map(|peer| peer.start_all_reduce(vec![3_i64; 10], Reduce::sum()))
        .collect();

    run.master.stop();

    let failed: Vec<_> = handles.into_iter().map(|handle| handle.wait()).collect();
    for failed in failed {
        let failed = failed.unwrap_err();
        assert!(failed.error.is_final() && !failed.error.is_retryable());
        assert_eq!(failed.buffer, [3; 10]);
    }
    let errors = together(&mut peers, |peer| peer.update_topology().unwrap_err());
    assert_eq!(errors, [Error::MasterStopped, Error::MasterStopped]);
}

#[test]
fn a_handle_that_is_dropped_gives_its_reduce_up_and_frees_the_tag() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let dropped = Barrier::new(2);

    let results = together_with(&mut peers, |index, peer| {
        let reduce = Reduce::sum().tag(4);
        if index == 0 {
            drop(peer.start_all_reduce(vec![1_u16; 8], reduce));
        }
        dropped.wait();
        loop {
            let reduced = peer.start_all_reduce(vec![2_u16; 8], reduce).wait();
            match reduced {
                Ok(reduced) => return reduced.buffer,
                // The vote for the one that was dropped had not been taken back yet.
                Err(failed) => {
                    let Error::Aborted { cause, .. } = failed.error else {
                        panic!("{failed:?}");
                    };
                    assert!(matches!(cause, AbortCause::Cancelled(_)), "{cause}");
                    assert_eq!((index, failed.buffer), (1, vec![2; 8]));
                }
            }
        }
    });

    assert_eq!(results, [[4; 8], [4; 8]]);
}

#[test]
fn a_topology_is_not_changed_under_a_handle() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let mut peer = peers.remove(0);
    let handle = peer.start_all_reduce(vec![1_u16; 8], Reduce::sum());

    let error = peer.update_topology().unwrap_err();

    assert_eq!(error, Error::PendingCollectives);
    peers[0].all_reduce(&mut [1_u16; 8], Reduce::sum()).unwrap();
    assert_eq!(handle.wait().unwrap().buffer, [2; 8]);
}

#[test]
fn who_leaves_is_not_waited_for() {
    let run = Run::new();
    let mut peers = run.peers(3);

    peers.remove(1).shutdown();
    let results = together(&mut peers, |peer| {
        peer.update_topology().unwrap();
        let mut buffer = [1_u8; 3];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (buffer, peer.world_size(), peer.rank())
    });

    let ranks: Vec<usize> = results.iter().map(|(_, _, rank)| *rank).collect();
    assert!(
        results
            .iter()
            .all(|(buffer, world, _)| (*buffer, *world) == ([2; 3], 2))
    );
    assert!(ranks == [0, 1] || ranks == [1, 0]);
}

#[test]
fn attributes_tell_of_the_own_group_and_of_all() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let builder = run.builder().group(7);
    let joining = std::thread::spawn(move || builder.connect().unwrap());
    crate::support::admit(&mut peers);
    let stranger = joining.join().unwrap();

    let attributes = |peer: &Communicator| {
        [
            peer.world_size(),
            peer.global_world_size(),
            peer.num_groups(),
            peer.largest_group_world_size(),
        ]
    };

    assert_eq!(attributes(&peers[0]), [2, 3, 2, 2]);
    assert_eq!(attributes(&stranger), [1, 3, 2, 2]);
    assert_eq!(stranger.epoch(), peers[0].epoch());
}
