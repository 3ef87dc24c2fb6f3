//! One training process: the loop that a user of the library writes.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pccl::{Communicator, Error, Reduce, SharedState, SyncStrategy};
use pccl_kernels::simplehash;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::support::network::Network;
use super::support::optim::Nesterov;
use super::support::recipe::{INITIAL_SEED, Trainee, outer_optimizer};
use super::talk::{Event, Final, Moment, Order};

/// What the supervisor tells a training process.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    master: String,
    #[arg(long)]
    rounds: u64,
    #[arg(long)]
    seed: u64,
    /// Which part of the data is this process's own.
    #[arg(long)]
    shard: u64,
    /// Peers that have to be there before training starts.
    #[arg(long)]
    wait_for: usize,
}

/// Trains until all rounds are done, or nothing more can be done.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    listen_for_orders();
    match train(arguments) {
        Ok(result) => {
            tell(&Event::Finished(result));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&Event::GaveUp {
                error: error.to_string(),
            });
            ExitCode::FAILURE
        }
    }
}

fn train(arguments: &Arguments) -> Result<Final, Box<dyn std::error::Error>> {
    // Peers that start with the same weights have nothing to transfer.
    let weights = Network::new(INITIAL_SEED.wrapping_add(arguments.seed))
        .params()
        .to_vec();
    let mut comm = Communicator::builder(&arguments.master).connect()?;
    tell(&Event::Joined {
        peer: comm.peer_id().0,
        world: comm.world_size(),
    });
    let mut trainer = Trainer {
        trainee: Trainee::new(
            arguments
                .seed
                .wrapping_mul(1000)
                .wrapping_add(arguments.shard),
        )?,
        outer: outer_optimizer(),
        weights,
        revision: 0,
        rounds_here: 0,
        bytes: (0, 0),
    };
    loop {
        match trainer.round(&mut comm, arguments) {
            Ok(Progress::Done) => break,
            Ok(Progress::More) => {}
            Ok(Progress::TooFew) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) if error.is_retryable() => {
                let round = trainer.revision + 1;
                tell(&Event::Failed {
                    round,
                    error: error.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        }
    }
    comm.shutdown();
    Ok(trainer.result())
}

enum Progress {
    /// Training has not begun: peers are missing.
    TooFew,
    More,
    Done,
}

struct Trainer {
    /// What is this peer's own: its data, its network, its inner optimizer.
    trainee: Trainee,
    /// The outer optimizer; its momentum is shared state.
    outer: Nesterov,
    /// Shared state.
    weights: Vec<f32>,
    /// Rounds that are done: the revision of the shared state.
    revision: u64,
    rounds_here: u64,
    /// Sent, received.
    bytes: (u64, u64),
}

impl Trainer {
    fn round(&mut self, comm: &mut Communicator, run: &Arguments) -> Result<Progress, Error> {
        comm.update_topology()?;
        // The same on all peers: each of them learns the world size from the same ballot.
        if self.revision == 0 && comm.world_size() < run.wait_for {
            return Ok(Progress::TooFew);
        }
        self.synchronize(comm)?;
        if self.revision >= run.rounds {
            return Ok(Progress::Done);
        }
        let (mut step, loss) = self.trainee.inner_phase(&self.weights);
        self.reduce(comm, &mut step)?;
        self.outer.step(&mut self.weights, &step);
        self.revision += 1;
        self.rounds_here += 1;
        let first = comm.rank() == 0;
        let accuracy = first.then(|| self.trainee.test_accuracy(&self.weights));
        let (round, world) = (self.revision, comm.world_size());
        tell(&Event::Round {
            round,
            world,
            loss,
            accuracy,
        });
        Ok(Progress::More)
    }

    fn synchronize(&mut self, comm: &mut Communicator) -> Result<(), Error> {
        let mut state = SharedState::at(self.revision);
        state.entry("weights", &mut self.weights)?;
        state.entry("momentum", &mut self.outer.momentum)?;
        let report = comm.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
        self.revision = state.revision;
        self.count_bytes(report.bytes_sent, report.bytes_received);
        Ok(())
    }

    /// Averages `step` over the peers, again and again until it is committed. After a failure the
    /// buffer is as it was, so the same call is simply made again.
    fn reduce(&mut self, comm: &Communicator, step: &mut [f32]) -> Result<(), Error> {
        let begun = Instant::now();
        let mut failures = 0;
        loop {
            match comm.all_reduce(step, Reduce::avg()) {
                Ok(report) => {
                    self.count_bytes(report.bytes_sent, report.bytes_received);
                    if failures > 0 {
                        let lost = begun.elapsed().saturating_sub(report.duration);
                        let lost_ms = lost.as_secs_f64() * 1e3;
                        tell(&Event::Recovered {
                            round: self.revision + 1,
                            lost_ms,
                        });
                    }
                    return Ok(());
                }
                Err(error @ Error::Aborted { .. }) => {
                    failures += 1;
                    let round = self.revision + 1;
                    tell(&Event::Failed {
                        round,
                        error: error.to_string(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn count_bytes(&mut self, sent: u64, received: u64) {
        self.bytes = (self.bytes.0 + sent, self.bytes.1 + received);
    }

    fn result(mut self) -> Final {
        let shared = self.weights.iter().chain(&self.outer.momentum);
        let mut bytes: Vec<u8> = shared.flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(self.revision.to_le_bytes());
        Final {
            hash: format!("{:08x}", simplehash(&bytes)),
            rounds: self.revision,
            rounds_here: self.rounds_here,
            accuracy: self.trainee.test_accuracy(&self.weights),
            bytes_sent: self.bytes.0,
            bytes_received: self.bytes.1,
        }
    }
}

/// One line to the supervisor.
fn tell(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        println!("{line}");
    }
}

/// Takes the supervisor's orders, and stands still where it says.
fn listen_for_orders() {
    let armed = Arc::new(Mutex::new(None));
    let trap = Trap {
        armed: Arc::clone(&armed),
    };
    let events_only = Targets::new().with_target("pccl::event", Level::DEBUG);
    tracing_subscriber::registry()
        .with(trap.with_filter(events_only))
        .init();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if let Ok(Order::StandStillAt(moment)) = serde_json::from_str(&line) {
                *armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
            }
        }
    });
}

/// Stops the thread that comes to the armed moment, for good: whatever the library does there, the
/// supervisor's SIGKILL finds it doing just that.
struct Trap {
    armed: Arc<Mutex<Option<Moment>>>,
}

impl<S: Subscriber> Layer<S> for Trap {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(moment) = *armed else { return };
        let mut kind = Kind {
            wanted: moment.traced_as(),
            found: false,
        };
        event.record(&mut kind);
        if kind.found {
            tell(&Event::StandsStill);
            loop {
                std::thread::park();
            }
        }
    }
}

/// Looks for the field that names the kind of an event.
struct Kind {
    wanted: &'static str,
    found: bool,
}

impl Visit for Kind {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.found |= field.name() == "kind" && value == self.wanted;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
