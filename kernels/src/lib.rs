//! Element-wise reduction, quantization, checksums and content hashing for pccl, on plain bytes.
//!
//! A received frame is a little-endian slice of bytes at any address, so all functions take byte slices of any
//! alignment. Results are the same on every machine. Those of reductions and divisions do not depend on how a buffer
//! is cut into frames. (A codec encodes each frame by itself, so its error depends on the cut.)
//!
//! - [`reduce()`]: `into[i] = into[i] op from[i]` ([`Op`] over [`ElementType`]). [`reduce_into()`] writes to another
//!   slice, and [`reduce_saving()`] saves what it overwrites.
//! - [`divide()`]: divides sums to get averages. [`scale()`]: multiplies a contribution by its weight.
//! - [`Codec`]: encodes floats as small integers ([`Scheme`]), and reduces encoded frames.
//! - [`checksum()`]: 64 bits against accidents on the way of a frame.
//! - [`simplehash()`]: a 32-bit hash of content. [`content_hash()`]: a hash that nobody can forge, also in steps
//!   ([`ContentHashing`]) and of content that is still arriving ([`PartHashes`]).
//! - [`copy()`]: copies large memory on several cores.
//!
//! # Instruction sets
//! Every kernel is written once, for one element, and compiled for several instruction sets. Each call takes the best
//! one of the machine.
//!
//! # Threads
//! Reductions, divisions and codecs run on the caller's thread. An operation is one loop in the task of its caller,
//! over frames that fit in a core's cache; concurrent operations use several cores. On buffers that fit in no cache,
//! one core already uses the memory bandwidth: sums reach 0.8 of a `memcpy` and more. A second thread on a sum of two
//! buffers of 256 MiB brought nothing where that was measured (16 GB/s with one and with two, on two cores of an AMD
//! EPYC). The hashes, for which callers wait with whole states, use up to 16 threads.
//!
//! # Floats
//! "The same on every machine" holds for IEEE 754 floats, which is the mode in which every program starts. If a
//! thread flushes subnormal numbers to zero (by `torch.set_flush_denormal`, or by loading a library built with
//! `-ffast-math`), they become zeros here as well. Peers then have the same bits only if all of them do that, or
//! none.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod checksum;
mod codec;
mod content_hash;
mod copy;
mod cores;
mod divide;
mod element;
#[cfg(test)]
mod every_isa;
mod f16_blocks;
mod half;
mod isa;
mod number;
mod reduce;
mod scale;
mod simplehash;

pub use checksum::checksum;
pub use codec::{Codec, Scheme};
pub use content_hash::{Content, ContentHashing, PartHashes, content_hash};
pub use copy::copy;
pub use divide::divide;
pub use element::{ElementType, KernelError, Op};
pub use reduce::{reduce, reduce_into, reduce_saving};
pub use scale::scale;
pub use simplehash::simplehash;
