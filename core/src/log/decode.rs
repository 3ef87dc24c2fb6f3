//! Reading a log.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{BODY_MAX, FORMAT, HASH_BYTES, HEAD_BYTES, MAGIC, Machine, PREAMBLE_BYTES, chain};
use crate::id::ProtocolVersion;
use crate::master::{Master, MasterConfig};
use crate::peer::{Peer, PeerConfig};

/// A log with a valid header.
#[derive(Clone, Debug)]
pub enum Log<'a> {
    /// The log of a master.
    Master {
        /// The configuration of the machine.
        config: MasterConfig,
        /// The records.
        records: Records<'a, Master>,
    },
    /// The log of a peer.
    Peer {
        /// The configuration of the machine.
        config: PeerConfig,
        /// The records.
        records: Records<'a, Peer>,
    },
}

/// One input, and the outputs of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Record<I, O> {
    /// The input.
    pub input: I,
    /// The outputs, in order.
    pub outputs: Vec<O>,
}

/// A record of the log of machine `M`.
pub type RecordOf<M> = Record<<M as Machine>::Input, <M as Machine>::Output>;

/// Where and how a log is damaged. Do not use anything from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{} at byte {at}: {damage}", Place(*.record))]
pub struct LogError {
    /// The number of the record, from one. Zero: the header.
    pub record: u64,
    /// The offset of the frame in the log. Zero for the bytes before the first frame.
    pub at: usize,
    /// The kind of damage.
    pub damage: Damage,
}

/// The damage of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Damage {
    /// It is not a log.
    #[error("this is no log")]
    NotALog,
    /// It has another format than this build reads. Replay it with the build that wrote it.
    #[error("this is a log in format {found}, this build reads format {FORMAT}")]
    OtherFormat {
        /// Its format.
        found: u16,
    },
    /// Its machine spoke another version of the protocol. Replay it with the build that wrote it.
    #[error("its machine spoke protocol version {found}, this build speaks {}", ProtocolVersion::CURRENT.0)]
    OtherProtocol {
        /// Its version.
        found: u16,
    },
    /// It ends before the end of its configuration. Nothing can be replayed.
    #[error("the log ends within its header")]
    CutHeader,
    /// A length and its inverse do not match.
    #[error("the length of the record was changed")]
    BadLength,
    /// A length that no writer writes.
    #[error("a length of {length} bytes is longer than the {BODY_MAX} allowed")]
    TooLong {
        /// The length.
        length: usize,
    },
    /// A byte was changed, or an earlier record is missing or misplaced.
    #[error(
        "the checksum does not fit: a byte was changed, or records are missing or out of place"
    )]
    BadChecksum,
    /// The bytes are those that were written, but cannot be decoded.
    #[error("the record makes no sense to this build")]
    Undecodable,
}

/// Describes a record in words.
struct Place(u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the header"),
            record => write!(f, "record {record}"),
        }
    }
}

/// Reads the header of the log of a master or of a peer.
///
/// # Errors
/// The bytes are not a log, are damaged, or come from another build.
pub fn open(bytes: &[u8]) -> Result<Log<'_>, LogError> {
    let (frames, body) = begin(bytes)?;
    match body.split_first() {
        Some((&Master::KIND, config)) => Ok(Log::Master {
            config: exactly(config).ok_or(SENSELESS)?,
            records: Records::after(frames),
        }),
        Some((&Peer::KIND, config)) => Ok(Log::Peer {
            config: exactly(config).ok_or(SENSELESS)?,
            records: Records::after(frames),
        }),
        _ => Err(SENSELESS),
    }
}

/// Reads the header of the log of a machine of type `M`.
///
/// # Errors
/// As [`open`]; [`Damage::Undecodable`] if it is the log of another machine.
pub fn open_of<M: Machine>(bytes: &[u8]) -> Result<(M::Config, Records<'_, M>), LogError> {
    let (frames, body) = begin(bytes)?;
    match body.split_first() {
        Some((kind, config)) if *kind == M::KIND => {
            let config = exactly(config).ok_or(SENSELESS)?;
            Ok((config, Records::after(frames)))
        }
        _ => Err(SENSELESS),
    }
}

/// The header cannot be decoded.
const SENSELESS: LogError = LogError {
    record: 0,
    at: PREAMBLE_BYTES,
    damage: Damage::Undecodable,
};

