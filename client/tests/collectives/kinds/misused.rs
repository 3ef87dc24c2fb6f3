//! What a program may do that it should not, or that is hard to think of: shards of others, tags in use, calls that meet
//! other calls, and calls on a communicator that is out of the run.

use std::sync::Barrier;

use pccl::{
    CallKind, Communicator, Conflict, Error, Gather, PeerId, Shard, SharedState, SyncStrategy, Tag,
};

use super::kind::{BARRIER, Kind, begin, input, inputs, one_thread};
use crate::support::{Run, together, together_with};

fn ids(peers: &[Communicator]) -> Vec<PeerId> {
    peers.iter().map(Communicator::peer_id).collect()
}

/// All gather with these shards, and hear that they are not those of the peers that take part; then with their own.
fn are_refused(peers: &mut [Communicator], shards: &[Shard]) {
    let ids = ids(peers);
    let count = 1000;
    let results = together_with(peers, |index, peer| {
        let mut buffer = input(index, count);
        let gather = Gather::of(shards[index].clone());
        let refused = peer.all_gather(&mut buffer, gather);
        assert_eq!(buffer, input(index, count));
        let gather = Gather::of(peer.shard(count));
        peer.all_gather(&mut buffer, gather).unwrap();
        (refused, buffer)
    });

    let (refused, gathered): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let world_changed = Err(Error::WorldChanged { tag: Tag(0) });
    assert_eq!(refused, vec![world_changed; peers.len()]);
    let promised = Kind::AllGather.promised(&ids, &inputs(peers.len(), count));
    assert_eq!(gathered, promised);
}

fn shards_of(peers: &[Communicator]) -> Vec<Shard> {
    peers.iter().map(|peer| peer.shard(1000)).collect()
}

#[test]
fn a_shard_of_another_peer_is_not_gathered_as_if_it_were_the_own() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let mut shards = shards_of(&peers);
    // Two of them are exchanged; the third peer has its own.
    shards.swap(0, 1);

    are_refused(&mut peers, &shards);
}

/// The ids of a new run begin anew, so as many peers have the same ones; but not each of them the one that it had.
#[test]
fn a_shard_of_a_run_that_is_over_is_not_gathered_if_the_peer_is_another_one_now() {
    let over = Run::new();
    let shards = shards_of(&over.peers(3));
    let run = Run::new();
    let mut peers = run.peers(3);
    peers.rotate_left(1);

    are_refused(&mut peers, &shards);
}

#[test]
fn a_shard_of_another_length_is_refused_to_its_caller_and_others_wait_for_the_right_one() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);

    let gathered = together_with(&mut peers, |index, peer| {
        let mut buffer = input(index, 100);
        for shard_of in [0, 99, 101] {
            if index == 0 {
                let gather = Gather::of(peer.shard(shard_of));
                let error = peer.all_gather(&mut buffer, gather);
                let buffer_len = 100;
                let mismatch = Error::ShardMismatch {
                    shard_of,
                    buffer_len,
                };
                assert_eq!(error, Err(mismatch));
                assert_eq!(buffer, input(index, 100));
            }
        }
        let gather = Gather::of(peer.shard(100));
        peer.all_gather(&mut buffer, gather).unwrap();
        buffer
    });

    assert_eq!(gathered, Kind::AllGather.promised(&ids, &inputs(2, 100)));
}

#[test]
fn shards_last_while_the_ring_is_looked_for_anew() {
    let run = Run::new();
    let mut peers = run.peers(4);
    let ids = ids(&peers);

    let gathered = together_with(&mut peers, |index, peer| {
        let shard = peer.shard(10_000);
        peer.optimize_topology().unwrap();
        assert_eq!(peer.shard(10_000), shard);
        let mut buffer = input(index, 10_000);
        // Twice, which changes nothing.
        for _ in 0..2 {
            let gather = Gather::of(shard.clone());
            peer.all_gather(&mut buffer, gather).unwrap();
        }
        buffer
    });

    assert_eq!(gathered, Kind::AllGather.promised(&ids, &inputs(4, 10_000)));
}

