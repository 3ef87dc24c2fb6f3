//! Who gets through a handshake, and who does not.

use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert};
use rustls::pki_types::CertificateDer;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS12;
use rustls::{
    AlertDescription, CertificateError, HandshakeKind, PeerIncompatible, ProtocolVersion,
    SignatureScheme,
};

use super::*;
use crate::provider::provider;
use crate::verifier::RawKeys;
use crate::{Unproven, WrongKey, check_alpn, established, peer_key};

fn client() -> ClientConfig {
    client_config(&key(1)).unwrap()
}

fn server() -> ServerConfig {
    server_config(&key(2)).unwrap()
}

fn the_server() -> PublicKey {
    key(2).public_key()
}

/// Somebody else's public key, and a private key of one's own.
fn forged() -> Arc<CertifiedKey> {
    let mut pair = CertifiedKey::clone(&key(9).certified());
    pair.cert = key(1).certified().cert.clone();
    Arc::new(pair)
}

#[test]
fn two_that_expect_each_other_meet_and_each_knows_who_the_other_is() {
    let met = honest(1, 2).succeeded();
    assert_eq!(established(&met.client).unwrap().peer, key(2).public_key());
    assert_eq!(established(&met.server).unwrap().peer, key(1).public_key());
    assert_eq!(
        met.client.protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    let suite = met.client.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
}

#[test]
fn who_dials_somebody_else_is_told_who_answered() {
    let met = meet(client(), server(), key(3).public_key());
    let Err(Error::InvalidCertificate(CertificateError::Other(why))) = &met.client_says else {
        panic!("{:?}", met.client_says);
    };
    let expected = WrongKey {
        expected: key(3).public_key(),
        found: the_server(),
    };
    assert_eq!(why.0.downcast_ref(), Some(&expected));
    assert!(matches!(met.server_says, Err(Error::AlertReceived(_))));
}

#[test]
fn a_name_that_holds_no_key_is_not_dialled() {
    let name = ServerName::try_from("master.example").unwrap();
    let mut dials: Connection = ClientConnection::new(Arc::new(client()), name)
        .unwrap()
        .into();
    let mut dialled: Connection = ServerConnection::new(Arc::new(server())).unwrap().into();
    let (mut client_says, mut server_says) = (Ok(()), Ok(()));
    carry(&mut dials, &mut dialled, &mut server_says);
    carry(&mut dialled, &mut dials, &mut client_says);
    assert!(
        matches!(client_says, Err(Error::General(_))),
        "{client_says:?}"
    );
}

#[test]
fn a_client_without_a_key_is_refused() {
    let anonymous = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(RawKeys::new(
            provider().signature_verification_algorithms,
        ))
        .with_no_client_auth();
    let met = meet(anonymous, server(), the_server());
    assert!(met.server_says.is_err(), "{:?}", met.server_says);
    assert!(met.server.peer_certificates().is_none());
    assert!(established(&met.server).is_err());
}

/// Says that it has raw keys, and shows none.
#[derive(Debug)]
struct Empty;

impl ResolvesClientCert for Empty {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        true
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

#[test]
fn a_client_that_promises_a_key_and_shows_none_is_refused() {
    let mut empty = client();
    empty.client_auth_cert_resolver = Arc::new(Empty);
    let met = meet(empty, server(), the_server());
    assert!(met.server_says.is_err(), "{:?}", met.server_says);
    assert!(established(&met.server).is_err());
}

/// Presents whatever it holds as an X.509 certificate.
#[derive(Debug)]
struct AsCertificate(Arc<CertifiedKey>);

impl ResolvesClientCert for AsCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for AsCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[test]
fn a_client_that_has_only_certificates_is_refused() {
    let mut certificates = client();
    certificates.client_auth_cert_resolver = Arc::new(AsCertificate(key(1).certified()));
    let met = meet(certificates, server(), the_server());
    let why = PeerIncompatible::IncorrectCertificateTypeExtension;
    assert_eq!(met.server_says, Err(Error::PeerIncompatible(why)));
}

#[test]
fn a_server_that_has_only_certificates_is_refused() {
    let mut certificates = server();
    certificates.cert_resolver = Arc::new(AsCertificate(key(2).certified()));
    let met = meet(client(), certificates, the_server());
    assert!(met.server_says.is_err() || met.client_says.is_err());
    assert!(established(&met.client).is_err());
}

#[test]
fn a_client_that_has_only_the_public_half_of_a_key_is_refused() {
    let mut forger = client();
    forger.client_auth_cert_resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(forged()));
    let met = meet(forger, server(), the_server());
    let why = Error::InvalidCertificate(CertificateError::BadSignature);
    assert_eq!(met.server_says, Err(why));
    assert_eq!(
        met.client_says,
        Err(Error::AlertReceived(AlertDescription::DecryptError))
    );
}

#[test]
fn a_server_that_has_only_the_public_half_of_a_key_is_refused() {
    let mut forger = server();
    forger.cert_resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(forged()));
    let met = meet(client(), forger, key(1).public_key());
    let why = Error::InvalidCertificate(CertificateError::BadSignature);
    assert_eq!(met.client_says, Err(why));
}

#[test]
fn a_key_with_a_chain_behind_it_is_refused_on_both_sides() {
    let mut chained = CertifiedKey::clone(&key(1).certified());
    chained.cert.push(CertificateDer::from(vec![0]));
    let chained = Arc::new(chained);

    let mut dials = client();
    dials.client_auth_cert_resolver =
        Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&chained)));
    let met = meet(dials, server(), the_server());
    assert!(met.server_says.is_err(), "{:?}", met.server_says);

    let mut dialled = server();
    dialled.cert_resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(chained));
    let met = meet(client(), dialled, key(1).public_key());
    assert!(met.client_says.is_err(), "{:?}", met.client_says);
}

