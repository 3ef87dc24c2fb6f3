//! Reducing: what comes out, for every type, operation and shape.

use std::sync::Barrier;

use pccl::{Algorithm, Communicator, Element, Error, Pattern, Quantization, Reduce};
use pccl::{ElementType, SpecField, Tag};

use crate::support::lanes::Distance;
use crate::support::{Run, begin, join_as, together, together_with};

#[test]
fn two_peers_get_the_sum_of_what_they_hold() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = vec![1.0_f32 + index as f32; 1000];
        let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (buffer, report.world_size)
    });

    assert_eq!(results, vec![(vec![3.0; 1000], 2); 2]);
}

#[test]
fn a_report_says_who_contributed_and_what_travelled() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let mut everybody: Vec<_> = peers.iter().map(Communicator::peer_id).collect();

    let reports = together(&mut peers, |peer| {
        peer.all_reduce(&mut [1_u32; 1000], Reduce::sum()).unwrap()
    });

    for report in reports {
        let mut contributors = report.contributors;
        contributors.sort();
        everybody.sort();
        assert_eq!(contributors, everybody);
        // Half of the buffer in each of two steps.
        assert_eq!((report.bytes_sent, report.bytes_received), (4000, 4000));
        assert_eq!(report.retries, 0);
    }
}

#[test]
fn four_peers_of_one_machine_reduce_in_rounds_what_is_not_large_and_the_report_says_so() {
    let run = Run::new();
    let mut peers = run.peers(4);

    let results = together_with(&mut peers, |index, peer| {
        let sizes = [10, 10_000, 1_000_000];
        sizes.map(|elements| {
            let mut buffer = vec![1.0_f32 + index as f32; elements];
            let report = peer.all_reduce(&mut buffer, Reduce::avg()).unwrap();
            let is_right = buffer.iter().all(|average| *average == 2.5);
            (report.algorithm, report.bytes_sent, is_right)
        })
    });

    let expected = [
        (Algorithm::Whole(Pattern::Circulant), 3 * 40, true),
        (Algorithm::Circulant, 2 * 3 * 10_000, true),
        (Algorithm::Ring, 2 * 3 * 1_000_000, true),
    ];
    assert_eq!(results, vec![expected; 4]);
}

/// All lanes of an edge are opened at once, and there are more of them than a door lets strangers in.
#[test]
fn an_edge_may_have_more_than_a_hundred_lanes() {
    let run = Run::over(150, Distance::Far);
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let mut buffer = vec![1_u32; 4_000_000];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        buffer
    });

    assert!(results.iter().flatten().all(|element| *element == 2));
}

/// Each edge has as many lanes as both of its ends wish for, and all of them carry bytes.
#[test]
fn a_peer_that_wishes_for_one_lane_slows_its_own_edges_and_no_others() {
    let run = Run::over(4, Distance::Far);
    let mut peers = vec![begin(run.builder())];
    for lanes in [4, 1, 2] {
        join_as(run.builder_with_lanes(lanes), &mut peers);
    }

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = vec![1 << index; 1_000_000];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        buffer
    });

    let expected: u32 = 0b1111;
    assert!(results.iter().flatten().all(|sum| *sum == expected));
    let busy = run.traffic.bytes_sent();
    let busy = busy.iter().filter(|bytes| **bytes > 100_000).count();
    assert_eq!(busy, 4 + 1 + 1 + 2, "from the first peer around the ring");
}

