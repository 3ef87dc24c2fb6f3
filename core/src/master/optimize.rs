//! Topology optimization: measure the edges that are not known, solve for better rings, adopt them.
//!
//! ```text
//!  all vote ──▶ probes ──▶ all measured ──▶ SolveTour per group ──▶ TourSolved ──▶ wiring ──▶ over
//! ```
//!
//! Measurements are kept until one of the two peers goes away. An edge that could not be measured is
//! no edge for the solver. Whatever goes wrong leaves the rings as they were, for everybody.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::Stake;
use super::{Master, MasterOutput, Out, Scope, send};
use crate::id::{GroupId, PeerId, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::states::{ConnectionState, Event};
use crate::topology::{LaneOrder, Ring};
use crate::tour::TourProblem;

/// A measurement is made on one lane.
const PROBE_LANES: u16 = 1;

/// The optimization that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Optimization {
    pub(super) round: Round,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Probing {
        /// Ordered measurements, sender first.
        asked: BTreeSet<(PeerId, PeerId)>,
        awaiting: BTreeSet<PeerId>,
        failed: bool,
    },
    Solving {
        awaiting: BTreeSet<GroupId>,
        rings: BTreeMap<GroupId, Ring>,
        failed: bool,
    },
    /// The better rings are being connected, in this wiring.
    Connecting { wiring: Round },
}

/// What follows a stage that is over.
enum Next {
    GiveUp,
    Solve { round: Round },
    Adopt { rings: BTreeMap<GroupId, Ring> },
}

impl Master {
    pub(super) fn vote_to_optimize(&mut self, peer: PeerId, out: &mut Out) {
        self.vote_to_begin(peer, Event::VotedToOptimize, Stake::Vote, out);
    }

    /// True: the ballot was unanimous and the measurements are ordered.
    pub(super) fn count_optimize(&mut self, out: &mut Out) -> bool {
        let Some(voters) = self.unanimous(ConnectionState::VoteOptimizeTopology) else {
            return false;
        };
        let round = self.take_round();
        let asked = self.unmeasured_edges();
        let mut orders: BTreeMap<PeerId, Vec<LaneOrder>> = BTreeMap::new();
        for (from, to) in &asked {
            if let Some((ours, theirs)) = self.lane_orders(round, *from, *to, PROBE_LANES) {
                orders.entry(*from).or_default().push(ours);
                orders.entry(*to).or_default().push(theirs);
            }
        }
        for peer in &voters {
            if let Some(record) = self.record_mut(*peer) {
                record.round = Some(round);
            }
            self.step(*peer, Event::ProbesHandedOut, out);
            let probes = orders.remove(peer).unwrap_or_default();
            send(out, *peer, ToPeer::Probe { round, probes });
        }
        let awaiting = voters.into_iter().collect();
        let stage = Stage::Probing {
            asked,
            awaiting,
            failed: false,
        };
        self.optimization = Some(Optimization { round, stage });
        true
    }

    /// Edges inside groups with a choice of rings, where the sender can open the lane.
    fn unmeasured_edges(&self) -> BTreeSet<(PeerId, PeerId)> {
        let mut edges = BTreeSet::new();
        for members in self.groups_with_a_choice().into_values() {
            for from in &members {
                for to in members.iter().filter(|to| *to != from) {
                    let known = self.bandwidth.contains_key(&(*from, *to));
                    if !known && self.dialler(*from, *to) == *from {
                        edges.insert((*from, *to));
                    }
                }
            }
        }
        edges
    }

    /// A ring of one or two is what it is.
    fn groups_with_a_choice(&self) -> BTreeMap<GroupId, Vec<PeerId>> {
        let all = self
            .groups
            .keys()
            .map(|group| (*group, self.in_ring_order(*group)));
        all.filter(|(_, members)| members.len() > 2).collect()
    }

    fn in_ring_order(&self, group: GroupId) -> Vec<PeerId> {
        let accepted: BTreeSet<PeerId> = self.accepted_in(group).map(|(peer, _)| peer).collect();
        let ring = self
            .groups
            .get(&group)
            .map(|record| record.ring.0.as_slice());
        ring.unwrap_or_default()
            .iter()
            .copied()
            .filter(|peer| accepted.contains(peer))
            .collect()
    }

