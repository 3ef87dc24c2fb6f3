//! A peer that asks for what there is not, or sends what nobody has asked for: its lane ends, and nothing is kept.

use pccl_core::transport::{LaneRx, recv_exact, send_all};
use pccl_core::wire::{
    ControlHead, ControlReader, DecodeError, STATE_RANGE_HEADER_BYTES, STATE_RANGE_MAX,
    STATE_RANGES_MAX, STATE_REQUEST_MAX, StateRange, StateRequest, encode_control, recv_control,
};

use super::several::serve;
use super::*;

/// One byte more than a range may have.
const BYTES: usize = STATE_RANGE_MAX as usize + 1;

/// A range of the one entry.
fn range(offset: u64, length: u32) -> StateRange {
    StateRange {
        entry: EntryIndex(0),
        length,
        offset,
    }
}

/// How a peer that holds an entry ends which is asked for this. The other end waits for an answer, and closes if it
/// gets one.
async fn asked(bytes: Vec<u8>) -> Result<Moved, TransferError> {
    let (ours, mut theirs) = pair(Path::NEAR, Path::NEAR);
    let asking = async move {
        send_all(theirs.tx.as_mut(), &bytes, &[]).await.unwrap();
        drop(read(theirs.rx.as_mut(), STATE_RANGE_HEADER_BYTES).await);
    };
    let serving = serve(
        vec![content(BYTES, 1)],
        PeerId(1),
        vec![ours],
        Progress::default(),
    );
    let ((_, served), ()) = tokio::join!(serving, asking);
    served
}

async fn read(rx: &mut dyn LaneRx, bytes: usize) -> Option<Vec<u8>> {
    let mut read = vec![0; bytes];
    recv_exact(rx, &mut read).await.ok().map(|()| read)
}

fn request(round: u64, range: StateRange) -> Vec<u8> {
    request_of(round, vec![range])
}

