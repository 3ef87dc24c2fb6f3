//! How the first state comes about: those who are inside from the start connect, are admitted, and
//! update the topology until nobody is fresh. All of it by the steps of the model, in a fixed order.

use std::collections::BTreeSet;

use pccl_core::master::{Master, MasterConfig};
use pccl_core::peer::{Call, PeerPhase};

use crate::claim::Claim;
use crate::coverage::Coverage;
use crate::enabled;
use crate::hashed::Hashed;
use crate::journal::Journal;
use crate::run::Run;
use crate::scenario::{Fault, Scenario, Start};
use crate::state::{Ghost, RunState, Seat};
use crate::step::Step;

/// What the master of a run holds to. Few attempts, so that giving up is within reach.
pub(crate) fn config(scenario: &Scenario) -> MasterConfig {
    let limits = if scenario.mesh {
        MasterConfig::default()
    } else {
        MasterConfig::rings_only()
    };
    MasterConfig {
        wiring_attempts_max: 2,
        // Of four peers there are too many states.
        rounds_from: 3,
        ahead_max: match scenario.ahead {
            true => u64::MAX,
            false => 0,
        },
        ahead_within_machine: true,
        probe_all_max: if scenario.large {
            2
        } else {
            limits.probe_all_max
        },
        // What a run holds as shared state is a few bytes.
        transfer_share_min: match scenario.several {
            true => 1,
            false => limits.transfer_share_min,
        },
        ..limits
    }
}

/// Who is fresh updates once, and what came of that perhaps once more.
const UPDATES_MAX: usize = 8;

/// Bringing one peer inside takes a few dozen.
const STEPS_MAX: usize = 10_000;

/// Where the machines are sound, the state in which the exploration begins. Where they are not, it may
/// be broken already.
pub(crate) fn first_state(scenario: &Scenario, coverage: &Coverage) -> RunState {
    let seats = scenario.seats.iter().map(|plan| {
        let alike = scenario
            .seats
            .iter()
            .position(|known| known == plan)
            .unwrap_or(0);
        let plan_no = u8::try_from(alike).unwrap_or(u8::MAX);
        Hashed::new(Seat::new(plan_no, plan))
    });
    let master = Master::new(config(scenario));
    let journal = scenario.allows(Fault::RestartMaster);
    let mut state = RunState {
        journal: journal.then(|| Hashed::new(Journal::new(master.clone()))),
        master: Some(Hashed::new(master)),
        seats: seats.collect(),
        tours: Vec::new(),
        asked: Vec::new(),
        searches: Vec::new(),
        faults: 0,
        black_holes: BTreeSet::new(),
        ghost: Hashed::new(Ghost::default()),
        broken: None,
        reached: 0,
    };
    // One after the other, so that a lower seat has a lower number.
    for (at, plan) in scenario.seats.iter().enumerate() {
        if plan.start == Start::Inside {
            state = connect(scenario, coverage, state, at);
            for _ in 0..UPDATES_MAX {
                if !is_level(&state) && state.broken.is_none() {
                    state = update_all(scenario, coverage, state);
                }
            }
            if !is_level(&state) {
                state.breaks(Claim::NoStall);
            }
        }
    }
    for (seat, plan) in state.seats.iter_mut().zip(&scenario.seats) {
        let fresh = Seat::new(0, plan);
        seat.edit().user = fresh.user;
    }
    state.faults = scenario.faults;
    state.ghost = Hashed::new(Ghost::default());
    if let Some(journal) = &mut state.journal {
        journal.edit().compact();
    }
    state.reached = 0;
    state.seal();
    state
}

/// Everybody who has connected is accepted and idle, and has called something since.
fn is_level(state: &RunState) -> bool {
    state.seats.iter().all(|seat| {
        let view = seat.peer.view();
        view.phase() == PeerPhase::Unconnected
            || (view.phase() == PeerPhase::Accepted && view.is_idle() && !view.is_fresh())
    })
}

/// Everybody who is accepted and idle updates the topology, and it is carried through.
fn update_all(scenario: &Scenario, coverage: &Coverage, state: RunState) -> RunState {
    let mut run = Run::new(scenario, coverage, state);
    for no in run.state.seat_numbers() {
        let view = run.seat(no).peer.view();
        if view.phase() == PeerPhase::Accepted && view.is_idle() {
            run.edit(no).user.expect_update();
            run.calls(no, Call::UpdateTopology);
        }
    }
    settle(scenario, coverage, run.state)
}

fn connect(scenario: &Scenario, coverage: &Coverage, state: RunState, at: usize) -> RunState {
    let mut run = Run::new(scenario, coverage, state);
    if let Some(no) = run.state.seat_numbers().nth(at) {
        run.edit(no).user.expect_connect();
        run.calls(no, Call::Connect);
    }
    settle(scenario, coverage, run.state)
}

/// Whatever can happen by itself happens, the first first.
fn settle(scenario: &Scenario, coverage: &Coverage, mut state: RunState) -> RunState {
    for _ in 0..STEPS_MAX {
        state.seal();
        let mut steps = Vec::new();
        enabled::steps(scenario, &state, &mut steps);
        steps.retain(|step| !matches!(step, Step::Call(_) | Step::Beat(_) | Step::MasterBeats));
        let Some(first) = steps.first() else {
            return state;
        };
        state = Run::step(scenario, coverage, &state, *first);
    }
    state.breaks(Claim::NoStall);
    state
}
