//! Calls, and inputs that are mostly out of place.

use pccl_core::awaited::{Awaited, AwaitedCall, Wait};
use pccl_core::element::{SpecField, SpecValue};
use pccl_core::id::{ContentHash, EntryIndex, Epoch, PeerId, Revision, Round, Seq, Tag};
use pccl_core::lengths::Lengths;
use pccl_core::messages::{
    AbortCause, CallFailure, CallKind, CollectiveRefusal, Conflict, Misdeed, PlanOutcome, Refusal,
    ToPeer, Verdict,
};
use pccl_core::paths::RingReport;
use pccl_core::peer::{Call, PeerInput, PeerTimer};
use pccl_core::plan::{Algorithm, Pattern};
use pccl_core::shared_state::{SyncFailure, SyncPlan, SyncRole};
use pccl_core::topology::{LaneFailure, LinkId, Way};
use proptest::prelude::*;

use crate::desk::{
    MEASURED, establish, established, from, initiate, link_broke, link_failed, link_up, order,
    reserved, sites_of, sync_vote, to, welcome, with_sites,
};

pub(super) fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => Just(Call::Connect),
        2 => Just(Call::UpdateTopology),
        2 => Just(Call::ArePeersPending),
        2 => Just(Call::OptimizeTopology),
        4 => Just(Call::SyncSharedState(sync_vote())),
        12 => (1..6_u64).prop_map(initiate),
    ]
}

fn awaited(others: u32) -> ToPeer {
    let wait = Wait {
        call: AwaitedCall::SyncSharedState,
        peers: Vec::new(),
        others,
    };
    ToPeer::Awaited(Awaited { waits: vec![wait] })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        (0..4_u64, prop::option::of(1..9_u64)).prop_map(|(epoch, next)| Verdict::Committed {
            epoch: Epoch(epoch),
            next: next.map(reserved),
        }),
        Just(Verdict::Aborted(AbortCause::TimedOut)),
    ]
}

fn link() -> impl Strategy<Value = LinkId> {
    let way = prop::sample::select(vec![Way::Out, Way::In]);
    let with = (1..5_u64).prop_map(PeerId);
    (way, with).prop_map(|(way, with)| LinkId { way, with })
}

/// A ring with the links to its neighbours, mostly, and perhaps others; mostly in order, and with the sites of its
/// ranks.
fn ring() -> impl Strategy<Value = ToPeer> {
    type Links = &'static [LinkId];
    const RINGS: [(&[u64], Links); 5] = [
        (&[1, 2, 3], &[to(3), from(1)]),
        (&[1, 2], &[to(1), from(1)]),
        (&[2], &[]),
        (&[1, 2, 3, 4], &[to(3), from(1)]),
        (&[1, 3], &[to(3), from(1)]),
    ];
    (
        0..4_u64,
        prop::sample::select(RINGS.to_vec()),
        prop::collection::vec(prop::option::weighted(0.9, 1..9_u64), 2),
        prop::collection::vec((link(), 1..9_u64), 0..3),
        prop::bool::weighted(0.9),
        prop::option::weighted(0.1, 0..5_usize),
    )
        .prop_map(|(epoch, (ring, links), built, others, in_order, ranks)| {
            let of_ring = links.iter().copied().zip(built);
            let of_ring = of_ring.filter_map(|(link, round)| Some((link, round?)));
            let mut links: Vec<(LinkId, u64)> = of_ring.chain(others).collect();
            if in_order {
                links.sort_unstable();
            }
            let told = established(epoch, ring, &links);
            match ranks {
                Some(ranks) => with_sites(told, sites_of(&[1, 2, 3, 4][..ranks])),
                None => told,
            }
        })
}

/// An order to connect any links, mostly in order.
fn links() -> impl Strategy<Value = ToPeer> {
    let links = prop::collection::vec(link(), 0..4);
    (1..9_u64, links, prop::bool::weighted(0.9)).prop_map(|(round, mut links, in_order)| {
        if in_order {
            links.sort_unstable();
            links.dedup();
        }
        establish(round, &links)
    })
}

fn sync_result() -> impl Strategy<Value = Result<Revision, SyncFailure>> {
    prop_oneof![Just(Ok(Revision(0))), Just(Err(SyncFailure::TimedOut))]
}

fn role() -> impl Strategy<Value = SyncRole> {
    let entries = vec![(EntryIndex(0), ContentHash(1))].into();
    let from = vec![order(1)];
    prop_oneof![
        Just(SyncRole::Distribute { to: Vec::new() }),
        Just(SyncRole::Request { from, entries }),
    ]
}

