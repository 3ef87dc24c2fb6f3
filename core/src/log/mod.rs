//! Logs: the recorded inputs and outputs of one machine of a real run, and their replay.
//!
//! A log starts with the configuration of its machine, and continues with one record per input: the input, and the
//! outputs of the machine. Machines are pure, so a machine with the same configuration and inputs must give the same
//! outputs; [`replay`] checks that. A driver that records calls [`Encoder::step`] in place of `handle`, and appends
//! the bytes that it returns to a file.
//!
//! **A log is as secret as its run**: it holds the tickets of the lanes, and a master's log holds the key that mints
//! them. It holds the names and hashes of shared state, but no element of any buffer.
//!
//! # Format
//!
//! All integers are little-endian.
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 8 | magic, `PCCL-LOG` in ASCII |
//! | 8 | 2 | version of this format, [`FORMAT`] |
//! | 10 | 2 | version of the protocol, [`ProtocolVersion::CURRENT`](crate::id::ProtocolVersion::CURRENT) |
//! | 12 | | frames to the end of the log |
//!
//! A frame:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | length n of the body, at most [`BODY_MAX`] |
//! | 4 | 4 | the same with every bit inverted |
//! | 8 | n | body |
//! | 8 + n | 8 | SipHash-2-4 with an all-zero key of: the hash that ends the frame before (zero for the first frame), then offsets 0 to 8 + n of this one |
//!
//! The body of the first frame is the byte 0 and a [`MasterConfig`](crate::master::MasterConfig), or the byte 1 and a
//! [`PeerConfig`](crate::peer::PeerConfig), or the byte 2 and a [`Durable`](crate::journal::Durable). Each further body
//! is a record: the input, then the sequence of outputs, in the form described in [`wire`](crate::wire#control-frames),
//! with no bytes left over.
//!
//! A process may be killed while it writes, so a log may end between any two frames, or within any frame but the
//! first. The bytes of such a partial frame are ignored. Any other difference from what was written is detected: a
//! changed byte by the inverted length or the hash; a missing, repeated or misplaced frame by the hash that it
//! continues. The hash protects against damage, not against deception.

mod decode;
mod encode;
mod machine;
mod replay;
#[cfg(test)]
mod tests;

pub use decode::{Damage, Log, LogError, Record, RecordOf, Records, open, open_of};
pub use encode::{Encoder, NotRecorded};
pub use machine::Machine;
pub use replay::{Difference, ReplayError, Replayed, replay, restore};

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Version of the format. It increases when the layout changes, and when the inputs, outputs or configurations of the
/// machines change.
pub const FORMAT: u16 = 16;

/// Maximum length of the body of a frame. One input can lead to a plan for each of a thousand peers.
pub const BODY_MAX: usize = 256 * 1024 * 1024;

const MAGIC: [u8; 8] = *b"PCCL-LOG";

/// Length of the bytes before the first frame.
const PREAMBLE_BYTES: usize = 12;

/// Length of the bytes before a frame's body.
const HEAD_BYTES: usize = 8;

/// Length of the bytes after a frame's body.
const HASH_BYTES: usize = 8;

/// The hash at the end of a frame.
fn chain(before: u64, head: [u8; HEAD_BYTES], body: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(&[0; 16]);
    hasher.write(&before.to_le_bytes());
    hasher.write(&head);
    hasher.write(body);
    hasher.finish()
}
