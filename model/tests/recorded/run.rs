//! A run in memory whose machines are recorded: a master, peers, and an environment that is sound unless
//! it is told otherwise.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{CallId, ConnId, ContentHash, GroupId, PeerId, Revision, Round, Seq, Tag};
use pccl_core::log::{Encoder, Machine};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{PlanOutcome, ToMaster, ToPeer};
use pccl_core::paths::Measurement;
use pccl_core::peer::{
    AdoptedLanes, AdoptedLink, Call, Peer, PeerConfig, PeerInput, PeerOutput, PeerPhase, PeerTimer,
};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::site::SiteName;
use pccl_core::ticket::TicketMint;
use pccl_core::topology::{LinkId, LinkOrder, Way};
use pccl_core::tour;

/// Logs, by the names of their files.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) const TAG: Tag = Tag(7);

const SPEC: CollectiveSpec = CollectiveSpec {
    kind: CollectiveKind::AllReduce,
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 1000,
    quantization: Quantization::None,
    algorithm: None,
    ordered: false,
};

/// A machine and its log.
pub(crate) struct Recorded<M: Machine> {
    pub(crate) machine: M,
    encoder: Encoder<M>,
    pub(crate) log: Vec<u8>,
}

impl<M: Machine<Config: Clone>> Recorded<M> {
    pub(crate) fn new(config: &M::Config) -> Self {
        let encoder = Encoder::new(config).unwrap();
        Self {
            machine: M::begin(config.clone()),
            log: encoder.header().to_vec(),
            encoder,
        }
    }

    pub(crate) fn give(&mut self, input: M::Input) -> Vec<M::Output> {
        let mut out = Vec::new();
        let step = self.encoder.step(&mut self.machine, input, &mut out);
        self.log.extend_from_slice(step.unwrap());
        out
    }
}

/// How the rings of a run end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    Whole,
    /// As if a lane were lost, and none is.
    LostForNothing,
    /// When somebody dies.
    Open,
}

struct Process {
    machine: Recorded<Peer>,
    id: Option<PeerId>,
    up: VecDeque<ToMaster>,
    down: VecDeque<ToPeer>,
    plane: VecDeque<PeerInput>,
    /// Rings that end when somebody dies.
    open: Vec<Seq>,
    /// It was killed.
    is_dead: bool,
    /// It has closed everything.
    is_out: bool,
}

/// The run.
pub(crate) struct Run {
    master: Recorded<Master>,
    peers: Vec<Process>,
    solver: VecDeque<MasterInput>,
    pub(crate) rings: Rings,
    revision: u64,
    /// The last call that was made, by whomever.
    calls: CallId,
}

impl Run {
    /// A master that knows nobody. Runs of different keys have different tickets.
    pub(crate) fn new(key: u8) -> Self {
        let config = MasterConfig {
            tickets: TicketMint { key: [key; 16] },
            // So much that signs of life tell whether it is over.
            heartbeat: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            ..MasterConfig::default()
        };
        Self {
            master: Recorded::new(&config),
            peers: Vec::new(),
            solver: VecDeque::new(),
            rings: Rings::Whole,
            revision: 0,
            calls: CallId(0),
        }
    }

    /// With so many peers.
    pub(crate) fn of(peers: usize) -> Self {
        let mut run = Self::new(9);
        (0..peers).for_each(|_| run.joins());
        run
    }

    /// A process starts: it has not said hello.
    pub(crate) fn starts(&mut self) -> usize {
        let number = self.peers.len();
        let config = PeerConfig {
            group: GroupId(0),
            port: 50_000 + u16::try_from(number).unwrap(),
            advertise: None,
            lanes: 2,
            site: SiteName::NONE,
            name: Default::default(),
            collectives_max: 16,
        };
        self.peers.push(Process {
            machine: Recorded::new(&config),
            id: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            plane: VecDeque::new(),
            open: Vec::new(),
            is_dead: false,
            is_out: false,
        });
        number
    }

