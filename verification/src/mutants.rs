//! The checker, checked: each known mistake in the protocol is made, alone, and must be found.
//!
//! The mistakes are compiled into core with the feature `mutants`, which nothing that does work has.
//! Without it this program runs itself again through cargo.

#[cfg(feature = "mutants")]
mod hunt;

#[cfg(feature = "mutants")]
pub(crate) use hunt::{run, switch_on};

use std::process::Command;

use crate::{AllWell, CannotLook};

/// Are the mistakes compiled in?
pub(crate) const CAN_BE_MADE: bool = cfg!(feature = "mutants");

/// Looks for the mistakes that were asked for.
#[cfg(not(feature = "mutants"))]
pub(crate) fn run(_: &crate::arguments::Arguments) -> AllWell {
    run_again()
}

/// Makes a mistake from here on.
#[cfg(not(feature = "mutants"))]
pub(crate) fn switch_on(name: &str) -> Result<(), CannotLook> {
    Err(CannotLook::UnknownMutant(name.to_owned()))
}

/// Where no package is named, features are those of the whole workspace, with which its tests are built: little has to
/// be built again.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

/// The same with the mistakes compiled in, in the same profile.
pub(crate) fn run_again() -> AllWell {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "run",
        "--quiet",
        "--manifest-path",
        WORKSPACE,
        "--bin",
        "verification",
        "--features",
        "verification/mutants",
    ]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.arg("--").args(std::env::args_os().skip(1));
    let status = command.status().map_err(CannotLook::Cargo)?;
    Ok(status.success())
}
