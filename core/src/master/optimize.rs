//! Topology optimization: measure the edges that are not known, solve for better rings, probe them under load,
//! adopt them.
//!
//! ```text
//!  all vote ──▶ rotations ──▶ SolveTour per group ──▶ all edges of the rings at once ──▶ wiring ──▶ over
//!                                   ▲                            │
//!                                   └── once, where a ring is slower under load than its edges alone
//! ```
//!
//! A rotation is over when all its reports are in. Who dies, whose other end dies and who takes longer than
//! [`probe`](super::MasterConfig::probe) is not awaited any more; who has not reported has no edges in the
//! problem, and nobody has to go for it. Whatever goes wrong leaves the rings as they were, for everybody.
//!
//! Of a large group some edges of each peer are measured, and the others estimated from the limits of their ends;
//! then those are measured that the solver's ring wants, a few times.
//!
//! A ring is adopted if it saves at least [`rewiring_gain`](super::MasterConfig::rewiring_gain) percent of the
//! time of a reduce, or if nothing is known about the present one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::probes::{Edge, Rotation, rotations};
use super::probing::Probing;
use super::record::Stake;
use super::{Master, MasterOutput, Out, Scope, send};
use crate::id::{GroupId, PeerId, Round};
use crate::messages::ToPeer;
use crate::paths::{RingEstimate, RingReport};
use crate::states::{ConnectionState, Event};
use crate::topology::Ring;
use crate::tour::{Solved, TourProblem};

/// How often edges of a large group are measured because a ring wants them.
const WANTED_ROUNDS: u8 = 3;

/// The optimization that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Optimization {
    /// Its members carry it, and questions to the solver.
    pub(super) round: Round,
    stage: Stage,
    /// What was found in the background before it began.
    candidates: Vec<(GroupId, Solved)>,
    /// Edges of large groups that it has ordered to be measured.
    pub(super) tried: Rotation,
    /// What the groups are told.
    reports: BTreeMap<GroupId, RingReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Probing(Probing),
    Solving(Solving),
    /// The better rings are being connected, in this wiring.
    Connecting {
        wiring: Round,
    },
}

/// A ring, and the bottleneck that its edges alone promise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promised {
    solved: Solved,
    bytes_per_s: u64,
}

/// Rings are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Solving {
    awaiting: BTreeSet<GroupId>,
    solved: BTreeMap<GroupId, Solved>,
    failed: bool,
    /// How often edges that a ring wants may still be measured.
    wanted: u8,
    /// What was found before the edges were corrected by a probe under load. `None`: they were not.
    before: Option<BTreeMap<GroupId, Solved>>,
}

/// What follows a stage that is over.
enum Next {
    GiveUp,
    Rotate,
    Solve { wanted: u8 },
    SolveAgain { loaded: BTreeMap<GroupId, Promised> },
    Probe { edges: Rotation, wanted: u8 },
    Load { solved: BTreeMap<GroupId, Solved> },
    Adopt { solved: Vec<(GroupId, Solved)> },
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

