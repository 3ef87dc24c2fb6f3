//! The machine beside each training process.

mod io;

pub use io::{
    Answer, Call, CallError, Committed, Joined, PeerConfig, PeerInput, PeerOutput, PeerTimer,
    Synchronized, Usage,
};
