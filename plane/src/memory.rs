//! The memory of operations: the user's buffers, what undoes a write to them, and frame buffers.

mod backup;
mod buffers;
mod pool;
mod zeroed;

pub use backup::Backup;
pub(crate) use buffers::ResultMemory;
pub use buffers::UserBuffers;
pub(crate) use pool::{Pool, Scratch};
pub use zeroed::ZeroedMemory;
