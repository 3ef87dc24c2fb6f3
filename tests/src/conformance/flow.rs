//! Bytes under way: order, wholeness, independence of directions and lanes, back pressure.

use std::future::poll_fn;

use pccl_core::transport::{Lane, LaneRx, LaneTx, close, recv_some};

use super::subject::{
    Subject, assert_same, pattern, recv_pattern, send_pattern, send_until_standstill,
};

const MIB: usize = 1 << 20;

/// Around what buffers and frames are likely to measure, up to several MiB.
const SIZES: [usize; 14] = [
    0,
    1,
    2,
    3,
    127,
    128,
    1000,
    4096,
    65_535,
    65_536,
    65_537,
    262_147,
    1_000_003,
    5 * MIB,
];

/// Much more than any transport should buffer for a reader that stands still.
const UNBOUNDED: usize = 256 * MIB;

/// All sizes, one after the other on one lane, each way.
pub async fn bytes_of_every_size_arrive_whole_in_both_directions(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;

    for (seed, size) in SIZES.into_iter().enumerate() {
        tokio::join!(
            send_pattern(&mut *opened.tx, seed, size),
            recv_pattern(&mut *accepted.rx, seed, size),
        );
        tokio::join!(
            send_pattern(&mut *accepted.tx, seed + 100, size),
            recv_pattern(&mut *opened.rx, seed + 100, size),
        );
    }
}

/// Where parts and pieces end is not visible to the reader.
pub async fn odd_pieces_and_many_parts_arrive_in_order(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;
    let sent = pattern(7, 700_001);

    let ((), received) = tokio::join!(
        send_in_parts(&mut *opened.tx, &sent),
        recv_in_pieces(&mut *accepted.rx),
    );

    assert_same(&received, &sent);
}

/// Twenty parts in each call, some empty, none like the next; then the end.
async fn send_in_parts(tx: &mut dyn LaneTx, mut rest: &[u8]) {
    while !rest.is_empty() {
        let mut parts: [&[u8]; 20] = [&[]; 20];
        let mut unassigned = rest;
        for (index, part) in parts.iter_mut().enumerate() {
            let length = if index % 3 == 1 { 0 } else { index * 97 + 1 };
            (*part, unassigned) = unassigned.split_at(length.min(unassigned.len()));
        }
        let taken = poll_fn(|cx| tx.poll_send(cx, &parts)).await.unwrap();
        assert!(taken > 0, "a lane that takes nothing must wait");
        (_, rest) = rest.split_at(taken);
    }
    close(tx).await.unwrap();
}

async fn recv_in_pieces(rx: &mut dyn LaneRx) -> Vec<u8> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 5000];
    for length in (1..5000).step_by(613).cycle() {
        let (into, _) = buffer.split_at_mut(length);
        match recv_some(rx, into).await.unwrap() {
            0 => break,
            filled => received.extend(into.iter().take(filled)),
        }
    }
    received
}

/// No part, and only empty parts, are zero bytes and no reason to wait.
pub async fn nothing_to_send_is_sent_at_once(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;

    let no_part = poll_fn(|cx| opened.tx.poll_send(cx, &[])).await;
    let empty_parts = poll_fn(|cx| opened.tx.poll_send(cx, &[&[], &[]])).await;

    assert_eq!((no_part, empty_parts), (Ok(0), Ok(0)));
    tokio::join!(
        send_pattern(&mut *opened.tx, 0, 10),
        recv_pattern(&mut *accepted.rx, 0, 10),
    );
}

/// Four directions of four MiB, polled side by side in one task.
pub async fn both_ends_send_and_receive_at_the_same_time(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;

    tokio::join!(
        send_pattern(&mut *opened.tx, 1, 4 * MIB),
        send_pattern(&mut *accepted.tx, 2, 4 * MIB),
        recv_pattern(&mut *opened.rx, 2, 4 * MIB),
        recv_pattern(&mut *accepted.rx, 1, 4 * MIB),
    );
}

/// One end reads nothing until all it has to say is said, while the way towards it is full.
pub async fn sending_never_waits_for_receiving(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;
    let backlog = pattern(3, 64 * 1024);

    let taken = send_until_standstill(&mut *accepted.tx, &backlog, UNBOUNDED).await;
    tokio::join!(
        send_pattern(&mut *opened.tx, 4, 16 * MIB),
        recv_pattern(&mut *accepted.rx, 4, 16 * MIB),
    );

    recv_repeated(&mut *opened.rx, &backlog, taken).await;
}

/// What is buffered for a reader that stands still is bounded, and nothing of it is lost.
pub async fn a_sender_far_ahead_of_its_reader_waits_and_then_goes_on(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;
    let bytes = pattern(5, 64 * 1024);

    let taken = send_until_standstill(&mut *opened.tx, &bytes, UNBOUNDED).await;

    let (_, rest) = bytes.split_at(taken % bytes.len());
    let go_on = async {
        let sent = pccl_core::transport::send_all(&mut *opened.tx, rest, &bytes).await;
        sent.expect("there is room again");
    };
    let total = taken + rest.len() + bytes.len();
    tokio::join!(go_on, recv_repeated(&mut *accepted.rx, &bytes, total));
}

/// Receives `length` bytes that are `bytes` over and over.
async fn recv_repeated(rx: &mut dyn LaneRx, bytes: &[u8], length: usize) {
    let mut received = vec![0; bytes.len()];
    let mut left = length;
    while left > 0 {
        let (into, _) = received.split_at_mut(left.min(bytes.len()));
        let outcome = pccl_core::transport::recv_exact(rx, into).await;
        outcome.expect("the lane brings everything");
        let (expected, _) = bytes.split_at(into.len());
        assert_same(into, expected);
        left -= into.len();
    }
}

/// Lanes between the same two ends, all busy in both directions at once, each in a task of its own.
pub async fn thirty_two_lanes_do_not_mix(subject: Subject) {
    let mut listener = subject.listen().await;
    let mut lanes = Vec::new();
    for _ in 0..32 {
        let (opened, accepted) = subject.lane_through(&mut *listener).await;
        lanes.push((opened, accepted.lane));
    }

    let busy: Vec<_> = (0..)
        .zip(lanes)
        .map(|(seed, (opened, accepted))| tokio::spawn(keep_busy(seed, opened, accepted)))
        .collect();

    for lane in busy {
        lane.await.expect("every lane brought its own bytes");
    }
}

async fn keep_busy(seed: usize, mut opened: Lane, mut accepted: Lane) {
    tokio::join!(
        send_pattern(&mut *opened.tx, seed, 200_000),
        recv_pattern(&mut *accepted.rx, seed, 200_000),
        send_pattern(&mut *accepted.tx, seed + 100, 200_000),
        recv_pattern(&mut *opened.rx, seed + 100, 200_000),
    );
}
