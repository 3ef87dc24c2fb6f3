//! Peers that do not go together: other kinds, roots or buffers under one tag, roots that do not take part, shards that
//! were laid out for others.

use std::thread;

use pccl::{
    Broadcast, Communicator, ElementType, Error, Gather, PeerId, Quantization, Reduce, Scattered,
    SpecField, Tag,
};

use super::kind::{BARRIER, Kind, input, inputs, shards};
use crate::support::{Run, admit, begin, disagreement, together, together_with};

/// In the order of their ids.
fn sorted(run: &Run, count: usize) -> (Vec<Communicator>, Vec<PeerId>) {
    let mut peers = run.peers(count);
    peers.sort_by_key(Communicator::peer_id);
    let ids = peers.iter().map(Communicator::peer_id).collect();
    (peers, ids)
}

/// The tag is free again, and all go on.
fn go_on(peers: &mut [Communicator], tag: u64) {
    let world = peers.len() as u64;
    let sums = together(peers, |peer| {
        let mut buffer = [1_u64; 7];
        peer.all_reduce(&mut buffer, Reduce::sum().tag(tag))
            .unwrap();
        buffer
    });
    assert!(sums.iter().all(|sum| *sum == [world; 7]));
}

#[test]
fn any_two_kinds_under_one_tag_are_refused_to_all_by_naming_the_kind() {
    let run = Run::new();
    let (mut peers, ids) = sorted(&run, 3);
    let kinds = Kind::all(ids[0]);
    for (place, one) in kinds.into_iter().enumerate() {
        for other in kinds[place + 1..].iter().copied() {
            // Whoever is the odd one: the first and whoever differs from it are named.
            for (odd, named) in [(0, vec![0, 1, 2]), (1, vec![0, 1]), (2, vec![0, 2])] {
                let errors = together_with(&mut peers, |index, peer| {
                    let kind = if index == odd { other } else { one };
                    let mut buffer = input(index, 1000);
                    let error = kind.call(peer, &mut buffer, BARRIER).unwrap_err();
                    assert_eq!(buffer, input(index, 1000));
                    error
                });

                let tag = Tag(BARRIER);
                let field = SpecField::Kind;
                let peers = named.into_iter().map(|index: usize| ids[index]).collect();
                let refused = (tag, field, peers);
                let errors: Vec<_> = errors.iter().map(disagreement).collect();
                assert_eq!(errors, vec![refused; 3], "{one:?}, {other:?}");
            }
        }
    }
    go_on(&mut peers, BARRIER);
}

#[test]
fn other_lengths_element_types_and_roots_are_refused_to_all_and_named() {
    let run = Run::new();
    let (mut peers, ids) = sorted(&run, 3);
    let root = ids[1];
    let peers_named = vec![ids[0], ids[2]];
    let kinds = [Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast(root)];
    let refused = |field| vec![(Tag(4), field, peers_named.clone()); 3];
    let told = |errors: Vec<Error>| errors.iter().map(disagreement).collect::<Vec<_>>();
    for kind in kinds {
        let lengths = together_with(&mut peers, |index, peer| {
            // Also one without elements.
            let mut buffer = vec![7_u32; if index == 2 { 0 } else { 10 }];
            kind.call(peer, &mut buffer, 4).unwrap_err()
        });
        // As many bytes.
        let types = together_with(&mut peers, |index, peer| match index {
            2 => kind.call(peer, &mut [7_i32; 10], 4).unwrap_err(),
            _ => kind.call(peer, &mut [7_u32; 10], 4).unwrap_err(),
        });

        assert_eq!(told(lengths), refused(SpecField::Count), "{kind:?}");
        assert_eq!(told(types), refused(SpecField::ElementType), "{kind:?}");
    }
    let roots = together_with(&mut peers, |index, peer| {
        let root = if index == 2 { ids[2] } else { root };
        let mut buffer = [index as u32; 10];
        let kind = Kind::Broadcast(root);
        let error = kind.call(peer, &mut buffer, 4).unwrap_err();
        assert_eq!(buffer, [index as u32; 10]);
        error
    });

    assert_eq!(told(roots), refused(SpecField::Root));
    go_on(&mut peers, 4);
}

