//! Peers that are lost at an exact point of their conversation with the master, and how long the others
//! need to go on.
//!
//! Each peer is a process behind a [`Relay`] of its own, which holds the conversation at the point. Then the
//! process is killed, or its connection is cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::over::Over;
use crate::processes::{PATIENCE, Process, Swarm, Trouble};
use crate::readme::{Program, ReadmeOptions};
use crate::relay::{Point, Relay, Side, Step};
use crate::roles::{MasterOptions, Role};
use crate::scripted::PeerOptions;
use crate::talk::{Event, Nanos, now};

/// How long to wait at a relay before something else is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// A veteran that has not come to a point for so long needs another newcomer to come to it.
const NEXT_NEWCOMER: Duration = Duration::from_secs(1);

/// The README's programs end at revision 1000. A run that has come so far is not begun anything with.
const OLD: u64 = 400;

/// A reduce that began after a loss is the second that is told of: the first may have been under way.
const TOLD_AFTER_LOSS: u32 = 2;

/// What the peers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// They update the topology and reduce, and repeat what fails.
    Usual,
    /// What the README shows.
    Readme(Program),
}

/// How a peer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Its process is killed.
    Kill,
    /// Its connection to the master ends.
    Cut,
}

/// Which peer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// One that has just connected.
    Newcomer,
    /// One that has long been in, while another one comes in.
    Veteran,
}

/// One loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Who.
    pub who: Who,
    /// Where.
    pub point: Point,
    /// How.
    pub way: Way,
}

impl Loss {
    /// The losses of a newcomer, up to its first vote to reduce.
    #[must_use]
    pub fn of_admission() -> Vec<Self> {
        let steps = [
            Step::Welcome,
            Step::Orders,
            Step::FirstReport,
            Step::LastReport,
            Step::Ring,
            Step::UpdateVote,
            Step::ReduceVote,
        ];
        Self::at(Who::Newcomer, &steps)
    }

    /// The losses of a peer of the README's programs: everywhere.
    #[must_use]
    pub fn of_readme() -> Vec<Self> {
        let mut losses = Self::at(Who::Newcomer, &Step::ALL);
        // A veteran is welcome, and has one link connected anew.
        let steps = Step::ALL.into_iter();
        let steps = steps.filter(|step| !matches!(step, Step::Welcome | Step::FirstReport));
        losses.extend(Self::at(Who::Veteran, &steps.collect::<Vec<_>>()));
        losses
    }

    fn at(who: Who, steps: &[Step]) -> Vec<Self> {
        let mut losses = Vec::new();
        for step in steps {
            for side in [Side::Before, Side::After] {
                let point = Point { step: *step, side };
                losses.extend([Way::Kill, Way::Cut].map(|way| Self { who, point, way }));
            }
        }
        losses
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.point.side {
            Side::Before => "before",
            Side::After => "after",
        };
        let words = match self.point.step {
            Step::Welcome => "its welcome",
            Step::Orders => "its orders",
            Step::FirstReport => "its first report",
            Step::LastReport => "its last report",
            Step::Ring => "the ring's announcement",
            Step::UpdateVote => "its vote to update",
            Step::SyncVote => "its vote to synchronize",
            Step::SyncPlan => "its plan of transfers",
            Step::SyncReport => "its report of transfers",
            Step::SyncEnd => "the synchronization's end",
            Step::ReduceVote => "its vote to reduce",
            Step::Commence => "the reduce's start",
            Step::ReduceReport => "its vote on the outcome",
            Step::Verdict => "the verdict",
        };
        let who = match self.who {
            Who::Newcomer => "a newcomer",
            Who::Veteran => "a veteran",
        };
        let way = match self.way {
            Way::Kill => "killed",
            Way::Cut => "cut off",
        };
        f.pad(&format!("{who} {way} {side} {words}"))
    }
}

/// A peer and its way to the master.
struct Insider {
    process: Process,
    relay: Relay,
}

impl Insider {
    fn is_held(&self) -> bool {
        self.relay.is_held_within(LOOK)
    }
}

/// What a peer has told since a loss.
#[derive(Default)]
struct Told {
    times: u32,
    latest: u64,
}

