//! Whose contributions are under way, where there are several operations.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use tokio::test;

use super::reference::{expected, inputs};
use super::support::{
    AROUND, Member, in_time, local_ring, ring, ring_of, run_in_place, small_frames, spec, stand,
    turns,
};
use crate::{PlaneConfig, RunFailure};

#[test(start_paused = true)]
async fn a_small_operation_overtakes_a_large_one_that_holds_all_lanes() {
    overtakes(ring(3, 1), 50).await;
}

#[test(start_paused = true)]
async fn a_small_operation_within_a_machine_overtakes_one_that_has_the_share() {
    overtakes(local_ring(3, 1), 50).await;
    overtakes(local_ring(3, 1), 5000).await;
}

/// An operation on `count` elements ends before one on many more that began before.
async fn overtakes(mut members: Vec<Member>, count: usize) {
    let large = inputs(ElementType::F32, 500_000, 3);
    let small = inputs(ElementType::I64, count, 3);
    let large_spec = spec(ReduceOp::Sum, ElementType::F32, 500_000);
    let small_spec = spec(ReduceOp::Max, ElementType::I64, count);
    let mut larges = Vec::new();
    for (member, input) in members.iter_mut().zip(&large) {
        let port = member.plane.begin(Seq(1), large_spec, AROUND);
        larges.push(tokio::spawn(run_in_place(port, input.clone())));
    }
    turns(10).await;

    let mut smalls = Vec::new();
    for (member, input) in members.iter_mut().zip(&small) {
        let port = member.plane.begin(Seq(2), small_spec, AROUND);
        smalls.push(tokio::spawn(run_in_place(port, input.clone())));
    }
    for small_task in smalls {
        let ended = in_time(small_task).await.unwrap();
        assert!(ended.data == expected(ElementType::I64, ReduceOp::Max, &small));
    }

    assert!(larges.iter().all(|large_task| !large_task.is_finished()));
    for large_task in larges {
        let ended = in_time(large_task).await.unwrap();
        assert!(ended.data == expected(ElementType::F32, ReduceOp::Sum, &large));
    }
}

#[test(start_paused = true)]
async fn operations_beyond_the_limit_wait_for_those_before_them_in_whatever_order_they_are_run() {
    let config = PlaneConfig {
        concurrent: 2,
        ..small_frames()
    };
    let mut members = ring_of(3, 2, &config);
    let inputs = inputs(ElementType::I32, 30_000, 3);
    let spec = spec(ReduceOp::Sum, ElementType::I32, 30_000);
    let mut tasks = Vec::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let begun = (1..=7).map(|seq| (seq, member.plane.begin(Seq(seq), spec, AROUND)));
        let mut ports: Vec<_> = begun.collect();
        ports.rotate_left(3 * rank);
        if rank == 1 {
            ports.reverse();
        }
        for (seq, port) in ports {
            let input = inputs[rank].clone();
            tasks.push((seq, tokio::spawn(run_in_place(port, input))));
            turns(3).await;
        }
    }

    for (seq, task) in tasks {
        let ended = in_time(task).await.unwrap();
        assert!(ended.outcome.is_ok(), "{seq}: {:?}", ended.outcome);
        assert!(ended.data == expected(ElementType::I32, ReduceOp::Sum, &inputs));
    }
}

#[test(start_paused = true)]
async fn an_operation_that_waits_for_its_turn_is_stopped_at_once_and_gives_way_when_dropped() {
    let config = PlaneConfig {
        concurrent: 1,
        ..small_frames()
    };
    let mut members = ring_of(2, 1, &config);
    let inputs = inputs(ElementType::U8, 100, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let first = members[0].plane.begin(Seq(1), spec, AROUND);
    let second = members[0].plane.begin(Seq(2), spec, AROUND);
    let second = tokio::spawn(run_in_place(second, inputs[0].clone()));
    let third = members[0].plane.begin(Seq(3), spec, AROUND);
    let third = tokio::spawn(run_in_place(third, inputs[0].clone()));
    let neighbour = members[1].plane.begin(Seq(3), spec, AROUND);
    let neighbour = tokio::spawn(run_in_place(neighbour, inputs[1].clone()));
    turns(100).await;
    assert!(!third.is_finished() && !second.is_finished());

    members[0].plane.stop(Seq(2));
    let second = in_time(second).await.unwrap();
    drop(first);
    let third = in_time(third).await.unwrap();
    let neighbour = in_time(neighbour).await.unwrap();

    assert_eq!(second.outcome, Err(RunFailure::Stopped));
    assert!(third.outcome.is_ok() && neighbour.outcome.is_ok());
    assert_eq!(third.data, neighbour.data);
}

#[test(start_paused = true)]
async fn peers_may_differ_in_how_many_operations_contribute_at_a_time() {
    let member = |concurrent| {
        Member::new(PlaneConfig {
            concurrent,
            ..small_frames()
        })
    };
    let mut members = stand([16, 1, 2].map(member).into(), 1, |lane| lane);
    let inputs = inputs(ElementType::I32, 10_000, 3);
    let spec = spec(ReduceOp::Sum, ElementType::I32, 10_000);

    let mut tasks = Vec::new();
    for (member, input) in members.iter_mut().zip(&inputs) {
        for seq in 1..=6 {
            let port = member.plane.begin(Seq(seq), spec, AROUND);
            tasks.push(tokio::spawn(run_in_place(port, input.clone())));
        }
    }

    for task in tasks {
        let ended = in_time(task).await.unwrap();
        assert!(ended.outcome.is_ok());
        assert!(ended.data == expected(ElementType::I32, ReduceOp::Sum, &inputs));
    }
}

#[test(start_paused = true)]
async fn within_a_machine_operations_of_one_size_end_one_after_the_other() {
    let mut members = local_ring(3, 2);
    let inputs = inputs(ElementType::F32, 30_000, 3);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 30_000);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for (rank, member) in members.iter_mut().enumerate() {
        for seq in 1..=4 {
            let running = run_in_place(
                member.plane.begin(Seq(seq), spec, AROUND),
                inputs[rank].clone(),
            );
            let tell = tell.clone();
            tokio::spawn(async move { tell.send((seq, running.await)) });
        }
    }
    drop(tell);

    let mut order = Vec::new();
    while let Some((seq, ended)) = in_time(told.recv()).await {
        assert!(ended.outcome.is_ok());
        assert!(ended.data == expected(ElementType::F32, ReduceOp::Sum, &inputs));
        order.push(seq);
    }

    assert_eq!(order, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
}

#[test(start_paused = true)]
async fn an_operation_goes_ahead_where_nobody_polls_the_one_that_has_the_share() {
    let mut members = local_ring(2, 1);
    let inputs = inputs(ElementType::F32, 30_000, 2);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 30_000);
    let mut idle = Vec::new();
    let mut tasks = Vec::new();
    for (member, input) in members.iter_mut().zip(&inputs) {
        idle.push(member.plane.begin(Seq(1), spec, AROUND));
        let port = member.plane.begin(Seq(2), spec, AROUND);
        tasks.push(tokio::spawn(run_in_place(port, input.clone())));
    }

    for task in tasks {
        let ended = in_time(task).await.unwrap();
        assert!(ended.outcome.is_ok());
        assert!(ended.data == expected(ElementType::F32, ReduceOp::Sum, &inputs));
    }
    drop(idle);
}
