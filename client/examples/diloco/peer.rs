//! One training process: the loop that a user of the library writes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pccl::{Communicator, Error, PeerId, Reduce, SharedState, SyncStrategy};
use pccl_subprocess::tell;

use super::run::process::{Assignment, state_hash};
use super::run::talk::{Event, Final};
use super::support::network::Network;
use super::support::optim::Nesterov;
use super::support::recipe::{INITIAL_SEED, Trainee, outer_optimizer};

/// Takes part in the run until all rounds are done.
pub(crate) fn train(assignment: &Assignment) -> Result<Final, Box<dyn std::error::Error>> {
    // Peers that start with the same weights have nothing to transfer.
    let weights = Network::new(INITIAL_SEED.wrapping_add(assignment.seed))
        .params()
        .to_vec();
    let mut comm = Communicator::builder_from_env().connect()?;
    tell(&Event::Joined {
        peer: comm.peer_id().0,
        world: comm.world_size(),
    });
    let mut trainer = Trainer {
        trainee: Trainee::new(assignment.shard_seed())?,
        outer: outer_optimizer(),
        weights,
        revision: 0,
        optimized: None,
        rounds_here: 0,
        bytes: (0, 0),
    };
    loop {
        match trainer.round(&mut comm, assignment) {
            Ok(Progress::Done) => break,
            Ok(Progress::More) => {}
            Ok(Progress::TooFew) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) if error.is_retryable() => {
                if matches!(error, Error::Conflict(_)) {
                    // Perhaps with others that optimize, who go on only when all do.
                    trainer.optimized = None;
                }
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
    /// Whose ring was optimized last.
    optimized: Option<BTreeSet<PeerId>>,
    rounds_here: u64,
    /// Sent, received.
    bytes: (u64, u64),
}

impl Trainer {
    fn round(&mut self, comm: &mut Communicator, run: &Assignment) -> Result<Progress, Error> {
        let ring = comm.update_topology()?.ring;
        // The same on all peers: each of them learns the world size from the same ballot.
        if self.revision == 0 && comm.world_size() < run.wait_for {
            return Ok(Progress::TooFew);
        }
        if run.optimize {
            self.optimize(comm, ring)?;
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

    /// Optimizes the ring unless it is that of the same peers as before. All peers come to the same conclusion, as
    /// all are told the same rings.
    fn optimize(&mut self, comm: &mut Communicator, ring: Vec<PeerId>) -> Result<(), Error> {
        if self.optimized == Some(ring.into_iter().collect()) {
            return Ok(());
        }
        let begun = Instant::now();
        let ring = comm.optimize_topology()?.ring;
        if comm.rank() == 0 {
            let (world, took_ms) = (ring.len(), begun.elapsed().as_secs_f64() * 1e3);
            tell(&Event::Optimized { world, took_ms });
        }
        self.optimized = Some(ring.into_iter().collect());
        Ok(())
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
        Final {
            hash: state_hash(&self.weights, &self.outer.momentum, self.revision),
            rounds: self.revision,
            rounds_here: self.rounds_here,
            accuracy: self.trainee.test_accuracy(&self.weights),
            bytes_sent: self.bytes.0,
            bytes_received: self.bytes.1,
            overlap: None,
        }
    }
}
