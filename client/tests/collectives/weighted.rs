//! Averages in which the contribution of each peer has a weight.

use half::{bf16, f16};
use pccl::{
    Communicator, Element, ElementType, Error, ErrorFeedback, Quantization, Reduce, ReduceItem,
    SpecField, Tag,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{Run, disagreement, together_with};

/// Of three peers; their sum is a power of two, so that products of small multiples of it are exact.
const WEIGHTS: [u32; 3] = [1, 2, 5];
const TOTAL: u64 = 8;

/// Elements: none, fewer than peers, not divided evenly, several frames.
const COUNTS: [usize; 5] = [0, 1, 2, 1025, 203_530];

fn contribution<T: Element>(peer: usize, count: usize, number: impl Fn(f32) -> T) -> Vec<T> {
    let element = |element: usize| (8 * (element % 3 + peer)) as f32;
    (0..count).map(|index| number(element(index))).collect()
}

fn expected<T: Element>(count: usize, number: impl Fn(f32) -> T) -> Vec<T> {
    let element = |element: usize| {
        let terms = WEIGHTS.iter().zip(0..);
        let sum: usize = terms
            .map(|(weight, peer)| *weight as usize * (element % 3 + peer))
            .sum();
        sum as f32
    };
    (0..count).map(|index| number(element(index))).collect()
}

fn bits<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

fn every_call_averages<T: Element>(
    peers: &mut [Communicator],
    count: usize,
    number: impl Fn(f32) -> T + Copy + Sync,
) {
    let expected = expected(count, number);
    together_with(peers, |index, peer| {
        let reduce = Reduce::weighted_avg(WEIGHTS[index]);
        let own = contribution(index, count, number);

        let mut buffer = own.clone();
        let report = peer.all_reduce(&mut buffer, reduce).unwrap();
        assert_eq!(bits(&buffer), bits(&expected));
        assert_eq!(report.total_weight, TOTAL);

        let mut result = vec![number(-1.0); count];
        peer.all_reduce_into(&own, &mut result, reduce).unwrap();
        assert_eq!(bits(&result), bits(&expected));

        let started = peer.start_all_reduce(own.clone(), reduce);
        assert_eq!(bits(&started.wait().unwrap().buffer), bits(&expected));

        let mut buffer = own.clone();
        let mut items = [ReduceItem::new(&mut buffer, reduce)];
        peer.all_reduce_many_with_retry(&mut items, 1).unwrap();
        assert_eq!(bits(&buffer), bits(&expected));

        let mut into = Vec::new();
        let scattered = peer.reduce_scatter_into(&own, &mut into, reduce).unwrap();
        assert_eq!(bits(&into), bits(scattered.shard.of(&expected)));
        assert_eq!(scattered.report.total_weight, TOTAL);

        let mut buffer = own.clone();
        let scattered = peer.reduce_scatter(&mut buffer, reduce).unwrap();
        let shard = scattered.shard.range();
        assert_eq!(scattered.report.total_weight, TOTAL);
        assert_eq!(bits(&buffer[shard.clone()]), bits(&expected[shard.clone()]));
        for rest in [0..shard.start, shard.end..count] {
            assert_eq!(bits(&buffer[rest.clone()]), bits(&own[rest]));
        }
    });
}

#[test]
fn contributions_count_by_their_weights_in_every_call_that_reduces() {
    let run = Run::new();
    let mut peers = run.peers(3);
    for count in COUNTS {
        every_call_averages(&mut peers, count, |number| number);
        every_call_averages(&mut peers, count, f64::from);
        every_call_averages(&mut peers, count, f16::from_f32);
        every_call_averages(&mut peers, count, bf16::from_f32);
    }
}

/// Any numbers, the same at each call.
fn wild(peer: usize, count: usize) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(peer as u64);
    let mut number = || random.random_range(-1e9..1e9_f32);
    (0..count).map(|_| number()).collect()
}

#[test]
fn an_ordered_weighted_average_is_the_fold_of_the_products_in_the_order_of_the_peers() {
    let run = Run::new();
    let mut peers = run.peers(3);
    let weights = [7, u32::MAX, 3];
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let count = 5000;
    let product = |peer: usize, element: f32| {
        let share = f64::from(weights[peer]) / total as f64;
        (f64::from(element) * share) as f32
    };
    let all: Vec<Vec<f32>> = (0..3).map(|peer| wild(peer, count)).collect();
    let expected: Vec<f32> = (0..count)
        .map(|index| {
            let terms = (0..3).map(|peer| product(peer, all[peer][index]));
            terms.reduce(|sum, term| sum + term).unwrap()
        })
        .collect();

    together_with(&mut peers, |index, peer| {
        let reduce = Reduce::weighted_avg(weights[index]).ordered();
        let mut buffer = all[index].clone();
        let report = peer.all_reduce(&mut buffer, reduce).unwrap();
        assert_eq!(report.total_weight, total);
        assert!(bits(&buffer) == bits(&expected));
    });
}

