//! Stopping a peer at an exact moment, and noting what it went through: a tracing layer on the events
//! that the library traces for this purpose.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use pccl_subprocess::tell;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::talk::{Event, Moment, Nanos, now};
use crate::warnings::Warnings;

/// The target of the library's events.
const TARGET: &str = "pccl::event";

/// A trail keeps at most this many events of a round.
const TRAIL_MAX: usize = 256;

/// Shared by a peer's round, its orders and its tracing.
#[derive(Clone, Debug, Default)]
pub struct Trap {
    armed: Arc<Mutex<Option<Moment>>>,
    /// The thread that stands still.
    caught: Arc<Mutex<Option<Thread>>>,
    round: Arc<AtomicU64>,
    trail: Arc<Mutex<Vec<(&'static str, Nanos)>>>,
}

impl Trap {
    /// A trap that hears what the library traces in this process, and tells its warnings, if they are wanted.
    #[must_use]
    pub fn install(tells_warnings: bool) -> Self {
        let trap = Self::default();
        let events_only = Targets::new().with_target(TARGET, Level::DEBUG);
        let layer = trap.clone().with_filter(events_only);
        // Fails where somebody else hears already, and then nothing stands still.
        let level = if tells_warnings {
            LevelFilter::WARN
        } else {
            LevelFilter::OFF
        };
        let warnings = Warnings.with_filter(level);
        let _ = tracing_subscriber::registry()
            .with(layer)
            .with(warnings)
            .try_init();
        trap
    }

    /// Whoever comes to this moment next stands still until it is [released](Self::release).
    pub fn arm(&self, moment: Moment) {
        *lock(&self.armed) = Some(moment);
    }

    /// Lets the thread go on that stands still.
    pub fn release(&self) {
        if let Some(thread) = lock(&self.caught).take() {
            thread.unpark();
        }
    }

    /// Nobody stands still any more: neither who does nor who would.
    pub fn disarm(&self) {
        // In this order, or a thread might be caught in between.
        let mut caught = lock(&self.caught);
        *lock(&self.armed) = None;
        if let Some(thread) = caught.take() {
            thread.unpark();
        }
    }

    /// A round begins, with an empty trail.
    pub fn begin_round(&self, round: u64) {
        self.round.store(round, Ordering::Relaxed);
        lock(&self.trail).clear();
    }

    /// What was traced since the round began, frames excepted, and when.
    #[must_use]
    pub fn trail(&self) -> Vec<(String, Nanos)> {
        let trail = lock(&self.trail);
        trail
            .iter()
            .map(|(kind, at)| ((*kind).to_owned(), *at))
            .collect()
    }

    fn note(&self, kind: &str) {
        const KINDS: [&str; 8] = [
            "verdict",
            "collective_initiated",
            "topology_vote_sent",
            "sync_plan",
            "connected",
            "plan_started",
            "plan_done",
            "completion_voted",
        ];
        if let Some(kind) = KINDS.into_iter().find(|known| *known == kind) {
            let mut trail = lock(&self.trail);
            if trail.len() < TRAIL_MAX {
                trail.push((kind, now()));
            }
        }
    }

    /// Disarms the trap where this is the moment, and this thread is caught.
    fn springs(&self, kind: &str) -> bool {
        let mut caught = lock(&self.caught);
        let is_it = lock(&self.armed).take_if(|moment| moment.traced_as() == kind);
        if is_it.is_some() {
            *caught = Some(thread::current());
        }
        is_it.is_some()
    }
}

impl<S: Subscriber> Layer<S> for Trap {
    /// Stops the thread that comes to the armed moment: whatever the library does there, a SIGKILL
    /// finds it doing just that.
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut kind = Kind::default();
        event.record(&mut kind);
        self.note(&kind.0);
        if self.springs(&kind.0) {
            let round = self.round.load(Ordering::Relaxed);
            tell(&Event::StandsStill { round });
            while lock(&self.caught).is_some() {
                thread::park();
            }
        }
    }
}

/// The field that names the kind of an event.
#[derive(Default)]
struct Kind(String);

impl Visit for Kind {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "kind" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
