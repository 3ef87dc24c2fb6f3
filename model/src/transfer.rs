//! Moving shared state between processes: content is its hash.

use pccl_core::id::Round;
use pccl_core::shared_state::{SyncRole, SyncStrategy, SyncVote};

use crate::fabric::Fabric;
use crate::lanes::running;
use crate::milestone::Milestone;
use crate::plane::Moving;
use crate::run::Run;
use crate::scenario::SeatPlan;
use crate::script::User;
use crate::state::{RunState, Seat};
use crate::step::SeatNo;

/// What a user votes.
pub(crate) fn vote(user: &User, plan: &SeatPlan, strategy: SyncStrategy) -> SyncVote {
    SyncVote {
        revision: user.revision,
        strategy,
        restart: plan.restart,
        entries: user.contents.entries(),
    }
}

/// What can become of what a seat is to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fetching {
    /// There is nothing to fetch, or a holder has not been told yet.
    NotNow,
    /// These holders serve. Others, if there are any, are gone or hang: their share is taken over.
    Works(Vec<SeatNo>),
    /// All holders are gone, or hang.
    Fails,
}

pub(crate) fn fetching(state: &RunState, no: SeatNo) -> Fetching {
    let Some(seat) = state.seat(no) else {
        return Fetching::NotNow;
    };
    let Some(moving) = seat.plane.moving.as_ref().filter(|moving| !moving.ended) else {
        return Fetching::NotNow;
    };
    let from = match &moving.plan.role {
        SyncRole::Request { from, .. } if !from.is_empty() => from,
        SyncRole::Request { .. } | SyncRole::Distribute { .. } => return Fetching::NotNow,
    };
    let holders = from.iter();
    let holders: Vec<_> = holders
        .filter_map(|order| running(state, state.seat_of(order.with)))
        .collect();
    if holders.is_empty() {
        return Fetching::Fails;
    }
    let mut all = holders.iter();
    if !all.all(|(_, holder)| serves(holder, seat, moving.plan.round)) {
        return Fetching::NotNow;
    }
    Fetching::Works(holders.into_iter().map(|(no, _)| no).collect())
}

/// Has a holder been told to serve this seat?
fn serves(holder: &Seat, seat: &Seat, round: Round) -> bool {
    holder.plane.moving.as_ref().is_some_and(|serving| {
        let asked = match &serving.plan.role {
            SyncRole::Distribute { to } => to.iter().any(|order| Some(order.with) == seat.id),
            SyncRole::Request { .. } => false,
        };
        serving.plan.round == round && asked
    })
}

/// Is a seat to serve somebody, and has it not said how that ended?
pub(crate) fn is_serving(seat: &Seat) -> bool {
    let moving = seat.plane.moving.as_ref().filter(|moving| !moving.ended);
    moving.is_some_and(|moving| match &moving.plan.role {
        SyncRole::Distribute { to } => !to.is_empty(),
        SyncRole::Request { .. } => false,
    })
}

/// Has everybody been served whom a seat is to serve, and has it not said so yet?
pub(crate) fn has_served(seat: &Seat) -> bool {
    let moving = seat.plane.moving.as_ref().filter(|moving| !moving.ended);
    moving.is_some_and(Moving::is_served)
}

impl Run<'_> {
    pub(crate) fn fetches(&mut self, no: SeatNo) {
        if let Fetching::Works(holders) = fetching(&self.state, no) {
            if holders.len() > 1 {
                self.state.reach(Milestone::TookFromSeveral);
            }
            self.fetch(no, &holders);
        }
    }

    /// A transfer breaks. Who serves says whom it was for.
    pub(crate) fn transfer_fails(&mut self, no: SeatNo) {
        let moving = self.seat(no).plane.moving.as_ref();
        let lacks = moving.and_then(|moving| match &moving.plan.role {
            SyncRole::Distribute { to } => {
                let mut lacking = to.iter().map(|order| order.with);
                lacking.find(|asker| !moving.served.contains(asker))
            }
            SyncRole::Request { .. } => None,
        });
        self.end_move(no, false, lacks);
    }
}
