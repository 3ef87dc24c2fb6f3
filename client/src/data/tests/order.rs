//! Operations side by side, and frames that come before or after their time.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use tokio::test;

use super::super::{DataConfig, RingFailure};
use super::reference::{expected, inputs};
use super::support::{in_time, ring, ring_of, run_in_place, small_frames, spec, turns};

#[test(start_paused = true)]
async fn operations_share_the_lanes_whatever_the_order_in_which_the_ranks_run_them() {
    let mut members = ring(3, 2);
    let large = inputs(ElementType::F32, 20_000, 3);
    let small = inputs(ElementType::I16, 77, 3);
    let large_spec = spec(ReduceOp::Sum, ElementType::F32, 20_000);
    let small_spec = spec(ReduceOp::Min, ElementType::I16, 77);

    let mut tasks = Vec::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let first = member.plane.begin(Seq(1), large_spec);
        let second = member.plane.begin(Seq(2), small_spec);
        let (large, small) = (large[rank].clone(), small[rank].clone());
        if rank % 2 == 0 {
            let large = tokio::spawn(run_in_place(first, large));
            turns(20).await;
            tasks.push((large, tokio::spawn(run_in_place(second, small))));
        } else {
            let small = tokio::spawn(run_in_place(second, small));
            turns(20).await;
            tasks.push((tokio::spawn(run_in_place(first, large)), small));
        }
    }

    for (first, second) in tasks {
        let (first, second) = (
            in_time(first).await.unwrap(),
            in_time(second).await.unwrap(),
        );
        assert!(first.outcome.is_ok() && second.outcome.is_ok());
        assert!(first.data == expected(ElementType::F32, ReduceOp::Sum, &large));
        assert!(second.data == expected(ElementType::I16, ReduceOp::Min, &small));
    }
}

#[test(start_paused = true)]
async fn frames_of_an_operation_that_is_yet_to_come_wait_for_it() {
    let mut members = ring(2, 1);
    let inputs = inputs(ElementType::U32, 500, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U32, 500);
    let early = members[0].plane.begin(Seq(9), spec);
    let early = tokio::spawn(run_in_place(early, inputs[0].clone()));
    turns(50).await;

    let late = members[1].plane.begin(Seq(9), spec);
    let late = in_time(run_in_place(late, inputs[1].clone())).await;
    let early = in_time(early).await.unwrap();

    let expected = expected(ElementType::U32, ReduceOp::Sum, &inputs);
    assert!(early.outcome.is_ok() && late.outcome.is_ok());
    assert_eq!(early.data, expected);
    assert_eq!(late.data, expected);
}

#[test(start_paused = true)]
async fn frames_of_an_operation_that_is_over_are_thrown_away() {
    let mut members = ring(2, 1);
    let inputs = inputs(ElementType::U32, 2000, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U32, 2000);
    let given_up = members[0].plane.begin(Seq(1), spec);
    members[0].plane.end(Seq(1));
    let unaware = members[1].plane.begin(Seq(1), spec);
    let unaware = tokio::spawn(run_in_place(unaware, inputs[1].clone()));
    turns(50).await;

    let mut tasks = Vec::new();
    for (member, input) in members.iter_mut().zip(&inputs) {
        let port = member.plane.begin(Seq(2), spec);
        tasks.push(tokio::spawn(run_in_place(port, input.clone())));
    }

    for task in tasks {
        let ended = in_time(task).await.unwrap();
        assert!(ended.outcome.is_ok());
        assert_eq!(
            ended.data,
            expected(ElementType::U32, ReduceOp::Sum, &inputs)
        );
    }
    assert!(!unaware.is_finished());
    drop(given_up);
}

#[test(start_paused = true)]
async fn a_small_operation_overtakes_a_large_one_that_holds_all_lanes() {
    let mut members = ring(3, 1);
    let large = inputs(ElementType::F32, 500_000, 3);
    let small = inputs(ElementType::I64, 50, 3);
    let large_spec = spec(ReduceOp::Sum, ElementType::F32, 500_000);
    let small_spec = spec(ReduceOp::Max, ElementType::I64, 50);
    let mut larges = Vec::new();
    for (member, input) in members.iter_mut().zip(&large) {
        let port = member.plane.begin(Seq(1), large_spec);
        larges.push(tokio::spawn(run_in_place(port, input.clone())));
    }
    turns(10).await;

    let mut smalls = Vec::new();
    for (member, input) in members.iter_mut().zip(&small) {
        let port = member.plane.begin(Seq(2), small_spec);
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
    let config = DataConfig {
        concurrent: 2,
        ..small_frames()
    };
    let mut members = ring_of(3, 2, &config);
    let inputs = inputs(ElementType::I32, 30_000, 3);
    let spec = spec(ReduceOp::Sum, ElementType::I32, 30_000);
    let mut tasks = Vec::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let begun = (1..=7).map(|seq| (seq, member.plane.begin(Seq(seq), spec)));
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
    let config = DataConfig {
        concurrent: 1,
        ..small_frames()
    };
    let mut members = ring_of(2, 1, &config);
    let inputs = inputs(ElementType::U8, 100, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let first = members[0].plane.begin(Seq(1), spec);
    let second = members[0].plane.begin(Seq(2), spec);
    let second = tokio::spawn(run_in_place(second, inputs[0].clone()));
    let third = members[0].plane.begin(Seq(3), spec);
    let third = tokio::spawn(run_in_place(third, inputs[0].clone()));
    let neighbour = members[1].plane.begin(Seq(3), spec);
    let neighbour = tokio::spawn(run_in_place(neighbour, inputs[1].clone()));
    turns(100).await;
    assert!(!third.is_finished() && !second.is_finished());

    members[0].plane.stop(Seq(2));
    let second = in_time(second).await.unwrap();
    drop(first);
    let third = in_time(third).await.unwrap();
    let neighbour = in_time(neighbour).await.unwrap();

    assert_eq!(second.outcome, Err(RingFailure::Stopped));
    assert!(third.outcome.is_ok() && neighbour.outcome.is_ok());
    assert_eq!(third.data, neighbour.data);
}
