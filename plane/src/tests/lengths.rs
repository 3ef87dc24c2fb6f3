//! All-gathers to which each rank contributes as much as it likes: every rank ends with what all have.

use std::ops::Range;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::lengths::Lengths;
use pccl_core::plan::{Algorithm, Shards};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::test;

use super::reference::random_bits;
use super::support::{Member, in_time, local_ring, mesh, ring, spec, turns};
use crate::{OperationPort, RunFailure, RunStats, UserBuffers};

/// The plane does not ask for its numbers.
pub(super) const GATHER_V: CollectiveKind = CollectiveKind::AllGatherV { own: 0, limit: 0 };

/// What ranks have, and what all end with.
struct Case {
    spec: CollectiveSpec,
    lengths: Lengths,
    /// Bytes of each rank, in the result.
    places: Vec<Range<usize>>,
    all: Vec<u8>,
}

impl Case {
    fn new(element: ElementType, lengths: &[u64], seed: u64) -> Self {
        let lengths = Lengths(lengths.to_vec());
        let shards = Shards::of_lengths(&lengths).unwrap();
        let size = element.size();
        let place = |shard: Range<u64>| shard.start as usize * size..shard.end as usize * size;
        let count = lengths.total().unwrap();
        Self {
            spec: CollectiveSpec {
                kind: GATHER_V,
                ..spec(ReduceOp::Sum, element, count as usize)
            },
            lengths,
            places: shards.by_rank().map(place).collect(),
            all: random_bits(count as usize * size, 1, seed).remove(0),
        }
    }

    /// Memory in which nothing is right but the contribution of a rank.
    fn memory_of(&self, rank: usize) -> Vec<u8> {
        let mut data: Vec<u8> = self.all.iter().map(|byte| !byte).collect();
        let place = self.places[rank].clone();
        data[place.clone()].copy_from_slice(&self.all[place]);
        data
    }

    fn begin(&self, members: &mut [Member], seq: Seq, algorithm: Algorithm) -> Vec<OperationPort> {
        let begin = |member: &mut Member| {
            let plane = &mut member.plane;
            plane.begin_of(seq, self.spec, &self.lengths, algorithm)
        };
        members.iter_mut().map(begin).collect()
    }

    /// Runs it on all ranks, each in a task of its own.
    async fn run(&self, members: &mut [Member], seq: Seq, algorithm: Algorithm) -> Vec<Ended> {
        let ports = self.begin(members, seq, algorithm).into_iter().enumerate();
        let tasks = ports.map(|(rank, port)| tokio::spawn(run_fresh(port, self.memory_of(rank))));
        let tasks: Vec<_> = tasks.collect();
        let mut ended = Vec::new();
        for task in tasks {
            ended.push(in_time(task).await.unwrap());
        }
        members.iter_mut().for_each(|member| member.plane.stop(seq));
        ended
    }
}

type Ended = (Result<RunStats, RunFailure>, Vec<u8>);

async fn run_fresh(mut port: OperationPort, mut data: Vec<u8>) -> Ended {
    let outcome = port.run(UserBuffers::Fresh { data: &mut data }).await;
    (outcome, data)
}

/// Lengths of so many ranks: nothing, little, several frames and stripes, in turn or all the same.
pub(super) fn lengths(world: usize, random: &mut StdRng) -> Vec<u64> {
    let mut any = || match random.random_range(0..6) {
        0 | 1 => 0,
        2 | 3 => random.random_range(1..9),
        4 => random.random_range(9..2_000),
        _ => random.random_range(2_000..30_000),
    };
    (0..world).map(|_| any()).collect()
}

async fn all_end_with_all(mut members: Vec<Member>, algorithm: Algorithm) {
    let world = members.len();
    let mut random = StdRng::seed_from_u64(world as u64);
    let mut seq = Seq(0);
    for element in ElementType::ALL {
        for turn in 0..4 {
            let lengths = match turn {
                0 => vec![0; world],
                _ => lengths(world, &mut random),
            };
            seq = seq.next();
            let case = Case::new(element, &lengths, seq.0);

            let ended = case.run(&mut members, seq, algorithm).await;

            for (rank, (outcome, data)) in ended.into_iter().enumerate() {
                assert!(
                    outcome.is_ok() && data == case.all,
                    "rank {rank}: {lengths:?} {element}, {algorithm:?}: {outcome:?}"
                );
            }
        }
    }
    assert!(members.iter_mut().all(|member| member.reports().is_empty()));
}

