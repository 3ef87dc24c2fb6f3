//! Logs: what one machine heard and said in a real run, written down and replayed.
//!
//! A log begins with the configuration that its machine was made from and goes on with one record per
//! input: the input, and the outputs that the machine gave for it. Machines are pure, so a
//! machine made from the same configuration and given the same inputs has to give the same outputs:
//! [`replay`] says whether it does. A driver that records calls [`Encoder::step`] where it would call
//! `handle`, and appends the bytes that it gets to a file.
//!
//! **A log is as secret as its run**: it holds the tickets of the lanes, and a master's holds the key
//! that mints them. It holds the names and hashes of shared state, and no element of any buffer.
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
//! The body of the first frame is a [`MasterConfig`](crate::master::MasterConfig) after the byte 0, or a
//! [`PeerConfig`](crate::peer::PeerConfig) after the byte 1. Each further body is a record: the input,
//! then the sequence of outputs, in the form described in [`wire`](crate::wire#control-frames), with
//! nothing left over.
//!
//! A process may be killed while it writes, so a log may end between any two frames, or in the middle of
//! one other than the first; the bytes of such a rest are not looked at. Every other difference from what
//! was written is found: a changed byte by the inverted length or the hash, a frame that is missing,
//! doubled or out of place by the hash that it continues. The hash guards against damage, not against
//! whoever wants to deceive.

mod decode;
mod encode;
mod machine;
mod replay;
#[cfg(test)]
mod tests;

pub use decode::{Damage, Log, LogError, Record, RecordOf, Records, open};
pub use encode::{Encoder, NotRecorded};
pub use machine::Machine;
pub use replay::{Difference, ReplayError, Replayed, replay};

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Version of the format. It grows when the layout changes, and when the machines' inputs, outputs or
/// configurations do.
pub const FORMAT: u16 = 9;

/// Longest body of a frame. One input can lead to a plan for each of a thousand peers.
pub const BODY_MAX: usize = 256 * 1024 * 1024;

const MAGIC: [u8; 8] = *b"PCCL-LOG";

/// Length of what comes before the first frame.
const PREAMBLE_BYTES: usize = 12;

/// Length of what comes before a frame's body.
const HEAD_BYTES: usize = 8;

/// Length of what comes after a frame's body.
const HASH_BYTES: usize = 8;

/// The hash that ends a frame.
fn chain(before: u64, head: [u8; HEAD_BYTES], body: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(&[0; 16]);
    hasher.write(&before.to_le_bytes());
    hasher.write(&head);
    hasher.write(body);
    hasher.finish()
}
