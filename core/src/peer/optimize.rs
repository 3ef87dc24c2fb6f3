//! Measuring bandwidths for a better ring.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major};
use super::io::{Answer, CallError, PeerOutput};
use super::{Out, Step, answer, send};
use crate::id::{PeerId, Round};
use crate::messages::ToMaster;
use crate::topology::LaneOrder;

/// How far an `optimize_topology` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Optimization {
    Voted,
    Probing { round: Round },
    Measured { round: Round },
}

impl Optimization {
    /// Whether another ring may be built: nothing is being measured.
    pub(super) fn may_be_wired(self) -> bool {
        match self {
            Self::Voted | Self::Measured { .. } => true,
            Self::Probing { .. } => false,
        }
    }

    /// May measurements of `round` be ordered? A newer round supersedes an older one.
    fn precedes(self, round: Round) -> bool {
        match self {
            Self::Voted => true,
            Self::Probing { round: present } | Self::Measured { round: present } => present < round,
        }
    }
}

impl Accepted {
    pub(super) fn probe(&mut self, round: Round, probes: Vec<LaneOrder>, out: &mut Out) -> Step {
        let Some(Major::Optimize(optimization)) = &mut self.major else {
            return Err(CallError::MasterMisbehaved);
        };
        if optimization.precedes(round) {
            *optimization = Optimization::Probing { round };
            out.push(PeerOutput::Probe { round, probes });
        }
        Ok(())
    }

    fn is_probing(&self, round: Round) -> bool {
        self.major == Some(Major::Optimize(Optimization::Probing { round }))
    }

    pub(super) fn measured(&mut self, round: Round, to: PeerId, kbit_per_s: u64, out: &mut Out) {
        if self.is_probing(round) {
            send(
                out,
                ToMaster::Bandwidth {
                    round,
                    to,
                    kbit_per_s,
                },
            );
        }
    }

    pub(super) fn probes_ended(&mut self, round: Round, ok: bool, out: &mut Out) {
        if self.is_probing(round) {
            self.major = Some(Major::Optimize(Optimization::Measured { round }));
            send(out, ToMaster::ProbesDone { round, ok });
        }
    }

    pub(super) fn optimization_concluded(&mut self, improved_or_kept: bool, out: &mut Out) -> Step {
        let Some(Major::Optimize(_)) = self.major else {
            return Err(CallError::MasterMisbehaved);
        };
        self.major = None;
        let result = if improved_or_kept {
            Ok(self.topology.clone())
        } else {
            Err(CallError::OptimizationFailed)
        };
        answer(out, Some(Answer::TopologyOptimized(result)));
        Ok(())
    }
}
