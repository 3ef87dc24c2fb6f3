//! Topology optimization: measure the edges that are not known, solve for better rings, probe them under load,
//! adopt them.
//!
//! ```text
//!  all vote ──▶ rotations ──▶ SolveTour per group ──▶ all edges of the rings at once ──▶ wiring ──▶ over
//!                                   ▲                            │
//!                                   └── once, where a ring is slower under load than its edges alone
//! ```
//!
//! A rotation is over when all its reports have arrived. The master does not wait for a peer that has died, whose
//! other end has died, or that takes longer than [`probe`](super::MasterConfig::probe). A peer that has not reported
//! has no edges in the problem, and is not evicted for it. Any failure leaves the rings unchanged for all peers.
//! Edges that could not be wired are neither measured nor in the problem.
//!
//! If a ring is solved once more, that ring is probed under load as well, and the results of both under load are
//! compared.
//!
//! In a large group some edges of each peer are measured, and the others are estimated from the limits of their ends.
//! Then the edges of the solver's ring are measured, up to a few times.
//!
//! The sites that were found by the measurements are announced with the rings ([`sites`](super::sites)), even if the
//! rings are unchanged.
//!
//! A ring is adopted if it saves at least [`rewiring_gain`](super::MasterConfig::rewiring_gain) percent of the time
//! of a reduce, or if nothing is known about the current one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::loads::{Load, Loaded};
use super::probes::{Edge, Rotation, rotations};
use super::probing::Probing;
use super::record::Stake;
use super::{Master, MasterOutput, Out, Scope, send};
use crate::id::{GroupId, PeerId, Round};
use crate::messages::ToPeer;
use crate::paths::{Measurement, RingEstimate, RingReport};
use crate::states::{ConnectionState, Event};
use crate::topology::Ring;
use crate::tour::{Solved, TourProblem};

/// How often edges of a large group are measured because the solver's ring has them.
const WANTED_ROUNDS: u8 = 3;

/// The running optimization.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Optimization {
    /// The round of its members and of questions to the solver.
    pub(super) round: Round,
    stage: Stage,
    /// Rings that were found in the background before it began.
    candidates: Vec<(GroupId, Solved)>,
    /// Edges of large groups whose measurement it has ordered.
    pub(super) tried: Rotation,
    /// Peers whose measurements took too long. They measure no more.
    pub(super) slow: BTreeSet<PeerId>,
    /// The reports to the groups.
    reports: BTreeMap<GroupId, RingReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Stage {
    Probing(Probing),
    Solving(Solving),
    /// The better rings are being connected, in this wiring.
    Connecting {
        wiring: Round,
    },
}

/// The solver is running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Solving {
    pub(super) awaiting: BTreeSet<GroupId>,
    pub(super) solved: BTreeMap<GroupId, Solved>,
    pub(super) failed: bool,
    /// How often edges of the solver's ring may still be measured.
    pub(super) wanted: u8,
    /// The rings that were probed under load, the last ring of each group at the end. `None` if none was.
    pub(super) loaded: Option<Vec<(GroupId, Loaded)>>,
    /// Whether found rings may be probed under load.
    pub(super) may_load: bool,
}

/// The stage after one that is over.
enum Next {
    GiveUp,
    Rotate,
    Solve { wanted: u8 },
    Judge { load: Load },
    Probe { edges: Rotation, wanted: u8 },
    Load { load: Load },
    Adopt { found: Vec<(GroupId, Loaded)> },
}

impl Optimization {
    pub(super) fn probing_mut(&mut self) -> Option<&mut Probing> {
        match &mut self.stage {
            Stage::Probing(probing) => Some(probing),
            Stage::Solving(_) | Stage::Connecting { .. } => None,
        }
    }
}

impl Master {
    pub(super) fn vote_to_optimize(&mut self, peer: PeerId, out: &mut Out) {
        self.vote_to_begin(peer, Event::VotedToOptimize, Stake::Vote, out);
    }

