//! Reduce-scatter, all-gather, broadcast and barrier: what every peer ends with, also when peers go.

mod background;
mod given_up;
mod into;
mod kind;
mod lost;
mod many;
mod misused;
mod refused;
mod shapes;
mod unsaved;

use std::sync::atomic::{AtomicUsize, Ordering};

use pccl::{Algorithm, Broadcast, Communicator, Error, Gather, PeerId, Quantization, Reduce};
use pccl::{ElementType, SpecField, Tag};

use crate::support::{Run, disagreement, together_with};

/// Elements: none, fewer than peers, not divided evenly, several lanes.
const COUNTS: [usize; 6] = [0, 1, 3, 4, 1025, 2_000_003];

/// What the peer of this number contributes to an element.
fn contribution(index: usize, element: usize) -> f32 {
    (index * 7 + element % 13) as f32
}

fn contributions(index: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|element| contribution(index, element))
        .collect()
}

fn ids(peers: &[Communicator]) -> Vec<PeerId> {
    peers.iter().map(Communicator::peer_id).collect()
}

#[test]
fn shards_follow_each_other_in_the_order_of_the_peer_ids_and_are_all_of_the_buffer() {
    let run = Run::new();
    let mut peers = run.peers(3);
    peers.sort_by_key(Communicator::peer_id);

    let shards: Vec<_> = peers.iter().map(|peer| peer.shard(10).range()).collect();

    assert_eq!(shards, [0..4, 4..7, 7..10]);
    assert!(peers.iter().all(|peer| peer.shard(0).range().is_empty()));
}

#[test]
fn every_peer_gets_its_shard_of_the_sum_and_nothing_else_is_touched() {
    for world in [1, 2, 4] {
        let run = Run::new();
        let mut peers = run.peers(world);

        together_with(&mut peers, |index, peer| {
            for count in COUNTS {
                let mut buffer = contributions(index, count);
                let scattered = peer.reduce_scatter(&mut buffer, Reduce::sum()).unwrap();

                assert_eq!(scattered.shard, peer.shard(count));
                assert_eq!(scattered.report.world_size, world);
                for (element, value) in buffer.iter().enumerate() {
                    let expected: f32 = match scattered.shard.range().contains(&element) {
                        true => (0..world).map(|index| contribution(index, element)).sum(),
                        false => contribution(index, element),
                    };
                    assert_eq!(
                        *value, expected,
                        "element {element} of {count}, {world} peers"
                    );
                }
            }
        });
    }
}

#[test]
fn shards_that_are_gathered_are_what_an_all_reduce_gives_to_the_last_bit() {
    let run = Run::new();
    let mut peers = run.peers(4);
    // In the order of their ids, so both add in one order, if they do it by one algorithm.
    let is_sorted = peers
        .iter()
        .enumerate()
        .all(|(index, peer)| peer.rank() == index);
    assert!(is_sorted);

    let compared = together_with(&mut peers, |index, peer| {
        let mut compared = 0;
        for count in COUNTS.into_iter().chain([20_000]) {
            let own: Vec<f32> = contributions(index, count)
                .iter()
                .map(|x| x / 3.0)
                .collect();
            let mut whole = own.clone();
            let report = peer.all_reduce(&mut whole, Reduce::avg()).unwrap();
            let mut shards = own;
            let scattered = peer.reduce_scatter(&mut shards, Reduce::avg()).unwrap();
            let gather = Gather::of(scattered.shard);
            let gathered = peer.all_gather(&mut shards, gather).unwrap();

            assert_eq!(gathered.contributors, report.contributors);
            if scattered.report.algorithm == report.algorithm {
                compared += 1;
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&shards), bits(&whole), "{count} elements");
            }
        }
        compared
    });

    // By rounds, and around the ring.
    assert_eq!(compared, [2; 4]);
}

