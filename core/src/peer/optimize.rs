//! Measuring edges for a better ring.
//!
//! The master orders one rotation of measurements after the other, with a time limit for each. A newer order, another
//! ring or the end of the optimization supersedes measurements that have not ended.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major, OpenMajor};
use super::io::{Answer, CallError, Optimized, PeerOutput};
use super::{Out, Step, send};
use crate::id::{PeerId, Round};
use crate::messages::ToMaster;
use crate::paths::{Measurement, RingReport};
use crate::topology::LinkOrder;

/// The progress of an `optimize_topology`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Optimization {
    Voted,
    Probing { round: Round },
    Measured { round: Round },
}

impl Optimization {
    /// Whether measurements of `round` may be ordered. A newer round supersedes an older one.
    fn precedes(self, round: Round) -> bool {
        match self {
            Self::Voted => true,
            Self::Probing { round: present } | Self::Measured { round: present } => present < round,
        }
    }

    /// The rotation in progress.
    fn probing(self) -> Option<Round> {
        match self {
            Self::Probing { round } => Some(round),
            Self::Voted | Self::Measured { .. } => None,
        }
    }
}

impl Accepted {
    pub(super) fn probe(&mut self, round: Round, probes: Vec<LinkOrder>, out: &mut Out) -> Step {
        let me = self.welcomed.peer;
        let makes_no_sense = |order: &LinkOrder| order.lanes.with == me || order.lanes.lanes == 0;
        let in_order = probes.is_sorted_by(|one, next| one.link() < next.link());
        if !in_order || probes.iter().any(makes_no_sense) {
            return Err(CallError::MasterMisbehaved);
        }
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

    fn optimization_mut(&mut self) -> Option<&mut Optimization> {
        match &mut self.major.as_mut()?.what {
            Major::Optimize(optimization) => Some(optimization),
            Major::Update | Major::Sync(_) => None,
        }
    }

    /// The optimization, if it measures this rotation.
    fn probing(&mut self, round: Round) -> Option<&mut Optimization> {
        let optimization = self.optimization_mut()?;
        Some(optimization).filter(|present| present.probing() == Some(round))
    }

    pub(super) fn measured(
        &mut self,
        round: Round,
        to: PeerId,
        measured: Measurement,
        out: &mut Out,
    ) {
        if self.probing(round).is_some() {
            let report = ToMaster::Measured {
                round,
                to,
                measured,
            };
            send(out, report);
        }
    }

    pub(super) fn probes_ended(&mut self, round: Round, ok: bool, out: &mut Out) {
        if let Some(optimization) = self.probing(round) {
            *optimization = Optimization::Measured { round };
            send(out, ToMaster::ProbesDone { round, ok });
        }
    }

    /// The master no longer needs the measurements that have not ended.
    pub(super) fn stop_probes(&mut self, out: &mut Out) {
        let Some(optimization) = self.optimization_mut() else {
            return;
        };
        if let Some(round) = optimization.probing() {
            *optimization = Optimization::Measured { round };
            out.push(PeerOutput::StopProbes { round });
        }
    }

    pub(super) fn optimization_concluded(
        &mut self,
        report: Option<RingReport>,
        out: &mut Out,
    ) -> Step {
        self.stop_probes(out);
        let is_meant = |major: &mut OpenMajor| matches!(major.what, Major::Optimize(_));
        let major = self
            .major
            .take_if(is_meant)
            .ok_or(CallError::MasterMisbehaved)?;
        let topology = || self.topology.clone();
        let optimized = report.map(|report| Optimized {
            topology: topology(),
            report,
        });
        let result = optimized.ok_or(CallError::OptimizationFailed);
        major.caller.is_told(Answer::TopologyOptimized(result), out);
        Ok(())
    }
}
