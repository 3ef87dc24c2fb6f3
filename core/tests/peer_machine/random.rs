//! The peer machine under random inputs: plausible ones, so that deep states are reached, and wild
//! ones at any moment. Nothing panics, every call is answered exactly once, and the peer does at every
//! input exactly what the reference ([`crate::reference`]) says.

use std::collections::BTreeMap;

use crate::desk::{ME, established, initiate, order, spec, sync_vote, topology, welcome};
use crate::reference::Shadow;
use crate::replayable::replayable;
use pccl_core::element::SpecField;
use pccl_core::id::{ContentHash, EntryIndex, PeerId, Revision, Round, Seq, Tag};
use pccl_core::messages::{
    AbortCause, CallFailure, CallKind, CollectiveRefusal, Conflict, Misdeed, Refusal, RingOutcome,
    ToMaster, ToPeer, Verdict,
};
use pccl_core::peer::{Answer, Call, CallError, Peer, PeerInput, PeerOutput, PeerPhase, PeerTimer};
use pccl_core::shared_state::{SyncFailure, SyncPlan, SyncRole};
use pccl_core::topology::{Edge, LaneFailure};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// A kind of answer: the calls of one kind can be told apart by nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Connect,
    Update,
    Query,
    Optimize,
    Sync,
    Collective(Tag),
}

fn asked_for(call: &Call) -> Option<Kind> {
    match call {
        Call::Connect => Some(Kind::Connect),
        Call::UpdateTopology => Some(Kind::Update),
        Call::ArePeersPending => Some(Kind::Query),
        Call::OptimizeTopology => Some(Kind::Optimize),
        Call::SyncSharedState(_) => Some(Kind::Sync),
        Call::Initiate { tag, .. } => Some(Kind::Collective(*tag)),
        Call::Cancel { .. } | Call::Leave => None,
    }
}

fn answered(answer: &Answer) -> (Kind, Option<&CallError>) {
    match answer {
        Answer::Connected(result) => (Kind::Connect, result.as_ref().err()),
        Answer::TopologyUpdated(result) => (Kind::Update, result.as_ref().err()),
        Answer::PeersPending(result) => (Kind::Query, result.as_ref().err()),
        Answer::TopologyOptimized(result) => (Kind::Optimize, result.as_ref().err()),
        Answer::Synchronized(result) => (Kind::Sync, result.as_ref().err()),
        Answer::CollectiveEnded { tag, result } => (Kind::Collective(*tag), result.as_ref().err()),
    }
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => Just(Call::Connect),
        2 => Just(Call::UpdateTopology),
        2 => Just(Call::ArePeersPending),
        2 => Just(Call::OptimizeTopology),
        2 => Just(Call::SyncSharedState(sync_vote())),
        6 => (1..4_u64).prop_map(initiate),
        1 => (1..4_u64).prop_map(|tag| Call::Cancel { tag: Tag(tag) }),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let contributors = [1, 2, 3].map(PeerId).to_vec();
    prop_oneof![
        Just(Verdict::Committed { contributors }),
        Just(Verdict::Aborted(AbortCause::TimedOut)),
    ]
}

