//! What is tried: situations, each with what is expected of it.

mod admission;
mod calls;
mod drawn;
mod edges;
mod memory;
mod outages;
mod slow;

use super::network::SeatNo;
use super::program::Program;
use super::seat::SeatPlan;
use super::time::{MILLISECOND, Micros, SECOND};
use super::trial::Trial;
use super::world::World;

/// When things go wrong: by then every run has long been in its stride.
const FAULT: Micros = 60 * SECOND;

/// A situation that can be staged with any seed.
pub struct Situation {
    /// What it is about, and its size.
    pub name: String,
    stage: Box<dyn Fn(u64) -> Trial>,
}

impl std::fmt::Debug for Situation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Situation").field(&self.name).finish()
    }
}

impl Situation {
    fn new(name: impl Into<String>, stage: impl Fn(u64) -> Trial + 'static) -> Self {
        Self {
            name: name.into(),
            stage: Box::new(stage),
        }
    }

    /// Makes it ready to happen.
    #[must_use]
    pub fn stage(&self, seed: u64) -> Trial {
        (self.stage)(seed)
    }
}

/// Every situation.
#[must_use]
pub fn all() -> Vec<Situation> {
    let mut all = edges::situations();
    all.extend(slow::situations());
    all.extend(admission::situations());
    all.extend(outages::situations());
    all.extend(drawn::situations());
    all.extend(calls::situations());
    all.extend(memory::situations());
    all
}

/// So many usual peers, which start one after the other and are together long before [`FAULT`].
fn crew(world: &mut World, count: usize, program: &Program) -> Vec<SeatNo> {
    let starts = (0..count as u64).map(|no| no * 50 * MILLISECOND);
    let plans = starts.map(|starts| SeatPlan::at(starts).running(program.clone()));
    plans
        .collect::<Vec<_>>()
        .into_iter()
        .map(|plan| world.seat(plan))
        .collect()
}

/// The README's loop with a second of computing.
fn usual() -> Program {
    Program::readme(SECOND)
}

/// A run of so many usual peers.
fn usual_run(seed: u64, count: usize) -> (World, Vec<SeatNo>) {
    let mut world = World::new(seed);
    let seats = crew(&mut world, count, &usual());
    (world, seats)
}
