//! What is drawn from a seed: the peers, what they do, the paths between them, and what goes wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use pccl_transport_memory::Path;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::fault::{Fault, Harmless, What, draw};
use crate::churn::numbers::mixed;

/// A pause that is not long. There is always one, so that runs of long times have few steps.
const SHORT: Duration = Duration::from_secs(1);

/// All that distinguishes one run from another.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where everything comes from.
    pub seed: u64,
    /// The group of each peer that is there from the beginning.
    pub groups: Vec<u32>,
    /// Whether peers name sites, and how many there are.
    pub sites: u32,
    /// What peers do.
    pub script: Script,
    /// Lanes of an edge.
    pub lanes: u16,
    /// Of paths inside a site, and between sites.
    pub paths: [Path; 2],
    /// Small limits of the master and of the peers.
    pub is_tight: bool,
    /// How long a peer whose connection has ended may stay away.
    pub reconnect: Duration,
    /// Whether the master keeps a journal: the run then survives its death.
    pub has_journal: bool,
    /// Only such things go wrong as must not cost anybody a call.
    pub is_calm: bool,
    /// How long faults come.
    pub eventful: Duration,
    /// What goes wrong, in the order of time.
    pub faults: Vec<Fault>,
}

/// What the programs of the peers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The most elements of a buffer.
    pub elements: usize,
    /// Bytes of shared state.
    pub state_bytes: usize,
    /// The pause between two steps, at most.
    pub think: Duration,
    /// One call in so many is given up and made again. 0: none.
    pub gives_up: u32,
    /// The topology is optimized in one step of so many. 0: never.
    pub optimizes: u64,
    /// Whether the other collectives are called as well.
    pub has_others: bool,
    /// Whether newcomers only receive the state.
    pub is_mixed: bool,
    /// Whether peers ask between steps whether others wait.
    pub asks: bool,
}

/// What is left out of a plan, to find what a failure needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Faults, by their place in the plan.
    pub faults: BTreeSet<usize>,
    /// Parts of the script.
    pub parts: BTreeSet<Part>,
    /// So many of the first peers, the last ones.
    pub peers: usize,
}

