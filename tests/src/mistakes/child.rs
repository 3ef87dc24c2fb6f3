//! Running a program that may never end.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether the program has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What a program has said, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// `None`: it was killed, because its time was over.
    pub status: Option<ExitStatus>,
    /// Both of its outputs, one after the other.
    pub said: String,
}

impl Ended {
    /// Whether the program says that all is well.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a program, for so long at most.
///
/// # Errors
/// It cannot be started, or waited for.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Ended> {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.stdin(Stdio::null()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Whoever writes more than a pipe holds waits until it is read.
    let (out, err) = (
        thread::spawn(move || all_of(out)),
        thread::spawn(move || all_of(err)),
    );
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK);
    };
    let said = [out, err].map(|reader| reader.join().unwrap_or_default());
    Ok(Ended {
        status,
        said: said.concat(),
    })
}

/// What is not text is not lost sight of.
fn all_of(from: Option<impl Read>) -> String {
    let mut all = Vec::new();
    if let Some(mut from) = from {
        // What was read before an error still says something.
        let _ = from.read_to_end(&mut all);
    }
    String::from_utf8_lossy(&all).into_owned()
}
