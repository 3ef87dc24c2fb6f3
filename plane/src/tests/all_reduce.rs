//! Results: every rank has every element, right and with the same bits.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::plan::{Algorithm, Pattern};
use tokio::test;

use super::reference::{OPS, expected, inputs, random_bits};
use super::support::{AROUND, all_end_right, in_time, ring, run_all, spec, uneven_ring};
use crate::Sensor;
use crate::{RunStats, UserBuffers};

const WHOLE: Algorithm = Algorithm::Whole(Pattern::Ring);

#[test(start_paused = true)]
async fn every_rank_ends_with_the_result_whatever_the_type_and_the_operation() {
    for world in 1..=5 {
        let mut members = ring(world, 2);
        let mut seq = Seq(0);
        for element in ElementType::ALL {
            for op in OPS {
                seq = seq.next();
                let inputs = inputs(element, 501, world);
                let spec = spec(op, element, 501);
                let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));

                let ended = run_all(ports.collect(), &inputs).await;

                let expected = expected(element, op, &inputs);
                for (rank, ended) in ended.iter().enumerate() {
                    assert!(
                        ended.outcome.is_ok(),
                        "rank {rank} of {world}, {op} of {element}"
                    );
                    assert_eq!(
                        ended.data, expected,
                        "rank {rank} of {world}, {op} of {element}"
                    );
                }
                members.iter_mut().for_each(|m| m.plane.stop(seq));
            }
        }
        assert!(members.iter_mut().all(|m| m.reports().is_empty()));
    }
}

#[test(start_paused = true)]
async fn every_rank_ends_with_the_result_whatever_the_size_and_the_number_of_lanes() {
    for world in 1..=5 {
        for lanes in [1, 3, 4] {
            let mut members = ring(world, lanes);
            for (seq, count) in (1..).map(Seq).zip([0, 1, 2, 3, 4, 5, 7, 999, 20_011]) {
                let inputs = inputs(ElementType::F32, count, world);
                let spec = spec(ReduceOp::Sum, ElementType::F32, count);
                let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));

                let ended = run_all(ports.collect(), &inputs).await;

                let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
                for ended in ended {
                    assert!(ended.outcome.is_ok());
                    assert!(
                        ended.data == expected,
                        "{count} on {world} ranks, {lanes} lanes"
                    );
                }
            }
        }
    }
}

#[test(start_paused = true)]
async fn a_ring_whose_edges_have_different_numbers_of_lanes_reduces_right() {
    for lane_counts in [[4, 1, 2], [1, 2, 4], [2, 4, 1], [1, 4, 4]] {
        let mut members = uneven_ring(&lane_counts);
        for (seq, count) in (1..).map(Seq).zip([3, 999, 20_011, 40_000]) {
            let inputs = inputs(ElementType::F32, count, 3);
            let spec = spec(ReduceOp::Sum, ElementType::F32, count);
            let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));

            let ended = run_all(ports.collect(), &inputs).await;

            let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
            for ended in ended {
                assert!(ended.outcome.is_ok(), "{count} over {lane_counts:?}");
                assert!(ended.data == expected, "{count} over {lane_counts:?}");
            }
            members.iter_mut().for_each(|m| m.plane.stop(seq));
        }
        assert!(members.iter_mut().all(|m| m.reports().is_empty()));
    }
}

#[test(start_paused = true)]
async fn all_ranks_end_with_the_same_bits_where_the_order_of_additions_matters() {
    let mut members = ring(5, 3);
    let inputs = random_bits(80_000, 5, 42);
    let spec = spec(ReduceOp::Avg, ElementType::F32, 20_000);
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));

    let ended = run_all(ports.collect(), &inputs).await;

    assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
    assert!(ended.iter().all(|other| other.data == ended[0].data));
}

#[test(start_paused = true)]
async fn out_of_place_the_contribution_is_only_read() {
    let mut members = ring(3, 2);
    let inputs = inputs(ElementType::I32, 9001, 3);
    let spec = spec(ReduceOp::Sum, ElementType::I32, 9001);
    let tasks = members.iter_mut().zip(inputs.clone()).map(|(member, src)| {
        let mut port = member.plane.begin(Seq(1), spec, AROUND);
        tokio::spawn(async move {
            let mut dst = vec![0xAA; src.len()];
            let buffers = UserBuffers::Into {
                src: &src,
                dst: &mut dst,
            };
            let outcome = port.run(buffers).await;
            (outcome, src, dst)
        })
    });

    let expected = expected(ElementType::I32, ReduceOp::Sum, &inputs);
    for (task, input) in tasks.collect::<Vec<_>>().into_iter().zip(&inputs) {
        let (outcome, src, dst) = in_time(task).await.unwrap();

        assert!(outcome.is_ok());
        assert_eq!(&src, input);
        assert_eq!(dst, expected);
    }
}

