//! Measuring bandwidths for a better ring.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major, OpenMajor};
use super::io::{Answer, CallError, PeerOutput};
use super::{Out, Step, send};
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
        let Some(Major::Optimize(optimization)) = self.major.as_mut().map(|major| &mut major.what)
        else {
            return Err(CallError::MasterMisbehaved);
        };
        if optimization.precedes(round) {
            *optimization = Optimization::Probing { round };
            out.push(PeerOutput::Probe { round, probes });
        }
        Ok(())
    }

    /// The optimization, if these measurements are under way.
    fn probing(&mut self, round: Round) -> Option<&mut Optimization> {
        match &mut self.major.as_mut()?.what {
            Major::Optimize(optimization) => {
                Some(optimization).filter(|present| **present == Optimization::Probing { round })
            }
            Major::Update | Major::Sync(_) => None,
        }
    }

    pub(super) fn measured(&mut self, round: Round, to: PeerId, kbit_per_s: u64, out: &mut Out) {
        if self.probing(round).is_some() {
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
        if let Some(optimization) = self.probing(round) {
            *optimization = Optimization::Measured { round };
            send(out, ToMaster::ProbesDone { round, ok });
        }
    }

    pub(super) fn optimization_concluded(&mut self, improved_or_kept: bool, out: &mut Out) -> Step {
        let is_meant = |major: &mut OpenMajor| matches!(major.what, Major::Optimize(_));
        let major = self
            .major
            .take_if(is_meant)
            .ok_or(CallError::MasterMisbehaved)?;
        let result = if improved_or_kept {
            Ok(self.topology.clone())
        } else {
            Err(CallError::OptimizationFailed)
        };
        major.caller.is_told(Answer::TopologyOptimized(result), out);
        Ok(())
    }
}
