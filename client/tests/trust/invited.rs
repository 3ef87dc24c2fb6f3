//! Runs that are joined with a join string: what a user sees, and what others cannot do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use pccl::{Communicator, Error, LaneError, Reduce};
use pccl_core::wire::HandshakeError;
use pccl_master::{Address, JoinString, Security, Terms, Trust, Via};

use crate::support::under::{over_each_transport, spawn_invited};
use crate::support::{Run, builder_for, reduce_and_share};

over_each_transport! {
    the_word_of_another_run_does_not_let_in_and_says_that_it_is_another_master,
    an_invitation_that_is_used_up_or_revoked_lets_nobody_in_and_says_why,
    a_secret_that_nobody_has_given_out_does_not_let_in,
}

fn trust_over(via: Via) -> Trust {
    Trust::ephemeral().unwrap().over(via)
}

fn run_of(trust: &Trust) -> Run {
    Run::of(spawn_invited(trust.clone()))
}

fn word(invited: &JoinString) -> String {
    invited.to_word().to_string()
}

fn at(address: SocketAddr) -> Address {
    address.to_string().parse().unwrap()
}

/// What the master says to whoever connects with this.
fn refusal(word: &str) -> String {
    match builder_for(word).connect() {
        Ok(_) => panic!("it was let in"),
        Err(Error::MasterUnreachable {
            reason: HandshakeError::Refused(text),
            ..
        }) => text,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn invited_peers_reduce_and_share_state_over_encrypted_lanes() {
    let run = run_of(&Trust::ephemeral().unwrap());
    let mut peers = run.peers(3);

    reduce_and_share(&mut peers);
}

fn the_word_of_another_run_does_not_let_in_and_says_that_it_is_another_master(via: Via) {
    let (run, other) = (trust_over(via), trust_over(via));
    let master = spawn_invited(run);
    let address = at(master.local_addr());
    // It leads to this master, and was made by another.
    let (_, foreign) = other.invite(Terms::default(), &[address]).unwrap();

    let failure = builder_for(&word(&foreign)).connect().err().unwrap();

    let expected = HandshakeError::Lane(LaneError::Untrusted);
    assert!(
        matches!(&failure, Error::MasterUnreachable { reason, .. } if *reason == expected),
        "{failure:?}"
    );
}

fn an_invitation_that_is_used_up_or_revoked_lets_nobody_in_and_says_why(via: Via) {
    let trust = trust_over(via);
    let master = spawn_invited(trust.clone());
    let here = [at(master.local_addr())];
    let once = Terms {
        uses: Some(0),
        ..Terms::default()
    };
    let over = Terms {
        ttl: Some(Duration::ZERO),
        ..Terms::default()
    };
    let (_, used_up) = trust.invite(once, &here).unwrap();
    let (_, expired) = trust.invite(over, &here).unwrap();
    let (id, revoked) = trust.invite(Terms::default(), &here).unwrap();
    let gone = trust.revoke(id).unwrap();
    assert_eq!(gone.members, []);

    let said = [used_up, expired, revoked].map(|invited| refusal(&word(&invited)));

    for (text, expected) in said.iter().zip(["used", "expired", "revoked"]) {
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("invite"),
            "it does not say what to do: {text}"
        );
    }
}

fn a_secret_that_nobody_has_given_out_does_not_let_in(via: Via) {
    let (ours, theirs) = (trust_over(via), trust_over(via));
    let master = spawn_invited(ours.clone());
    let here = [at(master.local_addr())];
    let (_, foreign) = theirs.invite(Terms::default(), &here).unwrap();
    // There is a secret that would do.
    let (_, _invited) = ours.invite(Terms::default(), &here).unwrap();
    // The right master with the secret of another run.
    let guessed = JoinString::new(
        foreign.via(),
        here.to_vec(),
        ours.public_key(),
        foreign.secret().clone(),
    );

    let text = refusal(&word(&guessed.unwrap()));

    assert!(text.contains("secret"), "{text}");
}

#[test]
fn a_plain_peer_at_a_master_that_encrypts_reads_what_to_do() {
    let master = spawn_invited(Trust::ephemeral().unwrap());

    let text = refusal(&master.local_addr().to_string());

    assert!(text.contains("join string"), "{text}");
}

#[test]
fn an_invited_peer_at_a_plain_master_is_told_that_it_does_not_encrypt() {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();
    let here = [at(master.local_addr())];
    let (_, invited) = Trust::ephemeral()
        .unwrap()
        .invite(Terms::default(), &here)
        .unwrap();

    let failure = builder_for(&word(&invited)).connect().err().unwrap();

    let expected = HandshakeError::Lane(LaneError::NotEncrypted);
    assert!(
        matches!(&failure, Error::MasterUnreachable { reason, .. } if *reason == expected),
        "{failure:?}"
    );
}

/// Carries bytes between a caller and the master, flipping one bit of what the master says after the
/// handshake.
fn flipping_relay(master: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for caller in listener.incoming() {
            let (caller, master) = (caller.unwrap(), TcpStream::connect(master).unwrap());
            let ends = (caller.try_clone().unwrap(), master.try_clone().unwrap());
            thread::spawn(move || carry(ends.0, ends.1, None));
            // The handshake's answer has some 1500 bytes.
            thread::spawn(move || carry(master, caller, Some(2_000)));
        }
    });
    address
}

