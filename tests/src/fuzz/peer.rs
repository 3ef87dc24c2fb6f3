//! A run of a master and three peers, of which the first one is lied to: between the master's messages it gets others.
//! The others and the master hear only what that peer makes of it, and must not suffer for it.

use std::collections::{BTreeSet, VecDeque};

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{CallId, ConnId, ContentHash, GroupId, PeerId, Revision, Tag};
use pccl_core::log::{Encoder, replay};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{PlanOutcome, ToMaster, ToPeer};
use pccl_core::paths::Measurement;
use pccl_core::peer::{
    Answer, Call, CallError, Peer, PeerConfig, PeerInput, PeerOutput, PeerTimer,
};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::topology::{LinkOrder, Way};
use pccl_core::tour::solve;
use pccl_core::wire::encode_control;

use super::frugal;
use super::made::Bytes;

const PEERS: usize = 3;

/// The one that is lied to.
const LIED_TO: usize = 0;

/// Inputs of all machines of one run, after which it ends.
const STEPS_MAX: usize = 600;

/// As in [`super::master`].
const INPUT_BYTES: usize = 4 << 10;

/// A run whose course these bytes choose.
pub fn peer(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut run = Run::new();
    for index in 0..PEERS {
        run.call(index, Call::Connect, &mut bytes);
    }
    while !bytes.is_empty() && run.steps < STEPS_MAX {
        run.step(&mut bytes);
    }
    for one in &run.peers {
        one.ends();
    }
}

/// A peer, its driver, and the connection to the master.
struct One {
    machine: Peer,
    encoder: Encoder<Peer>,
    log: Vec<u8>,
    records: u64,
    /// `None` until the master has registered it.
    id: Option<PeerId>,
    to_master: VecDeque<ToMaster>,
    from_master: VecDeque<ToPeer>,
    todo: Vec<PeerInput>,
    timers: BTreeSet<PeerTimer>,
    calls: u64,
    open: BTreeSet<CallId>,
    /// Whether it has heard only the master.
    is_honest: bool,
    is_closed: bool,
}

struct Run {
    master: Master,
    master_timers: BTreeSet<MasterTimer>,
    solved: Vec<MasterInput>,
    peers: Vec<One>,
    steps: usize,
}

impl One {
    fn new(index: usize) -> Self {
        let config = PeerConfig {
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: Default::default(),
            name: Default::default(),
            collectives_max: 2,
        };
        let encoder = Encoder::new(&config).expect("a configuration has an encoding");
        Self {
            machine: Peer::new(config),
            log: encoder.header().to_vec(),
            encoder,
            records: 0,
            id: None,
            to_master: VecDeque::new(),
            from_master: VecDeque::new(),
            todo: Vec::new(),
            timers: BTreeSet::new(),
            calls: 0,
            open: BTreeSet::new(),
            is_honest: index != LIED_TO,
            is_closed: false,
        }
    }

