//! The run as stateright sees it.

use std::sync::Arc;

use stateright::{Model, Property};

use crate::claim::{CLAIMS, Claim};
use crate::coverage::Coverage;
use crate::enabled;
use crate::milestone::{MILESTONES, Milestone};
use crate::prologue;
use crate::run::Run;
use crate::scenario::Scenario;
use crate::state::RunState;
use crate::step::Step;
use crate::story;

/// One scenario, to be explored.
#[derive(Clone, Debug)]
pub struct RunModel {
    scenario: Scenario,
    first: RunState,
    coverage: Arc<Coverage>,
}

impl RunModel {
    /// Gets ready: brings those inside that are inside from the start.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let coverage = Arc::new(Coverage::default());
        let first = prologue::first_state(&scenario, &coverage);
        Self {
            scenario,
            first,
            coverage,
        }
    }

    /// What is explored.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What was seen so far. Stays there when the model is moved into a checker.
    #[must_use]
    pub fn coverage(&self) -> Arc<Coverage> {
        Arc::clone(&self.coverage)
    }

    /// The state in which the exploration begins.
    #[must_use]
    pub fn first_state(&self) -> &RunState {
        &self.first
    }

    /// Is something pending that nothing can end?
    #[must_use]
    pub fn is_stuck(&self, state: &RunState) -> bool {
        if state.broken.is_some() {
            return false;
        }
        let waits = |no| {
            let seat = state.seat(no);
            seat.is_some_and(|seat| {
                let wants_nothing = seat.user.is_over() || enabled::rests(&self.scenario, seat);
                seat.runs() && !wants_nothing
            })
        };
        let waiting = state.seat_numbers().any(waits);
        waiting
            && enabled::is_at_rest(&self.scenario, state)
            && !self.is_excused(state)
            && !enabled::is_outnumbered(&self.scenario, state)
    }

    /// The claim that is broken in this state.
    #[must_use]
    pub fn broken(&self, state: &RunState) -> Option<Claim> {
        let stuck = || self.is_stuck(state).then_some(Claim::NoStall);
        state.broken.or_else(stuck)
    }

    /// Who never connected because the master is gone waits for nothing.
    fn is_excused(&self, state: &RunState) -> bool {
        state.seats.iter().all(|seat| {
            !seat.runs() || seat.user.is_over() || enabled::is_outside(&self.scenario, seat)
        })
    }
}

impl Model for RunModel {
    type State = RunState;
    type Action = Step;

    fn init_states(&self) -> Vec<RunState> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &RunState, actions: &mut Vec<Step>) {
        enabled::steps(&self.scenario, state, actions);
    }

    fn next_state(&self, last_state: &RunState, action: Step) -> Option<RunState> {
        Some(Run::step(
            &self.scenario,
            &self.coverage,
            last_state,
            action,
        ))
    }

    fn format_action(&self, action: &Step) -> String {
        action.to_string()
    }

    fn format_step(&self, before: &RunState, step: Step) -> Option<String> {
        let after = self.next_state(before, step)?;
        Some(story::moment(&self.scenario, before, step, &after))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let claims = CLAIMS.iter().map(|claim| match claim {
            Claim::NoStall => {
                Property::always(claim.sentence(), |model: &Self, state: &RunState| {
                    !model.is_stuck(state)
                })
            }
            claim => Property::always(claim.sentence(), holds(*claim)),
        });
        let wanted = MILESTONES
            .iter()
            .filter(|m| self.scenario.milestones.contains(m));
        let reached = wanted.map(|m| Property::sometimes(m.sentence(), is_reached(*m)));
        claims.chain(reached).collect()
    }
}

type Condition = fn(&RunModel, &RunState) -> bool;

/// Conditions are plain functions, so there is one for each claim.
fn holds(claim: Claim) -> Condition {
    macro_rules! of {
        ($($name:ident),*) => {
            match claim {
                $(Claim::$name => |_, state| state.broken != Some(Claim::$name),)*
            }
        };
    }
    of!(
        Agreement,
        Unanimity,
        ExactlyOnce,
        SameOrder,
        Restoration,
        Exclusivity,
        OneView,
        Orders,
        Named,
        Neighbours,
        Admission,
        SharedState,
        Election,
        Sources,
        Revision,
        NoStall,
        NoPanic,
        NoVerdictInvented,
        WithinTheTable,
        Innocence,
        Reasons,
        Rewiring,
        Avoidance,
        Persistence,
        Trust,
        AnsweredOnce,
        RetriesExplained,
        InStep,
        Timers,
        Watched,
        SignsOfLife,
        Unmoved,
        Bounded,
        Apart,
        Ballots,
        Epochs,
        Precedence,
        Patience,
        Truth,
        Meeting,
        Tickets,
        Fetched,
        Failures,
        GivenUp,
        Measured,
        Rotations,
        Frames,
        Turns,
        Resumption
    )
}

fn is_reached(milestone: Milestone) -> Condition {
    macro_rules! of {
        ($($name:ident),*) => {
            match milestone {
                $(Milestone::$name => |_, state| state.has_reached(Milestone::$name),)*
            }
        };
    }
    of!(
        Committed,
        CommittedWithoutOne,
        TravelledWhole,
        WentDirectly,
        WentInRounds,
        WentInLevels,
        WentFromSiteToSite,
        SummedAtAllSites,
        RingAlone,
        Aborted,
        RestoredWhole,
        Recovered,
        TwoTagsAtOnce,
        Admitted,
        AdmittedAlone,
        Rewired,
        WiredAgain,
        ContentMoved,
        ContentKept,
        SyncFailed,
        RevisionAdvanced,
        Optimized,
        OptimizationFailed,
        GaveWay,
        ToldPending,
        ToldNobodyPending,
        LostMasterUndecided,
        NoticedBySilence,
        ThrownOut,
        SenderServed,
        ReceiverTook,
        TookFromSeveral,
        LeftAtTheEnd,
        WaitedForItsTurn,
        WaitedForGivenUp,
        AnsweredTheNext,
        GivenUpInTransfer,
        KeptBesideFresh,
        Consented,
        Stalled,
        SetAside,
        RoutedAround,
        LostBeside,
        PartMoved,
        Restarted,
        Mismatched,
        BetterAdopted,
        RootGone,
        LaidOutAnew,
        EdgesWanted,
        TooLong,
        CameBack,
        HeardAgain,
        BegunAhead,
        AheadConfirmed,
        BegunInVain,
        VotedAhead,
        AskedBack
    )
}
