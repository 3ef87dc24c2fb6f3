//! A master that encrypts: who comes in, and what those read who do not.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pccl_core::messages::{Misdeed, ToPeer};
use pccl_core::transport::LaneError;
#[cfg(feature = "quic")]
use pccl_core::transport::{Endpoint, Protocol, Transport};
use pccl_core::wire::{ControlError, HandshakeError, Preamble, offer};
use pccl_master::{
    Invitations, JoinString, KeyPair, Limits, MasterServer, RunningMaster, Security, ServeError,
    Terms, Trust, spawn,
};
use pccl_transport_tcp::Tcp;
use pccl_trust::{Secret, Via};

use crate::support::client::{Client, soon};
use crate::support::messages::announcing;
use crate::support::proven::{NOTHING, Peer, refused, show};

/// The year 2001.
const LONG_AGO: u64 = 1_000_000_000;

/// Each of these attacks fails over TLS, and over QUIC where that is built in.
macro_rules! over_each_transport {
    ($($story:ident,)*) => {
        mod over_tls {
            $(#[tokio::test]
            async fn $story() {
                super::$story(super::Via::Tls).await;
            })*
        }

        #[cfg(feature = "quic")]
        mod over_quic {
            $(#[tokio::test]
            async fn $story() {
                super::$story(super::Via::Quic).await;
            })*
        }
    };
}

over_each_transport! {
    two_that_were_invited_are_on_one_ring,
    a_stranger_without_a_secret_reads_that_it_needs_one,
    a_stranger_that_shows_nothing_at_all_is_not_let_in_as_if_it_had,
    who_was_invited_to_another_run_is_refused,
    a_master_with_another_key_is_none,
    an_invitation_that_is_over_says_in_which_way,
    a_member_comes_again_by_its_key_alone,
    who_is_in_between_can_do_nothing_with_a_proof_that_it_has_seen,
    a_proof_is_worth_nothing_with_another_key_on_the_same_connection,
    a_peer_that_was_kicked_is_heard_no_more_on_its_old_connection,
    who_is_invited_and_revoked_elsewhere_comes_and_goes_while_the_master_runs,
}

fn secure_with(trust: Trust) -> (RunningMaster, JoinString) {
    let builder = MasterServer::builder().security(Security::Proven(trust));
    let master = builder.spawn("127.0.0.1:0").unwrap();
    let join = master.join_string(&[]).unwrap().expect("it encrypts");
    (master, join)
}

fn secure_over(via: Via) -> (RunningMaster, JoinString) {
    secure_with(Trust::ephemeral().unwrap().over(via))
}

fn secure() -> (RunningMaster, JoinString) {
    secure_over(Via::Tls)
}

/// The same run and master, with another secret.
fn with_secret(join: &JoinString, secret: &Secret) -> JoinString {
    let at = join.addresses().to_vec();
    JoinString::new(join.via(), at, join.master(), secret.clone()).unwrap()
}

/// A directory of its own for a test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("master-trust-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

async fn two_that_were_invited_are_on_one_ring(via: Via) {
    let (_master, join) = secure_over(via);
    let mut first = Peer::over(via).join(&join).await;
    first.wire_ring().await;
    let mut second = Peer::over(via).join(&join).await;

    first.update().await;
    let (one, other) = tokio::join!(first.wire_ring(), second.wire_ring());

    assert_eq!(one.ring, other.ring);
    assert_eq!(one.world.global, 2);
}

async fn a_stranger_without_a_secret_reads_that_it_needs_one(via: Via) {
    let (_master, join) = secure_over(via);
    let lane = Peer::over(via).dial(&join).await;

    let text = refused(show(lane, &NOTHING).await);

    assert!(text.contains("does not know the secret"), "{text}");
    assert!(text.contains("pccl-master invite"), "{text}");
}

