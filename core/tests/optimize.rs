//! Looking for better rings, told by a master alone: what is measured when, what is adopted, and what is kept.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ConnId, GroupId, PeerId, ProtocolVersion, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::paths::{Measurement, RingReport};
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BrokenLinks, LinkOrder, Ring, Way};
use pccl_core::tour::{self, Solved, TourProblem};

const GROUP: GroupId = GroupId(0);

/// A master whose peers do at once what it says, measurements and the solver apart.
struct World {
    master: Master,
    /// What is to be measured, and by whom.
    probes: BTreeMap<PeerId, (Round, Vec<LinkOrder>)>,
    /// Edges that were measured at the same time.
    rotations: Vec<BTreeSet<(u64, u64)>>,
    questions: Vec<(Round, TourProblem)>,
    searches: Vec<Round>,
    rings: BTreeMap<PeerId, Ring>,
    reports: BTreeMap<PeerId, Option<RingReport>>,
    gone: BTreeSet<PeerId>,
}

impl World {
    /// Peers 1 to n are accepted, on a ring in this order.
    fn of(n: u64, config: MasterConfig) -> Self {
        let mut world = Self {
            master: Master::new(config),
            probes: BTreeMap::new(),
            rotations: Vec::new(),
            questions: Vec::new(),
            searches: Vec::new(),
            rings: BTreeMap::new(),
            reports: BTreeMap::new(),
            gone: BTreeSet::new(),
        };
        for peer in 1..=n {
            world.joins(peer);
        }
        assert_eq!(world.ring(), (1..=n).collect::<Vec<_>>());
        world
    }

    fn joins(&mut self, peer: u64) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GROUP,
            port: 48149,
            advertise: None,
            lanes: 4 + u16::try_from(peer % 3).unwrap(),
        };
        let host = u8::try_from(peer).unwrap();
        self.tell(MasterInput::Connected {
            conn: ConnId(peer),
            hello,
            from: [192, 0, 2, host].into(),
            identity: None,
        });
        self.update();
    }

    fn members(&self) -> Vec<PeerId> {
        let peers = self.master.view().peers();
        let accepted = peers.filter(|(_, peer)| peer.group() == GROUP);
        accepted.map(|(peer, _)| peer).collect()
    }

    fn ring(&self) -> Vec<u64> {
        let ring = self.master.view().ring(GROUP).unwrap();
        ring.0.iter().map(|peer| peer.0).collect()
    }

    fn tell(&mut self, input: MasterInput) {
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let mut out = Vec::new();
            self.master.handle(inputs.remove(0), &mut out);
            for output in out {
                match output {
                    MasterOutput::Send { peer, message } => {
                        inputs.extend(self.hears(peer, message));
                    }
                    MasterOutput::SolveTour { round, problem, .. } => {
                        self.questions.push((round, problem));
                    }
                    MasterOutput::SearchTour { round, .. } => self.searches.push(round),
                    MasterOutput::EndSearch { round, .. } => {
                        self.searches.retain(|known| *known != round);
                    }
                    MasterOutput::Lost { peer, .. } => drop(self.gone.insert(peer)),
                    MasterOutput::Inconsistent { peer, state, event } => {
                        panic!("{peer} {state:?} {event:?}")
                    }
                    _ => {}
                }
            }
        }
    }

    fn hears(&mut self, peer: PeerId, message: ToPeer) -> Vec<MasterInput> {
        match message {
            ToPeer::EstablishLinks { round, links } => {
                let up = links.iter().map(|order| MasterInput::Message {
                    peer,
                    message: ToMaster::LinkUp {
                        round,
                        link: order.link(),
                    },
                });
                return up.collect();
            }
            ToPeer::TopologyEstablished { topology, .. } => {
                self.rings.insert(peer, topology.ring);
            }
            ToPeer::Probe { round, probes } => {
                let is_new =
                    self.probes.is_empty() || self.probes.values().all(|(r, _)| *r != round);
                if is_new {
                    self.rotations.push(BTreeSet::new());
                }
                let out = probes.iter().filter(|probe| probe.way == Way::Out);
                let edges = out.map(|probe| (peer.0, probe.lanes.with.0));
                self.rotations.last_mut().unwrap().extend(edges);
                self.probes.insert(peer, (round, probes));
            }
            ToPeer::OptimizationConcluded { report } => {
                self.reports.insert(peer, report);
            }
            _ => {}
        }
        Vec::new()
    }

    fn says(&mut self, peer: PeerId, message: ToMaster) {
        self.tell(MasterInput::Message { peer, message });
    }

    fn update(&mut self) {
        let epoch = self.master.view().epoch(GROUP).unwrap_or_default();
        for peer in self.members() {
            let view = self.master.view();
            let state = view.peer(peer).map(|peer| peer.state());
            let is_accepted = self.rings.contains_key(&peer);
            if is_accepted && state == Some(ConnectionState::Idle) {
                let broken = BrokenLinks::NONE;
                self.says(peer, ToMaster::UpdateTopology { epoch, broken });
            }
        }
    }

    /// Everybody calls `optimize_topology`.
    fn vote(&mut self) {
        self.reports.clear();
        self.rotations.clear();
        for peer in self.members() {
            self.says(peer, ToMaster::OptimizeTopology);
        }
    }

    /// One peer reports what it was told to measure.
    fn reports(&mut self, peer: PeerId, edge: &impl Fn(u64, u64, bool) -> Option<Measurement>) {
        let (round, probes) = self.probes.remove(&peer).unwrap();
        let is_loaded = probes.len() > 1;
        for probe in probes.iter().filter(|probe| probe.way == Way::Out) {
            let to = probe.lanes.with;
            if let Some(measured) = edge(peer.0, to.0, is_loaded) {
                let report = ToMaster::Measured {
                    round,
                    to,
                    measured,
                };
                self.says(peer, report);
            }
        }
        self.says(peer, ToMaster::ProbesDone { round, ok: true });
    }

    /// Measures and solves until there is nothing left to.
    fn goes_on(&mut self, edge: impl Fn(u64, u64, bool) -> Option<Measurement>) {
        self.goes_on_with(edge, |problem| tour::solve(problem));
    }

    fn goes_on_with(
        &mut self,
        edge: impl Fn(u64, u64, bool) -> Option<Measurement>,
        solve: impl Fn(&TourProblem) -> Option<Solved>,
    ) {
        loop {
            if let Some(peer) = self.probes.keys().next().copied() {
                self.reports(peer, &edge);
            } else if !self.questions.is_empty() {
                let (round, problem) = self.questions.remove(0);
                let found = solve(&problem);
                self.tell(MasterInput::TourSolved {
                    round,
                    group: GROUP,
                    found,
                });
            } else {
                return;
            }
        }
    }

    fn report(&self) -> &RingReport {
        let report = self.reports.values().next().expect("it is concluded");
        assert!(self.reports.values().all(|other| other == report));
        report.as_ref().expect("it has not failed")
    }

    fn fires(&mut self, timer: MasterTimer) {
        assert!(
            self.master.view().timers().any(|known| known == timer),
            "{timer:?}"
        );
        self.tell(MasterInput::TimerFired(timer));
    }

    fn lose(&mut self, peer: u64) {
        let peer = PeerId(peer);
        self.probes.remove(&peer);
        self.rings.remove(&peer);
        self.tell(MasterInput::Disconnected { peer });
    }
}

