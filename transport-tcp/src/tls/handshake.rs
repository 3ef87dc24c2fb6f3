//! The handshake of either end, from a connection to a lane.
//!
//! rustls does the handshake. It gets one record at a time and not a byte more. So at the end of the handshake all
//! following bytes are in one place, still encrypted, and start with the first record under the new keys.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;

use pccl_core::id::Identity;
use pccl_core::transport::{CongestionControl, Lane, LaneError, Proven};
use pccl_trust::{Established, PublicKey, established};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConnection, Connection, Error, InvalidMessage, ServerConnection,
};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::config::Configs;
use super::error::TlsError;
use super::lane;
use super::read_buffer::ReadBuffer;
use super::record::{HEADER_BYTES, Opener, RECORD_MAX, Sealer};
use super::record_reader::RecordReader;
use super::record_writer::RecordWriter;
use super::secrets::{Overheard, TrafficSecret};
use super::session::Session;
use crate::error::lane_error as socket_error;
use crate::options::Connected;

/// The first byte of every TLS connection: the type of a handshake record (RFC 8446, section 5.1).
pub(super) const HANDSHAKE_RECORD: u8 = 0x16;

/// The handshake of the end that dials. It has no time limit of its own.
pub(crate) async fn dial(
    connected: Connected,
    configs: &Configs,
    expect: Identity,
) -> Result<Lane, LaneError> {
    let name = PublicKey::from(expect.0).server_name();
    let name = ServerName::try_from(name).map_err(|_| LaneError::Untrusted)?;
    let secrets = Arc::new(Overheard::default());
    let mut config = (*configs.client).clone();
    config.key_log = secrets.clone();
    let connection = ClientConnection::new(Arc::new(config), name);
    let connection = connection.map_err(|error| lane_error(&error))?;
    let handshake = Handshake::new(connected, connection.into(), secrets);
    let lane = handshake.shake_hands(configs.own).await?;
    // The handshake has failed already if it is anybody else.
    match lane.identity() == Some(expect) {
        true => Ok(lane),
        false => Err(LaneError::Untrusted),
    }
}

/// The handshake of the end that accepts. It takes any key: the caller decides who is admitted.
pub(super) async fn answer(connected: Connected, configs: &Configs) -> Result<Lane, LaneError> {
    let secrets = Arc::new(Overheard::default());
    let mut config = (*configs.server).clone();
    config.key_log = secrets.clone();
    let connection = ServerConnection::new(Arc::new(config));
    let connection = connection.map_err(|error| lane_error(&error))?;
    let handshake = Handshake::new(connected, connection.into(), secrets);
    handshake.shake_hands(configs.own).await
}

/// A handshake in progress.
struct Handshake {
    rx: OwnedReadHalf,
    tx: OwnedWriteHalf,
    control: Option<CongestionControl>,
    connection: Connection,
    read_buffer: ReadBuffer,
    secrets: Arc<Overheard>,
}

impl Handshake {
    fn new(connected: Connected, connection: Connection, secrets: Arc<Overheard>) -> Self {
        let (rx, tx) = connected.stream.into_split();
        Self {
            rx,
            tx,
            control: connected.control,
            connection,
            read_buffer: ReadBuffer::default(),
            secrets,
        }
    }

    async fn shake_hands(mut self, own: Identity) -> Result<Lane, LaneError> {
        self.complete().await?;
        let established = match &self.connection {
            Connection::Client(connection) => established(connection),
            Connection::Server(connection) => established(connection),
        };
        let established = established.map_err(|error| {
            tracing::debug!(%error, "a connection proves nothing");
            LaneError::Untrusted
        })?;
        let lane = self.into_lane().map_err(TlsError::lane_error)?;
        Ok(lane.with_proof(Some(proven(own, &established))))
    }

    /// Runs the handshake until both ends have proved their keys, as far as this end can tell.
    async fn complete(&mut self) -> Result<(), LaneError> {
        loop {
            self.flush().await?;
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            while !self.has_record() {
                self.read().await?;
            }
            if let Err(error) = self.take_record() {
                // The alert is a courtesy.
                let _ = self.write_out();
                return Err(error);
            }
        }
    }

    async fn flush(&mut self) -> Result<(), LaneError> {
        loop {
            match self.write_out() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let room = self.tx.writable().await;
                    room.map_err(|error| socket_error(&error))?;
                }
                Err(error) => return Err(socket_error(&error)),
            }
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Socket(&self.tx))?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), LaneError> {
        let (read_buffer, half) = (&mut self.read_buffer, &mut self.rx);
        let more = std::future::poll_fn(|cx| read_buffer.poll_fill(cx, half)).await;
        match more.map_err(|error| socket_error(&error))? {
            true => Ok(()),
            false => Err(LaneError::Closed),
        }
    }

    /// The length of the next record, if its header has arrived.
    fn record_bytes(&self) -> Option<usize> {
        let rest = self.read_buffer.rest();
        let (header, _) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let &[_, _, _, high, low] = header;
        Some(HEADER_BYTES + usize::from(u16::from_be_bytes([high, low])))
    }

    /// Whether a whole record is here. A record that is too long counts as whole, so that it is rejected at once.
    fn has_record(&self) -> bool {
        let bytes = self.record_bytes();
        bytes.is_some_and(|bytes| bytes > RECORD_MAX || bytes <= self.read_buffer.rest().len())
    }

    fn take_record(&mut self) -> Result<(), LaneError> {
        let said = self.record_bytes().unwrap_or_default();
        let bytes = said.min(self.read_buffer.rest().len());
        let mut record = self.read_buffer.rest().get(..bytes).unwrap_or_default();
        while !record.is_empty() {
            match self.connection.read_tls(&mut record) {
                Ok(0) => return Err(LaneError::Closed),
                Ok(_) => {}
                Err(_) => return Err(LaneError::Failed),
            }
            if let Err(error) = self.connection.process_new_packets() {
                tracing::debug!(%error, "a TLS handshake has failed");
                return Err(lane_error(&error));
            }
        }
        self.read_buffer.consume(bytes);
        // rustls has said what it is, if it is no TLS at all. It takes longer records than TLS allows, which
        // are not here in one piece.
        if said > RECORD_MAX {
            return Err(LaneError::Failed);
        }
        Ok(())
    }

    /// The lane after the handshake, with records under its secrets.
    fn into_lane(self) -> Result<Lane, TlsError> {
        let suite = self.connection.negotiated_cipher_suite();
        let suite = suite.ok_or(TlsError::Internal)?;
        let is_of_server = matches!(self.connection, Connection::Client(_));
        let (client, server) = (self.secrets.take_client(), self.secrets.take_server());
        let (own, other) = match is_of_server {
            true => (client, server),
            false => (server, client),
        };
        let own = TrafficSecret::new(suite, own.ok_or(TlsError::Internal)?)?;
        let other = TrafficSecret::new(suite, other.ok_or(TlsError::Internal)?)?;
        let mut read_buffer = self.read_buffer;
        read_buffer.release();
        let reader = RecordReader::new(read_buffer, Opener::new(other)?, is_of_server);
        let session = Session::new(self.tx, RecordWriter::new(Sealer::new(own)?));
        Ok(lane::split(session, self.rx, reader, self.control))
    }
}

fn proven(own: Identity, established: &Established) -> Proven {
    Proven {
        own,
        identity: Identity(established.peer.into()),
        binding: *established.binding.expose(),
    }
}

/// Writes without waiting.
struct Socket<'a>(&'a OwnedWriteHalf);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lane error for a failure of TLS.
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
