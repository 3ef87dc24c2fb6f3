//! Operations side by side, and frames that come before or after their time.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use tokio::test;

use super::reference::{expected, inputs};
use super::support::{AROUND, in_time, ring, run_all, run_in_place, spec, turns};

#[test(start_paused = true)]
async fn operations_share_the_lanes_whatever_the_order_in_which_the_ranks_run_them() {
    let mut members = ring(3, 2);
    let large = inputs(ElementType::F32, 20_000, 3);
    let small = inputs(ElementType::I16, 77, 3);
    let large_spec = spec(ReduceOp::Sum, ElementType::F32, 20_000);
    let small_spec = spec(ReduceOp::Min, ElementType::I16, 77);

    let mut tasks = Vec::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let first = member.plane.begin(Seq(1), large_spec, AROUND);
        let second = member.plane.begin(Seq(2), small_spec, AROUND);
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
    let early = members[0].plane.begin(Seq(9), spec, AROUND);
    let early = tokio::spawn(run_in_place(early, inputs[0].clone()));
    turns(50).await;

    let late = members[1].plane.begin(Seq(9), spec, AROUND);
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
    let given_up = members[0].plane.begin(Seq(1), spec, AROUND);
    members[0].plane.stop(Seq(1));
    let unaware = members[1].plane.begin(Seq(1), spec, AROUND);
    let unaware = tokio::spawn(run_in_place(unaware, inputs[1].clone()));
    turns(50).await;

    let mut tasks = Vec::new();
    for (member, input) in members.iter_mut().zip(&inputs) {
        let port = member.plane.begin(Seq(2), spec, AROUND);
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
async fn frames_of_an_operation_that_never_began_here_do_not_keep_the_lane_once_it_is_over() {
    let mut members = ring(2, 1);
    let inputs = inputs(ElementType::U32, 2000, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U32, 2000);
    let ports = [
        members[0].plane.begin(Seq(5), spec, AROUND),
        members[1].plane.begin(Seq(5), spec, AROUND),
    ];
    let unaware = members[1].plane.begin(Seq(6), spec, AROUND);
    let unaware = tokio::spawn(run_in_place(unaware, inputs[1].clone()));
    turns(50).await;

    let running = tokio::spawn(async move { run_all(ports.into(), &inputs).await });
    turns(50).await;
    let waited = !running.is_finished();
    members[0].plane.stop(Seq(6));
    let ended = in_time(running).await.unwrap();

    assert!(waited);
    assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
    assert!(!unaware.is_finished());
}
