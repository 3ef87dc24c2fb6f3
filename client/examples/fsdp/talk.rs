//! What a peer tells the process that has started it, or its user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::optimizer::State;

/// From a peer to its supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It is part of the run.
    Joined { peer: u64, world: usize },
    /// It goes on when somebody else has joined; so many, this one included, are still to come.
    AwaitsNewcomer { step: u64, to_come: usize },
    /// It has the snapshot before this step, as everybody has.
    Snapshot { step: u64, world: usize },
    /// A call has failed, and it goes back to the last snapshot.
    WentBack { from: u64, to: u64, why: String },
    /// It stands still where it is to be killed.
    StandsStill,
    /// It has done all steps.
    Finished(Final),
    /// It cannot go on.
    GaveUp { error: String },
}

/// What a peer ends with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Final {
    /// Bits of the weights, means and squares.
    bits: [Vec<u32>; 3],
    /// Steps that this peer has computed, including those that it has computed again.
    pub(crate) steps_here: u64,
    pub(crate) sent: Sent,
}

/// Bytes that a peer has sent in collectives that were committed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Gathering parameters for a step.
    pub(crate) parameters: u64,
    /// Reducing gradients.
    pub(crate) gradients: u64,
    /// Gathering snapshots.
    pub(crate) snapshots: u64,
    /// Handing snapshots to newcomers.
    pub(crate) handed_over: u64,
}

impl Final {
    pub(crate) fn new(state: &State, steps_here: u64, sent: Sent) -> Self {
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect();
        Self {
            bits: [&state.weights, &state.mean, &state.square].map(|part| bits(part)),
            steps_here,
            sent,
        }
    }

    pub(crate) fn state(&self) -> State {
        let numbers = |bits: &[u32]| bits.iter().copied().map(f32::from_bits).collect();
        let [weights, mean, square] = self.bits.each_ref().map(|part| numbers(part));
        State {
            weights,
            mean,
            square,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { peer, world } => write!(f, "joined as peer {peer}, world size {world}"),
            Self::AwaitsNewcomer { step, .. } => write!(f, "step {step}: awaits a newcomer"),
            Self::Snapshot { step, world } => write!(f, "step {step}: snapshot of {world} peers"),
            Self::WentBack { from, to, why } => {
                write!(f, "step {from}: back to the snapshot of step {to}: {why}")
            }
            Self::StandsStill => f.write_str("stands still"),
            Self::Finished(end) => write!(f, "finished: {end}"),
            Self::GaveUp { error } => write!(f, "gave up: {error}"),
        }
    }
}

impl fmt::Display for Final {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sent {
            parameters,
            gradients,
            snapshots,
            handed_over,
        } = self.sent.clone();
        let kib = |bytes: u64| bytes.div_ceil(1024);
        write!(
            f,
            "{} steps here; KiB sent: parameters {}, gradients {}, snapshots {}, to newcomers {}",
            self.steps_here,
            kib(parameters),
            kib(gradients),
            kib(snapshots),
            kib(handed_over)
        )
    }
}
