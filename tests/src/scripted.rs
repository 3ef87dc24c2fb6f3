//! A peer that does what its arguments say: the usual loop of a training program on numbers whose
//! sums can be checked.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use pccl::{Algorithm, CollectiveReport, Communicator, Error, Reduce, SharedState, SyncStrategy};
use pccl_subprocess::{obey_orders, tell};

use crate::contribution::{SLOTS, checksum, fill, is_contribution, verify};
use crate::halves::{self, Failed};
use crate::over::{MasterAt, Over};
use crate::overheard::overheard;
use crate::several::Several;
use crate::talk::{self, Commit, Event, Failure, Moment, Order, now};
use crate::trap::Trap;

/// After a change of the contributors so many commits are told, whatever else is said.
const TOLD_AFTER_CHANGE: u64 = 10;

/// What a peer is to do.
#[derive(Clone, Debug, clap::Args)]
pub struct PeerOptions {
    /// The master's join string, or its address
    #[arg(long)]
    pub master: String,
    /// The peer group
    #[arg(long, default_value_t = 0)]
    pub group: u32,
    /// Its name; none, if it is empty
    #[arg(long, default_value = "")]
    pub name: String,
    /// The site that it is at; none, if it is empty
    #[arg(long, default_value = "")]
    pub site: String,
    /// Elements of f32 to reduce; 64 at least
    #[arg(long, default_value_t = 1024)]
    pub elements: usize,
    /// Rounds between two updates of the topology
    #[arg(long, default_value_t = 1)]
    pub update_every: u64,
    /// Keep a shared state, and synchronize it in each round
    #[arg(long)]
    pub sync: bool,
    /// Reduce several buffers at once, some of them quantized, and repeat those that are aborted
    #[arg(long)]
    pub several: bool,
    /// Reduce by the other collectives: scatter, gather and broadcast
    #[arg(long)]
    pub halves: bool,
    /// Ask for this algorithm in two levels, if there are sites for it
    #[arg(long, value_parser = in_levels, conflicts_with_all = ["several", "halves"])]
    pub in_levels: Option<Algorithm>,
    /// Tell of one commit in so many, besides those after a change of the contributors
    #[arg(long, default_value_t = 1)]
    pub tell_every: u64,
    /// Join again if the master has dropped this peer
    #[arg(long)]
    pub rejoin: bool,
    /// Tell the warnings that the library logs
    #[arg(long)]
    pub tell_warnings: bool,
    /// Stand still when this comes to pass for the first time
    #[arg(long)]
    pub stand_still_at: Option<Moment>,
    /// An address to give to others
    #[arg(long)]
    pub advertise: Option<IpAddr>,
    /// Send slowly to the peer that accepts lanes here
    #[arg(long)]
    pub slow_towards: Option<SocketAddr>,
}

/// The algorithm of this name.
fn in_levels(name: &str) -> Result<Algorithm, String> {
    let levels = [
        Algorithm::TwoLevel,
        Algorithm::TwoLevelRing,
        Algorithm::TwoLevelWhole,
    ];
    let named = levels.into_iter().find(|one| one.to_string() == name);
    named.ok_or_else(|| format!("{name} has no levels"))
}

impl PeerOptions {
    /// A peer that updates the topology and reduces 4 KiB in each round, and tells of each.
    #[must_use]
    pub fn of(master: impl Into<MasterAt>) -> Self {
        Self {
            master: master.into().join,
            group: 0,
            name: String::new(),
            site: String::new(),
            elements: 1024,
            update_every: 1,
            sync: false,
            several: false,
            halves: false,
            in_levels: None,
            tell_every: 1,
            rejoin: false,
            tell_warnings: false,
            stand_still_at: None,
            advertise: None,
            slow_towards: None,
        }
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = vec!["peer".into()];
        let mut say = |name: &str, value: &dyn ToString| {
            arguments.extend([format!("--{name}"), value.to_string()]);
        };
        say("master", &self.master);
        say("group", &self.group);
        say("name", &self.name);
        say("site", &self.site);
        say("elements", &self.elements);
        say("update-every", &self.update_every);
        say("tell-every", &self.tell_every);
        if let Some(moment) = self.stand_still_at {
            let name = clap::ValueEnum::to_possible_value(&moment);
            say(
                "stand-still-at",
                &name.map_or(String::new(), |name| name.get_name().to_owned()),
            );
        }
        if let Some(address) = self.advertise {
            say("advertise", &address);
        }
        if let Some(address) = self.slow_towards {
            say("slow-towards", &address);
        }
        if self.rejoin {
            arguments.push("--rejoin".into());
        }
        if self.tell_warnings {
            arguments.push("--tell-warnings".into());
        }
        if self.sync {
            arguments.push("--sync".into());
        }
        if self.several {
            arguments.push("--several".into());
        }
        if self.halves {
            arguments.push("--halves".into());
        }
        if let Some(algorithm) = self.in_levels {
            arguments.extend(["--in-levels".into(), algorithm.to_string()]);
        }
        arguments
    }
}