fn ring() -> impl Strategy<Value = ToPeer> {
    let rings: [&'static [u64]; 5] = [&[1, 2, 3], &[1, 2], &[2], &[1, 2, 3, 4], &[1, 3]];
    (0..4_u64, prop::sample::select(rings.to_vec()))
        .prop_map(|(epoch, ring)| established(epoch, ring))
}

fn edges() -> impl Strategy<Value = ToPeer> {
    let neighbour = || prop::option::of(1..5_u64);
    (1..9_u64, neighbour(), neighbour()).prop_map(|(round, next, previous)| ToPeer::EstablishRing {
        round: Round(round),
        lanes: 2,
        next: next.map(order),
        previous: previous.map(order),
    })
}

fn sync_result() -> impl Strategy<Value = Result<Revision, SyncFailure>> {
    prop_oneof![Just(Ok(Revision(0))), Just(Err(SyncFailure::TimedOut))]
}

fn role() -> impl Strategy<Value = SyncRole> {
    let entries = vec![(EntryIndex(0), ContentHash(1))].into();
    let from = Some(order(1));
    prop_oneof![
        Just(SyncRole::Distribute { to: Vec::new() }),
        Just(SyncRole::Request { from, entries }),
    ]
}

/// Any message, mostly out of place.
fn message() -> impl Strategy<Value = ToPeer> {
    let conflict = Conflict {
        yours: CallKind::SyncSharedState,
        theirs: CallKind::UpdateTopology,
        peer: PeerId(1),
    };
    let disagreement = CollectiveRefusal::Disagreement {
        field: SpecField::Count,
        peers: vec![PeerId(1)],
    };
    let (tag, seq, round) = (
        || (1..4_u64).prop_map(Tag),
        || (1..6_u64).prop_map(Seq),
        || (1..9_u64).prop_map(Round),
    );
    prop_oneof![
        Just(welcome()),
        Just(ToPeer::Heartbeat),
        Just(ToPeer::Stopping),
        Just(ToPeer::Kicked(Misdeed::Silent)),
        Just(ToPeer::Refused(Refusal::NoReport)),
        Just(ToPeer::CallFailed(CallFailure::Conflict(conflict))),
        any::<bool>().prop_map(|pending| ToPeer::PeersPending { pending }),
        any::<bool>()
            .prop_map(|improved_or_kept| ToPeer::OptimizationConcluded { improved_or_kept }),
        round().prop_map(|round| ToPeer::Probe {
            round,
            probes: Vec::new()
        }),
        ring(),
        edges(),
        (round(), role()).prop_map(|(round, role)| {
            let revision = Revision(0);
            ToPeer::SharedStatePlan(SyncPlan {
                round,
                revision,
                role,
            })
        }),
        (round(), sync_result())
            .prop_map(|(round, result)| ToPeer::SharedStateConcluded { round, result }),
        (tag(), seq()).prop_map(|(tag, seq)| ToPeer::Commence { tag, seq }),
        tag().prop_map(move |tag| ToPeer::CollectiveRefused {
            tag,
            reason: disagreement.clone()
        }),
        (tag(), seq(), verdict()).prop_map(|(tag, seq, verdict)| ToPeer::Verdict {
            tag,
            seq,
            verdict
        }),
    ]
}

/// Any input but a call of the user, mostly out of place.
fn wild() -> impl Strategy<Value = PeerInput> {
    let round = || (1..9_u64).prop_map(Round);
    let outcome = prop::sample::select(vec![RingOutcome::Done, RingOutcome::LaneLost]);
    let edge = prop::sample::select(vec![Edge::ToNext, Edge::FromPrevious]);
    let timer = prop::sample::select(vec![PeerTimer::HeartbeatDue, PeerTimer::MasterSilence]);
    prop_oneof![
        6 => message().prop_map(PeerInput::Message),
        1 => Just(PeerInput::MasterDisconnected),
        1 => Just(PeerInput::MasterMisbehaved),
        1 => Just(PeerInput::Call(Call::Leave)),
        1 => timer.prop_map(PeerInput::TimerFired),
        2 => round().prop_map(|round| PeerInput::EdgesUp { round }),
        1 => round().prop_map(|round| PeerInput::EdgeFailed {
            round,
            with: PeerId(1),
            failure: LaneFailure::TimedOut,
        }),
        2 => (edge, round()).prop_map(|(edge, built)| PeerInput::EdgeBroke { edge, built }),
        2 => (1..6_u64, outcome).prop_map(|(seq, outcome)| PeerInput::RingEnded { seq: Seq(seq), outcome }),
        2 => (round(), any::<bool>(), prop::option::of((0..5_u64).prop_map(PeerId))).prop_map(|(round, ok, with)| PeerInput::TransfersEnded { round, ok, with }),
        1 => round().prop_map(|round| PeerInput::Measured { round, to: PeerId(1), kbit_per_s: 1 }),
        1 => (round(), any::<bool>()).prop_map(|(round, ok)| PeerInput::ProbesEnded { round, ok }),
    ]
}

/// What happens next: a call, something wild, or something that fits the peer's present state.
#[derive(Clone, Debug)]
enum Move {
    Call(Call),
    Wild(PeerInput),
    Fitting(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let any_move = prop_oneof![
        12 => call().prop_map(Move::Call),
        1 => wild().prop_map(Move::Wild),
        48 => any::<u8>().prop_map(Move::Fitting),
    ];
    prop::collection::vec(any_move, 1..120)
}

/// A bystander that plays a sane master and driver: what it says next fits what the peer waits for.
#[derive(Default)]
struct Sane {
    round: u64,
    seq: u64,
    epoch: u64,
    /// Inputs that the driver owes for orders that it was given.
    owed: Vec<PeerInput>,
    query: bool,
    /// Edges 2 to 3 and 1 to 2 are up.
    up: bool,
}

impl Sane {
    fn notes(&mut self, out: &[PeerOutput]) {
        for output in out {
            match output {
                PeerOutput::Establish { round, .. } => {
                    self.owed.push(PeerInput::EdgesUp { round: *round });
                }
                PeerOutput::RunRing { seq, .. } => self.owed.push(PeerInput::RingEnded {
                    seq: *seq,
                    outcome: RingOutcome::Done,
                }),
                PeerOutput::MoveState(plan) => self.owed.push(PeerInput::TransfersEnded {
                    round: plan.round,
                    ok: true,
                    with: None,
                }),
                PeerOutput::Probe { round, .. } => self.owed.push(PeerInput::ProbesEnded {
                    round: *round,
                    ok: true,
                }),
                PeerOutput::Send(ToMaster::ArePeersPending) => self.query = true,
                PeerOutput::Send(ToMaster::EdgesEstablished { .. }) => self.up = true,
                PeerOutput::Send(_)
                | PeerOutput::Answer(_)
                | PeerOutput::AdoptRing(_)
                | PeerOutput::StopRing { .. }
                | PeerOutput::CommitState { .. }
                | PeerOutput::DropState { .. }
                | PeerOutput::StartTimer { .. }
                | PeerOutput::StopTimer(_)
                | PeerOutput::Close => {}
            }
        }
    }

    fn next(&mut self, peer: &Peer, choice: u8) -> Option<PeerInput> {
        if !choice.is_multiple_of(5) && !self.owed.is_empty() {
            return Some(self.owed.remove(0));
        }
        self.says(peer, choice).map(PeerInput::Message)
    }

    fn says(&mut self, peer: &Peer, choice: u8) -> Option<ToPeer> {
        let view = peer.view();
        let bit = choice & 8 == 0;
        match view.phase() {
            PeerPhase::Unconnected | PeerPhase::Gone => return None,
            PeerPhase::AwaitingWelcome => return Some(welcome()),
            PeerPhase::Registered => return Some(self.ring(bit)),
            PeerPhase::Accepted => {}
        }
        if self.query && bit {
            self.query = false;
            return Some(ToPeer::PeersPending { pending: bit });
        }
        match view.open_calls().major {
            Some(CallKind::UpdateTopology) => Some(self.ring(bit)),
            Some(CallKind::OptimizeTopology) => Some(self.optimization(choice)),
            Some(CallKind::SyncSharedState) => Some(self.sync(choice)),
            Some(CallKind::Collective) | None => self.collective(peer, choice),
        }
    }

    fn ring(&mut self, order_first: bool) -> ToPeer {
        if order_first || !self.up {
            self.round += 1;
            return crate::desk::establish(self.round, Some(3), Some(1));
        }
        self.epoch += 1;
        ToPeer::TopologyEstablished(topology(self.epoch, &[1, 2, 3]))
    }

    fn optimization(&mut self, choice: u8) -> ToPeer {
        if choice & 16 == 0 {
            self.round += 1;
            let (round, probes) = (Round(self.round), Vec::new());
            return ToPeer::Probe { round, probes };
        }
        let improved_or_kept = choice & 32 == 0;
        ToPeer::OptimizationConcluded { improved_or_kept }
    }

    fn sync(&mut self, choice: u8) -> ToPeer {
        let revision = Revision(0);
        if choice & 16 == 0 {
            self.round += 1;
            let (round, role) = (Round(self.round), SyncRole::Distribute { to: Vec::new() });
            return ToPeer::SharedStatePlan(SyncPlan {
                round,
                revision,
                role,
            });
        }
        let failed = Err(SyncFailure::TimedOut);
        let result = if choice & 32 == 0 {
            Ok(revision)
        } else {
            failed
        };
        let round = Round(self.round);
        ToPeer::SharedStateConcluded { round, result }
    }

    fn collective(&mut self, peer: &Peer, choice: u8) -> Option<ToPeer> {
        use pccl_core::states::CollectiveCommunicationState as State;
        let tags: Vec<_> = peer.view().tags().collect();
        let view = tags.get(usize::from(choice) % tags.len().max(1))?;
        let tag = view.tag;
        let committed = Verdict::Committed {
            contributors: vec![ME],
        };
        let aborted = Verdict::Aborted(AbortCause::PeerLost(PeerId(1)));
        Some(match (view.state, view.seq) {
            (State::VoteInitiate, _) | (State::Perform | State::VoteComplete, None) => {
                self.seq += 1;
                ToPeer::Commence {
                    tag,
                    seq: Seq(self.seq),
                }
            }
            (State::Perform, Some(seq)) => ToPeer::Verdict {
                tag,
                seq,
                verdict: aborted,
            },
            (State::VoteComplete, Some(seq)) => ToPeer::Verdict {
                tag,
                seq,
                verdict: committed,
            },
        })
    }
}

/// Keeps the books: what is open, and what may still come out.
#[derive(Default)]
struct Books {
    open: BTreeMap<Kind, u32>,
    closed: bool,
    running: Vec<Seq>,
    accepted: bool,
    committed: u32,
}

impl Books {
    fn enter(&mut self, input: &PeerInput, before: &Peer, after: &Peer, out: &[PeerOutput]) {
        let call = match input {
            PeerInput::Call(call) => asked_for(call),
            _ => None,
        };
        if let Some(kind) = call {
            *self.open.entry(kind).or_default() += 1;
        }
        self.check_usage(before, after, out);
        for output in out {
            self.check_output(output, call);
        }
    }

    /// A usage error comes alone and changes nothing.
    fn check_usage(&self, before: &Peer, after: &Peer, out: &[PeerOutput]) {
        let is_usage = |output: &PeerOutput| match output {
            PeerOutput::Answer(answer) => matches!(answered(answer).1, Some(CallError::Usage(_))),
            _ => false,
        };
        if out.iter().any(is_usage) {
            assert_eq!(out.len(), 1);
            assert_eq!(before, after);
        }
    }

    fn check_output(&mut self, output: &PeerOutput, call: Option<Kind>) {
        if self.closed {
            let immediate = match output {
                PeerOutput::Answer(answer) => Some(answered(answer).0) == call,
                _ => false,
            };
            assert!(immediate, "after the end: {output:?}");
        }
        match output {
            PeerOutput::Answer(answer) => {
                let (kind, _) = answered(answer);
                let open = self.open.get_mut(&kind).filter(|open| **open > 0);
                *open.unwrap_or_else(|| panic!("answered twice: {answer:?}")) -= 1;
                self.accepted |= matches!(answer, Answer::Connected(Ok(_)));
                let committed = matches!(answer, Answer::CollectiveEnded { result: Ok(_), .. });
                self.committed += u32::from(committed);
            }
            PeerOutput::RunRing {
                seq, spec: what, ..
            } => {
                assert_eq!(*what, spec());
                self.running.push(*seq);
            }
            PeerOutput::StopRing { seq } => {
                assert!(self.running.contains(seq), "stopped what does not run");
                self.running.retain(|running| running != seq);
            }
            PeerOutput::Close => self.closed = true,
            _ => {}
        }
    }
}

/// Plays the moves; returns whether the peer was admitted, and how many collectives it saw committed.
fn play(moves: Vec<Move>) -> (bool, u32) {
    let mut peer = Peer::new(pccl_core::peer::PeerConfig {
        group: pccl_core::id::GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 2,
    });
    let (mut sane, mut books) = (Sane::default(), Books::default());
    let mut shadow = Shadow::new();
    let mut give = |peer: &mut Peer, input: PeerInput, sane: &mut Sane| {
        let (before, mut out) = (peer.clone(), Vec::new());
        peer.handle(input.clone(), &mut out);
        shadow.follow(&input, peer, &out);
        books.enter(&input, &before, peer, &out);
        sane.notes(&out);
    };
    for next in moves {
        let input = match next {
            Move::Call(call) => Some(PeerInput::Call(call)),
            Move::Wild(input) => Some(input),
            Move::Fitting(choice) => sane.next(&peer, choice),
        };
        if let Some(input) = input {
            give(&mut peer, input, &mut sane);
        }
    }
    give(&mut peer, PeerInput::MasterDisconnected, &mut sane);
    assert!(books.closed);
    let open: Vec<_> = books.open.iter().filter(|(_, open)| **open > 0).collect();
    assert!(open.is_empty(), "never answered: {open:?}");
    (books.accepted, books.committed)
}

proptest! {
    #![proptest_config(replayable(20_000))]

    #[test]
    fn whatever_happens_the_peer_does_what_the_reference_says_and_answers_every_call_once(moves in moves()) {
        play(moves);
    }
}

#[test]
fn the_random_walks_do_reach_admissions_and_commits() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();

    let ends: Vec<_> = (0..200)
        .map(|_| play(moves().new_tree(&mut runner).unwrap().current()))
        .collect();

    let accepted = ends.iter().filter(|(accepted, _)| *accepted).count();
    let committed: u32 = ends.iter().map(|(_, committed)| committed).sum();
    assert!(accepted > 40, "only {accepted} of 200 walks were admitted");
    assert!(
        committed > 40,
        "only {committed} collectives were committed"
    );
}
