//! Records of TLS 1.3 (RFC 8446, section 5): a header, then content, content type and padding, encrypted. Each record
//! is sealed or opened in one pass, from the caller's memory into a buffer or back.
//!
//! | part | bytes |
//! |---|---|
//! | header: type 23, version 0x0303, length of the rest | 1 + 2 + 2 |
//! | content | 0 to 16384 |
//! | type of the content | 1 |
//! | padding: zeros | 0 or more |
//! | tag of the cipher | 16 |
//!
//! The tag authenticates the header with the content, and the nonce is the position of the record in its direction.
//! So a record that was changed, repeated, left out or moved does not open.

use aws_lc_rs::aead::Aad;

use super::error::TlsError;
use super::secrets::{RecordKey, TrafficSecret};

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 5;

/// Maximum number of bytes of content in a record.
pub(super) const CONTENT_MAX: usize = 1 << 14;

/// Bytes of a tag.
const TAG_BYTES: usize = 16;

/// Bytes after the content: its type, and the tag.
const TRAILER_BYTES: usize = 1 + TAG_BYTES;

/// Bytes of a record without padding, less its content.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;

/// Maximum number of bytes after a header: the content, and 256 bytes for the rest.
const BODY_MAX: usize = CONTENT_MAX + 256;

/// Bytes of the longest record.
pub(super) const RECORD_MAX: usize = HEADER_BYTES + BODY_MAX;

/// The outer type of every encrypted record.
const OUTER: u8 = Content::Data as u8;

/// Type of the content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A message about the session itself.
    Alert = 21,
    /// A message of the handshake protocol.
    Handshake = 22,
    /// Application data.
    Data = 23,
}

/// A header as it was received.
pub(super) type Header = [u8; HEADER_BYTES];

/// The length in bytes of the record at the start of `bytes`, header included. `None` if its header is incomplete.
///
/// # Errors
/// The record is not encrypted, or its length is invalid.
pub(super) fn length_of(bytes: &[u8]) -> Result<Option<usize>, TlsError> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [kind, _, _, high, low] = *header;
    let body = usize::from(u16::from_be_bytes([high, low]));
    match body {
        _ if kind != OUTER => Err(TlsError::Unexpected),
        ..TRAILER_BYTES => Err(TlsError::Forged),
        TRAILER_BYTES..=BODY_MAX => Ok(Some(HEADER_BYTES + body)),
        _ => Err(TlsError::TooLong),
    }
}

/// Makes records.
pub(super) struct Sealer {
    secret: TrafficSecret,
    key: RecordKey,
    records_max: u64,
}

impl Sealer {
    pub(super) fn new(secret: TrafficSecret) -> Result<Self, TlsError> {
        Ok(Self {
            key: secret.key()?,
            records_max: secret.records_max(),
            secret,
        })
    }

    /// Whether the key is used up except for one record, which announces the next key.
    pub(super) const fn is_worn(&self) -> bool {
        self.key.sequence.saturating_add(1) >= self.records_max
    }

    /// Uses the next key from the next record on.
    pub(super) fn update(&mut self) -> Result<(), TlsError> {
        self.secret = self.secret.next()?;
        self.key = self.secret.key()?;
        Ok(())
    }

    /// Makes a record of a piece of content, which fits exactly.
    pub(super) fn seal(
        &mut self,
        content: Content,
        plain: &[u8],
        record: &mut [u8],
    ) -> Result<(), TlsError> {
        let (header, body, trailer) = parts_of(record)?;
        let nonce = self.key.next_nonce()?;
        let kind = [content as u8];
        let aad = Aad::from(*header);
        let sealed =
            (self.key.aead).seal_out_of_place_scatter(nonce, aad, plain, body, &kind, trailer);
        sealed.map_err(|_| TlsError::Internal)
    }

    /// As [`seal`](Self::seal), for content that is already in its place after the header.
    pub(super) fn seal_in_place(
        &mut self,
        content: Content,
        record: &mut [u8],
    ) -> Result<(), TlsError> {
        let (header, body, trailer) = parts_of(record)?;
        let nonce = self.key.next_nonce()?;
        let kind = [content as u8];
        let aad = Aad::from(*header);
        let sealed = (self.key.aead).seal_in_place_scatter(nonce, aad, body, &kind, trailer);
        sealed.map_err(|_| TlsError::Internal)
    }

