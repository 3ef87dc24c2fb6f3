//! Operations that do not finish: stopped, given up, or bereft of a neighbour.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::{Round, Seq};
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameHeader};
use tokio::io::AsyncReadExt;
use tokio::test;
use tokio::time::{Instant, advance, sleep};

use super::reference::{expected, inputs};
use super::support::{
    AROUND, Alone, BUILT, Ended, LANE_BYTES, Member, adopt, both, broke, built_in, from, in_time,
    lanes, ranks, raw_lane, ring, run_all, run_in_place, small_frames, spec, to, turns,
};
use crate::{Backup, LanesInUse, LinkBroke, PlaneConfig, RunFailure, UserBuffers, Waits};

const COUNT: usize = 50_000;

/// Goes on with both for some turns; they must not finish.
async fn go_on(
    count: usize,
    one: &mut (impl Future<Output = Ended> + Unpin),
    other: &mut (impl Future<Output = Ended> + Unpin),
) {
    tokio::select! {
        biased;
        _ = one => panic!("finished too early"),
        _ = other => panic!("finished too early"),
        () = turns(count) => {}
    }
}

#[test(start_paused = true)]
async fn an_operation_stopped_at_any_moment_is_undone_and_the_lanes_serve_the_next() {
    let mut members = ring(2, 2);
    let inputs = inputs(ElementType::F32, COUNT, 2);
    let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
    let mut seq = Seq(0);
    let mut written = 0;
    for moment in 1..30 {
        seq = seq.next();
        let one = members[0].plane.begin(seq, spec, AROUND);
        let other = members[1].plane.begin(seq, spec, AROUND);
        let mut one = pin!(run_in_place(one, inputs[0].clone()));
        let mut other = pin!(run_in_place(other, inputs[1].clone()));
        go_on(moment, &mut one, &mut other).await;

        members[0].plane.stop(seq);
        let mut one = in_time(one).await;
        members[1].plane.stop(seq);
        let other = in_time(other).await;

        assert_eq!(one.outcome, Err(RunFailure::Stopped));
        assert_eq!(other.outcome, Err(RunFailure::Stopped));
        written += usize::from(one.data != inputs[0]);
        one.backup.restore(&mut one.data);
        assert!(one.data == inputs[0], "stopped after {moment} turns");

        seq = seq.next();
        let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));
        let ended = run_all(ports.collect(), &inputs).await;
        let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
        assert!(
            ended
                .iter()
                .all(|e| e.outcome.is_ok() && e.data == expected)
        );
    }
    assert!(written > 10, "hardly any moment was in the middle");
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

async fn the_next_operation_uses_the_lane(alone: &mut Alone) {
    let spec = spec(ReduceOp::Sum, ElementType::U8, 10 * LANE_BYTES);
    let port = alone.member.plane.begin(Seq(2), spec, AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 10 * LANE_BYTES]));
    let mut head = [0; FRAME_HEADER_BYTES];
    in_time(alone.to_next.read_exact(&mut head)).await.unwrap();
    assert_eq!(FrameHeader::decode(&head).unwrap().seq, Seq(2));
    running.abort();
}

#[test(start_paused = true)]
async fn a_frame_that_has_begun_to_leave_is_finished_after_the_stop() {
    let mut alone = Alone::new(PlaneConfig {
        ..PlaneConfig::default()
    });
    let spec = spec(ReduceOp::Sum, ElementType::U8, 10 * LANE_BYTES);
    let port = alone.member.plane.begin(Seq(1), spec, AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 10 * LANE_BYTES]));
    let mut half = vec![0; 2 * LANE_BYTES];
    alone.to_next.read_exact(&mut half).await.unwrap();

    alone.member.plane.stop(Seq(1));
    let ended = in_time(running).await.unwrap();
    let mut rest = vec![0; FRAME_HEADER_BYTES + 5 * LANE_BYTES - half.len()];
    in_time(alone.to_next.read_exact(&mut rest)).await.unwrap();

    assert_eq!(ended.outcome, Err(RunFailure::Stopped));
    assert!(rest.iter().all(|byte| *byte == 1));
    the_next_operation_uses_the_lane(&mut alone).await;
}

