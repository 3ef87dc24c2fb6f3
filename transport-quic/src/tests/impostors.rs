//! Who has the wrong key, somebody else's, or no business here.

use std::sync::{Arc, OnceLock};

use pccl_core::transport::LaneError;
use pccl_trust::{ALPN, KeyPair, client_config, server_config};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ConnectionError, TokioRuntime, VarInt};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};

use super::*;
use crate::keys::{Configs, Keys};
use crate::locality::Locality;

/// What stands before a private and a public key of Ed25519 (RFC 8410).
const PKCS8: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const SPKI: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// Somebody with changed TLS configurations.
fn host(pair: &KeyPair, change: impl FnOnce(&mut ClientConfig, &mut ServerConfig)) -> Host {
    let mut client = client_config(pair).unwrap();
    let mut server = server_config(pair).unwrap();
    change(&mut client, &mut server);
    let configs = Configs {
        own: identity(pair),
        pair: pair.clone(),
        client: Arc::new(QuicClientConfig::try_from(client).unwrap()),
        server: Arc::new(QuicServerConfig::try_from(server).unwrap()),
    };
    let mut quic = Quic::new();
    quic.keys = Keys::from(OnceLock::from(Ok(configs)));
    Host {
        quic,
        identity: identity(pair),
    }
}

/// Says that it is `victim`, whose private key it does not have.
fn forger(victim: &KeyPair) -> Host {
    let seed = [PKCS8, &[9; 32]].concat();
    let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(seed)).unwrap();
    let shown = [SPKI, victim.public_key().as_bytes()].concat();
    let stolen = CertifiedKey::new(vec![CertificateDer::from(shown)], signing);
    let stolen = Arc::new(stolen);
    host(&pair(), |client, server| {
        client.client_auth_cert_resolver =
            Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&stolen)));
        server.cert_resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(stolen));
    })
}

async fn next(listener: &mut dyn Listener) -> Result<Incoming, LaneError> {
    let next = timeout(GUARD, poll_fn(|cx| listener.poll_accept(cx))).await;
    next.expect("somebody came")
}

#[tokio::test]
async fn who_answers_with_another_key_than_the_expected_one_is_not_trusted() {
    let (a, b, c) = (Host::new(), Host::new(), Host::new());
    let mut listener = b.listen().await;

    let outcome = a.open(listener.local_addr(), &c).await;

    assert_eq!(outcome.err(), Some(LaneError::Untrusted));
    let told = next(&mut *listener).await;
    assert_eq!(told.err(), Some(LaneError::Untrusted));
}

/// A connection that stands to somebody proves nothing of who is expected next at the same address.
#[tokio::test]
async fn a_standing_connection_serves_no_other_identity() {
    let (a, b, c) = (Host::new(), Host::new(), Host::new());
    let mut listener = b.listen().await;
    let _opened = a.greet(listener.local_addr(), &b).await;
    let _accepted = accept(&mut *listener).await;

    let outcome = a.open(listener.local_addr(), &c).await;

    assert_eq!(outcome.err(), Some(LaneError::Untrusted));
}

#[tokio::test]
async fn who_answers_with_a_stolen_public_key_is_not_trusted() {
    let victim = pair();
    let (a, forger) = (Host::new(), forger(&victim));
    let listener = forger.listen().await;
    let expected = Host {
        quic: Quic::new(),
        identity: identity(&victim),
    };

    let outcome = a.open(listener.local_addr(), &expected).await;

    assert_eq!(outcome.err(), Some(LaneError::Untrusted));
}

