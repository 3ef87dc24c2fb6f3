//! One training process: the loop of the one-step-delayed algorithm.

use std::time::Duration;

use pccl::{Communicator, Error};
use pccl_subprocess::tell;

use super::flight::{Flight, Log};
use super::outer::Outer;
use super::run::process::Assignment;
use super::run::talk::{Event, Final};
use super::support::recipe::Trainee;

/// Takes part in the run until all rounds are done.
pub(crate) fn train(assignment: &Assignment) -> Result<Final, Box<dyn std::error::Error>> {
    let mut comm = Communicator::builder_from_env().connect()?;
    tell(&Event::Joined {
        peer: comm.peer_id().0,
        world: comm.world_size(),
    });
    let mut trainer = Trainer {
        trainee: Trainee::new(assignment.shard_seed())?,
        outer: Outer::new(assignment.seed),
        is_newcomer: true,
        flight: None,
        average: None,
        log: Log::default(),
        rounds_here: 0,
    };
    while trainer.outer.rounds() < assignment.rounds {
        trainer.round(&mut comm, assignment.wait_for)?;
    }
    // The last average is still on its way.
    trainer.step(&comm)?;
    comm.shutdown();
    Ok(trainer.result())
}

struct Trainer {
    /// What is this peer's own: its data, its network, its inner optimizer.
    trainee: Trainee,
    /// What is shared.
    outer: Outer,
    /// It has not been through a round: the update that admits newcomers was its own admission.
    is_newcomer: bool,
    /// The reduce of the last round.
    flight: Option<Flight>,
    /// Its result, where it was awaited before its time.
    average: Option<Vec<f32>>,
    log: Log,
    rounds_here: u64,
}

impl Trainer {
    fn round(&mut self, comm: &mut Communicator, wait_for: usize) -> Result<(), Error> {
        let is_newcomer = std::mem::take(&mut self.is_newcomer);
        let admits = is_newcomer || comm.are_peers_pending()?;
        if admits {
            self.land(comm)?;
            comm.update_topology()?;
            self.outer.share(comm)?;
        }
        // The same on all peers: each of them learns the world size from the same ballot.
        if self.outer.rounds() == 0 && comm.world_size() < wait_for {
            std::thread::sleep(Duration::from_millis(2));
            return Ok(());
        }
        let (pseudo_gradient, loss) = self.trainee.inner_phase(self.outer.weights());
        self.step(comm)?;
        if admits {
            self.outer.hand_over(comm, is_newcomer)?;
        }
        self.outer.count_round();
        let round = self.outer.rounds();
        self.flight = Some(Flight::start(comm, round, pseudo_gradient));
        self.rounds_here += 1;
        self.tell_round(comm, loss);
        Ok(())
    }

    /// Awaits the reduce of the last round, if that has not happened.
    fn land(&mut self, comm: &Communicator) -> Result<(), Error> {
        if let Some(flight) = self.flight.take() {
            self.average = Some(flight.land(comm, &mut self.log)?);
        }
        Ok(())
    }

    /// Takes the outer step of the last round. A newcomer has none to take.
    fn step(&mut self, comm: &Communicator) -> Result<(), Error> {
        self.land(comm)?;
        if let Some(average) = self.average.take() {
            self.outer.apply(&average);
        }
        Ok(())
    }

    fn tell_round(&mut self, comm: &Communicator, loss: f32) {
        let first = comm.rank() == 0;
        let accuracy = first.then(|| self.trainee.test_accuracy(self.outer.weights()));
        tell(&Event::Round {
            round: self.outer.rounds(),
            world: comm.world_size(),
            loss,
            accuracy,
        });
    }

    fn result(mut self) -> Final {
        let (reduces, syncs) = (self.log.bytes, self.outer.bytes());
        Final {
            hash: self.outer.hash(),
            rounds: self.outer.rounds(),
            rounds_here: self.rounds_here,
            accuracy: self.trainee.test_accuracy(self.outer.weights()),
            bytes_sent: reduces.0 + syncs.0,
            bytes_received: reduces.1 + syncs.1,
            overlap: Some(self.log.overlap),
        }
    }
}
