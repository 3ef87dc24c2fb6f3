//! How far a training loop is, and what it does next.

use std::collections::BTreeSet;
use std::time::Duration;

use pccl_core::id::PeerId;
use pccl_core::messages::CallKind;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

use super::round::{End, Outcome, Round};
use super::{Rounds, Shared, StepError};
use crate::backoff::Backoff;
use crate::builder::Builder;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::next::Next;
use crate::state::SharedState;

/// Losses of the connection before a step has ended. A peer that computes for longer than the master allows, say,
/// is lost each time.
const LOSSES_MAX: u32 = 16;

/// A training loop that has begun.
pub(super) struct Course {
    rounds: Rounds,
    /// Whose ring was optimized last.
    optimized: Option<BTreeSet<PeerId>>,
    /// Others wait in `optimize_topology`.
    optimizes_first: bool,
    /// The root of a broadcast for which the round was started again.
    missed_root: Option<PeerId>,
    /// Since a step has ended.
    losses: u32,
    outage: Option<Outage>,
    random: StdRng,
}

/// A time without a connection.
struct Outage {
    since: Instant,
    backoff: Backoff,
    /// Why there is none.
    error: Error,
}

/// What comes after a round.
pub(super) enum Turn {
    /// The next one, or the same again.
    Next,
    /// The next one, a little later.
    Wait,
    /// The end.
    End,
    /// Another connection, because of this.
    Reconnect(Error),
}

impl Course {
    pub(super) fn new(rounds: Rounds) -> Self {
        let random = StdRng::seed_from_u64(rounds.builder.random_seed());
        Self {
            rounds,
            optimized: None,
            optimizes_first: false,
            missed_root: None,
            losses: 0,
            outage: None,
            random,
        }
    }

    pub(super) const fn revision(&self) -> u64 {
        self.rounds.revision
    }

    /// What connects again. The pauses are those of the loop.
    pub(super) fn builder(&self) -> Builder {
        let builder = self.rounds.builder.clone();
        builder.connect_patience(Duration::ZERO)
    }

    /// The calls with which a round begins. All peers make them in this order.
    pub(super) async fn meet<S: Shared>(
        &mut self,
        comm: &mut Communicator,
        state: &mut S,
    ) -> Result<(), Error> {
        let ring = comm.update_topology_async().await?.ring;
        self.optimize(comm, ring.into_iter().collect()).await?;
        let mut entries = SharedState::at(self.rounds.revision);
        state.share(&mut entries)?;
        let synced = comm.sync_shared_state_async(&mut entries, self.rounds.sync);
        self.rounds.revision = synced.await?.revision;
        Ok(())
    }

    /// Optimizes a ring of other peers than before, or if others wait for it. All peers are told the same rings.
    async fn optimize(
        &mut self,
        comm: &mut Communicator,
        ring: BTreeSet<PeerId>,
    ) -> Result<(), Error> {
        let is_due = self.rounds.optimizes && self.optimized.as_ref() != Some(&ring);
        if !is_due && !self.optimizes_first {
            return Ok(());
        }
        match comm.optimize_topology_async().await {
            // The ring is as it was, and good enough to go on.
            Ok(_) | Err(Error::OptimizationFailed) => {
                self.optimizes_first = false;
                self.optimized = Some(ring);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What the step gets.
    pub(super) const fn round<'a, S>(
        &'a mut self,
        comm: &'a Communicator,
        state: &'a mut S,
    ) -> Round<'a, S> {
        Round {
            comm,
            state,
            revision: &mut self.rounds.revision,
        }
    }

    /// What comes after a round that ended like this. The error: the loop ends with it.
    pub(super) fn turn_after<E: StepError>(
        &mut self,
        ended: Result<Outcome, E>,
    ) -> Result<Turn, E> {
        let error = match ended {
            Ok(Outcome(end)) => {
                self.losses = 0;
                self.missed_root = None;
                return Ok(match end {
                    End::Committed => Turn::Next,
                    End::Waits => Turn::Wait,
                    End::Last => Turn::End,
                });
            }
            Err(error) => error,
        };
        match error.call().and_then(|call| self.turn_after_call(call)) {
            Some(turn) => Ok(turn),
            None => Err(error),
        }
    }

    /// `None`: this loop cannot cure it.
    fn turn_after_call(&mut self, error: &Error) -> Option<Turn> {
        tracing::debug!(%error, next = ?error.next(), "a round failed");
        match error.next() {
            Next::CallAgain => Some(Turn::Next),
            Next::StartRoundAgain => {
                // Who was lost is not chosen again, unless the program always has the same root.
                let Error::NoSuchRoot { root, .. } = error else {
                    return Some(Turn::Next);
                };
                let is_same = self.missed_root.replace(*root) == Some(*root);
                (!is_same).then_some(Turn::Next)
            }
            Next::MakeOtherCallFirst(call) => {
                self.optimizes_first |= call == CallKind::OptimizeTopology;
                Some(Turn::Next)
            }
            Next::Reconnect => {
                self.losses += 1;
                (self.losses < LOSSES_MAX).then(|| Turn::Reconnect(error.clone()))
            }
            Next::End | Next::FixProgram => None,
        }
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self, error: Error) {
        tracing::warn!(%error, "the connection to the run is lost");
        self.outage = Some(Outage {
            since: Instant::now(),
            backoff: Backoff::new(),
            error,
        });
    }

    /// How long to wait before the next attempt to connect. The error: there is none.
    pub(super) fn pause(&mut self) -> Result<Duration, Error> {
        let Some(outage) = &mut self.outage else {
            return Ok(Duration::ZERO);
        };
        let pause = outage.backoff.uneven_pause(&mut self.random);
        if outage.since.elapsed().saturating_add(pause) > self.rounds.reconnect_for {
            return Err(outage.error.clone());
        }
        Ok(pause)
    }

    /// What became of an attempt to connect. `None`: another one may succeed.
    pub(super) fn hear(
        &mut self,
        connected: Result<Communicator, Error>,
    ) -> Result<Option<Communicator>, Error> {
        match connected {
            Ok(comm) => {
                self.outage = None;
                // Of another connection nobody waits for this peer yet.
                self.optimizes_first = false;
                Ok(Some(comm))
            }
            Err(error) if error.next() == Next::Reconnect => {
                if let Some(outage) = &mut self.outage {
                    outage.error = error;
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
