//! Element-wise reduction and content hashing for pccl, on plain bytes.
//!
//! A received frame is a slice of bytes at any address, little-endian, so everything here takes
//! byte slices and promises nothing about alignment. Results are the same on every machine and
//! for every way in which a buffer is cut into frames.
//!
//! - [`reduce()`]: `into[i] = into[i] op from[i]` ([`Op`] over [`Element`]); [`reduce_into()`] writes
//!   elsewhere, [`reduce_saving()`] keeps what it overwrites.
//! - [`divide()`]: the division that makes a sum an average.
//! - [`Codec`]: floats as small integers ([`Scheme`]), and reductions of what came so.
//! - [`simplehash()`]: a 32-bit hash of content, [`content_hash()`]: one that nobody can forge. Both
//!   are computed by all cores; everything else stays on the caller's.
//!
//! Every kernel is written once, for one element, and compiled for several instruction sets; the
//! best one of the machine is chosen when a function is called.
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
mod simplehash;

pub use codec::{Codec, Scheme};
pub use content_hash::content_hash;
pub use divide::divide;
pub use element::{Element, KernelError, Op};
pub use reduce::{reduce, reduce_into, reduce_saving};
pub use simplehash::simplehash;