/// A part of a script that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Calls that are given up.
    GivingUp,
    /// Optimizations.
    Optimizing,
    /// The other collectives.
    Others,
    /// Strategies other than the usual one.
    Mixed,
    /// Asking whether peers are pending.
    Asking,
    /// Small limits.
    Tight,
    /// Long pauses.
    Thinking,
    /// Groups other than the first.
    Groups,
    /// Sites.
    Sites,
    /// Large buffers.
    Large,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::GivingUp,
        Self::Optimizing,
        Self::Others,
        Self::Mixed,
        Self::Asking,
        Self::Tight,
        Self::Thinking,
        Self::Groups,
        Self::Sites,
        Self::Large,
    ];
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(mixed(seed, 0x51_3a_70));
        let peers = draw_peers(&mut random);
        let group_count = if peers >= 4 && random.random_ratio(1, 5) {
            2
        } else {
            1
        };
        let script = Script::draw(&mut random, peers);
        // A measurement fills its path for a second.
        let rates: &[Option<u64>] = match script.optimizes {
            0 => &[None, None, Some(2_000_000), Some(20_000_000)],
            _ => &[Some(100_000), Some(1_000_000)],
        };
        let eventful = Duration::from_secs(random.random_range(10..=40)) + script.think * 12;
        let fault_count = *[0, 1, 1, 2, 3, 4, 6, 9].choose(&mut random).unwrap_or(&1);
        let faults: Vec<Fault> = (0..fault_count)
            .map(|_| draw(&mut random, eventful, peers))
            .collect();
        let lanes = random.random_range(1..=3);
        let paths = [
            draw_path(&mut random, 2, rates),
            draw_path(&mut random, 80, rates),
        ];
        let is_tight = random.random_ratio(1, 6);
        let reconnect = *[0, 0, 0, 3].choose(&mut random).unwrap_or(&0);
        let has_journal = random.random_ratio(1, 4);
        let mut plan = Self {
            seed,
            groups: (0..peers).map(|peer| peer as u32 % group_count).collect(),
            sites: *[0, 0, 0, 1, 2, 3].choose(&mut random).unwrap_or(&0),
            script,
            lanes,
            paths,
            is_tight,
            reconnect: Duration::from_secs(reconnect),
            has_journal,
            is_calm: random.random_ratio(1, 5),
            eventful,
            faults,
        };
        if plan.is_calm {
            plan.calm_down(&mut random);
        }
        plan.faults.sort_by_key(|fault| fault.at);
        plan
    }

    /// Nothing is in anybody's way, and every other fault is one that nobody notices.
    fn calm_down(&mut self, random: &mut StdRng) {
        self.is_tight = false;
        // Who gives up too many in a row is evicted.
        self.script.gives_up *= u32::from(self.script.gives_up > 20);
        // A measurement leaves queues behind, and who opens a lane then is not answered in time.
        self.script.optimizes = 0;
        self.reconnect = Duration::from_secs(if random.random() { 3 } else { 0 });
        let possible = Harmless {
            session: !self.reconnect.is_zero(),
            journal: self.has_journal,
        };
        for fault in &mut self.faults {
            fault.what = possible.draw(random);
        }
    }

    /// The plan less what is left out.
    #[must_use]
    pub fn without(mut self, without: &Without) -> Self {
        let mut place = 0;
        self.faults.retain(|_| {
            place += 1;
            !without.faults.contains(&(place - 1))
        });
        for part in &without.parts {
            self.leave_out(*part);
        }
        let left = self.groups.len().saturating_sub(without.peers).max(2);
        self.groups.truncate(left);
        self
    }

    fn leave_out(&mut self, part: Part) {
        let script = &mut self.script;
        match part {
            Part::GivingUp => script.gives_up = 0,
            Part::Optimizing => script.optimizes = 0,
            Part::Others => script.has_others = false,
            Part::Mixed => script.is_mixed = false,
            Part::Asking => script.asks = false,
            Part::Tight => self.is_tight = false,
            Part::Thinking => script.think = script.think.min(SHORT),
            Part::Groups => self.groups.fill(0),
            Part::Sites => self.sites = 0,
            Part::Large => script.elements = script.elements.min(100),
        }
    }

    /// Whether bits are flipped of whatever a host sends and hears.
    #[must_use]
    pub fn flips_bits(&self) -> bool {
        let flips = |fault: &Fault| matches!(fault.what, What::Flip(..));
        self.faults.iter().any(flips)
    }

    /// The site of a host, by its number. The master has a place as well.
    #[must_use]
    pub fn site_of(&self, host: usize) -> u32 {
        (mixed(self.seed, host as u64) % 3) as u32
    }

    /// The path from one host to another.
    #[must_use]
    pub fn path(&self, from: usize, to: usize) -> Path {
        let [near, far] = self.paths;
        if self.site_of(from) == self.site_of(to) {
            near
        } else {
            far
        }
    }

    /// How long others wait for an idle peer.
    #[must_use]
    pub fn late(&self) -> Duration {
        Duration::from_secs(60) + self.script.think * 6
    }

    /// How long any call may wait.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.late() * 4 + Duration::from_secs(400)
    }

    /// How long a peer may take to leave: time in which the machine stands still counts for nobody.
    pub(super) fn farewell(&self) -> Duration {
        let still = self.faults.iter().map(|fault| match fault.what {
            What::StandStill(lasting) => lasting,
            _ => Duration::ZERO,
        });
        Duration::from_secs(10) + still.sum::<Duration>()
    }

    /// How long a peer that holds the state of this revision works while others fetch it, in one run of four. It is
    /// not drawn: the other runs are the same without it.
    pub(super) fn work_beside(&self, revision: u64) -> Option<Duration> {
        (self.seed % 4 == 1).then(|| Duration::from_millis(mixed(self.seed, revision) % 3000))
    }
}

impl Script {
    fn draw(random: &mut StdRng, peers: usize) -> Self {
        let largest: &[usize] = if peers > 8 {
            &[50, 500]
        } else {
            &[50, 500, 3000, 20_000]
        };
        let think = [1000, 1000, 2000, 5000, 20_000];
        let think = *think.choose(random).unwrap_or(&1000);
        Self {
            elements: *largest.choose(random).unwrap_or(&50),
            state_bytes: *[64, 1000, 20_000].choose(random).unwrap_or(&64),
            think: Duration::from_millis(think),
            gives_up: *[0, 0, 0, 40, 10].choose(random).unwrap_or(&0),
            optimizes: *[0, 0, 0, 2, 5].choose(random).unwrap_or(&0),
            has_others: random.random_ratio(1, 3),
            is_mixed: random.random_ratio(1, 4),
            asks: random.random_ratio(1, 4),
        }
    }
}

fn draw_peers(random: &mut StdRng) -> usize {
    match random.random_range(0..40) {
        0..16 => random.random_range(2..=3),
        16..33 => random.random_range(3..=5),
        33..39 => random.random_range(6..=9),
        _ => random.random_range(10..=32),
    }
}

fn draw_path(random: &mut StdRng, slowest_ms: u64, rates: &[Option<u64>]) -> Path {
    let windows = [4096, 64 * 1024, 64 * 1024, 1 << 20];
    // Some time has to pass, or a loop of calls that fail would never end.
    let delay = Duration::from_millis(random.random_range(1..=slowest_ms));
    let bytes_per_second = rates.choose(random).copied().flatten();
    let window = *windows.choose(random).unwrap_or(&4096);
    // What a lane leaves behind in the path holds up the next one, which is given up after some seconds.
    let of_a_second = bytes_per_second.map(|rate| usize::try_from(rate).unwrap_or(usize::MAX));
    Path {
        delay,
        bytes_per_second,
        window: of_a_second.map_or(window, |most| window.min(most)),
        ..Path::DIRECT
    }
}
