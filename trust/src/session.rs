//! The results of a handshake: the identity of the other end, and the channel binding.

use rustls::ConnectionCommon;
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::proof::ChannelBinding;
use crate::public_key::PublicKey;
use crate::tls::ALPN;

/// The identity of the other end is not proved. Do not use the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unproven {
    /// The handshake is not over.
    #[error("the handshake is not over")]
    Handshaking,
    /// The other end did not agree to this protocol.
    #[error("the other end does not speak `pccl/1`: is it another program?")]
    NoProtocol,
    /// The other end has presented no key.
    #[error("the other end has shown no key")]
    NoKey,
    /// The other end has presented something other than one raw Ed25519 key.
    #[error("the other end has shown something other than one raw Ed25519 key")]
    NotARawKey,
    /// The channel binding could not be exported.
    #[error("no channel binding can be had from this connection")]
    NoBinding,
}

/// The results of a finished handshake.
#[derive(Debug)]
pub struct Established {
    /// The key of the other end.
    pub peer: PublicKey,
    /// The channel binding, to which [`Proof`](crate::Proof)s on this connection are bound.
    pub binding: ChannelBinding,
}

/// The key that the other end has proved, taken from the connection's certificates: rustls' `peer_certificates()`, or
/// quinn's `peer_identity()` as `Vec<CertificateDer>`.
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

/// Checks that the other end has agreed to [`ALPN`].
///
/// A rustls server refuses a client that offers other protocols, but not one that offers none.
///
/// # Errors
/// [`Unproven::NoProtocol`].
pub fn check_alpn(agreed: Option<&[u8]>) -> Result<(), Unproven> {
    match agreed {
        Some(ALPN) => Ok(()),
        _ => Err(Unproven::NoProtocol),
    }
}

/// [`check_alpn`] and [`peer_key`] in one, for connections that are not a [`ConnectionCommon`]. Meaningful only after
/// the handshake.
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

/// All checks that a connection of rustls' buffered interface needs before it is used.
///
/// # Errors
/// [`Unproven`]. Close the connection.
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
