//! Peers that come and go at random: processes are started and killed at random moments, some where
//! they stand still in the middle of something. Whatever happens, results are right, shared state is
//! one, and the run goes on. What all machines said comes out the same when it is replayed.
//!
//! What is done to whom depends on the seed, what comes of it on the machine as well. The environment
//! variable `CHURN_SEED` chooses another seed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use pccl_tests::processes::{Process, Swarm};
use pccl_tests::roles::Role;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Event, Moment};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The seed, unless said otherwise.
const SEED: u64 = 20;

const LASTING: Duration = Duration::from_secs(20);

/// A run in which nobody has committed anything for so long has stalled.
const STALL: Duration = Duration::from_secs(10);

const PEERS_MIN: usize = 2;
const PEERS_MAX: usize = 6;

const MOMENTS: [Moment; 5] = [
    Moment::ReduceVoted,
    Moment::FrameSent,
    Moment::CompletionVoted,
    Moment::TopologyVoted,
    Moment::SyncPlanned,
];

/// Where a peer stands, as far as killing others is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It may not have the state yet.
    New,
    /// It has the state.
    Settled,
    /// It is killed as soon as it stands still.
    Doomed,
}

struct Churn {
    random: StdRng,
    swarm: Swarm,
    options: PeerOptions,
    peers: BTreeMap<Process, Standing>,
    /// Results and states that were seen, by revision.
    results: BTreeMap<u64, u64>,
    states: BTreeMap<u64, u64>,
    last_commit: Instant,
    longest_gap: Duration,
    kills: u32,
    commits: u32,
}

impl Churn {
    fn new(seed: u64, swarm: Swarm, master: SocketAddr) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            swarm,
            options: PeerOptions {
                elements: 20_000,
                sync: true,
                tell_every: 10,
                ..PeerOptions::of(master)
            },
            peers: BTreeMap::new(),
            results: BTreeMap::new(),
            states: BTreeMap::new(),
            last_commit: Instant::now(),
            longest_gap: Duration::ZERO,
            kills: 0,
            commits: 0,
        }
    }

    /// Hears the peers for so long, and checks what they tell.
    fn hear(&mut self, lasting: Duration) {
        let end = Instant::now() + lasting;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let heard = self.swarm.next_within(left).unwrap();
            self.longest_gap = self.longest_gap.max(self.last_commit.elapsed());
            assert!(
                self.longest_gap < STALL,
                "nothing was committed for {STALL:?}"
            );
            match heard {
                Some((process, event)) => self.note(process, event),
                None => return,
            }
        }
    }

    fn note(&mut self, process: Process, event: Event) {
        match event {
            Event::Committed(commit) => {
                self.last_commit = Instant::now();
                self.commits += 1;
                if self.peers.get(&process) == Some(&Standing::New) {
                    self.peers.insert(process, Standing::Settled);
                }
                let known = self
                    .results
                    .entry(commit.revision)
                    .or_insert(commit.checksum);
                assert_eq!(*known, commit.checksum, "two results of one round");
            }
            Event::Synced(sync) => {
                let known = self.states.entry(sync.revision).or_insert(sync.checksum);
                assert_eq!(*known, sync.checksum, "two states of one revision");
            }
            Event::StandsStill { .. } => self.kill(process),
            Event::GaveUp { error, .. } => panic!("{process:?} gave up: {error}"),
            Event::Armed
            | Event::CommittedSeveral { .. }
            | Event::Joined { .. }
            | Event::Listening { .. }
            | Event::Failed { .. }
            | Event::Wrong { .. } => {}
        }
    }

    fn kill(&mut self, process: Process) {
        self.swarm.kill(process).unwrap();
        self.peers.remove(&process);
        self.kills += 1;
    }

    fn start(&mut self) {
        let process = self.swarm.start(&Role::Peer(self.options.clone())).unwrap();
        self.peers.insert(process, Standing::New);
    }

    /// Starts a peer, or kills one where enough others have the state.
    fn act(&mut self) {
        let settled = self
            .peers
            .iter()
            .filter(|(_, standing)| **standing == Standing::Settled);
        let settled: Vec<Process> = settled.map(|(process, _)| *process).collect();
        let may_start = self.peers.len() < PEERS_MAX;
        if settled.len() <= PEERS_MIN || (may_start && self.random.random()) {
            if may_start {
                self.start();
            }
            return;
        }
        let victim = *settled.choose(&mut self.random).unwrap();
        if self.random.random() {
            let moment = *MOMENTS.choose(&mut self.random).unwrap();
            self.swarm.stand_still_at(victim, moment).unwrap();
            self.peers.insert(victim, Standing::Doomed);
        } else {
            self.kill(victim);
        }
    }
}

#[test]
fn a_run_survives_peers_that_come_and_go_at_random() {
    let chosen = std::env::var("CHURN_SEED").ok();
    let seed = chosen.map_or(SEED, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
    let mut churn = Churn::new(seed, swarm, master.local_addr());
    let end = Instant::now() + LASTING;
    churn.start();

    while Instant::now() < end {
        churn.act();
        let pause = churn.random.random_range(20..400);
        churn.hear(Duration::from_millis(pause));
    }

    println!(
        "{} kills, {} commits heard, at most {:?} between two",
        churn.kills, churn.commits, churn.longest_gap
    );
    assert!(churn.kills > 5, "hardly anybody was killed");
    assert!(churn.states.len() > 5, "hardly anything was synchronized");
    println!("{}", churn.swarm.conform().unwrap());
}
