//! Fuzz targets: everything that reads bytes which somebody else has made, and both machines.
//!
//! A target is a function of any bytes. It panics if it finds a defect. Three programs run the same targets:
//!
//! - libFuzzer, guided by coverage: `tests/libfuzzer`, a package of its own;
//! - `cargo run --release -p pccl-tests --bin fuzz`, which needs no other tool: it mutates the kept inputs ([`mutate`]);
//! - `cargo test -p pccl-tests --test fuzzed`, over the kept inputs of `tests/corpus`, a folder for each target.
//!
//! | module | targets |
//! |---|---|
//! | [`connections`] | preambles, replies and what else opens a connection |
//! | [`messages`] | control frames in both directions, with session frames between them |
//! | [`frames`] | headers of data frames, requests and ranges of shared state, quantized frames |
//! | [`stored`] | logs, join strings, keys as text, files of invitations |
//! | [`records`] | records of TLS |
//! | [`master`] | the master machine among peers that lie |
//! | [`peer`] | a peer machine whose master lies, in a run with others whose master does not |
//!
//! [`made`] makes values of any type out of any bytes, so most inputs of a machine are messages and not garbage.

pub mod connections;
pub mod corpus;
pub mod frames;
pub mod made;
pub mod master;
pub mod messages;
pub mod mutate;
pub mod peer;
pub mod records;
pub mod stored;

use std::sync::OnceLock;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in `tests/corpus`.
    pub name: &'static str,
    /// Panics if it finds a defect.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    of("preamble", connections::preamble),
    of("reply", connections::reply),
    of("handshake", connections::handshake),
    of("to_master", messages::to_master),
    of("to_peer", messages::to_peer),
    of("made_messages", messages::made),
    of("frame_header", frames::frame_header),
    of("state_request", frames::state_request),
    of("quantized", frames::quantized),
    of("log", stored::log),
    of("join_string", stored::join_string),
    of("public_key", stored::public_key),
    of("invitations", stored::invitations),
    of("tls_records", records::tls_records),
    of("master", master::master),
    of("peer", peer::peer),
];

const fn of(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Bytes that the program has ever allocated, if its allocator counts them.
static ALLOCATED: OnceLock<fn() -> usize> = OnceLock::new();

/// Names the function that returns how many bytes the program has allocated so far. Without it [`frugal`] checks
/// nothing. For the start of a program with one thread; a second call has no effect.
pub fn count_allocations_with(allocated: fn() -> usize) {
    let _: Result<(), _> = ALLOCATED.set(allocated);
}

/// Maximum number of bytes that one step of a target may allocate in all, apart from a multiple of its input: what an
/// announced length may cost before the bytes have arrived.
pub const ALLOCATED_MAX: usize = 1 << 20;

/// Runs one step on `input` bytes, which may allocate `times` that many bytes and [`ALLOCATED_MAX`].
///
/// # Panics
/// The step has allocated more.
pub fn frugal<T>(input: usize, times: usize, step: impl FnOnce() -> T) -> T {
    let Some(allocated) = ALLOCATED.get() else {
        return step();
    };
    let before = allocated();
    let done = step();
    let cost = allocated() - before;
    let most = ALLOCATED_MAX + times * input;
    assert!(
        cost <= most,
        "{cost} bytes were allocated for an input of {input}; at most {most} are allowed"
    );
    done
}
