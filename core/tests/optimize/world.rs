//! A master whose peers do at once what it says, measurements and the solver apart.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{ConnId, GroupId, PeerId, ProtocolVersion, Round, Seq, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, PlanOutcome, ToMaster, ToPeer};
use pccl_core::paths::{Measurement, RingReport};
use pccl_core::plan::Algorithm;
use pccl_core::site::{SiteMap, SiteName};
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BrokenLinks, LinkOrder, Ring, Way};
use pccl_core::tour::{self, Solved, TourProblem};

pub(crate) const GROUP: GroupId = GroupId(0);

/// The master, and what it wants.
pub(crate) struct World {
    pub(crate) master: Master,
    /// What is to be measured, and by whom.
    pub(crate) probes: BTreeMap<PeerId, (Round, Vec<LinkOrder>)>,
    /// Edges that were measured at the same time.
    pub(crate) rotations: Vec<BTreeSet<(u64, u64)>>,
    pub(crate) questions: Vec<(Round, TourProblem)>,
    pub(crate) searches: Vec<Round>,
    pub(crate) rings: BTreeMap<PeerId, Ring>,
    /// The sites of the ranks, as each peer was told.
    pub(crate) sites: BTreeMap<PeerId, SiteMap>,
    pub(crate) reports: BTreeMap<PeerId, Option<RingReport>>,
    pub(crate) gone: BTreeSet<PeerId>,
    /// The algorithms and executions of the collectives that each peer was told to begin.
    pub(crate) commenced: Vec<(PeerId, Seq, Algorithm)>,
    /// The sites that newcomers name.
    pub(crate) names: fn(u64) -> &'static str,
    /// The machines that newcomers are on.
    pub(crate) machines: fn(u64) -> u8,
}

impl World {
    /// Peers 1 to n are accepted, on a ring in this order.
    pub(crate) fn of(n: u64, config: MasterConfig) -> Self {
        Self::empty(config).with(n)
    }

    /// Nobody is there yet.
    pub(crate) fn empty(config: MasterConfig) -> Self {
        Self {
            master: Master::new(config),
            probes: BTreeMap::new(),
            rotations: Vec::new(),
            questions: Vec::new(),
            searches: Vec::new(),
            rings: BTreeMap::new(),
            sites: BTreeMap::new(),
            reports: BTreeMap::new(),
            gone: BTreeSet::new(),
            commenced: Vec::new(),
            names: site_of,
            machines: |peer| u8::try_from(peer).unwrap(),
        }
    }

    /// Peers 1 to n come first.
    pub(crate) fn with(mut self, n: u64) -> Self {
        for peer in 1..=n {
            self.joins(peer);
        }
        assert_eq!(self.ring(), (1..=n).collect::<Vec<_>>());
        self
    }

