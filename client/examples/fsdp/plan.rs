//! Who is killed at which moment of which step, and at which steps newcomers come. Drawn from the seed.

use std::collections::BTreeMap;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use super::doom::{Doom, Moment};
use super::{Arguments, Training};

#[derive(Debug)]
pub(crate) struct Plan {
    /// Processes at the start. Newcomers have the next numbers.
    pub(crate) peers: u32,
    /// At the snapshot of each of these steps, all wait for a newcomer.
    pub(crate) joins: Vec<u64>,
    /// By the numbers of the processes.
    pub(crate) dooms: BTreeMap<u32, Doom>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Kill,
    Join,
}

impl Plan {
    /// At least one peer survives each kill.
    pub(crate) fn draw(arguments: &Arguments) -> Result<Self, String> {
        let Training {
            steps,
            seed,
            snapshot_every,
        } = arguments.training;
        let last_snapshot = (steps - 1) / snapshot_every * snapshot_every;
        if arguments.joins > 0 && last_snapshot == 0 {
            return Err("newcomers join at snapshots only: more --steps are needed".into());
        }
        let mut random = StdRng::seed_from_u64(seed);
        let mut plan = Self {
            peers: arguments.peers,
            joins: Vec::new(),
            dooms: BTreeMap::new(),
        };
        let mut alive: Vec<u32> = (0..arguments.peers).collect();
        let steps = steps_of_acts(arguments, &mut random);
        // Whoever is killed next may have to be here by then.
        let mut joined_at = 0;
        for (step, act) in steps.into_iter().zip(order(arguments, &mut random)?) {
            match act {
                Act::Join => {
                    alive.push(plan.peers + plan.joins.len() as u32);
                    joined_at = step.next_multiple_of(snapshot_every).min(last_snapshot);
                    plan.joins.push(joined_at);
                }
                Act::Kill => plan.doom(&mut alive, step.max(joined_at), &mut random),
            }
        }
        Ok(plan)
    }

    fn doom(&mut self, alive: &mut Vec<u32>, step: u64, random: &mut StdRng) {
        let victim = alive.choose(random).copied();
        let moment = Moment::value_variants().choose(random).copied();
        if let (Some(victim), Some(moment)) = (victim, moment) {
            alive.retain(|process| *process != victim);
            self.dooms.insert(victim, Doom { step, moment });
        }
    }

    /// The joins that this process waits for: a newcomer's own is over when it is in the run.
    pub(crate) fn joins_after(&self, number: u32) -> &[u64] {
        let over = (number + 1).saturating_sub(self.peers) as usize;
        self.joins.get(over..).unwrap_or_default()
    }

    /// Peers that are to be alive at the end.
    pub(crate) fn survivors(&self) -> usize {
        self.peers as usize + self.joins.len() - self.dooms.len()
    }
}

/// A step for each act, in order. Several may be the same.
fn steps_of_acts(arguments: &Arguments, random: &mut StdRng) -> Vec<u64> {
    let acts = arguments.kills + arguments.joins;
    let last = arguments.training.steps - 1;
    let steps = (0..acts).map(|_| random.random_range(last.min(1)..=last));
    let mut steps: Vec<u64> = steps.collect();
    steps.sort_unstable();
    steps
}

/// Kills and joins in random order; where a kill would leave nobody, a join comes before it.
fn order(arguments: &Arguments, random: &mut StdRng) -> Result<Vec<Act>, String> {
    let kills = vec![Act::Kill; arguments.kills as usize];
    let joins = vec![Act::Join; arguments.joins as usize];
    let mut acts = [kills, joins].concat();
    acts.shuffle(random);
    let mut alive = arguments.peers;
    for at in 0..acts.len() {
        if alive == 1 && acts[at] == Act::Kill {
            let join = (at..acts.len()).find(|later| acts[*later] == Act::Join);
            acts.swap(
                at,
                join.ok_or("somebody must survive: fewer --kills are needed")?,
            );
        }
        match acts[at] {
            Act::Kill => alive -= 1,
            Act::Join => alive += 1,
        }
    }
    Ok(acts)
}