/// What a reduce must give, computed in the plainest way.
trait Reference: Element + PartialEq + std::fmt::Debug {
    fn of(small: u8) -> Self;
    fn sum(self, other: Self) -> Self;
    fn prod(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn over(self, count: u8) -> Self;
}

macro_rules! reference {
    (integers: $($integer:ty),*; floats: $($float:ty),*) => {
        $(impl Reference for $integer {
            fn of(small: u8) -> Self { small as Self }
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            fn prod(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn larger(self, other: Self) -> Self { self.max(other) }
            fn smaller(self, other: Self) -> Self { self.min(other) }
            fn over(self, count: u8) -> Self { self / count as Self }
        })*
        $(impl Reference for $float {
            fn of(small: u8) -> Self { Self::from(small) / 2.0 }
            fn sum(self, other: Self) -> Self { self + other }
            fn prod(self, other: Self) -> Self { self * other }
            fn larger(self, other: Self) -> Self { self.max(other) }
            fn smaller(self, other: Self) -> Self { self.min(other) }
            fn over(self, count: u8) -> Self { self / Self::from(count) }
        })*
    };
}

reference!(integers: u8, i8, u16, i16, u32, i32, u64, i64; floats: f32, f64);

const PEERS: u8 = 3;

fn contribution<T: Reference>(peer: u8) -> Vec<T> {
    let element = |index: u8| T::of(index.wrapping_mul(3).wrapping_add(peer * 7) % 120);
    (0..101).map(element).collect()
}

fn folded<T: Reference>(fold: fn(T, T) -> T) -> Vec<T> {
    let others = (1..PEERS).map(contribution::<T>);
    others.fold(contribution(0), |result, other| {
        let pairs = result.into_iter().zip(other);
        pairs.map(|(one, two)| fold(one, two)).collect()
    })
}

fn check<T: Reference>(peers: &mut [Communicator]) {
    let averages = folded(T::sum).into_iter().map(|sum: T| sum.over(PEERS));
    let expected = [
        (Reduce::sum(), folded(T::sum)),
        (Reduce::avg(), averages.collect()),
        (Reduce::prod(), folded(T::prod)),
        (Reduce::max(), folded(T::larger)),
        (Reduce::min(), folded(T::smaller)),
    ];

    for (reduce, expected) in expected {
        let results = together_with(peers, |index, peer| {
            let mut buffer = contribution::<T>(index as u8);
            peer.all_reduce(&mut buffer, reduce).unwrap();
            buffer
        });

        for result in results {
            assert_eq!(result, expected, "{reduce:?} of {}", T::TYPE);
        }
    }
}

#[test]
fn every_operation_on_every_type_gives_what_the_definition_says() {
    let run = Run::new();
    let mut peers = run.peers(usize::from(PEERS));

    check::<u8>(&mut peers);
    check::<i8>(&mut peers);
    check::<u16>(&mut peers);
    check::<i16>(&mut peers);
    check::<u32>(&mut peers);
    check::<i32>(&mut peers);
    check::<u64>(&mut peers);
    check::<i64>(&mut peers);
    check::<f32>(&mut peers);
    check::<f64>(&mut peers);
}

#[test]
fn a_source_is_only_read_and_may_be_mixed_with_buffers_in_place() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let source: Vec<f64> = (0..5000).map(f64::from).collect();
    let expected: Vec<f64> = source.iter().map(|element| element * 2.0).collect();

    let results = together_with(&mut peers, |index, peer| {
        let mut result = vec![0.0; source.len()];
        if index == 0 {
            peer.all_reduce_into(&source, &mut result, Reduce::sum())
                .unwrap();
        } else {
            result.copy_from_slice(&source);
            peer.all_reduce(&mut result, Reduce::sum()).unwrap();
        }
        result
    });

    assert_eq!(results, [expected.clone(), expected]);
}

#[test]
fn a_source_and_a_result_of_different_length_are_told_apart_before_anything_is_sent() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);

    let error = peer
        .all_reduce_into(&[1.0_f32; 3], &mut [0.0; 4], Reduce::sum())
        .unwrap_err();

    let (source_count, result_count) = (3, 4);
    assert_eq!(
        error,
        Error::LengthMismatch {
            source_count,
            result_count
        }
    );
}

#[test]
fn a_world_of_one_keeps_its_own() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    let mut buffer = [1.5_f32, 2.5];

    let report = peer.all_reduce(&mut buffer, Reduce::avg()).unwrap();

    assert_eq!(buffer, [1.5, 2.5]);
    assert_eq!(report.contributors, [peer.peer_id()]);
    assert_eq!(report.bytes_sent, 0);
}

#[test]
fn buffers_without_elements_and_with_fewer_than_peers_are_reduced() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let results = together(&mut peers, |peer| {
        let (mut none, mut two) = ([0_u64; 0], [1_u64, 2]);
        peer.all_reduce(&mut none, Reduce::sum()).unwrap();
        peer.all_reduce(&mut two, Reduce::sum()).unwrap();
        two
    });

    assert_eq!(results, [[3, 6]; 3]);
}

