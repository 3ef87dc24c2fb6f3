//! A reduce-scatter from one buffer into another: the same shard as in place, and an untouched source.

use pccl::{Algorithm, Communicator, Reduce};

use super::kind::{Kind, input, inputs};
use crate::support::{Run, together_with};

/// Elements: none, fewer than peers, not divided evenly, several lanes.
const COUNTS: [usize; 5] = [0, 1, 3, 1025, 2_000_003];

#[test]
fn into_another_buffer_a_shard_is_what_it_is_in_place_and_the_source_stays_as_it_was() {
    for world in [1, 2, 4] {
        let run = Run::new();
        let mut peers = run.peers(world);
        let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();
        let ways = [None, Some(Algorithm::Ring), Some(Algorithm::Direct)];
        for (count, way) in COUNTS
            .into_iter()
            .flat_map(|count| ways.map(|way| (count, way)))
        {
            let reduce = match way {
                Some(way) => Reduce::sum().algorithm(way),
                None => Reduce::sum(),
            };
            let promised = Kind::ReduceScatter.promised(&ids, &inputs(world, count));
            together_with(&mut peers, |index, peer| {
                let own = peer.shard(count);
                let mut buffer = input(index, count);
                // One of them works in place: each chooses for itself.
                if index == 1 {
                    peer.reduce_scatter(&mut buffer, reduce).unwrap();
                    assert_eq!(buffer, promised[index]);
                    return;
                }
                let mut shard = vec![7; 3];
                let scattered = peer.reduce_scatter_into(&buffer, &mut shard, reduce);
                assert_eq!(scattered.unwrap().shard, own);
                assert!(shard == own.of(&promised[index]), "{count} of {world}");
                assert!(buffer == input(index, count), "{count} of {world}");
            });
        }
    }
}

#[test]
fn a_vector_becomes_as_long_as_the_shard_of_fewer_peers_and_no_call_needs_another_source() {
    const COUNT: usize = 300_000;
    let run = Run::new();
    let mut peers = run.peers(3);
    let sources: Vec<_> = (0..3).map(|index| input(index, COUNT)).collect();
    let scatter = |peers: &mut Vec<Communicator>| {
        together_with(peers, |index, peer| {
            let mut shard = Vec::new();
            let scattered = loop {
                match peer.reduce_scatter_into(&sources[index], &mut shard, Reduce::sum()) {
                    Ok(scattered) => break scattered,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            };
            assert_eq!(shard.len(), scattered.shard.range().len());
            shard
        })
    };

    let of_three = scatter(&mut peers);
    drop(peers.pop());
    let of_two = scatter(&mut peers);

    assert_eq!(of_three.iter().map(Vec::len).sum::<usize>(), COUNT);
    assert_eq!(of_two.iter().map(Vec::len).sum::<usize>(), COUNT);
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();
    let promised = Kind::ReduceScatter.promised(&ids, &inputs(2, COUNT));
    for (index, shard) in of_two.iter().enumerate() {
        assert!(*shard == peers[index].shard(COUNT).of(&promised[index]));
    }
}