fn fast(bytes_per_s: u64) -> Option<Measurement> {
    Some(Measurement {
        bytes_per_s,
        round_trip_us: 1000,
    })
}

/// Downhill is ten times as fast.
fn downhill(from: u64, to: u64, _: bool) -> Option<Measurement> {
    fast(if from > to || (from, to) == (1, 4) {
        100_000_000
    } else {
        10_000_000
    })
}

/// The solver has not found anything better yet.
fn not_yet(problem: &TourProblem) -> Option<Solved> {
    Some(Solved {
        ring: Ring(problem.members.clone()),
        bound: 100_000_000,
        is_optimal: false,
    })
}

fn reversed(problem: &[u64]) -> Ring {
    Ring(problem.iter().rev().map(|peer| PeerId(*peer)).collect())
}

#[test]
fn each_edge_is_measured_by_itself_and_then_all_of_the_ring_at_once() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(downhill);

    let all_at_once = world.rotations.pop().unwrap();
    assert_eq!(world.rotations.len(), 6);
    for rotation in &world.rotations {
        let busy: BTreeSet<u64> = rotation
            .iter()
            .flat_map(|(from, to)| [*from, *to])
            .collect();
        assert_eq!(busy.len(), 2 * rotation.len(), "{rotation:?}");
    }
    let edges: BTreeSet<_> = world.rotations.iter().flatten().collect();
    assert_eq!(edges.len(), 12);
    assert_eq!(all_at_once.len(), 4);
    assert_eq!(world.ring(), [1, 4, 3, 2]);
}

#[test]
fn the_report_says_what_the_ring_was_and_what_can_be_expected() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(downhill);

    let report = world.report();
    assert_eq!(report.before, Ring([1, 2, 3, 4].map(PeerId).to_vec()));
    assert_eq!(report.expected_before.unwrap().bytes_per_s, 10_000_000);
    assert_eq!(report.expected.unwrap().bytes_per_s, 100_000_000);
    assert_eq!(report.gap(), Some(0.0));
    let (before, after) = (report.expected_before.unwrap(), report.expected.unwrap());
    assert!(before.reduce_time(1 << 30) > 9 * after.reduce_time(1 << 30));
}

