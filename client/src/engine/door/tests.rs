//! Who is let in, who waits, who is told to come again, and who is told to stay away.

use std::task::Poll;

use pccl_core::id::PeerId;
use pccl_core::topology::LaneFailure;
use pccl_core::transport::{Transport, recv_some, send_all};
use pccl_core::wire::{HandshakeError, offer, recv_reply};
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::{Instant, sleep};

use super::*;
use crate::engine::dial::dial;
use crate::simulated::{Dialler, listener};

const STRANGER: &str = "192.0.2.66:5000";
const NEIGHBOUR: &str = "192.0.2.7:5000";

/// More than any door holds here.
const FLOOD: u128 = 3 * STRANGERS_MAX as u128;

fn preamble(ticket: u128) -> Preamble {
    Preamble {
        purpose: Purpose::LinkLane,
        from: PeerId(7),
        ticket: Ticket(ticket),
        lane: 0,
        lanes: 1,
    }
}

fn order(ticket: u128) -> LaneOrder {
    LaneOrder {
        with: PeerId(7),
        ticket: Ticket(ticket),
        dial: Some(NEIGHBOUR.parse().unwrap()),
        lanes: 1,
        identity: None,
    }
}

fn expect(door: &mut Door, ticket: u128) -> oneshot::Receiver<Lane> {
    door.expect(Purpose::LinkLane, &order(ticket), (0, 1))
}

/// Opens a lane and waits for the answer.
fn knock(dialler: &Dialler, ticket: u128) -> JoinHandle<Result<Lane, HandshakeError>> {
    let mut lane = dialler.dial();
    tokio::spawn(async move {
        offer(&mut lane, &preamble(ticket)).await?;
        Ok(lane)
    })
}

/// Answers whoever knocks, for a little while.
async fn answer_all(door: &mut Door) {
    answer_for(door, Duration::from_millis(20)).await;
}

async fn answer_for(door: &mut Door, time: Duration) {
    let end = Instant::now() + time;
    loop {
        tokio::select! {
            Some(knock) = door.next_knock() => door.answer(knock),
            () = tokio::time::sleep_until(end) => return,
        }
    }
}

