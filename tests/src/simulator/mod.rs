//! A deterministic simulation of whole runs: the real master and the real client code over lanes in memory, on one
//! thread and under a clock of their own.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`], [`fault`] | what is drawn from a seed: peers, programs, paths, faults |
//! | `driver`, `acts`, `strangers` | play the plan |
//! | `life`, `reduces`, `others` | what a peer does |
//! | `ears` | trace every byte of a peer, and kill it at certain messages |
//! | `haste` | how long reduces may take while nothing goes wrong |
//! | `world` | what all of them share, and what is checked |
//! | `trace` | what has happened: a hash of every event, and a story |
//! | [`hangs`] | ends the process if a simulation does not come to an end |
//! | [`shrink`] | leaves out of a plan what its failure does not need |
//!
//! A seed gives the same run each time, event for event. What is always checked: every committed reduce has the value
//! that follows from the inputs of the contributors that it names; a call that fails has left its buffer as it was; all
//! members of a group hold the same state after a synchronization; no call is pending beyond its deadline; nobody is
//! evicted for a mistake that no peer makes; after the faults the survivors make steps together; tasks stay within a
//! bound, and at the end no task, lane or listener is left; nothing panics.

mod acts;
mod driver;
mod ears;
pub mod fault;
pub mod hangs;
mod haste;
mod life;
mod others;
pub mod plan;
mod reduces;
pub mod shrink;
mod strangers;
mod trace;
mod world;

use std::cell::RefCell;
use std::panic;
use std::sync::Once;
use std::time::Duration;

use tokio::time::Instant;

pub use plan::{Plan, Without};
pub use trace::Traced;
pub use world::Counts;

use world::World;

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was played.
    pub plan: Plan,
    /// What must not be. Empty: all is well.
    pub findings: Vec<String>,
    /// What has happened.
    pub traced: Traced,
    /// How much has happened.
    pub counts: Counts,
    /// How long it took, by the run's own clock.
    pub lasted: Duration,
}

/// Plays the run of a seed. `keeps_steps`: see [`Traced::steps`].
#[must_use]
pub fn simulate(seed: u64, without: &Without, keeps_steps: bool) -> Outcome {
    let plan = Plan::draw(seed).without(without);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return nothing(plan, &format!("there is no runtime: {error}")),
    };
    watch_for_panics();
    let (world, lasted) = runtime.block_on(async {
        let begun = Instant::now();
        let world = World::new(plan.clone(), keeps_steps);
        driver::play(&world).await;
        (world, begun.elapsed())
    });
    for what in panics() {
        world.found(&format!("a panic: {what}"));
    }
    let (findings, counts) = world.with(|state| (state.findings.clone(), state.counts));
    let traced = world.trace.take();
    drop(runtime);
    Outcome {
        plan,
        findings,
        traced,
        counts,
        lasted,
    }
}

fn nothing(plan: Plan, why: &str) -> Outcome {
    Outcome {
        plan,
        findings: vec![why.to_owned()],
        traced: Traced::default(),
        counts: Counts::default(),
        lasted: Duration::ZERO,
    }
}

thread_local! {
    /// What has panicked on this thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// A run is being simulated on this thread.
    static IS_WATCHED: RefCell<bool> = const { RefCell::new(false) };
}

/// Tasks swallow their panics: each is remembered by the thread on which it happened. Those of other threads are shown
/// as usual.
fn watch_for_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_kept = IS_WATCHED.with(|is_watched| *is_watched.borrow());
            match is_kept {
                true => PANICS.with(|panics| panics.borrow_mut().push(info.to_string())),
                false => usual(info),
            }
        }));
    });
    IS_WATCHED.with(|is_watched| *is_watched.borrow_mut() = true);
    PANICS.with(|panics| panics.borrow_mut().clear());
}

/// What has panicked on this thread since the watch began.
fn panics() -> Vec<String> {
    IS_WATCHED.with(|is_watched| *is_watched.borrow_mut() = false);
    PANICS.with(|panics| std::mem::take(&mut *panics.borrow_mut()))
}
