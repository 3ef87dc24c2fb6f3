//! Moving shared state between processes: content is its hash.

use pccl_core::id::Round;
use pccl_core::peer::PeerInput;
use pccl_core::shared_state::{SyncPlan, SyncRole, SyncStrategy, SyncVote};

use crate::claim::Claim;
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
    moving.is_some_and(|moving| match &moving.plan.role {
        SyncRole::Distribute { to } => to.iter().all(|order| moving.served.contains(&order.with)),
        SyncRole::Request { .. } => false,
    })
}

impl Run<'_> {
    pub(crate) fn move_state(&mut self, no: SeatNo, plan: SyncPlan) {
        let at_once = match &plan.role {
            SyncRole::Distribute { to } => to.is_empty(),
            SyncRole::Request { from, .. } => from.is_none(),
        };
        self.edit(no).plane.moving = Some(Moving {
            plan,
            served: Vec::new(),
            ended: false,
            staged: Vec::new(),
        });
        if at_once {
            self.end_move(no, true);
        }
    }

    pub(crate) fn fetch(&mut self, no: SeatNo) {
        let Fetching::Works(holder) = fetching(&self.state, no) else {
            return;
        };
        let held = self.seat(holder).user.contents;
        if let Some(moving) = &mut self.edit(no).plane.moving
            && let SyncRole::Request { entries, .. } = &moving.plan.role
        {
            let entries = entries.to_vec();
            moving.staged = entries;
        }
        let promised = self.seat(no).plane.moving.as_ref();
        let kept = promised.is_some_and(|moving| {
            let mut staged = moving.staged.iter();
            staged.all(|(at, hash)| held.get(*at) == Some(*hash))
        });
        if !kept {
            // It arrives, and its hash is not the one that it should have.
            self.end_move(no, false);
            return;
        }
        self.end_move(no, true);
        self.serve(holder, no);
    }

    fn serve(&mut self, holder: SeatNo, to: SeatNo) {
        let asker = self.seat(to).id;
        let Some(moving) = &mut self.edit(holder).plane.moving else {
            return;
        };
        moving.served.extend(asker);
    }

    pub(crate) fn end_move(&mut self, no: SeatNo, ok: bool) {
        let is_mute = self.seat(no).is_mute;
        if let Some(moving) = &mut self.edit(no).plane.moving {
            moving.ended = true;
            if is_mute {
                return;
            }
            let round = moving.plan.round;
            let with = match &moving.plan.role {
                SyncRole::Distribute { to } if !ok => {
                    let mut lacking = to.iter().map(|order| order.with);
                    lacking.find(|asker| !moving.served.contains(asker))
                }
                SyncRole::Distribute { .. } | SyncRole::Request { .. } => None,
            };
            self.give(no, PeerInput::TransfersEnded { round, ok, with });
        }
    }

    pub(crate) fn commit_state(&mut self, no: SeatNo, round: Round) {
        let seat = self.edit(no);
        match seat.plane.moving.take() {
            Some(moving) if moving.plan.round == round => {
                let contents = &mut seat.user.contents;
                let mut staged = moving.staged.iter();
                if !staged.all(|(at, hash)| contents.set(*at, *hash)) {
                    self.state.breaks(Claim::SharedState);
                }
            }
            // Only a running plan is committed.
            Some(_) | None => self.state.breaks(Claim::SharedState),
        }
    }

    pub(crate) fn drop_state(&mut self, no: SeatNo, round: Round) {
        let moving = self.edit(no).plane.moving.take();
        if moving.is_none_or(|moving| moving.plan.round != round) {
            self.state.breaks(Claim::SharedState);
        }
    }
}
