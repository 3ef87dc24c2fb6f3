//! Over a mesh: what is exchanged directly or in rounds, or travels whole to each other rank.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::plan::{Algorithm, Pattern};
use tokio::test;

use super::reference::{expected, inputs, random_bits};
use super::support::{
    AROUND, BUILT, Member, all_end_right, from, in_time, mesh, ring, run_all, run_in_place, spec,
    to, turns,
};
use crate::{LinkBroke, PlaneConfig, RunFailure, RunStats};

const DIRECTLY: [Algorithm; 7] = [
    Algorithm::Direct,
    Algorithm::Whole(Pattern::Mesh),
    Algorithm::Whole(Pattern::Circulant),
    Algorithm::Circulant,
    Algorithm::TwoLevel,
    Algorithm::TwoLevelRing,
    Algorithm::TwoLevelWhole,
];

#[test(start_paused = true)]
async fn every_rank_ends_with_the_result_whatever_the_type_and_the_operation() {
    for algorithm in DIRECTLY {
        for world in 2..=7 {
            all_end_right(mesh(world, 1), algorithm, [501, 1, 2, 4099, 1000]).await;
        }
    }
}

#[test(start_paused = true)]
async fn by_a_relay_every_rank_ends_with_the_result_whatever_the_type_and_the_operation() {
    for world in 1..=7 {
        let counts = [501, 1, 2, 40_099, 1000];
        all_end_right(ring(world, 3), Algorithm::Relay, counts).await;
    }
}

#[test(start_paused = true)]
async fn all_end_with_the_same_bits_which_are_those_of_the_order_of_the_peers() {
    let inputs = random_bits(40_000, 5, 42);
    let spec = spec(ReduceOp::Avg, ElementType::F32, 10_000);
    let mut members = mesh(5, 1);
    let mut results = Vec::new();
    let in_order = DIRECTLY
        .into_iter()
        .filter(|algorithm| {
            !matches!(
                algorithm,
                Algorithm::Circulant
                    | Algorithm::TwoLevel
                    | Algorithm::TwoLevelRing
                    | Algorithm::TwoLevelWhole
            )
        })
        .chain([Algorithm::Relay]);
    for (seq, algorithm) in (1..).map(Seq).zip(in_order) {
        let ports = members.iter_mut();
        let ports = ports.map(|m| m.plane.begin(seq, spec, algorithm));

        let ended = run_all(ports.collect(), &inputs).await;

        assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
        results.extend(ended.into_iter().map(|ended| ended.data));
    }

    assert!(results.iter().all(|result| *result == results[0]));
}

#[test(start_paused = true)]
async fn in_two_levels_all_end_with_the_same_bits_also_of_floats_and_over_many_lanes() {
    for (world, lanes) in [(3, 1), (4, 3), (7, 2), (8, 4)] {
        let mut by_algorithm = Vec::new();
        for algorithm in [
            Algorithm::TwoLevel,
            Algorithm::TwoLevelRing,
            Algorithm::TwoLevelWhole,
        ] {
            let inputs = random_bits(200_000, world, 45);
            let spec = spec(ReduceOp::Avg, ElementType::F32, 50_000);
            let mut members = mesh(world, lanes);
            let ports = members.iter_mut();
            let ports = ports.map(|m| m.plane.begin(Seq(1), spec, algorithm));

            let ended = run_all(ports.collect(), &inputs).await;

            assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
            assert!(ended.iter().all(|other| other.data == ended[0].data));
            by_algorithm.push(ended[0].data.clone());
        }
        let [at_home, around, everywhere] = &by_algorithm[..] else {
            panic!("there are three");
        };
        assert_eq!(at_home, everywhere);
        // Three sites are added in another order.
        assert_eq!(at_home == around, world == 3);
    }
}

