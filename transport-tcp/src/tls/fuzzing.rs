//! The receiving direction of a session, for records that somebody else has made: for fuzz targets.
//!
//! The sending end has the right keys, so it can seal what no honest end would.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::tls13::OkmBlock;

use super::error::TlsError;
use super::read_buffer::ReadBuffer;
use super::record::{CONTENT_MAX, Content, OVERHEAD_BYTES, Opener, Sealer};
use super::record_reader::{Received, RecordReader};
use super::secrets::TrafficSecret;

/// The cipher suites, and the length of their secrets.
const SUITES: [(SupportedCipherSuite, usize); 3] = [
    (cipher_suite::TLS13_AES_128_GCM_SHA256, 32),
    (cipher_suite::TLS13_AES_256_GCM_SHA384, 48),
    (cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, 32),
];

/// The longest content that [`Session::sealed`] seals.
pub const SEALED_MAX: usize = CONTENT_MAX;

/// What a sealed record claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Data of the application.
    Data,
    /// A message about the session.
    Alert,
    /// A message of the handshake protocol.
    Handshake,
}

/// A session after its handshake, with both ends of one direction.
pub struct Session {
    sealer: Sealer,
    reader: RecordReader,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// A session with one of three cipher suites, whose receiving end is the client or the server. `None`: the
    /// cryptography library does not work.
    #[must_use]
    pub fn new(suite: u8, is_client: bool) -> Option<Self> {
        let (suite, length) = *SUITES.get(usize::from(suite) % SUITES.len())?;
        let secret = || TrafficSecret::new(suite, OkmBlock::new([7; 48].get(..length)?)).ok();
        let opener = Opener::new(secret()?).ok()?;
        Some(Self {
            sealer: Sealer::new(secret()?).ok()?,
            reader: RecordReader::new(ReadBuffer::default(), opener, is_client),
        })
    }

    /// A record with this content, sealed with the key that is in use. `None` if the content is longer than
    /// [`SEALED_MAX`].
    pub fn sealed(&mut self, claim: Claim, content: &[u8]) -> Option<Vec<u8>> {
        let mut record = vec![0; content.len() + OVERHEAD_BYTES];
        let claim = match claim {
            Claim::Data => Content::Data,
            Claim::Alert => Content::Alert,
            Claim::Handshake => Content::Handshake,
        };
        self.sealer.seal(claim, content, &mut record).ok()?;
        Some(record)
    }

    /// Uses the next key from the next record on.
    pub fn update(&mut self) {
        // A key that cannot be made leaves the one before, with which the next record does not open.
        let _: Result<(), TlsError> = self.sealer.update();
    }

    /// Lets the receiving end hear these bytes, at most `room` bytes of content at a time. Appends the data to `heard`.
    /// Returns whether the session goes on.
    pub fn hear(&mut self, mut wire: &[u8], room: usize, heard: &mut Vec<u8>) -> bool {
        let mut into = vec![0; room.max(1)];
        loop {
            let received = self.reader.receive(&mut into);
            // Whoever asks for a key is answered by the writer, which is not here.
            self.reader.take_owed_update();
            match received {
                Ok(Received::Data(bytes)) => heard.extend(into.get(..bytes).unwrap_or_default()),
                Ok(Received::Nothing) if !wire.is_empty() => {
                    let read = self.reader.read_buffer.put(wire);
                    wire = wire.get(read..).unwrap_or_default();
                }
                Ok(Received::Nothing) => return true,
                Ok(Received::Closed) | Err(_) => return false,
            }
        }
    }
}
