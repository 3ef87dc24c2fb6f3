//! The master machine among peers that lie: any message of any peer at any time, connections that end, timers that
//! run out. Peers may also do as they were told, so that their lies come in all states.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ConnId, EntryIndex, Epoch, GroupId, PeerId, ProtocolVersion, Round};
use pccl_core::log::{Encoder, replay};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, Misdeed, PlanOutcome, ToMaster, ToPeer};
use pccl_core::paths::Measurement;
use pccl_core::topology::{BrokenLinks, Ring};
use pccl_core::tour::{Solved, TourProblem, solve};
use pccl_core::wire::{CONTROL_FRAME_MAX, encode_control};

use super::frugal;
use super::made::Bytes;

/// Peers at once: enough for two groups of a mesh and a ring.
const PEERS_MAX: usize = 7;

/// Inputs of one run, after which it ends.
const STEPS_MAX: usize = 400;

/// Bytes of one input of the master, for the budget of its allocations: a run of a few peers answers with little.
const INPUT_BYTES: usize = 4 << 10;

/// A run of a master whose inputs these bytes choose.
pub fn master(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut run = Run::new(config(&mut bytes));
    while !bytes.is_empty() && run.steps < STEPS_MAX && !run.is_over {
        run.step(&mut bytes);
    }
    run.ends();
}

fn config(bytes: &mut Bytes<'_>) -> MasterConfig {
    let config = match bytes.below(3) {
        0 => MasterConfig::rings_only(),
        _ => MasterConfig::default(),
    };
    let config = MasterConfig {
        ahead_within_machine: true,
        ..config
    };
    match bytes.below(3) {
        0 => MasterConfig {
            peers_max: 3,
            tags_max: 4,
            entries_max: EntryIndex(2),
            wiring_attempts_max: 2,
            probe_all_max: 3,
            sites_mesh_max: 4,
            ..config
        },
        _ => config,
    }
}

/// A master, and what its driver has to know.
struct Run {
    machine: Master,
    encoder: Encoder<Master>,
    log: Vec<u8>,
    steps: usize,
    outputs: u64,
    conns: u64,
    peers: BTreeMap<PeerId, Told>,
    timers: BTreeSet<MasterTimer>,
    problems: Vec<(Round, GroupId, TourProblem)>,
    searches: Vec<(Round, GroupId)>,
    is_over: bool,
}

/// What a peer was told and has not done.
#[derive(Debug, Default)]
struct Told {
    epoch: Epoch,
    todo: Vec<ToMaster>,
}

impl Run {
    fn new(config: MasterConfig) -> Self {
        let encoder = Encoder::new(&config).expect("a configuration has an encoding");
        Self {
            log: encoder.header().to_vec(),
            encoder,
            machine: Master::new(config),
            steps: 0,
            outputs: 0,
            conns: 0,
            peers: BTreeMap::new(),
            timers: BTreeSet::new(),
            problems: Vec::new(),
            searches: Vec::new(),
            is_over: false,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(16) {
            0 | 1 => self.somebody_joins(bytes),
            2..5 => {
                let (peer, message) = (self.somebody(bytes), bytes.value());
                if let (Some(peer), Some(message)) = (peer, message) {
                    self.hear(MasterInput::Message { peer, message }, bytes);
                }
            }
            5 | 6 => {
                if let Some(message) = bytes.value::<ToMaster>() {
                    self.everybody_says(&message, bytes);
                }
            }
            7..10 => self.everybody_obeys(bytes),
            10 => {
                if let Some(peer) = self.somebody(bytes) {
                    self.obeys(peer, bytes);
                }
            }
            11 => self.a_timer_fires(bytes),
            12 => self.somebody_is_lost(bytes),
            13 => self.somebody_solves(bytes),
            14 => self.everybody_updates(bytes),
            _ if bytes.byte() > 250 => self.hear(MasterInput::Stop, bytes),
            _ => {}
        }
    }

    fn somebody(&self, bytes: &mut Bytes<'_>) -> Option<PeerId> {
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        bytes.one_of(&peers)
    }

    fn somebody_joins(&mut self, bytes: &mut Bytes<'_>) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let sound = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(u32::from(bytes.byte() & 1)),
            port: 48149,
            advertise: None,
            lanes: 2,
            site: Default::default(),
            name: Default::default(),
        };
        let hello = match bytes.below(4) {
            0 => bytes.value().unwrap_or(sound),
            1 => Hello {
                site: bytes.value().unwrap_or_default(),
                ..sound
            },
            _ => sound,
        };
        let from = match bytes.below(3) {
            0 => [127, 0, 0, 1],
            host => [192, 0, 2, u8::try_from(host).unwrap_or_default()],
        };
        let conn = ConnId(self.conns);
        self.conns += 1;
        let identity = bytes.value().unwrap_or_default();
        let connected = MasterInput::Connected {
            conn,
            hello,
            from: from.into(),
            identity,
        };
        self.hear(connected, bytes);
    }

