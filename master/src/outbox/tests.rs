//! What waits to be sent to one peer, and in which order it goes out.

use std::task::{Context, Poll, Waker};

use pccl_core::id::{ContentHash, EntryIndex, Revision, Round, Ticket};
use pccl_core::wire::{CONTROL_FRAME_MAX, ControlReader};

use super::*;

const NEVER_SENT: CannotAttach = CannotAttach::Resume(CannotResume::NeverSent);
const FORGOTTEN: CannotAttach = CannotAttach::Resume(CannotResume::Forgotten);

/// A peer's part in a synchronization in which it lacks so many entries.
fn plan(entries: u32) -> ToPeer {
    let entries: Vec<_> = (0..entries)
        .map(|entry| (EntryIndex(u32::MAX - entry), ContentHash(u128::MAX)))
        .collect();
    ToPeer::SharedStatePlan(SyncPlan {
        round: Round(u64::MAX),
        revision: Revision(u64::MAX),
        role: SyncRole::Request {
            from: Vec::new(),
            entries: entries.into(),
        },
    })
}

/// Everything that waits, and how much of it was not encoded yet.
fn drain(outbox: &Outbox) -> (Vec<u8>, usize) {
    let (mut bytes, mut encoded_here) = (Vec::new(), 0);
    let by = outbox.first_attachment();
    outbox.ring();
    loop {
        let mut frames = Vec::new();
        let next = outbox.next(&by, &mut frames);
        bytes.extend(frames);
        match next {
            Next::Send => {}
            Next::SendLong(message) => {
                encode_control(&*message, &mut bytes).unwrap();
                encoded_here += 1;
            }
            Next::Wait | Next::End | Next::Replaced => return (bytes, encoded_here),
        }
    }
}

#[test]
fn a_plan_is_encoded_by_the_writer_and_keeps_its_place() {
    let outbox = Outbox::new(1 << 20);
    let messages = [
        ToPeer::Heartbeat,
        plan(10),
        ToPeer::Heartbeat,
        ToPeer::Stopping,
        plan(0),
        plan(20),
        ToPeer::Heartbeat,
    ];

    for message in &messages {
        outbox.push(message).unwrap();
    }

    let mut in_order = Vec::new();
    for message in &messages {
        encode_control(message, &mut in_order).unwrap();
    }
    assert_eq!(drain(&outbox), (in_order, 3));
    assert_eq!(outbox.lock().unsent_bytes(), 0);
}

#[test]
fn a_plan_counts_as_at_least_what_it_takes() {
    for entries in [0, 1, 1000] {
        let mut frame = Vec::new();
        encode_control(&plan(entries), &mut frame).unwrap();

        assert!(bytes_of_long(&plan(entries)).unwrap() >= frame.len());
    }
    assert!(bytes_of_long(&plan(16_384)).unwrap() < CONTROL_FRAME_MAX);
}

#[test]
fn plans_that_pile_up_are_not_kept() {
    let outbox = Outbox::new(100_000);

    let pushed: Vec<_> = (0..5).map(|_| outbox.push(&plan(1000))).collect();

    let (ok, overflow) = (Ok(()), Err(PushError::Overflow));
    // What comes after the gap is of no use any more.
    assert_eq!(pushed, [ok, ok, ok, overflow, ok]);
    assert_eq!(drain(&outbox).1, 3);
}

/// The messages that go out after a ring, without session frames.
fn messages(outbox: &Outbox, by: &Attachment) -> Vec<ToPeer> {
    outbox.ring();
    released(outbox, by)
}

/// The messages that go out next.
fn released(outbox: &Outbox, by: &Attachment) -> Vec<ToPeer> {
    let mut bytes = Vec::new();
    loop {
        let mut frames = Vec::new();
        let next = outbox.next(by, &mut frames);
        bytes.extend(frames);
        match next {
            Next::Send => {}
            Next::SendLong(message) => encode_control(&*message, &mut bytes).unwrap(),
            Next::Wait | Next::End | Next::Replaced => break,
        }
    }
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    reader.feed(&bytes);
    std::iter::from_fn(|| reader.next_message().unwrap()).collect()
}

