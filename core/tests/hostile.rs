//! Peers that say anything at any time: the master contradicts itself never, keeps its rings whole,
//! keeps exactly the timers that it says, and forgets who is gone.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{
    ConnId, EntryIndex, Epoch, GroupId, Membership, PeerId, ProtocolVersion, Round, Seq, Tag,
};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, Misdeed, ToMaster, ToPeer, Verdict};
use pccl_core::paths::Measurement;
use pccl_core::site::SiteName;
use pccl_core::states::{
    CollectiveCommunicationState, ConnectionPhase, ConnectionState, Event, TRANSITIONS,
};
use pccl_core::topology::{BrokenLinks, LinkId, LinkOrder, Ring, Way};
use pccl_core::tour::{self, Solved};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

#[path = "run/reference/mod.rs"]
mod reference;
#[path = "support/replayable.rs"]
mod replayable;

#[path = "hostile/ahead.rs"]
mod ahead;
#[path = "hostile/kinds.rs"]
mod kinds;
#[path = "hostile/late.rs"]
mod late;
#[path = "hostile/run.rs"]
mod run;
#[path = "hostile/stories.rs"]
mod stories;
#[path = "hostile/words.rs"]
mod words;

use reference::Shadow;
use replayable::replayable;
use words::{Guess, Move, Wanted, Which, Word, any_move};

struct Bystander {
    master: Master,
    /// Says what is right, whatever the peers say.
    shadow: Shadow,
    conns: u64,
    connected: BTreeSet<PeerId>,
    timers: BTreeSet<MasterTimer>,
    /// How often each timer was started.
    starts: BTreeMap<MasterTimer, u64>,
    /// To whom each is to measure.
    probes: BTreeMap<PeerId, Vec<PeerId>>,
    /// The last round and operation that each peer heard of.
    heard: BTreeMap<PeerId, (Round, Seq)>,
    /// Which links each peer was last told to connect.
    told: BTreeMap<PeerId, Vec<LinkId>>,
    /// Those of them that it has not reported, until a ring stands.
    ordered: BTreeMap<PeerId, Vec<LinkId>>,
    /// Those of them that the peer dials.
    dialling: BTreeSet<(PeerId, LinkId)>,
    /// The ring that each peer is on, and its epoch.
    rings: BTreeMap<PeerId, Ring>,
    epochs: BTreeMap<PeerId, Epoch>,
    questions: Vec<MasterOutput>,
    verdicts: BTreeMap<Seq, Verdict>,
    taken: BTreeSet<(ConnectionState, Event)>,
    /// Whose ring is being connected while it waits for nothing: it may vote.
    free: BTreeSet<PeerId>,
    /// Who was sent away, and for what.
    gone: BTreeMap<PeerId, Misdeed>,
}

impl Bystander {
    fn new(config: MasterConfig) -> Self {
        Self {
            shadow: Shadow::new(config.clone()),
            master: Master::new(config),
            conns: 0,
            connected: BTreeSet::new(),
            timers: BTreeSet::new(),
            starts: BTreeMap::new(),
            probes: BTreeMap::new(),
            heard: BTreeMap::new(),
            told: BTreeMap::new(),
            ordered: BTreeMap::new(),
            dialling: BTreeSet::new(),
            rings: BTreeMap::new(),
            epochs: BTreeMap::new(),
            questions: Vec::new(),
            verdicts: BTreeMap::new(),
            taken: BTreeSet::new(),
            free: BTreeSet::new(),
            gone: BTreeMap::new(),
        }
    }

    fn pick(&self, number: u8) -> Option<PeerId> {
        let index = usize::from(number) % self.connected.len().max(1);
        self.connected.iter().nth(index).copied()
    }