    fn everybody_says(&mut self, message: &ToMaster, bytes: &mut Bytes<'_>) {
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        for peer in peers {
            let message = message.clone();
            self.hear(MasterInput::Message { peer, message }, bytes);
        }
    }

    fn everybody_updates(&mut self, bytes: &mut Bytes<'_>) {
        let peers: Vec<(PeerId, Epoch)> = self
            .peers
            .iter()
            .map(|(peer, told)| (*peer, told.epoch))
            .collect();
        for (peer, epoch) in peers {
            let message = ToMaster::UpdateTopology {
                epoch,
                broken: BrokenLinks::NONE,
            };
            self.hear(MasterInput::Message { peer, message }, bytes);
        }
    }

    fn everybody_obeys(&mut self, bytes: &mut Bytes<'_>) {
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        for peer in peers {
            self.obeys(peer, bytes);
        }
    }

    fn obeys(&mut self, peer: PeerId, bytes: &mut Bytes<'_>) {
        let told = self.peers.get_mut(&peer);
        let todo = told.map(|told| std::mem::take(&mut told.todo));
        for message in todo.unwrap_or_default() {
            self.hear(MasterInput::Message { peer, message }, bytes);
        }
    }

    fn a_timer_fires(&mut self, bytes: &mut Bytes<'_>) {
        let timers: Vec<MasterTimer> = self.timers.iter().copied().collect();
        if let Some(timer) = bytes.one_of(&timers) {
            self.timers.remove(&timer);
            self.hear(MasterInput::TimerFired(timer), bytes);
        }
    }

    fn somebody_is_lost(&mut self, bytes: &mut Bytes<'_>) {
        let Some(peer) = self.somebody(bytes) else {
            return;
        };
        let input = match bytes.below(3) {
            0 => MasterInput::Misbehaved {
                peer,
                misdeed: Misdeed::Malformed,
            },
            1 => MasterInput::Misbehaved {
                peer,
                misdeed: Misdeed::SlowReader,
            },
            _ => MasterInput::Disconnected { peer },
        };
        self.hear(input, bytes);
    }

    fn somebody_solves(&mut self, bytes: &mut Bytes<'_>) {
        if let Some((round, group, problem)) = self.problems.pop() {
            let found = match bytes.below(3) {
                0 => Some(Solved {
                    ring: Ring(problem.members.iter().rev().copied().collect()),
                    bound: 1,
                    is_optimal: bytes.byte() & 1 == 0,
                }),
                _ => solve(&problem),
            };
            let solved = MasterInput::TourSolved {
                round,
                group,
                found,
            };
            self.hear(solved, bytes);
        }
    }

    /// The master hears this, and the driver does as it is told.
    fn hear(&mut self, input: MasterInput, bytes: &mut Bytes<'_>) {
        if self.is_over || self.steps >= STEPS_MAX {
            return;
        }
        self.steps += 1;
        let mut out = Vec::new();
        let (machine, encoder) = (&mut self.machine, &mut self.encoder);
        let record = frugal(INPUT_BYTES, 256, || {
            encoder.step(machine, input, &mut out).map(<[u8]>::to_vec)
        });
        self.log.extend(record.expect("a step has an encoding"));
        self.outputs += out.len() as u64;
        // Each peer may be told of the loss of each other one, in each of its collectives.
        assert!(out.len() < 4_000, "{} outputs", out.len());
        for output in out {
            self.carry_out(output, bytes);
        }
        for timer in &self.timers {
            if let MasterTimer::Silence(peer) | MasterTimer::Late(peer) = timer {
                assert!(self.peers.contains_key(peer), "{timer:?} runs for nobody");
            }
        }
    }