    #[cfg(test)]
    pub(super) const fn wear_out(&mut self) {
        self.key.sequence = u64::MAX;
    }

    #[cfg(test)]
    pub(super) const fn wear_after(&mut self, records: u64) {
        self.records_max = records;
    }
}

/// Writes the header of a record that fills `record`, and splits the record.
fn parts_of(record: &mut [u8]) -> Result<(&Header, &mut [u8], &mut [u8]), TlsError> {
    let parts = record.split_first_chunk_mut::<HEADER_BYTES>();
    let (header, rest) = parts.ok_or(TlsError::Internal)?;
    let content = rest.len().checked_sub(TRAILER_BYTES);
    let content = content.filter(|content| *content <= CONTENT_MAX);
    let content = content.ok_or(TlsError::Internal)?;
    let length = u16::try_from(rest.len()).map_err(|_| TlsError::Internal)?;
    let [high, low] = length.to_be_bytes();
    *header = [OUTER, 3, 3, high, low];
    let (body, trailer) = rest
        .split_at_mut_checked(content)
        .ok_or(TlsError::Internal)?;
    Ok((header, body, trailer))
}

/// Opens records.
pub(super) struct Opener {
    secret: TrafficSecret,
    key: RecordKey,
}

impl Opener {
    pub(super) fn new(secret: TrafficSecret) -> Result<Self, TlsError> {
        Ok(Self {
            key: secret.key()?,
            secret,
        })
    }

    /// The other end uses the next key from the next record on.
    pub(super) fn update(&mut self) -> Result<(), TlsError> {
        self.secret = self.secret.next()?;
        self.key = self.secret.key()?;
        Ok(())
    }

    /// Opens a whole record in place. Afterwards the content is behind the header.
    pub(super) fn open_in_place(
        &mut self,
        record: &mut [u8],
    ) -> Result<(Content, usize), TlsError> {
        let parts = record.split_first_chunk_mut::<HEADER_BYTES>();
        let (header, body) = parts.ok_or(TlsError::Internal)?;
        let nonce = self.key.next_nonce()?;
        let opened = self.key.aead.open_in_place(nonce, Aad::from(*header), body);
        content_of(opened.map_err(|_| TlsError::Forged)?)
    }

    /// Whether a record can be opened directly into `room`: the room must hold the content, its type and its padding,
    /// but not the tag.
    pub(super) const fn fits(record: &[u8], room: &[u8]) -> bool {
        record.len() <= HEADER_BYTES + TAG_BYTES + room.len()
    }

    /// Opens a whole record into the front of a room. Only if it [`fits`](Self::fits). Some bytes of the room behind
    /// the content are overwritten.
    pub(super) fn open_to(
        &mut self,
        record: &[u8],
        room: &mut [u8],
    ) -> Result<(Content, usize), TlsError> {
        let parts = record.split_first_chunk::<HEADER_BYTES>();
        let (header, body) = parts.ok_or(TlsError::Internal)?;
        let parts = body.split_last_chunk::<TAG_BYTES>();
        let (cipher, tag) = parts.ok_or(TlsError::Forged)?;
        let room = room.get_mut(..cipher.len()).ok_or(TlsError::Internal)?;
        let nonce = self.key.next_nonce()?;
        let aad = Aad::from(*header);
        let opened = (self.key.aead).open_separate_gather(nonce, aad, cipher, tag, room);
        opened.map_err(|_| TlsError::Forged)?;
        content_of(room)
    }
}

/// The type of the content of an opened record, and its length in bytes.
fn content_of(opened: &[u8]) -> Result<(Content, usize), TlsError> {
    if opened.len() > CONTENT_MAX + 1 {
        return Err(TlsError::TooLong);
    }
    let last = opened.iter().rposition(|byte| *byte != 0);
    let last = last.ok_or(TlsError::Unexpected)?;
    let content = match opened.get(last).ok_or(TlsError::Internal)? {
        21 => Content::Alert,
        22 => Content::Handshake,
        23 => Content::Data,
        _ => return Err(TlsError::Unexpected),
    };
    Ok((content, last))
}
