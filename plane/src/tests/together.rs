//! Frames that leave together: over lanes that take any number of bytes at once, of several frames, and end in the
//! middle of any of them.

use std::task::{Context, Poll};

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::plan::{Algorithm, Pattern};
use pccl_core::transport::{Lane, LaneError, LaneTx};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::test;

use super::reference::{expected, inputs};
use super::support::{
    AROUND, Member, all_end_right, in_time, mesh_of, run_all, run_in_place, small_frames, spec,
    turns,
};
use crate::{PlaneConfig, RunFailure};

const ALL: [Algorithm; 5] = [
    AROUND,
    Algorithm::Direct,
    Algorithm::Whole(Pattern::Mesh),
    Algorithm::Whole(Pattern::Circulant),
    Algorithm::Circulant,
];

/// A lane that takes bytes of all parts at once, and each time another number of them.
struct Gathering {
    tx: Box<dyn LaneTx>,
    rng: StdRng,
}

impl LaneTx for Gathering {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let most = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(1..40),
            1 => 1032,
            _ => self.rng.random_range(1..6000),
        };
        let mut together = parts.concat();
        together.truncate(most);
        self.tx.poll_send(cx, &[&together])
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}

/// A mesh of such lanes, of which these members are.
fn gathering(members: Vec<Member>, seed: u64) -> Vec<Member> {
    let mut seeds = seed..;
    mesh_of(members, 1, |lane| Lane {
        tx: Box::new(Gathering {
            tx: lane.tx,
            rng: StdRng::seed_from_u64(seeds.next().unwrap()),
        }),
        ..lane
    })
}

fn members(world: usize) -> Vec<Member> {
    (0..world).map(|_| Member::new(small_frames())).collect()
}

#[test(start_paused = true)]
async fn every_rank_ends_with_the_result_whatever_lanes_take_at_once() {
    for algorithm in ALL {
        for world in [3, 4, 6] {
            let counts = [501, 1, 2, 4099, 1000];
            all_end_right(gathering(members(world), 1), algorithm, counts).await;
        }
    }
}

/// An operation that ends with frames half in their lanes leaves lanes that serve the next one.
#[test(start_paused = true)]
async fn an_operation_stopped_between_frames_that_leave_together_is_undone_and_the_lanes_serve_the_next()
 {
    const COUNT: usize = 100_000;
    for algorithm in ALL {
        let mut members = gathering(members(4), 2);
        let inputs = inputs(ElementType::F32, COUNT, 4);
        let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
        let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
        let mut seq = Seq(0);
        let mut stopped = 0;
        for moment in 1..30 {
            seq = seq.next();
            let mut running = Vec::new();
            for (member, input) in members.iter_mut().zip(&inputs) {
                let port = member.plane.begin(seq, spec, algorithm);
                running.push(tokio::spawn(run_in_place(port, input.clone())));
            }
            turns(moment).await;
            members.iter_mut().for_each(|m| m.plane.stop(seq));

            for (running, input) in running.into_iter().zip(&inputs) {
                let mut ended = in_time(running).await.unwrap();
                if ended.outcome.is_err() {
                    assert_eq!(ended.outcome, Err(RunFailure::Stopped));
                    stopped += 1;
                    ended.backup.restore(&mut ended.data);
                    assert!(ended.data == *input, "stopped after {moment} turns");
                }
            }
            seq = seq.next();
            let ports = members.iter_mut();
            let ports = ports.map(|m| m.plane.begin(seq, spec, algorithm));
            let ended = run_all(ports.collect(), &inputs).await;
            assert!(
                ended
                    .iter()
                    .all(|e| e.outcome.is_ok() && e.data == expected),
                "{algorithm:?}, after {moment} turns"
            );
        }
        assert!(stopped > 10, "{algorithm:?}: {stopped} were in the middle");
        assert!(members.iter_mut().all(|m| m.reports().is_empty()));
    }
}

/// Ranks differ in how many operations contribute at a time, and in the order in which they run them.
#[test(start_paused = true)]
async fn operations_of_all_algorithms_share_the_lanes_in_whatever_order_they_are_run() {
    for seed in 0..10 {
        let member = |concurrent| {
            Member::new(PlaneConfig {
                concurrent,
                ..small_frames()
            })
        };
        let mut members = gathering([16, 1, 2, 3, 1].map(member).into(), seed);
        let counts = [1, 30, 2000, 5000];
        let inputs = counts.map(|count| inputs(ElementType::I32, count, 5));
        let mut tasks = Vec::new();
        let mut rng = StdRng::seed_from_u64(seed);
        for (rank, member) in members.iter_mut().enumerate() {
            let all = (0..20).map(|nth| {
                let (count, algorithm) = (counts[nth % 4], ALL[nth % 5]);
                let spec = spec(ReduceOp::Sum, ElementType::I32, count);
                (
                    nth,
                    member.plane.begin(Seq(nth as u64 + 1), spec, algorithm),
                )
            });
            let mut all: Vec<_> = all.collect();
            while !all.is_empty() {
                let (nth, port) = all.swap_remove(rng.random_range(0..all.len()));
                let input = inputs[nth % 4][rank].clone();
                tasks.push((nth, tokio::spawn(run_in_place(port, input))));
                turns(rng.random_range(0..4)).await;
            }
        }

        for (nth, task) in tasks {
            let ended = in_time(task).await.unwrap();
            let expected = expected(ElementType::I32, ReduceOp::Sum, &inputs[nth % 4]);
            assert!(
                ended.outcome.is_ok(),
                "{nth} of {seed}: {:?}",
                ended.outcome
            );
            assert!(ended.data == expected, "{nth} of {seed}");
        }
        assert!(members.iter_mut().all(|m| m.reports().is_empty()));
    }
}
