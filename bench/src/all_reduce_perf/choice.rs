//! How good the master's choice of the algorithm is: every algorithm that can carry a size, measured in turns, beside
//! the one that it chooses.

use std::fmt::Write as _;

use serde::Serialize;

use super::work::Work;

/// A choice is good if it takes at most so many times as long as the best. The criterion of the paper on collectives for
/// Frontier.
const GOOD: f64 = 1.15;

/// One size among so many peers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// What was measured.
    pub(crate) work: String,
    pub(crate) peers: usize,
    pub(crate) lanes: u16,
    /// Of the whole buffer.
    pub(crate) bytes: usize,
    /// Was the topology optimized before?
    pub(crate) optimized: bool,
    /// What the master chooses if nobody wishes anything.
    pub(crate) chosen: String,
    pub(crate) times: Vec<Time>,
    /// Elements that were not as expected.
    pub(crate) wrong: u64,
}

/// How long an algorithm takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Time {
    pub(crate) algorithm: String,
    /// Median.
    pub(crate) time_us: f64,
}

impl Cell {
    fn best(&self) -> Option<&Time> {
        let by_time = |one: &&Time, other: &&Time| one.time_us.total_cmp(&other.time_us);
        self.times.iter().min_by(by_time)
    }

    fn time_of_choice(&self) -> Option<f64> {
        let chosen = self.times.iter().find(|time| time.algorithm == self.chosen);
        chosen.map(|time| time.time_us)
    }

    /// Time of the choice over that of the best. `None`: it was not measured.
    pub(crate) fn over_best(&self) -> Option<f64> {
        Some(self.time_of_choice()? / self.best()?.time_us)
    }

    /// Above the lines.
    pub(crate) fn heading(of: &Work, (peers, lanes): (usize, u16), is_optimized: bool) -> String {
        let optimized = if is_optimized { ", optimized ring" } else { "" };
        format!(
            "#\n# {of}, {peers} peers, lanes asked for: {lanes}, every algorithm{optimized}\n#{:>11}{:>17}{:>12}{:>11}  times of all (us)",
            "size (B)", "chosen", "time (us)", "over best"
        )
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "none".into(), |value| format!("{value:.digits$}"))
        };
        let mut line = format!(
            "{:>12}{:>17}{:>12}{:>11} ",
            self.bytes,
            self.chosen,
            number(self.time_of_choice(), 1),
            number(self.over_best(), 2),
        );
        for time in &self.times {
            // Writing to a string does not fail.
            let _ = write!(line, " {} {:.1}", time.algorithm, time.time_us);
        }
        if self.wrong > 0 {
            let _ = write!(line, " #wrong {}", self.wrong);
        }
        line
    }
}

/// How many choices are good. Empty without cells.
pub(crate) fn verdict(cells: &[Cell]) -> String {
    let over: Vec<f64> = cells.iter().filter_map(Cell::over_best).collect();
    let good = over.iter().filter(|over| **over <= GOOD).count();
    let Some(worst) = over.iter().copied().reduce(f64::max) else {
        return String::new();
    };
    format!(
        "# choice   {good} of {} within 15 % of the best ({:.0} %); the worst takes {worst:.2} times as long\n",
        cells.len(),
        100.0 * good as f64 / cells.len() as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(chosen: &str, times: &[(&str, f64)]) -> Cell {
        let time = |(algorithm, time_us): &(&str, f64)| Time {
            algorithm: (*algorithm).to_owned(),
            time_us: *time_us,
        };
        Cell {
            work: String::new(),
            peers: 4,
            lanes: 1,
            bytes: 4096,
            optimized: false,
            chosen: chosen.to_owned(),
            times: times.iter().map(time).collect(),
            wrong: 0,
        }
    }

    #[test]
    fn a_choice_is_compared_with_the_best_and_one_that_was_not_measured_is_not_good() {
        let times = [("ring", 300.0), ("direct", 200.0)];
        let cells = [
            cell("direct", &times),
            cell("ring", &times),
            cell("tree", &times),
        ];

        assert_eq!(
            cells.each_ref().map(Cell::over_best),
            [Some(1.0), Some(1.5), None]
        );
        let verdict = verdict(&cells);

        assert!(verdict.contains("1 of 3 within"), "{verdict}");
        assert!(verdict.contains("1.50 times"), "{verdict}");
    }
}
