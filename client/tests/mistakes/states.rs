//! Mistakes with shared state.

use pccl::{Communicator, Element, Error, SharedState, SyncOptions, SyncStrategy};
use tokio::join;

use super::{Told, ends, expect, expect_of_two, seconds};

/// Synchronizes a state of this revision that has one entry.
async fn one_entry<T: Element>(
    peer: &mut Communicator,
    name: &str,
    mut data: Vec<T>,
    revision: u64,
    options: impl Into<SyncOptions>,
) -> Result<(), Error> {
    let mut state = SharedState::at(revision);
    state.entry(name, &mut data).unwrap();
    peer.sync_shared_state_async(&mut state, options)
        .await
        .map(drop)
}

/// Synchronizes weights of this revision.
async fn weights(
    peer: &mut Communicator,
    revision: u64,
    options: impl Into<SyncOptions>,
) -> Result<(), Error> {
    one_entry(peer, "weights", vec![1_f32; 8], revision, options).await
}

use SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};

/// A peer has weights, and another one has something else.
fn beside_weights<T: Element>(name: &str, data: Vec<T>, told: &str) {
    expect_of_two(["", told], async |first, second| {
        ends(join!(
            weights(first, 0, EnforcePopular),
            one_entry(second, name, data, 0, EnforcePopular),
        ))
    });
}

#[test]
fn the_name_of_an_entry_is_misspelt() {
    beside_weights(
        "wieghts",
        vec![1_f32; 8],
        "the master removed this peer from the run: its shared state is not that of the other peers: it lacks \
         \"weights\" (8 f32 elements); it alone has \"wieghts\" (8 f32 elements); give all peers the same \
         entries",
    );
}

#[test]
fn the_entry_of_one_peer_has_another_length() {
    beside_weights(
        "weights",
        vec![1_f32; 9],
        "the master removed this peer from the run: its shared state is not that of the other peers: its \
         \"weights\" has 9 f32 elements, and theirs 8 f32 elements; give all peers the same entries",
    );
}

#[test]
fn the_entry_of_one_peer_has_another_type() {
    beside_weights(
        "weights",
        vec![1_f64; 8],
        "the master removed this peer from the run: its shared state is not that of the other peers: its \
         \"weights\" has 8 f64 elements, and theirs 8 f32 elements; give all peers the same entries",
    );
}

