//! What hostile peers say and do.

use pccl_core::element::ElementType;
use pccl_core::id::{ContentHash, Revision};
use pccl_core::messages::RingOutcome;
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::topology::{BrokenEdges, Edge, LaneFailure};
use proptest::prelude::*;

/// What a peer says, before it is known which rounds and peers exist.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Update(BrokenEdges),
    EdgeUp(Guess, Edge),
    EdgeFailed(Guess, Edge, LaneFailure),
    Query,
    Optimize,
    Bandwidth(Guess, u8, u64),
    ProbesDone(Guess, bool),
    Sync(SyncVote),
    SyncDone(Guess, bool, u8),
    Initiate(u64, u64, BrokenEdges),
    Complete(Guess, RingOutcome, BrokenEdges),
    Withdraw(u64),
    Heartbeat(bool),
    Leave,
    Hello,
}

/// A number that was heard last, or any other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guess {
    Heard,
    Other(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Move {
    Join(u8, bool),
    /// One peer says it, whether it may or not.
    Blurt(u8, Word),
    /// One peer says it if it may.
    Say(u8, Word),
    /// Every peer that may says it.
    SayAll(Word),
    Vanish(u8),
    /// What one peer sends cannot be decoded, or it does not read.
    Garble(u8, bool),
    Stop,
    Fire(u8),
    Solve(bool),
}

fn guess() -> impl Strategy<Value = Guess> {
    prop_oneof![9 => Just(Guess::Heard), 1 => (0..40_u64).prop_map(Guess::Other)]
}

fn edge() -> impl Strategy<Value = Edge> {
    prop::sample::select(vec![Edge::ToNext, Edge::FromPrevious])
}

fn edges() -> impl Strategy<Value = BrokenEdges> {
    prop_oneof![
        4 => Just(BrokenEdges::NONE),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(to_next, from_previous)| BrokenEdges {
            to_next,
            from_previous
        }),
    ]
}

fn sync_vote() -> impl Strategy<Value = SyncVote> {
    let strategies = vec![
        SyncStrategy::EnforcePopular,
        SyncStrategy::EnforcePopular,
        SyncStrategy::SendOnly,
        SyncStrategy::ReceiveOnly,
    ];
    let strategy = prop::sample::select(strategies);
    (0..3_u64, strategy, any::<bool>(), 0..3_u64, 0..30_u8).prop_map(
        |(revision, strategy, restart, hash, odd)| {
            let entry = |name: &str, allow_content_inequality| EntryInfo {
                name: name.into(),
                element: ElementType::F32,
                count: 1 + u64::from(odd == 0),
                hash: ContentHash(u128::from(hash)),
                allow_content_inequality,
            };
            let mut entries = vec![entry("a", true), entry("b", false)];
            if odd == 1 {
                entries.reverse();
            }
            SyncVote {
                revision: Revision(revision),
                strategy,
                restart,
                entries,
            }
        },
    )
}

fn word() -> impl Strategy<Value = Word> {
    let outcomes = vec![
        RingOutcome::Done,
        RingOutcome::Done,
        RingOutcome::Done,
        RingOutcome::LaneLost,
        RingOutcome::Cancelled,
    ];
    let outcome = prop::sample::select(outcomes);
    let failures = vec![
        LaneFailure::Refused,
        LaneFailure::TimedOut,
        LaneFailure::Local,
    ];
    let failure = prop::sample::select(failures);
    prop_oneof![
    6 => edges().prop_map(Word::Update),
    16 => (guess(), edge()).prop_map(|(round, edge)| Word::EdgeUp(round, edge)),
    4 => (guess(), edge(), failure).prop_map(|(r, edge, f)| Word::EdgeFailed(r, edge, f)),
    3 => Just(Word::Query),
    3 => Just(Word::Optimize),
    2 => (guess(), any::<u8>(), any::<u64>()).prop_map(|(r, to, n)| Word::Bandwidth(r, to, n)),
    5 => (guess(), any::<bool>()).prop_map(|(round, ok)| Word::ProbesDone(round, ok)),
    5 => sync_vote().prop_map(Word::Sync),
    5 => (guess(), any::<bool>(), any::<u8>()).prop_map(|(round, ok, w)| Word::SyncDone(round, ok, w)),
    8 => (0..3_u64, 0..12_u64, edges()).prop_map(|(tag, n, e)| Word::Initiate(tag, n / 11, e)),
    6 => (guess(), outcome, edges()).prop_map(|(seq, o, e)| Word::Complete(seq, o, e)),
    1 => (0..3_u64).prop_map(Word::Withdraw),
    1 => any::<bool>().prop_map(Word::Heartbeat),
    ]
}

pub(super) fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => (any::<u8>(), any::<bool>()).prop_map(|(group, local)| Move::Join(group, local)),
        2 => (any::<u8>(), word()).prop_map(|(peer, word)| Move::Blurt(peer, word)),
        20 => (any::<u8>(), word()).prop_map(|(peer, word)| Move::Say(peer, word)),
        25 => word().prop_map(Move::SayAll),
        2 => any::<u8>().prop_map(Move::Vanish),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(peer, reads)| Move::Garble(peer, reads)),
        1 => any::<u8>().prop_map(|peer| Move::Blurt(peer, Word::Leave)),
        1 => any::<u8>().prop_map(|peer| Move::Blurt(peer, Word::Hello)),
        2 => any::<u8>().prop_map(Move::Fire),
        4 => any::<bool>().prop_map(Move::Solve),
    ]
}
