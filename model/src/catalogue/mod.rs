//! The scenarios that are explored.

mod ahead;
mod collectives;
mod deadlines;
mod entries;
mod given_up;
mod groups;
mod kinds;
mod levels;
mod membership;
mod meshes;
mod neighbours;
mod programs;
mod restarts;
mod shared_state;
mod topology;

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::plan::Algorithm;

use crate::milestone::Milestone as M;
use crate::scenario::{ANY_FAULT, Dials, Fault, Frames, LARGE, SMALL, Scenario, SeatPlan, Start};
use crate::script::Program;
use programs::{REDUCE, TRAIN_TWICE};

/// What `cargo run -p verification` explores, all of it to the end. Small ones first.
#[must_use]
pub fn standard() -> Vec<Scenario> {
    let mut all = collectives::all();
    all.extend(membership::all());
    all.extend(shared_state::all());
    all.extend(topology::all());
    all.extend(deadlines::all());
    all.extend(neighbours::all());
    all.extend(groups::all());
    all.extend(entries::all());
    all.extend(given_up::all());
    all.extend(meshes::all());
    all.extend(kinds::all());
    all.extend(levels::all());
    all.extend(restarts::all());
    all.extend(ahead::all());
    all.sort_by_key(|scenario| (scenario.seats.len(), scenario.faults));
    all
}

/// The faults that lose a newcomer.
const DEATHS_AND_CUTS: &[Fault] = &[Fault::Crash, Fault::Cut, Fault::RefuseDial];

/// What is explored with one fault more than in the standard run, and with frames in any order: one scenario of
/// each of their files, the richest that was seen to stay in memory for ten minutes.
pub const DEEPENED: &[&str] = &[
    "reduce-3",
    "join-2-of-3",
    "consent-sync",
    "sync-3",
    "optimize-3",
    "groups-2-2",
    "break-4",
];

/// What takes ten minutes and more for each: more faults, more peers, longer programs.
#[must_use]
pub fn deep() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = standard()
        .into_iter()
        .filter(|scenario| DEEPENED.contains(&scenario.name))
        .map(|scenario| {
            let faults = scenario.faults + 1;
            free_frames(scenario.with_faults(faults))
        })
        .collect();
    all.push(free_frames(scenario(
        "train-twice-3",
        "two rounds of the training loop of three",
        2,
        vec![inside(&TRAIN_TWICE); 3],
        &[M::Committed, M::Aborted, M::RevisionAdvanced],
    )));
    all.push(free_frames(scenario(
        "reduce-4",
        "four peers reduce",
        2,
        vec![inside(&REDUCE); 4],
        &[M::Committed, M::Aborted],
    )));
    all
}

/// A process of group 0 that is inside.
const fn inside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        group: 0,
        start: Start::Inside,
        program,
        content: 0,
        revision: 0,
        second: None,
        restart: false,
        collectives_max: 8,
        site: 0,
    }
}

/// The same at another site.
const fn at_site(site: u8, plan: SeatPlan) -> SeatPlan {
    SeatPlan { site, ..plan }
}

const fn outside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        start: Start::Outside,
        ..inside(program)
    }
}

const fn holding(program: &'static Program, content: u8) -> SeatPlan {
    SeatPlan {
        content,
        ..inside(program)
    }
}

const fn holding_outside(program: &'static Program, content: u8) -> SeatPlan {
    SeatPlan {
        start: Start::Outside,
        ..holding(program, content)
    }
}

const fn revised(program: &'static Program, content: u8, revision: u8) -> SeatPlan {
    SeatPlan {
        revision,
        ..holding(program, content)
    }
}

const fn in_group(group: u32, plan: SeatPlan) -> SeatPlan {
    SeatPlan { group, ..plan }
}

/// The faults that abort a collective.
const DEATHS_AND_BREAKS: &[Fault] = &[Fault::Crash, Fault::BreakLink];

/// The faults that make an admission fail, and those that abort what runs meanwhile.
const DEATHS_AND_REFUSALS: &[Fault] = &[
    Fault::Crash,
    Fault::HalfOpen,
    Fault::BreakLink,
    Fault::RefuseDial,
    Fault::BreakFetch,
];

fn scenario(
    name: &'static str,
    about: &'static str,
    faults: u8,
    seats: Vec<SeatPlan>,
    milestones: &'static [M],
) -> Scenario {
    Scenario {
        name,
        about,
        seats,
        spec: LARGE,
        faults,
        kinds: ANY_FAULT,
        frames: Frames::InTurn,
        dials: Dials::AtOnce,
        mesh: false,
        one_machine: false,
        shared: false,
        large: false,
        several: false,
        remote: &[],
        searches: false,
        heartbeats: false,
        ahead: false,
        in_step: false,
        milestones,
    }
}

/// The same with buffers that travel whole.
fn small(scenario: Scenario) -> Scenario {
    Scenario {
        spec: SMALL,
        ..scenario
    }
}

/// All peers wish for this algorithm.
fn wish_for(algorithm: Algorithm, of: Scenario) -> Scenario {
    let spec = CollectiveSpec {
        algorithm: Some(algorithm),
        ..of.spec
    };
    Scenario { spec, ..of }
}

/// The same with collectives of another kind.
fn of_kind(kind: CollectiveKind, scenario: Scenario) -> Scenario {
    let spec = CollectiveSpec {
        kind,
        ..scenario.spec
    };
    Scenario { spec, ..scenario }
}

/// The same with links between all members of a group.
fn mesh(scenario: Scenario) -> Scenario {
    Scenario {
        mesh: true,
        ..scenario
    }
}

/// The same with all processes on one machine.
fn one_machine(scenario: Scenario) -> Scenario {
    Scenario {
        one_machine: true,
        ..scenario
    }
}

/// The same with a link that all edges share.
fn shared(scenario: Scenario) -> Scenario {
    Scenario {
        shared: true,
        ..scenario
    }
}

/// The same with groups that are too large to measure all of their edges.
fn large(scenario: Scenario) -> Scenario {
    Scenario {
        large: true,
        ..scenario
    }
}

/// The same with long paths between these peers and all others.
fn with_remote(remote: &'static [u64], scenario: Scenario) -> Scenario {
    Scenario { remote, ..scenario }
}

/// The same with a solver that takes its time.
fn searches(scenario: Scenario) -> Scenario {
    Scenario {
        searches: true,
        ..scenario
    }
}

fn only(kinds: &'static [Fault], scenario: Scenario) -> Scenario {
    Scenario { kinds, ..scenario }
}

/// Shared state comes from several holders at once.
fn from_several(scenario: Scenario) -> Scenario {
    Scenario {
        several: true,
        ..scenario
    }
}

/// What is repeated begins ahead.
fn begins_ahead(scenario: Scenario) -> Scenario {
    Scenario {
        ahead: true,
        ..scenario
    }
}

fn in_step(scenario: Scenario) -> Scenario {
    Scenario {
        in_step: true,
        ..scenario
    }
}

fn with_beats(scenario: Scenario) -> Scenario {
    Scenario {
        heartbeats: true,
        ..scenario
    }
}

fn by_halves(scenario: Scenario) -> Scenario {
    Scenario {
        dials: Dials::ByHalves,
        ..scenario
    }
}

fn free_frames(scenario: Scenario) -> Scenario {
    Scenario {
        frames: Frames::Free,
        ..scenario
    }
}