#[test]
fn whoever_is_the_root_all_peers_end_with_what_it_has() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let ids = ids(&peers);

    together_with(&mut peers, |index, peer| {
        for (root, id) in ids.iter().enumerate() {
            for count in COUNTS {
                let mut buffer = contributions(index, count);
                let report = peer.broadcast(&mut buffer, Broadcast::from(*id)).unwrap();

                assert_eq!(buffer, contributions(root, count), "{count} elements");
                let sent = report.bytes_sent > 0;
                let is_last = report.contributors.iter().position(|peer| *peer == *id)
                    == report
                        .contributors
                        .iter()
                        .position(|one| *one == peer.peer_id())
                        .map(|rank| (rank + 1) % 3);
                assert_eq!(sent, count > 0 && !is_last);
            }
        }
    });
}

#[test]
fn a_barrier_waits_for_all_and_different_kinds_run_side_by_side() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let root = peers[1].peer_id();
    let arrived = AtomicUsize::new(0);

    together_with(&mut peers, |index, peer| {
        for round in 1..=20 {
            arrived.fetch_add(1, Ordering::SeqCst);
            let report = peer.barrier().unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= 3 * round);
            assert_eq!((report.bytes_sent, report.bytes_received), (0, 0));
            std::thread::scope(|scope| {
                let peer = &*peer;
                scope.spawn(move || {
                    let mut buffer = vec![index as u32; 100_000];
                    peer.broadcast(&mut buffer, Broadcast::from(root).tag(1))
                        .unwrap();
                    assert!(buffer.iter().all(|element| *element == 1));
                });
                scope.spawn(move || {
                    let mut buffer = vec![1_u64; 100_000];
                    let scattered = peer
                        .reduce_scatter(&mut buffer, Reduce::sum().tag(2))
                        .unwrap();
                    assert!(
                        scattered
                            .shard
                            .of(&buffer)
                            .iter()
                            .all(|element| *element == 3)
                    );
                });
                scope.spawn(move || {
                    let mut buffer = vec![index as u8; 1000];
                    peer.all_reduce(&mut buffer, Reduce::max().tag(3)).unwrap();
                    assert_eq!(buffer, [2; 1000]);
                });
            });
        }
    });
}

#[test]
fn a_quantized_shard_is_as_wrong_as_that_of_an_all_reduce_at_most() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let reduce = Reduce::sum().quantize(Quantization::MinMax {
        to: ElementType::U8,
    });
    let bound = reduce.error_bound(ElementType::F32, 3, 40.0).unwrap();

    together_with(&mut peers, |index, peer| {
        let mut buffer = contributions(index, 100_000);
        let scattered = peer.reduce_scatter(&mut buffer, reduce).unwrap();
        for element in scattered.shard.range() {
            let exact: f32 = (0..3).map(|index| contribution(index, element)).sum();
            assert!(f64::from((buffer[element] - exact).abs()) <= bound);
        }
    });
}

#[test]
fn peers_that_want_different_kinds_or_roots_under_one_tag_are_told_so() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);

    let kinds = together_with(&mut peers, |index, peer| {
        let mut buffer = [index as u32; 10];
        let error = match index {
            0 => peer.all_reduce(&mut buffer, Reduce::sum()).unwrap_err(),
            _ => peer.reduce_scatter(&mut buffer, Reduce::sum()).unwrap_err(),
        };
        assert_eq!(buffer, [index as u32; 10]);
        error
    });
    let roots = together_with(&mut peers, |index, peer| {
        let broadcast = Broadcast::from(ids[index]);
        peer.broadcast(&mut [0_u32; 10], broadcast).unwrap_err()
    });

    let mut sorted = ids;
    sorted.sort();
    for (errors, field) in [(kinds, SpecField::Kind), (roots, SpecField::Root)] {
        for error in &errors {
            assert_eq!(disagreement(error), (Tag(0), field, sorted.clone()));
        }
    }
}

