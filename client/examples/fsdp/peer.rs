//! One peer: the loop that a user of the library writes.

use pccl::{Builder, Communicator, Gather, PeerId, Reduce, Shard};
use pccl_subprocess::tell;

use super::doom::{Doom, Fate, Moment};
use super::model::{BATCH, PARAMETERS, Task};
use super::optimizer::State;
use super::snapshot::{Failed, Snapshot};
use super::talk::{Event, Final, Sent};
use super::{Arguments, Training, unsharded};

/// What the supervisor tells a peer, besides where the run is: that is in the environment, as a join string had better
/// not be among the arguments.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Assignment {
    /// Tell events as JSON.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
    /// A step at which all wait for a newcomer.
    #[arg(long, hide = true)]
    pub(crate) await_at: Vec<u64>,
    /// Where to stand still.
    #[arg(long, hide = true)]
    pub(crate) doom: Option<Doom>,
}

/// Takes part in a run until all steps are done.
pub(crate) fn run(builder: Builder, arguments: &Arguments) -> Result<(), String> {
    let comm = builder.connect();
    let mut peer = Peer::new(comm.map_err(|error| error.to_string())?, arguments);
    peer.say(&Event::Joined {
        peer: peer.comm.peer_id().0,
        world: peer.comm.world_size(),
    });
    let trained = peer.train().map_err(|error| error.to_string());
    if let Err(error) = &trained {
        let error = error.clone();
        peer.say(&Event::GaveUp { error });
    }
    trained?;
    let state = &peer.snapshot.state;
    let end = Final::new(state, peer.steps_here, peer.sent.clone());
    peer.say(&Event::Finished(end));
    if arguments.check {
        check(state, arguments.training)?;
    }
    peer.comm.shutdown();
    Ok(())
}

fn check(state: &State, training: Training) -> Result<(), String> {
    let unsharded = unsharded::train(training.seed, training.steps);
    match state.difference(&unsharded) {
        None => println!("ok: all bits are those of the unsharded run"),
        Some(difference) => return Err(format!("not the unsharded run: {difference}")),
    }
    Ok(())
}

struct Peer {
    comm: Communicator,
    task: Task,
    training: Training,
    /// To be there before training starts.
    peers: usize,
    snapshot: Snapshot,
    /// As of the last update of the topology.
    ring: Vec<PeerId>,
    /// The step that is computed.
    step: u64,
    steps_here: u64,
    sent: Sent,
    supervised: bool,
    /// Steps at which a newcomer is still to come.
    await_at: Vec<u64>,
    fate: Fate,
}

/// What is this peer's.
struct Parts {
    /// Of a step's batch.
    samples: Shard,
    /// Of the parameters.
    parameters: Shard,
}

impl Parts {
    /// Both for the same peers: a peer that is lost between the two calls would change the second.
    fn of(comm: &Communicator) -> Self {
        loop {
            let epoch = comm.epoch();
            let parts = Self {
                samples: comm.shard(BATCH),
                parameters: comm.shard(PARAMETERS),
            };
            if comm.epoch() == epoch {
                return parts;
            }
        }
    }
}

impl Peer {
    fn new(comm: Communicator, arguments: &Arguments) -> Self {
        let task = Task::new(arguments.training.seed);
        let assignment = arguments.assignment.clone();
        Self {
            comm,
            snapshot: Snapshot::first(State::new(task.initial())),
            task,
            training: arguments.training,
            peers: arguments.peers as usize,
            ring: Vec::new(),
            step: 0,
            steps_here: 0,
            sent: Sent::default(),
            supervised: assignment.supervised,
            await_at: assignment.await_at,
            fate: Fate::of(assignment.doom),
        }
    }

    fn train(&mut self) -> Result<(), Failed> {
        loop {
            match self.go_on() {
                Ok(()) if self.snapshot.step(self.training) < self.training.steps => {}
                Ok(()) => return Ok(()),
                Err(failed) if failed.is_shared() => self.say(&Event::WentBack {
                    from: self.step,
                    to: self.snapshot.step(self.training),
                    why: failed.to_string(),
                }),
                Err(failed) => return Err(failed),
            }
        }
    }

