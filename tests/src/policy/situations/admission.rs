//! Newcomers, and those that nobody can reach.

use super::super::faults::Fault;
use super::super::network::{Path, SeatNo};
use super::super::seat::SeatPlan;
use super::super::time::{MILLISECOND, MINUTE, Micros, SECOND};
use super::super::trial::Trial;
use super::super::world::{World, address_of};
use super::{FAULT, Situation, usual_run};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = vec![
        unreachable_first(Path::Refused),
        unreachable_first(Path::Filtered),
        port_closes_later(0),
        port_closes_later(2),
    ];
    all.extend([1, 2, 3].into_iter().map(behind_one_nat));
    all.extend([2, 10].into_iter().map(many_unreachable));
    all
}

/// Nobody can reach the first peer of a run, which can reach others: it opens its lanes itself, and stays.
fn unreachable_first(path: Path) -> Situation {
    let name = format!("nobody reaches the first of a run ({path:?}), 1 + 10 newcomers");
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, 1);
        world.strike(0, Fault::Towards(seats[0], path));
        for no in 0..10 {
            world.seat(SeatPlan::at(FAULT + no * 15 * SECOND));
        }
        let trial = Trial::of(world, FAULT).within(4 * MINUTE);
        trial.watched(10 * MINUTE)
    })
}

/// The port of an accepted peer closes, and its lanes stand: newcomers have other places.
fn port_closes_later(which: usize) -> Situation {
    let name = format!(
        "the port of accepted peer {} of 3 closes, 10 newcomers",
        which + 1
    );
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, 3);
        for no in 0..10 {
            world.seat(SeatPlan::at(FAULT + no * 100 * MILLISECOND));
        }
        world.strike(FAULT, Fault::Towards(seats[which], Path::Filtered));
        Trial::of(world, FAULT)
            .with_faulty([seats[which]])
            .within(2 * MINUTE)
            .watched(10 * MINUTE)
    })
}

/// Two newcomers that have one address and cannot reach each other. With one accepted peer they are
/// neighbours in every ring.
fn behind_one_nat(accepted: usize) -> Situation {
    let name = format!("two newcomers behind one NAT, {accepted} accepted");
    Situation::new(name, move |seed| {
        let (mut world, _) = usual_run(seed, accepted);
        let newcomer = || SeatPlan {
            address: Some(address_of(1000)),
            ..SeatPlan::at(FAULT)
        };
        let (one, other) = (world.seat(newcomer()), world.seat(newcomer()));
        world.network.set_pair(one, other, Path::Filtered);
        let trial = Trial::of(world, FAULT).losing(usize::from(accepted == 1));
        trial
            .within(MINUTE)
            .watched(10 * MINUTE)
            .checked(move |world| both_in(world, accepted, one, other))
    })
}

fn both_in(world: &World, accepted: usize, one: SeatNo, other: SeatNo) -> Option<String> {
    let joined = [one, other]
        .into_iter()
        .filter(|seat| world.look(*seat).record().joined.is_some());
    let (joined, expected) = (joined.count(), if accepted == 1 { 1 } else { 2 });
    (joined < expected).then(|| format!("{joined} of 2 newcomers joined"))
}

/// Newcomers that nobody can reach hold those of the run for two connect time-outs at most. A few find places
/// between peers that they reach; all others are told.
fn many_unreachable(accepted: usize) -> Situation {
    let name = format!("50 newcomers that nobody reaches, {accepted} accepted");
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, accepted);
        let newcomers: Vec<SeatNo> = (0..50)
            .map(|no| world.seat(SeatPlan::at(FAULT + no * 10 * MILLISECOND)))
            .collect();
        for newcomer in &newcomers {
            world.strike(0, Fault::Towards(*newcomer, Path::Filtered));
        }
        let held = 2 * world.pace.dial_limit + SECOND;
        let trial = Trial::of(world, FAULT)
            .telling(newcomers)
            .within(3 * MINUTE);
        let check = move |world: &World| held_longer(world, &seats, FAULT, held);
        trial.watched(30 * MINUTE).checked(check)
    })
}

/// Whether one of these was held in `update_topology` for longer than that.
pub(super) fn held_longer(
    world: &World,
    seats: &[SeatNo],
    since: Micros,
    limit: Micros,
) -> Option<String> {
    let updates = seats
        .iter()
        .flat_map(|seat| world.look(*seat).updates_since(since, world.now()));
    let longest = updates.max().unwrap_or(0);
    let show = super::super::time::show;
    (longest > limit).then(|| format!("an update took {} (<= {})", show(longest), show(limit)))
}
