//! The bystander who sees everything: checks what each step does against the claims.
//!
//! | file | what it looks at |
//! |---|---|
//! | `master` | what the master does: membership, timers, rings, revisions |
//! | `verdicts` | what the master decides about collectives |
//! | `innocence` | who is thrown out or refused |
//! | `election` | whose content the master elects |
//! | `neighbours` | whom a peer is told to expect at the other end of its lanes |
//! | `peer` | what a peer answers and orders |
//! | `source` | what they ask of a run, whether it is the model's or was recorded |

mod election;
mod innocence;
mod master;
mod neighbours;
mod peer;
mod source;
mod verdicts;

use pccl_core::id::{GroupId, PeerId};
use pccl_core::master::Master;
use pccl_core::states::ConnectionPhase;

use crate::claim::Claim;
use crate::run::Run;
use crate::step::SeatNo;

pub(crate) use innocence::pair_failed;
pub(crate) use master::{master_hears, master_keeps, master_moved, master_says};
pub(crate) use neighbours::{identity_of, ordered, planned};
pub(crate) use peer::{
    adopted, after_message, answered, before_message, holds_the_same, is_restored, peer_moved,
    ring_runs,
};
pub(crate) use source::{Source, Standing};

/// No queue of messages holds more: the most is one answer per call, the plan of each kind of round,
/// a farewell and its reason.
const QUEUE_MAX: usize = 8;

pub(crate) fn bounded(run: &mut Run<'_>, no: SeatNo) {
    let link = &run.seat(no).link;
    if link.up.queue.len() > QUEUE_MAX || link.down.queue.len() > QUEUE_MAX {
        run.state.breaks(Claim::Bounded);
    }
}

pub(crate) fn retries(run: &mut Run<'_>, no: SeatNo) {
    if run.seat(no).user.has_lost_patience() {
        run.state.breaks(Claim::RetriesExplained);
    }
}

fn accepted(master: &Master, group: GroupId) -> impl Iterator<Item = PeerId> {
    let peers = master.view().peers();
    peers
        .filter(move |(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted)
        .map(|(id, _)| id)
}
