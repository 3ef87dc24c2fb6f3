//! Writing a log.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::mem;

use serde::Serialize;

use super::{BODY_MAX, FORMAT, HEAD_BYTES, MAGIC, Machine, chain};
use crate::id::ProtocolVersion;

/// Maximum number of bytes of memory that an encoder keeps between two records.
const KEEP_BYTES: usize = 64 * 1024;

/// Writes the log of one machine. The driver lets the machine take every step through [`step`](Self::step), and
/// appends all returned bytes to the log, in order.
///
/// `Debug` hides the bytes, which hold secrets.
#[derive(Clone)]
pub struct Encoder<M> {
    bytes: Vec<u8>,
    /// The hash at the end of the last frame.
    hash: u64,
    machine: PhantomData<fn() -> M>,
}

impl<M> fmt::Debug for Encoder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

/// Why a record cannot be written. Later records make no sense without it: end the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotRecorded {
    /// The record is longer than any reader accepts.
    #[error("a record of {length} bytes is longer than the {BODY_MAX} allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A value has no postcard form. No type of the machines has such values.
    #[error("a record has no encoding")]
    Unrepresentable,
}

impl<M: Machine> Encoder<M> {
    /// Starts the log of a machine with this configuration. Write the [`header`](Self::header) first.
    ///
    /// # Errors
    /// The configuration cannot be encoded. Do not record this machine.
    pub fn new(config: &M::Config) -> Result<Self, NotRecorded> {
        let mut encoder = Self {
            bytes: Vec::new(),
            hash: 0,
            machine: PhantomData,
        };
        encoder.bytes.extend_from_slice(&MAGIC);
        encoder.bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let protocol = ProtocolVersion::CURRENT.0;
        encoder.bytes.extend_from_slice(&protocol.to_le_bytes());
        let at = encoder.begin_frame();
        encoder.put(&M::KIND)?;
        encoder.put(config)?;
        encoder.end_frame(at)?;
        Ok(encoder)
    }

    /// The start of the log. Valid until the first step.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        &self.bytes
    }

    /// Lets the machine apply the input and append its outputs to `out`, and returns the bytes of the record. The
    /// record excludes what `out` held before.
    ///
    /// # Errors
    /// There is no record of this step. The machine has taken the step nevertheless, and `out` has its outputs.
    pub fn step(
        &mut self,
        machine: &mut M,
        input: M::Input,
        out: &mut Vec<M::Output>,
    ) -> Result<&[u8], NotRecorded> {
        let heard = self.heard(&input);
        let before = out.len();
        machine.step(input, out);
        heard?;
        self.said(out.get(before..).unwrap_or_default())
    }

    /// Begins the record of a step: this is its input. For a driver whose machine takes the step by itself; then comes
    /// [`said`](Self::said).
    ///
    /// # Errors
    /// There is no record of this step.
    pub fn heard(&mut self, input: &M::Input) -> Result<(), NotRecorded> {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.begin_frame();
        self.put(input)
    }

    /// Ends the record that [`heard`](Self::heard) has begun: these are the outputs of the step. Returns the bytes of
    /// the record.
    ///
    /// # Errors
    /// There is no record of this step.
    pub fn said(&mut self, outputs: &[M::Output]) -> Result<&[u8], NotRecorded> {
        self.put(outputs)?;
        self.end_frame(0)?;
        Ok(&self.bytes)
    }

    /// Leaves room for a head, and returns its position.
    fn begin_frame(&mut self) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        at
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotRecorded> {
        let bytes = mem::take(&mut self.bytes);
        self.bytes = postcard::to_extend(value, bytes).map_err(|_| NotRecorded::Unrepresentable)?;
        Ok(())
    }

    /// Writes the head and appends the hash.
    fn end_frame(&mut self, at: usize) -> Result<(), NotRecorded> {
        let length = self.bytes.len().saturating_sub(at + HEAD_BYTES);
        let short = u32::try_from(length).ok().filter(|_| length <= BODY_MAX);
        let short = short.ok_or(NotRecorded::TooLong { length })?;
        let [a, b, c, d] = short.to_le_bytes();
        let head = [a, b, c, d, !a, !b, !c, !d];
        let frame = self.bytes.get_mut(at..).unwrap_or_default();
        if let Some((room, body)) = frame.split_first_chunk_mut() {
            *room = head;
            self.hash = chain(self.hash, head, body);
        }
        self.bytes.extend_from_slice(&self.hash.to_le_bytes());
        Ok(())
    }
}