    pub(super) fn measured(
        &mut self,
        peer: PeerId,
        round: Round,
        to: PeerId,
        kbit_per_s: u64,
        out: &mut Out,
    ) {
        if !self.was_ordered(peer, round, out) {
            return;
        }
        let Some(current) = self.optimization.as_ref().filter(|o| o.round == round) else {
            return;
        };
        let Stage::Probing {
            asked, awaiting, ..
        } = &current.stage
        else {
            return;
        };
        if !self.peers.contains_key(&to) {
            // It was lost while the report was on its way, and is not measured again.
            return;
        }
        if asked.contains(&(peer, to)) && awaiting.contains(&peer) {
            let is_first = self.bandwidth.insert((peer, to), kbit_per_s).is_none();
            let goes_on = rule!(is_first; MeasurementGainsNoTime => false);
            self.went_on.extend(goes_on.then_some(peer));
        } else {
            self.kick(peer, Misdeed::UnaskedProbe, out);
        }
    }

    pub(super) fn probes_done(&mut self, peer: PeerId, done: Round, ok: bool, out: &mut Out) {
        if !self.was_ordered(peer, done, out) {
            return;
        }
        if self
            .optimization
            .as_ref()
            .is_none_or(|current| current.round != done)
        {
            return;
        }
        let event = if ok {
            Event::ProbesDone
        } else {
            Event::ProbesFailed
        };
        if !self.step_or_kick(peer, event, out) {
            return;
        }
        if let Some(Optimization {
            stage: Stage::Probing {
                awaiting, failed, ..
            },
            ..
        }) = &mut self.optimization
        {
            awaiting.remove(&peer);
            *failed |= !ok;
        }
    }

    /// True: the stage was over, and the next began.
    pub(super) fn count_optimization(&mut self, out: &mut Out) -> bool {
        match self.after_stage() {
            None => return false,
            Some(Next::GiveUp) => self.conclude_optimization(false, out),
            Some(Next::Solve { round }) => self.solve(round, out),
            Some(Next::Adopt { rings }) => self.adopt_better(rings, out),
        }
        true
    }

    /// What follows the present stage. `None`: it is not over.
    fn after_stage(&self) -> Option<Next> {
        let Optimization { round, stage } = self.optimization.as_ref()?;
        match stage {
            Stage::Probing {
                awaiting, failed, ..
            } if awaiting.is_empty() => Some(match *failed {
                true => Next::GiveUp,
                false => Next::Solve { round: *round },
            }),
            Stage::Solving {
                awaiting,
                rings,
                failed,
            } if awaiting.is_empty() => {
                let departed = !self.are_permutations(rings);
                let no_better = *failed || rule!(departed; RingOfTheDepartedAdopted => false);
                Some(match no_better {
                    true => Next::GiveUp,
                    false => Next::Adopt {
                        rings: rings.clone(),
                    },
                })
            }
            Stage::Probing { .. } | Stage::Solving { .. } | Stage::Connecting { .. } => None,
        }
    }

    fn solve(&mut self, round: Round, out: &mut Out) {
        let groups = self.groups_with_a_choice();
        for (group, members) in &groups {
            let problem = self.tour_problem(members);
            out.push(MasterOutput::SolveTour {
                round,
                group: *group,
                problem,
            });
        }
        let awaiting = groups.into_keys().collect();
        let stage = Stage::Solving {
            awaiting,
            rings: BTreeMap::new(),
            failed: false,
        };
        self.optimization = Some(Optimization { round, stage });
    }

    fn tour_problem(&self, members: &[PeerId]) -> TourProblem {
        let mut kbit_per_s = BTreeMap::new();
        for from in members {
            for to in members.iter().filter(|to| *to != from) {
                // Where only the receiver can open lanes, the opposite direction stands for this one.
                let one_way = self.dialler(*from, *to) == *to;
                let edge = if rule!(one_way; MeasurementsTurnedRound => !one_way) {
                    (*to, *from)
                } else {
                    (*from, *to)
                };
                if let Some(measured) = self.bandwidth.get(&edge) {
                    kbit_per_s.insert((*from, *to), *measured);
                }
            }
        }
        TourProblem {
            members: members.to_vec(),
            kbit_per_s,
        }
    }

