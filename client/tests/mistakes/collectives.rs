//! Mistakes with what a collective is asked to do.

use pccl::{
    Algorithm, Broadcast, Communicator, Element, ElementType, Error, ErrorFeedback, Gather,
    GatherV, PeerId, Quantization, Reduce, ReduceItem,
};
use tokio::join;

use super::world::MASTER;
use super::{Told, ends, expect, expect_of_two, seconds};

const TO_BYTES: Quantization = Quantization::MinMax {
    to: ElementType::U8,
};

/// Both reduce their buffer, and both are told the same.
fn reducing<T: Element, U: Element>(
    (mut one, of_one): (Vec<T>, Reduce),
    (mut other, of_other): (Vec<U>, Reduce),
    told: &str,
) {
    expect_of_two([told; 2], async |first, second| {
        ends(join!(
            first.all_reduce_async(&mut one, of_one),
            second.all_reduce_async(&mut other, of_other),
        ))
    });
}

/// A peer that is alone makes a call.
fn alone(told: &str, call: impl AsyncFnOnce(Communicator) -> Result<(), Error>) {
    let told = Told {
        peers: &[told],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        let peer = world.peer(MASTER).connect_async().await.unwrap();
        vec![call(peer).await]
    });
}

#[test]
fn the_buffers_of_two_peers_have_different_lengths() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (vec![1_f32; 1025], Reduce::sum()),
        "tag 0 did not start: the peers disagree on its element count: peer 1 asked for 1024 elements, \
         peer 2 for 1025 elements; pass the same on all of them",
    );
}

#[test]
fn the_buffer_of_one_peer_is_empty() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (Vec::<f32>::new(), Reduce::sum()),
        "tag 0 did not start: the peers disagree on its element count: peer 1 asked for 1024 elements, \
         peer 2 for 0 elements; pass the same on all of them",
    );
}

#[test]
fn the_buffers_of_two_peers_have_elements_of_different_types() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (vec![1_f64; 1024], Reduce::sum()),
        "tag 0 did not start: the peers disagree on its element type: peer 1 asked for f32, peer 2 for \
         f64; pass the same on all of them",
    );
}

#[test]
fn one_peer_sums_and_the_other_one_averages() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (vec![1_f32; 1024], Reduce::avg()),
        "tag 0 did not start: the peers disagree on its operation: peer 1 asked for sum, peer 2 for avg; \
         pass the same on all of them",
    );
}

#[test]
fn only_one_of_two_peers_quantizes() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (vec![1_f32; 1024], Reduce::sum().quantize(TO_BYTES)),
        "tag 0 did not start: the peers disagree on its quantization: peer 1 asked for no quantization, \
         peer 2 for min-max quantization to u8; pass the same on all of them",
    );
}

#[test]
fn only_one_of_two_peers_wishes_for_an_algorithm() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (
            vec![1_f32; 1024],
            Reduce::sum().algorithm(Algorithm::Direct),
        ),
        "tag 0 did not start: the peers disagree on its algorithm: peer 1 asked for any algorithm, peer 2 \
         for direct; pass the same on all of them",
    );
}

#[test]
fn only_one_of_two_peers_asks_for_an_order() {
    reducing(
        (vec![1_f32; 1024], Reduce::sum()),
        (vec![1_f32; 1024], Reduce::sum().ordered()),
        "tag 0 did not start: the peers disagree on its order of the additions: peer 1 asked for any \
         order, peer 2 for the order of the peer ids; pass the same on all of them",
    );
}

#[test]
fn a_reduce_of_one_peer_has_the_tag_of_a_broadcast_of_another() {
    expect_of_two(
        ["tag 0 did not start: the peers disagree on its kind: peer 1 asked for broadcast, peer 2 for \
          all-reduce; pass the same on all of them"; 2],
        async |first, second| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let from_first = Broadcast::from(first.peer_id());
            ends(join!(
                first.broadcast_async(&mut one, from_first),
                second.all_reduce_async(&mut other, Reduce::sum()),
            ))
        },
    );
}

