//! Which lanes an operation takes, of those that a link has.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_transport_memory::Meter;
use pccl_transport_memory::throttle::Throttle;
use tokio::test;

use super::reference::{expected, inputs};
use super::support::{
    AROUND, Member, in_time, run_all, run_in_place, small_frames, spec, stand, turns,
};

/// As many elements as make four stripes of the tests' planes.
const COUNT: usize = 16 * 1024;

/// What a throttle lets pass: so little that a reduce takes long enough to be learned from.
const BYTES_PER_SECOND: u64 = 100_000;

const LANES: usize = 4;

/// A ring of two whose lanes are counted, those of rank 0 first.
struct Ring {
    members: Vec<Member>,
    meters: Vec<Arc<Meter>>,
    seq: Seq,
}

impl Ring {
    /// The lanes go by these throttles.
    fn new(throttle: impl Fn() -> Arc<Throttle>) -> Self {
        let members = (0..2).map(|_| Member::new(small_frames())).collect();
        let meters = RefCell::new(Vec::new());
        let members = stand(members, LANES as u16, |lane| {
            let meter = Arc::new(Meter::default());
            let lane = throttle().on(lane);
            let lane = meter.on(lane);
            meters.borrow_mut().push(meter);
            lane
        });
        Self {
            members,
            meters: meters.into_inner(),
            seq: Seq(0),
        }
    }

    /// Reduces once, and returns on how many lanes rank 0 has sent.
    async fn reduce(&mut self) -> usize {
        self.seq = self.seq.next();
        let inputs = inputs(ElementType::F32, COUNT, 2);
        let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
        let before = self.sent();
        let members = self.members.iter_mut();
        let ports = members.map(|member| member.plane.begin(self.seq, spec, AROUND));

        let ended = run_all(ports.collect(), &inputs).await;

        let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
        assert!(ended.iter().all(|ended| ended.data == expected));
        let seq = self.seq;
        self.members.iter_mut().for_each(|m| m.plane.stop(seq));
        let sent = before.iter().zip(self.sent());
        sent.filter(|(before, after)| *before < after).count()
    }

    fn sent(&self) -> Vec<u64> {
        let of_rank_0 = self.meters.iter().take(LANES);
        of_rank_0.map(|meter| meter.sent()).collect()
    }
}

#[test(start_paused = true)]
async fn of_lanes_that_share_a_link_one_is_left() {
    let shared = Arc::new(Throttle::new(BYTES_PER_SECOND));
    let mut ring = Ring::new(|| Arc::clone(&shared));

    let mut taken = Vec::new();
    for _ in 0..20 {
        taken.push(ring.reduce().await);
    }

    assert_eq!(taken.first(), Some(&LANES), "{taken:?}");
    assert_eq!(taken.last(), Some(&1), "{taken:?}");
}

#[test(start_paused = true)]
async fn of_lanes_that_are_limited_one_by_one_all_are_left() {
    let mut ring = Ring::new(|| Arc::new(Throttle::new(BYTES_PER_SECOND)));

    let mut taken = Vec::new();
    for _ in 0..20 {
        taken.push(ring.reduce().await);
    }

    assert_eq!(taken.last(), Some(&LANES), "{taken:?}");
    let fewer = taken.iter().filter(|taken| **taken < LANES).count();
    assert_eq!(fewer, 1, "{taken:?}");
}

#[test(start_paused = true)]
async fn of_reduces_that_are_over_at_once_nothing_is_learned() {
    let shared = Arc::new(Throttle::new(100 * BYTES_PER_SECOND));
    let mut ring = Ring::new(|| Arc::clone(&shared));

    for _ in 0..20 {
        assert_eq!(ring.reduce().await, LANES);
    }
}

#[test(start_paused = true)]
async fn operations_of_some_stripes_that_begin_together_take_lanes_of_their_own() {
    let mut ring = Ring::new(|| Arc::new(Throttle::new(10 * BYTES_PER_SECOND)));
    // Two stripes each, so two lanes.
    let inputs = inputs(ElementType::F32, COUNT / 2, 2);
    let half = spec(ReduceOp::Sum, ElementType::F32, COUNT / 2);
    let mut tasks = Vec::new();
    for (member, input) in ring.members.iter_mut().zip(&inputs) {
        let ports = [Seq(1), Seq(2)].map(|seq| member.plane.begin(seq, half, AROUND));
        let runs = ports.map(|port| tokio::spawn(run_in_place(port, input.clone())));
        tasks.extend(runs);
    }
    tokio::time::advance(Duration::from_millis(20)).await;
    turns(10).await;

    let sent = ring.sent();

    assert!(sent.iter().all(|sent| *sent > 0), "{sent:?}");
    let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
    for task in tasks {
        assert!(in_time(task).await.expect("no panic").data == expected);
    }
}

#[test(start_paused = true)]
async fn a_small_operation_beside_a_large_one_takes_a_lane_that_nobody_has() {
    let mut ring = Ring::new(|| Arc::new(Throttle::new(10 * BYTES_PER_SECOND)));
    // Two stripes, so two lanes.
    let large = inputs(ElementType::F32, COUNT / 2, 2);
    let large_spec = spec(ReduceOp::Sum, ElementType::F32, COUNT / 2);
    let mut tasks = Vec::new();
    for (member, input) in ring.members.iter_mut().zip(&large) {
        let port = member.plane.begin(Seq(1), large_spec, AROUND);
        tasks.push(tokio::spawn(run_in_place(port, input.clone())));
    }
    tokio::time::advance(Duration::from_millis(20)).await;
    turns(10).await;
    let before = ring.sent();
    assert!(before[0] > 0 && before[1] > 0, "{before:?}");
    assert_eq!(before[2..], [0, 0]);

    let small = inputs(ElementType::F32, 50, 2);
    let small_spec = spec(ReduceOp::Sum, ElementType::F32, 50);
    let members = ring.members.iter_mut();
    let ports = members.map(|member| member.plane.begin(Seq(2), small_spec, AROUND));
    let ended = run_all(ports.collect(), &small).await;

    assert!(ended[0].data == expected(ElementType::F32, ReduceOp::Sum, &small));
    assert!(ring.sent()[2] > 0, "{:?}", ring.sent());
    for task in tasks {
        in_time(task).await.unwrap().outcome.unwrap();
    }
}