    /// From one snapshot to the next. After a failure, the last one still holds.
    fn go_on(&mut self) -> Result<(), Failed> {
        self.admit_newcomers()?;
        self.sent.handed_over += self.snapshot.synchronize(&mut self.comm)?;
        self.step = self.snapshot.step(self.training);
        // The ring and the snapshot are the same on all peers, and so is what they decide by them.
        if !self.snapshot.has_begun() {
            if self.ring.len() >= self.peers {
                self.snapshot.begin();
            }
            return Ok(());
        }
        if self.awaits_newcomer() {
            return Ok(());
        }
        let parts = Parts::of(&self.comm);
        let mut own = self.snapshot.state.part(parts.parameters.range());
        let Training {
            steps,
            snapshot_every,
            ..
        } = self.training;
        let end = steps.min(self.step.saturating_add(snapshot_every));
        while self.step < end {
            self.compute_step(&parts, &mut own)?;
            self.step += 1;
        }
        self.take_snapshot(&parts, &own)
    }

    fn admit_newcomers(&mut self) -> Result<(), Failed> {
        let awaits = self.awaits_newcomer();
        if awaits {
            let (step, to_come) = (self.step, self.await_at.len());
            self.say(&Event::AwaitsNewcomer { step, to_come });
        }
        loop {
            let ring = self.comm.update_topology()?.ring;
            let has_come = ring.iter().any(|peer| !self.ring.contains(peer));
            self.ring = ring;
            if awaits && has_come {
                self.await_at.remove(0);
            }
            if has_come || !awaits {
                return Ok(());
            }
        }
    }

    fn awaits_newcomer(&self) -> bool {
        let step = self.snapshot.step(self.training);
        self.await_at.first().is_some_and(|at| *at <= step)
    }

    fn compute_step(&mut self, parts: &Parts, own: &mut State) -> Result<(), Failed> {
        self.fate.come_to(self.step, Moment::Gather);
        let (parameters, sent) = self.gather(parts, &own.weights)?;
        self.sent.parameters += sent;
        self.fate.come_to(self.step, Moment::Compute);
        let mut sums = vec![0_i64; PARAMETERS];
        for index in parts.samples.range() {
            self.task
                .add_gradient(&parameters, self.step, index, &mut sums);
        }
        // The next step gathers them anew.
        drop(parameters);
        self.fate.come_to(self.step, Moment::Reduce);
        self.fate.come_to(self.step, Moment::Verdict);
        let scattered = self.comm.reduce_scatter(&mut sums, Reduce::sum())?;
        self.sent.gradients += scattered.report.bytes_sent;
        // A reduction of the survivors of a loss succeeds, without the samples of the lost peer. The next gather would
        // fail, but nothing should be computed from such sums.
        if scattered.shard != parts.parameters {
            return Err(Failed::SamplesMissing);
        }
        own.update(parts.parameters.of(&sums), self.step);
        self.steps_here += 1;
        self.fate.come_to(self.step, Moment::Update);
        Ok(())
    }

    fn take_snapshot(&mut self, parts: &Parts, own: &State) -> Result<(), Failed> {
        let (weights, sent_weights) = self.gather(parts, &own.weights)?;
        let (mean, sent_means) = self.gather(parts, &own.mean)?;
        self.fate.come_to(self.step - 1, Moment::Snapshot);
        let (square, sent_squares) = self.gather(parts, &own.square)?;
        // If the last part is there, it is there on all peers, and so are the others.
        self.snapshot = self.snapshot.after(State {
            weights,
            mean,
            square,
        });
        self.sent.snapshots += sent_weights + sent_means + sent_squares;
        let (step, world) = (self.step, self.ring.len());
        if self.comm.rank() == 0 {
            self.say(&Event::Snapshot { step, world });
        }
        Ok(())
    }

    /// All shards, of which this is the own one, and the bytes that were sent. Fails if the peers are others than those
    /// for whom the shards were laid.
    fn gather(&self, parts: &Parts, own: &[f32]) -> Result<(Vec<f32>, u64), Failed> {
        let mut whole = vec![0.0; PARAMETERS];
        parts.parameters.of_mut(&mut whole).copy_from_slice(own);
        let gather = Gather::of(parts.parameters.clone()).without_backup();
        let report = self.comm.all_gather(&mut whole, gather)?;
        Ok((whole, report.bytes_sent))
    }

    fn say(&self, event: &Event) {
        if self.supervised {
            tell(event);
        } else {
            println!("{event}");
        }
    }
}