/// A master and peers, some of which are lost.
pub struct Run {
    swarm: Swarm,
    master: SocketAddr,
    program: Loop,
    /// Peers that have to go on.
    peers: Vec<Insider>,
    /// Who they are in the run, where they tell.
    identities: BTreeMap<Process, u64>,
    /// The latest round that anybody told of.
    latest: u64,
}

impl Run {
    /// Starts a master and so many peers in an empty swarm, and waits until all of them go on together.
    ///
    /// # Errors
    /// What went wrong.
    pub fn start(swarm: Swarm, program: Loop, peers: usize) -> Result<Self, Trouble> {
        // A relay reads along.
        let mut swarm = swarm.over(Over::Tcp);
        let (_, master) = swarm.start_master(&MasterOptions::default())?;
        let mut run = Self {
            swarm,
            master: master.address,
            program,
            peers: Vec::new(),
            identities: BTreeMap::new(),
            latest: 0,
        };
        for _ in 0..peers {
            let newcomer = run.enter(None)?;
            run.peers.push(newcomer);
        }
        run.until_all_go_on(now())?;
        Ok(run)
    }

    /// Whether the run will soon be over by itself.
    #[must_use]
    pub fn is_old(&self) -> bool {
        matches!(self.program, Loop::Readme(_)) && self.latest > OLD
    }

    /// Loses a peer. Returns the time from the loss until the last of the others had the result of a reduce that
    /// began after it.
    ///
    /// # Errors
    /// What went wrong: with one of the others, or nobody came to the point.
    pub fn lose(&mut self, loss: Loss) -> Result<Nanos, Trouble> {
        let veterans = self.peers.len();
        let victim = self.bring_to(loss)?;
        let at = match loss.way {
            Way::Kill => self.swarm.kill(victim.process)?.0,
            Way::Cut => now(),
        };
        victim.relay.cut();
        let took = self.until_all_go_on(at)?;
        if loss.way == Way::Cut {
            self.swarm.kill(victim.process)?;
        }
        // Those that came in so that a veteran would come to its point.
        for extra in self.peers.drain(veterans.min(self.peers.len())..) {
            self.swarm.kill(extra.process)?;
        }
        self.identities.remove(&victim.process);
        Ok(took)
    }

    /// Kills everybody, and replays what the machines of this run heard and said.
    ///
    /// # Errors
    /// [`Trouble::Unlike`].
    pub fn conform(mut self) -> Result<pccl_recording::Summary, Trouble> {
        self.swarm.conform()
    }

    /// Starts a peer behind a relay.
    fn enter(&mut self, hold_at: Option<Point>) -> Result<Insider, Trouble> {
        let relay = Relay::before(self.master)?;
        if let Some(point) = hold_at {
            relay.hold_at(point);
        }
        let master = relay.address();
        let process = self.swarm.start(&match self.program {
            Loop::Usual => Role::Peer(PeerOptions {
                tell_every: 5,
                ..PeerOptions::of(master)
            }),
            Loop::Readme(program) => Role::Readme(ReadmeOptions::of(master, program)),
        })?;
        Ok(Insider { process, relay })
    }

    /// Waits until somebody stands where it is to be lost. It is not among the peers then.
    fn bring_to(&mut self, loss: Loss) -> Result<Insider, Trouble> {
        let end = Instant::now() + PATIENCE;
        // It takes the victim's place, where that is a veteran.
        let newcomer = self.enter((loss.who == Who::Newcomer).then_some(loss.point))?;
        let mut newcomer = Some(newcomer);
        if loss.who == Who::Veteran {
            let veterans = self.peers.iter();
            veterans.for_each(|peer| peer.relay.hold_at(loss.point));
            self.peers.extend(newcomer.take());
        }
        let mut next_newcomer = Instant::now() + NEXT_NEWCOMER;
        while Instant::now() < end {
            let held = match loss.who {
                Who::Newcomer => newcomer.take_if(|newcomer| newcomer.is_held()),
                Who::Veteran => self.take_held(),
            };
            if let Some(victim) = held {
                return Ok(victim);
            }
            if loss.who == Who::Veteran && Instant::now() >= next_newcomer {
                next_newcomer += NEXT_NEWCOMER;
                let newcomer = self.enter(None)?;
                self.peers.push(newcomer);
            }
            while self.hear(Duration::ZERO)?.is_some() {}
        }
        Err(Trouble::Hang(loss.to_string()))
    }