    /// Its machine hears this, and its driver notes what it is told.
    fn hear(&mut self, input: PeerInput) {
        let mut out = Vec::new();
        let (machine, encoder) = (&mut self.machine, &mut self.encoder);
        let record = frugal(INPUT_BYTES, 256, || {
            encoder.step(machine, input, &mut out).map(<[u8]>::to_vec)
        });
        self.log.extend(record.expect("a step has an encoding"));
        self.records += 1;
        assert!(out.len() < 1_000, "{} outputs", out.len());
        for output in out {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: PeerOutput) {
        match output {
            PeerOutput::Send(message) => {
                encode_control(&message, &mut Vec::new()).expect("what is sent can be sent");
                self.to_master.push_back(message);
            }
            PeerOutput::Answer { call, answer } => {
                assert!(self.open.remove(&call), "{call} was answered twice");
                self.check(&answer);
            }
            PeerOutput::Establish { round, links } => {
                let up = links.iter().map(|order| PeerInput::LinkUp {
                    round,
                    link: order.link(),
                });
                self.todo.extend(up);
            }
            PeerOutput::RunPlan { seq, .. } => self.todo.push(PeerInput::PlanEnded {
                seq,
                outcome: PlanOutcome::Done,
            }),
            PeerOutput::StopPlan { seq } => {
                let ended = |input: &PeerInput| matches!(input, PeerInput::PlanEnded { seq: s, .. } if *s == seq);
                self.todo.retain(|input| !ended(input));
            }
            PeerOutput::MoveState { plan, .. } => self.todo.push(PeerInput::TransfersEnded {
                round: plan.round,
                ok: true,
                with: None,
            }),
            PeerOutput::Probe { round, probes } => {
                let sends = |order: &&LinkOrder| order.way == Way::Out;
                let measured = probes
                    .iter()
                    .filter(sends)
                    .map(|order| PeerInput::Measured {
                        round,
                        to: order.lanes.with,
                        measured: Measurement {
                            bytes_per_s: 1_000_000,
                            round_trip_us: 10,
                        },
                    });
                self.todo.extend(measured);
                self.todo.push(PeerInput::ProbesEnded { round, ok: true });
            }
            PeerOutput::StartTimer { timer, .. } => {
                self.timers.insert(timer);
            }
            PeerOutput::StopTimer(timer) => {
                self.timers.remove(&timer);
            }
            PeerOutput::Close => self.is_closed = true,
            PeerOutput::AdoptRing { .. }
            | PeerOutput::Confirm { .. }
            | PeerOutput::CommitState { .. }
            | PeerOutput::DropState { .. }
            | PeerOutput::StopProbes { .. }
            | PeerOutput::Awaited(_) => {}
        }
    }

    /// An honest peer has no reason to complain about a master that is honest as well.
    fn check(&self, answer: &Answer) {
        let error = match answer {
            Answer::Connected(result) => result.as_ref().err(),
            Answer::TopologyUpdated(result) => result.as_ref().err(),
            Answer::PeersPending(result) => result.as_ref().err(),
            Answer::TopologyOptimized(result) => result.as_ref().err(),
            Answer::Synchronized(result) => result.as_ref().err(),
            Answer::CollectiveEnded { result, .. } => result.as_ref().err(),
        };
        let blames_the_master = matches!(error, Some(CallError::MasterMisbehaved));
        assert!(!self.is_honest || !blames_the_master, "{answer:?}");
    }

    fn ends(&self) {
        let replayed = replay(&self.log).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(replayed.records, self.records);
    }
}

impl Run {
    fn new() -> Self {
        let config = MasterConfig {
            ahead_within_machine: true,
            ..MasterConfig::default()
        };
        Self {
            master: Master::new(config),
            master_timers: BTreeSet::new(),
            solved: Vec::new(),
            peers: (0..PEERS).map(One::new).collect(),
            steps: 0,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.below(PEERS);
        match bytes.below(12) {
            0..3 => self.settle(bytes),
            3 => {
                self.pass_one_up(index, bytes);
            }
            4 => {
                self.pass_one_down(index, bytes);
            }
            5 | 6 => self.lie(bytes),
            7 => {
                let call = sound_call(bytes);
                self.call(index, call, bytes);
            }
            8 => {
                let call = sound_call(bytes);
                for index in 0..PEERS {
                    self.call(index, call.clone(), bytes);
                }
            }
            9 => self.a_timer_fires(index, bytes),
            10 => {
                let inputs = std::mem::take(&mut self.peers[index].todo);
                for input in inputs {
                    self.hear(index, input, bytes);
                }
            }
            _ => self.something_ends(index, bytes),
        }
    }

    /// A message that the master did not send, or that it sends another time.
    fn lie(&mut self, bytes: &mut Bytes<'_>) {
        if let Some(message) = bytes.value::<ToPeer>() {
            self.hear(LIED_TO, PeerInput::Message(message), bytes);
        }
    }

    fn call(&mut self, index: usize, what: Call, bytes: &mut Bytes<'_>) {
        let one = &mut self.peers[index];
        let call = CallId(one.calls);
        one.calls += 1;
        one.open.insert(call);
        self.hear(index, PeerInput::Call { call, what }, bytes);
    }

    fn hear(&mut self, index: usize, input: PeerInput, bytes: &mut Bytes<'_>) {
        self.steps += 1;
        if let PeerInput::Message(message) = &input
            && index == LIED_TO
        {
            bytes.remember_all(message);
        }
        self.peers[index].hear(input);
    }

    fn a_timer_fires(&mut self, index: usize, bytes: &mut Bytes<'_>) {
        if bytes.byte() & 1 == 0 {
            let timers: Vec<PeerTimer> = self.peers[index].timers.iter().copied().collect();
            if let Some(timer) = bytes.one_of(&timers) {
                self.peers[index].timers.remove(&timer);
                self.hear(index, PeerInput::TimerFired(timer), bytes);
            }
        } else {
            let timers: Vec<MasterTimer> = self.master_timers.iter().copied().collect();
            if let Some(timer) = bytes.one_of(&timers) {
                self.master_timers.remove(&timer);
                self.tell_master(MasterInput::TimerFired(timer));
            }
        }
    }

    fn something_ends(&mut self, index: usize, bytes: &mut Bytes<'_>) {
        let calls: Vec<CallId> = self.peers[index].open.iter().copied().collect();
        match bytes.below(8) {
            0 => self.hear(index, PeerInput::Leave, bytes),
            1 => self.hear(index, PeerInput::MasterDisconnected, bytes),
            2 => self.hear(index, PeerInput::AskWhoIsAwaited, bytes),
            3 => self.hear(index, PeerInput::Moved, bytes),
            4 => {
                if let Some(call) = bytes.one_of(&calls) {
                    self.hear(index, PeerInput::Withdraw { call }, bytes);
                }
            }
            _ => {
                if let Some(call) = bytes.one_of(&calls) {
                    self.peers[index].open.remove(&call);
                    self.hear(index, PeerInput::GiveUp { call }, bytes);
                }
            }
        }
    }

    fn pass_one_up(&mut self, index: usize, bytes: &mut Bytes<'_>) -> bool {
        let Some(message) = self.peers[index].to_master.pop_front() else {
            return false;
        };
        let id = self.peers[index].id;
        let input = match (message, id) {
            (ToMaster::Hello(hello), None) => MasterInput::Connected {
                conn: ConnId(index as u64),
                hello,
                from: [127, 0, 0, 1].into(),
                identity: None,
            },
            (message, Some(peer)) => MasterInput::Message { peer, message },
            (_, None) => return true,
        };
        if let Some(peer) = id {
            bytes.remember(peer.0);
        }
        self.tell_master(input);
        true
    }

    fn pass_one_down(&mut self, index: usize, bytes: &mut Bytes<'_>) -> bool {
        let Some(message) = self.peers[index].from_master.pop_front() else {
            return false;
        };
        self.hear(index, PeerInput::Message(message), bytes);
        true
    }

    /// Everything that is under way arrives, and everybody does as told, for a while.
    fn settle(&mut self, bytes: &mut Bytes<'_>) {
        for _ in 0..20 {
            let mut has_moved = false;
            for index in 0..PEERS {
                has_moved |= self.pass_one_up(index, bytes);
                has_moved |= self.pass_one_down(index, bytes);
                let inputs = std::mem::take(&mut self.peers[index].todo);
                has_moved |= !inputs.is_empty();
                for input in inputs {
                    self.hear(index, input, bytes);
                }
            }
            for answer in std::mem::take(&mut self.solved) {
                self.tell_master(answer);
            }
            if !has_moved || self.steps >= STEPS_MAX {
                return;
            }
        }
    }

    fn tell_master(&mut self, input: MasterInput) {
        self.steps += 1;
        let mut out = Vec::new();
        let master = &mut self.master;
        frugal(INPUT_BYTES, 256, || master.handle(input, &mut out));
        for output in out {
            self.carry_out(output);
        }
    }

    fn one(&mut self, peer: PeerId) -> Option<&mut One> {
        self.peers.iter_mut().find(|one| one.id == Some(peer))
    }

    fn carry_out(&mut self, output: MasterOutput) {
        match output {
            MasterOutput::Register { conn, peer } => {
                let one = usize::try_from(conn.0).ok();
                if let Some(one) = one.and_then(|index| self.peers.get_mut(index)) {
                    one.id = Some(peer);
                }
            }
            MasterOutput::Send { peer, message } => {
                if let Some(one) = self.one(peer) {
                    one.from_master.push_back(message);
                }
            }
            MasterOutput::StartTimer { timer, .. } => {
                self.master_timers.insert(timer);
            }
            MasterOutput::StopTimer(timer) => {
                self.master_timers.remove(&timer);
            }
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => {
                let found = solve(&problem);
                self.solved.push(MasterInput::TourSolved {
                    round,
                    group,
                    found,
                });
            }
            MasterOutput::Inconsistent { peer, state, event } => {
                panic!("the master contradicts itself about {peer}: {event:?} in {state:?}")
            }
            MasterOutput::Refuse { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Stopped => {}
        }
    }
}

/// A call that a program may make: the same for all peers, mostly.
fn sound_call(bytes: &mut Bytes<'_>) -> Call {
    match bytes.below(8) {
        0 | 1 => Call::UpdateTopology,
        2 => Call::ArePeersPending,
        3 => Call::OptimizeTopology,
        4 => Call::SyncSharedState(SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: vec![EntryInfo {
                name: "a".into(),
                element: ElementType::F32,
                count: 1,
                hash: ContentHash(u128::from(bytes.byte() & 1)),
                allow_content_inequality: false,
            }],
        }),
        _ => Call::Initiate {
            tag: Tag(u64::from(bytes.byte() % 3)),
            spec: CollectiveSpec {
                kind: match bytes.below(6) {
                    0 => CollectiveKind::ReduceScatter,
                    1 => CollectiveKind::AllGatherV { own: 3, limit: 20 },
                    2 => CollectiveKind::Barrier,
                    _ => CollectiveKind::AllReduce,
                },
                op: ReduceOp::Sum,
                element: ElementType::F32,
                count: 10,
                quantization: Quantization::None,
                algorithm: None,
                ordered: false,
            },
        },
    }
}
