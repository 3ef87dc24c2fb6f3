//! Networks drawn at random: pairs that cannot be connected, peers that nobody reaches, newcomers among them;
//! and a few of the same kind by hand.

use super::super::faults::Fault;
use super::super::network::{Path, SeatNo};
use super::super::seat::SeatPlan;
use super::super::time::{MILLISECOND, MINUTE, SECOND};
use super::super::trial::Trial;
use super::super::world::World;
use super::{FAULT, Situation, crew, usual, usual_run};

/// Draws of each kind.
const DRAWS: u64 = 10;

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    for newcomers in [Newcomers::None, Newcomers::Together, Newcomers::OneByOne] {
        for hidden in [false, true] {
            let drawn = 1..=DRAWS;
            all.extend(drawn.map(|drawn| drawn_network(newcomers, hidden, drawn)));
        }
    }
    all.push(dials_nobody());
    all.push(after_those_that_dial_nobody());
    all.extend([(5, 5), (5, 10)].map(|(members, newcomers)| behind_one_router(members, newcomers)));
    all.extend([3, 10].map(three_sites));
    all
}

/// Who comes to the run when its network has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newcomers {
    None,
    Together,
    OneByOne,
}

impl Newcomers {
    fn gap(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Together => Some(50 * MILLISECOND),
            Self::OneByOne => Some(20 * SECOND),
        }
    }
}

/// Which connections are not possible, by dialler and dialled.
struct Blocked(Vec<Vec<bool>>);

impl Blocked {
    fn joins(&self, one: usize, other: usize) -> bool {
        !self.0[one][other] || !self.0[other][one]
    }

    /// Whether the first of them can stand on a ring.
    fn has_ring(&self, count: usize) -> bool {
        let rest: Vec<usize> = (1..count).collect();
        rest.is_empty() || self.leads_back(0, &rest)
    }

    fn leads_back(&self, here: usize, rest: &[usize]) -> bool {
        if rest.is_empty() {
            return self.joins(here, 0);
        }
        (0..rest.len()).any(|at| {
            let mut rest = rest.to_vec();
            let next = rest.remove(at);
            self.joins(here, next) && self.leads_back(next, &rest)
        })
    }
}

fn drawn_network(newcomers: Newcomers, hidden: bool, drawn: u64) -> Situation {
    let who = if hidden { "pairs and ways" } else { "pairs" };
    let name = format!("{who} drawn to be blocked, newcomers: {newcomers:?}, draw {drawn}");
    Situation::new(name, move |seed| {
        let mut world = World::new(seed ^ (drawn << 32));
        let members = 3 + drawn_below(&mut world, 5);
        let mut seats = crew(&mut world, members, &usual());
        if let Some(gap) = newcomers.gap() {
            let count = 1 + world.draw(3);
            let starts = (0..count).map(|no| SeatPlan::at(FAULT + no * gap));
            let starts: Vec<SeatPlan> = starts.collect();
            seats.extend(starts.into_iter().map(|plan| world.seat(plan)));
        }
        let hidden = if hidden {
            drawn_below(&mut world, 3)
        } else {
            0
        };
        let blocked = block(&mut world, &seats, hidden);
        world.strike(FAULT, Fault::AllLanesBreak);

        let of_members = blocked.has_ring(members);
        let mut trial = Trial::of(world, FAULT).within(6 * MINUTE);
        if !blocked.has_ring(seats.len()) || newcomers == Newcomers::OneByOne {
            trial = trial.with_faulty(seats.split_off(members));
        }
        let may_lose = if of_members { 0 } else { seats.len() - 1 };
        trial.losing(may_lose).watched(20 * MINUTE)
    })
}