/// Any message, mostly out of place.
fn message() -> impl Strategy<Value = ToPeer> {
    let conflict = Conflict {
        yours: CallKind::SyncSharedState,
        theirs: CallKind::UpdateTopology,
        peer: PeerId(1),
    };
    let algorithms = vec![
        Algorithm::Whole(Pattern::Ring),
        Algorithm::Whole(Pattern::Ring),
        Algorithm::Ring,
        Algorithm::Direct,
    ];
    let refusals = vec![
        CollectiveRefusal::Disagreement {
            field: SpecField::Count,
            peers: vec![PeerId(1)],
            values: [1, 2].map(SpecValue::Count),
        },
        CollectiveRefusal::NoWeight,
        CollectiveRefusal::Withdrawn,
        CollectiveRefusal::Conflict(conflict),
    ];
    let (tag, seq, round) = (
        || (1..4_u64).prop_map(Tag),
        || (1..6_u64).prop_map(Seq),
        || (1..9_u64).prop_map(Round),
    );
    let weight = prop_oneof![9 => Just(0_u64), 1 => 1..9_u64];
    let lengths = prop_oneof![
        9 => Just(Vec::new()),
        1 => prop::collection::vec(any::<u64>(), 1..5),
    ];
    prop_oneof![
        Just(welcome()),
        Just(ToPeer::Heartbeat),
        Just(ToPeer::Stopping),
        any::<u32>().prop_map(awaited),
        Just(ToPeer::Kicked(Misdeed::Silent)),
        Just(ToPeer::Refused(Refusal::BadHello)),
        Just(ToPeer::Refused(Refusal::SlowHello)),
        Just(ToPeer::CallFailed(CallFailure::Conflict(conflict))),
        any::<bool>().prop_map(|pending| ToPeer::PeersPending { pending }),
        any::<bool>().prop_map(|is_good| ToPeer::OptimizationConcluded {
            report: is_good.then(RingReport::default)
        }),
        round().prop_map(|round| ToPeer::Probe {
            round,
            probes: Vec::new()
        }),
        ring(),
        links(),
        (round(), role()).prop_map(|(round, role)| {
            let revision = Revision(0);
            ToPeer::SharedStatePlan(SyncPlan {
                round,
                revision,
                role,
            })
        }),
        (round(), sync_result())
            .prop_map(|(round, result)| ToPeer::SharedStateConcluded { round, result }),
        (
            tag(),
            seq(),
            prop::sample::select(algorithms),
            lengths,
            weight
        )
            .prop_map(
                |(tag, seq, algorithm, lengths, total_weight)| ToPeer::Commence {
                    tag,
                    seq,
                    algorithm,
                    lengths: Lengths(lengths),
                    total_weight,
                }
            ),
        (tag(), prop::sample::select(refusals))
            .prop_map(|(tag, reason)| ToPeer::CollectiveRefused { tag, reason }),
        (tag(), seq(), verdict()).prop_map(|(tag, seq, verdict)| ToPeer::Verdict {
            tag,
            seq,
            verdict
        }),
    ]
}

/// Any input but a call of the user, or giving one up; mostly out of place.
pub(super) fn wild() -> impl Strategy<Value = PeerInput> {
    let round = || (1..9_u64).prop_map(Round);
    let outcome = prop::sample::select(vec![PlanOutcome::Done, PlanOutcome::LaneLost]);
    let timer = prop::sample::select(vec![PeerTimer::HeartbeatDue, PeerTimer::MasterSilence]);
    prop_oneof![
        6 => message().prop_map(PeerInput::Message),
        1 => Just(PeerInput::MasterDisconnected),
        1 => Just(PeerInput::MasterMisbehaved),
        1 => Just(PeerInput::Leave),
        1 => timer.prop_map(PeerInput::TimerFired),
        1 => Just(PeerInput::Moved),
        1 => Just(PeerInput::AskWhoIsAwaited),
        2 => (1..9_u64, link()).prop_map(|(round, link)| link_up(round, link)),
        1 => (1..9_u64, link())
            .prop_map(|(round, link)| link_failed(round, link, LaneFailure::TimedOut)),
        4 => (link(), 1..9_u64).prop_map(|(link, built)| link_broke(link, built)),
        2 => (1..6_u64, outcome).prop_map(|(seq, outcome)| PeerInput::PlanEnded { seq: Seq(seq), outcome }),
        2 => (round(), any::<bool>(), prop::option::of((0..5_u64).prop_map(PeerId)))
            .prop_map(|(round, ok, with)| PeerInput::TransfersEnded { round, ok, with }),
        1 => round().prop_map(|round| PeerInput::Measured { round, to: PeerId(1), measured: MEASURED }),
        1 => (round(), any::<bool>()).prop_map(|(round, ok)| PeerInput::ProbesEnded { round, ok }),
    ]
}
