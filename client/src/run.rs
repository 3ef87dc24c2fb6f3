//! The training loop of a peer: update, synchronize, step, and what is to be done after each error.

mod course;
mod round;
mod shared;
mod step_error;

use std::fmt;
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use crate::builder::Builder;
use crate::state::SyncOptions;

pub use round::{Outcome, Round};
pub use shared::Shared;
pub use step_error::StepError;

use course::{Course, Turn};

/// How long reconnecting is tried.
const RECONNECT_FOR: Duration = Duration::from_secs(300);

/// The pause after a round that waits.
const WAIT: Duration = Duration::from_millis(50);

/// What to await where blocking is not possible.
const INSTEAD: &str = "Rounds::run_async";

/// The training loop of a peer, which goes on whoever is lost.
///
/// Each round admits newcomers and repairs the ring ([`update_topology`](crate::Communicator::update_topology)), brings
/// the shared state of the group to one content ([`sync_shared_state`](crate::Communicator::sync_shared_state)), and
/// calls the program's *step*. The step computes on the state, combines what it has computed with the other peers by
/// any number of collectives, and [commits](Round::commit) a change of the state. If a call fails, here or in the step,
/// the loop does what [`Error::next`](crate::Error::next) says: it starts the round again, or connects again by the
/// same [`Builder`].
///
/// ```no_run
/// use pccl::{Communicator, Error, Reduce, Shared, SharedState};
///
/// struct Model {
///     weights: Vec<f32>,
///     momentum: Vec<f32>,
///     samples: [u64; 1],
/// }
///
/// impl Shared for Model {
///     fn share<'a>(&'a mut self, state: &mut SharedState<'a>) -> Result<(), Error> {
///         state.entry("weights", &mut self.weights)?;
///         state.entry("momentum", &mut self.momentum)?;
///         state.entry("samples", &mut self.samples)?;
///         Ok(())
///     }
/// }
///
/// fn train(master: &str, model: &mut Model) -> Result<u64, Error> {
///     let rounds = Communicator::builder(master).rounds();
///     rounds.run(model, |round| {
///         if round.state().samples[0] >= 1_000_000 {
///             return Ok(round.end());
///         }
///         if round.revision() == 0 && round.world_size() < 4 {
///             return Ok(round.wait()); // for more peers to begin with
///         }
///         let mut step = train_for_a_while(&round.state().weights);
///         let mut samples = [500];
///         round.retry(|| round.all_reduce(&mut step, Reduce::avg()))?;
///         round.retry(|| round.all_reduce(&mut samples, Reduce::sum()))?;
///         Ok(round.commit(|model| {
///             outer_step(model, &step);
///             model.samples[0] += samples[0];
///         }))
///     })
/// }
/// # fn train_for_a_while(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
/// # fn outer_step(_: &mut Model, _: &[f32]) {}
/// ```
///
/// # What the step may rely on
///
/// - The state is the same on all peers of the group when the step is called, and it changes in
///   [`Round::commit`] alone, after which no call can fail. So a round that is started again begins with the state
///   of the last synchronization, without a copy of it: the loop needs no memory beside the state.
/// - What the step writes elsewhere, such as an inner optimizer, a data loader or an
///   [`ErrorFeedback`](crate::ErrorFeedback), is its own. A step that is called again finds it as the call before
///   has left it.
/// - To call a step again costs what it computes. [`Round::retry`] repeats a collective inside the step, with what
///   was computed, when that is enough. After a loss it mostly is.
/// - All peers take the same way through the step, so what it decides by (when to end, say) has to be the same
///   on all of them: the state, its revision, the world size. A peer that ends alone leaves, and the others go on.
/// - [Handles](crate::CollectiveHandle) have to be awaited within their step.
///
/// # Errors of the step
///
/// The step returns any error type that a [`StepError`] is. Errors of calls, which are found inside, are dealt
/// with as above; all others end the loop and are passed through, and so is what a retry does not cure.
///
/// # When the connection is lost
///
/// It connects again, after pauses that double from 50 ms to 2 s, for
/// [five minutes](Self::reconnect_for). What the peer holds then counts as that of any newcomer: if the
/// others have gone on it receives what they have. That the first connection fails is an error at once: a wrong
/// address is noticed where it is written.
///
/// A master that was started anew remembers no revision; [`Error::MasterLost`](crate::Error::MasterLost) says what that
/// means.
#[derive(Clone)]
#[must_use = "nothing happens before run"]
pub struct Rounds {
    builder: Builder,
    revision: u64,
    sync: SyncOptions,
    optimizes: bool,
    reconnect_for: Duration,
}

impl Builder {
    /// The training loop of a peer that connects like this. Nothing happens before [`Rounds::run`].
    pub fn rounds(self) -> Rounds {
        Rounds {
            builder: self,
            revision: 0,
            sync: crate::SyncStrategy::EnforcePopular.into(),
            optimizes: false,
            reconnect_for: RECONNECT_FOR,
        }
    }
}