    /// `true` if the ballot was unanimous and the first measurements were ordered.
    pub(super) fn count_optimize(&mut self, out: &mut Out) -> bool {
        let Some(voters) = self.unanimous(ConnectionState::VoteOptimizeTopology) else {
            return false;
        };
        let candidates = self.end_searches(out);
        let round = self.take_round();
        for peer in &voters {
            if let Some(record) = self.record_mut(*peer) {
                record.round = Some(round);
            }
        }
        let probing = Probing {
            rest: rotations(self.unmeasured_edges()),
            wanted: WANTED_ROUNDS,
            ..Probing::default()
        };
        self.optimization = Some(Optimization {
            round,
            stage: Stage::Probing(probing),
            candidates,
            tried: Rotation::new(),
            slow: BTreeSet::new(),
            reports: BTreeMap::new(),
        });
        self.rotate(out);
        for peer in voters {
            if self.state_of(peer) == Some(ConnectionState::VoteOptimizeTopology) {
                self.step(peer, Event::NothingToProbe, out);
            }
        }
        true
    }

    /// Edges inside groups with a choice of rings.
    fn unmeasured_edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (group, members) in self.groups_with_a_choice() {
            let barred = self.barred_edges(group, &members);
            let of_group: Vec<Edge> = match self.is_large(members.len()) {
                true => sample(&members).collect(),
                false => Ring(members).pairs().collect(),
            };
            edges.extend(of_group.into_iter().filter(|edge| !barred.contains(edge)));
        }
        edges.retain(|edge| rule!(!self.known.is_tried(*edge); FreshMeasuredAgain => true));
        edges
    }

    /// Whether a group has too many edges to measure all of them.
    pub(super) fn is_large(&self, members: usize) -> bool {
        members > usize::from(self.config.probe_all_max)
    }

    /// Groups of at least three members: smaller ones have only one ring.
    fn groups_with_a_choice(&self) -> BTreeMap<GroupId, Vec<PeerId>> {
        let all = self
            .groups
            .keys()
            .map(|group| (*group, self.in_ring_order(*group)));
        all.filter(|(_, members)| members.len() > 2).collect()
    }

    pub(super) fn in_ring_order(&self, group: GroupId) -> Vec<PeerId> {
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

    /// `true` if the stage was over and the next one began.
    pub(super) fn count_optimization(&mut self, out: &mut Out) -> bool {
        match self.after_stage() {
            None => return false,
            Some(Next::GiveUp) => self.give_up_optimization(out),
            Some(Next::Rotate) => self.rotate(out),
            Some(Next::Solve { wanted }) => {
                let groups = self.groups_with_a_choice().into_keys().collect();
                let solving = Solving {
                    wanted,
                    may_load: true,
                    ..Solving::default()
                };
                self.solve(groups, solving, out);
            }
            Some(Next::Probe { edges, wanted }) => {
                let probing = Probing {
                    rest: rotations(edges),
                    wanted,
                    ..Probing::default()
                };
                self.probe(probing, out);
            }
            Some(Next::Judge { load }) => self.judge(load, out),
            Some(Next::Load { load }) => self.load(load, out),
            Some(Next::Adopt { found }) => self.adopt_better(found, out),
        }
        true
    }

    /// The next stage. `None` if the current one is not over.
    fn after_stage(&self) -> Option<Next> {
        match &self.optimization.as_ref()?.stage {
            Stage::Probing(probing) => {
                let in_flight = probing.awaiting.len();
                let is_over = rule!(
                    in_flight == 0;
                    RotationBeforeLastReport => in_flight <= 1
                );
                is_over.then(|| self.after_rotation(probing))
            }
            Stage::Solving(solving) => {
                let is_over = solving.awaiting.is_empty();
                is_over.then(|| self.after_solving(solving))
            }
            Stage::Connecting { .. } => None,
        }
    }

    fn after_rotation(&self, probing: &Probing) -> Next {
        let mut rest = probing.rest.iter().flatten();
        if probing.failed {
            Next::GiveUp
        } else if rest.any(|edge| self.can_be_probed(*edge)) {
            Next::Rotate
        } else {
            match &probing.load {
                None => Next::Solve {
                    wanted: probing.wanted,
                },
                Some(load) => Next::Judge { load: load.clone() },
            }
        }
    }

    fn after_solving(&self, solving: &Solving) -> Next {
        let loaded = solving.loaded.iter().flatten();
        let loaded = loaded.map(|(group, loaded)| (group, &loaded.solved));
        let mut rings = loaded.chain(&solving.solved);
        let departed = rings.any(|(group, solved)| !self.is_of_all(*group, &solved.ring));
        let is_over = solving.failed && solving.loaded.is_none()
            || rule!(departed; RingOfTheDepartedAdopted => false);
        if is_over {
            return Next::GiveUp;
        }
        let edges = self.wanted_edges(&solving.solved);
        let wanted = solving.wanted.checked_sub(1).filter(|_| !edges.is_empty());
        let is_new = rule!(
            solving.may_load && !self.is_load_known(&solving.solved);
            LoadProbedAgain => !solving.solved.is_empty()
        );
        match wanted {
            Some(wanted) if solving.loaded.is_none() => Next::Probe { edges, wanted },
            Some(_) | None if is_new => Next::Load {
                load: self.load_of(solving),
            },
            Some(_) | None => Next::Adopt {
                found: self.found(solving),
            },
        }
    }

    /// Orders rings for these groups.
    pub(super) fn solve(&mut self, groups: BTreeSet<GroupId>, solving: Solving, out: &mut Out) {
        let Some(round) = self.optimization.as_ref().map(|current| current.round) else {
            return;
        };
        for group in &groups {
            let problem = self.tour_problem(*group);
            out.push(MasterOutput::SolveTour {
                round,
                group: *group,
                problem,
            });
        }
        self.enter(Stage::Solving(Solving {
            awaiting: groups,
            ..solving
        }));
    }

    fn enter(&mut self, stage: Stage) {
        if let Some(current) = &mut self.optimization {
            current.stage = stage;
        }
    }

    /// Starts the first of these rotations.
    pub(super) fn probe(&mut self, probing: Probing, out: &mut Out) {
        self.enter(Stage::Probing(probing));
        self.rotate(out);
    }

    /// Edges of these rings that are only estimated, as happens in large groups.
    fn wanted_edges(&self, solved: &BTreeMap<GroupId, Solved>) -> Rotation {
        let rings = solved.values().map(|solved| &solved.ring);
        let edges = rings
            .filter(|ring| self.is_large(ring.world_size()))
            .flat_map(Ring::edges);
        edges.filter(|edge| !self.known.is_tried(*edge)).collect()
    }

    fn tour_problem(&self, group: GroupId) -> TourProblem {
        let members = self.in_ring_order(group);
        let barred = self.barred_edges(group, &members);
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let (mut edges, mut unusable) = (BTreeMap::new(), barred.clone());
        for (edge, known) in members.iter().flat_map(|peer| self.known.from(*peer)) {
            let is_open = !barred.contains(&edge) && is_member.contains(&edge.1);
            let known = known.filter(|_| is_open);
            let told = rule!(edge; MeasurementsTurnedRound => (edge.1, edge.0));
            match known {
                Some(known) => drop(edges.insert(told, known)),
                None => drop(unusable.insert(edge)),
            }
        }
        rule!({}; UnreportedHasAnEdge => for edge in Ring(members.clone()).pairs() {
            let slow = crate::paths::Measurement { bytes_per_s: 1, round_trip_us: 0 };
            edges.entry(edge).or_insert(slow);
        });
        let estimated_but = self.is_large(members.len()).then(|| {
            unusable.extend(self.not_to_be_estimated(&members, &edges));
            unusable
        });
        TourProblem {
            members,
            edges,
            estimated_but,
        }
    }

    /// Edges of a large group that were measured without success, or cannot be probed any more in this optimization.
    fn not_to_be_estimated(
        &self,
        members: &[PeerId],
        known: &BTreeMap<Edge, Measurement>,
    ) -> Vec<Edge> {
        let Some(current) = &self.optimization else {
            return Vec::new();
        };
        let slow = members.iter().filter(|peer| current.slow.contains(peer));
        let of_slow = slow.flat_map(|slow| {
            let both_ways = |other: &PeerId| [(*slow, *other), (*other, *slow)];
            members.iter().flat_map(both_ways)
        });
        let of_slow = of_slow.filter(|edge| !known.contains_key(edge));
        current.tried.iter().copied().chain(of_slow).collect()
    }

    pub(super) fn tour_solved(&mut self, solved: Round, group: GroupId, found: Option<Solved>) {
        let Some(Optimization {
            round,
            stage: Stage::Solving(solving),
            ..
        }) = &mut self.optimization
        else {
            return;
        };
        let is_late = rule!(*round != solved; TourOfAnotherRound => false);
        if is_late || !solving.awaiting.remove(&group) {
            return;
        }
        match found {
            Some(found) => {
                solving.solved.insert(group, found);
            }
            None => {
                solving.failed = true;
                // Without a ring the next optimization is to find more edges, and not the same.
                let members = self.in_ring_order(group);
                self.known.forget_failed(Ring(members).pairs());
            }
        }
    }

    /// Whether the ring is a permutation of the group.
    pub(super) fn is_of_all(&self, group: GroupId, ring: &Ring) -> bool {
        ring.is_of(&self.accepted_in(group).map(|(peer, _)| peer).collect())
    }

    /// The estimate of a ring, by the known measurements.
    pub(super) fn estimate(&self, ring: &Ring) -> Option<RingEstimate> {
        RingEstimate::of(ring, |edge| self.known.of(edge))
    }

    /// Connects the best of these rings and the current ones.
    fn adopt_better(&mut self, found: Vec<(GroupId, Loaded)>, out: &mut Out) {
        let mut rings = BTreeMap::new();
        let mut reports = BTreeMap::new();
        let candidates = self
            .optimization
            .as_ref()
            .map(|current| &current.candidates);
        let candidates = candidates
            .into_iter()
            .flatten()
            .filter(|(group, candidate)| {
                let departed = !self.is_of_all(*group, &candidate.ring);
                rule!(!departed; StaleSearchAdopted => true)
            });
        let candidates = candidates.map(|(group, solved)| (*group, self.as_known(solved)));
        let all: Vec<(GroupId, Loaded)> = candidates.chain(found.iter().cloned()).collect();
        for group in self.groups.keys() {
            let candidates = all.iter().filter(|(of, _)| of == group);
            let (ring, report) = self.choose(*group, candidates.map(|(_, loaded)| loaded));
            rings.extend(ring.map(|ring| (*group, ring)));
            reports.insert(*group, report);
        }
        let open = found.iter().filter(|(_, found)| !found.solved.is_optimal);
        let open: BTreeSet<GroupId> = open.map(|(group, _)| *group).collect();
        if let Some(round) = self.optimization.as_ref().map(|current| current.round) {
            for group in open {
                self.search_on(round, group, out);
            }
        }
        let wiring = self.next_round;
        if let Some(current) = &mut self.optimization {
            current.reports = reports;
            current.stage = Stage::Connecting { wiring };
        }
        let everybody: Vec<PeerId> = self.accepted().map(|(peer, _)| peer).collect();
        self.start_wiring(Scope::Everybody, &everybody, Some(&rings), out);
    }

    /// The ring to adopt, unless the current one stays.
    fn choose<'a>(
        &self,
        group: GroupId,
        found: impl Iterator<Item = &'a Loaded>,
    ) -> (Option<Ring>, RingReport) {
        let before = Ring(self.in_ring_order(group));
        let barred = self.barred_edges(group, &before.0);
        // A ring that stands and of which an edge brought nothing under load is not given up for any other one.
        let alone = || RingEstimate::of(&before, |edge| self.known.alone(edge));
        let expected_before = self.estimate(&before).or_else(alone);
        let mut report = RingReport {
            before,
            expected_before,
            expected: expected_before,
            bound: None,
        };
        let mut chosen = None;
        for candidate in found {
            // The last one knows most.
            report.bound = Some(candidate.solved.bound);
            let ring = &candidate.solved.ring;
            let can_be_wired = !ring.edges().any(|edge| barred.contains(&edge));
            let Some(estimate) = candidate.estimate.filter(|_| can_be_wired) else {
                // An edge of it cannot be used.
                continue;
            };
            let best = &report.expected;
            if best.is_none_or(|best| self.is_worth(&estimate, &best)) {
                report.expected = Some(estimate);
                chosen = Some(ring.clone());
            }
        }
        (chosen, report)
    }

    /// Whether a ring is worth a rewiring, compared with another one.
    pub(super) fn is_worth(&self, ring: &RingEstimate, other: &RingEstimate) -> bool {
        let (percent, bytes) = (self.config.rewiring_gain, self.config.reduce_bytes);
        ring.is_worth(percent, other, bytes)
    }

    /// Ends the optimization. The rings are unchanged on all peers.
    pub(super) fn give_up_optimization(&mut self, out: &mut Out) {
        let Some(Optimization { round, .. }) = self.optimization.take() else {
            return;
        };
        self.known.end_load();
        let members: Vec<PeerId> = self
            .accepted()
            .filter(|(_, record)| record.round == Some(round))
            .map(|(peer, _)| peer)
            .collect();
        for peer in members {
            if let Some(record) = self.record_mut(peer) {
                record.round = None;
            }
            self.optimization_concluded_for(peer, None, out);
        }
    }

    pub(super) fn optimization_concluded_for(
        &mut self,
        peer: PeerId,
        report: Option<RingReport>,
        out: &mut Out,
    ) {
        self.step(peer, Event::OptimizationConcluded, out);
        send(out, peer, ToPeer::OptimizationConcluded { report });
    }

    /// The report to the peer about an established ring.
    pub(super) fn report_for(&self, peer: PeerId) -> RingReport {
        let group = self.peers.get(&peer).map(|record| record.group);
        let reports = self.optimization.as_ref().map(|current| &current.reports);
        let report = group.and_then(|group| reports?.get(&group));
        report.cloned().unwrap_or_default()
    }

    /// This wiring is over, with or without success. `true` if it was that of better rings.
    pub(super) fn drop_optimization_of(&mut self, over: Round) -> bool {
        let connected = self.optimization.take_if(|current| match &current.stage {
            Stage::Connecting { wiring } => *wiring == over,
            Stage::Probing(_) | Stage::Solving(_) => false,
        });
        if connected.is_some() {
            self.known.end_load();
        }
        connected.is_some()
    }

    /// Whether this wiring is that of better rings.
    pub(super) fn is_connecting(&self, round: Round) -> bool {
        let stage = self.optimization.as_ref().map(|current| &current.stage);
        stage.is_some_and(|stage| match stage {
            Stage::Connecting { wiring } => *wiring == round,
            Stage::Probing(_) | Stage::Solving(_) => false,
        })
    }

    /// The solver has taken too long. The rings are unchanged.
    pub(super) fn solver_overdue(&mut self, overdue: Round, out: &mut Out) {
        if self.solving_round() == Some(overdue) {
            self.give_up_optimization(out);
        }
    }

    /// The optimization that waits for the solver.
    pub(super) fn solving_round(&self) -> Option<Round> {
        let current = self.optimization.as_ref()?;
        match current.stage {
            Stage::Solving(_) => Some(current.round),
            // Each peer has a deadline for its measurements, and the wiring has one of its own.
            Stage::Probing(_) | Stage::Connecting { .. } => None,
        }
    }
}

/// Some edges of each peer, those of the ring included: enough to estimate how fast it sends and receives.
fn sample(members: &[PeerId]) -> impl Iterator<Item = Edge> + '_ {
    let count = members.len();
    let strides = [1, count / 3, count - count / 3];
    let next = move |at: usize, stride: usize| members.get((at + stride) % count.max(1));
    let edges = strides.into_iter().flat_map(move |stride| {
        let from = members.iter().enumerate();
        from.filter_map(move |(at, from)| Some((*from, *next(at, stride)?)))
    });
    edges.filter(|(from, to)| from != to)
}