#[test]
fn edges_are_measured_on_as_many_lanes_as_a_link_would_have() {
    let mut world = World::of(3, MasterConfig::rings_only());

    world.vote();

    let (peer, (_, probes)) = world.probes.first_key_value().unwrap();
    let lanes = |peer: u64| 4 + u16::try_from(peer % 3).unwrap();
    let with = probes[0].lanes.with;
    assert_eq!(probes[0].lanes.lanes, lanes(peer.0).min(lanes(with.0)));
}

#[test]
fn what_is_known_is_not_measured_again_until_it_is_out_of_date() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on(downhill);

    world.vote();
    world.goes_on(downhill);
    assert!(world.rotations.is_empty(), "{:?}", world.rotations);
    assert_eq!(world.report().expected_before, world.report().expected);

    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
    world.vote();
    world.goes_on(downhill);
    assert_eq!(world.rotations.len(), 7);
}

#[test]
fn nothing_is_forgotten_while_it_is_counted_on() {
    let mut world = World::of(3, MasterConfig::rings_only());
    world.vote();
    let peer = *world.probes.first_key_value().unwrap().0;
    let other = world.probes[&peer].1[0].lanes.with;
    world.reports(peer, &downhill);
    world.reports(other, &downhill);

    for _ in 0..3 {
        world.fires(MasterTimer::MeasurementsAge);
    }
    world.goes_on(downhill);

    assert!(world.report().expected.is_some());
}

#[test]
fn who_never_reports_has_no_edges_and_nobody_goes_for_it() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    while world.reports.is_empty() {
        if world.probes.len() == 1 && world.probes.contains_key(&PeerId(3)) {
            world.probes.clear();
            world.fires(MasterTimer::Late(PeerId(3)));
        } else if let Some(peer) = world.probes.keys().copied().find(|peer| peer.0 != 3) {
            world.reports(peer, &downhill);
        } else {
            let (round, problem) = world.questions.remove(0);
            assert!(problem.edges.values().all(|edge| edge.bytes_per_s > 0));
            let found = tour::solve(&problem);
            let group = GROUP;
            world.tell(MasterInput::TourSolved {
                round,
                group,
                found,
            });
        }
    }

    assert!(world.reports.values().all(Option::is_none));
    assert!(world.gone.is_empty());
    // It was given up once, not for each of its edges.
    assert!(world.rotations.len() <= 6, "{:?}", world.rotations);
}

#[test]
fn a_late_report_means_nothing() {
    let mut world = World::of(3, MasterConfig::rings_only());
    world.vote();
    let peer = *world.probes.first_key_value().unwrap().0;
    let (round, probes) = world.probes.remove(&peer).unwrap();
    world.fires(MasterTimer::Late(peer));
    let before = world.master.clone();

    let (to, measured) = (probes[0].lanes.with, fast(5).unwrap());
    world.says(
        peer,
        ToMaster::Measured {
            round,
            to,
            measured,
        },
    );
    world.says(peer, ToMaster::ProbesDone { round, ok: true });

    assert_eq!(world.master, before);
    assert!(world.gone.is_empty());
}

#[test]
fn a_death_in_any_rotation_leaves_the_survivors_with_a_ring_of_theirs() {
    for reports in 0..14 {
        for victim in 1..=4 {
            let mut world = World::of(4, MasterConfig::rings_only());
            world.vote();
            for _ in 0..reports {
                if let Some(peer) = world.probes.keys().next().copied() {
                    world.reports(peer, &downhill);
                }
            }
            world.lose(victim);
            // Whose other end has died is not waited for: it never reports.
            world.probes.retain(|peer, _| {
                let known = world.master.view().peer(*peer).map(|peer| peer.state());
                known == Some(ConnectionState::OptimizeTopology)
            });
            world.goes_on(downhill);

            assert!(!world.reports.is_empty(), "after {reports} reports");
            assert_eq!(world.gone.len(), 1);
            let known = world.master.view().measured();
            let of_the_dead = |(from, to): (PeerId, PeerId)| from.0 == victim || to.0 == victim;
            assert!(!known.map(|(edge, _)| edge).any(of_the_dead));
        }
    }
}

/// The edges of a ring share a link: together each has a quarter.
fn shared(from: u64, to: u64, is_loaded: bool) -> Option<Measurement> {
    let alone = downhill(from, to, is_loaded)?;
    let rate = alone.bytes_per_s;
    fast(if is_loaded { rate / 4 } else { rate })
}