/// Runs until the test is gone, or nothing more can be done.
pub fn run(options: &PeerOptions) -> ExitCode {
    let trap = Trap::install(options.tell_warnings);
    if let Some(moment) = options.stand_still_at {
        trap.arm(moment);
    }
    let optimizes = Arc::<AtomicBool>::default();
    listen_for_orders(trap.clone(), Arc::clone(&optimizes));
    let end = loop {
        let (trap, optimizes) = (trap.clone(), Arc::clone(&optimizes));
        let Err(end) = Scripted::join(options, trap, optimizes).and_then(Scripted::go_on_for_ever);
        match &end {
            End::Error(error @ (Error::Kicked(_) | Error::MasterLost), _) if options.rejoin => {
                tell(&Event::Dropped {
                    why: Failure::from(error),
                    error: error.to_string(),
                });
            }
            End::Error(..) | End::Wrong(_) => break end,
        }
    };
    tell(&match end {
        End::Error(error, restored) => Event::GaveUp {
            why: Failure::from(&error),
            error: error.to_string(),
            restored,
        },
        End::Wrong(what) => Event::Wrong { what },
    });
    ExitCode::FAILURE
}

fn listen_for_orders(trap: Trap, optimizes: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        obey_orders(|order| match order {
            Order::StandStillAt(moment) => {
                trap.arm(moment);
                tell(&Event::Armed);
            }
            Order::GoOn => trap.release(),
            Order::StandStillNowhere => trap.disarm(),
            Order::Optimize => optimizes.store(true, Ordering::Relaxed),
            Order::Stop => {}
        });
        std::process::exit(0);
    });
}

/// Why a peer does not go on. For reduces, with whether the buffer is as it was.
enum End {
    Error(Error, Option<bool>),
    Wrong(String),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Error(error, None)
    }
}

/// What never happens.
enum Never {}

struct Scripted<'a> {
    options: &'a PeerOptions,
    trap: Trap,
    /// Each round begins with an optimization of the topology.
    optimizes: Arc<AtomicBool>,
    comm: Communicator,
    round: u64,
    /// The next round begins with an update of the topology, whatever the options say.
    update_due: bool,
    failures: u32,
    buffer: Vec<f32>,
    several: Several,
    contributors: BTreeSet<u64>,
    commits_since_change: u64,
    /// The shared state: the last result.
    state: Vec<f32>,
    revision: u64,
}

impl<'a> Scripted<'a> {
    fn join(options: &'a PeerOptions, trap: Trap, optimizes: Arc<AtomicBool>) -> Result<Self, End> {
        let over = Over::to(&options.master);
        let (transport, heard) = overheard(over, options.slow_towards);
        let mut builder = Communicator::builder(&options.master)
            .group(options.group)
            .name(&*options.name)
            .site(&*options.site)
            .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .first_port(0)
            .transport(transport);
        if let Some(address) = options.advertise {
            builder = builder.advertise(address);
        }
        let comm = builder.connect()?;
        let (lanes_at, identity) = *heard.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes_at = lanes_at.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        tell(&Event::Joined {
            peer: comm.peer_id().0,
            lanes_at,
            identity,
        });
        Ok(Self {
            options,
            trap,
            optimizes,
            comm,
            round: 0,
            update_due: true,
            failures: 0,
            buffer: vec![0.0; options.elements.max(SLOTS)],
            several: Several::new(if options.several { options.elements } else { 0 }),
            contributors: BTreeSet::new(),
            commits_since_change: 0,
            state: vec![0.0; options.elements.max(SLOTS)],
            revision: 0,
        })
    }

    fn go_on_for_ever(mut self) -> Result<Never, End> {
        loop {
            self.round += 1;
            self.failures = 0;
            self.trap.begin_round(self.round);
            while !self.attempt()? {}
        }
    }

    /// True: the round is over. False: a call has to be made again.
    fn attempt(&mut self) -> Result<bool, End> {
        if self.update_due || self.round.is_multiple_of(self.options.update_every) {
            let updated = self.comm.update_topology().map(drop);
            if !self.succeeded(updated)? {
                return Ok(false);
            }
            self.update_due = false;
        }
        if self.optimizes.load(Ordering::Relaxed) {
            let optimized = self.optimize();
            if !self.succeeded(optimized)? {
                return Ok(false);
            }
        }
        if self.options.sync {
            let synced = self.synchronize();
            if !self.succeeded(synced)? {
                return Ok(false);
            }
        }
        if self.options.several {
            return self.reduce_several();
        }
        if self.options.halves {
            return self.reduce_in_halves();
        }
        fill(&mut self.buffer, self.comm.peer_id().0, self.round);
        self.reduce()
    }

