//! Long messages, fast and slow, and how many there are at once.

use pccl_core::id::Revision;
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::transport::{LaneTx, send_all};
use pccl_core::wire::{DecodeError, encode_control};
use pccl_transport_memory::{Meter, Path, pair};
use tokio::time::{Instant, advance, sleep};

use super::*;

/// What the test sends by, and a lane that brings it, however much it is.
type Scripted = (Box<dyn LaneTx>, Box<dyn LaneRx>);

fn scripted() -> Scripted {
    let (lane, _) = metered();
    lane
}

/// The same, and what counts how much was taken.
fn metered() -> (Scripted, Arc<Meter>) {
    let endless = Path {
        window: usize::MAX,
        ..Path::DIRECT
    };
    let (test, master) = pair(endless, endless);
    let meter = Arc::new(Meter::default());
    ((test.tx, meter.on(master).rx), meter)
}

async fn send(tx: &mut dyn LaneTx, bytes: &[u8]) {
    send_all(tx, bytes, &[]).await.unwrap();
}

const fn no_limit() -> usize {
    CONTROL_FRAME_MAX
}

/// A message of more than so many bytes, and its frame.
fn long(bytes: usize) -> (ToMaster, Vec<u8>) {
    let entry = |number: usize| EntryInfo {
        name: format!("{number:0200}"),
        element: pccl_core::element::ElementType::F32,
        count: 1,
        hash: pccl_core::id::ContentHash(u128::MAX),
        allow_content_inequality: false,
    };
    let message = ToMaster::SyncSharedState(SyncVote {
        entries: (0..bytes.div_ceil(200)).map(entry).collect(),
        revision: Revision(1),
        strategy: SyncStrategy::EnforcePopular,
        restart: false,
    });
    let mut frame = Vec::new();
    encode_control(&message, &mut frame).unwrap();
    assert!(frame.len() > bytes);
    (message, frame)
}

#[test]
fn heads_and_bodies_are_told_apart_wherever_the_stream_is_cut() {
    let bodies = [0, 1, 5, 0, 300, 7];
    let stream: Vec<u8> = bodies
        .iter()
        .flat_map(|length: &u32| {
            let body = vec![0xee; *length as usize];
            [&ControlHead::of_message(&body).unwrap().encode()[..], &body].concat()
        })
        .collect();
    for piece in 1..50 {
        let mut frames = Frames::default();
        let mut fed = 0;
        for bytes in stream.chunks(piece) {
            frames.follow(bytes);
            fed += bytes.len();
            assert_eq!(frames.under_way(), body_at(&bodies, fed), "{piece} {fed}");
        }
    }
}

/// The body in which the stream is after so many bytes.
fn body_at(bodies: &[u32], at: usize) -> usize {
    let mut begin = 0;
    for body in bodies {
        let (first, end) = (
            begin + CONTROL_HEAD_BYTES,
            begin + CONTROL_HEAD_BYTES + *body as usize,
        );
        if (first..end).contains(&at) {
            return *body as usize;
        }
        begin = end;
    }
    0
}

#[tokio::test(start_paused = true)]
async fn messages_of_every_length_arrive_and_give_their_share_back_once_dealt_with() {
    let budget = Budget::of(0);
    let (mut sender, mut lane) = scripted();
    let mut intake = Intake::new(&budget);
    let pulse = Pulse::new();
    let (message, frame) = long(1_000_000);
    let mut short = Vec::new();
    encode_control(&ToMaster::Heartbeat { moved: false }, &mut short).unwrap();
    let all = [&short[..], &frame, &short, &frame, &short].concat();
    send(&mut *sender, &all).await;

    let mut shares = Vec::new();
    for expected in [false, true, false, true, false] {
        let (received, share) = intake.receive(&mut *lane, &pulse, no_limit).await.unwrap();
        let of_long = if expected {
            message.clone()
        } else {
            ToMaster::Heartbeat { moved: false }
        };
        assert_eq!(received, of_long);
        assert_eq!(share.is_some(), expected);
        shares.extend(share);
    }

    let held: usize = shares.iter().map(|share| share.num_permits()).sum();
    assert_eq!(held, 2 * (frame.len() - CONTROL_HEAD_BYTES));
    assert_eq!(budget.0.available_permits(), CONTROL_FRAME_MAX - held);
    drop(shares);
    assert_eq!(budget.0.available_permits(), CONTROL_FRAME_MAX);
}

