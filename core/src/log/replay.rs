//! Replaying a log: whether the machine still gives the same outputs.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Log, LogError, Machine, Records, open, open_of};
use crate::master::Master;
use crate::peer::Peer;

/// A log whose machine gives the same outputs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// [`Machine::NAME`].
    pub machine: &'static str,
    /// Number of inputs.
    pub records: u64,
    /// Number of outputs that were compared, all of them equal.
    pub outputs: u64,
    /// Number of bytes of a last record that was being written when the process ended. It was not replayed.
    pub torn: usize,
}

/// Why a log could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read to its end.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The machine gives another output: it is not the one that wrote the log, or is not pure.
    #[error(transparent)]
    Difference(Box<Difference>),
}

/// The first different output, as text. Tickets and keys are compared but not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Difference {
    /// The number of the record, from one.
    pub record: u64,
    /// The input.
    pub input: String,
    /// The number of the output, from one.
    pub output: u64,
    /// The output in the log. `None`: there is none.
    pub logged: Option<String>,
    /// The output of the machine. `None`: there is none.
    pub replayed: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = "nothing";
        writeln!(f, "record {}, output {}:", self.record, self.output)?;
        writeln!(f, "  input     {}", self.input)?;
        writeln!(
            f,
            "  logged    {}",
            self.logged.as_deref().unwrap_or(nothing)
        )?;
        write!(
            f,
            "  replayed  {}",
            self.replayed.as_deref().unwrap_or(nothing)
        )
    }
}

/// Makes the log's machine again, gives it all inputs of the log, and compares the outputs.
///
/// # Errors
/// [`ReplayError::Log`] if the log is damaged; [`ReplayError::Difference`] if an output differs.
pub fn replay(log: &[u8]) -> Result<Replayed, ReplayError> {
    match open(log)? {
        Log::Master { config, records } => replay_records(&mut Master::begin(config), records),
        Log::Peer { config, records } => replay_records(&mut Peer::begin(config), records),
    }
}

/// As [`replay`], for a log of a machine of type `M`, and returns the machine in its last state.
///
/// # Errors
/// As [`replay`].
pub fn restore<M: Machine>(log: &[u8]) -> Result<(M, Replayed), ReplayError> {
    let (config, records) = open_of::<M>(log)?;
    let mut machine = M::begin(config);
    let replayed = replay_records(&mut machine, records)?;
    Ok((machine, replayed))
}

fn replay_records<M: Machine>(
    machine: &mut M,
    mut records: Records<'_, M>,
) -> Result<Replayed, ReplayError> {
    let mut replayed = Vec::new();
    let mut done = Replayed {
        machine: M::NAME,
        records: 0,
        outputs: 0,
        torn: 0,
    };
    let mut rest = records.clone();
    while let Some(record) = rest.next().transpose()? {
        done.records += 1;
        machine.step(record.input, &mut replayed);
        if record.outputs != replayed {
            let number = done.records;
            return Err(difference(number, records, &replayed).into());
        }
        done.outputs += replayed.len() as u64;
        replayed.clear();
        records = rest.clone();
    }
    done.torn = rest.unread();
    Ok(done)
}

/// Describes the difference between a record and the outputs `replayed` of the machine.
fn difference<M: Machine>(
    number: u64,
    mut records: Records<'_, M>,
    replayed: &[M::Output],
) -> Difference {
    let record = records.next().and_then(Result::ok);
    let (input, logged) = match record {
        Some(record) => (format!("{:?}", record.input), record.outputs),
        None => (String::new(), Vec::new()),
    };
    let same = logged.iter().zip(replayed).take_while(|(a, b)| a == b);
    let first = same.count();
    let words = |outputs: &[M::Output]| outputs.get(first).map(|output| format!("{output:?}"));
    Difference {
        record: number,
        input,
        output: first as u64 + 1,
        logged: words(&logged),
        replayed: words(replayed),
    }
}

impl From<Difference> for ReplayError {
    fn from(difference: Difference) -> Self {
        Self::Difference(Box::new(difference))
    }
}