#[test(start_paused = true)]
async fn in_rounds_all_end_with_the_same_bits_also_of_floats() {
    for world in 3..=9 {
        let inputs = random_bits(40_000, world, 43);
        let spec = spec(ReduceOp::Avg, ElementType::F32, 10_000);
        let mut members = mesh(world, 1);
        let ports = members.iter_mut();
        let ports = ports.map(|m| m.plane.begin(Seq(1), spec, Algorithm::Circulant));

        let ended = run_all(ports.collect(), &inputs).await;

        assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
        assert!(ended.iter().all(|other| other.data == ended[0].data));
    }
}

#[test(start_paused = true)]
async fn what_goes_directly_or_in_rounds_moves_no_more_bytes_than_a_ring() {
    for algorithm in [Algorithm::Direct, Algorithm::Circulant] {
        let mut members = mesh(4, 1);
        let inputs = inputs(ElementType::F32, 1000, 4);
        let spec = spec(ReduceOp::Sum, ElementType::F32, 1000);
        let ports = members.iter_mut();
        let ports = ports.map(|m| m.plane.begin(Seq(1), spec, algorithm));

        let ended = run_all(ports.collect(), &inputs).await;

        let moved = RunStats {
            bytes_sent: 2 * 3 * 1000,
            bytes_received: 2 * 3 * 1000,
        };
        assert!(ended.iter().all(|ended| ended.outcome == Ok(moved)));
    }
}

#[test(start_paused = true)]
async fn a_ring_and_a_direct_exchange_share_the_links_of_a_mesh() {
    let mut members = mesh(3, 2);
    let large = inputs(ElementType::F32, 30_000, 3);
    let middle = inputs(ElementType::I16, 3000, 3);
    let mut running = Vec::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let around = spec(ReduceOp::Sum, ElementType::F32, 30_000);
        let around = member.plane.begin(Seq(1), around, AROUND);
        let directly = spec(ReduceOp::Max, ElementType::I16, 3000);
        let directly = member.plane.begin(Seq(2), directly, Algorithm::Direct);
        running.push((
            tokio::spawn(run_in_place(around, large[rank].clone())),
            tokio::spawn(run_in_place(directly, middle[rank].clone())),
        ));
    }

    for (around, directly) in running {
        let (around, directly) = (
            in_time(around).await.unwrap(),
            in_time(directly).await.unwrap(),
        );
        assert!(around.data == expected(ElementType::F32, ReduceOp::Sum, &large));
        assert!(directly.data == expected(ElementType::I16, ReduceOp::Max, &middle));
    }
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

/// Until the result is there a rank can be stopped at any moment, and has its buffer back.
#[test(start_paused = true)]
async fn whoever_is_interrupted_has_its_buffer_as_it_was() {
    for algorithm in [Algorithm::Direct, Algorithm::Circulant] {
        is_undone_at_any_moment(algorithm).await;
    }
}

async fn is_undone_at_any_moment(algorithm: Algorithm) {
    const COUNT: usize = 200_000;
    let mut written = 0;
    for moment in 1..60 {
        let mut members = mesh(3, 1);
        let inputs = inputs(ElementType::F32, COUNT, 3);
        let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
        let mut running = Vec::new();
        for (rank, member) in members.iter_mut().enumerate() {
            let port = member.plane.begin(Seq(1), spec, algorithm);
            running.push(tokio::spawn(run_in_place(port, inputs[rank].clone())));
        }
        turns(moment).await;
        members.iter_mut().for_each(|m| m.plane.stop(Seq(1)));

        for (running, input) in running.into_iter().zip(&inputs) {
            let mut ended = in_time(running).await.unwrap();
            if ended.outcome.is_err() {
                assert_eq!(ended.outcome, Err(RunFailure::Stopped));
                written += usize::from(ended.data != *input);
                ended.backup.restore(&mut ended.data);
                assert!(ended.data == *input, "stopped after {moment} turns");
            }
        }
    }
    assert!(written > 10, "hardly any moment was in the middle");
}

