//! What is known once a handshake is over: who is at the other end, and what belongs to this connection
//! alone.

use rustls::ConnectionCommon;
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::proof::ChannelBinding;
use crate::public_key::PublicKey;
use crate::tls::ALPN;

/// Who is at the other end is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unproven {
    /// The handshake is not over.
    #[error("the handshake is not over")]
    Handshaking,
    /// The other end did not say that it speaks this protocol.
    #[error("the other end does not speak `pccl/1`: is it another program?")]
    NoProtocol,
    /// The other end has shown no key.
    #[error("the other end has shown no key")]
    NoKey,
    /// The other end has shown something that is not one raw Ed25519 key.
    #[error("the other end has shown something other than one raw Ed25519 key")]
    NotARawKey,
    /// Nothing could be derived that belongs to this connection alone.
    #[error("no channel binding can be had from this connection")]
    NoBinding,
}

/// What a finished handshake has established.
#[derive(Debug)]
pub struct Established {
    /// Who is at the other end.
    pub peer: PublicKey,
    /// What [`Proof`](crate::Proof)s of this connection are bound to.
    pub binding: ChannelBinding,
}

/// The key that the other end has proven, from what the connection keeps as its certificates: rustls'
/// `peer_certificates()`, or quinn's `peer_identity()` as `Vec<CertificateDer>`.
///
/// # Errors
/// [`Unproven::NoKey`], [`Unproven::NotARawKey`].
pub fn peer_key(certificates: Option<&[CertificateDer<'_>]>) -> Result<PublicKey, Unproven> {
    match certificates {
        None | Some([]) => Err(Unproven::NoKey),
        Some([key]) => PublicKey::from_spki(key).ok_or(Unproven::NotARawKey),
        Some(_) => Err(Unproven::NotARawKey),
    }
}

/// Whether the other end has agreed to speak [`ALPN`].
///
/// A server of rustls refuses a client that offers other protocols, but not one that offers none.
///
/// # Errors
/// [`Unproven::NoProtocol`].
pub fn check_alpn(agreed: Option<&[u8]>) -> Result<(), Unproven> {
    match agreed {
        Some(ALPN) => Ok(()),
        _ => Err(Unproven::NoProtocol),
    }
}

/// [`check_alpn`] and [`peer_key`] in one, for connections that are not a [`ConnectionCommon`].
/// Only meaningful once the handshake is over.
///
/// # Errors
/// [`Unproven`].
pub fn proven_peer(
    alpn: Option<&[u8]>,
    certificates: Option<&[CertificateDer<'_>]>,
) -> Result<PublicKey, Unproven> {
    check_alpn(alpn)?;
    peer_key(certificates)
}

/// Everything that must be known about a connection of rustls' buffered interface before it is used.
///
/// # Errors
/// [`Unproven`].
pub fn established<Side>(connection: &ConnectionCommon<Side>) -> Result<Established, Unproven> {
    if connection.is_handshaking() {
        return Err(Unproven::Handshaking);
    }
    let peer = proven_peer(connection.alpn_protocol(), connection.peer_certificates())?;
    let mut exported = Zeroizing::new([0; 32]);
    connection
        .export_keying_material(exported.as_mut_slice(), ChannelBinding::LABEL, None)
        .map_err(|_| Unproven::NoBinding)?;
    let binding = ChannelBinding::from(*exported);
    Ok(Established { peer, binding })
}