fn carry(mut from: TcpStream, mut to: TcpStream, flipped: Option<usize>) {
    let mut carried = 0;
    let mut bytes = [0; 256];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let place = flipped.and_then(|place| place.checked_sub(carried));
        if let Some(place) = place.filter(|place| *place < read) {
            bytes[place] ^= 1;
        }
        carried += read;
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn whoever_changes_a_bit_on_the_way_only_breaks_the_connection() {
    let trust = Trust::ephemeral().unwrap();
    let run = run_of(&trust);
    let mut honest = run.peers(1);
    let relay = flipping_relay(run.master.local_addr());
    let (_, through) = trust.invite(Terms::default(), &[at(relay)]).unwrap();

    let victim = thread::spawn(move || {
        let mut peer = builder_for(&word(&through)).connect()?;
        loop {
            peer.update_topology()?;
            peer.all_reduce(&mut [1_u8; 10], Reduce::sum())?;
        }
    });
    let lost = loop {
        if victim.is_finished() {
            let ended: Result<(), Error> = victim.join().unwrap();
            break ended.unwrap_err();
        }
        let peer = &mut honest[0];
        peer.update_topology().unwrap();
        // It may be lost in the middle.
        let _ = peer.all_reduce(&mut [1_u8; 10], Reduce::sum());
    };

    assert!(
        matches!(lost, Error::MasterLost | Error::MasterUnreachable { .. }),
        "{lost:?}"
    );
    honest[0].update_topology().unwrap();
    honest[0]
        .all_reduce(&mut [1_u8; 10], Reduce::sum())
        .unwrap();
}

#[test]
fn without_a_join_string_in_the_environment_connecting_says_so() {
    // No test of this program sets it.
    let failure = Communicator::builder_from_env().connect().err();

    assert_eq!(failure, Some(Error::NoJoinString));
}

#[test]
fn a_master_on_another_machine_is_not_reached_over_plain_lanes_by_default() {
    // Of a network for documentation: nothing is sent.
    let failure = Communicator::builder("192.0.2.1:48148").connect().err();

    let master = "192.0.2.1:48148".to_owned();
    assert_eq!(failure, Some(Error::JoinStringNeeded { master }));
}

#[test]
fn a_master_that_was_told_to_be_plain_has_no_join_string() {
    let master = pccl_master::MasterServer::builder().security(Security::Plain);
    let master = master.spawn("127.0.0.1:0").unwrap();

    assert!(master.join_string(&[]).unwrap().is_none());
}
