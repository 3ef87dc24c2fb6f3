//! A peer of a churn: it loops over steps, checks what it gets, and tells the driver.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Builder, Communicator, Error, Next};
use pccl_subprocess::{obey_orders, tell};

use super::cutting::{Cutter, Which};
use super::holdings::own_holdings;
use super::reduces::{Counts, Failed, Started, leave_midway, reduce_all, start_handles};
use super::state::State;
use super::talk::{Event, Order, Step, Synced};
use super::verdicts::tell_verdicts;
use super::work::work_of;
use crate::over::Over;

/// How long a peer tries to connect: at first, and again.
const CONNECT_FOR: Duration = Duration::from_secs(60);

/// The pause between two attempts.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// How long the library keeps the memory of collectives for later ones.
const KEEP_MEMORY: Duration = Duration::from_secs(1);

/// Samples of what a resting process holds. The memory of collectives was given back before.
pub(super) const SAMPLES: usize = 20;

/// The pause between two samples.
const SAMPLE_PAUSE: Duration = Duration::from_millis(50);

/// What a peer is to do.
#[derive(Clone, Debug, clap::Args)]
pub struct PeerOptions {
    /// The master's join string, or its address
    #[arg(long)]
    pub master: String,
    /// The seed of the run
    #[arg(long)]
    pub seed: u64,
    /// The most elements of a buffer
    #[arg(long)]
    pub elements: usize,
    /// Bytes of shared state
    #[arg(long)]
    pub state_bytes: usize,
}

impl PeerOptions {
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = vec!["peer".into()];
        let mut say = |name: &str, value: &dyn ToString| {
            arguments.extend([format!("--{name}"), value.to_string()]);
        };
        say("master", &self.master);
        say("seed", &self.seed);
        say("elements", &self.elements);
        say("state-bytes", &self.state_bytes);
        arguments
    }

    /// Lives the process's whole life: until the driver kills it, or is gone.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        tell_verdicts();
        let cutter = Cutter::default();
        let wishes = Arc::new(Wishes::default());
        let (cuts, heard) = (cutter.clone(), Arc::clone(&wishes));
        thread::spawn(move || {
            obey_orders(|order| match order {
                Order::CutLanes => cuts.cut(Which::ToPeers),
                Order::CutAll => cuts.cut(Which::All),
                Order::Leave => heard.wish(LEAVE),
                Order::LeaveMidway => heard.wish(LEAVE_MIDWAY),
                Order::Rest => heard.wish(REST),
            });
            // The driver is gone, and nobody else ends this process.
            std::process::exit(0);
        });
        match Peer::go_on(self, &cutter, &wishes) {
            Failed::Wrong(what) => tell(&Event::Wrong { what }),
            Failed::Error(error) => tell(&Event::GaveUp {
                error: error.to_string(),
            }),
        }
        ExitCode::FAILURE
    }

    fn builder(&self, cutter: &Cutter) -> Builder {
        let below = Over::to(&self.master).transport();
        Communicator::builder(&self.master)
            .transport(cutter.over(below))
            .keep_memory(KEEP_MEMORY)
    }
}

const STAY: u8 = 0;
const LEAVE: u8 = 1;
const LEAVE_MIDWAY: u8 = 2;
const REST: u8 = 3;

/// What the driver has ordered and the loop has not done.
#[derive(Debug, Default)]
struct Wishes(AtomicU8);

impl Wishes {
    fn wish(&self, what: u8) {
        self.0.store(what, Ordering::Relaxed);
    }

    /// Whether this is wished. Then it is no longer.
    fn take(&self, what: u8) -> bool {
        let taken = self
            .0
            .compare_exchange(what, STAY, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    }
}

struct Peer<'a> {
    options: &'a PeerOptions,
    cutter: &'a Cutter,
    wishes: &'a Wishes,
    state: State,
    counts: Counts,
}

