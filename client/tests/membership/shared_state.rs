//! Shared state: who wins, what travels, and what is written where.

use pccl::SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};
use pccl::half::bf16;
use pccl::{Communicator, Error, Misdeed, SharedState, SyncFailure, SyncOptions, SyncReport};

use crate::support::{Run, together, together_with};

/// Synchronizes one entry of weights.
fn sync(
    peer: &mut Communicator,
    revision: u64,
    weights: &mut [f32],
    options: impl Into<SyncOptions>,
) -> Result<SyncReport, Error> {
    let mut state = SharedState::at(revision);
    state.entry("weights", weights).unwrap();
    let report = peer.sync_shared_state(&mut state, options)?;
    assert_eq!(state.revision, report.revision);
    Ok(report)
}

#[test]
fn nothing_travels_between_peers_that_hold_the_same() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let reports = together(&mut peers, |peer| {
        sync(peer, 0, &mut [1.5; 1000], EnforcePopular).unwrap()
    });

    for report in reports {
        assert_eq!((report.bytes_sent, report.bytes_received), (0, 0));
        assert_eq!((report.entries_received, report.revision), (0, 0));
    }
}

#[test]
fn the_most_popular_content_wins_and_only_what_differs_travels() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let results = together_with(&mut peers, |index, peer| {
        let mut weights = vec![if index == 1 { 9.0_f32 } else { 1.0 }; 300_000];
        let mut steps = [7_u64; 10];
        let mut scales = [bf16::from_f32(0.5); 4];
        let mut state = SharedState::at(4);
        // The order of entries is each peer's own affair.
        if index == 0 {
            state.entry("weights", &mut weights).unwrap();
            state.entry("steps", &mut steps).unwrap();
        } else {
            state.entry("steps", &mut steps).unwrap();
            state.entry("weights", &mut weights).unwrap();
        }
        state.entry("scales", &mut scales).unwrap();
        let report = peer.sync_shared_state(&mut state, EnforcePopular).unwrap();
        (weights, report)
    });

    for (index, (weights, report)) in results.iter().enumerate() {
        let received = if index == 1 { 1_200_000 } else { 0 };
        assert!(weights.iter().all(|weight| *weight == 1.0));
        assert_eq!(report.bytes_received, received);
        assert_eq!(report.entries_received, usize::from(index == 1));
    }
    let sent: u64 = results.iter().map(|(_, report)| report.bytes_sent).sum();
    assert_eq!(sent, 1_200_000);
}

#[test]
fn a_newcomer_obtains_the_state_with_its_revision_also_what_may_differ() {
    let run = Run::new();
    let mut peers = run.peers(2);
    together(&mut peers, |peer| {
        sync(peer, 0, &mut [1.0; 8], EnforcePopular).unwrap()
    });
    run.join(&mut peers);

    let results = together_with(&mut peers, |index, peer| {
        let is_new = index == 2;
        let mut weights = [if is_new { 0.0_f32 } else { 2.0 }; 8];
        let mut state = SharedState::at(u64::from(!is_new));
        state.entry("weights", &mut weights).unwrap();
        peer.sync_shared_state(&mut state, EnforcePopular).unwrap();
        (state.revision, weights)
    });

    assert_eq!(results, [(1, [2.0; 8]); 3]);
}

/// Defect S-2 of the original: such an entry never reaches a newcomer.
#[test]
fn an_entry_that_may_differ_stays_each_peers_own_and_travels_to_a_newcomer() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let sync_both = |peer: &mut Communicator, revision: u64, mut position: [u32; 2]| {
        let mut weights = [1.0_f64; 3];
        let mut state = SharedState::at(revision);
        state.entry("weights", &mut weights).unwrap();
        state
            .entry_allowing_inequality("position", &mut position)
            .unwrap();
        let report = peer.sync_shared_state(&mut state, EnforcePopular).unwrap();
        (position, report.revision)
    };
    together_with(&mut peers, |index, peer| {
        let position = [index as u32 + 10; 2];
        assert_eq!(sync_both(peer, 0, position), (position, 0));
    });
    run.join(&mut peers);

    let positions = together_with(&mut peers, |index, peer| {
        let revision = u64::from(index != 2);
        sync_both(peer, revision, [index as u32 + 10; 2]).0
    });

    assert_eq!(positions[..2], [[10; 2], [11; 2]]);
    assert!(positions[..2].contains(&positions[2]));
}