/// What a peer is told whose state has other entries than that of a peer with weights.
fn other_entries(told: &str, add: impl FnOnce(&mut SharedState<'_>)) {
    expect_of_two(["", told], async |first, second| {
        let mut state = SharedState::at(0);
        add(&mut state);
        ends(join!(
            weights(first, 0, EnforcePopular),
            second.sync_shared_state_async(&mut state, EnforcePopular),
        ))
    });
}

#[test]
fn one_peer_has_no_entries() {
    other_entries(
        "the master removed this peer from the run: its shared state is not that of the other peers: it lacks \
         \"weights\" (8 f32 elements); give all peers the same entries",
        |_| {},
    );
}

#[test]
fn one_peer_has_an_entry_more() {
    let (mut weights, mut momentum) = ([1_f32; 8], [1_f32; 8]);
    expect_of_two(
        [
            "",
            "the master removed this peer from the run: its shared state is not that of the other peers: it alone \
             has \"momentum\" (8 f32 elements); give all peers the same entries",
        ],
        async |first, second| {
            let mut state = SharedState::at(0);
            state.entry("weights", &mut weights).unwrap();
            state.entry("momentum", &mut momentum).unwrap();
            ends(join!(
                super::states::weights(first, 0, EnforcePopular),
                second.sync_shared_state_async(&mut state, EnforcePopular),
            ))
        },
    );
}

#[test]
fn an_entry_may_differ_on_one_peer_only() {
    let mut data = [1_f32; 8];
    expect_of_two(
        [
            "",
            "the master removed this peer from the run: its shared state is not that of the other peers: its \
             \"weights\" has 8 f32 elements that may differ, and theirs 8 f32 elements; give all peers the same \
             entries",
        ],
        async |first, second| {
            let mut state = SharedState::at(0);
            state
                .entry_allowing_inequality("weights", &mut data)
                .unwrap();
            ends(join!(
                weights(first, 0, EnforcePopular),
                second.sync_shared_state_async(&mut state, EnforcePopular),
            ))
        },
    );
}

#[test]
fn two_entries_have_one_name() {
    let (mut one, mut other) = ([1_f32; 8], [1_f32; 8]);
    let mut state = SharedState::at(0);
    state.entry("weights", &mut one).unwrap();

    let told = state.entry("weights", &mut other).unwrap_err();

    assert_eq!(
        told.to_string(),
        "the shared state has two entries named \"weights\"; give one of them another name"
    );
}

#[test]
fn the_name_of_an_entry_is_a_text() {
    let mut data = [1_f32; 8];
    let name = "w".repeat(256);

    let told = SharedState::at(0).entry(name, &mut data).unwrap_err();

    assert_eq!(
        told.to_string(),
        "the name of an entry has 256 bytes, and may have 255; it begins with \
         \"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\""
    );
}

#[test]
fn each_number_is_an_entry() {
    let mut numbers = vec![[1_f32]; 16_385];
    let mut state = SharedState::at(0);
    let mut told = Ok(());
    for (at, number) in numbers.iter_mut().enumerate() {
        told = state.entry(at.to_string(), number).map(drop);
    }

    assert_eq!(
        told.unwrap_err().to_string(),
        "a shared state has at most 16384 entries; put several tensors into one"
    );
}

/// Two peers that have synchronized revision 0 do it again.
fn after_revision_0(
    told: [&str; 2],
    (first_is_at, first_is): (u64, SyncStrategy),
    (second_is_at, second_is): (u64, SyncStrategy),
) {
    let told = Told {
        peers: &told,
        within: seconds(2),
        ..Told::default()
    };
    expect(told, async |world| {
        let (mut first, mut second) = world.two().await;
        let begun = join!(
            weights(&mut first, 5, EnforcePopular),
            weights(&mut second, 5, EnforcePopular),
        );
        assert_eq!(begun, (Ok(()), Ok(())));
        let calls = join!(
            weights(&mut first, first_is_at, first_is),
            weights(&mut second, second_is_at, second_is),
        );
        ends(calls).into()
    });
}

#[test]
fn a_revision_counts_steps() {
    after_revision_0(
        ["the next revision is 6 but the group offers 15 or later; a revision counts synchronizations: add one \
          to it between two of them, however many steps lie in between"; 2],
        (15, EnforcePopular),
        (15, EnforcePopular),
    );
}

#[test]
fn a_revision_of_one_peer_counts_steps() {
    after_revision_0(
        [
            "",
            "the master removed this peer from the run: it offers revision 15 where 6 is next; a revision counts \
             synchronizations: add one to it between two of them",
        ],
        (6, EnforcePopular),
        (15, EnforcePopular),
    );
}

#[test]
fn all_peers_go_back_to_an_older_checkpoint() {
    after_revision_0(
        ["the group reached revision 5 but nobody holds more than revision 3; restore a newer checkpoint, or \
          allow a restart on every peer"; 2],
        (3, EnforcePopular),
        (3, EnforcePopular),
    );
}

#[test]
fn the_only_sender_goes_back_to_an_older_checkpoint() {
    after_revision_0(
        ["the group reached revision 5 but the send-only peer 2 holds revision 3; restore a newer checkpoint \
          there, or do not let it be send-only"; 2],
        (5, EnforcePopular),
        (3, SendOnly),
    );
}

#[test]
fn all_peers_only_receive() {
    after_revision_0(
        ["every peer of the group is receive-only; let one of them send"; 2],
        (6, ReceiveOnly),
        (6, ReceiveOnly),
    );
}

#[test]
fn two_peers_send_different_content() {
    expect_of_two(
        ["the send-only peers 1 and 2 hold different content; let one of them send"; 2],
        async |first, second| {
            ends(join!(
                one_entry(first, "weights", vec![1_f32; 8], 0, SendOnly),
                one_entry(second, "weights", vec![2_f32; 8], 0, SendOnly),
            ))
        },
    );
}