impl Rounds {
    /// The revision of the state at the beginning, which a checkpoint holds beside it. Default: 0.
    pub const fn from_revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// How this peer takes part in synchronizations. Default:
    /// [`EnforcePopular`](crate::SyncStrategy::EnforcePopular).
    pub fn sync_by(mut self, options: impl Into<SyncOptions>) -> Self {
        self.sync = options.into();
        self
    }

    /// Whether a round optimizes the topology if the ring has other members than when it did so last. All peers
    /// say the same. Default: false.
    pub const fn optimize(mut self, optimizes: bool) -> Self {
        self.optimizes = optimizes;
        self
    }

    /// How long to try to connect again after the connection was lost. Default: 5 minutes.
    pub const fn reconnect_for(mut self, limit: Duration) -> Self {
        self.reconnect_for = limit;
        self
    }

    /// Connects, and runs rounds until the step [ends](Round::end) the loop. Returns the revision of the state,
    /// which is then as all peers that end in this round have it. The peer has left the run.
    ///
    /// Blocks until then. After an error the state is as after the last round that was committed, and the peer
    /// has left the run as well.
    ///
    /// # Errors
    /// Those of [`connect`](Builder::connect); what a step returns that is no error of a call; errors whose
    /// [`next`](crate::Error::next) is [`End`](crate::Next::End) or [`FixProgram`](crate::Next::FixProgram); the error
    /// after which the peer could not connect again, or was lost for the sixteenth time before a step of it had ended;
    /// [`Error::NoSuchRoot`](crate::Error::NoSuchRoot), if a round that was started again for it has the same root.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: use [`run_async`](Self::run_async) there.
    #[track_caller]
    pub fn run<S, E>(
        self,
        state: &mut S,
        mut step: impl FnMut(Round<'_, S>) -> Result<Outcome, E>,
    ) -> Result<u64, E>
    where
        S: Shared,
        E: StepError,
    {
        let mut comm = self.builder.clone().connect_or(INSTEAD)?;
        let mut course = Course::new(self);
        loop {
            let runtime = comm.runtime.clone();
            let met = runtime.block_on(INSTEAD, course.meet(&mut comm, state));
            let stepped = match met {
                Ok(()) => step(course.round(&comm, state)),
                Err(error) => Err(error.into()),
            };
            match course.turn_after(stepped)? {
                Turn::Next => {}
                Turn::Wait => thread::sleep(WAIT),
                Turn::End => break,
                Turn::Reconnect(lost) => {
                    drop(comm);
                    course.lose(lost);
                    comm = loop {
                        thread::sleep(course.pause()?);
                        let connected = course.builder().connect();
                        if let Some(connected) = course.hear(connected)? {
                            break connected;
                        }
                    };
                }
            }
        }
        comm.shutdown();
        Ok(course.revision())
    }

    /// As [`run`](Self::run), without blocking, by [`connect_async`](Builder::connect_async).
    ///
    /// ```rust,no_run
    /// use pccl::{Communicator, Error, Reduce};
    ///
    /// async fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
    ///     let rounds = Communicator::builder(master).rounds();
    ///     rounds
    ///         .run_async(weights, async |round| {
    ///             if round.revision() == 1000 {
    ///                 return Ok(round.end());
    ///             }
    ///             let mut step = compute(round.state());
    ///             round
    ///                 .retry_async(async || round.all_reduce_async(&mut step, Reduce::avg()).await)
    ///                 .await?;
    ///             Ok(round.commit(|weights| {
    ///                 weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
    ///             }))
    ///         })
    ///         .await
    /// }
    /// # fn compute(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
    /// ```
    ///
    /// The compiler does not see that this future is `Send`, because the step borrows the state. So await it in a
    /// `main` of `#[tokio::main]`, in `block_on` or in a task of a `LocalSet`, and call [`run`](Self::run) on a
    /// thread of its own where it would be spawned.
    ///
    /// Dropping the future leaves the run; the state is as after the last round that was committed, or as it was
    /// synchronized since.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn run_async<S, E>(
        self,
        state: &mut S,
        mut step: impl AsyncFnMut(Round<'_, S>) -> Result<Outcome, E>,
    ) -> Result<u64, E>
    where
        S: Shared,
        E: StepError,
    {
        let mut comm = self.builder.clone().connect_async().await?;
        let mut course = Course::new(self);
        loop {
            let stepped = match course.meet(&mut comm, state).await {
                Ok(()) => step(course.round(&comm, state)).await,
                Err(error) => Err(error.into()),
            };
            match course.turn_after(stepped)? {
                Turn::Next => {}
                Turn::Wait => sleep(WAIT).await,
                Turn::End => break,
                Turn::Reconnect(lost) => {
                    drop(comm);
                    course.lose(lost);
                    comm = loop {
                        sleep(course.pause()?).await;
                        let connected = course.builder().connect_async().await;
                        if let Some(connected) = course.hear(connected)? {
                            break connected;
                        }
                    };
                }
            }
        }
        comm.shutdown_async().await;
        Ok(course.revision())
    }
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds")
            .field("builder", &self.builder)
            .field("revision", &self.revision)
            .field("optimizes", &self.optimizes)
            .field("reconnect_for", &self.reconnect_for)
            .finish_non_exhaustive()
    }
}
