//! A training run that survives its peers.
//!
//! `cargo run --release --example diloco` starts a master and four processes of itself that train a
//! small classifier of handwritten digits together with DiLoCo (Douillard et al., 2023): every peer
//! takes some AdamW steps on its own part of the data, then the peers average how far they moved, and
//! an outer Nesterov step moves the shared weights. Meanwhile some peers are killed with SIGKILL, also
//! in the middle of a reduce, and others join. At the end every peer must hold the same bits.
//!
//! With `--optimize` the peers call `optimize_topology` whenever they are others than before, and some are killed in
//! the middle of it. `--hosts` and `--launch` start the peers on several machines or in network namespaces.
//!
//! The exit code is 0 only if everything in the closing table holds.

mod peer;
#[path = "../run/mod.rs"]
mod run;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    run::main(run::Program {
        name: "diloco",
        train: peer::train,
        optimizes: true,
    })
}
