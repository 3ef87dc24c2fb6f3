//! A training run that does not wait for its network, and survives its peers.
//!
//! `cargo run --release --example async_diloco` does what the `diloco` example does, with one
//! difference: the average of a round is computed while the next round is being trained, and applied
//! one round late. Peers are killed and others join as there; at the end every peer must hold the
//! same bits.
//!
//! # A round
//!
//! 1. Ask whether anybody waits to be admitted (the reduce of the last round may still run). If so:
//!    await that reduce, admit the newcomers, give them the outer state.
//! 2. Train from the outer parameters; the difference is this round's pseudo-gradient.
//! 3. Await the reduce of the last round and apply its average.
//! 4. If somebody was admitted in step 1, synchronize a second time. The newcomers took no part in the
//!    reduce that was applied in step 3, so they have no average: the others *send only*, and the
//!    newcomers, of whom there may be more, *receive only*.
//! 5. Start the reduce of this round's pseudo-gradient.
//!
//! The second synchronization keeps a pseudo-gradient and the parameters that it starts from apart:
//! a newcomer trains in step 2 from the same parameters as everybody else and contributes in step 5.
//! It stands before step 5 because a synchronization and a reduce may not run together.
//!
//! # Why nobody falls out of step
//!
//! Whoever decides anything here decides it by something that all peers know alike: the answer in
//! step 1, the number of rounds (shared state), the world size of an epoch, the verdict on a reduce,
//! the result of a synchronization. A reduce that loses a peer is aborted for all survivors, and each
//! of them starts it again with the same numbers. So all survivors make the same calls in the same
//! order; a [`Conflict`](pccl::Error::Conflict) would be a mistake in this program, and ends it.
//!
//! The exit code is 0 only if everything in the closing tables holds.

mod flight;
mod outer;
mod peer;
#[path = "../run/mod.rs"]
mod run;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    run::main(run::Program {
        name: "async_diloco",
        train: peer::train,
        optimizes: false,
    })
}
