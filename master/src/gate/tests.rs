//! Who is let in, who waits, and who gives way.

use std::collections::{BTreeSet, VecDeque};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

use super::*;

const TICK: Duration = Duration::from_millis(1);

/// A gate under paused time that has its keeper.
fn gate(limits: Limits) -> Arc<Gate> {
    let gate = Gate::new(&limits);
    let keeper = Arc::clone(&gate);
    tokio::spawn(async move { keeper.keep().await });
    gate
}

/// So many places in all and per address.
fn places(strangers_max: usize, strangers_per_address_max: usize) -> Limits {
    Limits {
        strangers_max,
        strangers_per_address_max,
        ..Limits::default()
    }
}

fn ip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Somebody from there, who is inside at once.
async fn enter(gate: &Arc<Gate>, from: u8) -> Permit {
    let turn = gate.arrive(ip(from)).expect("a turn");
    turn.comes().await.expect("a place")
}

/// Somebody from there, who waits for its turn.
fn wait(gate: &Arc<Gate>, from: u8) -> JoinHandle<Result<Permit, Full>> {
    tokio::spawn(gate.arrive(ip(from)).expect("a turn").comes())
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_take_the_places_of_the_others() {
    let gate = gate(places(8, 2));
    let (_first, _second) = (enter(&gate, 1).await, enter(&gate, 1).await);

    let third = wait(&gate, 1);
    let _other = enter(&gate, 2).await;
    sleep(TICK).await;

    assert!(!third.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_back_is_given_to_whoever_came_first() {
    let gate = gate(places(1, 1));
    let first = enter(&gate, 1).await;
    let (second, third) = (wait(&gate, 1), wait(&gate, 1));
    sleep(TICK).await;

    drop(first);
    let second = second.await.unwrap().unwrap();
    sleep(TICK).await;
    assert!(!third.is_finished());

    drop(second);
    drop(third.await.unwrap().unwrap());
    assert!(gate.lock().room.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_address_with_fewer_places_goes_first() {
    let gate = gate(places(2, 2));
    let _greedy = enter(&gate, 1).await;
    let greedy = enter(&gate, 1).await;
    let greedier = wait(&gate, 1);
    let modest = wait(&gate, 2);
    sleep(TICK).await;

    drop(greedy);
    sleep(TICK).await;

    assert!(modest.is_finished() && !greedier.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_silent_stranger_of_the_largest_crowd_gives_way_after_the_grace() {
    let limits = places(3, 3);
    let grace = limits.grace;
    let gate = gate(limits);
    let single = enter(&gate, 2).await;
    sleep(TICK).await;
    let (first, second) = (enter(&gate, 1).await, enter(&gate, 1).await);
    let newcomer = wait(&gate, 3);

    sleep(grace - TICK).await;
    first.pulse().beat();
    assert!(!newcomer.is_finished());
    sleep(2 * TICK).await;

    let _newcomer = newcomer.await.unwrap().unwrap();
    second.dismissed().await;
    for stays in [&single, &first] {
        let told = tokio::time::timeout(TICK, stays.dismissed()).await;
        assert!(told.is_err(), "two gave way to one");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_way_while_nobody_waits() {
    let limits = places(2, 2);
    let gate = gate(limits.clone());
    let silent = enter(&gate, 1).await;
    sleep(10 * limits.grace).await;

    let told = tokio::time::timeout(TICK, silent.dismissed()).await;

    assert!(told.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_has_said_hello_does_not_give_way() {
    let limits = places(1, 1);
    let gate = gate(limits.clone());
    let known = enter(&gate, 1).await;
    known.greeted();
    let newcomer = wait(&gate, 2);

    sleep(limits.waiting - limits.grace).await;

    assert!(!newcomer.is_finished());
}

#[tokio::test(start_paused = true)]
async fn silence_in_which_the_master_stood_still_is_not_the_strangers() {
    let limits = places(1, 1);
    let gate = gate(limits.clone());
    let stranger = enter(&gate, 1).await;
    let waiting = wait(&gate, 2);
    sleep(TICK).await;
    let pulse = Arc::clone(stranger.pulse());
    let notified = Arc::new(Notify::new());
    let arrived = Arc::clone(&notified);
    // It spoke meanwhile, and its task reads that as soon as it can.
    tokio::spawn(async move {
        arrived.notified().await;
        pulse.beat();
    });
    sleep(TICK).await;

    notified.notify_one();
    advance(10 * limits.grace).await;
    sleep(TICK).await;

    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn newcomers_of_one_address_are_few_and_the_refusal_says_what_to_do() {
    let gate = gate(Limits {
        newcomers_per_address_max: 2,
        ..Limits::default()
    });
    let (first, second) = (enter(&gate, 1).await, enter(&gate, 1).await);
    first.registered();
    // With two that may become newcomers, a third has to wait and see.
    let third = wait(&gate, 1);
    sleep(TICK).await;
    assert!(!third.is_finished());
    second.registered();

    let fourth = gate.arrive(ip(1)).unwrap_err();
    let _other = enter(&gate, 2).await;
    let text = fourth.to_string();

    assert_eq!(fourth, Full::Newcomers(2));
    assert!(
        text.contains("update_topology") && text.len() <= 255,
        "{text}"
    );
    assert_eq!(third.await.unwrap().unwrap_err(), Full::Newcomers(2));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_that_is_admitted_makes_room_for_the_next() {
    let gate = gate(Limits {
        newcomers_per_address_max: 1,
        ..Limits::default()
    });
    let first = enter(&gate, 1).await;
    let second = wait(&gate, 1);
    first.registered();

    drop(first);

    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_is_turned_away() {
    let limits = Limits {
        strangers_max: 1,
        grace: Duration::from_secs(3600),
        ..Limits::default()
    };
    let gate = gate(limits.clone());
    let begin = Instant::now();
    let first = enter(&gate, 1).await;

    let second = wait(&gate, 2).await.unwrap();

    assert_eq!(second.unwrap_err(), Full::TooLong);
    assert_eq!(begin.elapsed(), limits.waiting);
    drop(first);
    assert!(gate.lock().room.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_line_outside_is_bounded_per_address_and_in_total() {
    let gate = gate(Limits {
        strangers_max: 1,
        waiting_max: 3,
        waiting_per_address_max: 2,
        ..Limits::default()
    });
    let _inside = enter(&gate, 1).await;
    let earlier = wait(&gate, 1);
    let latest = wait(&gate, 1);

    let third = gate.arrive(ip(1)).unwrap_err();
    let _other = wait(&gate, 2);
    // The line is full: who comes from elsewhere goes before the latest of the largest crowd.
    let another = wait(&gate, 3);
    let last = gate.arrive(ip(4)).unwrap_err();

    assert_eq!(third, Full::OutsideFromAddress);
    assert_eq!(latest.await.unwrap().unwrap_err(), Full::Outside);
    assert_eq!(last, Full::Outside);
    assert!(!earlier.is_finished() && !another.is_finished());
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_leaves_no_trace() {
    let gate = gate(places(1, 1));
    let inside = enter(&gate, 1).await;
    let given_up = gate.arrive(ip(2)).unwrap();
    let waits = wait(&gate, 3);

    drop(given_up);
    assert_eq!(gate.lock().waiting.len(), 1);
    drop(inside);
    drop(waits.await.unwrap().unwrap());

    let book = gate.lock();
    assert!(book.room.is_empty());
    assert!(book.waiting.is_empty() && book.inside.is_empty());
}

/// What the limits promise, whatever happens.
fn check(room: &mut Room, limits: &Limits, alive: &BTreeSet<ArrivalNumber>) {
    let counts = room.counts();
    assert_eq!(counts.everybody, *alive);
    assert!(counts.strangers <= limits.strangers_max);
    assert!(counts.waiting <= limits.waiting_max);
    for (strangers, newcomers, waiting) in counts.origins {
        assert!(strangers <= limits.strangers_per_address_max);
        assert!(strangers + newcomers <= limits.newcomers_per_address_max);
        assert!(waiting <= limits.waiting_per_address_max);
    }
    assert!(room.next_turn().is_none(), "somebody waits beside a place");
}

#[test]
fn at_every_time_the_limits_hold_and_nobody_waits_beside_a_place() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let limits = Limits {
            strangers_max: random.random_range(1..6),
            strangers_per_address_max: random.random_range(1..4),
            newcomers_per_address_max: random.random_range(1..5),
            waiting_max: random.random_range(1..8),
            waiting_per_address_max: random.random_range(1..5),
            ..Limits::default()
        };
        let mut room = Room::new(&limits);
        let mut alive: VecDeque<ArrivalNumber> = VecDeque::new();
        for _ in 0..200 {
            let someone = alive.get(random.random_range(0..8)).copied();
            match (random.random_range(0..5), someone) {
                (0, Some(number)) => room.greeted(number),
                (1, Some(number)) => room.registered(number),
                (2, Some(number)) => {
                    room.leave(number);
                    alive.retain(|other| *other != number);
                }
                (3, _) => {
                    if let Some((_, number)) = room.next_to_give_way() {
                        room.leave(number);
                        alive.retain(|other| *other != number);
                        assert!(room.next_turn().is_some(), "gave way for nothing");
                    }
                }
                _ => {
                    let (number, arrival) =
                        room.arrive(Origin::from(ip(random.random_range(0..4))));
                    if let Decision::Waits { instead_of } = arrival {
                        alive.retain(|other| Some(*other) != instead_of);
                        alive.push_back(number);
                    }
                }
            }
            while room.next_turn().is_some() {}
            check(&mut room, &limits, &alive.iter().copied().collect());
        }
        for number in alive {
            room.leave(number);
        }
        assert!(room.is_empty());
    }
}
