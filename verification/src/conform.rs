//! `--conform DIR`: do the machines still say what they said in real runs?
//!
//! A run that was recorded (`PCCL_RECORD=DIR`, or `record` of the builders) leaves one log for each
//! machine. Here every log is replayed through the very machines that the model explores, and every
//! output is compared. It links the two: what was explored is what ran.

use std::path::Path;
use std::process::ExitCode;

use pccl_recording::{NothingToReplay, Summary, conform};

/// Replays every log of the directory. Whether all are equal is for the summary to say
/// ([`Summary::is_equal`]); it prints a line for each log and a total.
///
/// # Errors
/// There was no log to replay: that is a failure as well.
pub(crate) fn run(directory: &Path) -> Result<Summary, NothingToReplay> {
    conform(directory)
}

/// Replays, prints, and says whether all is well.
pub(crate) fn main(directory: &Path) -> ExitCode {
    match run(directory) {
        Ok(summary) => {
            println!("{summary}");
            if summary.is_equal() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(nothing) => {
            eprintln!("verification: {nothing}");
            ExitCode::FAILURE
        }
    }
}
