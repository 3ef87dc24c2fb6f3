//! A line that says how far the work is: one that moves on a terminal, one every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::words::{count, rate};

const EVERY: Duration = Duration::from_secs(5);

/// On the standard error, so that the table alone is the output.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    said: Instant,
}

impl Progress {
    /// `what` is being done, in a few words.
    pub(crate) fn new(what: String) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self {
            bar,
            what,
            said: Instant::now(),
        }
    }

    /// So many states of a scenario in so much time.
    pub(crate) fn show(&mut self, scenario: &str, unique: usize, time: Duration) {
        let seconds = time.as_secs_f64();
        let (states, speed) = (count(unique), rate(unique, time));
        self.say(&format!(
            "{scenario}: {states} states, {speed} a second, {seconds:.0} s"
        ));
    }

    /// Anything else. Elsewhere than on a terminal, most of it goes unsaid.
    pub(crate) fn say(&mut self, words: &str) {
        if self.bar.is_none() && self.said.elapsed() < EVERY {
            return;
        }
        let line = format!("{}: {words}", self.what);
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => {
                eprintln!("{line}");
                self.said = Instant::now();
            }
        }
    }
}

#[cfg(feature = "mutants")]
impl Progress {
    /// What stays on the screen.
    pub(crate) fn conclude(&self, words: &str) {
        let line = format!("{}: {words}", self.what);
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