    fn make(&mut self, next: Move) {
        match next {
            Move::Join(group, local) => self.join(u32::from(group % 2), local),
            Move::Blurt(peer, word) => {
                if let Some(peer) = self.pick(peer) {
                    self.say(peer, &word);
                }
            }
            Move::Say(peer, word) => {
                if let Some(peer) = self.pick(peer).filter(|peer| self.may_say(*peer, &word)) {
                    self.say(peer, &word);
                }
            }
            Move::SayAll(word) => {
                for peer in self.connected.clone() {
                    if self.may_say(peer, &word) {
                        self.say(peer, &word);
                    }
                }
            }
            Move::Vanish(peer) => {
                if let Some(peer) = self.pick(peer) {
                    self.connected.remove(&peer);
                    self.tell(MasterInput::Disconnected { peer });
                }
            }
            Move::Garble(peer, reads) => {
                let misdeed = match reads {
                    true => Misdeed::Malformed,
                    false => Misdeed::SlowReader,
                };
                if let Some(peer) = self.pick(peer) {
                    self.tell(MasterInput::Misbehaved { peer, misdeed });
                }
            }
            Move::Stop => self.tell(MasterInput::Stop),
            Move::Fire(which) => {
                let index = usize::from(which) % self.timers.len().max(1);
                if let Some(timer) = self.timers.iter().nth(index).copied() {
                    self.timers.remove(&timer);
                    self.tell(MasterInput::TimerFired(timer));
                }
            }
            Move::Solve(well) => self.solve(well),
        }
    }

