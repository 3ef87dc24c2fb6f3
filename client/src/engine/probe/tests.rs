//! Measurements over lanes in memory, under tokio's paused clock.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::id::Ticket;
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, Listener, recv_some};
use pccl_core::wire::{PROBE_BYTES_MAX, Reply, offer, recv_preamble, send_reply};
use pccl_plane::Progress;
use pccl_transport_memory::{Path, pair};
use tokio::time::Instant;

use super::*;
use crate::simulated::listener;

const LANES: u16 = 4;

/// Measures over so many lanes of this path; what is told back takes as long.
async fn measured(path: Path, lanes: u16) -> Option<paths::Measurement> {
    let back = Path {
        bytes_per_second: None,
        ..path
    };
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..lanes).map(|_| pair(path, back)).unzip();
    let piece: Arc<[u8]> = vec![7; PIECE_BYTES].into();
    let answering =
        tokio::spawn(async move { receiving::answer(theirs, &Progress::default()).await });
    let measured = sending::measure(ours, &piece, &Progress::default()).await;
    let arrived = answering.await.unwrap();
    assert!(measured.is_none() || arrived.is_some_and(|arrived| arrived > 0));
    measured
}

#[tokio::test(start_paused = true)]
async fn rate_and_round_trip_are_those_of_all_lanes() {
    let path = Path {
        delay: Duration::from_millis(20),
        bytes_per_second: Some(5_000_000),
        window: 1 << 20,
        ..Path::DIRECT
    };
    let begun = Instant::now();

    let found = measured(path, LANES).await.unwrap();

    let rate = found.bytes_per_s;
    assert!((18_000_000..22_000_000).contains(&rate), "{found:?}");
    assert!((40_000..46_000).contains(&found.round_trip_us), "{found:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn where_a_window_bounds_each_lane_more_lanes_carry_more() {
    let path = Path {
        delay: Duration::from_millis(50),
        window: 64 * 1024,
        ..Path::DIRECT
    };

    let one = measured(path, 1).await.unwrap().bytes_per_s;
    let four = measured(path, LANES).await.unwrap().bytes_per_s;

    // A window in each round trip.
    assert!((500_000..750_000).contains(&one), "{one}");
    assert!((7 * one / 2..9 * one / 2).contains(&four), "{one} {four}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_edge_is_left_without_a_backlog() {
    let path = Path {
        bytes_per_second: Some(250_000),
        window: 1 << 20,
        ..Path::DIRECT
    };
    let begun = Instant::now();

    let found = measured(path, 1).await.unwrap();

    assert!((230_000..270_000).contains(&found.bytes_per_s), "{found:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_edge_whose_other_end_is_gone_has_no_measurement() {
    let (ours, theirs) = pair(Path::DIRECT, Path::DIRECT);
    drop(theirs);
    let piece: Arc<[u8]> = vec![7; PIECE_BYTES].into();

    let found = sending::measure(vec![ours], &piece, &Progress::default()).await;

    assert_eq!(found, None);
}

/// An order of one lane that measures, with a peer that says nothing.
fn order(way: Way, dial: Option<SocketAddr>) -> LinkOrder {
    let lanes = LaneOrder {
        with: PeerId(7),
        ticket: Ticket(1),
        dial,
        lanes: 1,
        identity: None,
    };
    LinkOrder { way, lanes }
}

const NEIGHBOUR: &str = "192.0.2.7:5000";

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_to_measure_and_says_nothing_is_given_up_in_time() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let mut lane = dialler(NEIGHBOUR).dial();
    let transport: Arc<dyn Transport> = Arc::new(dialler(NEIGHBOUR));
    let order = order(Way::In, None);
    let begun = Instant::now();
    let progress = Progress::default();
    let known = (1, &progress);
    let _probing = Probing::start(Round(1), &[order], PeerId(1), known, &transport, &mut door);

    let preamble = Preamble {
        purpose: Purpose::Probe,
        from: PeerId(7),
        ticket: Ticket(1),
        lane: 0,
        lanes: 1,
    };
    let silent = tokio::spawn(async move {
        offer(&mut lane, &preamble).await.unwrap();
        recv_some(lane.rx.as_mut(), &mut [0]).await
    });
    let knock = door.next_knock().await.expect("it comes");
    door.answer(knock);

    assert_eq!(silent.await.unwrap(), Ok(0));
    assert!(begun.elapsed() <= PROBE_LIMIT + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_no_measurement_is_given_up_in_time() {
    let (mut theirs, dialler) = listener();
    let (arrivals, _) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let transport: Arc<dyn Transport> = Arc::new(dialler(NEIGHBOUR));
    let order = order(Way::Out, Some(NEIGHBOUR.parse().unwrap()));
    let begun = Instant::now();
    let progress = Progress::default();
    let known = (1, &progress);
    let mut probing = Probing::start(Round(1), &[order], PeerId(1), known, &transport, &mut door);

    let incoming = poll_fn(|cx| theirs.poll_accept(cx)).await;
    let mut lane = incoming.unwrap().lane;
    recv_preamble(&mut lane).await.unwrap();
    send_reply(lane.tx.as_mut(), &Reply::Accepted)
        .await
        .unwrap();
    let found = probing.next().await;

    assert!(matches!(found, Measurement::Over { .. }), "{found:?}");
    assert!(begun.elapsed() <= PROBE_LIMIT + Duration::from_millis(10));
}

/// A lane that brings more bytes than anybody measures, at no cost.
#[derive(Default)]
struct Flood {
    brought: u64,
}

impl LaneRx for Flood {
    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let bytes = match self.brought > 2 * PROBE_BYTES_MAX {
            true => 0,
            false => into.len(),
        };
        self.brought += bytes as u64;
        Poll::Ready(Ok(bytes))
    }
}

/// A lane that takes everything.
struct Taking;

impl LaneTx for Taking {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn of_a_peer_that_sends_too_much_there_is_no_measurement() {
    let lane = Lane::new(Box::new(Taking), Box::<Flood>::default());

    let arrived = receiving::answer(vec![lane], &Progress::default()).await;

    assert_eq!(arrived, None);
}
