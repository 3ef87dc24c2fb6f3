//! The peer machine under random inputs: plausible ones, so that deep states are reached, and wild
//! ones at any moment. Nothing panics, every call is answered exactly once, and the peer does at every
//! input exactly what the reference ([`crate::reference`]) says.

mod books;
mod sane;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{CallId, GroupId};
use pccl_core::messages::CallKind;
use pccl_core::peer::{AdoptedLanes, Call, Peer, PeerConfig, PeerInput, PeerOutput};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::desk::{COLLECTIVES_AT_ONCE, ME, initiate, site_of};
use crate::reference::Shadow;
use crate::replayable::replayable;
use books::{Books, Landmark};
use sane::Sane;
use words::{call, wild};

/// What happens next: a call, something wild, or something that fits the peer's present state.
#[derive(Clone, Debug)]
enum Move {
    Call(Call),
    /// The call that was made so many before the last.
    GiveUp(u8),
    /// Likewise, but the caller waits for what comes of it.
    Withdraw(u8),
    /// A call that is given up at once and made again.
    CallTwice(Call),
    Wild(PeerInput),
    Fitting(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let any_move = prop_oneof![
        12 => call().prop_map(Move::Call),
        6 => (0..4_u8).prop_map(Move::GiveUp),
        3 => (0..2_u8).prop_map(Move::Withdraw),
        4 => call().prop_map(Move::CallTwice),
        1 => wild().prop_map(Move::Wild),
        56 => any::<u8>().prop_map(Move::Fitting),
    ];
    let moves = prop::collection::vec(any_move, 1..120);
    (any::<bool>(), moves).prop_map(|(is_admitted, moves)| match is_admitted {
        true => [admission(), moves].concat(),
        false => moves,
    })
}

/// The shortest way into a run: connect, be welcomed, open two links, be told the ring.
fn admission() -> Vec<Move> {
    let fitting = [1, 1, 1, 1, 9].map(Move::Fitting);
    [vec![Move::Call(Call::Connect)], fitting.to_vec()].concat()
}

/// Plays the moves; returns what the walk came by.
fn play(moves: Vec<Move>) -> BTreeSet<Landmark> {
    let mut peer = Peer::new(PeerConfig {
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 2,
        site: site_of(ME.0),
        name: Default::default(),
        collectives_max: COLLECTIVES_AT_ONCE,
    });
    let (mut sane, mut books) = (Sane::default(), Books::default());
    let mut shadow = Shadow::new();
    let mut give = |peer: &mut Peer, input: PeerInput, sane: &mut Sane| {
        let (before, mut out) = (peer.clone(), Vec::new());
        peer.handle(input.clone(), &mut out);
        shadow.follow(&input, peer, &out);
        books.enter(&input, &before, peer, &out);
        let was_up = sane.up.clone();
        sane.notes(&out);
        let kept = out.iter().any(|output| match output {
            PeerOutput::AdoptRing { links, .. } => {
                let mut kept = links.iter().filter(|link| link.lanes == AdoptedLanes::Keep);
                kept.any(|kept| was_up.contains(&kept.link))
            }
            _ => false,
        });
        books
            .landmarks
            .extend(kept.then_some(Landmark::KeptThoughUp));
    };
    let mut calls = 0_u64;
    for next in moves {
        let mut made = |what: Call| {
            calls += 1;
            let call = CallId(calls);
            (call, PeerInput::Call { call, what })
        };
        let inputs = match next {
            Move::Call(what) => vec![made(what).1],
            Move::CallTwice(what) => {
                let (call, first) = made(what.clone());
                vec![first, PeerInput::GiveUp { call }, made(what).1]
            }
            Move::GiveUp(before) => {
                let call = CallId(calls.saturating_sub(u64::from(before)));
                vec![PeerInput::GiveUp { call }]
            }
            Move::Withdraw(before) => {
                let call = CallId(calls.saturating_sub(u64::from(before)));
                vec![PeerInput::Withdraw { call }]
            }
            Move::Wild(input) => vec![input],
            Move::Fitting(choice) => match sane.again(&peer, choice) {
                Some(tag) => vec![made(initiate(tag.0)).1],
                None => sane.next(&peer, choice).into_iter().collect(),
            },
        };
        for input in inputs {
            give(&mut peer, input, &mut sane);
        }
    }
    give(&mut peer, PeerInput::MasterDisconnected, &mut sane);
    assert!(books.closed);
    assert!(books.open.is_empty(), "never answered: {:?}", books.open);
    books.landmarks
}

proptest! {
    #![proptest_config(replayable(20_000))]

    #[test]
    fn whatever_happens_the_peer_does_what_the_reference_says_and_answers_every_call_once(moves in moves()) {
        play(moves);
    }
}

#[test]
fn the_random_walks_do_come_by_everything_that_a_peer_can_meet() {
    let mut runner = TestRunner::deterministic();
    let walks = 1000;

    let mut times: BTreeMap<Landmark, u32> = BTreeMap::new();
    for _ in 0..walks {
        for landmark in play(moves().new_tree(&mut runner).unwrap().current()) {
            *times.entry(landmark).or_default() += 1;
        }
    }

    let calls = [
        None,
        Some(CallKind::UpdateTopology),
        Some(CallKind::OptimizeTopology),
        Some(CallKind::SyncSharedState),
        Some(CallKind::Collective),
    ];
    let landmarks = [
        Landmark::Admission,
        Landmark::Commit,
        Landmark::Used,
        Landmark::Kept,
        Landmark::KeptThoughUp,
        Landmark::UsedBeyondTheRing,
        Landmark::KeptBeyondTheRing,
        Landmark::Break,
        Landmark::BreakBeyondTheRing,
        Landmark::LinkFailed,
        Landmark::Withdrawal,
        Landmark::GivenUp,
        Landmark::Waiting,
        Landmark::Joined,
        Landmark::PlanOfNobody,
        Landmark::StartedAndCancelled,
        Landmark::Moved,
        Landmark::BegunAhead,
        Landmark::Confirmed,
        Landmark::BegunInVain,
        Landmark::VotedAhead,
        Landmark::AskedBack,
        Landmark::AskedBackTooLate,
    ];
    let all = calls.map(Landmark::RingIn).into_iter().chain(landmarks);
    let rare: Vec<_> = all
        .map(|landmark| (landmark, times.get(&landmark).copied().unwrap_or(0)))
        .filter(|(_, times)| *times < walks / 200)
        .collect();
    assert!(rare.is_empty(), "in {walks} walks: {rare:?} of {times:?}");
}