    /// Takes the first of the peers that is held out of them, and lets the others go on.
    fn take_held(&mut self) -> Option<Insider> {
        let held = self.peers.iter().position(Insider::is_held)?;
        let victim = self.peers.remove(held);
        for peer in &self.peers {
            peer.relay.release();
        }
        Some(victim)
    }

    /// What is told next; `None` after that time.
    fn hear(&mut self, limit: Duration) -> Result<Option<(Process, Event)>, Trouble> {
        let heard = self.swarm.next_within(limit)?;
        match &heard {
            Some((process, Event::Joined { peer, .. })) => {
                self.identities.insert(*process, *peer);
            }
            Some((process, Event::GaveUp { error, .. })) if self.is_peer(*process) => {
                return Err(Trouble::GaveUp {
                    process: *process,
                    error: error.clone(),
                });
            }
            Some((_, Event::Computes { revision, .. })) => {
                self.latest = self.latest.max(*revision);
            }
            Some(_) | None => {}
        }
        Ok(heard)
    }

    fn is_peer(&self, process: Process) -> bool {
        self.peers.iter().any(|peer| peer.process == process)
    }

    /// Waits until each peer has told of a reduce that began after that moment. Returns how long after it
    /// the last of them had the result.
    fn until_all_go_on(&mut self, since: Nanos) -> Result<Nanos, Trouble> {
        let mut told: BTreeMap<Process, Told> = BTreeMap::new();
        let mut waited_for: BTreeSet<Process> =
            self.peers.iter().map(|peer| peer.process).collect();
        let end = Instant::now() + PATIENCE;
        let mut last = since;
        while !waited_for.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let Some((process, event)) = self.hear(left)? else {
                return Err(Trouble::Hang(format!("{waited_for:?} to go on")));
            };
            let Some((at, round)) = self.round_of(process, &event) else {
                continue;
            };
            let told = told.entry(process).or_default();
            if at > since && round > told.latest {
                told.times += 1;
                told.latest = round;
            }
            if told.times >= TOLD_AFTER_LOSS && waited_for.remove(&process) {
                last = last.max(at);
            }
        }
        Ok(last - since)
    }

    /// When something was told of a round of exactly the peers, and of which round.
    fn round_of(&self, process: Process, event: &Event) -> Option<(Nanos, u64)> {
        match event {
            Event::Committed(commit) => {
                let me = self.identities.get(&process)?;
                let peers = self.peers.iter();
                let peers: BTreeSet<&u64> = peers
                    .filter_map(|peer| self.identities.get(&peer.process))
                    .collect();
                let together = commit.rounds.keys().eq(peers);
                let round = commit.rounds.get(me).filter(|_| together)?;
                Some((commit.at, *round))
            }
            // A peer that computes on a state has synchronized it.
            Event::Computes { revision, at } => Some((*at, *revision)),
            _ => None,
        }
    }
}

/// What became of one loss.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which.
    pub loss: Loss,
    /// How long the others needed, or what went wrong.
    pub recovery: Result<Nanos, String>,
}

/// Loses peers one after the other, of runs of that program with so many peers each. Whatever goes wrong
/// is told, and the next run begins. Tells `progress` after each.
///
/// # Errors
/// No run could be started.
pub fn lose_all(
    program: &Path,
    of: Loop,
    peers: usize,
    losses: &[Loss],
    mut progress: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>, Trouble> {
    let mut outcomes = Vec::new();
    let mut run: Option<Run> = None;
    for loss in losses {
        let mut going = match run.take() {
            Some(going) if !going.is_old() => going,
            _ => Run::start(Swarm::of(program), of, peers)?,
        };
        let recovery = going.lose(*loss).map_err(|trouble| trouble.to_string());
        if recovery.is_ok() {
            run = Some(going);
        }
        let outcome = Outcome {
            loss: *loss,
            recovery,
        };
        progress(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