#[test]
fn a_root_that_has_left_is_named_and_shards_that_were_laid_before_are_not_gathered() {
    let run = Run::new();
    let mut peers = run.peers(3);
    peers.sort_by_key(Communicator::peer_id);
    let before: Vec<_> = peers.iter().map(|peer| peer.shard(1000)).collect();
    let gone = peers.pop().unwrap();
    let root = gone.peer_id();
    gone.shutdown();

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = [index as u16; 1000];
        // A peer that does not know yet hears it now; the ring is connected anew.
        let gathered = peer.all_gather(&mut buffer, Gather::of(before[index].clone()));
        let broadcast = peer.broadcast(&mut buffer, Broadcast::from(root));
        assert_eq!(buffer, [index as u16; 1000]);
        let shard = peer.shard(1000);
        peer.all_gather(&mut buffer, Gather::of(shard)).unwrap();
        (
            gathered.unwrap_err(),
            broadcast.unwrap_err(),
            buffer.to_vec(),
        )
    });

    for (gathered, broadcast, buffer) in results {
        let tag = Tag(0);
        assert_eq!(gathered, Error::WorldChanged { tag });
        assert_eq!(broadcast, Error::NoSuchRoot { tag, root });
        assert_eq!(buffer, [[0; 500], [1; 500]].concat());
    }
}

/// A collective of a peer: whether it was committed.
type Act = fn(&Communicator, &mut [u64], PeerId) -> Result<(), Error>;

const ACTS: [(&str, Act); 3] = [
    ("reduce-scatter", |peer, buffer, _| {
        peer.reduce_scatter(buffer, Reduce::sum()).map(drop)
    }),
    ("all-gather", |peer, buffer, _| {
        let shard = peer.shard(buffer.len());
        peer.all_gather(buffer, Gather::of(shard)).map(drop)
    }),
    ("broadcast", |peer, buffer, root| {
        peer.broadcast(buffer, Broadcast::from(root)).map(drop)
    }),
];

/// The doomed peer is the root of the broadcast, so it sends in each of them. It dies with its first frame, or with one
/// in the middle.
#[test]
fn a_peer_that_dies_in_the_middle_aborts_it_for_all_and_what_was_written_is_put_back() {
    const COUNT: usize = 1_000_000;
    for (name, act) in ACTS {
        for times in [1, 3] {
            let run = Run::new();
            let mut peers = run.peers(2);
            let doomed = run.join_doomed(
                &mut peers,
                ("frame_sent", times),
                move |doomed| async move {
                    let mut buffer = vec![9_u64; COUNT];
                    let (root, shard) = (doomed.peer_id(), doomed.shard(COUNT));
                    let _ = match name {
                        "broadcast" => {
                            let broadcast = Broadcast::from(root);
                            doomed
                                .broadcast_async(&mut buffer, broadcast)
                                .await
                                .map(drop)
                        }
                        "all-gather" => {
                            let gather = Gather::of(shard);
                            doomed.all_gather_async(&mut buffer, gather).await.map(drop)
                        }
                        _ => doomed
                            .reduce_scatter_async(&mut buffer, Reduce::sum())
                            .await
                            .map(drop),
                    };
                },
            );
            // The last one that came has the highest number.
            let root = PeerId(peers.iter().map(|peer| peer.peer_id().0).max().unwrap() + 1);

            let results = together_with(&mut peers, |index, peer| {
                let mut buffer = vec![index as u64; COUNT];
                let failed = act(peer, &mut buffer, root).unwrap_err();
                let is_as_before = buffer.iter().all(|element| *element == index as u64);
                let next = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
                (failed, is_as_before, next.world_size, buffer[COUNT - 1])
            });

            for (failed, is_as_before, world, sum) in results {
                assert!(
                    matches!(failed, Error::Aborted { .. }),
                    "{name}, {times}: {failed}"
                );
                assert!(is_as_before, "{name}, {times}");
                assert_eq!((world, sum), (2, 1), "{name}, {times}");
            }
            doomed.join().unwrap();
        }
    }
}