#[test]
fn other_quantizations_are_refused_to_all_and_those_of_integers_to_whoever_asks() {
    let run = Run::new();
    let (mut peers, ids) = sorted(&run, 3);
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };
    let root = ids[0];
    let errors = together_with(&mut peers, |index, peer| {
        let quantization = match index {
            2 => to_bytes,
            _ => Quantization::Blockwise4,
        };
        let mut buffer = [0.1_f32 * index as f32; 10];
        let gather = Gather::of(peer.shard(10)).quantize(quantization).tag(4);
        let gathered = peer.all_gather(&mut buffer, gather).unwrap_err();
        let broadcast = Broadcast::from(root).quantize(quantization).tag(4);
        let told = peer.broadcast(&mut buffer, broadcast).unwrap_err();
        assert_eq!(buffer, [0.1_f32 * index as f32; 10]);
        [disagreement(&gathered), disagreement(&told)]
    });

    let refused = (Tag(4), SpecField::Quantization, vec![ids[0], ids[2]]);
    assert_eq!(errors, vec![[refused.clone(), refused]; 3]);
    let integers = Gather::of(peers[0].shard(10)).quantize(to_bytes);
    let refused = peers[0].all_gather(&mut [7_i32; 10], integers);
    let (element, quantization) = (ElementType::I32, to_bytes);
    let error = Error::NotSupported {
        element,
        quantization,
    };
    assert_eq!(refused, Err(error));
    go_on(&mut peers, 4);
}

#[test]
fn a_root_of_another_group_and_one_that_never_was_are_named_to_all() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let builder = run.builder().group(7);
    let joining = thread::spawn(move || begin(builder));
    admit(&mut peers);
    let stranger = joining.join().unwrap();
    let tag = Tag(2);

    // Also of a buffer of which nothing would travel.
    for (root, count) in [
        (stranger.peer_id(), 1000),
        (stranger.peer_id(), 0),
        (PeerId(u64::MAX), 1000),
        (PeerId(0), 1000),
    ] {
        let errors = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, count);
            let broadcast = Broadcast::from(root).tag(tag.0);
            let error = peer.broadcast(&mut buffer, broadcast).unwrap_err();
            assert_eq!(buffer, input(index, count));
            error
        });

        assert_eq!(errors, vec![Error::NoSuchRoot { tag, root }; 2]);
    }
    // In its own group it is.
    let mut own = [5_u8; 3];
    let broadcast = Broadcast::from(stranger.peer_id()).tag(tag.0);
    stranger.broadcast(&mut own, broadcast).unwrap();
    go_on(&mut peers, tag.0);
}

#[test]
fn a_root_that_leaves_while_others_wait_for_it_is_named_to_them_and_they_agree_on_another() {
    let run = Run::new();
    let (mut peers, ids) = sorted(&run, 3);
    let root = ids[0];
    let leaves = peers.remove(0);

    let (errors, agreed) = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            together_with(&mut peers, |index, peer| {
                let mut buffer = input(index, 1000);
                let error = peer.broadcast(&mut buffer, Broadcast::from(root));
                assert_eq!(buffer, input(index, 1000));
                // What the error advises.
                let present = peer.barrier().unwrap().contributors;
                let root = *present.iter().min().unwrap();
                peer.broadcast(&mut buffer, Broadcast::from(root)).unwrap();
                (error.unwrap_err(), (root, buffer))
            })
        });
        leaves.shutdown();
        waits
            .join()
            .unwrap()
            .into_iter()
            .unzip::<_, _, Vec<_>, Vec<_>>()
    });

    assert_eq!(errors, vec![Error::NoSuchRoot { tag: Tag(0), root }; 2]);
    assert_eq!(agreed, vec![(ids[1], input(0, 1000)); 2]);
}

/// A step of fully sharded training as docs/collectives.md has it, on parameters of which all peers have the same. Each
/// step adds to each parameter how many peers there are.
fn step(peer: &Communicator, parameters: &mut [u64], between: impl FnOnce()) -> Result<(), Error> {
    let mut gradients = vec![1; parameters.len()];
    let Scattered { shard, .. } = peer.reduce_scatter(&mut gradients, Reduce::sum())?;
    let before = shard.of(parameters).to_vec();
    for (parameter, gradient) in shard
        .of_mut(parameters)
        .iter_mut()
        .zip(shard.of(&gradients))
    {
        *parameter += gradient;
    }
    between();
    if let Err(error) = peer.all_gather(parameters, Gather::of(shard.clone())) {
        shard.of_mut(parameters).copy_from_slice(&before);
        return Err(error);
    }
    Ok(())
}

