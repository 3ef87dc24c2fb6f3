//! A master alone, followed by the reference, and what is known of the orders that it gave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pccl_core::id::{ConnId, Epoch, GroupId, PeerId, ProtocolVersion, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::paths::Measurement;
use pccl_core::site::SiteName;
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BrokenLinks, LaneFailure, LinkId, Ring, Way};
use pccl_core::tour::Solved;

use crate::reference::Shadow;

/// The link on which a peer is sent to.
pub(super) const fn to(peer: u64) -> LinkId {
    LinkId::to(PeerId(peer))
}

/// The link on which a peer sends.
pub(super) const fn from(peer: u64) -> LinkId {
    LinkId::from(PeerId(peer))
}

#[derive(Clone)]
pub(super) struct Desk {
    pub(super) master: Master,
    shadow: Shadow,
    /// The newest round of orders.
    pub(super) round: Round,
    /// Whom each is to send to, and to receive from, by the orders of that round.
    pub(super) next: BTreeMap<u64, u64>,
    previous: BTreeMap<u64, u64>,
    /// Receivers that are to open the lanes themselves.
    dials_back: BTreeSet<u64>,
    /// What is said of lanes that cannot be opened.
    pub(super) failure: LaneFailure,
    pub(super) refused: BTreeSet<u64>,
    /// Executions that were begun.
    pub(super) runs: u64,
    /// How long the pauses between attempts are, in their order.
    pub(super) pauses: Vec<Duration>,
    /// The last question to the solver.
    question: Round,
    pub(super) problem: BTreeMap<(PeerId, PeerId), Measurement>,
    /// To whom each is to measure.
    probes: BTreeMap<u64, Vec<PeerId>>,
}

impl Desk {
    /// A run whose peers 1 to n are accepted, on one ring in this order.
    pub(super) fn with_accepted_peers(n: u64) -> Self {
        Self::of(n, MasterConfig::rings_only())
    }

    /// The same of a master that holds to something else.
    pub(super) fn of(n: u64, config: MasterConfig) -> Self {
        let mut desk = Self {
            master: Master::new(config.clone()),
            shadow: Shadow::new(config),
            round: Round(0),
            next: BTreeMap::new(),
            previous: BTreeMap::new(),
            dials_back: BTreeSet::new(),
            failure: LaneFailure::TimedOut,
            refused: BTreeSet::new(),
            runs: 0,
            pauses: Vec::new(),
            question: Round(0),
            problem: BTreeMap::new(),
            probes: BTreeMap::new(),
        };
        for peer in 1..=n {
            desk.registers();
            desk.update(1..peer);
            desk.all_up(1..=peer);
        }
        assert_eq!(desk.ring(), Ring((1..=n).map(PeerId).collect()));
        desk
    }

