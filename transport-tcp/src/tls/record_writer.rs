//! The sending direction of a session. Data is sealed, directly from the caller's memory, into records that wait for
//! the socket.

use pccl_core::transport::LaneError;
use rustls::AlertDescription;

use super::error::TlsError;
use super::record::{CONTENT_MAX, Content, HEADER_BYTES, OVERHEAD_BYTES, Sealer};

/// Bytes of content that are sealed at a time (up to a record more, if that is the rest): a frame of the data path,
/// which then leaves in one system call and wakes its receiver once.
pub(super) const BATCH_BYTES: usize = 16 * CONTENT_MAX;

/// Levels of alerts (RFC 8446, section 6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// A message which says that the next record uses the next key, and that the other end need not update its own (RFC
/// 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The sending direction, which produces ciphertext.
pub(super) struct RecordWriter {
    sealer: Sealer,
    sealed: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the other end has asked for the next key, and has not been answered.
    owes_update: bool,
    /// Why nothing more can be sent.
    ended: Option<LaneError>,
    /// Whether the other end was told that nothing follows.
    has_closed: bool,
}

impl RecordWriter {
    pub(super) const fn new(sealer: Sealer) -> Self {
        Self {
            sealer,
            sealed: Vec::new(),
            start: 0,
            end: 0,
            owes_update: false,
            ended: None,
            has_closed: false,
        }
    }

    /// The ciphertext to be written.
    pub(super) fn rest(&mut self) -> &[u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.pay_owed_update();
        }
        self.sealed.get(self.start..self.end).unwrap_or_default()
    }

    /// Removes the first bytes, which were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }

    /// Frees all memory except for ciphertext that is to be written. If nothing can be sent any more, frees all of
    /// it.
    pub(super) fn release(&mut self) {
        let kept = match self.ended {
            Some(_) => Vec::new(),
            None => self
                .sealed
                .get(self.start..self.end)
                .unwrap_or_default()
                .to_vec(),
        };
        (self.start, self.end) = (0, kept.len());
        self.sealed = kept;
    }

    /// Seals the parts, up to one batch. Call it only if no ciphertext is left.
    pub(super) fn seal(&mut self, parts: &[&[u8]]) -> Result<usize, LaneError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        if self.has_closed {
            return Err(LaneError::Closed);
        }
        let all = parts.iter().map(|part| part.len()).sum();
        let most = if all < BATCH_BYTES + CONTENT_MAX {
            all
        } else {
            BATCH_BYTES
        };
        let sealed = self.seal_records(parts, most);
        sealed.map_err(|error| self.end(error.lane_error()))?;
        Ok(most)
    }

    /// Ends the direction, and tells the other end why if there is an alert for it.
    pub(super) fn fail(&mut self, error: TlsError) {
        if let (None, Some(alert)) = (self.ended, error.alert()) {
            let said = [FATAL, alert.into()];
            // Where it cannot be said, the other end notices in another way.
            let _ = self.add(Content::Alert, &said);
        }
        self.end(error.lane_error());
    }

    /// Ends the direction.
    pub(super) fn end(&mut self, error: LaneError) -> LaneError {
        *self.ended.get_or_insert(error)
    }

    /// Tells the other end that nothing follows.
    pub(super) fn close(&mut self) {
        if self.ended.is_none() && !std::mem::replace(&mut self.has_closed, true) {
            let said = [WARNING, AlertDescription::CloseNotify.into()];
            if let Err(error) = self.add(Content::Alert, &said) {
                self.end(error.lane_error());
            }
        }
    }

    /// Notes that the other end has asked for the next key. However often it asks, it is answered once, when no other
    /// ciphertext is left.
    pub(super) const fn owe_update(&mut self) {
        self.owes_update = true;
    }

    fn pay_owed_update(&mut self) {
        let can_send = self.ended.is_none() && !self.has_closed;
        if std::mem::replace(&mut self.owes_update, false)
            && can_send
            && let Err(error) = self.update()
        {
            self.end(error.lane_error());
        }
    }

    #[cfg(test)]
    pub(super) const fn sealer_mut(&mut self) -> &mut Sealer {
        &mut self.sealer
    }

    #[cfg(test)]
    pub(super) const fn bytes_held(&self) -> usize {
        self.sealed.capacity()
    }

    fn update(&mut self) -> Result<(), TlsError> {
        self.add(Content::Handshake, &KEY_UPDATE)?;
        self.sealer.update()
    }

    fn seal_records(&mut self, parts: &[&[u8]], most: usize) -> Result<(), TlsError> {
        let mut parts = Parts::new(parts);
        let mut left = most;
        while left > 0 {
            if self.sealer.is_worn() {
                self.update()?;
            }
            let length = left.min(CONTENT_MAX);
            match parts.take(length) {
                Some(plain) => self.add(Content::Data, plain)?,
                None => self.add_gathered(&mut parts, length)?,
            }
            left -= length;
        }
        Ok(())
    }

    /// A record of one piece.
    fn add(&mut self, content: Content, plain: &[u8]) -> Result<(), TlsError> {
        self.add_record(plain.len(), |sealer, record| {
            sealer.seal(content, plain, record)
        })
    }

    /// A record of the ends of several pieces.
    fn add_gathered(&mut self, parts: &mut Parts<'_>, length: usize) -> Result<(), TlsError> {
        self.add_record(length, |sealer, record| {
            let place = record.get_mut(HEADER_BYTES..HEADER_BYTES + length);
            parts.copy_to(place.ok_or(TlsError::Internal)?);
            sealer.seal_in_place(Content::Data, record)
        })
    }

    /// Appends a record. It becomes visible once it is sealed: until then it may hold plaintext.
    fn add_record(
        &mut self,
        content: usize,
        seal: impl FnOnce(&mut Sealer, &mut [u8]) -> Result<(), TlsError>,
    ) -> Result<(), TlsError> {
        let end = self.end + content + OVERHEAD_BYTES;
        if end > self.sealed.len() {
            self.sealed.resize(end, 0);
        }
        let record = self.sealed.get_mut(self.end..end);
        seal(&mut self.sealer, record.ok_or(TlsError::Internal)?)?;
        self.end = end;
        Ok(())
    }
}

/// The rest of the parts that are to be sent.
struct Parts<'a> {
    first: &'a [u8],
    others: &'a [&'a [u8]],
}

impl<'a> Parts<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        let mut new = Self {
            first: &[],
            others: parts,
        };
        new.go_on();
        new
    }

    /// Moves on to the next part that is not empty.
    fn go_on(&mut self) {
        while self.first.is_empty()
            && let Some((first, others)) = self.others.split_first()
        {
            (self.first, self.others) = (first, others);
        }
    }

    /// This many bytes, if they are in one piece.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.first.split_at_checked(bytes)?;
        self.first = rest;
        self.go_on();
        Some(taken)
    }

    /// Fills `into`, as far as the parts reach.
    fn copy_to(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() && !self.first.is_empty() {
            let bytes = into.len().min(self.first.len());
            let (to, rest) = into.split_at_mut(bytes);
            to.copy_from_slice(self.take(bytes).unwrap_or_default());
            into = rest;
        }
    }
}