#[test]
fn a_broadcast_goes_down_the_tree_that_all_ask_for() {
    const COUNT: usize = 300_001;
    for world in [2, 5] {
        let run = Run::new();
        let mut peers = run.peers(world);
        let ids = ids(&peers);
        let reports = together_with(&mut peers, |index, peer| {
            let mut buffer = contributions(index, COUNT);
            let wish = Broadcast::from(ids[1]).algorithm(Algorithm::Tree);
            let report = peer.broadcast(&mut buffer, wish).unwrap();
            assert_eq!(buffer, contributions(1, COUNT));
            report
        });

        // Two peers are a ring, and within a machine a broadcast takes the chain if nobody wishes for anything.
        let (algorithm, children) = match world {
            2 => (Algorithm::Chain, 1),
            _ => (Algorithm::Tree, 3),
        };
        assert!(reports.iter().all(|report| report.algorithm == algorithm));
        assert_eq!(reports[1].bytes_sent, children * 4 * COUNT as u64);
        let unasked = together_with(&mut peers, |index, peer| {
            let mut buffer = contributions(index, 5);
            let report = peer.broadcast(&mut buffer, Broadcast::from(ids[0]));
            report.unwrap().algorithm
        });
        assert!(unasked.iter().all(|taken| *taken == Algorithm::Chain));
    }
}

/// The doomed peer is the root, or has one child and is itself a child of the root. It dies with its first frame, or
/// with one in the middle.
#[test]
fn a_peer_that_dies_in_a_tree_aborts_the_broadcast_for_those_above_and_below_it() {
    // Twelve frames for each child.
    const COUNT: usize = 1_500_000;
    let tree = |root| Broadcast::from(root).algorithm(Algorithm::Tree);
    for (is_root, frames) in [(true, 1), (true, 9), (false, 1), (false, 9)] {
        let run = Run::new();
        let mut peers = run.peers(5);
        peers.sort_by_key(Communicator::peer_id);
        let second = peers[1].peer_id();
        let doomed = run.join_doomed(
            &mut peers,
            ("frame_sent", frames),
            move |doomed| async move {
                let root = if is_root { doomed.peer_id() } else { second };
                let mut buffer = vec![9_u64; COUNT];
                let _ = doomed.broadcast_async(&mut buffer, tree(root)).await;
            },
        );
        let last = PeerId(peers[4].peer_id().0 + 1);
        let root = if is_root { last } else { second };

        let results = together_with(&mut peers, |index, peer| {
            let mut buffer = vec![index as u64; COUNT];
            let failed = peer.broadcast(&mut buffer, tree(root)).unwrap_err();
            let is_as_before = buffer.iter().all(|element| *element == index as u64);
            let report = peer.broadcast(&mut buffer, tree(second)).unwrap();
            let is_right = buffer.iter().all(|element| *element == 1);
            (failed, is_as_before, is_right, report.algorithm)
        });

        doomed.join().unwrap();
        for (failed, is_as_before, is_right, algorithm) in results {
            assert!(matches!(failed, Error::Aborted { .. }), "{failed}");
            assert!(is_as_before && is_right, "{is_root}, {frames}");
            assert_eq!(algorithm, Algorithm::Tree);
        }
    }
}

#[test]
fn peers_that_ask_for_different_trees_disagree() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let root = peers[0].peer_id();

    let errors = together_with(&mut peers, |index, peer| {
        let broadcast = Broadcast::from(root);
        let wish = match index {
            2 => broadcast,
            _ => broadcast.algorithm(Algorithm::Tree),
        };
        peer.broadcast(&mut [index as u8], wish).unwrap_err()
    });

    for error in errors {
        assert!(matches!(error, Error::Disagreement { .. }), "{error}");
    }
}

/// The doomed peer dies with its ninth frame. It never comes to that: each peer forwards two shards of four frames.
#[test]
fn within_a_machine_a_frame_of_an_all_gather_is_a_mebibyte_long() {
    const COUNT: usize = 12 * 1024 * 1024 / 8;
    let run = Run::new();
    let mut peers = run.peers(2);
    let gather = |peer: &Communicator| Gather::of(peer.shard(COUNT)).algorithm(Algorithm::Ring);
    let doomed = run.join_doomed(&mut peers, ("frame_sent", 9), move |doomed| async move {
        let mut buffer = vec![9_u64; COUNT];
        let _ = doomed.all_gather_async(&mut buffer, gather(&doomed)).await;
    });

    let results = together_with(&mut peers, |_, peer| {
        let mut buffer = vec![1_u64; COUNT];
        peer.all_gather(&mut buffer, gather(peer)).map(drop)
    });

    doomed.join().unwrap();
    assert_eq!(results, [Ok(()), Ok(())]);
}
