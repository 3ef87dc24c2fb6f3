//! Proving a secret over a connection, and stealing the proof.

use super::*;
use crate::testing::assert_hides;
use crate::{
    AdmitError, Admitted, Denial, Established, Invitations, Proof, Secret, Terms, established,
};

const NOW: u64 = 1_800_000_000;

fn ends(met: &Meeting) -> (Established, Established) {
    (
        established(&met.client).unwrap(),
        established(&met.server).unwrap(),
    )
}

fn refusal(outcome: Result<Admitted, AdmitError>) -> Denial {
    match outcome {
        Err(AdmitError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_ends_have_one_binding_and_every_connection_has_another() {
    let (first, second) = (honest(1, 2).succeeded(), honest(1, 2).succeeded());
    let (client, server) = ends(&first);
    assert_eq!(client.binding, server.binding);
    assert_ne!(client.binding, ends(&second).0.binding);
}

#[test]
fn who_has_the_secret_is_let_in() {
    let mut master = Invitations::in_memory();
    let (id, secret) = master.invite(Terms::default(), NOW).unwrap();
    let (peer, here) = ends(&honest(1, 2).succeeded());
    let proof = Proof::new(&secret, &peer.binding, &key(1).public_key());
    let admitted = master
        .verify(&proof, &here.binding, here.peer, NOW)
        .unwrap();
    assert_eq!(admitted, Admitted::First { by: id });
}

#[test]
fn a_stranger_without_the_secret_is_refused() {
    let mut master = Invitations::in_memory();
    master.invite(Terms::default(), NOW).unwrap();
    let (peer, here) = ends(&honest(1, 2).succeeded());
    let guess = Secret::generate().unwrap();
    let proof = Proof::new(&guess, &peer.binding, &key(1).public_key());
    let outcome = master.verify(&proof, &here.binding, here.peer, NOW);
    assert_eq!(refusal(outcome), Denial::Unknown);
}

/// Peer 1 takes 9 for its master; 9 sits between it and the master 2, and passes on what it hears.
#[test]
fn a_proof_that_was_shown_to_somebody_else_is_worth_nothing() {
    let mut master = Invitations::in_memory();
    let (_, secret) = master.invite(Terms::default(), NOW).unwrap();

    let (peer, _) = ends(&honest(1, 9).succeeded());
    let shown = Proof::new(&secret, &peer.binding, &key(1).public_key());

    let (_, here) = ends(&honest(9, 2).succeeded());
    let relayed = master.verify(&shown, &here.binding, here.peer, NOW);
    assert_eq!(refusal(relayed), Denial::Unknown);
}

#[test]
fn a_proof_is_worth_nothing_on_the_next_connection_of_the_same_peer() {
    let mut master = Invitations::in_memory();
    let (_, secret) = master.invite(Terms::default(), NOW).unwrap();
    let (first, _) = ends(&honest(1, 2).succeeded());
    let shown = Proof::new(&secret, &first.binding, &key(1).public_key());
    let (_, here) = ends(&honest(1, 2).succeeded());
    let replayed = master.verify(&shown, &here.binding, here.peer, NOW);
    assert_eq!(refusal(replayed), Denial::Unknown);
}

#[test]
fn a_proof_is_worth_nothing_to_the_holder_of_another_key() {
    let mut master = Invitations::in_memory();
    let (_, secret) = master.invite(Terms::default(), NOW).unwrap();
    let (peer, here) = ends(&honest(1, 2).succeeded());
    let shown = Proof::new(&secret, &peer.binding, &key(1).public_key());
    let stolen = master.verify(&shown, &here.binding, key(9).public_key(), NOW);
    assert_eq!(refusal(stolen), Denial::Unknown);
}

/// What the proof is, so that another implementation can make it.
#[test]
fn a_proof_is_the_keyed_hash_of_purpose_binding_and_key() {
    let secret = [5; 32];
    let message = [b"pccl join proof v1".as_slice(), &[1; 32], &[2; 32]].concat();
    let expected = *blake3::keyed_hash(&secret, &message).as_bytes();
    let proof = Proof::new(
        &Secret::from(secret),
        &[1; 32].into(),
        &PublicKey::from([2; 32]),
    );
    assert_eq!(proof.to_bytes(), expected);
}

#[test]
fn debug_shows_neither_secrets_nor_seeds_nor_bindings() {
    let bytes: [u8; 32] = std::array::from_fn(|i| (i * 7 + 130) as u8);
    let pair = KeyPair::from_seed(&bytes).unwrap();
    let secret = Secret::from(bytes);
    let binding = crate::ChannelBinding::from(bytes);
    let mut master = Invitations::in_memory();
    let (_, theirs) = master.invite(Terms::default(), NOW).unwrap();
    let shown =
        format!("{pair:?} {pair:#?} {secret:?} {secret:#?} {binding:?} {master:?} {master:#?}");
    assert!(shown.contains(&pair.public_key().to_string()));
    assert_hides(&shown, &bytes);
    assert_hides(&shown, theirs.expose());
    let configs = format!("{:?} {:?}", client_config(&pair), server_config(&pair));
    assert_hides(&configs, &bytes);
}