fn said(round: u64) -> ToPeer {
    ToPeer::SharedStateConcluded {
        round: Round(round),
        result: Ok(Revision(round)),
    }
}

#[test]
fn another_connection_gets_what_the_peer_lacks_and_the_one_before_nothing_more() {
    let outbox = Outbox::new(1 << 20);
    let first = outbox.first_attachment();
    let all = [said(1), plan(3), said(2), said(3)];
    all.iter().for_each(|message| outbox.push(message).unwrap());
    assert_eq!(messages(&outbox, &first), all);

    let second = outbox.attach(1).unwrap();
    outbox.push(&said(4)).unwrap();

    assert!(matches!(
        outbox.next(&first, &mut Vec::new()),
        Next::Replaced
    ));
    let rest = [&all[1..], &[said(4)]].concat();
    assert_eq!(messages(&outbox, &second), rest);
    assert_eq!(outbox.lock().unsent_bytes(), 0);
}

#[test]
fn what_is_acknowledged_takes_no_memory_and_cannot_be_asked_for_again() {
    let outbox = Outbox::new(1 << 20);
    let first = outbox.first_attachment();
    (1..4).for_each(|round| outbox.push(&said(round)).unwrap());
    assert_eq!(messages(&outbox, &first).len(), 3);

    outbox.acknowledge(3).unwrap();

    assert_eq!(outbox.lock().kept_bytes, 0);
    assert_eq!(outbox.attach(2).unwrap_err(), CannotAttach::Overtaken);
    assert_eq!(outbox.attach(4).unwrap_err(), NEVER_SENT);
    assert_eq!(messages(&outbox, &outbox.attach(3).unwrap()), []);
}

/// A peer that hears nothing dials beside its connection, and gives that up when something comes over it after all. The
/// attempt may arrive in spite of that.
#[test]
fn what_has_arrived_over_any_connection_of_a_session_counts_also_if_one_that_was_given_up_came_between()
 {
    let outbox = Outbox::new(1 << 20);
    let first = outbox.first_attachment();
    (1..4).for_each(|round| outbox.push(&said(round)).unwrap());
    assert_eq!(messages(&outbox, &first).len(), 3);

    let given_up = outbox.attach(1).unwrap();
    let third = outbox.attach(3).unwrap();

    assert!(matches!(
        outbox.next(&given_up, &mut Vec::new()),
        Next::Replaced
    ));
    assert_eq!(messages(&outbox, &third), []);
    outbox.push(&said(4)).unwrap();
    assert_eq!(messages(&outbox, &third), [said(4)]);
    assert_eq!(outbox.attach(2).unwrap_err(), CannotAttach::Overtaken);
    outbox.acknowledge(4).unwrap();
}

#[test]
fn nothing_goes_out_before_it_is_released() {
    let outbox = Outbox::new(1 << 20);
    let by = outbox.first_attachment();
    outbox.push(&said(1)).unwrap();
    outbox.has_received(1);
    outbox.ring();
    outbox.push(&said(2)).unwrap();
    outbox.has_received(2);
    // The end of a connection releases nothing.
    outbox.end(&by);

    let mut frames = Vec::new();
    assert!(matches!(outbox.next(&by, &mut frames), Next::Send));
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    reader.feed(&frames);
    assert_eq!(reader.next_message(), Ok(Some(said(1))));
    assert_eq!(reader.take_acknowledged(), Some(1));
    assert!(matches!(outbox.next(&by, &mut frames), Next::Wait));
    assert!(frames.is_empty());

    assert_eq!(messages(&outbox, &by), [said(2)]);
    assert!(matches!(outbox.next(&by, &mut frames), Next::End));
}

