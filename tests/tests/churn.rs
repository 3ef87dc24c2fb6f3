//! Peers that come and go at random: processes are started and killed at random moments, some where
//! they stand still in the middle of something. Whatever happens, results are right, shared state is
//! one, and the run goes on. What all machines said comes out the same when it is replayed.
//!
//! What is done to whom depends on the seed, what comes of it on the machine as well. The environment
//! variable `CHURN_SEED` chooses another seed.
//!
//! The last test is the short version of `--bin churn`, which does more to its peers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use pccl_master::RunningMaster;
use pccl_tests::churn::growth::Growth;
use pccl_tests::churn::plan::{Act, Plan};
use pccl_tests::churn::{Churn as Schedule, Kills, Length, churn};
use pccl_tests::over::Over;
use pccl_tests::processes::{PATIENCE, Process, Swarm};
use pccl_tests::roles::Role;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Event, Moment};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The default seed.
const SEED: u64 = 20;

const PEERS_MIN: usize = 2;
const PEERS_MAX: usize = 6;

/// Faults of a schedule.
const FAULTS: u32 = 40;

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
    /// Who each process is in the run.
    identities: BTreeMap<Process, u64>,
    /// Killed, and nobody has told yet of a round without it.
    missed: BTreeSet<u64>,
    /// Kills after which somebody has.
    survived: usize,
    /// States that newcomers have fetched.
    fetched: usize,
}

impl Churn {
    fn new(seed: u64, swarm: Swarm, master: &RunningMaster, halves: bool) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            swarm,
            options: PeerOptions {
                elements: 20_000,
                sync: true,
                halves,
                tell_every: 10,
                ..PeerOptions::of(master)
            },
            peers: BTreeMap::new(),
            results: BTreeMap::new(),
            states: BTreeMap::new(),
            last_commit: Instant::now(),
            identities: BTreeMap::new(),
            missed: BTreeSet::new(),
            survived: 0,
            fetched: 0,
        }
    }

    /// Hears the peers for so long, and checks what they tell.
    fn hear(&mut self, lasting: Duration) {
        let end = Instant::now() + lasting;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let heard = self.swarm.next_within(left).unwrap();
            assert!(self.last_commit.elapsed() < PATIENCE, "the run hangs");
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
                if self.peers.get(&process) == Some(&Standing::New) {
                    self.peers.insert(process, Standing::Settled);
                }
                let newest = self.results.last_key_value();
                if newest.is_none_or(|(newest, _)| *newest < commit.revision) {
                    let missed = self.missed.len();
                    let contributed = |peer: &u64| commit.rounds.contains_key(peer);
                    self.missed.retain(contributed);
                    self.survived += missed - self.missed.len();
                }
                let known = self
                    .results
                    .entry(commit.revision)
                    .or_insert(commit.checksum);
                assert_eq!(*known, commit.checksum, "two results of one round");
            }
            Event::Synced(sync) => {
                self.fetched += usize::from(sync.fetched);
                let known = self.states.entry(sync.revision).or_insert(sync.checksum);
                assert_eq!(*known, sync.checksum, "two states of one revision");
            }
            Event::StandsStill { .. } => self.kill(process),
            Event::GaveUp { error, .. } => panic!("{process:?} gave up: {error}"),
            Event::Joined { peer, .. } => {
                self.identities.insert(process, peer);
            }
            Event::Armed
            | Event::Computes { .. }
            | Event::Optimized { .. }
            | Event::CommittedSeveral { .. }
            | Event::Listening(_)
            | Event::Failed { .. }
            | Event::Warned { .. }
            | Event::Dropped { .. }
            | Event::Wrong { .. } => {}
        }
    }

    fn kill(&mut self, process: Process) {
        self.swarm.kill(process).unwrap();
        self.peers.remove(&process);
        self.missed.extend(self.identities.get(&process));
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
    is_survived(30, false);
}

#[test]
fn a_run_that_scatters_gathers_and_broadcasts_survives_peers_that_come_and_go_at_random() {
    is_survived(10, true);
}

#[test]
fn every_result_and_every_state_is_right_while_peers_are_killed_stopped_cut_off_and_added() {
    let schedule = Schedule {
        seed: seed(),
        length: Length::Faults(FAULTS),
        max_peers: PEERS_MAX,
        elements: 1 << 16,
        state_bytes: 1 << 18,
        over: Over::of_environment(),
        kill_master: None,
        kills: Kills::Peers,
        is_verbose: false,
    };

    let report = churn(Path::new(env!("CARGO_BIN_EXE_churn")), schedule).unwrap();

    println!("{report}");
    assert_eq!(report.findings, []);
    assert!(report.tally.commits > 0, "nothing was reduced");
    assert!(
        report.tally.fetches > 0,
        "no newcomer has fetched the state"
    );
    assert_eq!(report.tally.deaths, kills_planned(schedule.seed));
    assert_eq!(report.faults.killed, report.tally.deaths);
    for who in ["master", "peer 0", "peer 1"] {
        let is_its_heap = |row: &&Growth| row.who == who && row.what == "heap bytes";
        let heap = report.growth.iter().find(is_its_heap);
        let bytes = heap.and_then(|row| row.medians.first());
        assert!(
            bytes.is_some_and(|bytes| *bytes > 10_000),
            "{who}: {heap:?}"
        );
    }
}

/// Kills of the schedule of this seed. At its end the two peers that live long are alone.
fn kills_planned(seed: u64) -> u64 {
    let mut plan = Plan::new(seed, PEERS_MAX);
    let mut acts: Vec<Act> = (0..FAULTS).map(|_| plan.next_fault().1).collect();
    acts.extend(plan.resize(PEERS_MIN));
    let kills = acts.iter().filter(|act| matches!(act, Act::Kill(_)));
    kills.count() as u64
}

fn seed() -> u64 {
    let chosen = std::env::var("CHURN_SEED").ok();
    let seed = chosen.map_or(SEED, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    seed
}

/// The run ends when so many peers have been killed, and after each the others have committed without it.
fn is_survived(kills: usize, halves: bool) {
    let seed = seed();
    let swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
    let mut churn = Churn::new(seed, swarm, &master, halves);
    churn.start();

    while churn.survived < kills {
        churn.act();
        let pause = churn.random.random_range(20..400);
        churn.hear(Duration::from_millis(pause));
    }

    println!(
        "{} kills survived, {} rounds heard of, {} states fetched",
        churn.survived,
        churn.results.len(),
        churn.fetched
    );
    // Whoever was killed in a settled run had fetched the state before, but for the first.
    assert!(churn.fetched + 1 >= kills, "hardly anything was fetched");
    println!("{}", churn.swarm.conform().unwrap());
}
