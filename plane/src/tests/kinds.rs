//! Collectives other than all-reduces: every rank ends with what its kind promises, and nothing else is written.

use std::ops::Range;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Membership, PeerId, Seq};
use pccl_core::plan::{Algorithm, Shards};
use tokio::test;

use super::reference::{OPS, expected, inputs, random_bits};
use super::support::{Ended, Member, in_time, mesh, ring, run_all, run_in_place, spec, turns};
use crate::{RunFailure, RunStats};

pub(super) const SCATTER: CollectiveKind = CollectiveKind::ReduceScatter;
pub(super) const GATHER: CollectiveKind = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

/// Elements: fewer than ranks, one less and one more than are divided evenly, several frames and stripes. Few where they
/// are multiplied, so that all products are exact.
const COUNTS: [usize; 8] = [0, 1025, 1, 4, 5, 4099, 20_011, 2];

pub(super) fn of_kind(kind: CollectiveKind, spec: CollectiveSpec) -> CollectiveSpec {
    CollectiveSpec { kind, ..spec }
}

/// What each rank is to end with.
pub(super) fn promised(spec: &CollectiveSpec, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let world = inputs.len();
    let shards = Shards::of_ranks(spec.count, world as u32);
    let size = spec.element.size();
    let shard = |rank: usize| {
        let range = shards.of_rank(rank as u32);
        range.start as usize * size..range.end as usize * size
    };
    let reduced = expected(spec.element, spec.op, inputs);
    let ends_with = |rank: usize| {
        let mut data = inputs[rank].clone();
        match spec.kind {
            CollectiveKind::AllReduce => data.copy_from_slice(&reduced),
            CollectiveKind::ReduceScatter => {
                data[shard(rank)].copy_from_slice(&reduced[shard(rank)]);
            }
            CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. } => {
                for of in 0..world {
                    data[shard(of)].copy_from_slice(&inputs[of][shard(of)]);
                }
            }
            CollectiveKind::Broadcast { root } => data.copy_from_slice(&inputs[root.0 as usize]),
            CollectiveKind::Barrier => {}
        }
        data
    };
    (0..world).map(ends_with).collect()
}

async fn run(
    members: &mut [Member],
    seq: Seq,
    (spec, algorithm): (CollectiveSpec, Algorithm),
    inputs: &[Vec<u8>],
) -> Vec<Ended> {
    let ports = members.iter_mut();
    let ports = ports.map(|member| member.plane.begin(seq, spec, algorithm));
    run_all(ports.collect(), inputs).await
}

