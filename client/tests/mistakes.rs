//! What users get wrong on their first day, and what they read then.
//!
//! Each test is one mistake. Its name says what the user does, its program does it, in a network in memory and under a
//! clock that does not wait, and [`expect`] holds what every peer is told against the whole text that it should be, and
//! the log against the lines that it should have, within a time that the program's own limits allow.
//!
//! | file | mistakes with |
//! |---|---|
//! | `addresses` | texts that are no addresses |
//! | `handles` | what is done with a handle |
//! | `masters` | the master, or what is taken for it |
//! | `ports` | where others reach a peer |
//! | `world` | (what the programs are written in) |

#[path = "mistakes/addresses.rs"]
mod addresses;
#[path = "mistakes/handles.rs"]
mod handles;
#[path = "mistakes/masters.rs"]
mod masters;
#[path = "mistakes/ports.rs"]
mod ports;
mod support;
#[path = "mistakes/world.rs"]
mod world;

use std::time::Duration;

use pccl::Error;
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

fn text(heard: Result<(), Error>) -> String {
    heard
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

/// As a limit.
const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
