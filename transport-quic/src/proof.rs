//! What the handshake of a connection proves.

use pccl_core::id::Identity;
use pccl_core::transport::{LaneError, Proven};
use pccl_trust::{ChannelBinding, proven_peer};
use quinn::Connection;
use quinn::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;

/// The identity of the other end. The channel binding is that of TLS over TCP: without a context, which in TLS 1.3 is
/// the same as an empty one (RFC 8446, section 7.5).
pub(crate) fn proven(connection: &Connection, own: Identity) -> Result<Proven, LaneError> {
    let shaken = connection.handshake_data();
    let shaken = shaken.and_then(|data| data.downcast::<HandshakeData>().ok());
    let alpn = shaken.and_then(|data| data.protocol);
    let shown = connection.peer_identity();
    let shown = shown.and_then(|keys| keys.downcast::<Vec<CertificateDer<'static>>>().ok());
    let peer = proven_peer(alpn.as_deref(), shown.as_ref().map(|keys| keys.as_slice()));
    let peer = peer.map_err(|error| {
        tracing::debug!(%error, "a connection proves nothing");
        LaneError::Untrusted
    })?;
    let mut binding = [0; 32];
    connection
        .export_keying_material(&mut binding, ChannelBinding::LABEL, &[])
        .map_err(|_| LaneError::Untrusted)?;
    Ok(Proven {
        own,
        identity: Identity(peer.into()),
        binding,
    })
}
