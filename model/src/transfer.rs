//! Moving shared state between processes: content is its hash.

use pccl_core::shared_state::{SyncRole, SyncStrategy, SyncVote};

use crate::fabric::Fabric;
use crate::lanes::running;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetching {
    /// There is nothing to fetch, or the holder has not been told yet.
    NotNow,
    /// This holder serves.
    Works(SeatNo),
    /// The holder is gone, or hangs.
    Fails,
}

pub(crate) fn fetching(state: &RunState, no: SeatNo) -> Fetching {
    let Some(seat) = state.seat(no) else {
        return Fetching::NotNow;
    };
    let Some(moving) = seat.plane.moving.as_ref().filter(|moving| !moving.ended) else {
        return Fetching::NotNow;
    };
    let SyncRole::Request {
        from: Some(from), ..
    } = &moving.plan.role
    else {
        return Fetching::NotNow;
    };
    let Some((holder_no, holder)) = running(state, state.seat_of(from.with)) else {
        return Fetching::Fails;
    };
    let serves = holder.plane.moving.as_ref().is_some_and(|serving| {
        let asked = match &serving.plan.role {
            SyncRole::Distribute { to } => to.iter().any(|order| Some(order.with) == seat.id),
            SyncRole::Request { .. } => false,
        };
        serving.plan.round == moving.plan.round && asked
    });
    if serves {
        Fetching::Works(holder_no)
    } else {
        Fetching::NotNow
    }
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
        if let Fetching::Works(holder) = fetching(&self.state, no) {
            self.fetch(no, holder);
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