/// Takes the step until it is taken, as a loop that goes on after what is retryable.
fn step_until_taken(peer: &Communicator, parameters: &mut [u64]) {
    while let Err(error) = step(peer, parameters, || {}) {
        assert!(error.is_retryable(), "{error}");
    }
}

#[test]
fn shards_that_were_laid_out_before_somebody_joined_are_gathered_by_nobody() {
    let run = Run::new();
    let (mut peers, _) = sorted(&run, 2);
    let before: Vec<_> = peers.iter().map(|peer| peer.shard(1000)).collect();
    run.join(&mut peers);

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = input(index, 1000);
        // That of the newcomer is right, and those of the others are those of two.
        let shard = before.get(index).cloned();
        let shard = shard.unwrap_or_else(|| peer.shard(1000));
        let error = peer.all_gather(&mut buffer, Gather::of(shard)).unwrap_err();
        assert_eq!(buffer, input(index, 1000));
        // What it advises.
        let gather = Gather::of(peer.shard(1000));
        peer.all_gather(&mut buffer, gather).unwrap();
        (error, buffer)
    });

    let (errors, buffers): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
    assert_eq!(errors, vec![Error::WorldChanged { tag: Tag(0) }; 3]);
    assert_eq!(buffers, Kind::AllGather.promised(&ids, &inputs(3, 1000)));
}

/// Somebody else comes for one that has gone: there are as many shards as before, and they are other peers'.
#[test]
fn shards_of_as_many_but_other_peers_are_gathered_by_nobody() {
    let run = Run::new();
    let (mut peers, ids) = sorted(&run, 3);
    let before: Vec<_> = peers.iter().map(|peer| peer.shard(1000)).collect();
    peers.remove(1).shutdown();
    run.join(&mut peers);
    let before = [Some(&before[0]), Some(&before[2]), None];

    let errors = together_with(&mut peers, |index, peer| {
        let shard = before[index].cloned();
        let shard = shard.unwrap_or_else(|| peer.shard(1000));
        let mut buffer = input(index, 1000);
        peer.all_gather(&mut buffer, Gather::of(shard)).unwrap_err()
    });

    assert_eq!(errors, vec![Error::WorldChanged { tag: Tag(0) }; 3]);
    let now: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
    assert_ne!(now, ids);
    let laid_out: Vec<_> = peers.iter().map(|peer| peer.shard(1000).range()).collect();
    assert_eq!(laid_out, shards(&now, 1000));
}

#[test]
fn a_step_in_whose_middle_a_peer_leaves_is_taken_back_by_all_and_taken_by_those_who_are_left() {
    const COUNT: usize = 1001;
    let run = Run::new();
    let (mut peers, _) = sorted(&run, 3);
    let taken = together(&mut peers, |peer| {
        let mut parameters = vec![0; COUNT];
        step_until_taken(peer, &mut parameters);
        parameters
    });
    let leaving = std::sync::Mutex::new(peers.pop());
    let taken_back = std::sync::Barrier::new(2);

    let all = std::sync::Barrier::new(3);
    let results = thread::scope(|scope| {
        scope.spawn(|| {
            let peer = leaving.lock().unwrap().take().unwrap();
            let mut gradients = vec![1_u64; COUNT];
            peer.reduce_scatter(&mut gradients, Reduce::sum()).unwrap();
            all.wait();
            peer.shutdown();
            all.wait();
        });
        together_with(&mut peers, |index, peer| {
            let mut parameters = taken[index].clone();
            let between = || {
                all.wait();
                all.wait();
            };
            let error = step(peer, &mut parameters, between).unwrap_err();
            assert_eq!(parameters, vec![3; COUNT]);
            taken_back.wait();
            step_until_taken(peer, &mut parameters);
            (error, parameters)
        })
    });

    for (error, parameters) in results {
        assert_eq!(error, Error::WorldChanged { tag: Tag(0) });
        assert_eq!(parameters, vec![5; COUNT]);
    }
}
