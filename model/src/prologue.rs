//! How the first state comes about: those who are inside from the start connect, are admitted, and
//! update the topology until nobody is fresh. All of it by the steps of the model, in a fixed order.

use pccl_core::master::{Master, MasterConfig};
use pccl_core::peer::{Call, PeerInput};

use crate::coverage::Coverage;
use crate::enabled;
use crate::hashed::Hashed;
use crate::run::Run;
use crate::scenario::{Scenario, Start};
use crate::state::{Ghost, RunState, Seat};
use crate::step::Step;

/// Few attempts, so that giving up is within reach.
fn config() -> MasterConfig {
    MasterConfig {
        wiring_attempts_max: 2,
        ..MasterConfig::default()
    }
}

pub(crate) fn first_state(scenario: &Scenario, coverage: &Coverage) -> RunState {
    let seats = scenario.seats.iter().map(|plan| {
        let alike = scenario.seats.iter().position(|known| known == plan).unwrap_or(0);
        let plan_no = u8::try_from(alike).unwrap_or(u8::MAX);
        Hashed::new(Seat::new(plan_no, plan))
    });
    let mut state = RunState {
        master: Some(Hashed::new(Master::new(config()))),
        seats: seats.collect(),
        tours: Vec::new(),
        faults: 0,
        ghost: Hashed::new(Ghost::default()),
        broken: None,
        reached: 0,
    };
    // One after the other, so that a lower seat has a lower number.
    for (at, plan) in scenario.seats.iter().enumerate() {
        if plan.start == Start::Inside {
            state = call(scenario, coverage, state, at, &Call::Connect);
            state = call_all(scenario, coverage, state, &Call::UpdateTopology);
        }
    }
    state = call_all(scenario, coverage, state, &Call::UpdateTopology);
    assert_eq!(state.broken, None, "the prologue of {}", scenario.name);
    for (seat, plan) in state.seats.iter_mut().zip(&scenario.seats) {
        let fresh = Seat::new(0, plan);
        seat.edit().user = fresh.user;
    }
    state.faults = scenario.faults;
    state.ghost = Hashed::new(Ghost::default());
    state.reached = 0;
    state.seal();
    state
}

/// Everybody who is accepted calls the same, and it is carried through.
fn call_all(
    scenario: &Scenario,
    coverage: &Coverage,
    mut state: RunState,
    call_: &Call,
) -> RunState {
    let mut run = Run {
        scenario,
        coverage,
        state,
    };
    for no in run.state.seat_numbers() {
        if run.seat(no).peer.view().topology().is_some() {
            run.edit(no).user.expect_major();
            run.give(no, PeerInput::Call(call_.clone()));
        }
    }
    state = run.state;
    settle(scenario, coverage, state)
}

fn call(
    scenario: &Scenario,
    coverage: &Coverage,
    state: RunState,
    at: usize,
    call: &Call,
) -> RunState {
    let mut run = Run {
        scenario,
        coverage,
        state,
    };
    let no = run.state.seat_numbers().nth(at);
    if let Some(no) = no {
        run.edit(no).user.expect_connect();
        run.give(no, PeerInput::Call(call.clone()));
    }
    settle(scenario, coverage, run.state)
}

/// Whatever can happen by itself happens, the first first.
fn settle(scenario: &Scenario, coverage: &Coverage, mut state: RunState) -> RunState {
    loop {
        state.seal();
        let mut steps = Vec::new();
        enabled::steps(scenario, &state, &mut steps);
        steps.retain(|step| !matches!(step, Step::Call(_)));
        let Some(first) = steps.first() else {
            return state;
        };
        state = Run::step(scenario, coverage, &state, *first);
    }
}
