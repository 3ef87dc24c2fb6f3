//! Handles of all kinds of collectives: they own their buffers, and give them back with the result or as they were.

use std::sync::Barrier;
use std::time::Duration;

use pccl::{AbortCause, Error, Gather, GatherV};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::time::timeout;

use super::ids;
use super::kind::{Kind, ended, input, inputs, one_thread};
use crate::support::{Run, together_with};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

/// Waits for something on a thread of the test's.
fn wait<T>(what: impl Future<Output = T>) -> T {
    one_thread()
        .block_on(async { timeout(HANG, what).await })
        .expect("it ends")
}

#[test]
fn handles_of_all_kinds_run_at_once_and_are_awaited_in_any_order() {
    const COUNTS: [usize; 4] = [0, 2, 1025, 300_000];
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);
    // There is one barrier at a time.
    let kinds = Kind::all(ids[1]).into_iter().take(4);
    let deeds = kinds.flat_map(|kind| COUNTS.map(|count| (kind, count)));
    let deeds = deeds.chain([(Kind::Barrier, 0)]);
    let deeds: Vec<(u64, (Kind, usize))> = (0..).zip(deeds).collect();

    together_with(&mut peers, |index, peer| {
        let random = &mut StdRng::seed_from_u64(index as u64);
        let mut order = deeds.clone();
        order.shuffle(random);
        let mut started: Vec<_> = order
            .iter()
            .map(|&(tag, (kind, count))| {
                let handle = kind.start(peer, input(index, count), tag);
                (kind, count, handle)
            })
            .collect();
        started.shuffle(random);
        for (kind, count, handle) in started {
            let (buffer, result) = wait(handle);

            let report = result.unwrap();
            assert_eq!(report.world_size, 3);
            let promised = kind.promised(&ids, &inputs(3, count));
            assert!(buffer == promised[index], "{kind:?} of {count}");
        }
    });
}

#[test]
fn an_all_gather_of_different_lengths_gives_both_buffers_back() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);

    together_with(&mut peers, |index, peer| {
        let mine: Box<[u64]> = input(index, 10 * index).into();
        let handle = peer.start_all_gather_v(mine, vec![7], GatherV::at_most(29));
        let ((mine, all), result) = wait(ended(handle));
        assert!(matches!(result, Err(Error::TooLong { .. })), "{result:?}");
        assert_eq!((&*mine, &*all), (&*input(index, 10 * index), &[7][..]));

        let handle = peer.start_all_gather_v(mine, all, GatherV::at_most(30));
        let done = handle.wait().unwrap();

        let (mine, all) = done.buffer;
        assert_eq!(*mine, *input(index, 10 * index));
        for (index, id) in ids.iter().enumerate() {
            let range = done.returned.range(*id).unwrap();
            assert_eq!(all[range], *input(index, 10 * index));
        }
    });
}

#[test]
fn a_handle_that_is_dropped_gives_any_collective_up_and_the_others_have_their_buffers() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);
    for kind in Kind::all(ids[0]) {
        let dropped = Barrier::new(2);
        let buffers = together_with(&mut peers, |index, peer| {
            if index == 0 {
                drop(kind.start(peer, input(0, 500), 4));
            }
            dropped.wait();
            let mut buffer = input(index, 500);
            loop {
                let result;
                (buffer, result) = wait(kind.start(peer, buffer, 4));
                match result {
                    Ok(_) => return buffer,
                    // The vote for the one that was dropped had not been taken back yet.
                    Err(Error::Aborted { cause, .. }) => {
                        let is_given_up = matches!(cause, AbortCause::Cancelled(_));
                        assert!(is_given_up && index == 1, "{kind:?}: {cause}");
                        assert_eq!(buffer, input(1, 500), "{kind:?}");
                    }
                    Err(other) => panic!("{kind:?}: {other}"),
                }
            }
        });

        assert_eq!(buffers, kind.promised(&ids, &inputs(2, 500)), "{kind:?}");
    }
}

#[test]
fn a_topology_is_not_changed_under_a_handle_of_any_kind() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);
    for kind in Kind::all(ids[0]) {
        let [first, second] = &mut peers[..] else {
            panic!("there are two");
        };
        let started = kind.start(first, input(0, 9), 1);

        let refused = first.update_topology().unwrap_err();

        assert_eq!(refused, Error::PendingCollectives, "{kind:?}");
        kind.call(second, &mut input(1, 9), 1).unwrap();
        wait(started).1.unwrap();
    }
}

#[test]
fn the_handle_of_a_call_that_is_refused_at_once_gives_its_buffer_back() {
    let run = Run::new();
    let peers = run.peers(1);
    let shard_of_less = peers[0].shard(4);

    let handle = peers[0].start_all_gather(input(0, 5), Gather::of(shard_of_less));

    assert!(handle.is_finished());
    let failed = handle.wait().unwrap_err();
    assert_eq!(failed.buffer, input(0, 5));
    let (shard_of, buffer_len) = (4, 5);
    let expected = Error::ShardMismatch {
        shard_of,
        buffer_len,
    };
    assert_eq!(failed.error, expected);
}