#[test(start_paused = true)]
async fn an_operation_that_waits_is_stopped_at_once() {
    let mut members = ring(2, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    for seq in [Seq(1), Seq(2)] {
        let port = members[0].plane.begin(seq, spec, AROUND);
        let waiting = tokio::spawn(run_in_place(port, vec![1; 100]));
        turns(100).await;
        let begun = Instant::now();

        members[0].plane.stop(seq);

        let ended = in_time(waiting).await.unwrap();
        assert_eq!(ended.outcome, Err(RunFailure::Stopped));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

#[test(start_paused = true)]
async fn an_operation_stopped_before_it_runs_does_not_run() {
    let mut members = ring(1, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let port = members[0].plane.begin(Seq(1), spec, AROUND);

    members[0].plane.stop(Seq(1));
    let ended = in_time(run_in_place(port, vec![1; 100])).await;

    assert_eq!(ended.outcome, Err(RunFailure::Stopped));
}

#[test(start_paused = true)]
async fn a_run_given_up_by_its_caller_leaves_the_lanes_to_others() {
    let mut members = ring(2, 1);
    let inputs = inputs(ElementType::F32, COUNT, 2);
    let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
    let one = members[0].plane.begin(Seq(1), spec, AROUND);
    let other = members[1].plane.begin(Seq(1), spec, AROUND);
    {
        let mut one = pin!(run_in_place(one, inputs[0].clone()));
        let mut other = pin!(run_in_place(other, inputs[1].clone()));
        go_on(10, &mut one, &mut other).await;
    }

    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(2), spec, AROUND));
    let ended = run_all(ports.collect(), &inputs).await;

    let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
    assert!(
        ended
            .iter()
            .all(|e| e.outcome.is_ok() && e.data == expected)
    );
}

#[test(start_paused = true)]
async fn a_rank_lost_in_the_middle_is_reported_by_both_neighbours() {
    let mut members = ring(3, 2);
    let inputs = inputs(ElementType::F32, 10 * COUNT, 3);
    let spec = spec(ReduceOp::Sum, ElementType::F32, 10 * COUNT);
    let mut ports: Vec<_> = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND))
        .collect();
    let lost_port = ports.pop().unwrap();
    let lost = tokio::spawn(run_in_place(lost_port, inputs[2].clone()));
    let survivors: Vec<_> = ports
        .into_iter()
        .zip(inputs.clone())
        .map(|(port, data)| tokio::spawn(run_in_place(port, data)))
        .collect();
    turns(10).await;

    let lost_member = members.pop().unwrap();
    drop(lost_member);

    assert_eq!(
        in_time(lost).await.unwrap().outcome,
        Err(RunFailure::Stopped)
    );
    for (survivor, input) in survivors.into_iter().zip(&inputs) {
        let mut ended = in_time(survivor).await.unwrap();
        assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
        ended.backup.restore(&mut ended.data);
        assert!(ended.data == *input);
    }
    assert!(members[0].reports().contains(&broke(from(2))));
    assert!(members[1].reports().contains(&broke(to(2))));
}

#[test(start_paused = true)]
async fn a_broken_link_is_reported_while_nothing_runs() {
    let mut members = ring(2, 3);
    turns(10).await;

    let gone = members.pop();
    drop(gone);

    let reports = [
        in_time(members[0].events.recv()).await,
        in_time(members[0].events.recv()).await,
    ];
    assert!(reports.contains(&Some(broke(to(1)))));
    assert!(reports.contains(&Some(broke(from(1)))));
    turns(100).await;
    assert_eq!(members[0].reports(), [], "a link was reported twice");
}