/// Runs all types, operations and sizes, of which a gathering or a broadcast makes no difference between operations.
async fn all_keep_the_promise(
    mut members: Vec<Member>,
    kinds: &[CollectiveKind],
    algorithm: Algorithm,
) {
    let world = members.len();
    let mut seq = Seq(0);
    for kind in kinds {
        for element in ElementType::ALL {
            for (op, count) in OPS.into_iter().cycle().zip(COUNTS) {
                seq = seq.next();
                let inputs = inputs(element, count, world);
                let spec = of_kind(*kind, spec(op, element, count));

                let ended = run(&mut members, seq, (spec, algorithm), &inputs).await;

                let promised = promised(&spec, &inputs);
                for (rank, (ended, promised)) in ended.iter().zip(&promised).enumerate() {
                    assert!(
                        ended.outcome.is_ok() && ended.data == *promised,
                        "rank {rank} of {world}, {kind} of {count} {element}, {op}, {algorithm:?}"
                    );
                }
                members.iter_mut().for_each(|m| m.plane.stop(seq));
            }
        }
    }
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

#[test(start_paused = true)]
async fn around_the_ring_every_rank_ends_with_its_shard_or_with_all_of_them() {
    for world in [1, 2, 3, 4, 5, 8] {
        all_keep_the_promise(ring(world, 3), &[SCATTER, GATHER], Algorithm::Ring).await;
    }
}

#[test(start_paused = true)]
async fn over_a_mesh_every_rank_ends_with_its_shard_or_with_all_of_them() {
    for algorithm in [Algorithm::Direct, Algorithm::Circulant] {
        for world in [2, 3, 4, 5, 8] {
            all_keep_the_promise(mesh(world, 1), &[SCATTER, GATHER], algorithm).await;
        }
    }
}

#[test(start_paused = true)]
async fn in_two_levels_every_rank_ends_with_its_shard_or_with_all_of_them() {
    for (world, lanes) in [(2, 1), (3, 3), (4, 1), (5, 2), (8, 3)] {
        for algorithm in [Algorithm::TwoLevel, Algorithm::TwoLevelRing] {
            let members = mesh(world, lanes);
            all_keep_the_promise(members, &[SCATTER, GATHER], algorithm).await;
        }
    }
}

#[test(start_paused = true)]
async fn by_a_relay_every_rank_ends_with_its_shard() {
    for (world, lanes) in [(2, 1), (3, 3), (4, 1), (5, 2), (8, 3)] {
        all_keep_the_promise(ring(world, lanes), &[SCATTER], Algorithm::Relay).await;
    }
}

/// A broadcast from each rank.
fn from_each(world: usize) -> Vec<CollectiveKind> {
    let roots = (0..world as u64).map(PeerId);
    roots
        .map(|root| CollectiveKind::Broadcast { root })
        .collect()
}

#[test(start_paused = true)]
async fn whoever_is_the_root_all_end_with_what_it_has() {
    for world in [1, 2, 3, 5] {
        all_keep_the_promise(ring(world, 3), &from_each(world), Algorithm::Chain).await;
    }
}

#[test(start_paused = true)]
async fn down_a_tree_and_in_two_levels_all_end_with_what_the_root_has() {
    for algorithm in [Algorithm::Tree, Algorithm::TwoLevel] {
        for (world, lanes) in [(3, 3), (4, 1), (5, 2), (8, 1)] {
            all_keep_the_promise(mesh(world, lanes), &from_each(world), algorithm).await;
        }
    }
}

/// Bytes sent and received, by rank.
fn moved(ended: &[Ended]) -> Vec<(u64, u64)> {
    let stats = ended.iter().map(|ended| ended.outcome.unwrap());
    stats
        .map(|stats| (stats.bytes_sent, stats.bytes_received))
        .collect()
}

/// The ranks 1, 2, 3 and 0 have the numbers 0 to 3, and 2 sends to 3.
#[test(start_paused = true)]
async fn the_root_of_a_tree_sends_to_each_of_its_children_and_each_rank_receives_once() {
    let inputs = inputs(ElementType::U8, 40_000, 4);
    let whole = spec(ReduceOp::Max, ElementType::U8, 40_000);
    let root = CollectiveKind::Broadcast { root: PeerId(1) };
    let what = (of_kind(root, whole), Algorithm::Tree);

    let ended = run(&mut mesh(4, 2), Seq(1), what, &inputs).await;

    assert_eq!(
        moved(&ended),
        [(0, 40_000), (80_000, 0), (0, 40_000), (40_000, 40_000)]
    );
}

#[test(start_paused = true)]
async fn a_barrier_moves_nothing() {
    let mut members = ring(3, 1);
    let inputs = inputs(ElementType::U8, 0, 3);
    let spec = of_kind(
        CollectiveKind::Barrier,
        spec(ReduceOp::Sum, ElementType::U8, 0),
    );

    let ended = run(&mut members, Seq(1), (spec, Algorithm::Ring), &inputs).await;

    assert!(
        ended
            .iter()
            .all(|ended| ended.outcome == Ok(RunStats::default()))
    );
}

/// What an all-reduce gives is what a reduce-scatter and an all-gather give one after the other, bit by bit.
#[test(start_paused = true)]
async fn a_reduce_scatter_and_an_all_gather_are_an_all_reduce() {
    for algorithm in [
        Algorithm::Ring,
        Algorithm::Direct,
        Algorithm::Circulant,
        Algorithm::TwoLevel,
        Algorithm::TwoLevelRing,
    ] {
        let inputs = random_bits(40_000, 5, 44);
        let whole = spec(ReduceOp::Avg, ElementType::F32, 10_000);
        let mut members = mesh(5, 2);

        let at_once = run(&mut members, Seq(1), (whole, algorithm), &inputs).await;
        let scattered = of_kind(SCATTER, whole);
        let scattered = run(&mut members, Seq(2), (scattered, algorithm), &inputs).await;
        let shards: Vec<Vec<u8>> = scattered.into_iter().map(|ended| ended.data).collect();
        let gathered = of_kind(GATHER, spec(ReduceOp::Sum, ElementType::F32, 10_000));
        let gathered = run(&mut members, Seq(3), (gathered, algorithm), &shards).await;

        for (one, other) in at_once.iter().zip(&gathered) {
            assert!(one.outcome.is_ok() && other.outcome.is_ok());
            assert!(one.data == other.data, "{algorithm:?}");
        }
    }
}

#[test(start_paused = true)]
async fn each_half_moves_a_share_of_the_buffer_and_a_broadcast_each_byte_once() {
    let inputs = inputs(ElementType::U8, 40_000, 4);
    let whole = spec(ReduceOp::Max, ElementType::U8, 40_000);
    let share = RunStats {
        bytes_sent: 30_000,
        bytes_received: 30_000,
    };
    for kind in [SCATTER, GATHER] {
        for algorithm in [Algorithm::Ring, Algorithm::Direct, Algorithm::Circulant] {
            let what = (of_kind(kind, whole), algorithm);
            let ended = run(&mut mesh(4, 1), Seq(1), what, &inputs).await;
            assert!(
                ended.iter().all(|ended| ended.outcome == Ok(share)),
                "{kind} {algorithm:?}"
            );
        }
    }
    let root = CollectiveKind::Broadcast { root: PeerId(1) };
    let what = (of_kind(root, whole), Algorithm::Chain);
    let ended = run(&mut ring(4, 2), Seq(1), what, &inputs).await;

    assert_eq!(
        moved(&ended),
        [(0, 40_000), (40_000, 0), (40_000, 40_000), (40_000, 40_000)]
    );
}

#[test(start_paused = true)]
async fn quantized_shards_are_those_of_a_quantized_all_reduce() {
    let quantization = Quantization::MinMax {
        to: ElementType::U8,
    };
    let inputs = inputs(ElementType::F32, 10_000, 4);
    let whole = CollectiveSpec {
        quantization,
        ..spec(ReduceOp::Sum, ElementType::F32, 10_000)
    };
    let mut members = ring(4, 1);

    let reduced = run(&mut members, Seq(1), (whole, Algorithm::Ring), &inputs).await;
    let scattered = of_kind(SCATTER, whole);
    let scattered = run(&mut members, Seq(2), (scattered, Algorithm::Ring), &inputs).await;

    for (rank, (whole, shard)) in reduced.iter().zip(&scattered).enumerate() {
        let own = rank * 10_000..(rank + 1) * 10_000;
        assert!(shard.outcome.is_ok());
        assert!(whole.data[own.clone()] == shard.data[own]);
    }
}

#[test(start_paused = true)]
async fn whatever_is_stopped_in_the_middle_can_be_put_back() {
    let root = CollectiveKind::Broadcast { root: PeerId(0) };
    let kinds = [
        (SCATTER, Algorithm::Ring),
        (GATHER, Algorithm::Ring),
        (root, Algorithm::Chain),
        (root, Algorithm::Tree),
    ];
    let inputs = inputs(ElementType::F32, 200_000, 3);
    for (kind, algorithm) in kinds {
        let mut members = match algorithm {
            Algorithm::Tree => mesh(3, 1),
            _ => ring(3, 1),
        };
        let spec = of_kind(kind, spec(ReduceOp::Sum, ElementType::F32, 200_000));
        can_be_put_back(&mut members, (spec, algorithm), &inputs, 1..100).await;
    }
}

/// Stops a collective at each of these moments. Whatever a rank had written is put back, and in more than five cases it
/// had written something.
pub(super) async fn can_be_put_back(
    members: &mut [Member],
    (spec, algorithm): (CollectiveSpec, Algorithm),
    inputs: &[Vec<u8>],
    moments: Range<usize>,
) {
    let kind = spec.kind;
    let mut written = 0;
    for (seq, moment) in (1..).map(Seq).zip(moments) {
        let ports = members
            .iter_mut()
            .map(|m| m.plane.begin(seq, spec, algorithm));
        let runs = ports.zip(inputs.to_vec());
        let runs = runs.map(|(port, data)| tokio::spawn(run_in_place(port, data)));
        let runs: Vec<_> = runs.collect();
        turns(moment).await;

        members.iter_mut().for_each(|m| m.plane.stop(seq));
        for (run, input) in runs.into_iter().zip(inputs) {
            let mut ended = in_time(run).await.unwrap();
            if ended.outcome == Err(RunFailure::Stopped) {
                written += usize::from(ended.data != *input);
            }
            ended.backup.restore(&mut ended.data);
            assert!(ended.data == *input, "{kind} after {moment} turns");
        }
    }
    assert!(written > 5, "{kind}: hardly any moment was in the middle");
}
