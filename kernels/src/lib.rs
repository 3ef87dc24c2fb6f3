//! Element-wise reduction and content hashing for pccl, on plain bytes.
//!
//! A received frame is a slice of bytes at any address, little-endian, so everything here takes
//! byte slices and promises nothing about alignment. Results are the same on every machine and
//! for every way in which a buffer is cut into frames.
//!
//! - [`reduce()`]: `into[i] = into[i] op from[i]` ([`Op`] over [`Element`]).
//! - [`divide()`]: the division that makes a sum an average.
//! - [`simplehash()`]: a 32-bit hash of content, computed by all cores.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod codec;
mod content_hash;
mod divide;
mod element;
#[cfg(test)]
mod every_isa;
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
