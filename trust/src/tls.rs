//! How both ends of a connection are configured, over TCP and over QUIC alike.

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, ServerConfig};

use crate::key_pair::KeyPair;
use crate::provider::provider;
use crate::verifier::RawKeys;

/// What both ends must agree to speak (ALPN).
pub const ALPN: &[u8] = b"pccl/1";

/// The configuration of who dials: TLS 1.3 alone, raw public keys on both sides, no resumption, no early
/// data, and the other end's key taken from the name that is dialled
/// ([`PublicKey::server_name`](crate::PublicKey::server_name)). One configuration serves for everybody
/// who is dialled.
///
/// The name is not sent, so an eavesdropper does not read who is dialled.
///
/// A client that has finished its handshake is not yet accepted: the server may still refuse its key.
/// Only bytes from the server show that it did not.
///
/// # Errors
/// None that a working cryptography library returns.
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

/// The configuration of who is dialled. A client must prove a key, but any key will do: ask
/// [`established`](crate::established) or [`proven_peer`](crate::proven_peer) whose it is, and whether
/// the client speaks [`ALPN`], before any of its bytes are believed.
///
/// # Errors
/// None that a working cryptography library returns.
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