/// The forger may take the handshake for done before it is refused.
#[tokio::test]
async fn who_dials_with_a_stolen_public_key_is_not_let_in() {
    let victim = pair();
    let (b, forger) = (Host::new(), forger(&victim));
    let mut listener = b.listen().await;

    let opening = forger.open(listener.local_addr(), &b);
    let (opened, come) = tokio::join!(opening, next(&mut *listener));

    assert_eq!(come.err(), Some(LaneError::Untrusted));
    if let Ok(mut lane) = opened {
        let error = loop {
            if let Err(error) = send_all(&mut *lane.tx, &[0], &[]).await {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(error, LaneError::Untrusted);
    }
}

#[tokio::test]
async fn who_speaks_another_protocol_or_names_none_is_refused() {
    for protocols in [vec![b"h3".to_vec()], Vec::new()] {
        let b = Host::new();
        let stranger = host(&pair(), |client, _| {
            assert_eq!(client.alpn_protocols, [ALPN.to_vec()]);
            client.alpn_protocols = protocols;
        });
        let mut listener = b.listen().await;

        let opening = stranger.open(listener.local_addr(), &b);
        let (opened, come) = tokio::join!(opening, next(&mut *listener));

        assert_eq!(come.err(), Some(LaneError::Untrusted));
        assert_eq!(opened.err(), Some(LaneError::Untrusted));
    }
}

/// Whether a client that keeps tickets and would send early data gets to send any when it comes again.
async fn sends_early_data(server: &Host) -> bool {
    let eager = host(&pair(), |client, _| {
        client.resumption = Resumption::in_memory_sessions(8);
        client.enable_early_data = true;
    });
    let mut listener = server.listen().await;
    let to = listener.local_addr();
    let configs = eager.quic.keys.configs().unwrap();
    let config = eager.quic.settings.client(configs, Locality::Far).unwrap();
    let socket = crate::socket::bind_towards(to).unwrap();
    let endpoint = quinn::EndpointConfig::default();
    let endpoint = quinn::Endpoint::new(endpoint, None, socket, Arc::new(TokioRuntime)).unwrap();
    let name = pccl_trust::PublicKey::from(server.identity.0).server_name();

    let first = endpoint.connect_with(config.clone(), to, &name).unwrap();
    let first = first.await.unwrap();
    let (mut tx, mut rx) = first.open_bi().await.unwrap();
    tx.write_all(b"hello").await.unwrap();
    let mut incoming = accept(&mut *listener).await;
    hear_hello(&mut incoming.lane).await;
    // Whatever tickets there are were sent before this.
    send_all(&mut *incoming.lane.tx, b"welcome", &[])
        .await
        .unwrap();
    rx.read_exact(&mut [0; 7]).await.unwrap();

    let again = endpoint.connect_with(config, to, &name).unwrap();
    again.into_0rtt().is_ok()
}

#[tokio::test]
async fn nobody_sends_early_data() {
    let generous = host(&pair(), |_, server| {
        server.session_storage = ServerSessionMemoryCache::new(8);
        server.send_tls13_tickets = 2;
        server.max_early_data_size = u32::MAX;
    });
    assert!(sends_early_data(&generous).await, "the client would");

    assert!(!sends_early_data(&Host::new()).await);
}

#[tokio::test]
async fn a_refusal_of_the_other_end_is_told_apart_from_its_absence() {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let to = listener.local_addr();
    let opened = a.greet(to, &b).await;
    let kept = accept(&mut *listener).await;
    drop(listener);

    // The port is taken by a lane, and nobody listens.
    let outcome = Host::new().open(to, &b).await;

    assert_eq!(outcome.err(), Some(LaneError::Refused));
    drop((opened, kept));
}

#[test]
fn ends_of_a_connection_are_told_apart() {
    let cases = [
        (ConnectionError::TimedOut, LaneError::TimedOut),
        (ConnectionError::Reset, LaneError::Reset),
        (ConnectionError::LocallyClosed, LaneError::Closed),
        (ConnectionError::VersionMismatch, LaneError::Failed),
        (
            ConnectionError::ApplicationClosed(quinn::ApplicationClose {
                error_code: VarInt::from_u32(0),
                reason: Vec::new().into(),
            }),
            LaneError::Closed,
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(crate::error::of_connection(&error), expected);
    }
}
