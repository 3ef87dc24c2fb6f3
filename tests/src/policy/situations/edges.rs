//! Edges that come up and carry nothing, and peers that say so of good ones.

use super::super::faults::Fault;
use super::super::network::Path;
use super::super::seat::Habit;
use super::super::time::{MINUTE, SECOND};
use super::super::trial::Trial;
use super::{FAULT, Situation, usual_run};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    let mut all: Vec<Situation> = [2, 3, 8, 50].into_iter().map(mute_edge).collect();
    all.push(liar("names no edge", Habit::ReportsLoss));
    all.push(liar("names its edge", Habit::ReportsLossOfItsEdge));
    all
}

/// The two peers in the middle of the ring can connect, and nothing arrives. With up to three peers each
/// ring has that edge, so one of the two has to go.
fn mute_edge(count: usize) -> Situation {
    Situation::new(
        format!("an edge connects and carries nothing, {count} peers"),
        move |seed| {
            let (mut world, seats) = usual_run(seed, count);
            let (one, other) = (seats[count / 2 - 1], seats[count / 2]);
            world.strike(FAULT, Fault::Between(one, other, Path::Mute));
            let may_lose = usize::from(count <= 3);
            Trial::of(world, FAULT).losing(may_lose).within(2 * MINUTE)
        },
    )
}

fn liar(which: &str, habit: Habit) -> Situation {
    let name = format!("a peer reports a lost lane of every reduce and {which}, 8 peers");
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, 8);
        world.strike(FAULT, Fault::Becomes(seats[3], habit));
        let trial = Trial::of(world, FAULT).without([seats[3]]);
        trial.within(MINUTE).watched(10 * MINUTE + 30 * SECOND)
    })
}
