//! What waits to be sent to one peer, and in which order it goes out.

use pccl_core::id::{ContentHash, EntryIndex, Revision, Round};
use pccl_core::wire::CONTROL_FRAME_MAX;

use super::*;

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
    loop {
        match outbox.next(&mut Vec::new()) {
            Next::Send(Part::Frames(frames)) => bytes.extend(frames),
            Next::Send(Part::Long(message)) => {
                encode_control(&message, &mut bytes).unwrap();
                encoded_here += 1;
            }
            Next::Wait | Next::End => return (bytes, encoded_here),
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
    assert_eq!(outbox.lock().earlier_bytes, 0);
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