#[test(start_paused = true)]
async fn each_rank_moves_twice_its_share_of_the_buffer_and_no_more() {
    let mut members = ring(4, 2);
    let inputs = inputs(ElementType::U8, 40_000, 4);
    let spec = spec(ReduceOp::Max, ElementType::U8, 40_000);
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));

    let ended = run_all(ports.collect(), &inputs).await;

    let share = RunStats {
        bytes_sent: 2 * 3 * 10_000,
        bytes_received: 2 * 3 * 10_000,
    };
    assert!(ended.iter().all(|ended| ended.outcome == Ok(share)));
}

#[test(start_paused = true)]
async fn bytes_that_move_are_counted_and_a_ring_that_stands_still_moves_none() {
    let mut members = ring(2, 2);
    let mut sensors: Vec<Sensor> = members
        .iter()
        .map(|member| Sensor::new(member.plane.progress().clone()))
        .collect();
    let mut look = || {
        sensors
            .iter_mut()
            .map(Sensor::moved_since_last)
            .collect::<Vec<_>>()
    };
    let inputs = inputs(ElementType::F32, 10, 2);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 10);

    let before = look();
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));
    run_all(ports.collect(), &inputs).await;
    let looks = [look(), look()];

    assert_eq!(before, [false, false]);
    assert_eq!(looks, [[true, true], [false, false]]);
}

#[test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_on_several_threads_as_well() {
    let mut members = ring(3, 4);
    for seq in (1..20).map(Seq) {
        let inputs = inputs(ElementType::F64, 30_000, 3);
        let spec = spec(ReduceOp::Sum, ElementType::F64, 30_000);
        let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));

        let ended = run_all(ports.collect(), &inputs).await;

        let expected = expected(ElementType::F64, ReduceOp::Sum, &inputs);
        assert!(
            ended
                .iter()
                .all(|e| e.outcome.is_ok() && e.data == expected)
        );
    }
}

#[test(start_paused = true)]
async fn compressed_results_have_the_same_bits_on_every_rank() {
    let compressions = [
        Quantization::MinMax {
            to: ElementType::U8,
        },
        Quantization::ZeroPointScale {
            to: ElementType::I8,
        },
        Quantization::Blockwise4,
    ];
    for world in 2..=5 {
        let mut members = ring(world, 3);
        for (seq, quantization) in (1..).map(Seq).zip(compressions) {
            let inputs = inputs(ElementType::F32, 150_001, world);
            let plain = spec(ReduceOp::Sum, ElementType::F32, 150_001);
            let compressed = CollectiveSpec {
                quantization,
                ..plain
            };
            let ports = members
                .iter_mut()
                .map(|m| m.plane.begin(seq, compressed, AROUND));

            let ended = run_all(ports.collect(), &inputs).await;

            assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
            assert!(ended.iter().all(|other| other.data == ended[0].data));
            // Sums of numbers from 0 to 5, in at least fifteen steps; each hop may be half a step off.
            let exact = expected(ElementType::F32, ReduceOp::Sum, &inputs);
            let step = 5.0 * world as f32 / 15.0;
            let largest = largest_difference(&ended[0].data, &exact);
            assert!(largest <= step * world as f32 / 2.0 * 1.001, "{largest}");
        }
    }
}

fn largest_difference(one: &[u8], other: &[u8]) -> f32 {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let (chunks, _) = bytes.as_chunks::<4>();
        chunks.iter().map(|raw| f32::from_le_bytes(*raw)).collect()
    };
    let pairs = floats(one).into_iter().zip(floats(other));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test(start_paused = true)]
async fn buffers_that_travel_whole_end_as_the_result_of_any_type_and_operation_with_the_same_bits()
{
    for world in 1..=5 {
        all_end_right(ring(world, 2), WHOLE, [501, 1, 2, 499, 1000]).await;
    }
}

#[test(start_paused = true)]
async fn buffers_that_travel_whole_end_with_the_same_bits_where_the_order_of_additions_matters() {
    let mut members = ring(5, 3);
    let inputs = random_bits(40_000, 5, 42);
    let spec = spec(ReduceOp::Avg, ElementType::F32, 10_000);
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, WHOLE));

    let ended = run_all(ports.collect(), &inputs).await;

    let whole = RunStats {
        bytes_sent: 4 * 40_000,
        bytes_received: 4 * 40_000,
    };
    assert!(ended.iter().all(|ended| ended.outcome == Ok(whole)));
    assert!(ended.iter().all(|other| other.data == ended[0].data));
}