#[test]
fn a_tag_in_use_by_one_kind_is_refused_to_any_other_and_the_first_goes_on() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);
    let refused = Barrier::new(2);
    for first in [Kind::AllReduce, Kind::Barrier] {
        let ended = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, 10);
            if index == 1 {
                refused.wait();
                first.call(peer, &mut buffer, BARRIER).unwrap();
                return buffer;
            }
            let story = async {
                let mut waits = Box::pin(first.call_async(peer, &mut buffer, BARRIER));
                begin(waits.as_mut()).await;
                for kind in Kind::all(ids[0]) {
                    let mut other = input(index, 10);
                    let error = kind.call_async(peer, &mut other, BARRIER).await;
                    assert_eq!(error, Err(Error::TagInUse(Tag(BARRIER))), "{kind:?}");
                    assert_eq!(other, input(index, 10));
                }
                refused.wait();
                waits.await.unwrap();
            };
            one_thread().block_on(story);
            buffer
        });

        assert_eq!(ended, first.promised(&ids, &inputs(2, 10)));
    }
}

#[test]
fn a_collective_of_any_kind_gives_way_to_a_synchronization_and_may_be_called_after_it() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);
    let synchronize = |peer: &mut Communicator| {
        let mut weights = [1.0_f32; 3];
        let mut state = SharedState::at(0);
        state.entry("weights", &mut weights).unwrap();
        peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)
            .unwrap();
    };
    for kind in Kind::others(ids[1]) {
        let ended = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, 1000);
            if index == 0 {
                let error = kind.call(peer, &mut buffer, 0).unwrap_err();
                let conflict = Conflict {
                    yours: CallKind::Collective,
                    theirs: CallKind::SyncSharedState,
                    peer: ids[1],
                };
                assert_eq!(error, Error::Conflict(conflict), "{kind:?}");
                assert_eq!(buffer, input(index, 1000));
            }
            synchronize(peer);
            kind.call(peer, &mut buffer, 0).unwrap();
            buffer
        });

        assert_eq!(ended, kind.promised(&ids, &inputs(2, 1000)), "{kind:?}");
    }
}

/// An update agrees with whoever waits in a collective, whose shards are others afterwards.
#[test]
fn a_gathering_that_waits_while_somebody_is_admitted_is_refused_to_all_afterwards() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let builder = run.builder();

    let (waits, admits) = std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| {
            let peer = crate::support::begin(builder);
            let mut buffer = input(2, 100);
            let gather = Gather::of(peer.shard(100));
            (peer.all_gather(&mut buffer, gather), buffer, peer)
        });
        let others = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, 100);
            while !peer.are_peers_pending().unwrap() {}
            if index == 1 {
                peer.update_topology().unwrap();
            }
            let gather = Gather::of(peer.shard(100));
            let error = peer.all_gather(&mut buffer, gather);
            (error, buffer, peer.shard(100).range())
        });
        (others, newcomer.join().unwrap())
    });

    let tag = Tag(0);
    for (index, (error, buffer, shard)) in waits.into_iter().enumerate() {
        assert_eq!(error, Err(Error::WorldChanged { tag }));
        assert_eq!(buffer, input(index, 100));
        assert_eq!(shard, [0..34, 34..67][index]);
    }
    let (error, buffer, newcomer) = admits;
    assert_eq!(error, Err(Error::WorldChanged { tag }));
    assert_eq!(buffer, input(2, 100));
    peers.push(newcomer);
    let ids = ids(&peers);
    let gathered = together_with(&mut peers, |index, peer| {
        let mut buffer = input(index, 100);
        let gather = Gather::of(peer.shard(100));
        peer.all_gather(&mut buffer, gather).unwrap();
        buffer
    });
    assert_eq!(gathered, Kind::AllGather.promised(&ids, &inputs(3, 100)));
}

#[test]
fn every_kind_of_collective_says_that_the_run_is_over_and_leaves_its_buffer_alone() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids = ids(&peers);
    together(&mut peers, |peer| peer.barrier().unwrap());

    run.master.stop();

    for kind in Kind::all(ids[0]) {
        let errors = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, 100);
            let error = kind.call(peer, &mut buffer, 0).unwrap_err();
            assert_eq!(buffer, input(index, 100));
            error
        });
        assert_eq!(errors, vec![Error::MasterStopped; 2], "{kind:?}");
    }
    assert_eq!(peers[0].shard(100).range().len(), 50);
}