#[test]
fn a_client_that_speaks_tls_1_2_is_refused() {
    let mut old = rustls::crypto::aws_lc_rs::default_provider();
    old.kx_groups
        .retain(|group| group.name() == rustls::NamedGroup::X25519);
    let identity = AlwaysResolvesClientRawPublicKeys::new(key(1).certified());
    let mut old = ClientConfig::builder_with_provider(Arc::new(old))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(RawKeys::new(
            provider().signature_verification_algorithms,
        ))
        .with_client_cert_resolver(Arc::new(identity));
    old.alpn_protocols = vec![crate::ALPN.to_vec()];
    let met = meet(old, server(), the_server());
    assert!(
        matches!(met.server_says, Err(Error::PeerIncompatible(_))),
        "{:?}",
        met.server_says
    );
    assert_eq!(
        met.client_says,
        Err(Error::AlertReceived(AlertDescription::ProtocolVersion))
    );
}

#[test]
fn a_server_that_speaks_tls_1_2_is_refused() {
    let mut old = rustls::crypto::aws_lc_rs::default_provider();
    old.kx_groups
        .retain(|group| group.name() == rustls::NamedGroup::X25519);
    let identity = AlwaysResolvesServerRawPublicKeys::new(key(2).certified());
    let mut old = ServerConfig::builder_with_provider(Arc::new(old))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(identity));
    old.alpn_protocols = vec![crate::ALPN.to_vec()];
    let met = meet(client(), old, the_server());
    assert_eq!(
        met.server_says,
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    );
    assert_eq!(
        met.client_says,
        Err(Error::AlertReceived(AlertDescription::ProtocolVersion))
    );
}

#[test]
fn a_client_that_speaks_another_protocol_is_refused() {
    let mut other = client();
    other.alpn_protocols = vec![b"h2".to_vec()];
    let met = meet(other, server(), the_server());
    assert_eq!(met.server_says, Err(Error::NoApplicationProtocol));
}

#[test]
fn a_client_that_names_no_protocol_is_noticed_after_the_handshake() {
    let mut silent = client();
    silent.alpn_protocols = Vec::new();
    let met = meet(silent, server(), the_server()).succeeded();
    assert_eq!(established(&met.server).unwrap_err(), Unproven::NoProtocol);
    assert_eq!(established(&met.client).unwrap_err(), Unproven::NoProtocol);
    assert_eq!(check_alpn(Some(b"pccl/2")), Err(Unproven::NoProtocol));
}

#[test]
fn a_second_meeting_asks_for_the_keys_again() {
    let (client, server) = (Arc::new(client()), Arc::new(server()));
    for _ in 0..2 {
        let mut met = meet_at(Arc::clone(&client), Arc::clone(&server), the_server()).succeeded();
        assert_eq!(met.client.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(met.server.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(met.client.tls13_tickets_received(), 0);
        assert!(met.client.early_data().is_none());
        assert!(met.server.early_data().is_none());
    }
}

/// A client that would resume, at a server of ours, and a server that would let it, for a client of ours.
#[test]
fn neither_side_resumes_though_the_other_would() {
    let mut eager_client = client();
    eager_client.resumption = rustls::client::Resumption::in_memory_sessions(8);
    eager_client.enable_early_data = true;
    let mut eager_server = server();
    eager_server.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
    eager_server.send_tls13_tickets = 2;
    eager_server.max_early_data_size = 1024;
    let pairs = [
        (Arc::new(eager_client), Arc::new(server())),
        (Arc::new(client()), Arc::new(eager_server)),
    ];
    for (client, server) in pairs {
        for _ in 0..2 {
            let mut met =
                meet_at(Arc::clone(&client), Arc::clone(&server), the_server()).succeeded();
            assert_eq!(met.server.handshake_kind(), Some(HandshakeKind::Full));
            assert!(met.client.early_data().is_none());
        }
    }
}

#[test]
fn nothing_is_established_before_the_handshake_is_over() {
    let whom = ServerName::try_from(the_server().server_name()).unwrap();
    let fresh = ClientConnection::new(Arc::new(client()), whom).unwrap();
    assert_eq!(established(&fresh).unwrap_err(), Unproven::Handshaking);
}

#[test]
fn an_eavesdropper_does_not_see_who_meets_whom() {
    let met = honest(1, 2).succeeded();
    let shows = |part: &[u8]| met.seen.windows(part.len()).any(|window| window == part);
    assert!(shows(b"pccl/1"), "the test looks at the right bytes");
    for number in [1, 2] {
        let public = key(number).public_key();
        assert!(!shows(public.as_bytes()));
        assert!(!shows(public.full().as_bytes()));
    }
    assert!(!shows(b"invalid"));
}

#[test]
fn no_certificates_or_several_are_no_key() {
    let key = CertificateDer::from(key(1).public_key().to_spki());
    assert_eq!(peer_key(None), Err(Unproven::NoKey));
    assert_eq!(peer_key(Some(&[])), Err(Unproven::NoKey));
    assert_eq!(
        peer_key(Some(&[key.clone(), key])),
        Err(Unproven::NotARawKey)
    );
    let other = CertificateDer::from(vec![0x30, 0x82]);
    assert_eq!(peer_key(Some(&[other])), Err(Unproven::NotARawKey));
}