#[test(start_paused = true)]
async fn around_the_ring_every_rank_ends_with_what_all_have() {
    for world in [1, 2, 3, 4, 5, 8] {
        all_end_with_all(ring(world, 3), Algorithm::Ring).await;
    }
}

#[test(start_paused = true)]
async fn over_a_mesh_every_rank_ends_with_what_all_have() {
    for algorithm in [Algorithm::Direct, Algorithm::Circulant] {
        for world in [2, 3, 4, 5, 8] {
            all_end_with_all(mesh(world, 1), algorithm).await;
        }
    }
}

#[test(start_paused = true)]
async fn in_two_levels_every_rank_ends_with_what_all_have() {
    for (world, lanes) in [(2, 1), (3, 3), (4, 1), (5, 2), (8, 3)] {
        all_end_with_all(mesh(world, lanes), Algorithm::TwoLevel).await;
        all_end_with_all(mesh(world, lanes), Algorithm::TwoLevelRing).await;
    }
}

/// Within a machine few bytes are under way at a time. Nothing comes back from ranks that have nothing, and what one has
/// comes through all the same.
#[test(start_paused = true)]
async fn one_rank_that_has_everything_waits_for_nobody() {
    for rank in 0..3 {
        let mut members = local_ring(3, 2);
        let mut lengths = vec![0; 3];
        lengths[rank] = 5_000_000;
        let case = Case::new(ElementType::U8, &lengths, 1);

        let ended = case.run(&mut members, Seq(1), Algorithm::Ring).await;

        assert!(
            ended
                .iter()
                .all(|(outcome, data)| outcome.is_ok() && *data == case.all)
        );
        // To the next one, and by that one to the last.
        let sent = ended.iter().map(|(outcome, _)| outcome.unwrap().bytes_sent);
        let mut sent: Vec<u64> = sent.collect();
        sent.rotate_left(rank);
        assert_eq!(sent, [5_000_000, 5_000_000, 0]);
    }
}

#[test(start_paused = true)]
async fn what_is_stopped_in_the_middle_is_followed_by_the_next_one() {
    let mut members = ring(3, 1);
    let mut stopped = 0;
    for (seq, moment) in (1..).map(|number| Seq(2 * number)).zip(1..60) {
        let case = Case::new(ElementType::F32, &[90_000, 0, 20_000], moment as u64);
        let ports = case.begin(&mut members, seq, Algorithm::Ring).into_iter();
        let runs = ports.enumerate().map(|(rank, port)| {
            let data = case.memory_of(rank);
            tokio::spawn(run_fresh(port, data))
        });
        let runs: Vec<_> = runs.collect();
        turns(moment).await;
        members.iter_mut().for_each(|member| member.plane.stop(seq));
        for run in runs {
            let (outcome, _) = in_time(run).await.unwrap();
            stopped += usize::from(outcome == Err(RunFailure::Stopped));
        }

        let ended = case.run(&mut members, seq.next(), Algorithm::Ring).await;

        assert!(
            ended
                .iter()
                .all(|(outcome, data)| outcome.is_ok() && *data == case.all)
        );
    }
    assert!(stopped > 5, "hardly any moment was in the middle");
}

#[test]
async fn lengths_of_other_ranks_are_a_defect_and_no_run() {
    let mut members = ring(2, 1);
    let case = Case::new(ElementType::U8, &[1, 2, 3], 1);
    let port = case.begin(&mut members, Seq(1), Algorithm::Ring).remove(0);

    let (outcome, _) = run_fresh(port, case.memory_of(0)).await;

    assert!(matches!(outcome, Err(RunFailure::Defect(_))));
}