    pub(crate) fn joins(&mut self, peer: u64) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GROUP,
            port: 48149,
            advertise: None,
            lanes: 4 + u16::try_from(peer % 3).unwrap(),
            site: (self.names)(peer).to_owned().try_into().unwrap(),
            name: Default::default(),
        };
        let host = (self.machines)(peer);
        self.tell(MasterInput::Connected {
            conn: ConnId(peer),
            hello,
            from: [192, 0, 2, host].into(),
            identity: None,
        });
        self.update();
    }

    pub(crate) fn members(&self) -> Vec<PeerId> {
        let peers = self.master.view().peers();
        let accepted = peers.filter(|(_, peer)| peer.group() == GROUP);
        accepted.map(|(peer, _)| peer).collect()
    }

    pub(crate) fn ring(&self) -> Vec<u64> {
        let ring = self.master.view().ring(GROUP).unwrap();
        ring.0.iter().map(|peer| peer.0).collect()
    }

    /// The sites of the ranks, of which all members were told the same.
    pub(crate) fn sites(&self) -> Vec<&str> {
        let told = self.sites.values().next().expect("somebody was told");
        for member in self.ring() {
            assert_eq!(self.sites.get(&PeerId(member)), Some(told));
        }
        told.by_rank().map(SiteName::as_str).collect()
    }

    pub(crate) fn tell(&mut self, input: MasterInput) {
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

    pub(crate) fn hears(&mut self, peer: PeerId, message: ToPeer) -> Vec<MasterInput> {
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
                self.sites.insert(peer, topology.sites);
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
            ToPeer::Commence { algorithm, seq, .. } => {
                self.commenced.push((peer, seq, algorithm));
            }
            ToPeer::OptimizationConcluded { report } => {
                self.reports.insert(peer, report);
            }
            _ => {}
        }
        Vec::new()
    }

    pub(crate) fn says(&mut self, peer: PeerId, message: ToMaster) {
        self.tell(MasterInput::Message { peer, message });
    }

    pub(crate) fn update(&mut self) {
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
    pub(crate) fn vote(&mut self) {
        self.reports.clear();
        self.rotations.clear();
        for peer in self.members() {
            self.says(peer, ToMaster::OptimizeTopology);
        }
    }

    /// All reduce so many bytes. Returns the algorithm that all were told to take.
    pub(crate) fn reduce(&mut self, bytes: u64) -> Algorithm {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::U8,
            count: bytes,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let (tag, broken) = (Tag(0), BrokenLinks::NONE);
        let epoch = self.master.view().epoch(GROUP).unwrap();
        for peer in self.members() {
            let broken = broken.clone();
            let initiate = ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken,
            };
            self.says(peer, initiate);
        }
        let commenced = mem::take(&mut self.commenced);
        assert_eq!(commenced.len(), self.members().len());
        for (peer, seq, _) in &commenced {
            let (seq, outcome) = (*seq, PlanOutcome::Done);
            let broken = broken.clone();
            let complete = ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            };
            self.says(*peer, complete);
        }
        let algorithm = commenced[0].2;
        assert!(commenced.iter().all(|(_, _, other)| *other == algorithm));
        algorithm
    }

    /// One peer reports what it was told to measure.
    pub(crate) fn reports(
        &mut self,
        peer: PeerId,
        edge: &impl Fn(u64, u64, bool) -> Option<Measurement>,
    ) {
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
    pub(crate) fn goes_on(&mut self, edge: impl Fn(u64, u64, bool) -> Option<Measurement>) {
        self.goes_on_with(edge, tour::solve);
    }

    pub(crate) fn goes_on_with(
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

    pub(crate) fn report(&self) -> &RingReport {
        let report = self.reports.values().next().expect("it is concluded");
        assert!(self.reports.values().all(|other| other == report));
        report.as_ref().expect("it has not failed")
    }

    pub(crate) fn fires(&mut self, timer: MasterTimer) {
        assert!(
            self.master.view().timers().any(|known| known == timer),
            "{timer:?}"
        );
        self.tell(MasterInput::TimerFired(timer));
    }

    pub(crate) fn lose(&mut self, peer: u64) {
        let peer = PeerId(peer);
        self.probes.remove(&peer);
        self.rings.remove(&peer);
        self.sites.remove(&peer);
        self.tell(MasterInput::Disconnected { peer });
    }
}

/// Peers 1 and 2 are at one site, 3 names none, and all others are at another one.
fn site_of(peer: u64) -> &'static str {
    match peer {
        1 | 2 => "eu",
        3 => "",
        _ => "us",
    }
}

pub(crate) fn fast(bytes_per_s: u64) -> Option<Measurement> {
    Some(Measurement {
        bytes_per_s,
        round_trip_us: 1000,
    })
}

/// Downhill is ten times as fast.
pub(crate) fn downhill(from: u64, to: u64, _: bool) -> Option<Measurement> {
    fast(if from > to || (from, to) == (1, 4) {
        100_000_000
    } else {
        10_000_000
    })
}
