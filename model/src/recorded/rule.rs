//! What must hold of the logs of a real run, as sentences.

use std::fmt;

use crate::claim::Claim;

/// A property of recorded logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Rule {
    // Inputs: what a sound environment gives a machine.
    TimersRun,
    TimersTakeTheirTime,
    HelloFirst,
    Edges,
    Lanes,
    Executions,
    Transfers,
    Measurements,
    Moved,
    OverIsOver,
    Newcomers,
    Speakers,
    Misdeeds,
    Solver,
    // The logs of a run together.
    Downward,
    Upward,
    Order,
    Causes,
    Progress,
    /// What the model holds of all runs.
    Holds(Claim),
    // What is there to look at.
    Whole,
    Everybody,
    Master,
}

/// What it means that a rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Something is wrong.
    Wrong,
    /// Something is not there: nothing is known of it.
    Missing,
}

/// All rules but those of the model.
pub const RULES: &[Rule] = &[
    Rule::TimersRun,
    Rule::TimersTakeTheirTime,
    Rule::HelloFirst,
    Rule::Edges,
    Rule::Lanes,
    Rule::Executions,
    Rule::Transfers,
    Rule::Measurements,
    Rule::Moved,
    Rule::OverIsOver,
    Rule::Newcomers,
    Rule::Speakers,
    Rule::Misdeeds,
    Rule::Solver,
    Rule::Downward,
    Rule::Upward,
    Rule::Order,
    Rule::Causes,
    Rule::Progress,
    Rule::Whole,
    Rule::Everybody,
    Rule::Master,
];

impl Rule {
    /// The rule as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::TimersRun => "a timer runs out only where it was started, and not stopped since",
            Self::TimersTakeTheirTime => {
                "a timer takes its time: signs of life that fall due meanwhile come before it"
            }
            Self::HelloFirst => "a peer hears nothing before it has said hello",
            Self::Edges => {
                "an edge is reported once, in the round that was ordered last; that it failed, by the end that dials"
            }
            Self::Lanes => {
                "a lane that is lost was built in a round that was adopted, or is up and waits for that"
            }
            Self::Executions => "an execution ends once, and only where it was ordered",
            Self::Transfers => "transfers end once, and only those of a plan",
            Self::Measurements => {
                "a measurement is one of those that were ordered last, and there is one of each"
            }
            Self::Moved => {
                "bytes have moved only where some could, and a sign of life follows at once"
            }
            Self::OverIsOver => {
                "who is out of the run hears no more than calls, and the ends of what it was ordered"
            }
            Self::Newcomers => "a connection says hello once",
            Self::Speakers => {
                "a peer is heard from its registration to the end of its connection, and never else"
            }
            Self::Misdeeds => {
                "a driver accuses nobody but of words that are none, and of not reading"
            }
            Self::Solver => {
                "the solver answers what it was asked, once, and as it answers everywhere"
            }
            Self::Downward => "what a peer hears is what the master said to it, in that order",
            Self::Upward => "what the master hears is what the peer said, in that order",
            Self::Order => "nothing is heard before it was said",
            Self::Causes => "a collective is aborted for a cause that the logs show",
            Self::Progress => {
                "a run of which every reduce fails has a cause for it: a death, a lost lane, a refusal"
            }
            Self::Holds(claim) => claim.sentence(),
            Self::Whole => "a log goes on to the end of its machine, or its process was seen to go",
            Self::Everybody => "every peer that the master has registered has a log",
            Self::Master => "every peer that was welcomed has its master's log beside its own",
        }
    }

    /// What it means that it is broken.
    #[must_use]
    pub const fn weight(self) -> Weight {
        match self {
            Self::Whole | Self::Everybody | Self::Master => Weight::Missing,
            Self::TimersRun
            | Self::TimersTakeTheirTime
            | Self::HelloFirst
            | Self::Edges
            | Self::Lanes
            | Self::Executions
            | Self::Transfers
            | Self::Measurements
            | Self::Moved
            | Self::OverIsOver
            | Self::Newcomers
            | Self::Speakers
            | Self::Misdeeds
            | Self::Solver
            | Self::Downward
            | Self::Upward
            | Self::Order
            | Self::Causes
            | Self::Progress
            | Self::Holds(_) => Weight::Wrong,
        }
    }

    /// One word for it, in capitals.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::TimersRun
            | Self::TimersTakeTheirTime
            | Self::HelloFirst
            | Self::Edges
            | Self::Lanes
            | Self::Executions
            | Self::Transfers
            | Self::Measurements
            | Self::Moved
            | Self::OverIsOver
            | Self::Newcomers
            | Self::Speakers
            | Self::Misdeeds
            | Self::Solver => "UNSOUND",
            Self::Downward | Self::Upward | Self::Order => "AT ODDS",
            Self::Causes => "WITHOUT CAUSE",
            Self::Progress => "NO PROGRESS",
            Self::Holds(_) => "BROKEN",
            Self::Whole => "CUT",
            Self::Everybody | Self::Master => "MISSING",
        }
    }
}

/// Where which rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the log.
    pub log: String,
    /// Which record of it, counted from one.
    pub record: Option<usize>,
    /// The rule.
    pub rule: Rule,
    /// What is there instead.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.heading(), self.log)?;
        if let Some(record) = self.record {
            write!(f, ", record {record}")?;
        }
        write!(f, ": {}", self.what)?;
        write!(f, "\n    broken: {}", self.rule.sentence())
    }
}

/// Why an input is none of a sound environment.
pub(super) type Unsound = (Rule, String);

/// `Ok` where it holds.
pub(super) fn holds(
    condition: bool,
    rule: Rule,
    what: impl FnOnce() -> String,
) -> Result<(), Unsound> {
    if condition {
        Ok(())
    } else {
        Err((rule, what()))
    }
}
