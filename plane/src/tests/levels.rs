//! What is missing, and who is reported in two levels if a rank stands still in the middle.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::plan::Algorithm;
use tokio::task::JoinSet;
use tokio::test;
use tokio::time::sleep;

use super::hostile::first;
use super::misfits::rank_of;
use super::reference::inputs;
use super::support::{Member, broke, from, in_time, mesh_of, run_in_place, small_frames, spec, to};
use crate::work::RankWork;
use crate::{LinkBroke, PlaneConfig};

/// Two ranks at the second site and at the third one, the others at the first.
const WORLD: usize = 8;

/// Elements of a buffer, and bytes of a frame: lanes hold all that is sent, all of some frames, or not even one.
const SIZES: [(usize, usize); 3] = [(800, 1000), (20_000, 1000), (8_000, 100_000)];

/// Polls a future so many times. From then on it stands still, and keeps what it has.
async fn frozen_after<F: Future>(polls: usize, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut left = polls;
    let ended = poll_fn(|cx| {
        let Some(rest) = left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        left = rest;
        future.as_mut().poll(cx).map(Some)
    });
    match ended.await {
        Some(output) => output,
        None => pending().await,
    }
}

/// The first that is reported if this rank is frozen after so many polls. `None`: the others need no more of it.
async fn first_reports(
    (kind, algorithm): (CollectiveKind, Algorithm),
    (count, frame_bytes): (usize, usize),
    (frozen, polls): (usize, usize),
) -> Option<Vec<LinkBroke>> {
    let config = PlaneConfig {
        frame_bytes,
        ..small_frames()
    };
    let members = (0..WORLD).map(|_| Member::new(config.clone()));
    let mut members = mesh_of(members.collect(), 1, |lane| lane);
    let inputs = inputs(ElementType::F32, count, WORLD);
    let spec = CollectiveSpec {
        kind,
        ..spec(ReduceOp::Sum, ElementType::F32, count)
    };
    let mut running = JoinSet::new();
    for (rank, (member, input)) in members.iter_mut().zip(inputs).enumerate() {
        let port = member.plane.begin(Seq(1), spec, algorithm);
        let polls = if rank == frozen { polls } else { usize::MAX };
        running.spawn(async move {
            let ended = frozen_after(polls, run_in_place(port, input)).await;
            (rank, ended)
        });
    }
    let mut others = WORLD - 1;
    loop {
        sleep(PlaneConfig::default().stall / 50).await;
        let reports: Vec<LinkBroke> = members.iter_mut().flat_map(Member::reports).collect();
        if !reports.is_empty() {
            return Some(reports);
        }
        while let Some(ended) = running.try_join_next() {
            let (rank, ended) = ended.unwrap();
            assert!(ended.outcome.is_ok());
            others -= usize::from(rank != frozen);
        }
        if others == 0 {
            return None;
        }
    }
}

#[test(start_paused = true)]
async fn whenever_a_rank_stands_still_those_that_wait_for_it_itself_speak_first() {
    let cases = [
        (CollectiveKind::AllReduce, Algorithm::TwoLevel),
        (CollectiveKind::AllReduce, Algorithm::TwoLevelRing),
        (CollectiveKind::AllReduce, Algorithm::TwoLevelWhole),
        (CollectiveKind::ReduceScatter, Algorithm::TwoLevel),
        (CollectiveKind::ReduceScatter, Algorithm::TwoLevelRing),
    ];
    let mut cut_short = 0;
    let cases = cases
        .into_iter()
        .flat_map(|case| SIZES.map(|size| (case, size)));
    for ((case, size), frozen) in cases.flat_map(|case| (0..WORLD).map(move |rank| (case, rank))) {
        for polls in 0.. {
            let reports = in_time(first_reports(case, size, (frozen, polls))).await;
            let Some(reports) = reports else { break };
            let of_frozen = [to(frozen), from(frozen)].map(broke);
            assert!(
                reports.iter().all(|report| of_frozen.contains(report)),
                "{case:?} of {size:?}: rank {frozen} frozen after {polls} polls: {reports:?}"
            );
            cut_short += 1;
        }
    }
    assert!(
        cut_short > 100,
        "hardly any moment was in the middle: {cut_short}"
    );
}

#[test]
async fn a_frame_that_has_begun_to_arrive_is_missing_and_its_sender_has_it() {
    let mut rank = rank_of(2);
    let (work, mut buffers) = rank.parts();
    let missing = |work: &RankWork| work.missing().collect::<Vec<_>>();
    assert_eq!(missing(work), [(Some(0), 1), (Some(1), 1)]);

    let frame = work.announce((1, 0), &first(), &mut buffers).unwrap();
    assert_eq!(missing(work), [(Some(1), 1), (None, 1)]);

    work.accept(frame, &mut buffers).unwrap();
    assert_eq!(missing(work), [(Some(1), 1)]);
}