async fn a_stranger_that_shows_nothing_at_all_is_not_let_in_as_if_it_had(via: Via) {
    let trust = Trust::ephemeral().unwrap().over(via);
    let hasty = Limits {
        handshake: Duration::from_millis(300),
        ..Limits::default()
    };
    let builder = MasterServer::builder().security(Security::Proven(trust));
    let master = builder.limits(hasty).spawn("127.0.0.1:0").unwrap();
    let join = master.join_string(&[]).unwrap().expect("it encrypts");
    let mut lane = Peer::over(via).dial(&join).await;

    let mut offered = std::pin::pin!(offer(&mut lane, &Preamble::CONTROL));

    let answer = soon("the end of the master's patience", &mut offered).await;
    match answer {
        Err(HandshakeError::NotYet(text)) => assert!(text.contains("too long"), "{text}"),
        other => panic!("{other:?}"),
    }
}

async fn who_was_invited_to_another_run_is_refused(via: Via) {
    let (_master, join) = secure_over(via);
    let (_other_master, other) = secure_over(via);

    let text = Peer::over(via)
        .refusal(&with_secret(&join, other.secret()))
        .await;

    assert!(text.contains("belongs to another run"), "{text}");
}

async fn a_master_with_another_key_is_none(via: Via) {
    let (master, _) = secure_over(via);
    let (_other_master, other) = secure_over(via);

    let peer = Peer::over(via);
    let lane = peer.try_dial(master.local_addr(), other.master()).await;

    assert_eq!(lane.unwrap_err(), LaneError::Untrusted);
}

async fn an_invitation_that_is_over_says_in_which_way(via: Via) {
    let mut invitations = Invitations::in_memory();
    let minute = Terms {
        ttl: Some(Duration::from_secs(60)),
        uses: None,
    };
    let once = Terms {
        ttl: None,
        uses: Some(1),
    };
    let (_, expired) = invitations.invite(minute, LONG_AGO).unwrap();
    let (_, used_up) = invitations.invite(once, LONG_AGO).unwrap();
    let (id, revoked) = invitations.invite(Terms::default(), LONG_AGO).unwrap();
    let _nobody = invitations.revoke(id).unwrap();
    let (_master, join) =
        secure_with(Trust::new(KeyPair::generate().unwrap(), invitations).over(via));
    Peer::over(via).join(&with_secret(&join, &used_up)).await;

    for (secret, way) in [
        (expired, "has expired"),
        (used_up, "is used up"),
        (revoked, "was revoked"),
    ] {
        let text = Peer::over(via).refusal(&with_secret(&join, &secret)).await;

        assert!(text.contains(way), "{text}");
        assert!(text.contains("pccl-master invite"), "{text}");
    }
}

async fn a_member_comes_again_by_its_key_alone(via: Via) {
    let trust = Trust::ephemeral().unwrap().over(via);
    let (_master, join) = secure_with(trust.clone());
    let once = Terms {
        ttl: None,
        uses: Some(1),
    };
    let (_, one) = trust.invite(once, join.addresses()).unwrap();
    let peer = Peer::over(via);
    let first = peer.join(&one).await.peer;

    let lane = peer.dial(&one).await;
    let again = show(lane, &NOTHING).await.unwrap().welcomed().await;

    assert_ne!(again.peer, first);
    // Another key is no member.
    let lane = Peer::over(via).dial(&one).await;
    refused(show(lane, &NOTHING).await);
}

async fn who_is_in_between_can_do_nothing_with_a_proof_that_it_has_seen(via: Via) {
    let (_master, join) = secure_over(via);
    let (peer, between) = (Peer::over(via), Peer::over(via));
    // The peer takes the one in between for its master, so its proof does not reach the master.
    let (never_used, other) = (peer.dial(&join).await, peer.dial(&join).await);
    let proof = peer.proof(&never_used, join.secret());

    let by_another = show(between.dial(&join).await, &proof).await;
    let elsewhere = show(other, &proof).await;

    refused(by_another);
    refused(elsewhere);
    // Where it belongs it is worth something.
    show(never_used, &proof).await.unwrap().welcomed().await;
}

