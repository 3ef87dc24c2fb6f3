//! Element-wise reduction and content hashing for pccl, on plain bytes.
//!
//! A received frame is a slice of bytes at any address, little-endian, so everything here takes
//! byte slices and promises nothing about alignment. Results are the same on every machine, and
//! those of reductions and divisions for every way in which a buffer is cut into frames. (A codec's
//! frame is encoded by itself: what is lost depends on the cut.)
//!
//! - [`reduce()`]: `into[i] = into[i] op from[i]` ([`Op`] over [`ElementType`]); [`reduce_into()`] writes
//!   elsewhere, [`reduce_saving()`] keeps what it overwrites.
//! - [`divide()`]: the division that makes a sum an average. [`scale()`]: the product that gives a contribution its weight.
//! - [`Codec`]: floats as small integers ([`Scheme`]), and reductions of what came so.
//! - [`simplehash()`]: a 32-bit hash of content, [`content_hash()`]: one that nobody can forge, also
//!   step by step ([`ContentHashing`]).
//!
//! # Instruction sets
//! Every kernel is written once, for one element, and compiled for several instruction sets; the
//! best one of the machine is chosen when a function is called.
//!
//! # Threads
//! Reductions, divisions and codecs run on the caller's thread. An operation is one loop in the task
//! of its caller and works on frames that a core's cache holds; operations beside each other use
//! several cores. On buffers that no cache holds, one core already takes what the memory gives: sums
//! reach 0.8 of a `memcpy` and more, and a second thread on a sum of two buffers of 256 MiB brought
//! nothing where that was measured (16 GB/s with one as with two, on two cores of an AMD EPYC). The
//! hashes, for which callers wait with whole states, are computed by up to 16 threads.
//!
//! # Bits
//! "The same on every machine" counts on floats as IEEE 754 has them, with which every program
//! starts. In a thread that flushes subnormal numbers to zero (by `torch.set_flush_denormal`, or by
//! loading a library built with `-ffast-math`) they become zeros here, too: peers have the same bits
//! only if all of them do that, or none.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod codec;
mod content_hash;
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

pub use codec::{Codec, Scheme};
pub use content_hash::{ContentHashing, content_hash};
pub use divide::divide;
pub use element::{ElementType, KernelError, Op};
pub use reduce::{reduce, reduce_into, reduce_saving};
pub use scale::scale;
pub use simplehash::simplehash;
