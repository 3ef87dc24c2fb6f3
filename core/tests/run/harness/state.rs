//! Moving shared state between processes: content is its hash.

use std::collections::BTreeSet;

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Revision, Round};
use pccl_core::peer::PeerInput;
use pccl_core::shared_state::{EntryInfo, FetchList, SyncPlan, SyncRole};

use super::Run;
use super::seat::{SeatNo, shared};

/// The shared state of a process.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) revision: Revision,
    /// Sorted by name.
    pub(crate) entries: Vec<EntryInfo>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            revision: Revision(0),
            entries: vec![shared("weights", 100)],
        }
    }
}

/// A plan that is carried out.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    plan: SyncPlan,
    staged: Vec<(EntryIndex, ContentHash)>,
    served: BTreeSet<PeerId>,
    ended: bool,
}

impl Run {
    pub(super) fn move_state(&mut self, no: SeatNo, plan: SyncPlan) {
        self.seats[no].plane.moving = Some(Moving {
            plan,
            staged: Vec::new(),
            served: BTreeSet::new(),
            ended: false,
        });
    }

    pub(super) fn commit_state(&mut self, no: SeatNo, round: Round) {
        let plane = &mut self.seats[no].plane;
        let moving = plane
            .moving
            .take()
            .expect("only a running plan is committed");
        assert_eq!(moving.plan.round, round);
        for (index, hash) in moving.staged {
            plane.memory.entries[index.0 as usize].hash = hash;
        }
        plane.memory.revision = moving.plan.revision;
    }

    pub(super) fn drop_state(&mut self, no: SeatNo, round: Round) {
        let moving = self.seats[no].plane.moving.take();
        let moving = moving.expect("only a running plan is dropped");
        assert_eq!(moving.plan.round, round);
    }

    pub(super) fn advance_move(&mut self, no: SeatNo) -> bool {
        let Some(moving) = &self.seats[no].plane.moving else {
            return false;
        };
        if moving.ended {
            return false;
        }
        match moving.plan.role.clone() {
            SyncRole::Request {
                from: None,
                entries,
            } => {
                assert!(entries.is_empty());
                self.end_move(no, true, None);
                true
            }
            SyncRole::Request {
                from: Some(order),
                entries,
            } => {
                let holder = self
                    .seat_with(order.with)
                    .expect("plans name peers of the run");
                self.fetch(no, holder, &entries)
            }
            SyncRole::Distribute { to } => {
                let all = to.iter().all(|order| moving.served.contains(&order.with));
                let stranger = to.iter().find(|order| self.cannot_connect(no, order.with));
                let with = stranger.map(|order| order.with);
                if all || with.is_some() {
                    self.end_move(no, all, with);
                }
                all || with.is_some()
            }
        }
    }

    fn fetch(&mut self, no: SeatNo, holder: SeatNo, entries: &FetchList) -> bool {
        let holder_is_out =
            !self.seats[holder].alive || self.seats[holder].peer.view().ended().is_some();
        if holder_is_out || self.cannot_connect(no, self.id(holder)) {
            self.end_move(no, false, None);
            return true;
        }
        let round = self.seats[no]
            .plane
            .moving
            .as_ref()
            .map(|moving| moving.plan.round);
        let me = self.id(no);
        let content = self.seats[holder].plane.memory.entries.clone();
        let serving = self.seats[holder].plane.moving.as_mut();
        let Some(serving) = serving.filter(|moving| Some(moving.plan.round) == round) else {
            return false;
        };
        serving.served.insert(me);
        for (index, hash) in entries.iter() {
            assert_eq!(
                content[index.0 as usize].hash, hash,
                "the holder has what was promised"
            );
        }
        if let Some(moving) = &mut self.seats[no].plane.moving {
            moving.staged = entries.to_vec();
        }
        self.end_move(no, true, None);
        true
    }

    fn cannot_connect(&self, no: SeatNo, with: PeerId) -> bool {
        let other = self.seat_with(with).expect("plans name peers of the run");
        let pair = (no.min(other), no.max(other));
        self.fabric.blocked.contains(&pair) || self.fabric.untransferable.contains(&pair)
    }

    /// The holder that a process was told to fetch from, until that is concluded.
    pub(crate) fn fetches_from(&self, no: SeatNo) -> Option<SeatNo> {
        match &self.seats[no].plane.moving.as_ref()?.plan.role {
            SyncRole::Request { from, .. } => self.seat_with(from.as_ref()?.with),
            SyncRole::Distribute { .. } => None,
        }
    }

    /// Whichever end of a pair that cannot connect notices first says so.
    fn end_move(&mut self, no: SeatNo, ok: bool, with: Option<PeerId>) {
        if let Some(moving) = &mut self.seats[no].plane.moving {
            moving.ended = true;
            let round = moving.plan.round;
            self.seats[no]
                .inbox
                .push_back(PeerInput::TransfersEnded { round, ok, with });
        }
    }
}
