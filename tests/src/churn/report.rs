//! What a churn has done and found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::finding::Finding;
use super::growth::Growth;
use super::plan::Act;
use super::stalls::MasterKills;

/// The master tolerates silence for so long, by default.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// What was done to the peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Processes that were started after the first ones.
    pub added: u64,
    /// Processes that got SIGKILL.
    pub killed: u64,
    /// Stops for less time than the master tolerates silence.
    pub stopped: u64,
    /// Stops for more time than that.
    pub stopped_for_long: u64,
    /// Peers that left between two steps, and connected again.
    pub left: u64,
    /// Peers that left while reduces were in flight, and connected again.
    pub left_midway: u64,
    /// Peers whose connections to others were reset.
    pub lanes_cut: u64,
    /// Peers all of whose connections were reset.
    pub all_cut: u64,
}

impl Faults {
    /// Counts one.
    pub fn count(&mut self, act: Act) {
        *match act {
            Act::Add(_) => &mut self.added,
            Act::Kill(_) => &mut self.killed,
            Act::Stop(_, time) if time > SILENCE => &mut self.stopped_for_long,
            Act::Stop(..) => &mut self.stopped,
            Act::Leave(_) => &mut self.left,
            Act::LeaveMidway(_) => &mut self.left_midway,
            Act::CutLanes(_) => &mut self.lanes_cut,
            Act::CutAll(_) => &mut self.all_cut,
        } += 1;
    }
}

/// What the peers have told, added up. What a killed peer had not told yet is not among it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Processes that were killed and are gone.
    pub deaths: u64,
    /// Admissions of peers, also again.
    pub joins: u64,
    /// Steps of the group: revisions of the state on which somebody has done a step.
    pub steps: u64,
    /// Results that peers have got, each of which was checked.
    pub commits: u64,
    /// Verdicts of the master that peers have heard.
    pub verdicts: u64,
    /// Attempts that were aborted.
    pub aborts: u64,
    /// Calls that were made again in their step.
    pub retries: u64,
    /// Steps that were started again.
    pub restarts: u64,
    /// Connections that were lost, and made again.
    pub lost: u64,
    /// Synchronizations in which a peer got content from others.
    pub fetches: u64,
    /// Errors by their texts, in which `#` stands for every number.
    pub errors: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts an error.
    pub fn error(&mut self, text: &str) {
        let mut pattern = String::new();
        for character in text.chars() {
            match character {
                '0'..='9' if pattern.ends_with('#') => {}
                '0'..='9' => pattern.push('#'),
                other => pattern.push(other),
            }
        }
        *self.errors.entry(pattern).or_default() += 1;
    }
}

/// The result of a churn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where all faults and all numbers come from.
    pub seed: u64,
    /// The most peers at a time.
    pub max_peers: usize,
    /// How long it took.
    pub seconds: f64,
    /// Whether all checks hold.
    pub holds: bool,
    /// What must not be.
    pub findings: Vec<Finding>,
    /// What was done.
    pub faults: Faults,
    /// What was told.
    pub tally: Tally,
    /// The longest time without a step of anybody.
    pub longest_stall_ms: u64,
    /// Kills after which others have done a step without the peer.
    pub recoveries: u64,
    /// The longest of these times, if nobody was stopped meanwhile.
    pub worst_recovery_ms: u64,
    /// The longest of these times, if somebody was stopped meanwhile.
    pub worst_recovery_beside_a_stop_ms: u64,
    /// What became of kills of the master. `None`: it was not killed.
    pub master_kills: Option<MasterKills>,
    /// Samples of each process in each rest.
    pub samples: usize,
    /// What the processes that live long held in the rests.
    pub growth: Vec<Growth>,
    /// Whether growth counts as a failure. A run of some faults rests only once.
    pub growth_is_judged: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (faults, tally) = (&self.faults, &self.tally);
        writeln!(
            f,
            "seed {}, up to {} peers, {:.1} s",
            self.seed, self.max_peers, self.seconds
        )?;
        writeln!(
            f,
            "faults: {} added, {} killed, {} stopped ({} more for long), {} left ({} more in mid-reduce), lanes of {} \
             reset (all connections of {} more)",
            faults.added,
            faults.killed,
            faults.stopped,
            faults.stopped_for_long,
            faults.left,
            faults.left_midway,
            faults.lanes_cut,
            faults.all_cut
        )?;
        writeln!(
            f,
            "peers: {} deaths, {} admissions, {} connections lost and made again, {} states fetched",
            tally.deaths, tally.joins, tally.lost, tally.fetches
        )?;
        writeln!(
            f,
            "calls: {} steps of the group, {} results checked, {} attempts aborted, {} calls made again, {} steps \
             started again",
            tally.steps, tally.commits, tally.aborts, tally.retries, tally.restarts
        )?;
        writeln!(
            f,
            "times: longest stall {} ms; worst of {} recoveries from a kill {} ms, {} ms beside a stopped peer",
            self.longest_stall_ms,
            self.recoveries,
            self.worst_recovery_ms,
            self.worst_recovery_beside_a_stop_ms
        )?;
        if let Some(kills) = &self.master_kills {
            writeln!(f, "{kills}")?;
        }
        for (error, times) in &tally.errors {
            writeln!(f, "error, {times} times: {error}")?;
        }
        self.write_growth(f)?;
        for finding in &self.findings {
            writeln!(f, "FOUND: {finding}")?;
        }
        match self.holds {
            true => write!(f, "all checks hold"),
            false => write!(
                f,
                "NOT all checks hold; run it again with --seed {}",
                self.seed
            ),
        }
    }
}

impl Report {
    fn write_growth(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let judged = if self.growth_is_judged {
            "the first is after the warm-up"
        } else {
            "not judged"
        };
        writeln!(
            f,
            "held in each rest, medians of {} samples ({judged}):",
            self.samples
        )?;
        for row in &self.growth {
            write!(f, "  {:8} {:12}", row.who, row.what)?;
            for median in &row.medians {
                write!(f, " {median:>8}")?;
            }
            writeln!(f, " {:+6.1} %", row.percent())?;
        }
        Ok(())
    }
}