#[test(start_paused = true)]
async fn an_operation_over_a_broken_link_fails_at_once() {
    let mut members = ring(2, 1);
    drop(members.pop());
    turns(100).await;
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let begun = Instant::now();

    let port = members[0].plane.begin(Seq(1), spec, AROUND);
    let ended = in_time(run_in_place(port, vec![0; 100])).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[test(start_paused = true)]
async fn a_silent_neighbour_is_given_up_after_the_stall_time() {
    let mut members = ring(2, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let begun = Instant::now();

    let port = members[0].plane.begin(Seq(1), spec, AROUND);
    let mut ended = in_time(run_in_place(port, vec![1; 100])).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert!(begun.elapsed() >= PlaneConfig::default().stall);
    assert_eq!(members[0].reports(), [broke(from(1))]);
    ended.backup.restore(&mut ended.data);
    assert_eq!(ended.data, [1; 100]);
}

#[test(start_paused = true)]
async fn a_neighbour_that_does_not_read_is_given_up_after_the_stall_time() {
    let mut members = ring(2, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100_000);
    let begun = Instant::now();

    let port = members[0].plane.begin(Seq(1), spec, AROUND);
    let ended = in_time(run_in_place(port, vec![1; 100_000])).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    // Sooner than one that sends nothing.
    assert!(2 * begun.elapsed() < 3 * PlaneConfig::default().stall);
    assert!(members[0].reports().contains(&broke(to(1))));
}

#[test(start_paused = true)]
async fn a_lane_that_takes_nothing_is_reported_though_its_operation_was_stopped() {
    let mut members = ring(2, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100_000);
    let port = members[0].plane.begin(Seq(1), spec, AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 100_000]));
    turns(100).await;

    members[0].plane.stop(Seq(1));
    let report = in_time(members[0].events.recv()).await;

    assert_eq!(report, Some(broke(to(1))));
    assert_eq!(
        in_time(running).await.unwrap().outcome,
        Err(RunFailure::Stopped)
    );
}

/// Of two processes on a machine that stood still, this one runs first, and finds its frame where it was.
#[test(start_paused = true)]
async fn a_lane_serves_on_after_a_time_in_which_everything_stood_still() {
    let mut alone = Alone::new(PlaneConfig::default());
    let spec = spec(ReduceOp::Sum, ElementType::U8, 10 * LANE_BYTES);
    let port = alone.member.plane.begin(Seq(1), spec, AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 10 * LANE_BYTES]));
    turns(100).await;
    alone.member.plane.stop(Seq(1));
    turns(100).await;

    advance(10 * PlaneConfig::default().stall).await;
    turns(100).await;
    assert_eq!(alone.member.reports(), []);

    let outcome = in_time(running).await.unwrap().outcome;
    assert_eq!(outcome, Err(RunFailure::Stopped));
    let mut frame = vec![0; FRAME_HEADER_BYTES + 5 * LANE_BYTES];
    in_time(alone.to_next.read_exact(&mut frame)).await.unwrap();
    the_next_operation_uses_the_lane(&mut alone).await;
}

/// While nobody hears that an operation has begun, nobody is given up for not taking part in it.
#[test(start_paused = true)]
async fn a_silent_neighbour_is_waited_for_while_stalls_are_excused() {
    let stall = PlaneConfig::default().stall;
    let look = stall / 4;
    // One that begins and ends between two looks counts as well.
    for (bytes, excused) in [
        (100, 10 * stall),
        (100_000, 10 * stall),
        (100_000, look / 2),
    ] {
        let mut members = ring(2, 1);
        let spec = spec(ReduceOp::Sum, ElementType::U8, bytes);
        let port = members[0].plane.begin(Seq(1), spec, AROUND);
        let running = tokio::spawn(run_in_place(port, vec![1; bytes]));
        sleep(stall - look * 3 / 4).await;

        members[0].plane.excuse_stalls(true);
        sleep(excused).await;
        assert!(!running.is_finished(), "{bytes} bytes, {excused:?}");
        assert_eq!(members[0].reports(), []);

        members[0].plane.excuse_stalls(false);
        let returned = Instant::now();
        let ended = in_time(running).await.unwrap();
        assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
        assert!(returned.elapsed() >= stall, "{:?}", returned.elapsed());
    }
}

