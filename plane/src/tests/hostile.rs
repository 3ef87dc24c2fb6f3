//! A previous rank that sends what it should not: the operation fails, the edge is reported, nothing
//! is written that was not asked for, and nothing panics.

use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::Algorithm;
use pccl_core::wire::{DATA_FRAME_MAX, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, FrameHeader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::test;
use tokio::time::Instant;

use super::kinds::{GATHER, SCATTER};
use super::support::{
    AROUND, Alone, Ended, broke, from, in_time, run_in_place, small_frames, spec, turns,
};
use crate::RunFailure;

/// Elements of two bytes; a ring of two cuts them into 0..50 and 50..100.
pub(super) const COUNT: usize = 100;

/// Runs operation 1 on what was sent.
async fn run(alone: &mut Alone, spec: CollectiveSpec) -> Ended {
    let port = alone.member.plane.begin(Seq(1), spec, AROUND);
    in_time(run_in_place(port, vec![1; 2 * COUNT])).await
}

fn sum() -> CollectiveSpec {
    spec(ReduceOp::Sum, ElementType::U16, COUNT)
}

/// What rank 1 has to send first: its part of the half that rank 0 finishes.
pub(super) fn first() -> FrameHeader {
    FrameHeader {
        seq: Seq(1),
        offset: 0,
        length: COUNT as u32,
        step: 0,
        stripe: 0,
        flags: 0,
        sum: None,
    }
}

/// What it has to send second: the other half, finished.
pub(super) fn second() -> FrameHeader {
    FrameHeader {
        offset: COUNT as u64,
        step: 1,
        ..first()
    }
}

#[test(start_paused = true)]
async fn the_frames_that_are_expected_lead_to_the_result() {
    let mut alone = Alone::new(small_frames());
    alone.send(first(), &[2; COUNT]).await;
    alone.send(second(), &[9; COUNT]).await;

    let ended = run(&mut alone, sum()).await;

    assert!(ended.outcome.is_ok());
    assert_eq!(ended.data[..COUNT], [3; COUNT]);
    assert_eq!(ended.data[COUNT..], [9; COUNT]);
    const HEAD: usize = FRAME_HEADER_BYTES;
    let mut sent = vec![0; 2 * (HEAD + COUNT)];
    alone.to_next.read_exact(&mut sent).await.unwrap();
    assert_eq!(
        sent[HEAD..HEAD + COUNT],
        [1; COUNT],
        "the half that rank 1 finishes"
    );
    assert_eq!(
        sent[2 * HEAD + COUNT..],
        [3; COUNT],
        "its own half, finished"
    );
}

#[test(start_paused = true)]
async fn a_frame_that_does_not_fit_the_plan_fails_the_operation_and_is_not_written() {
    let misfits = [
        (
            "offset before",
            FrameHeader {
                offset: COUNT as u64 - 2,
                ..second()
            },
        ),
        (
            "offset behind",
            FrameHeader {
                offset: 2,
                ..first()
            },
        ),
        (
            "offset outside",
            FrameHeader {
                offset: u64::MAX,
                ..first()
            },
        ),
        (
            "too long",
            FrameHeader {
                length: 102,
                ..second()
            },
        ),
        (
            "into the next chunk",
            FrameHeader {
                length: 102,
                ..first()
            },
        ),
        (
            "half an element to be stored",
            FrameHeader {
                length: 65,
                ..second()
            },
        ),
        (
            "half an element",
            FrameHeader {
                length: 65,
                ..first()
            },
        ),
        (
            "one of many that are short",
            FrameHeader {
                length: 62,
                ..first()
            },
        ),
        (
            "empty",
            FrameHeader {
                length: 0,
                ..first()
            },
        ),
        ("later step", FrameHeader { step: 1, ..first() }),
        ("no such step", FrameHeader { step: 2, ..first() }),
        (
            "the last number of a step",
            FrameHeader {
                step: u32::MAX,
                ..first()
            },
        ),
        (
            "another stripe",
            FrameHeader {
                stripe: 1,
                ..first()
            },
        ),
    ];
    for (what, header) in misfits {
        let mut alone = Alone::new(small_frames());
        alone.send(header, &vec![2; header.length as usize]).await;

        let ended = run(&mut alone, sum()).await;

        assert_eq!(ended.outcome, Err(RunFailure::LaneLost), "{what}");
        assert_eq!(ended.data, [1; 2 * COUNT], "{what}");
        assert_eq!(alone.member.reports(), [broke(from(1))], "{what}");
    }
}

/// A rank keeps some frames of a lane in memory: each longer than agreed would take more.
#[test(start_paused = true)]
async fn a_frame_longer_than_frames_are_fails_the_operation_before_it_arrives() {
    let half = 2 * FRAME_PAYLOAD_MAX;
    let header = FrameHeader {
        offset: 0,
        length: FRAME_PAYLOAD_MAX as u32 + 2,
        ..first()
    };
    let mut alone = Alone::new(small_frames());
    let sum = spec(ReduceOp::Sum, ElementType::U16, half);
    let port = alone.member.plane.begin(Seq(1), sum, AROUND);
    alone.send(header, &[]).await;

    let ended = in_time(run_in_place(port, vec![1; 2 * half])).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert_eq!(alone.member.reports(), [broke(from(1))]);
}

#[test(start_paused = true)]
async fn a_frame_sent_twice_fails_the_operation() {
    let mut alone = Alone::new(small_frames());
    alone.send(first(), &[2; COUNT]).await;
    alone.send(first(), &[2; COUNT]).await;

    let mut ended = run(&mut alone, sum()).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    ended.backup.restore(&mut ended.data);
    assert_eq!(ended.data, [1; 2 * COUNT]);
}

#[test(start_paused = true)]
async fn a_header_that_cannot_be_understood_ends_the_lane() {
    let too_long = FrameHeader {
        length: DATA_FRAME_MAX as u32 + 1,
        ..first()
    };
    let unknown_flags = FrameHeader {
        flags: 4,
        ..first()
    };
    for header in [
        [0xFF; FRAME_HEADER_BYTES],
        too_long.encode(),
        unknown_flags.encode(),
    ] {
        let mut alone = Alone::new(small_frames());
        alone.from_previous.write_all(&header).await.unwrap();

        let ended = run(&mut alone, sum()).await;

        assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
        assert_eq!(alone.member.reports(), [broke(from(1))]);
    }
}

#[test(start_paused = true)]
async fn a_frame_of_an_operation_that_never_comes_ends_as_a_stall() {
    let mut alone = Alone::new(small_frames());
    let never = FrameHeader {
        seq: Seq(u64::MAX),
        ..first()
    };
    alone.send(never, &[2; COUNT]).await;

    let ended = run(&mut alone, sum()).await;

    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert_eq!(alone.member.reports(), [broke(from(1))]);
}

#[test(start_paused = true)]
async fn a_lane_that_ends_in_the_middle_of_a_frame_fails_the_operation() {
    const HEAD: usize = FRAME_HEADER_BYTES;
    for sent in [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + COUNT - 1] {
        let mut alone = Alone::new(small_frames());
        let mut frame = first().encode().to_vec();
        frame.extend([2; COUNT]);
        alone.from_previous.write_all(&frame[..sent]).await.unwrap();
        alone.from_previous.shutdown().await.unwrap();

        let begun = Instant::now();

        let ended = run(&mut alone, sum()).await;

        assert_eq!(
            ended.outcome,
            Err(RunFailure::LaneLost),
            "after {sent} bytes"
        );
        assert_eq!(begun.elapsed(), Duration::ZERO, "it waited for a stall");
        assert_eq!(ended.data, [1; 2 * COUNT]);
        assert_eq!(alone.member.reports(), [broke(from(1))]);
    }
}

#[test(start_paused = true)]
async fn a_lane_that_ended_before_the_operation_began_fails_it_at_once() {
    let mut alone = Alone::new(small_frames());
    alone.from_previous.shutdown().await.unwrap();
    let report = in_time(alone.member.events.recv()).await;
    turns(100).await;
    let begun = Instant::now();

    let ended = run(&mut alone, sum()).await;

    assert_eq!(report, Some(broke(from(1))));
    assert_eq!(ended.outcome, Err(RunFailure::LaneLost));
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waited for a stall");
}

#[test(start_paused = true)]
async fn a_lane_that_ends_after_its_last_frame_fails_nobody() {
    let mut alone = Alone::new(small_frames());
    alone.send(first(), &[2; COUNT]).await;
    alone.send(second(), &[9; COUNT]).await;
    alone.from_previous.shutdown().await.unwrap();

    let ended = run(&mut alone, sum()).await;

    assert!(ended.outcome.is_ok());
}

#[test(start_paused = true)]
async fn late_frames_of_an_operation_that_is_over_do_not_disturb_the_next() {
    let mut alone = Alone::new(small_frames());
    let over = alone.member.plane.begin(Seq(0), sum(), AROUND);
    alone.member.plane.stop(Seq(0));
    drop(over);
    for _ in 0..10 {
        let late = FrameHeader {
            seq: Seq(0),
            ..first()
        };
        alone.send(late, &[7; COUNT]).await;
    }
    turns(10).await;
    alone.send(first(), &[2; COUNT]).await;
    alone.send(second(), &[9; COUNT]).await;

    let ended = run(&mut alone, sum()).await;

    assert!(ended.outcome.is_ok());
    assert_eq!(ended.data[..COUNT], [3; COUNT]);
}

#[test(start_paused = true)]
async fn late_frames_of_an_operation_that_is_over_are_not_taken_by_one_that_runs() {
    let mut alone = Alone::new(small_frames());
    let over = alone.member.plane.begin(Seq(0), sum(), AROUND);
    alone.member.plane.stop(Seq(0));
    drop(over);
    let port = alone.member.plane.begin(Seq(1), sum(), AROUND);
    let running = tokio::spawn(run_in_place(port, vec![1; 2 * COUNT]));
    turns(100).await;

    let late = FrameHeader {
        seq: Seq(0),
        ..first()
    };
    alone.send(late, &[7; COUNT]).await;
    turns(100).await;
    alone.send(first(), &[2; COUNT]).await;
    alone.send(second(), &[9; COUNT]).await;

    let ended = in_time(running).await.unwrap();
    assert!(ended.outcome.is_ok());
    assert_eq!(ended.data[..COUNT], [3; COUNT]);
}

#[test(start_paused = true)]
async fn buffers_of_another_length_than_the_spec_says_are_refused() {
    let mut alone = Alone::new(small_frames());

    let longer = spec(ReduceOp::Sum, ElementType::U16, COUNT + 1);
    let ended = run(&mut alone, longer).await;

    assert!(matches!(ended.outcome, Err(RunFailure::Defect(_))));
    assert_eq!(alone.member.reports(), []);
}

fn of_kind(kind: CollectiveKind) -> CollectiveSpec {
    CollectiveSpec { kind, ..sum() }
}

/// What comes from the other one of two: the whole buffer of the root, or the half of the other rank.
fn expected_of(kind: CollectiveKind) -> FrameHeader {
    match kind {
        CollectiveKind::Broadcast { .. } => FrameHeader {
            length: 2 * COUNT as u32,
            ..first()
        },
        CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. } => FrameHeader {
            offset: COUNT as u64,
            ..first()
        },
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Barrier => {
            first()
        }
    }
}