#[test]
fn each_of_two_peers_broadcasts_its_own_buffer() {
    expect_of_two(
        ["tag 0 did not start: the peers disagree on its root: peer 1 asked for peer 1, peer 2 for peer 2; \
          pass the same on all of them"; 2],
        async |first, second| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let (from_first, from_second) = (first.peer_id(), second.peer_id());
            ends(join!(
                first.broadcast_async(&mut one, Broadcast::from(from_first)),
                second.broadcast_async(&mut other, Broadcast::from(from_second)),
            ))
        },
    );
}

#[test]
fn the_root_of_a_broadcast_is_given_by_its_rank() {
    expect_of_two(
        ["tag 0 did not start: its root, peer 0, does not take part; a root is a peer id, and not a rank: \
          start the round again, and agree on another one"; 2],
        async |first, second| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let root = Broadcast::from(PeerId(0));
            ends(join!(
                first.broadcast_async(&mut one, root),
                second.broadcast_async(&mut other, root),
            ))
        },
    );
}

/// Each contributes four elements, and has a limit for all.
async fn gather_v(
    first: &Communicator,
    second: &Communicator,
    limits: [usize; 2],
) -> [Result<(), Error>; 2] {
    let (mut all, mut same) = (Vec::new(), Vec::new());
    let [limit, limit_of_other] = limits.map(GatherV::at_most);
    ends(join!(
        first.all_gather_v_async(&[1_f32; 4], &mut all, limit),
        second.all_gather_v_async(&[1_f32; 4], &mut same, limit_of_other),
    ))
}

#[test]
fn the_limits_of_two_peers_differ() {
    expect_of_two(
        ["tag 0 did not start: the peers disagree on its limit: peer 1 asked for 100 elements, peer 2 for 200 \
          elements; pass the same on all of them"; 2],
        async |first, second| gather_v(first, second, [100, 200]).await,
    );
}

#[test]
fn the_limit_is_that_of_one_contribution() {
    expect_of_two(
        ["tag 0 did not start: all contributions together have 8 elements, and the limit is 4; raise it on all \
          peers, or contribute less"; 2],
        async |first, second| gather_v(first, second, [4, 4]).await,
    );
}

#[test]
fn the_shard_is_that_of_another_peer() {
    expect_of_two(
        ["tag 0 did not start: peers have left or joined since the shards were computed, or a peer has passed \
          the shard of another one; go back to where shards are computed"; 2],
        async |first, second| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let shard = first.shard(8);
            ends(join!(
                first.all_gather_async(&mut one, Gather::of(shard.clone())),
                second.all_gather_async(&mut other, Gather::of(shard)),
            ))
        },
    );
}

#[test]
fn a_shard_is_kept_when_a_peer_joins() {
    let told = Told {
        peers: &["tag 0 did not start: peers have left or joined since the shards were computed, or a peer has \
                  passed the shard of another one; go back to where shards are computed";
            2],
        within: seconds(5),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        let first = world.peer(MASTER).connect_async().await.unwrap();
        let kept = first.shard(8);
        let (first, second) = world.joined_by(first, world.peer(MASTER)).await;
        let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
        let fresh = second.shard(8);
        let calls = join!(
            first.all_gather_async(&mut one, Gather::of(kept)),
            second.all_gather_async(&mut other, Gather::of(fresh)),
        );
        ends(calls).into()
    });
}

#[test]
fn the_shard_is_of_a_buffer_of_another_length() {
    alone(
        "the shard is of a buffer of 9 elements, and this one has 8",
        async |peer| {
            let mut buffer = [1_f32; 8];
            let gather = Gather::of(peer.shard(9));
            peer.all_gather_async(&mut buffer, gather).await.map(drop)
        },
    );
}

#[test]
fn source_and_result_have_different_lengths() {
    alone(
        "the source has 8 elements and the result 9; both must be equal",
        async |peer| {
            let (source, mut result) = ([1_f32; 8], [0_f32; 9]);
            let reduced = peer.all_reduce_into_async(&source, &mut result, Reduce::sum());
            reduced.await.map(drop)
        },
    );
}

#[test]
fn integers_are_quantized() {
    alone(
        "i32 elements cannot be quantized, only floats can",
        async |peer| {
            let mut tokens = [1_i32; 8];
            let reduce = Reduce::sum().quantize(TO_BYTES);
            peer.all_reduce_async(&mut tokens, reduce).await.map(drop)
        },
    );
}

