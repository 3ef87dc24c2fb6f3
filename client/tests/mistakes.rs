//! What users get wrong on their first day, and what they read then.
//!
//! Each test is one mistake. Its name says what the user does, its program does it, in a network in memory and under a
//! clock that does not wait, and [`expect`] holds what every peer is told against the whole text that it should be, and
//! the log against the lines that it should have, within a time that the program's own limits allow. docs/mistakes.md
//! has a row for each.
//!
//! | file | mistakes with |
//! |---|---|
//! | `addresses` | texts that are no addresses |
//! | `builders` | other settings of a peer |
//! | `collectives` | what is asked for in a collective |
//! | `handles` | what is done with a handle |
//! | `masters` | the master, or what is taken for it |
//! | `orders` | calls that do not meet, and calls at the wrong time |
//! | `ports` | where others reach a peer |
//! | `states` | shared state |
//! | `waits` | calls that others never make |
//! | `world` | (what the programs are written in) |

#[path = "mistakes/addresses.rs"]
mod addresses;
#[path = "mistakes/builders.rs"]
mod builders;
#[path = "mistakes/collectives.rs"]
mod collectives;
#[path = "mistakes/handles.rs"]
mod handles;
#[path = "mistakes/masters.rs"]
mod masters;
#[path = "mistakes/orders.rs"]
mod orders;
#[path = "mistakes/ports.rs"]
mod ports;
#[path = "mistakes/states.rs"]
mod states;
mod support;
#[path = "mistakes/waits.rs"]
mod waits;
#[path = "mistakes/world.rs"]
mod world;

use std::time::Duration;

use pccl::{Communicator, Error};
use support::log::Log;
use tokio::time::{Instant, timeout};
use world::World;

/// What a mistake has to lead to.
#[derive(Clone, Copy, Debug, Default)]
struct Told<'a> {
    /// What each peer's call fails with, in the order in which the program returns them. Empty text: it succeeds.
    peers: &'a [&'a str],
    /// Lines that the log has, in this order, among others.
    log: &'a [&'a str],
    /// The program has ended by then, by the clock of its timers.
    within: Duration,
}

/// Runs a program that makes a mistake, and compares what its peers are told.
fn expect(told: Told<'_>, program: impl AsyncFnOnce(&World) -> Vec<Result<(), Error>>) {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let world = World::default();
    let (heard, took) = log.of(|| {
        runtime.block_on(async {
            let begin = Instant::now();
            let heard = timeout(2 * told.within, program(&world)).await;
            (heard.expect("the program ends"), begin.elapsed())
        })
    });

    let texts: Vec<String> = heard.into_iter().map(text).collect();
    assert_eq!(texts, told.peers);
    assert!(took <= told.within, "it took {took:?}");
    let lines = log.lines();
    let mut all = lines.iter();
    for expected in told.log {
        assert!(
            all.any(|line| line == expected),
            "no {expected:?}, at its place, in {lines:#?}"
        );
    }
}

/// What two peers of one group are told by calls that end within a second.
fn expect_of_two(
    told: [&str; 2],
    calls: impl AsyncFnOnce(&mut Communicator, &mut Communicator) -> [Result<(), Error>; 2],
) {
    let told = Told {
        peers: &told,
        within: seconds(2),
        ..Told::default()
    };
    expect(told, async |world| {
        let (mut first, mut second) = world.two().await;
        calls(&mut first, &mut second).await.into()
    });
}

/// The results of two calls, without what they have returned.
fn ends<T, U, E: Into<Error>, F: Into<Error>>(
    (first, second): (Result<T, E>, Result<U, F>),
) -> [Result<(), Error>; 2] {
    [
        first.map(drop).map_err(Into::into),
        second.map(drop).map_err(Into::into),
    ]
}

fn text(heard: Result<(), Error>) -> String {
    heard
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

/// A row of docs/mistakes.md has the name of its test.
#[test]
fn each_mistake_has_a_row_in_the_documentation() {
    let rows = include_str!("../../docs/mistakes.md");
    let files = [
        include_str!("mistakes/addresses.rs"),
        include_str!("mistakes/builders.rs"),
        include_str!("mistakes/collectives.rs"),
        include_str!("mistakes/handles.rs"),
        include_str!("mistakes/masters.rs"),
        include_str!("mistakes/orders.rs"),
        include_str!("mistakes/ports.rs"),
        include_str!("mistakes/states.rs"),
    ];
    let tests = files
        .iter()
        .flat_map(|file| file.split("#[test]\nfn ").skip(1));
    let names = tests.map(|test| test.split('(').next().unwrap().replace('_', " "));
    let lacking: Vec<String> = names
        .filter(|name| !rows.contains(&format!("| {name} |")))
        .collect();

    assert!(lacking.is_empty(), "{lacking:#?}");
}

/// As a limit.
const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
