//! What hostile peers say and do.

use pccl_core::element::ElementType;
use pccl_core::id::{ContentHash, Revision};
use pccl_core::messages::PlanOutcome;
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::topology::{LaneFailure, Way};
use proptest::prelude::*;

/// What a peer says, before it is known which rounds and peers exist.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Update(Vec<Which>),
    LinkUp(Guess, Which),
    LinkFailed(Guess, Which, LaneFailure),
    Query,
    Optimize,
    Measured(Guess, u8, u64),
    ProbesDone(Guess, bool),
    Sync(SyncVote),
    SyncDone(Guess, bool, u8),
    Initiate(u64, u64, Wanted, Vec<Which>),
    Complete(Guess, PlanOutcome, Vec<Which>),
    Withdraw(u64),
    Heartbeat(bool),
    WhoIsAwaited,
    Leave,
    Hello,
}

/// A number that was heard last, or any other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guess {
    Heard,
    Other(u64),
}

/// What a peer wants to be done with the buffers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Reduced,
    Scattered,
    /// Of shards that were laid out for those on its ring, or for others.
    Gathered(bool),
    /// From one that is connected, perhaps in another group.
    From(u8),
    /// From whoever that may be.
    FromAny(u64),
    Nothing,
}

/// A link, before it is known who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// One of the last order, such as has not been reported if there is one.
    Ordered(Way),
    /// That to the neighbour on the ring.
    Standing(Way),
    /// Any, also to oneself.
    Other(Way, u8),
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

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(vec![Way::Out, Way::In])
}

/// What is to be reported, mostly.
fn reported() -> impl Strategy<Value = Which> {
    prop_oneof![
        12 => way().prop_map(Which::Ordered),
        1 => way().prop_map(Which::Standing),
        1 => (way(), any::<u8>()).prop_map(|(way, with)| Which::Other(way, with)),
    ]
}

/// Broken links: none or those of the ring, mostly; in any order, and some of them twice.
fn broken() -> impl Strategy<Value = Vec<Which>> {
    let which = prop_oneof![
        6 => way().prop_map(Which::Standing),
        1 => way().prop_map(Which::Ordered),
        1 => (way(), any::<u8>()).prop_map(|(way, with)| Which::Other(way, with)),
    ];
    prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(which, 0..4),
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

/// None, mostly.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![12 => Just(0), 1 => Just(1), 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        12 => Just(Wanted::Reduced),
        2 => Just(Wanted::Scattered),
        2 => prop::bool::weighted(0.8).prop_map(Wanted::Gathered),
        2 => any::<u8>().prop_map(Wanted::From),
        1 => any::<u64>().prop_map(Wanted::FromAny),
        2 => Just(Wanted::Nothing),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    let outcomes = vec![
        PlanOutcome::Done,
        PlanOutcome::Done,
        PlanOutcome::Done,
        PlanOutcome::LaneLost,
        PlanOutcome::Cancelled,
    ];
    let outcome = prop::sample::select(outcomes);
    let failures = vec![
        LaneFailure::Refused,
        LaneFailure::TimedOut,
        LaneFailure::Local,
    ];
    let failure = prop::sample::select(failures);
    prop_oneof![
    6 => broken().prop_map(Word::Update),
    16 => (guess(), reported()).prop_map(|(round, link)| Word::LinkUp(round, link)),
    4 => (guess(), reported(), failure).prop_map(|(r, link, f)| Word::LinkFailed(r, link, f)),
    3 => Just(Word::Query),
    3 => Just(Word::Optimize),
    2 => (guess(), any::<u8>(), any::<u64>()).prop_map(|(r, to, n)| Word::Measured(r, to, n)),
    5 => (guess(), any::<bool>()).prop_map(|(round, ok)| Word::ProbesDone(round, ok)),
    5 => sync_vote().prop_map(Word::Sync),
    5 => (guess(), any::<bool>(), any::<u8>()).prop_map(|(round, ok, w)| Word::SyncDone(round, ok, w)),
    8 => (0..3_u64, count(), wanted(), broken()).prop_map(|(tag, n, w, b)| Word::Initiate(tag, n, w, b)),
    6 => (guess(), outcome, broken()).prop_map(|(seq, o, b)| Word::Complete(seq, o, b)),
    1 => (0..3_u64).prop_map(Word::Withdraw),
    1 => any::<bool>().prop_map(Word::Heartbeat),
        1 => Just(Word::WhoIsAwaited),
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
