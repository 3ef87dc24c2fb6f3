//! The programs of the documentation as processes: what they compute, and when one of them dies.

pub(crate) mod survivors;

mod loop_async;
mod loop_feedback;
mod loop_manual;
mod loop_run;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pccl::Error;
use pccl_subprocess::{obey_orders, tell};
use serde::{Deserialize, Serialize};

use super::support::on_event_of_process;

/// What computing a step takes while others still have to die.
const COMPUTING: Duration = Duration::from_millis(5);

/// Elements of the weights.
const WEIGHTS: usize = 1000;

/// Nobody has to die any more.
static HURRIES: AtomicBool = AtomicBool::new(false);

/// Where this process dies, and how often it has been there.
static FATE: (OnceLock<Death>, AtomicUsize) = (OnceLock::new(), AtomicUsize::new(0));

/// What follows it is word for word in the documentation.
const MARKER: &str = "// From here on: word for word.\n";

/// A program of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Program {
    Run,
    Manual,
    Async,
    Feedback,
}

/// A process dies when an event of pccl happens to it for the so-manieth time. Besides those that the
/// library traces there is `computes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Death {
    pub(crate) at: String,
    pub(crate) times: usize,
}

/// What a process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) program: Program,
    pub(crate) master: String,
    pub(crate) death: Option<Death>,
}

/// What a process tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It computes its first step.
    TakesPart,
    /// It dies here.
    Dies,
    /// The program has ended.
    Ended(Result<Vec<f32>, String>),
}

/// What a process is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Nobody has to die any more.
    Hurry,
}

impl Program {
    /// As the documentation has it.
    pub(crate) fn text(self) -> &'static str {
        let file = match self {
            Self::Run => include_str!("loop_run.rs"),
            Self::Manual => include_str!("loop_manual.rs"),
            Self::Async => include_str!("loop_async.rs"),
            Self::Feedback => include_str!("loop_feedback.rs"),
        };
        let (_, text) = file.split_once(MARKER).expect("the marker");
        text
    }

    fn run(self, master: &str, weights: &mut Vec<f32>) -> Result<(), Error> {
        match self {
            Self::Run => loop_run::run(master, weights),
            Self::Manual => loop_manual::run(master, weights),
            Self::Async => loop_async::run(master, weights),
            Self::Feedback => loop_feedback::run(master, weights),
        }
    }
}

impl Death {
    pub(crate) fn at(event: &str, times: usize) -> Self {
        let at = event.to_owned();
        Self { at, times }
    }
}

impl Life {
    /// Runs the program to its end, or to the event at which it dies.
    pub(crate) fn live(self) {
        if let Some(death) = self.death {
            FATE.0.set(death).unwrap();
            on_event_of_process(happens);
        }
        thread::spawn(|| {
            obey_orders(|Order::Hurry| HURRIES.store(true, Ordering::Relaxed));
            // Nobody is left who asks.
            std::process::exit(1);
        });
        let mut weights = vec![0.0; WEIGHTS];
        let ended = self.program.run(&self.master, &mut weights);
        let ended = ended.map(|()| weights).map_err(|error| error.to_string());
        tell(&Event::Ended(ended));
    }
}

/// Dies without a word to anybody but the test where this is the event.
fn happens(event: &str) {
    let (death, seen) = (FATE.0.get(), &FATE.1);
    if let Some(death) = death.filter(|death| death.at == event)
        && seen.fetch_add(1, Ordering::Relaxed) + 1 == death.times
    {
        tell(&Event::Dies);
        std::process::abort();
    }
}

/// One step down, each time: the weights are the number of steps that were committed.
fn compute(weights: &[f32]) -> Vec<f32> {
    static TAKES_PART: AtomicBool = AtomicBool::new(false);
    if !TAKES_PART.swap(true, Ordering::Relaxed) {
        tell(&Event::TakesPart);
    }
    happens("computes");
    if !HURRIES.load(Ordering::Relaxed) {
        thread::sleep(COMPUTING);
    }
    vec![-1.0; weights.len()]
}