async fn flood(door: &mut Door, dialler: &Dialler) {
    for ticket in 0..FLOOD {
        drop(knock(dialler, 1_000 + ticket));
        answer_all(door).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_from_one_address_keeps_no_lane_of_another_from_waiting_for_its_order() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    let before = knock(&dialler(NEIGHBOUR), 1);
    answer_all(&mut door).await;
    flood(&mut door, &dialler(STRANGER)).await;
    let after = knock(&dialler(NEIGHBOUR), 2);
    answer_all(&mut door).await;
    let lanes = [expect(&mut door, 1), expect(&mut door, 2)];

    assert!(before.await.unwrap().is_ok());
    assert!(after.await.unwrap().is_ok());
    for lane in lanes {
        assert!(lane.await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_silent_connections_from_one_address_ends_none_of_another() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let lane = expect(&mut door, 1);

    let mut slow = dialler(NEIGHBOUR).dial();
    answer_all(&mut door).await;
    let silent: Vec<Lane> = (0..FLOOD).map(|_| dialler(STRANGER).dial()).collect();
    answer_all(&mut door).await;
    let offered = tokio::spawn(async move { offer(&mut slow, &preamble(1)).await });
    answer_all(&mut door).await;

    assert_eq!(offered.await.unwrap(), Ok(()));
    assert!(lane.await.is_ok());
    drop(silent);
}

/// How many of these have been told something, or have ended.
async fn told(lanes: &mut [Lane]) -> usize {
    let count = poll_fn(|cx| {
        let is_told = |lane: &mut Lane| lane.rx.poll_recv(cx, &mut [0; 1]).is_ready();
        Poll::Ready(lanes.iter_mut().map(is_told).filter(|is| *is).count())
    });
    // tokio would have who reads so much at once come again.
    unconstrained(count).await
}

/// How many connections a door with one lane to a link has room for, before they have spoken and after it.
const ROOM: usize = STRANGERS_MAX + 2;

#[tokio::test(start_paused = true)]
async fn of_silent_connections_so_many_stay_as_there_is_room_for() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    let mut silent: Vec<Lane> = (0..FLOOD).map(|_| dialler(STRANGER).dial()).collect();
    answer_all(&mut door).await;

    assert_eq!(told(&mut silent).await, silent.len() - ROOM);
}

#[tokio::test(start_paused = true)]
async fn of_lanes_that_wait_for_their_order_so_many_stay_as_there_is_room_for() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    let mut waiting = Vec::new();
    for ticket in 0..FLOOD {
        let mut lane = dialler(STRANGER).dial();
        let preamble = preamble(ticket).encode();
        send_all(lane.tx.as_mut(), &preamble, &[]).await.unwrap();
        waiting.push(lane);
        answer_all(&mut door).await;
    }

    assert_eq!(told(&mut waiting).await, waiting.len() - ROOM);
}

#[tokio::test(start_paused = true)]
async fn who_gives_way_before_it_has_spoken_is_told_to_come_again() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    let mut first = dialler(NEIGHBOUR).dial();
    let silent: Vec<Lane> = (0..FLOOD).map(|_| dialler(NEIGHBOUR).dial()).collect();
    answer_all(&mut door).await;

    let heard = recv_reply(first.rx.as_mut()).await;
    assert!(matches!(heard, Ok(Reply::NotYet(_))), "{heard:?}");
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_say_what_it_is_for_is_given_up_in_time() {
    let (arrivals, dialler) = listener();
    let door = Door::open(Box::new(arrivals), 1);
    let begun = Instant::now();
    let (mut mute, mut slow) = (dialler(NEIGHBOUR).dial(), dialler(STRANGER).dial());

    send_all(slow.tx.as_mut(), &preamble(1).encode()[..9], &[])
        .await
        .unwrap();
    for lane in [&mut mute, &mut slow] {
        assert_eq!(recv_some(lane.rx.as_mut(), &mut [0; 1]).await, Ok(0));
    }

    assert_eq!(begun.elapsed().as_secs(), PREAMBLE_LIMIT.as_secs());
    drop(door);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_expected_yet_is_told_to_come_again() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    let early = knock(&dialler(NEIGHBOUR), 1);
    answer_for(&mut door, HOLD_LIMIT + Duration::from_secs(1)).await;

    assert!(early.is_finished());
    let answer = early.await.unwrap().unwrap_err();
    assert_eq!(answer, HandshakeError::NotYet(UNKNOWN_TICKET.into()));
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_was_let_in_before_is_refused_for_good() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let lane = expect(&mut door, 1);
    let first = knock(&dialler(NEIGHBOUR), 1);
    answer_all(&mut door).await;
    let begun = Instant::now();

    let second = knock(&dialler(STRANGER), 1);
    answer_all(&mut door).await;

    let answer = second.await.unwrap().unwrap_err();
    assert_eq!(answer, HandshakeError::Refused(SPENT_TICKET.into()));
    assert!(begun.elapsed() < HOLD_LIMIT);
    assert!(first.await.unwrap().is_ok() && lane.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lane_of_an_order_that_was_given_up_is_refused_for_good() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);

    drop(expect(&mut door, 1));
    let at_once = knock(&dialler(NEIGHBOUR), 1);
    answer_all(&mut door).await;
    drop(expect(&mut door, 2));
    let _next = expect(&mut door, 3);
    let later = knock(&dialler(NEIGHBOUR), 2);
    answer_all(&mut door).await;

    for answer in [at_once, later] {
        let answer = answer.await.unwrap().unwrap_err();
        assert_eq!(answer, HandshakeError::Refused(SPENT_TICKET.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_orders_that_are_over_the_last_ones_are_remembered() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let remembered = (SPENT_FACTOR * ROOM) as u128;
    let last = 2 * remembered;

    for ticket in 0..=last {
        drop(expect(&mut door, ticket));
    }
    let _next = expect(&mut door, u128::MAX);
    let known = knock(&dialler(NEIGHBOUR), last + 1 - remembered);
    let forgotten = knock(&dialler(NEIGHBOUR), last - remembered);
    answer_for(&mut door, HOLD_LIMIT + Duration::from_secs(1)).await;

    let known = known.await.unwrap().unwrap_err();
    let forgotten = forgotten.await.unwrap().unwrap_err();
    assert_eq!(known, HandshakeError::Refused(SPENT_TICKET.into()));
    assert_eq!(forgotten, HandshakeError::NotYet(UNKNOWN_TICKET.into()));
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_come_again_does_and_is_let_in_once_the_order_is_there() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let (same_address, stranger) = (dialler(STRANGER), dialler(STRANGER));

    let dialled =
        tokio::spawn(async move { dial(&same_address, &order(1), preamble(1)).await.is_ok() });
    answer_all(&mut door).await;
    // Pushes it out.
    flood(&mut door, &stranger).await;
    let lane = expect(&mut door, 1);
    answer_for(&mut door, Duration::from_secs(3)).await;

    assert!(dialled.is_finished() && dialled.await.unwrap());
    assert!(lane.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_come_again_and_again_gives_up_in_time() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let dialler = dialler(NEIGHBOUR);
    assert_eq!(dialler.lanes_per_edge(), 1);
    let begun = Instant::now();

    let dialled = tokio::spawn(async move {
        let dialled = dial(&dialler, &order(1), preamble(1)).await;
        (dialled.err(), begun.elapsed())
    });
    answer_for(&mut door, Duration::from_secs(60)).await;
    sleep(Duration::from_secs(1)).await;

    let (failure, took) = dialled.await.unwrap();
    assert_eq!(failure, Some(LaneFailure::TimedOut));
    assert_eq!(took, crate::engine::dial::DIAL_LIMIT);
}

/// The key that the master has named.
const NAMED: Identity = Identity([1; 32]);

/// Another member's.
const OTHER: Identity = Identity([2; 32]);

fn named_order(ticket: u128) -> LaneOrder {
    LaneOrder {
        identity: Some(NAMED),
        ..order(ticket)
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_with_another_processs_ticket_is_refused_and_leaves_it_the_lane() {
    let (arrivals, dialler) = listener();
    let mut door = Door::open(Box::new(arrivals), 1);
    let lane = door.expect(Purpose::LinkLane, &named_order(1), (0, 1));

    for thief in [None, Some(OTHER)] {
        let stolen = knock(&dialler(NEIGHBOUR).proving(thief), 1);
        answer_all(&mut door).await;
        let answer = stolen.await.unwrap().unwrap_err();
        assert_eq!(
            answer,
            HandshakeError::Refused(UNTRUSTED.into()),
            "{thief:?}"
        );
    }
    let named = knock(&dialler(NEIGHBOUR).proving(Some(NAMED)), 1);
    answer_all(&mut door).await;

    assert!(named.await.unwrap().is_ok());
    assert_eq!(lane.await.unwrap().identity(), Some(NAMED));
}

#[tokio::test(start_paused = true)]
async fn whoever_answers_with_another_key_does_not_see_the_ticket() {
    for answers in [None, Some(OTHER)] {
        let (mut arrivals, dialler) = listener();
        let dialler = dialler(NEIGHBOUR).meeting(answers);

        let dialled = dial(&dialler, &named_order(1), preamble(1)).await;

        assert_eq!(dialled.err(), Some(LaneFailure::Untrusted), "{answers:?}");
        let mut incoming = poll_fn(|cx| arrivals.poll_accept(cx)).await.unwrap();
        let said = recv_some(incoming.lane.rx.as_mut(), &mut [0; 64]).await;
        assert_eq!(said, Ok(0), "it was told something");
    }
}