/// Others may not have been told to run it.
#[test(start_paused = true)]
async fn a_silent_neighbour_is_waited_for_by_an_operation_that_is_ahead_until_it_is_confirmed() {
    let stall = PlaneConfig::default().stall;
    for bytes in [100, 100_000] {
        let mut members = ring(2, 1);
        let spec = spec(ReduceOp::Sum, ElementType::U8, bytes);
        let mut port = members[0].plane.begin(Seq(1), spec, AROUND).ahead();
        let running = tokio::spawn(async move {
            let (mut data, mut backup) = (vec![1; bytes], Backup::default());
            let buffers = UserBuffers::InPlace {
                data: &mut data,
                backup: &mut backup,
            };
            let told = AtomicUsize::new(0);
            let tell = |_: &Waits| {
                told.fetch_add(1, Ordering::Relaxed);
            };
            let outcome = port.run_telling(buffers, &tell).await;
            (outcome, told.into_inner(), Instant::now())
        });

        sleep(10 * stall).await;
        assert!(!running.is_finished());
        assert_eq!(members[0].reports(), []);

        let confirmed = Instant::now();
        members[0].plane.confirm(Seq(1));
        let (outcome, told, ended) = in_time(running).await.unwrap();
        assert_eq!(outcome, Err(RunFailure::LaneLost));
        let waited = ended - confirmed;
        assert!((stall..3 * stall).contains(&waited), "{waited:?}");
        // Several times a second, and only since then.
        assert!(
            (1..=4 * waited.as_secs() as usize).contains(&told),
            "{told}"
        );
    }
}

#[test(start_paused = true)]
async fn rebuilt_links_take_the_place_of_broken_ones() {
    let mut members = ring(2, 1);
    let inputs = inputs(ElementType::F32, COUNT, 2);
    let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
    let newcomer = Member::new(small_frames());
    members[1] = newcomer;
    turns(100).await;
    members[0].reports();

    for (sender, receiver) in [(0, 1), (1, 0)] {
        let (sending, receiving) = lanes(2);
        let (sends, receives) = (to(receiver), from(sender));
        members[sender].plane.install(sends, Round(2), sending);
        members[receiver]
            .plane
            .install(receives, Round(2), receiving);
    }
    adopt(&mut members, 2, Round(2));
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));
    let ended = run_all(ports.collect(), &inputs).await;

    let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
    assert!(
        ended
            .iter()
            .all(|e| e.outcome.is_ok() && e.data == expected)
    );
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

#[test(start_paused = true)]
async fn a_link_taken_out_of_use_fails_who_still_needs_it_and_is_not_reported() {
    let mut members = ring(2, 1);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let port = members[0].plane.begin(Seq(1), spec, AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 100]));
    turns(10).await;
    let begun = Instant::now();

    members[0].plane.adopt(ranks(0, 1, 1), &[]);
    let ended = in_time(running).await.unwrap();

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(members[0].reports(), []);
}

#[test(start_paused = true)]
async fn abandoned_lanes_are_dropped_and_the_standing_ones_stay() {
    let mut members = ring(2, 1);
    let (lane, mut other_end) = raw_lane();
    members[0].plane.install(to(1), Round(2), vec![lane]);

    members[0].plane.abandon();

    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut other_end, &mut byte).await;
    assert_eq!(read.unwrap(), 0, "the lane is still open");
    let kept = both(0, 2, LanesInUse::Standing);
    members[0].plane.adopt(ranks(0, 2, 1), &kept);
    let inputs = inputs(ElementType::U8, 100, 2);
    let spec = spec(ReduceOp::Sum, ElementType::U8, 100);
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));
    let ended = run_all(ports.collect(), &inputs).await;
    assert!(ended.iter().all(|e| e.outcome.is_ok()));
}

#[test(start_paused = true)]
async fn the_wrong_direction_of_a_link_must_stay_silent() {
    let mut member = Member::new(PlaneConfig::default());
    let (to_next, mut next) = raw_lane();
    let (from_previous, _previous) = raw_lane();
    member.plane.install(to(1), BUILT, vec![to_next]);
    member.plane.install(from(1), BUILT, vec![from_previous]);
    member.plane.adopt(ranks(0, 2, 1), &built_in(0, 2, BUILT));

    tokio::io::AsyncWriteExt::write_all(&mut next, &[1])
        .await
        .unwrap();

    let report: Option<LinkBroke> = in_time(member.events.recv()).await;
    assert_eq!(report, Some(broke(to(1))));
}