    /// A newcomer is admitted by all others.
    pub(crate) fn joins(&mut self) {
        let newcomer = self.starts();
        let others: Vec<usize> = self.living().filter(|number| *number != newcomer).collect();
        self.calls(newcomer, Call::Connect);
        for other in others {
            let view = |number: usize| self.peers[number].machine.machine.view();
            if view(newcomer).phase() == PeerPhase::Accepted {
                return;
            }
            // Whoever is fresh is answered at once, and has not voted.
            if view(other).is_fresh() {
                self.calls(other, Call::UpdateTopology);
            }
            self.calls(other, Call::UpdateTopology);
        }
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + use<> {
        let living = self.peers.iter().map(|peer| !peer.is_dead && !peer.is_out);
        let living: Vec<bool> = living.collect();
        (0..living.len()).filter(move |number| living[*number])
    }

    pub(crate) fn reduces(&mut self) {
        for number in self.living() {
            let (tag, spec) = (TAG, SPEC);
            self.calls(number, Call::Initiate { tag, spec });
        }
    }

    pub(crate) fn synchronizes(&mut self) {
        for number in self.living() {
            let hash = ContentHash(number as u128 % 2);
            let vote = SyncVote {
                revision: Revision(self.revision),
                strategy: SyncStrategy::EnforcePopular,
                restart: false,
                entries: vec![EntryInfo {
                    name: "w".into(),
                    element: ElementType::F32,
                    count: 1,
                    hash,
                    allow_content_inequality: false,
                }],
            };
            self.calls(number, Call::SyncSharedState(vote));
        }
        self.revision += 1;
    }

    pub(crate) fn optimizes(&mut self) {
        for number in self.living() {
            self.calls(number, Call::OptimizeTopology);
        }
    }

    /// Its process is killed, and its connection ends.
    pub(crate) fn dies(&mut self, number: usize) {
        self.peers[number].is_dead = true;
        for other in self.living() {
            self.lanes_end(other, number);
        }
        self.settle();
        if let Some(peer) = self.peers[number].id {
            self.master_hears(MasterInput::Disconnected { peer });
        }
        self.settle();
    }

    /// A neighbour of the dead notices.
    fn lanes_end(&mut self, number: usize, dead: usize) {
        let dead = self.peers[dead].id;
        let mut loses_a_lane = false;
        for (link, built) in self.built(number) {
            if Some(link.with) == dead {
                self.peer_hears(number, PeerInput::LinkBroke { link, built });
                loses_a_lane = true;
            }
        }
        if !loses_a_lane {
            // It only starves, until it hears the verdict.
            return;
        }
        for seq in std::mem::take(&mut self.peers[number].open) {
            let outcome = PlanOutcome::LaneLost;
            self.peer_hears(number, PeerInput::PlanEnded { seq, outcome });
        }
    }

    /// The links of a peer, and the rounds in which they were built, as its log has them.
    fn built(&self, number: usize) -> BTreeMap<LinkId, Round> {
        let mut built = BTreeMap::new();
        for record in crate::doctor::peer(&self.peers[number].machine.log).1 {
            for output in record.outputs {
                if let PeerOutput::AdoptRing { links, .. } = output {
                    let choose = |adopted: AdoptedLink| match adopted.lanes {
                        AdoptedLanes::Use(round) => Some((adopted.link, round)),
                        AdoptedLanes::Keep => built.remove_entry(&adopted.link),
                    };
                    built = links.into_iter().filter_map(choose).collect();
                }
            }
        }
        built
    }

    pub(crate) fn calls(&mut self, number: usize, what: Call) {
        self.only_calls(number, what);
        self.settle();
    }

    /// A peer leaves, and nothing follows from it elsewhere.
    pub(crate) fn only_leaves(&mut self, number: usize) {
        self.peer_hears(number, PeerInput::Leave);
    }

    /// A peer shows that it lives.
    pub(crate) fn beats(&mut self, number: usize) {
        self.peer_hears(number, PeerInput::TimerFired(PeerTimer::HeartbeatDue));
        self.settle();
    }

    /// The master shows that it lives.
    pub(crate) fn master_beats(&mut self) {
        self.master_hears(MasterInput::TimerFired(MasterTimer::HeartbeatDue));
        self.settle();
    }

    /// Who is idle, or whose part is lacking, is late.
    pub(crate) fn is_late(&mut self, number: usize) {
        let peer = self.peers[number].id.unwrap();
        self.master_hears(MasterInput::TimerFired(MasterTimer::Late(peer)));
        self.settle();
    }

    /// All leave, and the master is stopped.
    pub(crate) fn ends(mut self) -> Files {
        for number in self.living() {
            self.only_leaves(number);
            self.settle();
        }
        self.master_hears(MasterInput::Stop);
        self.settle();
        self.files()
    }

    /// What is recorded so far.
    pub(crate) fn files(self) -> Files {
        let peers = self.peers.into_iter().enumerate();
        let peers = peers.map(|(number, peer)| (format!("peer-{number}"), peer.machine.log));
        let master = ("master".to_owned(), self.master.log);
        peers.chain([master]).collect()
    }

    /// What a connection has said reaches the master, and nothing else happens.
    pub(crate) fn only_up(&mut self, number: usize) {
        while let Some(message) = self.peers[number].up.pop_front() {
            self.goes_up(number, message);
        }
    }

    /// A call, and nothing that follows from it elsewhere.
    pub(crate) fn only_calls(&mut self, number: usize, what: Call) {
        self.calls = self.calls.next();
        let call = self.calls;
        self.peer_hears(number, PeerInput::Call { call, what });
    }

    /// The master's process is killed, and everybody's connection ends.
    pub(crate) fn master_dies(&mut self) {
        for number in self.living() {
            self.peer_hears(number, PeerInput::MasterDisconnected);
        }
    }

    /// The master is stopped, and its peers hear it.
    pub(crate) fn stops(mut self) -> Files {
        self.master_hears(MasterInput::Stop);
        self.settle();
        self.files()
    }

    fn settle(&mut self) {
        while self.moves() {}
    }

    /// Something that can happen happens.
    fn moves(&mut self) -> bool {
        if let Some(answer) = self.solver.pop_front() {
            self.master_hears(answer);
            return true;
        }
        for number in 0..self.peers.len() {
            let peer = &mut self.peers[number];
            if let Some(message) = peer.up.pop_front() {
                self.goes_up(number, message);
                return true;
            }
            if peer.is_dead || peer.is_out {
                continue;
            }
            if let Some(message) = peer.down.pop_front() {
                self.peer_hears(number, PeerInput::Message(message));
                return true;
            }
            if let Some(input) = peer.plane.pop_front() {
                self.peer_hears(number, input);
                return true;
            }
        }
        false
    }

    fn goes_up(&mut self, number: usize, message: ToMaster) {
        let input = match (message, self.peers[number].id) {
            (ToMaster::Hello(hello), None) => MasterInput::Connected {
                conn: ConnId(number as u64),
                hello,
                from: [127, 0, 0, 1].into(),
                identity: None,
            },
            (message, Some(peer)) => MasterInput::Message { peer, message },
            (_, None) => return,
        };
        self.master_hears(input);
    }

    fn master_hears(&mut self, input: MasterInput) {
        for output in self.master.give(input) {
            match output {
                MasterOutput::Register { conn, peer } => {
                    self.peers[conn.0 as usize].id = Some(peer);
                }
                MasterOutput::Send { peer, message } => {
                    let mut peers = self.peers.iter_mut();
                    if let Some(known) = peers.find(|known| known.id == Some(peer)) {
                        known.down.push_back(message);
                    }
                }
                MasterOutput::SolveTour {
                    round,
                    group,
                    problem,
                } => {
                    let found = tour::solve(&problem);
                    self.solver.push_back(MasterInput::TourSolved {
                        round,
                        group,
                        found,
                    });
                }
                _ => {}
            }
        }
    }

    fn peer_hears(&mut self, number: usize, input: PeerInput) {
        let rings = self.rings;
        let peer = &mut self.peers[number];
        for output in peer.machine.give(input) {
            let plane = &mut peer.plane;
            match output {
                PeerOutput::Send(message) => peer.up.push_back(message),
                PeerOutput::Establish { round, links } => {
                    plane.retain(|input| !matches!(input, PeerInput::LinkUp { .. }));
                    let links = links.iter().map(LinkOrder::link);
                    plane.extend(links.map(|link| PeerInput::LinkUp { round, link }));
                }
                PeerOutput::RunPlan { seq, .. } => {
                    let outcome = match rings {
                        Rings::Whole => PlanOutcome::Done,
                        Rings::LostForNothing => PlanOutcome::LaneLost,
                        Rings::Open => {
                            peer.open.push(seq);
                            continue;
                        }
                    };
                    plane.push_back(PeerInput::PlanEnded { seq, outcome });
                }
                PeerOutput::StopPlan { seq } => {
                    peer.open.retain(|open| *open != seq);
                    plane.retain(|input| {
                        !matches!(input, PeerInput::PlanEnded { seq: known, .. } if *known == seq)
                    });
                }
                PeerOutput::MoveState { plan, .. } => plane.push_back(PeerInput::TransfersEnded {
                    round: plan.round,
                    ok: true,
                    with: None,
                }),
                PeerOutput::Probe { round, probes } => {
                    let outward = probes.iter().filter(|probe| probe.way == Way::Out);
                    plane.extend(outward.map(|probe| PeerInput::Measured {
                        round,
                        to: probe.lanes.with,
                        measured: Measurement {
                            bytes_per_s: 1_000_000 * probe.lanes.with.0,
                            round_trip_us: 100,
                        },
                    }));
                    plane.push_back(PeerInput::ProbesEnded { round, ok: true });
                }
                PeerOutput::Close => {
                    peer.is_out = true;
                    plane.clear();
                }
                _ => {}
            }
        }
    }
}
