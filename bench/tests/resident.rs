//! The measurement of `--bin resident`, on a smaller buffer.
#![cfg(target_os = "linux")]

use std::path::Path;

use pccl_bench::resident::{peak, words};

const MIB: u64 = 1024 * 1024;

/// Large beside all else that a peer has.
const BUFFER: u64 = 128 * MIB;

/// What a peer may have besides the buffer and its backup: code, stacks, frames, what the system does not
/// take back. It is some 5 MiB, so that an eighth of the buffer on top of it is too much.
const BESIDES: u64 = BUFFER / 8;

#[test]
fn a_peer_that_reduces_in_place_has_the_buffer_a_backup_and_little_else() {
    let program = Path::new(env!("CARGO_BIN_EXE_resident"));

    let peak = peak(program, BUFFER).unwrap();

    println!("{}", words(BUFFER, peak));
    assert!(peak >= 2 * BUFFER, "{peak} bytes cannot hold a backup");
    assert!(peak <= 2 * BUFFER + BESIDES, "{peak} bytes");
}