fn request_of(round: u64, ranges: Vec<StateRange>) -> Vec<u8> {
    let round = Round(round);
    let request = StateRequest { round, ranges };
    let mut bytes = Vec::new();
    encode_control(&request, &mut bytes).unwrap();
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_range_that_there_is_not_or_that_is_too_long_is_not_sent() {
    let of_another_entry = StateRange {
        entry: EntryIndex(1),
        ..range(0, 1)
    };
    let cases = [
        ("too long", range(0, STATE_RANGE_MAX + 1)),
        ("empty", range(0, 0)),
        ("beyond the end", range(2, STATE_RANGE_MAX)),
        ("from behind the end", range(BYTES as u64 + 1, 1)),
        ("that wraps around", range(u64::MAX, 2)),
        ("of another entry", of_another_entry),
    ];
    for (what, range) in cases {
        let served = asked(request(1, range)).await;

        let refused =
            matches!(served, Err(TransferError::NoSuchEntry(entry)) if entry == range.entry);
        assert!(refused, "{what}: {served:?}");
    }
    let served = asked(request(1, range(0, STATE_RANGE_MAX))).await;
    let is_refused = matches!(served, Err(TransferError::NoSuchEntry(_)));
    assert!(!is_refused, "the longest range: {served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_another_round_is_not_served() {
    let served = asked(request(2, range(0, 1))).await;

    let refused = matches!(served, Err(TransferError::WrongRound { .. }));
    assert!(refused, "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_no_ranges_or_of_too_many_is_not_served() {
    for count in [0, STATE_RANGES_MAX + 1] {
        let served = asked(request_of(1, vec![range(0, 1); count])).await;

        let refused = matches!(served, Err(TransferError::BadCount(number)) if number == count);
        assert!(refused, "{count}: {served:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_announces_more_than_one_may_have_is_not_waited_for() {
    let length = STATE_REQUEST_MAX + 1;
    let begun = Instant::now();
    let sound = ControlHead::of_message(&[]).unwrap();
    let head = ControlHead { length, ..sound }.encode();

    let served = asked(head.to_vec()).await;

    let cap = STATE_REQUEST_MAX;
    let too_long = DecodeError::TooLong { length, cap };
    assert!(
        matches!(served, Err(TransferError::Request(ControlError::Decode(error))) if error == too_long),
        "{served:?}"
    );
    assert!(begun.elapsed() < STALL);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_nothing_is_given_up_after_the_stall_time() {
    let begun = Instant::now();

    let served = asked(Vec::new()).await;

    assert!(matches!(served, Err(TransferError::Stalled)), "{served:?}");
    assert!(begun.elapsed() < STALL + STALL / 10);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_take_what_it_has_asked_for_is_given_up_after_the_stall_time() {
    let narrow = Path {
        window: 1000,
        ..Path::NEAR
    };
    let (ours, mut theirs) = pair(narrow, narrow);
    let request = request(1, range(0, 5000));
    send_all(theirs.tx.as_mut(), &request, &[]).await.unwrap();
    let begun = Instant::now();

    let serving = serve(
        vec![content(BYTES, 1)],
        PeerId(1),
        vec![ours],
        Progress::default(),
    );
    let (_, served) = serving.await;

    assert!(matches!(served, Err(TransferError::Stalled)), "{served:?}");
    assert!(begun.elapsed() < STALL + STALL / 10);
    drop(theirs);
}

/// The holder answers the first request with so many bytes of what was asked for and its header, and stands still then.
async fn stalled_after(count: usize) -> Result<Moved, TransferError> {
    let two = Two::new(vec![content(1000, 1)]);
    let (ours, mut theirs) = pair(Path::NEAR, Path::NEAR);
    let entries = vec![(EntryIndex(0), hash(&two.held[0]))];
    let role = SyncRole::Request {
        from: vec![order(1)],
        entries: entries.into(),
    };
    let mut wanted = vec![vec![0; 1000]];
    let wanter = holding(&mut wanted, 0);
    let begin = [&range(0, 1000).encode()[..], &two.held[0]].concat();
    send_all(theirs.tx.as_mut(), &begin[..count], &[])
        .await
        .unwrap();
    let plan = two.plan(role, vec![ours]);
    let fetched = carry_out(means(&two.staging), &wanter, plan).await;
    drop(theirs);
    fetched.map_err(|failed| failed.error)
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_stands_still_is_given_up_after_the_stall_time() {
    for count in [
        0,
        STATE_RANGE_HEADER_BYTES - 1,
        STATE_RANGE_HEADER_BYTES,
        STATE_RANGE_HEADER_BYTES + 999,
    ] {
        let begun = Instant::now();

        let fetched = stalled_after(count).await;

        let is_given_up = matches!(fetched, Err(TransferError::Stalled));
        assert!(is_given_up, "{count}: {fetched:?}");
        assert!(begun.elapsed() < STALL + STALL / 10, "{count}");
    }
}

/// The holder answers the first request with this header, and as many bytes as were asked for.
async fn answered(header: impl FnOnce(StateRange) -> StateRange) -> Result<Moved, TransferError> {
    let two = Two::new(vec![content(1000, 1)]);
    let (ours, mut theirs) = pair(Path::NEAR, Path::NEAR);
    let entries = vec![(EntryIndex(0), hash(&two.held[0]))];
    let role = SyncRole::Request {
        from: vec![order(1)],
        entries: entries.into(),
    };
    let mut wanted = vec![vec![0; 1000]];
    let wanter = holding(&mut wanted, 0);
    let answering = async {
        let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
        let request = recv_control::<StateRequest>(theirs.rx.as_mut(), &mut reader);
        let asked = request.await.unwrap().ranges[0];
        let bytes = &two.held[0][..asked.length as usize];
        let header = header(asked).encode();
        // The lane may have ended meanwhile.
        send_all(theirs.tx.as_mut(), &header, bytes).await.ok();
        read(theirs.rx.as_mut(), 1).await;
    };
    let plan = two.plan(role, vec![ours]);
    let (fetched, ()) = tokio::join!(carry_out(means(&two.staging), &wanter, plan), answering);
    fetched.map_err(|failed| failed.error)
}

#[tokio::test(start_paused = true)]
async fn a_range_that_was_not_asked_for_is_not_taken_for_one_that_was() {
    let lies: [fn(StateRange) -> StateRange; 4] = [
        |range| StateRange {
            length: range.length + 1,
            ..range
        },
        |range| StateRange {
            length: u32::MAX,
            ..range
        },
        |range| StateRange {
            offset: range.offset + 1,
            ..range
        },
        |range| StateRange {
            entry: EntryIndex(range.entry.0 + 1),
            ..range
        },
    ];
    for lie in lies {
        let fetched = answered(lie).await;
        let refused = matches!(fetched, Err(TransferError::Range(_)));
        assert!(refused, "{fetched:?}");
    }
    assert!(answered(|range| range).await.is_ok());
}