/// Reduces more than sockets hold, with four lanes per edge. How many lanes have carried a good part of it
/// for each of the two peers?
fn busy_lanes(distance: Distance) -> usize {
    let run = Run::over(4, distance);
    let mut peers = run.peers(2);
    let elements = 3 * 1024 * 1024 + 1;

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer: Vec<u32> = (0..elements).map(|i| i ^ index as u32).collect();
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        buffer
    });

    let expected: Vec<u32> = (0..elements).map(|i| i.wrapping_add(i ^ 1)).collect();
    assert!(results.iter().all(|result| *result == expected));
    let sent = run.traffic.bytes_sent();
    // A quarter of the buffer is 3 MiB; the lanes to the master carry a few hundred bytes.
    sent.iter().filter(|sent| **sent >= 3 * 1024 * 1024).count() / peers.len()
}

#[test]
fn a_buffer_larger_than_any_socket_is_reduced_over_one_lane_within_a_machine() {
    assert_eq!(busy_lanes(Distance::Near), 1);
}

#[test]
fn a_buffer_larger_than_any_socket_is_reduced_over_all_lanes_between_machines() {
    assert_eq!(busy_lanes(Distance::Far), 4);
}

/// Defect R-4 of the original: peers that reduce different things corrupt each other.
#[test]
fn peers_that_ask_for_different_things_are_told_what_differs_and_keep_their_buffers() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();

    let errors = together_with(&mut peers, |index, peer| {
        let mut buffer = vec![7_i32; 10 + index];
        let error = peer.all_reduce(&mut buffer, Reduce::sum().tag(5));
        assert_eq!(buffer, vec![7; 10 + index]);
        error.unwrap_err()
    });

    for error in errors {
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            format!(
                "tag 5 did not start: the peers disagree on its element count: {} asked for 10 elements, \
                 {} for 11 elements; pass the same on all of them",
                ids[0], ids[1]
            )
        );
        assert!(matches!(error, Error::Disagreement { field, .. } if field == SpecField::Count));
    }
}

#[test]
fn a_quantization_that_does_not_go_with_the_elements_is_refused_before_anything_is_sent() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };
    let to_words = Quantization::ZeroPointScale {
        to: ElementType::I32,
    };

    let integers = peer.all_reduce(&mut [1_i32], Reduce::sum().quantize(to_bytes));
    let no_such = peer.all_reduce(&mut [1.0_f32], Reduce::sum().quantize(to_words));

    let refused = |element, quantization| {
        Err(Error::NotSupported {
            element,
            quantization,
        })
    };
    assert_eq!(integers, refused(ElementType::I32, to_bytes));
    assert_eq!(no_such, refused(ElementType::F32, to_words));
}

#[test]
fn a_tag_is_free_again_as_soon_as_its_collective_has_ended() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let mut buffer = [1_u64; 100];
        for _ in 0..50 {
            peer.all_reduce(&mut buffer, Reduce::avg().tag(9)).unwrap();
        }
        buffer
    });

    assert_eq!(results, [[1; 100]; 2]);
}

#[test]
fn two_tags_at_once_may_be_started_in_either_order() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| {
        let tags = if index == 0 { [1, 2] } else { [2, 1] };
        let handles = tags.map(|tag| {
            let buffer = vec![tag; 100_000];
            (tag, peer.start_all_reduce(buffer, Reduce::sum().tag(tag)))
        });
        for (tag, handle) in handles {
            assert_eq!(handle.wait().unwrap().buffer, vec![tag * 2; 100_000]);
        }
    });

    assert_eq!(results.len(), 2);
}

#[test]
fn a_tag_cannot_be_used_twice_at_a_time() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let refused = Barrier::new(2);

    let results = together_with(&mut peers, |index, peer| {
        if index == 1 {
            refused.wait();
            let both = peer.start_all_reduce(vec![1_u8; 10], Reduce::sum().tag(3));
            return both.wait().unwrap().buffer;
        }
        let first = peer.start_all_reduce(vec![1_u8; 10], Reduce::sum().tag(3));
        let second = peer.start_all_reduce(vec![2_u8; 10], Reduce::sum().tag(3));
        let second = second.wait().unwrap_err();
        refused.wait();
        assert_eq!(second.error, Error::TagInUse(Tag(3)));
        assert_eq!(second.buffer, [2; 10]);
        first.wait().unwrap().buffer
    });

    assert_eq!(results, [[2; 10]; 2]);
}