#[tokio::test(start_paused = true)]
async fn long_messages_that_dawdle_pin_no_more_than_the_budget() {
    let budget = Budget::of(CONTROL_FRAME_MAX);
    let (_, frame) = long(3 * CONTROL_FRAME_MAX / 4);
    let mut taken = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..40 {
        let ((mut sender, mut lane), meter) = metered();
        // All but the last byte.
        send(&mut *sender, &frame[..frame.len() - 1]).await;
        senders.push(sender);
        taken.push(meter);
        let mut intake = Intake::new(&budget);
        tokio::spawn(async move {
            let pulse = Pulse::new();
            intake.receive(&mut *lane, &pulse, no_limit).await.ok();
        });
    }
    sleep(Duration::from_millis(1)).await;

    let long = || {
        let taken = taken.iter().map(|meter| meter.received());
        taken.filter(|bytes| *bytes > READ_BYTES as u64).count()
    };
    assert_eq!(long(), 1);
    // Who dawdles loses its share, so that the next one comes to it.
    sleep(PACE_TIME).await;
    assert_eq!(long(), 2);
    drop(senders);
}

/// Receives a long message of which so many bytes come in each second.
async fn trickle(bytes_per_second: usize) -> Result<(), ControlError> {
    let (mut sender, mut lane) = scripted();
    let (_, frame) = long(1_000_000);
    tokio::spawn(async move {
        for piece in frame.chunks(bytes_per_second) {
            send_all(&mut *sender, piece, &[]).await.ok();
            sleep(Duration::from_secs(1)).await;
        }
    });
    let mut intake = Intake::new(&Budget::of(0));
    let received = intake.receive(&mut *lane, &Pulse::new(), no_limit).await;
    received.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_long_message_may_be_slow_but_not_slower_than_its_pace() {
    assert_eq!(trickle(PACE_BYTES / 8).await, Ok(()));
    assert_eq!(
        trickle(PACE_BYTES / 12).await,
        Err(LaneError::TimedOut.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_not_slow_because_the_master_stood_still() {
    let (mut sender, mut lane) = scripted();
    let (message, frame) = long(100_000);
    let (first, rest) = frame.split_at(10);
    send(&mut *sender, first).await;
    let budget = Budget::of(0);
    let receiving = tokio::spawn(async move {
        let mut intake = Intake::new(&budget);
        intake.receive(&mut *lane, &Pulse::new(), no_limit).await
    });
    sleep(Duration::from_millis(1)).await;

    advance(10 * PACE_TIME).await;
    sleep(Duration::from_millis(1)).await;
    send(&mut *sender, rest).await;

    let (received, _) = receiving.await.unwrap().unwrap();
    assert_eq!(received, message);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_its_share_is_not_silent_meanwhile() {
    let budget = Budget::of(0);
    let _all = budget.share(CONTROL_FRAME_MAX).await;
    let (mut sender, mut lane) = scripted();
    send(&mut *sender, &long(100_000).1).await;
    let pulse = Arc::new(Pulse::new());
    let waits = Arc::clone(&pulse);
    tokio::spawn(async move {
        let mut intake = Intake::new(&budget);
        intake.receive(&mut *lane, &waits, no_limit).await
    });

    sleep(Duration::from_secs(3600)).await;

    assert_eq!(pulse.last(), Instant::now());
}

#[tokio::test(start_paused = true)]
async fn a_length_is_judged_when_it_is_read() {
    let (mut sender, mut lane) = scripted();
    let (message, frame) = long(100_000);
    let mut intake = Intake::new(&Budget::of(0));
    let pulse = Pulse::new();
    send(&mut *sender, &frame).await;
    let received = intake.receive(&mut *lane, &pulse, no_limit).await.unwrap();
    assert_eq!(received.0, message);

    send(&mut *sender, &frame).await;
    let refused = intake.receive(&mut *lane, &pulse, || 4096).await;

    let (length, cap) = (frame.len() - CONTROL_HEAD_BYTES, 4096);
    let too_long = DecodeError::TooLong { length, cap };
    assert_eq!(refused.unwrap_err(), too_long.into());
}
