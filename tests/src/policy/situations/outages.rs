//! Partitions, and outages after which some pairs cannot connect.

use std::collections::BTreeSet;

use super::super::faults::Fault;
use super::super::network::{Path, SeatNo};
use super::super::time::{MINUTE, SECOND};
use super::super::trial::Trial;
use super::super::world::World;
use super::{FAULT, Situation, usual_run};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = vec![
        partition("ring sorted by site", |_, no| no < 51),
        partition("ring alternating", |_, no| no % 2 == 0 || no == 99),
        partition("ring in random order", |order, no| order[no] < 51),
    ];
    for path in [Path::Cut, Path::Refused] {
        for count in [10, 30, 100] {
            all.extend((1..=3).map(|drawn| blocked_pairs(count, path, drawn)));
        }
    }
    all
}

/// Two sites of 51 and 49 that reach the master and not each other.
fn partition(which: &str, is_larger: fn(&[usize], usize) -> bool) -> Situation {
    let name = format!("two sites of 51 and 49 are cut apart, {which}");
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, 100);
        let order = shuffled(&mut world, 100);
        let sited = seats.iter().copied();
        let (larger, smaller): (Vec<SeatNo>, Vec<SeatNo>) =
            sited.partition(|seat| is_larger(&order, seat.0));
        for one in &larger {
            for other in &smaller {
                world.strike(FAULT, Fault::Between(*one, *other, Path::Cut));
            }
        }
        let detected = world.pace.stall;
        let trial = Trial::of(world, FAULT).without(smaller);
        trial.within(detected + MINUTE).watched(45 * MINUTE)
    })
}

/// All lanes break, and a fifth of the pairs cannot connect again. A ring is left.
fn blocked_pairs(count: usize, path: Path, drawn: u64) -> Situation {
    let name = format!(
        "outage, a fifth of the pairs stays blocked ({path:?}), {count} peers, draw {drawn}"
    );
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed ^ (drawn << 32), count);
        for (one, other) in a_fifth_of_pairs(&mut world, count) {
            let (one, other) = (seats[one], seats[other]);
            world.strike(FAULT, Fault::Between(one, other, path));
        }
        world.strike(FAULT, Fault::AllLanesBreak);
        Trial::of(world, FAULT)
            .within(3 * MINUTE + 30 * SECOND)
            .watched(30 * MINUTE)
    })
}

/// Pairs without which everybody still reaches more than half of the others, so that there is a ring
/// (Dirac's theorem).
fn a_fifth_of_pairs(world: &mut World, count: usize) -> BTreeSet<(usize, usize)> {
    let wanted = count * (count - 1) / 10;
    let mut blocked = BTreeSet::new();
    let mut of_peer = vec![0; count];
    while blocked.len() < wanted {
        let (one, other) = (draw(world, count), draw(world, count));
        let fits = |peer: usize| of_peer[peer] + 1 + count.div_ceil(2) < count;
        let pair = (one.min(other), one.max(other));
        if one != other && fits(one) && fits(other) && blocked.insert(pair) {
            of_peer[one] += 1;
            of_peer[other] += 1;
        }
    }
    blocked
}

fn draw(world: &mut World, below: usize) -> usize {
    usize::try_from(world.draw(below as u64)).unwrap_or(0)
}

fn shuffled(world: &mut World, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = draw(world, last + 1);
        order.swap(last, other);
    }
    order
}
