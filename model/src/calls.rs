//! The names of calls, and what a machine is told of a user's wish.

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::{CallId, Membership, PeerId, Tag};
use pccl_core::peer::{Answer, Call, CallError, Kind, PeerInput};

use crate::scenario::SeatPlan;
use crate::script::{Do, Wish};
use crate::state::Seat;

/// The tag of this number.
pub(crate) fn tag_of(tag: u8) -> Tag {
    Tag(u64::from(tag))
}

// A user has one call of a kind open, and one collective of a tag.
pub(crate) const CONNECT: CallId = CallId(0);
pub(crate) const UPDATE: CallId = CallId(1);
pub(crate) const QUERY: CallId = CallId(2);
pub(crate) const OPTIMIZE: CallId = CallId(3);
pub(crate) const SYNC: CallId = CallId(4);

/// The name of a call of this kind.
pub(crate) fn name_of(kind: Kind) -> CallId {
    match kind {
        Kind::Connect => CONNECT,
        Kind::UpdateTopology => UPDATE,
        Kind::ArePeersPending => QUERY,
        Kind::OptimizeTopology => OPTIMIZE,
        Kind::SyncSharedState => SYNC,
        Kind::Collective(tag) => name_of_tag(tag),
    }
}

/// The name of the collective of this tag.
pub(crate) fn name_of_tag(tag: Tag) -> CallId {
    CallId(tag.0 + 10)
}

/// The name of a collective that is called by mistake: its tag is in use.
const MISTAKE: CallId = CallId(5);

/// Whether an answer goes to a call of its kind.
pub(crate) fn is_for(call: CallId, answer: &Answer) -> bool {
    match answer {
        Answer::CollectiveEnded {
            result: Err(CallError::Usage(_)),
            ..
        } => call == MISTAKE,
        _ => call == name_of(answer.kind()),
    }
}

/// How many elements a peer contributes if it may choose: other than its neighbours, some none, and one more in the next
/// attempt.
pub(crate) fn own_length(peer: PeerId, again: bool) -> u64 {
    peer.0 % 3 + u64::from(again)
}

/// Shards are laid out when they are to be gathered, and what each has is known then.
fn laid_out(seat: &Seat, kind: CollectiveKind, wish: Wish) -> CollectiveKind {
    match kind {
        CollectiveKind::AllGatherV { limit, .. } => {
            let me = seat.peer.view().peer_id();
            let again = matches!(wish, Wish::Again(_));
            let own = me.map_or(0, |me| own_length(me, again));
            CollectiveKind::AllGatherV { own, limit }
        }
        CollectiveKind::AllGather { .. } => {
            let topology = seat.peer.view().topology();
            let ring = topology.map(|topology| &topology.ring.0[..]);
            CollectiveKind::AllGather {
                laid_out_for: Membership::of(ring.unwrap_or_default()),
            }
        }
        CollectiveKind::AllReduce
        | CollectiveKind::ReduceScatter
        | CollectiveKind::Broadcast { .. }
        | CollectiveKind::Barrier => kind,
    }
}

/// What the machine is told of a wish.
pub(crate) fn input_of(
    seat: &Seat,
    plan: &SeatPlan,
    spec: CollectiveSpec,
    wish: Wish,
) -> PeerInput {
    let initiate = |tag: u8, spec: CollectiveSpec| {
        let tag = tag_of(tag);
        Call::Initiate { tag, spec }
    };
    let spec = CollectiveSpec {
        kind: laid_out(seat, spec.kind, wish),
        ..spec
    };
    let longer = CollectiveSpec {
        count: spec.count + 1,
        ..spec
    };
    let odd = CollectiveSpec {
        op: pccl_core::element::ReduceOp::Max,
        ..longer
    };
    let what = match wish {
        Wish::Connect => Call::Connect,
        Wish::Again(tag) | Wish::Do(Do::Start(tag)) => initiate(tag, spec),
        Wish::Do(Do::StartTwice(tag)) => {
            let (call, what) = (MISTAKE, initiate(tag, spec));
            return PeerInput::Call { call, what };
        }
        Wish::Do(Do::StartOdd(tag)) => initiate(tag, odd),
        Wish::Do(Do::StartLonger(tag)) => initiate(tag, longer),
        Wish::Do(Do::Update | Do::UpdateIfPending) => Call::UpdateTopology,
        Wish::Do(Do::Ask) => Call::ArePeersPending,
        Wish::Do(Do::Optimize) => Call::OptimizeTopology,
        Wish::Do(Do::Sync(strategy)) => {
            Call::SyncSharedState(crate::transfer::vote(&seat.user, plan, strategy))
        }
        Wish::Do(Do::Cancel(tag)) => {
            let call = name_of_tag(tag_of(tag));
            return PeerInput::GiveUp { call };
        }
        Wish::Do(Do::AskBack(tag)) => {
            let call = name_of_tag(tag_of(tag));
            return PeerInput::Withdraw { call };
        }
        Wish::Do(Do::Drop) => {
            let call = seat.user.open_call();
            return PeerInput::GiveUp { call };
        }
        Wish::Leave | Wish::Do(Do::Finish(_) | Do::Advance | Do::Leave) => return PeerInput::Leave,
    };
    let call = name_of(what.kind());
    PeerInput::Call { call, what }
}
