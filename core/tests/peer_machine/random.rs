//! The peer machine under random inputs: plausible ones, so that deep states are reached, and wild
//! ones at any moment. Nothing panics, every call is answered exactly once, and the peer does at every
//! input exactly what the reference ([`crate::reference`]) says.

mod books;
mod sane;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::GroupId;
use pccl_core::messages::CallKind;
use pccl_core::peer::{AdoptedLanes, Call, Peer, PeerConfig, PeerInput, PeerOutput};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::reference::Shadow;
use crate::replayable::replayable;
use books::{Books, Landmark};
use sane::Sane;
use words::{call, wild};

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

/// Plays the moves; returns what the walk came by.
fn play(moves: Vec<Move>) -> BTreeSet<Landmark> {
    let mut peer = Peer::new(PeerConfig {
        group: GroupId(0),
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
        Landmark::Withdrawn,
        Landmark::StartedAndCancelled,
        Landmark::Moved,
    ];
    let all = calls.map(Landmark::RingIn).into_iter().chain(landmarks);
    let rare: Vec<_> = all
        .map(|landmark| (landmark, times.get(&landmark).copied().unwrap_or(0)))
        .filter(|(_, times)| *times < walks / 200)
        .collect();
    assert!(rare.is_empty(), "in {walks} walks: {rare:?} of {times:?}");
}