async fn run_kind(alone: &mut Alone, kind: CollectiveKind) -> Ended {
    let spec = of_kind(kind);
    let algorithm = match kind {
        CollectiveKind::Broadcast { .. } => Algorithm::Chain,
        _ => AROUND,
    };
    let port = alone.member.plane.begin(Seq(1), spec, algorithm);
    in_time(run_in_place(port, vec![1; 2 * COUNT])).await
}

const ROOT_IS_THE_OTHER: CollectiveKind = CollectiveKind::Broadcast { root: PeerId(1) };

#[test(start_paused = true)]
async fn of_each_other_kind_one_frame_leads_to_the_result() {
    let results = [
        (SCATTER, [[3; COUNT], [1; COUNT]].concat()),
        (GATHER, [[1; COUNT], [2; COUNT]].concat()),
        (ROOT_IS_THE_OTHER, vec![2; 2 * COUNT]),
    ];
    for (kind, result) in results {
        let mut alone = Alone::new(small_frames());
        let header = expected_of(kind);
        alone.send(header, &vec![2; header.length as usize]).await;

        let ended = run_kind(&mut alone, kind).await;

        assert!(ended.outcome.is_ok(), "{kind}");
        assert_eq!(ended.data, result, "{kind}");
    }
}

#[test(start_paused = true)]
async fn a_frame_that_does_not_fit_another_kind_fails_it_and_is_not_written() {
    for kind in [SCATTER, GATHER, ROOT_IS_THE_OTHER] {
        let sound = expected_of(kind);
        let misfits = [
            FrameHeader { step: 1, ..sound },
            FrameHeader {
                step: u32::MAX,
                ..sound
            },
            FrameHeader { stripe: 1, ..sound },
            FrameHeader {
                stripe: u16::MAX,
                ..sound
            },
            FrameHeader {
                offset: sound.offset + 2,
                ..sound
            },
            FrameHeader {
                offset: COUNT as u64 - sound.offset,
                length: COUNT as u32 + 2,
                ..sound
            },
            FrameHeader {
                offset: u64::MAX,
                ..sound
            },
            FrameHeader {
                offset: u64::MAX - 1,
                length: 2,
                ..sound
            },
            FrameHeader {
                length: sound.length + 2,
                ..sound
            },
            FrameHeader {
                length: sound.length - 1,
                ..sound
            },
            FrameHeader { length: 0, ..sound },
        ];
        for header in misfits {
            let mut alone = Alone::new(small_frames());
            alone.send(header, &vec![2; header.length as usize]).await;

            let ended = run_kind(&mut alone, kind).await;

            assert_eq!(
                ended.outcome,
                Err(RunFailure::LaneLost),
                "{kind} {header:?}"
            );
            assert_eq!(ended.data, [1; 2 * COUNT], "{kind} {header:?}");
            assert_eq!(alone.member.reports(), [broke(from(1))]);
        }
    }
}