impl<'a> Peer<'a> {
    /// Makes steps for ever. Returns why that has ended.
    fn go_on(options: &'a PeerOptions, cutter: &'a Cutter, wishes: &'a Wishes) -> Failed {
        let mut peer = Self {
            options,
            cutter,
            wishes,
            state: State::new(options.seed, options.state_bytes),
            counts: Counts::default(),
        };
        loop {
            let comm = match peer.connect() {
                Ok(comm) => comm,
                Err(error) => return error.into(),
            };
            match peer.steps(comm) {
                End::Left => {}
                End::Failed(Failed::Error(error)) if error.next() == Next::Reconnect => {
                    tell(&Event::Lost {
                        error: error.to_string(),
                    });
                }
                End::Failed(failed) => return failed,
            }
        }
    }

    fn connect(&self) -> Result<Communicator, Error> {
        let since = Instant::now();
        loop {
            let builder = self.options.builder(self.cutter);
            match builder.connect_patience(Duration::ZERO).connect() {
                Ok(comm) => {
                    let peer = comm.peer_id().0;
                    tell(&Event::Joined { peer });
                    return Ok(comm);
                }
                Err(error) if error.next() == Next::Reconnect && since.elapsed() < CONNECT_FOR => {
                    thread::sleep(CONNECT_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes steps until the connection ends.
    fn steps(&mut self, mut comm: Communicator) -> End {
        loop {
            if self.wishes.take(LEAVE) {
                comm.shutdown();
                return End::Left;
            }
            if self.wishes.take(REST) {
                rest();
            }
            let failed = match self.step(&mut comm) {
                Ok(Stepped::Done(step)) => {
                    tell(&Event::Step(step));
                    continue;
                }
                Ok(Stepped::Leaves(handles)) => match leave_midway(comm, handles) {
                    Ok(()) => return End::Left,
                    Err(failed) => return End::Failed(failed),
                },
                Err(failed) => failed,
            };
            match failed {
                Failed::Error(error) if starts_again(&error) => tell(&Event::Failed {
                    error: error.to_string(),
                }),
                Failed::Error(_) | Failed::Wrong(_) => return End::Failed(failed),
            }
        }
    }

    fn step(&mut self, comm: &mut Communicator) -> Result<Stepped, Failed> {
        comm.update_topology()?;
        let revision = self.synchronize(comm)?;
        let work = work_of(self.options.seed, revision, self.options.elements);
        if self.wishes.take(LEAVE_MIDWAY) {
            return Ok(Stepped::Leaves(start_handles(comm, &work)));
        }
        let committed = reduce_all(comm, &work, &self.counts)?;
        let mut reduces = Vec::new();
        for (done, result) in committed {
            self.state.add(&result);
            reduces.push(done);
        }
        self.state.advance();
        Ok(Stepped::Done(Step {
            peer: comm.peer_id().0,
            revision,
            reduces,
            aborts: self.counts.aborts.swap(0, Ordering::Relaxed),
            retries: self.counts.retries.swap(0, Ordering::Relaxed),
        }))
    }

    /// Makes the state that of the group, checks it, and tells of it. Returns its revision.
    fn synchronize(&mut self, comm: &mut Communicator) -> Result<u64, Failed> {
        let before = self.state.revision;
        let report = self.state.synchronize(comm)?;
        let revision = report.revision;
        tell(&Event::Synced(Synced {
            revision,
            state: self.state.hash(),
            entries_received: report.entries_received,
            had: before,
        }));
        match self.state.wrong_block() {
            None => Ok(revision),
            Some(block) => Err(Failed::Wrong(format!(
                "block {block} of the state is not that of revision {revision}"
            ))),
        }
    }
}

/// Whether the step is made again on the same connection.
fn starts_again(error: &Error) -> bool {
    matches!(
        error.next(),
        Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_)
    )
}

/// Makes no call until the library has given memory back, and tells what the process holds then.
fn rest() {
    thread::sleep(2 * KEEP_MEMORY);
    for _ in 0..SAMPLES {
        thread::sleep(SAMPLE_PAUSE);
        tell(&Event::Resting(own_holdings().unwrap_or_default()));
    }
}

/// How a step ended.
enum Stepped {
    Done(Step),
    /// The peer leaves while these run.
    Leaves(Vec<Started>),
}

/// Why there is no connection any more.
enum End {
    /// The peer has left, because the driver wished it.
    Left,
    Failed(Failed),
}