    /// False: it failed and may be called again.
    fn succeeded(&mut self, outcome: Result<(), Error>) -> Result<bool, Error> {
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.is_retryable() => {
                self.note_failure(&error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn optimize(&mut self) -> Result<(), Error> {
        let report = self.comm.optimize_topology()?;
        let ring = report.ring.iter().map(|peer| peer.0).collect();
        tell(&Event::Optimized { ring });
        Ok(())
    }

    fn note_failure(&mut self, error: &Error) {
        self.failures += 1;
        self.update_due |= matches!(error, Error::Conflict(_));
        let (why, error, at) = (Failure::from(error), error.to_string(), now());
        tell(&Event::Failed { why, error, at });
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        let mut state = SharedState::at(self.revision);
        state.entry("state", &mut self.state)?;
        let report = self
            .comm
            .sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
        self.revision = report.revision;
        let fetched = report.entries_received > 0;
        if fetched || self.round.is_multiple_of(self.options.tell_every) {
            let checksum = checksum(&self.state);
            tell(&Event::Synced(talk::Sync {
                revision: self.revision,
                checksum,
                fetched,
            }));
        }
        Ok(())
    }

    /// Calls again with the buffer as it comes back, so that a buffer that is not restored spoils the
    /// sum. False: the topology has to be updated first.
    fn reduce(&mut self) -> Result<bool, End> {
        let mut sum = Reduce::sum();
        if let Some(wish) = self.options.in_levels {
            sum = sum.algorithm(wish);
        }
        loop {
            match self.comm.all_reduce(&mut self.buffer, sum) {
                Ok(report) => {
                    self.check_algorithm(&report)?;
                    self.committed(&report, now())?;
                    return Ok(true);
                }
                Err(error) if error.is_retryable() => {
                    self.note_failure(&error);
                    if self.update_due {
                        return Ok(false);
                    }
                }
                Err(error) => {
                    let me = self.comm.peer_id().0;
                    let restored = is_contribution(&self.buffer, me, self.round);
                    return Err(End::Error(error, Some(restored)));
                }
            }
        }
    }

    /// That the wish is granted if there are several peers at one of the sites, and three of these for a ring.
    fn check_algorithm(&self, report: &CollectiveReport) -> Result<(), End> {
        let (sites, algorithm) = (report.sites, report.algorithm);
        let has_levels = sites > 1 && report.contributors.len() > sites;
        let is_denied = |wish: Algorithm| {
            let is_possible = wish != Algorithm::TwoLevelRing || sites > 2;
            has_levels && is_possible && wish != algorithm
        };
        match self.options.in_levels.is_some_and(is_denied) {
            true => Err(End::Wrong(format!("{algorithm} among {sites} sites"))),
            false => Ok(()),
        }
    }

    /// Begins anew after a failure, as all do. False: the topology has to be updated first.
    fn reduce_in_halves(&mut self) -> Result<bool, End> {
        loop {
            fill(&mut self.buffer, self.comm.peer_id().0, self.round);
            let mut failures = Vec::new();
            let note = |error: &Error| failures.push(error.clone());
            let reduced = halves::reduce(&self.comm, &mut self.buffer, note);
            failures.iter().for_each(|error| self.note_failure(error));
            match reduced {
                Ok(report) => {
                    self.committed(&report, now())?;
                    return Ok(true);
                }
                Err(Failed::Error(error)) if error.is_retryable() => {
                    self.note_failure(&error);
                    if self.update_due {
                        return Ok(false);
                    }
                }
                Err(Failed::Error(error)) => return Err(End::Error(error, Some(true))),
                Err(Failed::Wrong(what)) => return Err(End::Wrong(what)),
            }
        }
    }

    /// Leaves all repetition to the library. False: the topology has to be updated first.
    fn reduce_several(&mut self) -> Result<bool, End> {
        let (me, round) = (self.comm.peer_id().0, self.round);
        self.several.fill(me, round);
        match self.several.reduce(&self.comm) {
            Ok(reports) => {
                let parts = self.several.check(&reports).map_err(End::Wrong)?;
                tell(&Event::CommittedSeveral { round, parts });
                Ok(true)
            }
            Err(failed) => {
                let restored = self.several.is_restored(&failed, me, round);
                Err(End::Error(failed.into(), Some(restored)))
            }
        }
    }

    fn committed(&mut self, report: &CollectiveReport, at: talk::Nanos) -> Result<(), End> {
        let contributors: Vec<u64> = report.contributors.iter().map(|peer| peer.0).collect();
        let rounds = verify(&self.buffer, &contributors);
        let rounds = rounds.map_err(|wrong| End::Wrong(wrong.to_string()))?;
        let contributors = contributors.into_iter().collect();
        self.commits_since_change += 1;
        if self.contributors != contributors {
            self.contributors = contributors;
            self.commits_since_change = 0;
        }
        if self.options.sync {
            self.state.copy_from_slice(&self.buffer);
            self.revision += 1;
        }
        let recent = self.commits_since_change < TOLD_AFTER_CHANGE;
        if recent || self.round.is_multiple_of(self.options.tell_every) {
            let failures = self.failures;
            let trail = if failures > 0 {
                self.trap.trail()
            } else {
                Vec::new()
            };
            tell(&Event::Committed(Commit {
                rounds,
                revision: self.revision,
                checksum: checksum(&self.buffer),
                at,
                took: report.duration.as_nanos() as talk::Nanos,
                failures,
                trail,
            }));
        }
        Ok(())
    }
}
