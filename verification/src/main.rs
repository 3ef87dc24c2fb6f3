//! `cargo run -p verification` will explore the protocol and print what was proven within which
//! bounds. Until the model exists it says so and fails, so that nobody mistakes it for a proof.

mod conform;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(flag), Some(directory)) = (arguments.next(), arguments.next())
        && flag == "--conform"
    {
        return conform::main(Path::new(&directory));
    }
    eprintln!("verification: the model is not written yet; nothing was checked");
    ExitCode::FAILURE
}
