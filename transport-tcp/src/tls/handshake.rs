//! From a connection to a lane: the handshake of either end, and what it proves.

use pccl_core::id::Identity;
use pccl_core::transport::{Lane, LaneError, Proven};
use pccl_trust::{PublicKey, established};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConnection, Connection, Error, InvalidMessage, ServerConnection,
};
use tokio::net::TcpStream;

use super::config::Configs;
use super::lane;
use super::session::{Reader, Session};

/// What the first byte of every TLS connection says: a handshake record (RFC 8446, section 5.1).
pub(super) const HANDSHAKE_RECORD: u8 = 0x16;

/// The handshake of the end that dials. It has no time limit of its own.
pub(crate) async fn dial(
    stream: TcpStream,
    configs: &Configs,
    expect: Identity,
) -> Result<Lane, LaneError> {
    let name = PublicKey::from(expect.0).server_name();
    let name = ServerName::try_from(name).map_err(|_| LaneError::Untrusted)?;
    let config = configs.client.clone();
    let connection = ClientConnection::new(config, name).map_err(|error| lane_error(&error))?;
    let lane = shake_hands(stream, connection.into(), configs.own).await?;
    // The handshake has failed already if it is anybody else.
    match lane.identity() == Some(expect) {
        true => Ok(lane),
        false => Err(LaneError::Untrusted),
    }
}

/// The handshake of the end that was dialled. Any key will do: who is welcome is decided above.
pub(super) async fn answer(stream: TcpStream, configs: &Configs) -> Result<Lane, LaneError> {
    let config = configs.server.clone();
    let connection = ServerConnection::new(config).map_err(|error| lane_error(&error))?;
    shake_hands(stream, connection.into(), configs.own).await
}

async fn shake_hands(
    stream: TcpStream,
    connection: Connection,
    own: Identity,
) -> Result<Lane, LaneError> {
    let session = Session::new(stream, connection);
    let mut reader = Reader::new();
    session.complete_handshake(&mut reader).await?;
    let proven = session.with(|connection| match connection {
        Connection::Client(connection) => established(connection),
        Connection::Server(connection) => established(connection),
    });
    let proven = proven.map_err(|error| {
        tracing::debug!(%error, "a connection proves nothing");
        LaneError::Untrusted
    })?;
    let proven = Proven {
        own,
        identity: Identity(proven.peer.into()),
        binding: *proven.binding.expose(),
    };
    Ok(lane::split(session, reader).with_proof(Some(proven)))
}

/// What a failure of TLS means for a lane.
pub(super) fn lane_error(error: &Error) -> LaneError {
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => LaneError::NotEncrypted,
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::UnsupportedNameType
        | Error::PeerIncompatible(_)
        | Error::NoApplicationProtocol
        | Error::AlertReceived(
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::HandshakeFailure
            | AlertDescription::NoApplicationProtocol
            | AlertDescription::ProtocolVersion
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate,
        ) => LaneError::Untrusted,
        _ => LaneError::Failed,
    }
}