/// Checks the start of a log. Returns the body of its first frame, and the frames after it.
fn begin(bytes: &[u8]) -> Result<(Frames<'_>, &[u8]), LogError> {
    let broken = |at, damage| LogError {
        record: 0,
        at,
        damage,
    };
    let rest = preamble(bytes).map_err(|damage| broken(0, damage))?;
    let mut frames = Frames {
        rest,
        at: PREAMBLE_BYTES,
        hash: 0,
    };
    let body = frames
        .next_frame()
        .and_then(|body| body.ok_or(Damage::CutHeader))
        .map_err(|damage| broken(PREAMBLE_BYTES, damage))?;
    Ok((frames, body))
}

/// Checks the bytes before the first frame, and returns those after it.
fn preamble(bytes: &[u8]) -> Result<&[u8], Damage> {
    let known = MAGIC
        .iter()
        .zip(bytes)
        .all(|(wanted, found)| wanted == found);
    if !known {
        return Err(Damage::NotALog);
    }
    let rest = bytes.get(MAGIC.len()..).ok_or(Damage::CutHeader)?;
    let (format, rest) = rest.split_first_chunk().ok_or(Damage::CutHeader)?;
    let (protocol, rest) = rest.split_first_chunk().ok_or(Damage::CutHeader)?;
    let (format, protocol) = (u16::from_le_bytes(*format), u16::from_le_bytes(*protocol));
    if format != FORMAT {
        return Err(Damage::OtherFormat { found: format });
    }
    if protocol != ProtocolVersion::CURRENT.0 {
        return Err(Damage::OtherProtocol { found: protocol });
    }
    Ok(rest)
}

/// Decodes one value, with no bytes left over.
fn exactly<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(value)
}

/// The frames that were not read yet. `Debug` hides the bytes, which hold secrets.
#[derive(Clone, Copy)]
struct Frames<'a> {
    rest: &'a [u8],
    /// The offset of `rest` in the log.
    at: usize,
    /// The hash at the end of the previous frame.
    hash: u64,
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Frames");
        shown.field("at", &self.at).finish_non_exhaustive()
    }
}

impl<'a> Frames<'a> {
    /// The next body, checked. `None` if no whole frame is left.
    fn next_frame(&mut self) -> Result<Option<&'a [u8]>, Damage> {
        let Some((head, rest)) = self.rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = length_of(*head)?;
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let Some((hash, rest)) = rest.split_first_chunk::<HASH_BYTES>() else {
            return Ok(None);
        };
        let expected = chain(self.hash, *head, body);
        if u64::from_le_bytes(*hash) != expected {
            return Err(Damage::BadChecksum);
        }
        self.at += HEAD_BYTES + length + HASH_BYTES;
        (self.rest, self.hash) = (rest, expected);
        Ok(Some(body))
    }
}

fn length_of(head: [u8; HEAD_BYTES]) -> Result<usize, Damage> {
    let [a, b, c, d, inverse @ ..] = head;
    if [!a, !b, !c, !d] != inverse {
        return Err(Damage::BadLength);
    }
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > BODY_MAX {
        return Err(Damage::TooLong { length });
    }
    Ok(length)
}

/// Iterates over the records of a log. It ends after an error.
#[derive(Clone, Debug)]
pub struct Records<'a, M> {
    frames: Frames<'a>,
    read: u64,
    failed: bool,
    machine: PhantomData<fn() -> M>,
}

impl<'a, M: Machine> Records<'a, M> {
    const fn after(frames: Frames<'a>) -> Self {
        Self {
            frames,
            read: 0,
            failed: false,
            machine: PhantomData,
        }
    }

    /// Number of bytes that were not read. If the iterator has ended without an error, they belong to a record that
    /// was being written when the process ended; it cannot be decoded.
    #[must_use]
    pub const fn unread(&self) -> usize {
        self.frames.rest.len()
    }

    fn next_record(&mut self) -> Result<Option<RecordOf<M>>, Damage> {
        let Some(body) = self.frames.next_frame()? else {
            return Ok(None);
        };
        exactly(body).map(Some).ok_or(Damage::Undecodable)
    }
}

impl<M: Machine> Iterator for Records<'_, M> {
    type Item = Result<RecordOf<M>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let at = self.frames.at;
        let next = self.next_record().map_err(|damage| LogError {
            record: self.read + 1,
            at,
            damage,
        });
        self.failed = next.is_err();
        self.read += 1;
        next.transpose()
    }
}
