//! Which edge is reported where one of them carries nothing.

use std::time::Duration;

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::topology::Edge;
use tokio::task::JoinHandle;
use tokio::test;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::DataEvent;
use super::support::{BUILT, Ended, Member, adopt, broke, run_in_place, small_frames, spec};
use crate::progress::Sensor;
use crate::simulated::{Path, lane};

/// As in the default configuration.
const STALL: Duration = Duration::from_secs(10);

/// The edge from rank 0 to rank 1 is this path; the others are short ways.
fn ring(world: usize, path: Path) -> Vec<Member> {
    let mut members: Vec<Member> = (0..world).map(|_| Member::new(small_frames())).collect();
    for rank in 0..world {
        let path = if rank == 0 { path } else { Path::NEAR };
        let (sending, receiving) = lane(path, Path::NEAR);
        let next = (rank + 1) % world;
        members[rank]
            .plane
            .install(Edge::ToNext, BUILT, vec![sending]);
        let receiving = vec![receiving];
        members[next]
            .plane
            .install(Edge::FromPrevious, BUILT, receiving);
    }
    adopt(&mut members, 1, BUILT);
    members
}

fn run_all(members: &mut [Member], bytes: usize) -> Vec<JoinHandle<Ended>> {
    let spec = spec(ReduceOp::Sum, ElementType::U8, bytes);
    let ports = members.iter_mut().map(|m| m.plane.begin(Seq(1), spec));
    let ports: Vec<_> = ports.collect();
    let run = |port| tokio::spawn(run_in_place(port, vec![1; bytes]));
    ports.into_iter().map(run).collect()
}

/// What has been reported, by rank.
fn reports(members: &mut [Member]) -> Vec<Vec<DataEvent>> {
    members.iter_mut().map(Member::reports).collect()
}

#[test(start_paused = true)]
async fn a_small_frame_that_is_lost_is_reported_by_its_sender_before_anybody_starves() {
    let lost = Path {
        carries: 0,
        ..Path::NEAR
    };
    let mut members = ring(4, lost);
    let begun = Instant::now();

    let running = run_all(&mut members, 100);
    sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

    let expected = vec![vec![broke(Edge::ToNext)], vec![], vec![], vec![]];
    assert_eq!(reports(&mut members), expected);
    drop(running);
}

#[test(start_paused = true)]
async fn a_frame_that_does_not_leave_is_reported_by_its_sender_before_anybody_starves() {
    let full = Path {
        carries: 5_000,
        window: 6_000,
        tells: false,
        ..Path::NEAR
    };
    let mut members = ring(4, full);
    let begun = Instant::now();

    let running = run_all(&mut members, 1_000_000);
    sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

    let expected = vec![vec![broke(Edge::ToNext)], vec![], vec![], vec![]];
    assert_eq!(reports(&mut members), expected);
    drop(running);
}

#[test(start_paused = true)]
async fn bytes_of_a_reduce_are_noticed_and_waiting_is_not() {
    let mut members = ring(2, Path::NEAR);
    let progress = members[1].plane.progress().clone();
    let mut sensor = Sensor::new(progress);

    let running = run_all(&mut members, 100);
    for one in running {
        one.await.unwrap().outcome.unwrap();
    }
    let during = sensor.moved_since_last();
    sleep(STALL / 2).await;

    assert!(during && !sensor.moved_since_last());
}

#[test(start_paused = true)]
async fn where_no_sender_knows_who_starves_reports_in_the_end() {
    let lost = Path {
        carries: 0,
        tells: false,
        ..Path::NEAR
    };
    let mut members = ring(2, lost);

    let running = run_all(&mut members, 100);
    sleep(2 * STALL).await;

    assert!(reports(&mut members)[1].contains(&broke(Edge::FromPrevious)));
    assert!(running.iter().all(JoinHandle::is_finished));
}