#[test]
fn a_ring_that_is_slower_under_load_is_solved_once_more_and_the_better_one_is_kept() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(shared);

    let loads = world
        .rotations
        .iter()
        .filter(|rotation| rotation.len() == 4);
    assert_eq!(loads.count(), 1);
    // A quarter of what it has alone is still more than any other ring promises.
    assert_eq!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.report().expected.unwrap().bytes_per_s, 25_000_000);
}

#[test]
fn a_ring_that_collapses_under_load_gives_way_to_another() {
    let collapses = |from: u64, to: u64, is_loaded: bool| match is_loaded {
        true => fast(1_000_000),
        false => downhill(from, to, false),
    };
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(collapses);

    assert_ne!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.report().expected.unwrap().bytes_per_s, 10_000_000);
}

#[test]
fn a_ring_that_is_hardly_better_is_not_worth_a_rewiring() {
    let hardly = |from: u64, to: u64, _: bool| fast(if from > to { 104 } else { 100 } * 1_000_000);
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(hardly);

    assert_eq!(world.ring(), [1, 2, 3, 4]);
    assert!(world.reports.values().all(Option::is_some));
}

/// The immediate answer is the present ring; a search goes on.
fn searching(n: u64) -> World {
    let mut world = World::of(n, MasterConfig::rings_only());
    world.vote();
    world.goes_on_with(downhill, not_yet);
    assert_eq!(world.searches.len(), 1);
    assert_eq!(world.ring(), (1..=n).collect::<Vec<_>>());
    world
}

fn improved(world: &World, round: Round) -> MasterInput {
    MasterInput::TourImproved {
        round,
        group: GROUP,
        found: Solved {
            ring: reversed(&world.ring()),
            bound: 100_000_000,
            is_optimal: true,
        },
    }
}

#[test]
fn a_better_ring_that_is_found_in_the_background_is_adopted_by_the_next_update() {
    let mut world = searching(4);

    world.tell(improved(&world, world.searches[0]));
    assert_eq!(world.ring(), [1, 2, 3, 4]);
    world.update();

    assert_eq!(world.ring(), [4, 3, 2, 1]);
    assert!(world.searches.is_empty());
}

#[test]
fn it_is_not_adopted_if_it_is_hardly_better() {
    let hardly = |from: u64, to: u64, _: bool| fast(if from > to { 104 } else { 100 } * 1_000_000);
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on_with(hardly, not_yet);

    world.tell(improved(&world, world.searches[0]));
    world.update();

    assert_eq!(world.ring(), [1, 2, 3, 4]);
    assert_eq!(world.searches.len(), 1, "it may find a better one yet");
}

#[test]
fn it_is_adopted_by_the_next_optimization_too() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));

    world.vote();
    world.goes_on_with(downhill, not_yet);

    assert_eq!(world.ring(), [4, 3, 2, 1]);
}

#[test]
fn it_is_dropped_when_a_peer_goes_or_comes() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.lose(2);
    assert!(world.searches.is_empty());
    world.update();
    assert_eq!(world.ring(), [1, 3, 4]);

    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.joins(5);
    assert_eq!(world.ring(), [1, 2, 3, 4, 5]);
    assert!(world.searches.is_empty());
}

#[test]
fn what_a_search_finds_after_its_end_means_nothing() {
    let mut world = searching(4);
    let ended = world.searches[0];
    world.vote();
    world.goes_on_with(downhill, not_yet);
    assert_ne!(world.searches[0], ended);
    let before = world.master.clone();

    world.tell(improved(&world, ended));

    assert_eq!(world.master, before);
}

#[test]
fn a_ring_whose_edges_are_out_of_date_is_not_adopted() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);

    world.update();

    assert_eq!(world.ring(), [1, 2, 3, 4]);
}

#[test]
fn of_a_large_group_a_few_edges_of_each_peer_are_measured_and_those_that_a_ring_wants() {
    // Whatever one peer sends is slow, and every third edge is fast.
    let edge = |from: u64, to: u64, _: bool| {
        let rate = if from.abs_diff(to) % 3 == 0 { 100 } else { 20 };
        fast(if from == 7 { 19 } else { rate } * 1_000_000)
    };
    let mut world = World::of(40, MasterConfig::rings_only());

    world.vote();
    world.goes_on(edge);

    let measured: usize = world.rotations.iter().map(BTreeSet::len).sum();
    assert!(measured <= 40 * (3 + 3 + 1), "{measured} measurements");
    assert!(
        world.rotations.len() < 24,
        "{} rotations",
        world.rotations.len()
    );
    let expected = world.report().expected.unwrap();
    assert_eq!(expected.bytes_per_s, 19_000_000);
    let before = world.report().expected_before.unwrap();
    assert!(expected.round_ns <= before.round_ns);
}
