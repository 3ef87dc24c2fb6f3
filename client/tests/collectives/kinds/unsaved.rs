//! Buffers that are not backed up: what they hold after a success, and after a failure.

use std::future::pending;

use pccl::{Broadcast, Communicator, ElementType, Error, Gather, PeerId, Quantization};

use super::kind::{Kind, input, inputs};
use crate::support::{Run, together_with};

/// Elements: none, fewer than peers, not divided evenly, several lanes.
const COUNTS: [usize; 5] = [0, 1, 3, 1025, 2_000_003];

fn gather(peer: &Communicator, buffer: &mut [u64]) -> Result<usize, Error> {
    let gather = Gather::of(peer.shard(buffer.len())).without_backup();
    let report = peer.all_gather(buffer, gather)?;
    Ok(report.world_size)
}

fn broadcast(peer: &Communicator, root: PeerId, buffer: &mut [u64]) -> Result<usize, Error> {
    let report = peer.broadcast(buffer, Broadcast::from(root).without_backup())?;
    Ok(report.world_size)
}

#[test]
fn without_a_backup_all_end_with_the_same_elements_as_with_one() {
    for world in [1, 2, 4] {
        let run = Run::new();
        let mut peers = run.peers(world);
        let ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
        for count in COUNTS {
            let gathered = together_with(&mut peers, |index, peer| {
                let mut buffer = input(index, count);
                // One of them saves what it overwrites: each chooses for itself.
                let ended = match index {
                    1 => Kind::AllGather.call(peer, &mut buffer, 0).map(|_| world),
                    _ => gather(peer, &mut buffer),
                };
                assert_eq!(ended, Ok(world));
                buffer
            });
            let promised = Kind::AllGather.promised(&ids, &inputs(world, count));
            assert!(gathered == promised, "{count} elements of {world} peers");

            let root = ids[world - 1];
            let told = together_with(&mut peers, |index, peer| {
                let mut buffer = input(index, count);
                assert_eq!(broadcast(peer, root, &mut buffer), Ok(world));
                buffer
            });
            let promised = Kind::Broadcast(root).promised(&ids, &inputs(world, count));
            assert!(told == promised, "{count} elements of {world} peers");
        }
    }
}

#[test]
fn after_a_loss_the_own_shard_is_there_to_be_gathered_again() {
    const COUNT: usize = 200_000;
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed_as(
        run.builder(),
        &mut peers,
        // It has everything, and nobody else knows.
        ("plan_done", 1),
        |doomed| async move {
            let mut buffer = input(2, COUNT);
            let shard = doomed.shard(COUNT);
            let _ = doomed
                .all_gather_async(&mut buffer, Gather::of(shard))
                .await;
            pending::<()>().await;
        },
    );

    let left = together_with(&mut peers, |index, peer| {
        let mut buffer = input(index, COUNT);
        let shard = peer.shard(COUNT);
        let ended = gather(peer, &mut buffer);
        assert!(matches!(ended, Err(Error::Aborted { .. })), "{ended:?}");
        assert!(*shard.of(&buffer) == *shard.of(&input(index, COUNT)));
        let is_replaced = buffer != input(index, COUNT);
        (shard.of(&buffer).to_vec(), is_replaced)
    });
    doomed.join().unwrap();
    // There is no backup to put back. Whoever passed a shard on to the dead peer has it; the other survivor may not
    // have read a frame before it heard of the loss.
    assert!(left.iter().any(|(_, is_replaced)| *is_replaced));
    let shards: Vec<Vec<u64>> = left.into_iter().map(|(shard, _)| shard).collect();

    // Two shards of three are left, as long as each other: halves of what is gathered from here on.
    let gathered = together_with(&mut peers, |index, peer| {
        while let Err(error) = peer.barrier() {
            assert!(error.is_retryable(), "{error}");
        }
        let mut buffer = vec![0; 2 * shards[index].len()];
        let own = peer.shard(buffer.len());
        own.of_mut(&mut buffer).copy_from_slice(&shards[index]);
        assert_eq!(gather(peer, &mut buffer), Ok(2));
        buffer
    });
    assert_eq!(gathered, [shards.concat(), shards.concat()]);
}

/// What a peer contributes is replaced when all of it has left, and the collective fails after that.
#[test]
fn after_a_loss_what_was_quantized_is_there_in_full_precision() {
    const COUNT: usize = 200_000;
    const TO_BYTES: Quantization = Quantization::MinMax {
        to: ElementType::U8,
    };
    let own = |index: usize| -> Vec<f32> {
        let numbers = (0..COUNT).map(|place| (place % 1009) as f32 / 7.0 + index as f32);
        numbers.collect()
    };
    for of_root in [None, Some(0), Some(1)] {
        let run = Run::new();
        let mut peers = run.peers(2);
        let root = of_root.map(|of_root: usize| peers[of_root].peer_id());
        let builder = run.builder();
        // Its part is done, and mostly those of the others are; nobody else knows.
        let doomed = run.join_doomed_as(
            builder,
            &mut peers,
            ("plan_done", 1),
            move |doomed| async move {
                let mut buffer = own(2);
                let _ = match root {
                    None => {
                        let gather = Gather::of(doomed.shard(COUNT)).quantize(TO_BYTES);
                        doomed.all_gather_async(&mut buffer, gather).await
                    }
                    Some(root) => {
                        let broadcast = Broadcast::from(root).quantize(TO_BYTES);
                        doomed.broadcast_async(&mut buffer, broadcast).await
                    }
                };
                pending::<()>().await;
            },
        );

        let aborted = together_with(&mut peers, |index, peer| {
            let mut buffer = own(index);
            let shard = peer.shard(COUNT);
            let ended = match root {
                None => {
                    let gather = Gather::of(shard.clone()).quantize(TO_BYTES);
                    peer.all_gather(&mut buffer, gather.without_backup())
                }
                Some(root) => {
                    let broadcast = Broadcast::from(root).quantize(TO_BYTES);
                    peer.broadcast(&mut buffer, broadcast.without_backup())
                }
            };

            match of_root {
                None => assert!(shard.of(&buffer) == shard.of(&own(index))),
                Some(of_root) => assert!(index != of_root || buffer == own(index)),
            }
            matches!(ended, Err(Error::Aborted { .. }))
        });
        // Without the vote of the dead peer.
        assert_eq!(aborted, [true, true]);
        doomed.join().unwrap();
    }
}