async fn a_proof_is_worth_nothing_with_another_key_on_the_same_connection(via: Via) {
    let (_master, join) = secure_over(via);
    let (peer, other) = (Peer::over(via), Peer::over(via));
    let lane = peer.dial(&join).await;

    let proof_of_another = other.proof(&lane, join.secret());

    refused(show(lane, &proof_of_another).await);
}

#[tokio::test]
async fn a_plain_peer_reads_why_it_is_refused_by_a_master_that_encrypts() {
    let (master, _) = secure();
    let mut lane = Client::dial(master.local_addr()).await;

    let answer = soon("the reply", offer(&mut lane, &Preamble::CONTROL)).await;

    match answer {
        Err(HandshakeError::Refused(text)) => {
            assert!(text.contains("this master speaks TLS"), "{text}");
            assert!(text.contains("join string"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_that_encrypts_finds_that_a_plain_master_does_not() {
    let master = spawn("127.0.0.1:0").unwrap();
    let key = KeyPair::generate().unwrap().public_key();

    let lane = Peer::new().try_dial(master.local_addr(), key).await;

    assert_eq!(lane.unwrap_err(), LaneError::NotEncrypted);
    assert!(master.join_string(&[]).unwrap().is_none());
}

async fn a_peer_that_was_kicked_is_heard_no_more_on_its_old_connection(via: Via) {
    let (_master, join) = secure_over(via);
    let mut founder = Peer::over(via).join(&join).await;
    founder.wire_ring().await;
    let villain = Peer::over(via);
    let mut kicked = villain.join(&join).await;
    kicked.say_bytes(&announcing(16, &[0xff; 16])).await;
    assert_eq!(kicked.hear().await, ToPeer::Kicked(Misdeed::Malformed));
    assert_eq!(kicked.listen().await, Err(ControlError::Ended));

    // It goes on as if nothing had happened; what it says may arrive, or fail.
    let vote = pccl_core::messages::ToMaster::ArePeersPending;
    pccl_core::wire::send_control(kicked.lane.tx.as_mut(), &vote)
        .await
        .ok();

    founder.update().await;
    let topology = founder.wire_ring().await;
    assert_eq!(topology.world.global, 1);
    let again = villain.join(&join).await;
    assert!(again.peer > kicked.peer, "it is a newcomer");
}

async fn who_is_invited_and_revoked_elsewhere_comes_and_goes_while_the_master_runs(via: Via) {
    let directory = Scratch::new(&format!("elsewhere-{via}"));
    let (_master, join) = secure_with(Trust::of_directory(&directory.0).unwrap().over(via));
    let elsewhere = Trust::of_directory(&directory.0).unwrap().over(via);
    let mut stays = Peer::over(via).join(&join).await;
    stays.wire_ring().await;

    let (id, invited) = elsewhere
        .invite(Terms::default(), join.addresses())
        .unwrap();
    let guest = Peer::over(via);
    let mut inside = guest.join(&invited).await;
    let revoked = elsewhere.revoke(id).unwrap();

    assert_eq!(revoked.members.len(), 1);
    assert!(inside.listen().await.is_err(), "its connection ends");
    let text = guest.refusal(&invited).await;
    assert!(text.contains("was revoked"), "{text}");
    stays.update().await;
    assert_eq!(stays.wire_ring().await.world.global, 1);
}

#[cfg(feature = "quic")]
#[tokio::test]
async fn a_plain_peer_and_a_master_over_quic_find_nobody_at_the_others_port() {
    let (master, _) = secure_over(Via::Quic);
    let plain = spawn("127.0.0.1:0").unwrap();
    let key = KeyPair::generate().unwrap().public_key();

    let to = Endpoint::Address(master.local_addr());
    let by_tcp = soon("an answer", Tcp::new().open(&to, None)).await;
    let by_quic = Peer::over(Via::Quic)
        .try_dial(plain.local_addr(), key)
        .await;

    assert_eq!(by_tcp.unwrap_err(), LaneError::Refused);
    assert_eq!(by_quic.unwrap_err(), LaneError::Refused);
}

#[tokio::test]
async fn a_flood_of_handshakes_that_never_end_keeps_nobody_out() {
    let (master, join) = secure();
    // The head of a record, of which the body never comes.
    let half = [0x16, 3, 1, 2, 0, 1];
    let mut flood = Vec::new();
    for _ in 0..300 {
        let mut stranger = TcpStream::connect(master.local_addr()).unwrap();
        stranger.write_all(&half).unwrap();
        flood.push(stranger);
    }

    let newcomer = Peer::new().join(&join).await;

    assert_eq!(newcomer.peer.0, 1);
    drop(flood);
}

#[tokio::test]
async fn who_connects_and_hangs_up_ends_no_master() {
    let (master, join) = secure();
    for first in [&[][..], &[0x16], b"PCCL"] {
        let mut stranger = TcpStream::connect(master.local_addr()).unwrap();
        stranger.write_all(first).unwrap();
        drop(stranger);
    }
    // Whatever came of them has come when this one is inside.
    Peer::new().join(&join).await;

    Peer::new().join(&join).await;
}

#[tokio::test]
async fn beyond_loopback_a_master_encrypts_unless_it_is_told_otherwise() {
    let wildcard = ([0, 0, 0, 0], 0).into();
    let said = MasterServer::builder().security(Security::Plain);
    let with_a_transport = MasterServer::builder().transport(Tcp::new());

    let unsaid = MasterServer::bind(wildcard).await.unwrap();
    let plain = said.bind(wildcard).await.unwrap();
    let nobody_knows = with_a_transport.bind(wildcard).await;

    assert!(unsaid.trust().is_some());
    assert!(unsaid.join_string(&[]).unwrap().is_some());
    assert!(plain.trust().is_none());
    assert!(matches!(nobody_knows, Err(ServeError::SecurityUnsaid)));
}

#[tokio::test]
async fn a_transport_that_does_not_encrypt_carries_no_master_that_has_to() {
    let builder = MasterServer::builder()
        .transport(Tcp::plain())
        .security(Security::Proven(Trust::ephemeral().unwrap()));

    let bound = builder.bind(([127, 0, 0, 1], 0).into()).await;

    assert!(matches!(bound, Err(ServeError::CannotEncrypt)));
}

#[cfg(feature = "quic")]
#[tokio::test]
async fn a_transport_that_always_encrypts_carries_no_plain_master() {
    let quic = std::sync::Arc::new(pccl_transport_quic::Quic::new());
    let builder = MasterServer::builder().transport(quic);

    let bound = builder.bind(([127, 0, 0, 1], 0).into()).await;

    assert!(matches!(bound, Err(ServeError::CannotBePlain)));
}

#[cfg(feature = "quic")]
#[tokio::test]
async fn a_transport_that_contradicts_the_join_strings_carries_no_master() {
    let quic = std::sync::Arc::new(pccl_transport_quic::Quic::new());
    let tcp = std::sync::Arc::new(Tcp::new());
    let trust = || Trust::ephemeral().unwrap();
    let of_tls = MasterServer::builder().security(Security::Proven(trust()));
    let of_quic = MasterServer::builder().security(Security::Proven(trust().over(Via::Quic)));
    let loopback = ([127, 0, 0, 1], 0).into();

    let (tls, quic) = (
        of_tls.transport(quic).bind(loopback).await.err(),
        of_quic.transport(tcp).bind(loopback).await.err(),
    );

    let expected = |asked, given| ServeError::WrongTransport { asked, given }.to_string();
    let said = [tls, quic].map(|error| error.expect("an error").to_string());
    assert_eq!(said[0], expected(Via::Tls, Protocol::Quic));
    assert_eq!(said[1], expected(Via::Quic, Protocol::Tls));
}
