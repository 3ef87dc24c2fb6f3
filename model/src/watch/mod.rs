//! The bystander who sees everything: checks what each step does against the claims.
//!
//! | file | what it looks at |
//! |---|---|
//! | `master` | what the master does: membership, rings, revisions |
//! | `deadlines` | which timers of the master run, for how long, and what begins them anew |
//! | `waiting` | whether whoever others wait for has a deadline |
//! | `verdicts` | what the master decides about collectives |
//! | `reasons` | what those are told whose call has come to nothing |
//! | `trouble` | what went wrong between peers, for those who look at what the master does about it |
//! | `innocence` | who is thrown out or refused |
//! | `transfers` | who is sent to whom for shared state |
//! | `rings` | why lanes are opened, between whom, by whom, and how often |
//! | `voters`, `election`, `entries` | whose content the master elects, and who fetches what of it |
//! | `groups` | what groups have to do with each other |
//! | `precedence` | which of two calls gives way |
//! | `orders` | whether the two ends of an edge will meet |
//! | `neighbours` | whom a peer is told to expect at the other end of its lanes |
//! | `probes` | what is measured, when, and what is known of it |
//! | `peer` | what a peer answers and orders |
//! | `signs_of_life` | whether everybody shows that it lives, and is heard |
//! | `told` | whether a peer passes on what it heard, to its user and to the master |
//! | `source` | what they ask of a run, whether it is the model's or was recorded |

mod deadlines;
mod election;
mod entries;
mod groups;
mod innocence;
pub(crate) mod late;
mod master;
mod neighbours;
mod orders;
mod peer;
mod precedence;
mod probes;
mod reasons;
mod rings;
mod signs_of_life;
mod source;
mod told;
mod transfers;
mod trouble;
mod verdicts;
mod voters;
mod waiting;
mod waits;

use pccl_core::id::{GroupId, PeerId};
use pccl_core::master::Master;
use pccl_core::states::{ConnectionPhase, ConnectionState};

use crate::claim::Claim;
use crate::run::Run;
use crate::step::SeatNo;

pub(crate) use innocence::fewer_go_than_wait;
pub(crate) use master::{
    agrees, master_hears, master_keeps, master_moved, master_says, vote_arrives,
};
pub(crate) use neighbours::{identity_of, ordered, planned};
pub(crate) use peer::{
    adopted, after_message, answered, before_message, holds_the_same, is_restored, peer_keeps,
    peer_moved, plan_runs,
};
pub(crate) use source::{Source, Standing, chosen, order_to_connect};
pub(crate) use waits::{ahead, waits};

/// No queue of messages holds more: the most is one answer per call, the plan of each kind of round,
/// a farewell and its reason.
const QUEUE_MAX: usize = 8;

pub(crate) fn bounded(run: &mut Run<'_>, no: SeatNo) {
    let link = &run.seat(no).connection;
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

/// Whether its ring is being connected.
fn is_wired(state: ConnectionState) -> bool {
    matches!(
        state,
        ConnectionState::ConnectingToPeers
            | ConnectionState::ConnectingToPeersFailed
            | ConnectionState::WaitingForOtherPeers
    )
}
