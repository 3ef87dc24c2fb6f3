//! Contents that a hash of 32 bits takes for the same: the shared state tells them apart.

use std::sync::Arc;

use pccl::SyncStrategy::{EnforcePopular, SendOnly};
use pccl::{Communicator, Error, SharedState, SyncFailure, SyncReport};
use pccl_core::transport::Lane;
use pccl_kernels::simplehash;
use pccl_transport_memory::{Intercepted, on_send};

use crate::support::{Run, begin, together_with};

const HONEST: [u32; 2] = [0x3f80_0000, 0x4000_0000];

fn bytes(words: [u32; 2]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Other content of the same [`simplehash`].
fn twin() -> [u32; 2] {
    // The hash is `mix(h ^ (second + ADDED))`, where `h` is that of the first word and `mix` can be
    // undone. So for any other first word there is a second one that makes up for it.
    const ADDED: u32 = 0x9E37_79B1;
    let [first, second] = HONEST;
    let other_first = first ^ 1;
    let [h, other_h] = [first, other_first].map(|word| simplehash(&word.to_le_bytes()));
    let mixed = h ^ second.wrapping_add(ADDED);
    [other_first, (mixed ^ other_h).wrapping_sub(ADDED)]
}

fn sync(
    peer: &mut Communicator,
    weights: &mut [u32; 2],
    strategy: pccl::SyncStrategy,
) -> Result<SyncReport, Error> {
    let mut state = SharedState::at(0);
    state.entry("weights", weights).unwrap();
    peer.sync_shared_state(&mut state, strategy)
}

#[test]
fn the_twin_is_other_content_of_the_same_simplehash() {
    assert_ne!(twin(), HONEST);
    assert_eq!(simplehash(&bytes(twin())), simplehash(&bytes(HONEST)));
}

#[test]
fn peers_that_hold_twins_come_to_one_content() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let results = together_with(&mut peers, |index, peer| {
        let mut weights = if index == 1 { twin() } else { HONEST };
        let report = sync(peer, &mut weights, EnforcePopular).unwrap();
        (weights, report.entries_received)
    });

    assert_eq!(results, [(HONEST, 0), (HONEST, 1), (HONEST, 0)]);
}

/// A lane on which the honest content, sent in one piece, is its twin on arrival.
fn forging(lane: Lane) -> Lane {
    let (honest, forged) = (bytes(HONEST), bytes(twin()));
    let tx = on_send(lane.tx, move |tx, cx, parts| {
        let forged = parts.iter().map(|part| match *part == honest {
            true => &*forged,
            false => part,
        });
        tx.poll_send(cx, &forged.collect::<Vec<_>>())
    });
    Lane { tx, ..lane }
}

#[test]
fn a_twin_from_a_forging_neighbour_is_refused() {
    let run = Run::new();
    let forging = Intercepted::over(Arc::new(run.under().clone()), forging);
    let mut peers = vec![begin(run.builder().transport(forging))];
    run.join(&mut peers);

    let results = together_with(&mut peers, |index, peer| {
        let (mut weights, strategy) = [(HONEST, SendOnly), ([0, 0], EnforcePopular)][index];
        let result = sync(peer, &mut weights, strategy);
        (weights, result)
    });

    assert_eq!([results[0].0, results[1].0], [HONEST, [0, 0]]);
    for (_, result) in results {
        // Whoever is first to say so: the one that was deceived, or the one whose lane ended then.
        let failure = result.unwrap_err();
        let is_refusal = matches!(
            failure,
            Error::SyncFailed(SyncFailure::TransferFailed { .. })
        );
        assert!(is_refusal, "{failure}");
    }
}