    fn hello(group: u32) -> Hello {
        Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(group),
            port: 48149,
            advertise: None,
            lanes: 2,
            site: SiteName::NONE,
            name: Default::default(),
        }
    }

    fn join(&mut self, group: u32, local: bool) {
        if self.connected.len() >= 6 {
            return;
        }
        self.conns += 1;
        let from = if local {
            [127, 0, 0, 1]
        } else {
            [192, 0, 2, 1]
        };
        self.tell(MasterInput::Connected {
            conn: ConnId(self.conns),
            hello: Self::hello(group),
            from: from.into(),
            identity: None,
        });
    }

    /// Would a peer that keeps to the protocol say this?
    fn may_say(&self, peer: PeerId, word: &Word) -> bool {
        let Some(view) = self.master.view().peer(peer) else {
            return false;
        };
        let state = view.state();
        let is_accepted = view.phase() == ConnectionPhase::Accepted;
        let is_idle = is_accepted && (state == ConnectionState::Idle || self.free.contains(&peer));
        match word {
            Word::Update(_) | Word::Optimize | Word::Sync(_) => is_idle,
            Word::LinkUp(_, which) => self.is_ordered(peer, self.link(peer, *which)),
            Word::LinkFailed(_, which, _) => {
                let link = self.link(peer, *which);
                self.is_ordered(peer, link) && self.dialling.contains(&(peer, link))
            }
            Word::Query => is_accepted,
            Word::Measured(..) | Word::ProbesDone(..) => state == ConnectionState::OptimizeTopology,
            Word::SyncDone(..) => matches!(
                state,
                ConnectionState::DistributeSharedState | ConnectionState::RequestSharedState
            ),
            Word::Initiate(tag, ..) => {
                let is_free = view.tags().all(|(used, _)| used != Tag(*tag));
                is_free && (is_idle || view.tags().next().is_some())
            }
            Word::Complete(..) => view
                .tags()
                .any(|(_, state)| state == CollectiveCommunicationState::Perform),
            Word::Withdraw(tag) => view.tags().any(|(used, _)| used == Tag(*tag)),
            Word::Leave | Word::Heartbeat(_) | Word::WhoIsAwaited => true,
            Word::Hello => false,
        }
    }

    fn is_ordered(&self, peer: PeerId, link: LinkId) -> bool {
        let ordered = self.ordered.get(&peer);
        ordered.is_some_and(|ordered| ordered.contains(&link))
    }

    /// What a peer means by these words.
    fn link(&self, peer: PeerId, which: Which) -> LinkId {
        match which {
            Which::Ordered(way) => {
                let ordered = self.ordered.get(&peer).into_iter().flatten();
                let told = self.told.get(&peer).into_iter().flatten();
                let mut of_way = ordered.chain(told).filter(|link| link.way == way);
                let link = of_way.next().copied();
                link.unwrap_or_else(|| self.standing(peer, way))
            }
            Which::Standing(way) => self.standing(peer, way),
            Which::Other(way, number) => LinkId {
                way,
                with: self.pick(number).unwrap_or_default(),
            },
        }
    }

    /// The link to the neighbour on the ring, or where there is none, to nobody.
    fn standing(&self, peer: PeerId, way: Way) -> LinkId {
        let ring = self.rings.get(&peer);
        let with = ring.and_then(|ring| match way {
            Way::Out => ring.next_of(peer),
            Way::In => ring.previous_of(peer),
        });
        let with = with.unwrap_or_default();
        LinkId { way, with }
    }

    fn say(&mut self, peer: PeerId, word: &Word) {
        let (round, seq) = self.heard.get(&peer).copied().unwrap_or_default();
        let round_of = |guess: &Guess| match guess {
            Guess::Heard => round,
            Guess::Other(number) => Round(*number),
        };
        let named = |number: &u8| self.pick(*number).unwrap_or_default();
        let broken = |links: &[Which]| {
            let links = links.iter().map(|which| self.link(peer, *which));
            BrokenLinks(links.collect())
        };
        let message = match word {
            Word::Update(links) => ToMaster::UpdateTopology {
                epoch: self.epochs.get(&peer).copied().unwrap_or_default(),
                broken: broken(links),
            },
            Word::LinkUp(guess, which) => ToMaster::LinkUp {
                round: round_of(guess),
                link: self.link(peer, *which),
            },
            Word::LinkFailed(guess, which, failure) => ToMaster::LinkFailed {
                round: round_of(guess),
                link: self.link(peer, *which),
                failure: *failure,
            },
            Word::Query => ToMaster::ArePeersPending,
            Word::Optimize => ToMaster::OptimizeTopology,
            Word::Measured(guess, to, bytes_per_s) => ToMaster::Measured {
                round: round_of(guess),
                to: named(to),
                measured: Measurement {
                    bytes_per_s: *bytes_per_s,
                    round_trip_us: 1,
                },
            },
            Word::ProbesDone(guess, ok) => ToMaster::ProbesDone {
                round: round_of(guess),
                ok: *ok,
            },
            Word::Sync(vote) => ToMaster::SyncSharedState(vote.clone()),
            Word::SyncDone(guess, ok, with) => ToMaster::SharedStateDone {
                round: round_of(guess),
                ok: *ok,
                with: (!ok).then(|| named(with)),
            },
            Word::Initiate(tag, count, wanted, links) => ToMaster::InitiateCollective {
                tag: Tag(*tag),
                spec: CollectiveSpec {
                    kind: match tag {
                        2 => CollectiveKind::AllGatherV {
                            own: if *count == 0 { 1 } else { u64::MAX },
                            limit: 5,
                        },
                        _ => self.kind(peer, *wanted),
                    },
                    op: ReduceOp::Sum,
                    element: ElementType::F32,
                    count: if *tag == 2 { 0 } else { *count },
                    quantization: Quantization::None,
                    algorithm: None,
                    ordered: false,
                },
                epoch: self.epochs.get(&peer).copied().unwrap_or_default(),
                broken: broken(links),
            },
            Word::Complete(guess, outcome, links) => ToMaster::CompleteCollective {
                seq: match guess {
                    Guess::Heard => seq,
                    Guess::Other(number) => Seq(*number),
                },
                outcome: *outcome,
                broken: broken(links),
            },
            Word::Withdraw(tag) => ToMaster::Withdraw { tag: Tag(*tag) },
            Word::Heartbeat(moved) => ToMaster::Heartbeat { moved: *moved },
            Word::Leave => ToMaster::Leave,
            Word::WhoIsAwaited => ToMaster::WhoIsAwaited,
            Word::Hello => ToMaster::Hello(Self::hello(0)),
        };
        if let Word::LinkUp(Guess::Heard, which) | Word::LinkFailed(Guess::Heard, which, _) = word {
            self.is_reported(peer, self.link(peer, *which));
        }
        self.tell(MasterInput::Message { peer, message });
    }

    fn is_reported(&mut self, peer: PeerId, link: LinkId) {
        if let Some(ordered) = self.ordered.get_mut(&peer) {
            ordered.retain(|other| *other != link);
        }
    }

    /// What a peer means by this.
    fn kind(&self, peer: PeerId, wanted: Wanted) -> CollectiveKind {
        match wanted {
            Wanted::Reduced => CollectiveKind::AllReduce,
            Wanted::Scattered => CollectiveKind::ReduceScatter,
            Wanted::Gathered(is_right) => {
                let ring = self.rings.get(&peer).filter(|_| is_right);
                let peers = ring.map(|ring| ring.0.as_slice()).unwrap_or_default();
                CollectiveKind::AllGather {
                    laid_out_for: Membership::of(peers),
                }
            }
            Wanted::From(number) => CollectiveKind::Broadcast {
                root: self.pick(number).unwrap_or_default(),
            },
            Wanted::FromAny(root) => CollectiveKind::Broadcast { root: PeerId(root) },
            Wanted::Nothing => CollectiveKind::Barrier,
        }
    }

    fn solve(&mut self, well: bool) {
        let Some(MasterOutput::SolveTour {
            round,
            group,
            problem,
        }) = self.questions.pop()
        else {
            return;
        };
        let found = if well {
            Some(Solved {
                ring: Ring(problem.members.iter().rev().copied().collect()),
                bound: 1,
                is_optimal: true,
            })
        } else {
            tour::solve(&problem)
        };
        self.tell(MasterInput::TourSolved {
            round,
            group,
            found,
        });
    }

    fn tell(&mut self, input: MasterInput) {
        let mut out = Vec::new();
        self.master.handle(input.clone(), &mut out);
        self.shadow.follow(&input, &self.master, &out);
        for output in out {
            self.note(output);
        }
        self.check();
    }

    fn note(&mut self, output: MasterOutput) {
        match output {
            MasterOutput::Register { peer, .. } => {
                self.connected.insert(peer);
            }
            MasterOutput::Close { peer } => {
                self.connected.remove(&peer);
            }
            MasterOutput::StartTimer { timer, .. } => {
                self.timers.insert(timer);
                *self.starts.entry(timer).or_default() += 1;
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.remove(&timer);
            }
            MasterOutput::SolveTour { .. } => self.questions.push(output),
            MasterOutput::Inconsistent { peer, state, event } => {
                panic!("the master contradicts itself: {peer} {state:?} {event:?}")
            }
            MasterOutput::Send { peer, message } => self.hear(peer, message),
            MasterOutput::Moved {
                peer, event, from, ..
            } => {
                self.taken.insert((from, event));
                if event == Event::RingHandedOut && from == ConnectionState::Idle {
                    self.free.insert(peer);
                } else if !matches!(event, Event::LinksUp | Event::LinkFailed) {
                    self.free.remove(&peer);
                }
            }
            MasterOutput::Lost { peer, misdeed } => {
                self.gone.extend(misdeed.map(|misdeed| (peer, misdeed)));
            }
            MasterOutput::Refuse { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Stopped => {}
        }
    }

    fn hear(&mut self, peer: PeerId, message: ToPeer) {
        let heard = self.heard.entry(peer).or_default();
        match message {
            ToPeer::EstablishLinks { round, links } => {
                heard.0 = round;
                assert!(!links.is_empty(), "an order without links");
                let ordered: Vec<LinkId> = links.iter().map(LinkOrder::link).collect();
                let each_once: BTreeSet<LinkId> = ordered.iter().copied().collect();
                assert!(ordered.iter().eq(&each_once), "{peer} is told {ordered:?}");
                assert!(ordered.iter().all(|link| link.with != peer));
                self.dialling.retain(|(other, _)| *other != peer);
                let dialled = links.iter().filter(|order| order.lanes.dial.is_some());
                let dialled = dialled.map(|order| (peer, order.link()));
                self.dialling.extend(dialled);
                self.told.insert(peer, ordered.clone());
                self.ordered.insert(peer, ordered);
            }
            ToPeer::Probe { round, probes } => {
                heard.0 = round;
                let out = probes.iter().filter(|probe| probe.way == Way::Out);
                let to = out.map(|probe| probe.lanes.with).collect();
                self.probes.insert(peer, to);
            }
            ToPeer::SharedStatePlan(plan) => heard.0 = plan.round,
            ToPeer::Commence { seq, .. } => heard.1 = seq,
            ToPeer::Verdict { seq, verdict, .. } => {
                let known = self.verdicts.entry(seq).or_insert(verdict.clone());
                assert_eq!(*known, verdict, "one verdict about {seq}");
                if let Verdict::Committed { next, .. } = verdict {
                    heard.1 = next.map_or(heard.1, |next| next.seq);
                }
            }
            ToPeer::TopologyEstablished { topology, layout } => {
                let next = topology.ring.next_of(peer).map(LinkId::to);
                let previous = topology.ring.previous_of(peer).map(LinkId::from);
                let of_ring = next.into_iter().chain(previous);
                let named = layout.0.iter().map(|built| built.link);
                assert!(named.eq(of_ring), "{layout:?} of {topology:?}");
                self.rings.insert(peer, topology.ring.clone());
                self.epochs.insert(peer, topology.epoch);
                self.ordered.remove(&peer);
                let members: BTreeSet<PeerId> = topology.ring.0.iter().copied().collect();
                assert_eq!(
                    members.len(),
                    topology.ring.0.len(),
                    "nobody is on it twice"
                );
                assert!(members.contains(&peer));
                assert!(topology.lanes > 0);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let view = self.master.view();
        let known: BTreeSet<PeerId> = view.peers().map(|(peer, _)| peer).collect();
        assert_eq!(known, self.connected);
        for (peer, record) in view.peers() {
            let is_waiting = match record.state() {
                ConnectionState::CollectiveCommunicationsRunning => record.tags().next().is_some(),
                ConnectionState::Idle => record.tags().next().is_none(),
                _ => true,
            };
            assert!(is_waiting, "{peer} {:?}", record.state());
        }
        for group in view.groups() {
            let accepted = |peer: &PeerId| {
                view.peer(*peer)
                    .is_some_and(|peer| peer.phase() == ConnectionPhase::Accepted)
            };
            let lives = view
                .peers()
                .any(|(peer, record)| record.group() == group && accepted(&peer));
            assert!(lives, "{group} is empty and remembered");
        }
        for timer in &self.timers {
            if let MasterTimer::Silence(peer) = timer {
                assert!(known.contains(peer), "{peer} is gone and waited for");
            }
        }
        assert!(known.is_empty() != self.timers.contains(&MasterTimer::HeartbeatDue));
        self.check_that_waiting_ends();
    }

    /// Who waits, waits for a deadline at most.
    fn check_that_waiting_ends(&self) {
        let mut deadlines = self.timers.iter().filter(|timer| match timer {
            MasterTimer::Silence(_) | MasterTimer::HeartbeatDue | MasterTimer::MeasurementsAge => {
                false
            }
            MasterTimer::Late(_)
            | MasterTimer::Wiring(_)
            | MasterTimer::RetryWiring(_)
            | MasterTimer::Solver(_) => true,
        });
        let waits = self.master.view().peers().any(|(_, peer)| {
            peer.state() != ConnectionState::Idle && peer.phase() == ConnectionPhase::Accepted
        });
        assert!(!waits || deadlines.next().is_some(), "no deadline runs");
    }
}

/// Limits that peers run into.
fn tight() -> MasterConfig {
    MasterConfig {
        peers_max: 5,
        tags_max: 2,
        entries_max: EntryIndex(2),
        wiring_attempts_max: 2,
        ..ahead::config()
    }
}

/// Four peers in two groups, and whatever happens to them.
fn run(config: MasterConfig, moves: Vec<Move>) -> Bystander {
    let mut bystander = Bystander::new(config);
    for group in [0, 0, 0, 1] {
        bystander.join(group, false);
    }
    bystander.make(Move::SayAll(Word::Update(Vec::new())));
    for way in [Way::Out, Way::In] {
        let link = Which::Ordered(way);
        bystander.make(Move::SayAll(Word::LinkUp(Guess::Heard, link)));
    }
    for next in moves {
        bystander.make(next);
    }
    bystander
}

proptest! {
    #![proptest_config(replayable(3000))]

    #[test]
    fn whatever_peers_say_the_master_stays_consistent(
        moves in prop::collection::vec(any_move(), 1..120),
        is_tight in prop::bool::weighted(0.2),
        after in prop::collection::vec(any_move(), 1..10),
    ) {
        let moves = moves.into_iter().chain([Move::Stop]).chain(after).chain([Move::Stop]);
        run(if is_tight { tight() } else { ahead::config() }, moves.collect());
    }
}

#[test]
fn what_peers_say_reaches_every_corner_of_the_master() {
    let mut runner = TestRunner::deterministic();
    let script = prop::collection::vec(any_move(), 120);

    let runs = (0..1500).map(|_| {
        let moves = script.new_tree(&mut runner).unwrap().current();
        run(ahead::config(), moves)
    });
    let runs = runs.chain(stories::corners());
    let taken: BTreeSet<_> = runs.flat_map(|bystander| bystander.taken).collect();

    let missed: Vec<_> = TRANSITIONS
        .iter()
        .filter(|row| !taken.contains(&(row.from, row.event)))
        .collect();
    assert!(missed.is_empty(), "never taken: {missed:#?}");
}
