//! What has happened in a simulated run: a hash of every event, and lines for the story.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::churn::numbers::mixed;

/// Lines that are kept; a run that tells more is not going to be read.
const LINES_MAX: usize = 50_000;

/// Events of one run, each with its moment.
pub(super) struct Trace {
    start: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    hash: u64,
    events: u64,
    /// The hash after each event, to find where two runs part.
    steps: Option<Vec<u64>>,
    lines: Vec<String>,
}

/// A trace that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Of all events, in their order, with their moments.
    pub hash: u64,
    /// How many there were.
    pub events: u64,
    /// The hash after each event, if they were to be kept.
    pub steps: Vec<u64>,
    /// The story.
    pub lines: Vec<String>,
}

impl Trace {
    /// Begins at this moment. `keeps_steps`: for finding where two runs part.
    pub(super) fn new(keeps_steps: bool) -> Self {
        let kept = Kept {
            steps: keeps_steps.then(Vec::new),
            ..Kept::default()
        };
        Self {
            start: Instant::now(),
            kept: Mutex::new(kept),
        }
    }

    /// An event that no reader of the story needs.
    pub(super) fn note(&self, what: [u64; 4]) {
        let at = self.now_ns();
        self.lock().add(at, &what);
    }

    /// An event of the story.
    pub(super) fn tell(&self, line: &str) {
        let at = self.now_ns();
        let mut kept = self.lock();
        kept.add(at, &[hash_of(line.as_bytes())]);
        if kept.lines.len() < LINES_MAX {
            let mut told = String::new();
            // Writing to a string does not fail.
            let _ = write!(told, "{:>12.6} {line}", at as f64 / 1e9);
            kept.lines.push(told);
        }
    }

    /// What there is so far.
    pub(super) fn take(&self) -> Traced {
        let kept = std::mem::take(&mut *self.lock());
        Traced {
            hash: kept.hash,
            events: kept.events,
            steps: kept.steps.unwrap_or_default(),
            lines: kept.lines,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, at: u64, what: &[u64]) {
        self.hash = mixed(self.hash, at);
        for part in what {
            self.hash = mixed(self.hash, *part);
        }
        self.events += 1;
        if let Some(steps) = &mut self.steps {
            steps.push(self.hash);
        }
    }
}

/// A number that depends on each byte.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    pccl_kernels::checksum(bytes)
}