#[test]
fn a_contribution_without_weight_counts_for_nothing_even_if_it_is_not_a_number() {
    let run = Run::new();
    let mut peers = run.peers(3);

    together_with(&mut peers, |index, peer| {
        let (weight, own) = [(0, f32::NAN), (3, 4.0), (1, 8.0)][index];
        let mut buffer = vec![own; 1000];
        let reduce = Reduce::weighted_avg(weight);
        peer.all_reduce(&mut buffer, reduce).unwrap();
        assert_eq!(buffer, [5.0; 1000]);
    });
}

#[test]
fn an_average_of_nothing_starts_on_no_peer_and_its_tag_is_free_again() {
    let run = Run::new();
    let mut peers = run.peers(2);

    together_with(&mut peers, |index, peer| {
        let mut buffer = vec![index as f32; 100];
        let reduce = Reduce::weighted_avg(0).tag(3);
        let refused = peer.all_reduce(&mut buffer, reduce);
        assert_eq!(refused, Err(Error::NoWeight { tag: Tag(3) }));
        assert_eq!(buffer, [index as f32; 100]);

        let reduce = Reduce::weighted_avg(index as u32).tag(3);
        peer.all_reduce(&mut buffer, reduce).unwrap();
        assert_eq!(buffer, [1.0; 100]);
    });
}

#[test]
fn a_peer_that_is_alone_keeps_every_bit() {
    let run = Run::new();
    let peers = run.peers(1);
    let odd = f32::from_bits(0x7FC0_1234);

    let mut buffer = [odd, 3.0];
    let report = peers[0].all_reduce(&mut buffer, Reduce::weighted_avg(9));

    assert_eq!(report.unwrap().total_weight, 9);
    assert_eq!(bits(&buffer), bits(&[odd, 3.0]));
}

#[test]
fn what_has_no_weighted_average_is_said_before_anything_is_sent() {
    let run = Run::new();
    let peers = run.peers(1);
    let reduce = Reduce::weighted_avg(1);

    let integers = peers[0].all_reduce(&mut [1_i32], reduce);
    let element = ElementType::I32;
    assert_eq!(integers, Err(Error::WeightedIntegers { element }));

    let mut feedback = ErrorFeedback::new();
    let reduced = peers[0].all_reduce_with_feedback(&mut [1_f32], reduce, &mut feedback);
    assert_eq!(reduced, Err(Error::WeightedFeedback));
}

#[test]
fn an_average_with_weights_and_one_without_are_different_operations() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();

    together_with(&mut peers, |index, peer| {
        let reduce = [Reduce::avg(), Reduce::weighted_avg(1)][index];
        let error = peer.all_reduce(&mut [1_f32; 10], reduce).unwrap_err();
        let about = (Tag(0), SpecField::Operation, ids.clone());
        assert_eq!(disagreement(&error), about);
    });
}

#[test]
fn a_quantized_weighted_average_stays_within_its_bound() {
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };
    let run = Run::new();
    let mut peers = run.peers(3);
    let count = 30_000;
    let all: Vec<Vec<f32>> = (0..3).map(|peer| wild(peer, count)).collect();
    let largest = all
        .iter()
        .flatten()
        .fold(0_f32, |most, one| most.max(one.abs()));

    together_with(&mut peers, |index, peer| {
        let reduce = Reduce::weighted_avg(WEIGHTS[index]).quantize(to_bytes);
        let bound = reduce.error_bound(ElementType::F32, 3, largest.into());
        let mut buffer = all[index].clone();
        peer.all_reduce(&mut buffer, reduce).unwrap();
        for (place, result) in buffer.into_iter().enumerate() {
            let terms = all.iter().zip(WEIGHTS);
            let exact: f64 = terms
                .map(|(own, weight)| f64::from(own[place]) * f64::from(weight) / TOTAL as f64)
                .sum();
            let error = (f64::from(result) - exact).abs();
            assert!(error <= bound.unwrap(), "{error} of {bound:?} at {place}");
        }
    });
}

#[test]
fn a_buffer_whose_average_is_aborted_is_as_it_was() {
    let count = 2_000_000;
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("plan_done", 1), async move |doomed| {
        let mut buffer = wild(2, count);
        let _ = doomed
            .all_reduce_async(&mut buffer, Reduce::weighted_avg(WEIGHTS[2]))
            .await;
    });

    together_with(&mut peers, |index, peer| {
        let own = wild(index, count);
        let mut buffer = own.clone();
        let result = peer.all_reduce(&mut buffer, Reduce::weighted_avg(WEIGHTS[index]));
        assert!(matches!(result, Err(Error::Aborted { .. })), "{result:?}");
        assert!(bits(&buffer) == bits(&own));
    });
    doomed.join().unwrap();
}
