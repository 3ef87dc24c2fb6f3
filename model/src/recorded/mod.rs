//! The logs of a real run, judged: whether each input is one that a sound environment gives, whether the
//! logs of master and peers say the same, whether the model's claims hold over all of them together, and
//! whether anything is missing.
//!
//! ```text
//!  logs ──▶ log ──▶ peer_hears, master_hears        each log by itself
//!            │
//!            └────▶ visits ──▶ join ──▶ compare      the two ends of each connection
//!                                └────▶ order ──▶ joined ──▶ the bystander
//!                                └────▶ causes       why reduces failed
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `rule` | what must hold, as sentences |
//! | `log` | reading logs as far as they are sound |
//! | `peer_hears`, `master_hears`, `timers` | inputs that a sound environment gives |
//! | `visits`, `join` | which connection of which master is whose log |
//! | `compare` | what one end heard is what the other said; what is cut or missing |
//! | `order` | one order of all that happened |
//! | `joined` | a recorded run, gone through again before the bystander's eyes |
//! | `causes` | collectives that were aborted, and why |
//!
//! Whether a machine says again what it said is another question: `pccl_core::log::replay` has the answer.

mod causes;
mod compare;
mod join;
mod joined;
mod log;
mod master_hears;
mod order;
mod peer_hears;
mod rule;
mod timers;
mod visits;

use std::fmt;

pub use causes::CollectiveOutcomes;
pub use rule::{Finding, RULES, Rule, Weight};

use compare::Logs;
use join::LogPair;
use joined::RunReplay;
use log::Read;

/// What the logs of a directory say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What is wrong or missing, by log.
    pub findings: Vec<Finding>,
    /// What is worth knowing, and as it should be.
    pub notes: Vec<String>,
    /// The runs, by master.
    pub runs: Vec<JoinedRun>,
}

/// A master, and the peers whose logs are here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedRun {
    /// The name of the master's log.
    pub master: String,
    /// How many of its peers have logs.
    pub peers: usize,
    /// Records of all of them that were gone through in one order.
    pub records: usize,
    /// How its collectives ended.
    pub ends: CollectiveOutcomes,
}

/// Judges logs, each with its name. The processes should have ended: of what still goes on, one log may
/// have more than another.
///
/// Holds all logs in memory.
#[must_use]
pub fn judge(files: &[(String, Vec<u8>)]) -> Judgement {
    let mut judgement = Judgement::default();
    let logs = read_all(files, &mut judgement);
    for log in &logs.masters {
        master_hears::judge(log, &mut judgement.findings);
    }
    for log in &logs.peers {
        peer_hears::judge(log, &mut judgement.findings);
    }
    let compared = logs.compare();
    judgement.findings.extend(compared.findings);
    judgement.notes.extend(compared.notes);
    for master in 0..logs.masters.len() {
        let run = judge_run(&logs, master, &mut judgement.findings);
        judgement.runs.push(run);
    }
    let key = |finding: &Finding| (finding.rule.weight(), finding.log.clone(), finding.record);
    judgement.findings.sort_by_key(key);
    judgement
}

fn read_all(files: &[(String, Vec<u8>)], judgement: &mut Judgement) -> Logs {
    let (mut masters, mut peers) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        match log::read(name, bytes) {
            Read::Master(log) => masters.push(log),
            Read::Peer(log) => peers.push(log),
            Read::Empty => judgement.notes.push(format!(
                "{name} is empty: its process ended before it wrote anything"
            )),
            // The replay says so.
            Read::Unreadable => {}
        }
    }
    let visits: Vec<_> = masters.iter().map(visits::visits).collect();
    let words: Vec<_> = peers.iter().map(visits::words).collect();
    let pairs = join::pairs(&visits, &words);
    Logs {
        masters,
        visits,
        peers,
        words,
        pairs,
    }
}

fn judge_run(logs: &Logs, master: usize, found: &mut Vec<Finding>) -> JoinedRun {
    let pairs = logs.pairs.iter().filter(|pair| pair.master == master);
    let pairs: Vec<LogPair> = pairs.copied().collect();
    let order = order::order(logs, master, &pairs, found);
    RunReplay::new(logs, master, &pairs).go(&order, found);
    JoinedRun {
        master: logs.masters[master].name.clone(),
        peers: pairs.len(),
        records: order.len(),
        ends: causes::causes(logs, master, found),
    }
}

impl Judgement {
    /// Nothing is wrong with what is there.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.of(Weight::Wrong).next().is_none()
    }

    /// Nothing is missing: no log, and no end of one.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.of(Weight::Missing).next().is_none()
    }

    /// What was found of this weight.
    pub fn of(&self, weight: Weight) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(move |finding| finding.rule.weight() == weight)
    }
}

impl fmt::Display for Judgement {
    /// A line per note, finding and run, and a verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        self.fmt_findings(f)?;
        for run in &self.runs {
            writeln!(f, "{run}")?;
        }
        let (wrong, missing) = (
            self.of(Weight::Wrong).count(),
            self.of(Weight::Missing).count(),
        );
        match (wrong, missing) {
            (0, 0) => write!(f, "The logs agree, and nothing is missing."),
            (0, missing) => write!(
                f,
                "Of what is there all agrees; {missing} logs or ends are missing."
            ),
            (wrong, 0) => write!(f, "{wrong} rules or claims are BROKEN."),
            (wrong, missing) => write!(
                f,
                "{wrong} rules or claims are BROKEN; {missing} logs or ends are missing."
            ),
        }
    }
}

impl Judgement {
    /// Of each rule and log the first: what comes later mostly follows from it.
    fn fmt_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.findings.iter().enumerate() {
            let is_alike = |other: &&Finding| {
                (other.rule, other.log.as_str()) == (finding.rule, finding.log.as_str())
            };
            let (earlier, rest) = self.findings.split_at(at);
            if earlier.iter().any(|other| is_alike(&other)) {
                continue;
            }
            writeln!(f, "{finding}")?;
            let more = rest.iter().filter(is_alike).count() - 1;
            if more > 0 {
                writeln!(f, "    and {more} times more in this log")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for JoinedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            master,
            peers,
            records,
            ends,
        } = self;
        write!(
            f,
            "{master} and {peers} peers: {records} records in one order, {} collectives committed, {} aborted",
            ends.committed, ends.aborted
        )
    }
}