/// Nobody has anything for it: whatever comes is thrown away, or held against its sender.
#[test(start_paused = true)]
async fn a_root_takes_nothing_from_anybody() {
    let root = CollectiveKind::Broadcast { root: PeerId(0) };
    for header in [expected_of(root), first(), second()] {
        let mut alone = Alone::new(small_frames());
        alone.send(header, &vec![2; header.length as usize]).await;
        turns(100).await;

        let ended = run_kind(&mut alone, root).await;

        let reports = alone.member.reports();
        assert_eq!(ended.data, [1; 2 * COUNT]);
        match ended.outcome {
            Ok(_) => assert_eq!(reports, []),
            Err(failure) => {
                assert_eq!(failure, RunFailure::LaneLost);
                assert_eq!(reports, [broke(from(1))]);
            }
        }
    }
}

#[test(start_paused = true)]
async fn lengths_that_no_memory_holds_are_a_defect_of_the_caller_and_nothing_is_computed() {
    let root = CollectiveKind::Broadcast { root: PeerId(0) };
    let barrier = CollectiveKind::Barrier;
    for kind in [SCATTER, GATHER, root, ROOT_IS_THE_OTHER, barrier] {
        for count in [u64::MAX, u64::MAX / 2 + 1, 1 << 62] {
            let mut alone = Alone::new(small_frames());
            let spec = CollectiveSpec {
                count,
                ..of_kind(kind)
            };
            let algorithm = match kind {
                CollectiveKind::Broadcast { .. } => Algorithm::Chain,
                _ => AROUND,
            };
            let port = alone.member.plane.begin(Seq(1), spec, algorithm);

            let ended = in_time(run_in_place(port, vec![1; 2 * COUNT])).await;

            assert!(
                matches!(ended.outcome, Err(RunFailure::Defect(_))),
                "{kind}"
            );
            assert_eq!(ended.data, [1; 2 * COUNT]);
        }
    }
}
