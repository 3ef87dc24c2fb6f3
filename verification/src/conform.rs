//! `--conform DIR`: did real runs keep to what the model holds of all runs?
//!
//! A run that was recorded (`PCCL_RECORD=DIR`, or `record` of the builders) leaves one log for each
//! machine. Four questions are asked. Does each machine, given its inputs again, say what it said? It
//! links the two: what was explored is what ran. Is each input one that a sound environment gives, and do
//! the logs of the master and its peers say the same? And do the claims of the model, and progress, hold
//! over all of them together? Is every log there, and whole?

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use pccl_model::recorded::{Judgement, judge};
use pccl_recording::{NothingToReplay, Summary, conform, logs};

/// What the logs of a directory say.
pub(crate) struct Conformance {
    /// Each machine compared with itself.
    replayed: Summary,
    /// The logs compared with each other, and with the claims.
    judged: Judgement,
}

/// Replays and judges every log of the directory.
///
/// # Errors
/// There was no log.
pub(crate) fn run(directory: &Path) -> Result<Conformance, NothingToReplay> {
    Ok(Conformance {
        replayed: conform(directory)?,
        judged: judge(&logs(directory)?),
    })
}

impl Conformance {
    /// 0: all is well. 1: something is wrong. 3: nothing is wrong with what is there, but a log is cut or
    /// missing.
    fn exit_code(&self) -> u8 {
        if !self.replayed.is_equal() || !self.judged.is_sound() {
            1
        } else if !self.judged.is_whole() {
            3
        } else {
            0
        }
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.replayed)?;
        write!(f, "{}", self.judged)
    }
}

/// Looks, prints, and says whether all is well.
pub(crate) fn main(directory: &Path) -> ExitCode {
    match run(directory) {
        Ok(conformance) => {
            println!("{conformance}");
            ExitCode::from(conformance.exit_code())
        }
        Err(nothing) => {
            eprintln!("verification: {nothing}");
            ExitCode::from(2)
        }
    }
}