#[test]
fn a_session_that_was_kept_goes_on_with_what_the_peer_lacks() {
    let outbox = Outbox::new(1 << 20);
    let all = [said(1), plan(3), said(2)];
    all.iter().for_each(|message| outbox.push(message).unwrap());
    assert_eq!(messages(&outbox, &outbox.first_attachment()), all);
    outbox.acknowledge(1).unwrap();
    let kept = outbox.kept().unwrap();
    assert!(kept.iter().eq(&all[1..]));

    let restored = Outbox::restored(1 << 20, &kept).unwrap();

    assert_eq!(restored.lock().unsent_bytes(), 0);
    assert_eq!(restored.attach(4).unwrap_err(), NEVER_SENT);
    assert_eq!(restored.attach(0).unwrap_err(), FORGOTTEN);
    let by = restored.attach(2).unwrap();
    restored.push(&said(3)).unwrap();
    assert_eq!(messages(&restored, &by), [said(2), said(3)]);
}

#[test]
fn a_peer_cannot_acknowledge_what_it_was_not_sent() {
    let outbox = Outbox::new(1 << 20);
    outbox.push(&said(1)).unwrap();

    assert_eq!(outbox.acknowledge(1), Err(CannotResume::NeverSent));
}

#[test]
fn a_peer_that_acknowledges_nothing_costs_a_bounded_number_of_bytes() {
    let outbox = Outbox::new(1000);
    let first = outbox.first_attachment();

    for round in 0..10_000 {
        outbox.push(&said(round)).unwrap();
        assert_eq!(messages(&outbox, &first), [said(round)]);
    }

    assert!(outbox.lock().kept_bytes <= 1000);
    assert_eq!(outbox.attach(0).unwrap_err(), FORGOTTEN);
}

#[test]
fn the_token_goes_before_the_welcome_and_a_count_before_the_heartbeat() {
    let outbox = Outbox::new(1000);
    let terms = SessionTerms {
        token: Ticket(7),
        away_max: Duration::from_secs(60),
    };
    outbox.open(terms);
    outbox.push(&said(1)).unwrap();
    outbox.has_received(5);
    outbox.push(&ToPeer::Heartbeat).unwrap();
    let (bytes, _) = drain(&outbox);
    let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
    reader.feed(&bytes);

    assert_eq!(reader.next_message(), Ok(Some(said(1))));
    assert_eq!(reader.take_terms(), Some(terms));
    assert_eq!(reader.next_message(), Ok(Some(ToPeer::Heartbeat)));
    assert_eq!(reader.take_acknowledged(), Some(5));
    assert_eq!(reader.received(), 2);
}

/// A lane that takes everything.
struct Sink;

impl LaneTx for Sink {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        bytes: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        Poll::Ready(Ok(bytes.iter().map(|piece| piece.len()).sum()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_writer_that_waits_ends_when_another_one_takes_its_place() {
    let outbox = Outbox::new(1000);
    let by = outbox.first_attachment();
    let mut sink = Sink;
    let mut writing = Box::pin(outbox.write_to(&mut sink, &by, &[], Duration::from_secs(1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(writing.as_mut().poll(&mut context).is_pending());

    outbox.attach(0).unwrap();

    assert_eq!(writing.await, Err(LaneError::Closed));
}

/// A lane that takes nothing.
struct Stuck;

impl LaneTx for Stuck {
    fn poll_send(&mut self, _: &mut Context<'_>, _: &[&[u8]]) -> Poll<Result<usize, LaneError>> {
        Poll::Pending
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_writer_whose_lane_takes_nothing_ends_when_it_is_replaced_or_the_peer_is_away() {
    for is_replaced in [true, false] {
        let outbox = Outbox::new(1000);
        outbox.push(&said(1)).unwrap();
        let by = outbox.first_attachment();
        let mut stuck = Stuck;
        let mut writing = Box::pin(outbox.write_to(&mut stuck, &by, b"first", Duration::MAX));
        let mut context = Context::from_waker(Waker::noop());
        assert!(writing.as_mut().poll(&mut context).is_pending());

        if is_replaced {
            outbox.attach(0).unwrap();
        } else {
            outbox.detach();
        }

        assert_eq!(writing.await, Err(LaneError::Closed));
    }
}