/// Nobody reaches so many of these, and as many pairs as there are peers at most cannot be connected.
fn block(world: &mut World, seats: &[SeatNo], hidden: usize) -> Blocked {
    let mut blocked = vec![vec![false; seats.len()]; seats.len()];
    for _ in 0..hidden {
        let dialled = drawn_below(world, seats.len());
        let path = [Path::Filtered, Path::Refused][drawn_below(world, 2)];
        for dialler in (0..seats.len()).filter(|dialler| *dialler != dialled) {
            blocked[dialler][dialled] = true;
            let way = Fault::OneWay(seats[dialler], seats[dialled], path);
            world.strike(FAULT - 1, way);
        }
    }
    for _ in 0..drawn_below(world, seats.len()) {
        let (one, other) = (
            drawn_below(world, seats.len()),
            drawn_below(world, seats.len()),
        );
        let path = [Path::Filtered, Path::Refused, Path::Cut][drawn_below(world, 3)];
        if one != other {
            (blocked[one][other], blocked[other][one]) = (true, true);
            let pair = Fault::Between(seats[one], seats[other], path);
            world.strike(FAULT, pair);
        }
    }
    Blocked(blocked)
}

fn drawn_below(world: &mut World, below: usize) -> usize {
    usize::try_from(world.draw(below as u64)).unwrap_or_default()
}

fn dials_nobody() -> Situation {
    Situation::new(
        "a newcomer can be reached and reaches nobody, 3 + 1 peers",
        |seed| {
            let (mut world, seats) = usual_run(seed, 3);
            let newcomer = world.seat(SeatPlan::at(FAULT));
            reaches_nobody(&mut world, newcomer, &seats);
            Trial::of(world, FAULT)
        },
    )
}

/// Three newcomers that reach nobody may mark others as those that cannot be reached.
fn after_those_that_dial_nobody() -> Situation {
    Situation::new(
        "nobody reaches a newcomer, after three that reach nobody, 3 + 3 + 1 peers",
        |seed| {
            let (mut world, seats) = usual_run(seed, 3);
            let mut others = Vec::new();
            for no in 0..3 {
                let newcomer = world.seat(SeatPlan::at(FAULT + no * 40 * SECOND));
                reaches_nobody(&mut world, newcomer, &seats);
                others.push(newcomer);
            }
            let last = world.seat(SeatPlan::at(FAULT + 150 * SECOND));
            world.strike(0, Fault::Towards(last, Path::Filtered));
            let trial = Trial::of(world, FAULT + 150 * SECOND).with_faulty(others);
            trial.within(3 * MINUTE)
        },
    )
}

fn reaches_nobody(world: &mut World, seat: SeatNo, others: &[SeatNo]) {
    for other in others {
        world.strike(0, Fault::OneWay(seat, *other, Path::Filtered));
    }
}

/// No two of the newcomers can be connected. Each has to stand between two members.
fn behind_one_router(members: usize, newcomers: usize) -> Situation {
    let name = format!("newcomers behind one router at once, {members} + {newcomers} peers");
    Situation::new(name, move |seed| {
        let (mut world, _) = usual_run(seed, members);
        let starts = (0..newcomers as u64).map(|no| SeatPlan::at(FAULT + no * 10 * MILLISECOND));
        let starts: Vec<SeatPlan> = starts.collect();
        let seats: Vec<SeatNo> = starts.into_iter().map(|plan| world.seat(plan)).collect();
        for (at, one) in seats.iter().enumerate() {
            for other in &seats[..at] {
                world.network.set_pair(*one, *other, Path::Filtered);
            }
        }
        let without_place = newcomers.saturating_sub(members);
        let trial = Trial::of(world, FAULT).losing(without_place);
        trial.within(5 * MINUTE)
    })
}

/// Their members alternate on the ring.
fn three_sites(of_each: usize) -> Situation {
    let name = format!("three sites are cut apart, {of_each} peers of each");
    Situation::new(name, move |seed| {
        let (mut world, seats) = usual_run(seed, 3 * of_each);
        for one in 0..seats.len() {
            for other in (0..one).filter(|other| other % 3 != one % 3) {
                let pair = Fault::Between(seats[one], seats[other], Path::Cut);
                world.strike(FAULT, pair);
            }
        }
        let trial = Trial::of(world, FAULT).losing(2 * of_each);
        trial.within(5 * MINUTE).watched(20 * MINUTE)
    })
}