    fn carry_out(&mut self, output: MasterOutput, bytes: &mut Bytes<'_>) {
        match output {
            MasterOutput::Register { peer, .. } => {
                bytes.remember(peer.0);
                let before = self.peers.insert(peer, Told::default());
                assert!(before.is_none(), "{peer} was registered twice");
            }
            MasterOutput::Send { peer, message } => self.tell(peer, message, bytes),
            MasterOutput::Close { peer } | MasterOutput::Lost { peer, .. } => {
                self.peers.remove(&peer);
            }
            MasterOutput::StartTimer { timer, .. } => {
                self.timers.insert(timer);
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.remove(&timer);
            }
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => self.problems.push((round, group, problem)),
            MasterOutput::SearchTour { round, group, .. } => self.searches.push((round, group)),
            MasterOutput::EndSearch { round, group } => {
                self.searches.retain(|search| *search != (round, group));
            }
            MasterOutput::Stopped => self.is_over = true,
            MasterOutput::Inconsistent { peer, state, event } => {
                panic!("the master contradicts itself about {peer}: {event:?} in {state:?}")
            }
            MasterOutput::Refuse { .. } | MasterOutput::Moved { .. } => {}
        }
    }

    /// A peer hears this, and notes what it is asked for.
    fn tell(&mut self, peer: PeerId, message: ToPeer, bytes: &mut Bytes<'_>) {
        let mut frame = Vec::new();
        encode_control(&message, &mut frame).expect("what is sent can be sent");
        assert!(
            frame.len() < CONTROL_FRAME_MAX / 16,
            "{} bytes",
            frame.len()
        );
        let Some(told) = self.peers.get_mut(&peer) else {
            return;
        };
        bytes.remember_all(&message);
        match message {
            ToPeer::EstablishLinks { round, links } => {
                let up = links.iter().map(|order| ToMaster::LinkUp {
                    round,
                    link: order.link(),
                });
                told.todo.extend(up);
            }
            ToPeer::TopologyEstablished { topology, .. } => told.epoch = topology.epoch,
            ToPeer::Probe { round, probes } => {
                let measured = probes.iter().map(|order| ToMaster::Measured {
                    round,
                    to: order.lanes.with,
                    measured: Measurement {
                        bytes_per_s: 1_000_000 * (1 + (peer.0 ^ order.lanes.with.0) % 5),
                        round_trip_us: 10,
                    },
                });
                told.todo.extend(measured);
                told.todo.push(ToMaster::ProbesDone { round, ok: true });
            }
            ToPeer::SharedStatePlan(plan) => told.todo.push(ToMaster::SharedStateDone {
                round: plan.round,
                ok: true,
                with: None,
            }),
            ToPeer::Commence { seq, .. } => told.todo.push(ToMaster::CompleteCollective {
                seq,
                outcome: PlanOutcome::Done,
                broken: BrokenLinks::NONE,
            }),
            ToPeer::Welcome { .. }
            | ToPeer::Refused(_)
            | ToPeer::CallFailed(_)
            | ToPeer::PeersPending { .. }
            | ToPeer::OptimizationConcluded { .. }
            | ToPeer::SharedStateConcluded { .. }
            | ToPeer::CollectiveRefused { .. }
            | ToPeer::Verdict { .. }
            | ToPeer::Kicked(_)
            | ToPeer::Heartbeat
            | ToPeer::Stopping
            | ToPeer::Awaited(_) => {}
        }
    }

    /// The same inputs lead to the same outputs again, as the log tells them.
    fn ends(self) {
        let replayed = replay(&self.log).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(replayed.records, self.steps as u64);
        assert_eq!(replayed.outputs, self.outputs);
        assert_eq!(replayed.torn, 0);
    }
}
