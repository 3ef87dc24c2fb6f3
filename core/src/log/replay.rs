//! Replaying a log: does the machine still say what it said?

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Log, LogError, Machine, Records, open};

/// A log whose machine says all over again what it said, output for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// [`Machine::NAME`].
    pub machine: &'static str,
    /// Inputs that were given to the machine.
    pub records: u64,
    /// Outputs that were compared, and are equal.
    pub outputs: u64,
    /// Bytes of a last record that was being written when the process ended. Nothing is known of it.
    pub torn: usize,
}

/// Why a log is no proof of what its machine does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read to its end.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The machine says something else: it is not the one that wrote the log, or not pure.
    #[error(transparent)]
    Difference(Box<Difference>),
}

/// The first output that differs, in words. Tickets and keys are compared but not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Difference {
    /// In which record, counted from one.
    pub record: u64,
    /// What happened.
    pub input: String,
    /// Which output to it, counted from one.
    pub output: u64,
    /// What the log has; `None`: no such output.
    pub logged: Option<String>,
    /// What the machine says; `None`: no such output.
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

/// Makes the log's machine anew, gives it all inputs of the log, and compares what it says.
///
/// # Errors
/// The log is damaged, or an output differs; see there.
pub fn replay(log: &[u8]) -> Result<Replayed, ReplayError> {
    match open(log)? {
        Log::Master { config, records } => replay_records(config, records),
        Log::Peer { config, records } => replay_records(config, records),
    }
}

fn replay_records<M: Machine>(
    config: M::Config,
    mut records: Records<'_, M>,
) -> Result<Replayed, ReplayError> {
    let mut machine = M::begin(config);
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

/// Says what differs in the next of these records, which the machine has answered with `replayed`.
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