#[test]
fn a_sender_overwrites_the_majority_and_a_receiver_is_never_asked() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let results = together_with(&mut peers, |index, peer| {
        let strategy = [SendOnly, EnforcePopular, ReceiveOnly][index];
        let mut weights = [if index == 0 { 1.0_f32 } else { 2.0 }; 16];
        sync(peer, 0, &mut weights, strategy).unwrap();
        weights
    });

    assert_eq!(results, [[1.0; 16]; 3]);
}

#[test]
fn where_everybody_only_receives_nothing_is_changed() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let errors = together_with(&mut peers, |index, peer| {
        let mut weights = [index as f32; 4];
        let error = sync(peer, 0, &mut weights, ReceiveOnly).unwrap_err();
        assert_eq!(weights, [index as f32; 4]);
        error
    });

    let expected = Error::SyncFailed(SyncFailure::NobodyToSend);
    assert!(
        errors
            .iter()
            .all(|error| *error == expected && !error.is_retryable())
    );
}

#[test]
fn who_is_ahead_of_the_group_is_removed_with_a_reason() {
    let run = Run::new();
    let mut peers = run.peers(2);
    together(&mut peers, |peer| {
        sync(peer, 5, &mut [0.0; 2], EnforcePopular).unwrap()
    });

    let results = together_with(&mut peers, |index, peer| {
        let revision = if index == 0 { 6 } else { 8 };
        sync(peer, revision, &mut [1.0; 2], EnforcePopular)
    });

    assert_eq!(results[0].as_ref().unwrap().revision, 6);
    assert!(matches!(
        results[1],
        Err(Error::Kicked(Misdeed::RevisionAhead { .. }))
    ));
}

/// Defect M-9 of the original: a run whose newest state has died needs another master.
#[test]
fn a_run_goes_on_from_older_checkpoints_when_everybody_agrees() {
    let run = Run::new();
    let mut peers = run.peers(1);
    sync(&mut peers[0], 10, &mut [3.0; 2], EnforcePopular).unwrap();
    run.join(&mut peers);
    run.join(&mut peers);
    peers.remove(0).shutdown();
    together(&mut peers, |peer| peer.update_topology().unwrap());

    let lost = together(&mut peers, |peer| {
        sync(peer, 7, &mut [2.0; 2], EnforcePopular).unwrap_err()
    });
    let restart = SyncOptions::from(EnforcePopular).or_restart();
    let one_alone = together_with(&mut peers, |index, peer| {
        let options = [restart, EnforcePopular.into()][index];
        sync(peer, 7, &mut [2.0; 2], options).unwrap_err()
    });
    let agreed = together(&mut peers, |peer| {
        sync(peer, 7, &mut [2.0; 2], restart).unwrap()
    });

    for error in lost.into_iter().chain(one_alone) {
        let Error::SyncFailed(SyncFailure::RevisionLost { reached, offered }) = error else {
            panic!("{error}");
        };
        assert_eq!((reached.0, offered.0), (10, 7));
    }
    assert!(agreed.iter().all(|report| report.revision == 7));
}

#[test]
fn names_are_checked_before_anything_is_sent() {
    let (mut one, mut other) = ([0_u8; 1], [0_u8; 1]);
    let (mut third, long) = ([0_u8; 1], "x".repeat(256));
    let mut state = SharedState::at(0);
    state.entry("a", &mut one).unwrap();

    let twice = state.entry("a", &mut other).unwrap_err();
    let too_long = state.entry(long.clone(), &mut third).unwrap_err();

    assert_eq!(twice, Error::DuplicateEntry { name: "a".into() });
    assert_eq!(too_long, Error::EntryNameTooLong { name: long });
}