    pub(super) fn tour_solved(&mut self, solved: Round, group: GroupId, ring: Option<Ring>) {
        let Some(Optimization {
            round,
            stage:
                Stage::Solving {
                    awaiting,
                    rings,
                    failed,
                },
        }) = &mut self.optimization
        else {
            return;
        };
        let is_late = rule!(*round != solved; TourOfAnotherRound => false);
        if is_late || !awaiting.remove(&group) {
            return;
        }
        match ring {
            Some(ring) => {
                rings.insert(group, ring);
            }
            None => *failed = true,
        }
    }

    /// Members may have gone while the solver worked.
    fn are_permutations(&self, rings: &BTreeMap<GroupId, Ring>) -> bool {
        rings.iter().all(|(group, ring)| {
            let on_ring: BTreeSet<PeerId> = ring.0.iter().copied().collect();
            let accepted: BTreeSet<PeerId> =
                self.accepted_in(*group).map(|(peer, _)| peer).collect();
            on_ring == accepted && on_ring.len() == ring.0.len()
        })
    }

    fn adopt_better(&mut self, rings: BTreeMap<GroupId, Ring>, out: &mut Out) {
        let everybody: Vec<PeerId> = self.accepted().map(|(peer, _)| peer).collect();
        if let Some(current) = &mut self.optimization {
            current.stage = Stage::Connecting {
                wiring: self.next_round,
            };
        }
        self.start_wiring(Scope::Everybody, &everybody, Some(&rings), out);
    }

    pub(super) fn conclude_optimization(&mut self, improved_or_kept: bool, out: &mut Out) {
        let Some(Optimization { round, .. }) = self.optimization.take() else {
            return;
        };
        let members: Vec<PeerId> = self
            .accepted()
            .filter(|(_, record)| record.round == Some(round))
            .map(|(peer, _)| peer)
            .collect();
        for peer in members {
            if let Some(record) = self.record_mut(peer) {
                record.round = None;
            }
            self.optimization_concluded_for(peer, improved_or_kept, out);
        }
    }

    pub(super) fn optimization_concluded_for(
        &mut self,
        peer: PeerId,
        improved_or_kept: bool,
        out: &mut Out,
    ) {
        self.step(peer, Event::OptimizationConcluded, out);
        send(
            out,
            peer,
            ToPeer::OptimizationConcluded { improved_or_kept },
        );
    }

    /// This wiring is over, one way or the other. True: it was that of better rings.
    pub(super) fn drop_optimization_of(&mut self, over: Round) -> bool {
        let connected = self.optimization.take_if(|current| match &current.stage {
            Stage::Connecting { wiring } => *wiring == over,
            Stage::Probing { .. } | Stage::Solving { .. } => false,
        });
        connected.is_some()
    }

    /// The solver has taken too long: the rings stay.
    pub(super) fn solver_overdue(&mut self, overdue: Round, out: &mut Out) {
        if self.solving_round() == Some(overdue) {
            self.conclude_optimization(false, out);
        }
    }

    /// The optimization that waits for the solver.
    pub(super) fn solving_round(&self) -> Option<Round> {
        let current = self.optimization.as_ref()?;
        match current.stage {
            Stage::Solving { .. } => Some(current.round),
            // Each peer has a deadline for its measurements, and the wiring has one of its own.
            Stage::Probing { .. } | Stage::Connecting { .. } => None,
        }
    }

    pub(super) fn optimization_loses(&mut self, peer: PeerId) {
        if self.tally.members() == 0 {
            // Whoever is admitted next does not wait for it, and neither does a deadline.
            self.optimization = None;
        }
        if let Some(Optimization {
            stage: Stage::Probing { awaiting, .. },
            ..
        }) = &mut self.optimization
        {
            rule!(awaiting.remove(&peer); OptimizationWaitsForTheDead => false);
        }
    }
}