    pub(super) fn tell(&mut self, input: MasterInput) {
        let mut out = Vec::new();
        self.master.handle(input.clone(), &mut out);
        self.shadow.follow(&input, &self.master, &out);
        for output in out {
            match output {
                MasterOutput::Send { peer, message } => self.note(peer, &message),
                MasterOutput::StartTimer {
                    timer: MasterTimer::RetryWiring(_),
                    after,
                } => self.pauses.push(after),
                MasterOutput::SolveTour { round, problem, .. } => {
                    self.question = round;
                    self.problem = problem.edges;
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, peer: PeerId, message: &ToPeer) {
        match message {
            ToPeer::EstablishLinks { round, links } => {
                if *round != self.round {
                    self.next.clear();
                    self.previous.clear();
                    self.dials_back.clear();
                }
                self.round = *round;
                for order in links {
                    let (dials, with) = (order.lanes.dial.is_some(), order.lanes.with.0);
                    let before = match order.way {
                        Way::Out => self.next.insert(peer.0, with),
                        Way::In => self.previous.insert(peer.0, with),
                    };
                    assert_eq!(before, None, "a ring has one link of each way");
                    let dials_back = dials && order.way == Way::In;
                    self.dials_back.extend(dials_back.then_some(peer.0));
                }
            }
            ToPeer::Refused(_) => drop(self.refused.insert(peer.0)),
            ToPeer::Probe { round, probes } => {
                self.round = *round;
                let out = probes.iter().filter(|probe| probe.way == Way::Out);
                let to = out.map(|probe| probe.lanes.with).collect();
                self.probes.insert(peer.0, to);
            }
            ToPeer::SharedStatePlan(plan) => self.round = plan.round,
            _ => {}
        }
    }

    pub(super) fn says(&mut self, peer: u64, message: ToMaster) {
        let peer = PeerId(peer);
        self.tell(MasterInput::Message { peer, message });
    }

    /// The next peer says hello.
    pub(super) fn registers(&mut self) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: SiteName::NONE,
            name: Default::default(),
        };
        let (conn, from) = (ConnId(0), [192, 0, 2, 1].into());
        self.tell(MasterInput::Connected {
            conn,
            hello,
            from,
            identity: None,
        });
    }

    /// The edges that are to be measured at present.
    pub(super) fn to_measure(&self) -> Vec<(u64, u64)> {
        let edges = self.probes.iter();
        let edges = edges.flat_map(|(from, to)| to.iter().map(|to| (*from, to.0)));
        edges.collect()
    }

    /// Whoever is to measure reports so many bytes per second, rotation after rotation.
    pub(super) fn measures(&mut self, rate: impl Fn(u64, u64) -> u64) {
        let measures = |desk: &Self| {
            let mut peers = desk.master.view().peers();
            let state = ConnectionState::OptimizeTopology;
            peers.find_map(|(peer, known)| (known.state() == state).then_some(peer))
        };
        while let Some(PeerId(peer)) = measures(self) {
            let round = self.round;
            for to in self.probes.remove(&peer).unwrap_or_default() {
                let measured = Measurement {
                    bytes_per_s: rate(peer, to.0),
                    round_trip_us: 1,
                };
                let report = ToMaster::Measured {
                    round,
                    to,
                    measured,
                };
                self.says(peer, report);
            }
            self.says(peer, ToMaster::ProbesDone { round, ok: true });
        }
    }

    /// The solver finds this ring.
    pub(super) fn solves<const N: usize>(&mut self, ring: [u64; N]) {
        let found = Some(Solved {
            ring: Ring(ring.map(PeerId).to_vec()),
            bound: 1,
            is_optimal: true,
        });
        let (round, group) = (self.question, GroupId(0));
        self.tell(MasterInput::TourSolved {
            round,
            group,
            found,
        });
    }

    pub(super) fn update(&mut self, peers: impl IntoIterator<Item = u64>) {
        for peer in peers {
            self.updates(peer, BrokenLinks::NONE);
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        let view = self.master.view();
        view.epoch(GroupId(0)).expect("somebody is accepted")
    }

    pub(super) fn updates(&mut self, peer: u64, broken: BrokenLinks) {
        let epoch = self.epoch();
        self.says(peer, ToMaster::UpdateTopology { epoch, broken });
    }

    /// Says that all that it has to connect is up.
    pub(super) fn up(&mut self, peer: u64) {
        let next = self.next.get(&peer).map(|next| to(*next));
        let previous = self.previous.get(&peer).map(|previous| from(*previous));
        let round = self.round;
        for link in next.into_iter().chain(previous) {
            self.says(peer, ToMaster::LinkUp { round, link });
        }
    }

    /// The link to the next on the ring of the group is broken.
    pub(super) fn next_broken(&self, peer: u64) -> BrokenLinks {
        let next = self.ring().next_of(PeerId(peer));
        BrokenLinks(next.map(LinkId::to).into_iter().collect())
    }

    /// The link from the previous one.
    pub(super) fn previous_broken(&self, peer: u64) -> BrokenLinks {
        let previous = self.ring().previous_of(PeerId(peer));
        BrokenLinks(previous.map(LinkId::from).into_iter().collect())
    }

    /// Both of them.
    pub(super) fn both_broken(&self, peer: u64) -> BrokenLinks {
        let (BrokenLinks(next), BrokenLinks(previous)) =
            (self.next_broken(peer), self.previous_broken(peer));
        BrokenLinks([next, previous].concat())
    }

    /// Connects what can be, until every link is up or has failed. Says whether the first, which is to open
    /// the lanes, reaches the second.
    pub(super) fn connect(&mut self, works: impl Fn(u64, u64) -> bool) {
        let round = self.round;
        for (sender, receiver) in self.next.clone() {
            let dials_back = self.dials_back.contains(&receiver);
            let (dialler, dialled, link) = match dials_back {
                true => (receiver, sender, from(sender)),
                false => (sender, receiver, to(receiver)),
            };
            if works(dialler, dialled) {
                let link = to(receiver);
                self.says(sender, ToMaster::LinkUp { round, link });
                let link = from(sender);
                self.says(receiver, ToMaster::LinkUp { round, link });
            } else {
                let failure = self.failure;
                let failed = ToMaster::LinkFailed {
                    round,
                    link,
                    failure,
                };
                self.says(dialler, failed);
            }
        }
    }

    /// Attempts follow each other until a ring stands. Returns how many there were.
    pub(super) fn connect_all(&mut self, works: impl Fn(u64, u64) -> bool) -> usize {
        for attempts in 1..200 {
            self.connect(&works);
            let pause = MasterTimer::RetryWiring(self.round);
            if !self.master.view().timers().any(|timer| timer == pause) {
                return attempts;
            }
            self.pause_ends();
        }
        panic!("no ring stands");
    }

    /// All that have something to connect say that it is.
    pub(super) fn all_up(&mut self, peers: impl IntoIterator<Item = u64>) {
        for peer in peers {
            if self.connects(peer) {
                self.up(peer);
            }
        }
    }

    /// The time for connecting is over.
    pub(super) fn wiring_is_overdue(&mut self) {
        self.tell(MasterInput::TimerFired(MasterTimer::Wiring(self.round)));
    }

    pub(super) fn pause_ends(&mut self) {
        self.tell(MasterInput::TimerFired(MasterTimer::RetryWiring(
            self.round,
        )));
    }

    pub(super) fn connects(&self, peer: u64) -> bool {
        let peer = self.master.view().peer(PeerId(peer));
        peer.is_some_and(|peer| peer.state() == ConnectionState::ConnectingToPeers)
    }

    pub(super) fn ring(&self) -> Ring {
        let ring = self.master.view().ring(GroupId(0));
        ring.expect("somebody is accepted").clone()
    }

    /// Who is connected, registered or accepted.
    pub(super) fn present(&self) -> Vec<u64> {
        let peers = self.master.view().peers();
        peers.map(|(peer, _)| peer.0).collect()
    }
}
