//! Edges that come up and carry nothing, and peers that say so of good ones.

use super::super::faults::Fault;
use super::super::network::Path;
use super::super::seat::Habit;
use super::super::time::{MINUTE, SECOND};
use super::super::trial::Trial;
use super::{FAULT, Situation, usual_run};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    let sizes = [2, 3, 8, 50].into_iter();
    let mut all: Vec<Situation> = sizes.map(|count| mute_edge(count, false)).collect();
    all.extend([8, 50].into_iter().map(|count| mute_edge(count, true)));
    all.push(liar("names no link", Habit::ReportsLoss));
    all.push(liar("names its link", Habit::ReportsLossOfItsLink));
    all
}

/// The two peers in the middle of the ring can connect, and nothing arrives. With up to three peers each
/// ring has that edge, so one of the two has to go.
fn mute_edge(count: usize, all_report: bool) -> Situation {
    let who = if all_report { "all" } else { "its ends" };
    Situation::new(
        format!("an edge connects and carries nothing, {count} peers, {who} report"),
        move |seed| {
            let (mut world, seats) = usual_run(seed, count);
            world.pace.all_report_stalls = all_report;
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