#[test(start_paused = true)]
async fn a_rank_that_dies_ends_the_exchange_of_the_others_with_their_buffers_as_they_were() {
    let mut members = mesh(4, 1);
    let inputs = inputs(ElementType::F32, 20_000, 4);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 20_000);
    let mut running = Vec::new();
    for (rank, member) in members.iter_mut().enumerate().take(3) {
        let port = member.plane.begin(Seq(1), spec, Algorithm::Direct);
        running.push(tokio::spawn(run_in_place(port, inputs[rank].clone())));
    }
    turns(50).await;

    drop(members.pop());

    for (running, input) in running.into_iter().zip(&inputs) {
        let mut ended = in_time(running).await.unwrap();
        assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
        ended.backup.restore(&mut ended.data);
        assert!(ended.data == *input);
    }
    for member in &mut members {
        let reports = member.reports();
        let of_dead = [to(3), from(3)].map(|link| LinkBroke { link, built: BUILT });
        assert!(
            reports.iter().all(|event| of_dead.contains(event)),
            "{reports:?}"
        );
        assert!(!reports.is_empty());
    }
}

/// Rank 3 lives and says nothing: it is to blame, and none of those that wait for each other because of it.
#[test(start_paused = true)]
async fn of_ranks_that_wait_for_each_other_the_one_that_sends_nothing_is_reported() {
    let mut members = mesh(4, 1);
    let inputs = inputs(ElementType::F32, 1000, 4);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 1000);
    let mut running = Vec::new();
    for (rank, member) in members.iter_mut().enumerate().take(3) {
        let port = member.plane.begin(Seq(1), spec, Algorithm::Direct);
        running.push(tokio::spawn(run_in_place(port, inputs[rank].clone())));
    }

    for running in running {
        let ended = tokio::time::timeout(3 * PlaneConfig::default().stall, running).await;
        assert_eq!(ended.unwrap().unwrap().outcome, Err(RunFailure::LaneLost));
    }
    let link = from(3);
    let broke = LinkBroke { link, built: BUILT };
    let reports = |member: &mut Member| member.reports();
    for member in members.iter_mut().take(3) {
        assert_eq!(reports(member), [broke]);
    }
}

/// Rank 5 lives and says nothing. In rounds few ranks wait for what it sends at once.
#[test(start_paused = true)]
async fn in_rounds_ranks_that_wait_for_ranks_that_wait_leave_the_word_to_those_that_know() {
    for algorithm in [Algorithm::Circulant, Algorithm::Whole(Pattern::Circulant)] {
        let stall = PlaneConfig::default().stall;
        let mut members = mesh(6, 1);
        let inputs = inputs(ElementType::F32, 1000, 6);
        let spec = spec(ReduceOp::Sum, ElementType::F32, 1000);
        let mut running = Vec::new();
        for (rank, member) in members.iter_mut().enumerate().take(5) {
            let port = member.plane.begin(Seq(1), spec, algorithm);
            running.push(tokio::spawn(run_in_place(port, inputs[rank].clone())));
        }

        tokio::time::sleep(2 * stall).await;
        let early: Vec<LinkBroke> = members.iter_mut().flat_map(Member::reports).collect();
        for running in running {
            let ended = tokio::time::timeout(stall, running).await;
            assert_eq!(ended.unwrap().unwrap().outcome, Err(RunFailure::LaneLost));
        }

        let of_mute = [to(5), from(5)].map(|link| LinkBroke { link, built: BUILT });
        let blames_the_mute = early.iter().all(|broke| of_mute.contains(broke));
        assert!(
            blames_the_mute && !early.is_empty(),
            "{algorithm:?}: {early:?}"
        );
    }
}

#[test(start_paused = true)]
async fn without_all_links_nothing_is_exchanged_directly() {
    let mut members = super::support::ring(3, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let port = members[0].plane.begin(Seq(1), spec, Algorithm::Direct);

    let ended = in_time(run_in_place(port, vec![1; 100])).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert!(ended.data.iter().all(|byte| *byte == 1));
}