    /// True: the ballot was unanimous and the first measurements are ordered.
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
        for members in self.groups_with_a_choice().into_values() {
            match self.is_large(members.len()) {
                true => edges.extend(sample(&members)),
                false => edges.extend(Ring(members).pairs()),
            }
        }
        edges.retain(|edge| rule!(self.known.of(*edge).is_none(); FreshMeasuredAgain => true));
        edges
    }

    /// Whether a group has too many edges to measure all of them.
    pub(super) fn is_large(&self, members: usize) -> bool {
        members > usize::from(self.config.probe_all_max)
    }

    /// A ring of one or two is what it is.
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

    /// True: the stage was over, and the next began.
    pub(super) fn count_optimization(&mut self, out: &mut Out) -> bool {
        match self.after_stage() {
            None => return false,
            Some(Next::GiveUp) => self.give_up_optimization(out),
            Some(Next::Rotate) => self.rotate(out),
            Some(Next::Solve { wanted }) => {
                let groups = self.groups_with_a_choice().into_keys().collect();
                let solving = Solving {
                    wanted,
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
                self.enter(Stage::Probing(probing));
                self.rotate(out);
            }
            Some(Next::SolveAgain { loaded }) => self.solve_again(loaded, out),
            Some(Next::Load { solved }) => self.load(solved, out),
            Some(Next::Adopt { solved }) => self.adopt_better(solved, out),
        }
        true
    }

    /// What follows the present stage. `None`: it is not over.
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
        let is_there =
            |(from, to): &Edge| self.peers.contains_key(from) && self.peers.contains_key(to);
        let mut rest = probing.rest.iter().flatten();
        if probing.failed {
            Next::GiveUp
        } else if rest.any(is_there) {
            Next::Rotate
        } else {
            match &probing.loaded {
                None => Next::Solve {
                    wanted: probing.wanted,
                },
                Some(loaded) => Next::SolveAgain {
                    loaded: loaded.clone(),
                },
            }
        }
    }

    fn after_solving(&self, solving: &Solving) -> Next {
        let rings = solving.before.iter().flatten().chain(&solving.solved);
        let departed = !self.are_permutations(rings.map(|(group, solved)| (group, &solved.ring)));
        let is_over = solving.failed && solving.before.is_none()
            || rule!(departed; RingOfTheDepartedAdopted => false);
        if is_over {
            return Next::GiveUp;
        }
        let edges = self.wanted_edges(&solving.solved);
        let wanted = solving.wanted.checked_sub(1).filter(|_| !edges.is_empty());
        match (&solving.before, wanted) {
            (None, Some(wanted)) => Next::Probe { edges, wanted },
            (None, None) if self.is_load_known(&solving.solved) => Next::Adopt {
                solved: found(&solving.solved).collect(),
            },
            (None, None) => Next::Load {
                solved: solving.solved.clone(),
            },
            (Some(before), _) => {
                let again = rule!(false; LoadProbedAgain => !solving.solved.is_empty());
                let all = found(before).chain(found(&solving.solved));
                match again {
                    true => Next::Load {
                        solved: solving.solved.clone(),
                    },
                    false => Next::Adopt {
                        solved: all.collect(),
                    },
                }
            }
        }
    }

    /// Asks for rings of these groups.
    fn solve(&mut self, groups: BTreeSet<GroupId>, solving: Solving, out: &mut Out) {
        let Some(round) = self.optimization.as_ref().map(|current| current.round) else {
            return;
        };
        for group in &groups {
            let problem = self.tour_problem(&self.in_ring_order(*group));
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

    /// Edges of these rings that are estimated only, as happens in large groups.
    fn wanted_edges(&self, solved: &BTreeMap<GroupId, Solved>) -> Rotation {
        let rings = solved.values().map(|solved| &solved.ring);
        let edges = rings
            .filter(|ring| self.is_large(ring.world_size()))
            .flat_map(Ring::edges);
        edges
            .filter(|edge| self.known.of(*edge).is_none())
            .collect()
    }

    fn tour_problem(&self, members: &[PeerId]) -> TourProblem {
        let ring = Ring(members.to_vec());
        let limits = self.is_large(members.len()).then(|| self.known.limits());
        let tried = self.optimization.as_ref().map(|current| &current.tried);
        let edges = ring.pairs().filter_map(|(from, to)| {
            let edge = rule!((from, to); MeasurementsTurnedRound => (to, from));
            let is_open = tried.is_some_and(|tried| !tried.contains(&edge));
            let limits = limits.as_ref().filter(|_| is_open);
            let reported = || self.known.of(edge).or_else(|| limits?.estimate(edge));
            let known = rule!(
                reported();
                UnreportedHasAnEdge => Some(reported().unwrap_or(crate::paths::Measurement {
                    bytes_per_s: 1,
                    round_trip_us: 0,
                }))
            );
            Some(((from, to), known?))
        });
        TourProblem {
            edges: edges.collect(),
            members: members.to_vec(),
        }
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
            None => solving.failed = true,
        }
    }

    /// Members may have gone while the solver worked.
    fn are_permutations<'a>(
        &self,
        mut rings: impl Iterator<Item = (&'a GroupId, &'a Ring)>,
    ) -> bool {
        rings.all(|(group, ring)| self.is_of_all(*group, ring))
    }

    /// Whether the ring is a permutation of the group.
    pub(super) fn is_of_all(&self, group: GroupId, ring: &Ring) -> bool {
        ring.is_of(&self.accepted_in(group).map(|(peer, _)| peer).collect())
    }

    /// Whether all edges of these rings were probed at the same time before.
    fn is_load_known(&self, solved: &BTreeMap<GroupId, Solved>) -> bool {
        let mut edges = solved.values().flat_map(|solved| solved.ring.edges());
        edges.all(|edge| self.known.is_under_load(edge))
    }

    /// Probes all edges of the rings at the same time: probes of one edge at a time do not see links that
    /// several of them share.
    fn load(&mut self, solved: BTreeMap<GroupId, Solved>, out: &mut Out) {
        let edges: Rotation = solved.values().flat_map(|s| s.ring.edges()).collect();
        let promised = solved.into_iter().map(|(group, solved)| {
            let estimate = self.estimate(&solved.ring);
            let bytes_per_s = estimate.map_or(0, |estimate| estimate.bytes_per_s);
            let promised = Promised {
                solved,
                bytes_per_s,
            };
            (group, promised)
        });
        let probing = Probing {
            loaded: Some(promised.collect()),
            rest: [edges].into(),
            ..Probing::default()
        };
        self.enter(Stage::Probing(probing));
        self.rotate(out);
    }

    /// Groups whose rings are slower under load than their edges alone are solved once more.
    fn solve_again(&mut self, loaded: BTreeMap<GroupId, Promised>, out: &mut Out) {
        let is_slower = |promised: &Promised| {
            let estimate = self.estimate(&promised.solved.ring);
            estimate.is_some_and(|estimate| estimate.bytes_per_s < promised.bytes_per_s)
        };
        let slower = loaded.iter().filter(|(_, promised)| is_slower(promised));
        // Those of the departed are not solved: the search ends.
        let slower =
            slower.filter(|(group, promised)| self.is_of_all(**group, &promised.solved.ring));
        let groups = slower.map(|(group, _)| *group).collect();
        let before = loaded
            .into_iter()
            .map(|(group, promised)| (group, promised.solved));
        let solving = Solving {
            before: Some(before.collect()),
            ..Solving::default()
        };
        self.solve(groups, solving, out);
    }

    /// What can be expected of a ring, by what is known.
    pub(super) fn estimate(&self, ring: &Ring) -> Option<RingEstimate> {
        RingEstimate::of(ring, |edge| self.known.of(edge))
    }

    /// Of these rings and the present ones the best are connected.
    fn adopt_better(&mut self, solved: Vec<(GroupId, Solved)>, out: &mut Out) {
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
        let all: Vec<&(GroupId, Solved)> = candidates.chain(&solved).collect();
        for group in self.groups.keys() {
            let candidates = all.iter().filter(|(of, _)| of == group);
            let (ring, report) = self.choose(*group, candidates.map(|(_, solved)| solved));
            rings.extend(ring.map(|ring| (*group, ring)));
            reports.insert(*group, report);
        }
        let open = solved.iter().filter(|(_, solved)| !solved.is_optimal);
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

    /// The ring to adopt, if the present one is not to stay.
    fn choose<'a>(
        &self,
        group: GroupId,
        solved: impl Iterator<Item = &'a Solved>,
    ) -> (Option<Ring>, RingReport) {
        let before = Ring(self.in_ring_order(group));
        let expected_before = self.estimate(&before);
        let mut report = RingReport {
            before,
            expected_before,
            expected: expected_before,
            bound: None,
        };
        let mut chosen = None;
        for candidate in solved {
            // The last one knows most.
            report.bound = Some(candidate.bound);
            let estimate = self.estimate(&candidate.ring);
            let is_better = match (&estimate, &report.expected) {
                (Some(estimate), Some(best)) => self.is_worth(estimate, best),
                (Some(_), None) => true,
                // Nothing is known of either: the solver knew more when it was asked.
                (None, None) => chosen.is_none(),
                (None, Some(_)) => false,
            };
            if is_better {
                report.expected = estimate;
                chosen = Some(candidate.ring.clone());
            }
        }
        (chosen, report)
    }

    /// Whether a ring is worth a rewiring, where there is another one.
    pub(super) fn is_worth(&self, ring: &RingEstimate, other: &RingEstimate) -> bool {
        let (percent, bytes) = (self.config.rewiring_gain, self.config.reduce_bytes);
        ring.is_worth(percent, other, bytes)
    }

    /// The rings stay, for everybody.
    pub(super) fn give_up_optimization(&mut self, out: &mut Out) {
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

    /// What the peer is told of a ring that stands.
    pub(super) fn report_for(&self, peer: PeerId) -> RingReport {
        let group = self.peers.get(&peer).map(|record| record.group);
        let reports = self.optimization.as_ref().map(|current| &current.reports);
        let report = group.and_then(|group| reports?.get(&group));
        report.cloned().unwrap_or_default()
    }

    /// This wiring is over, one way or the other. True: it was that of better rings.
    pub(super) fn drop_optimization_of(&mut self, over: Round) -> bool {
        let connected = self.optimization.take_if(|current| match &current.stage {
            Stage::Connecting { wiring } => *wiring == over,
            Stage::Probing(_) | Stage::Solving(_) => false,
        });
        connected.is_some()
    }

    /// The solver has taken too long: the rings stay.
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

/// Some edges of each peer, those of the ring among them: enough to tell how fast it sends and receives.
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

fn found(solved: &BTreeMap<GroupId, Solved>) -> impl Iterator<Item = (GroupId, Solved)> + '_ {
    solved
        .iter()
        .map(|(group, solved)| (*group, solved.clone()))
}
