//! The measurement of `--bin resident`, on a smaller buffer.
#![cfg(target_os = "linux")]

use std::path::Path;

use pccl_tests::resident::{peak, words};

const MIB: u64 = 1024 * 1024;

#[test]
fn a_peer_that_reduces_in_place_has_the_buffer_a_backup_and_little_else() {
    let program = Path::new(env!("CARGO_BIN_EXE_test_peer"));
    let buffer = 64 * MIB;

    let peak = peak(program, buffer).unwrap();

    println!("{}", words(buffer, peak));
    assert!(peak >= 2 * buffer, "{peak} bytes cannot hold a backup");
    assert!(peak <= 2 * buffer + 64 * MIB, "{peak} bytes");
}