#[test]
fn floats_are_quantized_to_floats() {
    alone(
        "there is no min-max quantization to f16 of f32 elements; see Quantization for what there is",
        async |peer| {
            let to = ElementType::F16;
            let reduce = Reduce::sum().quantize(Quantization::MinMax { to });
            let mut buffer = [1_f32; 8];
            peer.all_reduce_async(&mut buffer, reduce).await.map(drop)
        },
    );
}

#[test]
fn integers_are_reduced_with_feedback() {
    alone(
        "there is no error feedback for i32 elements, only for floats",
        async |peer| {
            let (mut tokens, mut feedback) = ([1_i32; 8], ErrorFeedback::new());
            let reduced =
                peer.all_reduce_with_feedback_async(&mut tokens, Reduce::sum(), &mut feedback);
            reduced.await.map(drop)
        },
    );
}

#[test]
fn integers_have_weights() {
    alone(
        "a weighted average needs floats, and the elements are i32; convert them",
        async |peer| {
            let reduce = Reduce::weighted_avg(3);
            let mut tokens = [1_i32; 8];
            peer.all_reduce_async(&mut tokens, reduce).await.map(drop)
        },
    );
}

#[test]
fn a_weighted_average_has_feedback() {
    alone(
        "a weighted average takes no error feedback; use an average without weights, or no feedback",
        async |peer| {
            let (mut buffer, mut feedback) = ([1_f32; 8], ErrorFeedback::new());
            let reduce = Reduce::weighted_avg(3);
            let reduced = peer.all_reduce_with_feedback_async(&mut buffer, reduce, &mut feedback);
            reduced.await.map(drop)
        },
    );
}

#[test]
fn the_weights_of_two_peers_are_zero() {
    reducing(
        (vec![1_f32; 1024], Reduce::weighted_avg(0)),
        (vec![1_f32; 1024], Reduce::weighted_avg(0)),
        "tag 0 did not start: the weights of all peers are zero; leave the step out",
    );
}

#[test]
fn the_time_limit_of_a_peer_is_over_before_the_other_one_reduces() {
    let told = Told {
        peers: &["tag 0 was given up: its time limit of 3s is over; call again"],
        within: seconds(4),
        ..Told::default()
    };
    expect(told, async |world| {
        let (first, _second) = world.two().await;
        let mut buffer = [1_f32; 8];
        let reduce = Reduce::sum().timeout(seconds(3));
        vec![first.all_reduce_async(&mut buffer, reduce).await.map(drop)]
    });
}

#[test]
fn a_reduce_is_ordered_and_quantized() {
    alone(
        "a reduce that is ordered cannot have min-max quantization to u8 as well; ask for one of the two",
        async |peer| {
            let reduce = Reduce::sum().ordered().quantize(TO_BYTES);
            let mut buffer = [1_f32; 8];
            peer.all_reduce_async(&mut buffer, reduce).await.map(drop)
        },
    );
}

#[test]
fn two_reduces_at_once_have_one_tag() {
    alone(
        "tag 0 cannot name two collectives at once; wait for the end of the first one, or give the second one \
         a tag of its own",
        async |peer| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let (one, other) = join!(
                peer.all_reduce_async(&mut one, Reduce::sum()),
                peer.all_reduce_async(&mut other, Reduce::sum()),
            );
            one.unwrap();
            other.map(drop)
        },
    );
}

#[test]
fn two_barriers_run_at_once() {
    alone(
        "two barriers cannot run at once; wait for the end of the first one",
        async |peer| {
            let (one, other) = join!(peer.barrier_async(), peer.barrier_async());
            one.unwrap();
            other.map(drop)
        },
    );
}

#[test]
fn two_items_of_a_list_have_one_tag() {
    alone(
        "tag 0 cannot name two collectives at once; wait for the end of the first one, or give the second one \
         a tag of its own",
        async |peer| {
            let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
            let mut items = [
                ReduceItem::new(&mut one, Reduce::sum()),
                ReduceItem::new(&mut other, Reduce::sum()),
            ];
            let reduced = peer.all_reduce_many_with_retry_async(&mut items, 2).await;
            let failed = reduced.unwrap_err();
            assert_eq!(
                failed.to_string(),
                "0 of 2 items were reduced; item 1: tag 0 cannot name two collectives at once; wait for the end \
                 of the first one, or give the second one a tag of its own"
            );
            Err(failed.into())
        },
    );
}
