//! Peers that are killed and peers that join while all of them train, over the network in memory, plain TCP, TLS
//! and QUIC: the same story with ten seeds each. At the end everybody holds the same bits.
//!
//! What the example `diloco` shows with processes, in one: a peer is a thread with a runtime of its own, and it
//! is killed by ending that runtime where it stands. `IN_ONE_PROCESS_SEED` chooses one seed.

mod life;
mod stage;

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pccl_tests::over::Over;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use life::{Fate, Final, Life, Pace, Tells};
use stage::Stage;

const SEEDS: Range<u64> = 0..10;

/// Peers at first, which begin together.
const PEERS: usize = 4;
const KILLS: usize = 3;
const JOINS: usize = 3;

/// Kills and joins happen before this round.
const EVENTFUL: u64 = 16;

/// Rounds after all of them.
const QUIET: u64 = 4;

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(60);

#[test]
fn all_end_with_the_same_bits_whoever_is_killed_or_joins_in_memory() {
    with_ten_seeds(Stage::in_memory);
}

#[test]
fn all_end_with_the_same_bits_whoever_is_killed_or_joins_over_plain_tcp() {
    with_ten_seeds(|| Stage::over(Over::Tcp));
}

#[test]
fn all_end_with_the_same_bits_whoever_is_killed_or_joins_over_tls() {
    with_ten_seeds(|| Stage::over(Over::Tls));
}

#[test]
fn all_end_with_the_same_bits_whoever_is_killed_or_joins_over_quic() {
    with_ten_seeds(|| Stage::over(Over::Quic));
}

fn with_ten_seeds(stage: impl Fn() -> Stage) {
    let chosen = std::env::var("IN_ONE_PROCESS_SEED").ok();
    let seeds = chosen.map_or(SEEDS, |seed| {
        let seed = seed.parse().expect("a number");
        seed..seed + 1
    });
    for seed in seeds {
        println!("seed {seed}");
        Run::new(stage(), seed).play();
    }
}

struct Run {
    stage: Stage,
    random: StdRng,
    pace: Arc<Pace>,
    tells: Sender<Tells>,
    told: Receiver<Tells>,
}

/// What has come to pass.
#[derive(Default)]
struct Account {
    joined: usize,
    killed: usize,
    ends: Vec<Final>,
}

impl Run {
    fn new(stage: Stage, seed: u64) -> Self {
        let (tells, told) = channel();
        Self {
            stage,
            random: StdRng::seed_from_u64(seed),
            pace: Arc::new(Pace::default()),
            tells,
            told,
        }
    }

    fn play(mut self) {
        let mut account = Account::default();
        for number in 0..PEERS {
            // Whoever is not killed keeps what was learnt.
            let fate = (number < KILLS).then(|| Fate::draw(&mut self.random, 1..EVENTFUL));
            self.start(fate, PEERS);
        }
        let mut joins: Vec<u64> = (0..JOINS)
            .map(|_| self.random.random_range(1..EVENTFUL))
            .collect();
        joins.sort_unstable();
        for at in joins {
            self.until(&mut account, |run, _| run.pace.round() >= at);
            self.start(None, 1);
        }
        let all_joined = PEERS + JOINS;
        self.until(&mut account, |run, account| {
            run.pace.round() >= EVENTFUL && (account.joined, account.killed) == (all_joined, KILLS)
        });
        self.pace.end_after(QUIET);
        self.until(&mut account, |_, account| {
            account.ends.len() == all_joined - KILLS
        });

        let first = &account.ends[0];
        assert!(
            first.weights.iter().any(|weight| weight.to_bits() != 0),
            "nothing was learnt"
        );
        for other in &account.ends {
            assert_eq!(other.revision, first.revision);
            let same = other.weights.iter().zip(&first.weights);
            assert!(
                same.clone().all(|(a, b)| a.to_bits() == b.to_bits()),
                "other bits"
            );
        }
    }

    /// The first round of whoever begins waits for so many peers.
    fn start(&mut self, fate: Option<Fate>, wait_for: usize) {
        let life = Life {
            builder: self.stage.builder(),
            seed: self.random.random(),
            wait_for,
            pace: Arc::clone(&self.pace),
            fate,
            tells: self.tells.clone(),
        };
        thread::spawn(move || life.live());
    }

    /// Hears what happens until this is true.
    fn until(&self, account: &mut Account, is_true: impl Fn(&Self, &Account) -> bool) {
        while !is_true(self, account) {
            match self.told.recv_timeout(GUARD).expect("a sign of life") {
                Tells::Joined => account.joined += 1,
                Tells::Round => {}
                Tells::Killed => account.killed += 1,
                Tells::Ended(end) => account.ends.push(end),
                Tells::Failed(why) => panic!("{why}"),
            }
        }
    }
}
