//! TLS configurations of both ends, for TCP and QUIC.

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, ServerConfig};

use crate::key_pair::KeyPair;
use crate::provider::provider;
use crate::verifier::RawKeys;

/// The ALPN protocol that both ends must agree on.
pub const ALPN: &[u8] = b"pccl/1";

/// The configuration of the end that dials: TLS 1.3 only, raw public keys on both sides, no resumption, no early
/// data. The expected key of the other end comes from the name that is dialled
/// ([`PublicKey::server_name`](crate::PublicKey::server_name)), so one configuration serves for all destinations.
///
/// The name is not sent, so an eavesdropper does not learn who is dialled.
///
/// After its handshake a client is not accepted yet: the server may still refuse its key. Only bytes from the server
/// show that it did not.
///
/// # Errors
/// None with a working cryptography library.
pub fn client_config(own: &KeyPair) -> Result<ClientConfig, Error> {
    let provider = provider();
    let verifier = RawKeys::new(provider.signature_verification_algorithms);
    let identity = AlwaysResolvesClientRawPublicKeys::new(own.certified());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(identity));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session does not ask who the other end is.
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Ok(config)
}

/// The configuration of the end that accepts. A client must prove a key, but any key is taken. Before you trust any
/// of its bytes, get the key from [`established`](crate::established) or [`proven_peer`](crate::proven_peer), which
/// also check that the client speaks [`ALPN`].
///
/// # Errors
/// None with a working cryptography library.
pub fn server_config(own: &KeyPair) -> Result<ServerConfig, Error> {
    let provider = provider();
    let verifier = RawKeys::new(provider.signature_verification_algorithms);
    let identity = AlwaysResolvesServerRawPublicKeys::new(own.certified());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(identity));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}
