//! The line on a terminal that shows how far a churn is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::pulse::Pulse;
use super::report::Tally;

/// One line on standard error, if that is a terminal.
#[derive(Debug)]
pub(super) struct Live {
    bar: ProgressBar,
    is_verbose: bool,
}

impl Live {
    /// Shows the line. Whether each event is printed as well is up to `is_verbose`.
    pub(super) fn new(is_verbose: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, is_verbose }
    }

    pub(super) fn show(&self, peers: usize, tally: &Tally, pulse: &Pulse) {
        if self.bar.is_hidden() {
            return;
        }
        let [worst, _] = pulse.worst();
        let stall = pulse.longest_stall();
        self.bar.set_message(format!(
            "{peers} peers  {} deaths  {} joins  {} commits  {} aborts  {} retries  worst recovery {worst:.1?}  longest \
             stall {stall:.1?}",
            tally.deaths, tally.joins, tally.commits, tally.aborts, tally.retries,
        ));
    }

    /// Prints a line that few need.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        if self.is_verbose {
            self.say(&line());
        }
    }

    /// Prints a line.
    pub(super) fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
