//! Any message that master and peers may tell each other, all variants included.

use alloc::string::{String, ToString};
use core::net::{IpAddr, SocketAddr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::awaited::{Awaited, AwaitedCall, Wait};
use crate::element::{
    CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp, SpecField,
};
use crate::id::{
    Epoch, GroupId, Identity, Membership, PeerId, ProtocolVersion, Revision, Round, Seq, Tag,
    Ticket,
};
use crate::lengths::Lengths;
use crate::messages::{
    AbortCause, CallFailure, CallKind, CollectiveRefusal, Conflict, Hello, Misdeed, PlanOutcome,
    Refusal, Reserved, ToMaster, ToPeer, Verdict,
};
use crate::name::{NamedPeer, PeerName};
use crate::paths::{Measurement, RingEstimate, RingReport};
use crate::plan::Algorithm;
use crate::shared_state::MISMATCHES_NAMED_MAX;
use crate::site::{SITE_NAME_BYTES_MAX, SiteMap, SiteName};
use crate::states::{ConnectionState, Event, TRANSITIONS};
use crate::topology::{
    BrokenLinks, BuiltLink, LaneFailure, LaneOrder, Layout, LinkId, LinkOrder, Ring, Topology, Way,
    WorldSizes,
};

mod shared_state;

use shared_state::{entry_mismatch, sync_failure, sync_plan, sync_vote};

fn peer() -> impl Strategy<Value = PeerId> {
    any::<u64>().prop_map(PeerId)
}

fn peers() -> impl Strategy<Value = alloc::vec::Vec<PeerId>> {
    vec(peer(), 0..5)
}

fn measurement() -> impl Strategy<Value = Measurement> {
    any::<(u64, u32)>().prop_map(|(bytes_per_s, round_trip_us)| Measurement {
        bytes_per_s,
        round_trip_us,
    })
}

fn ring_estimate() -> impl Strategy<Value = RingEstimate> {
    any::<(u64, u64, u32)>().prop_map(|(bytes_per_s, round_ns, world_size)| RingEstimate {
        bytes_per_s,
        round_ns,
        world_size,
    })
}

fn ring_report() -> impl Strategy<Value = RingReport> {
    let estimate = || option::of(ring_estimate());
    let report = (peers(), estimate(), estimate(), option::of(any::<u64>()));
    report.prop_map(|(before, expected_before, expected, bound)| RingReport {
        before: Ring(before),
        expected_before,
        expected,
        bound,
    })
}

fn round() -> impl Strategy<Value = Round> {
    any::<u64>().prop_map(Round)
}

fn tag() -> impl Strategy<Value = Tag> {
    any::<u64>().prop_map(Tag)
}

fn seq() -> impl Strategy<Value = Seq> {
    any::<u64>().prop_map(Seq)
}

fn revision() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision)
}

fn address() -> impl Strategy<Value = SocketAddr> {
    any::<(IpAddr, u16)>().prop_map(SocketAddr::from)
}

fn lane_failure() -> impl Strategy<Value = LaneFailure> {
    select(
        &[
            LaneFailure::Refused,
            LaneFailure::TimedOut,
            LaneFailure::Unreachable,
            LaneFailure::Closed,
            LaneFailure::BadHandshake,
            LaneFailure::Untrusted,
            LaneFailure::Local,
        ][..],
    )
}

fn lane_order() -> impl Strategy<Value = LaneOrder> {
    let identity = option::of(any::<[u8; 32]>());
    (
        peer(),
        any::<u128>(),
        option::of(address()),
        any::<u16>(),
        identity,
    )
        .prop_map(|(with, ticket, dial, lanes, identity)| LaneOrder {
            with,
            ticket: Ticket(ticket),
            dial,
            lanes,
            identity: identity.map(Identity),
        })
}

fn way() -> impl Strategy<Value = Way> {
    select(&[Way::Out, Way::In][..])
}

fn link() -> impl Strategy<Value = LinkId> {
    (way(), peer()).prop_map(|(way, with)| LinkId { way, with })
}

fn link_order() -> impl Strategy<Value = LinkOrder> {
    (way(), lane_order()).prop_map(|(way, lanes)| LinkOrder { way, lanes })
}

fn broken() -> impl Strategy<Value = BrokenLinks> {
    vec(link(), 0..5).prop_map(BrokenLinks)
}

fn element() -> impl Strategy<Value = ElementType> {
    select(&ElementType::ALL[..])
}

fn spec() -> impl Strategy<Value = CollectiveSpec> {
    let op = select(
        &[
            ReduceOp::Sum,
            ReduceOp::Avg,
            ReduceOp::WeightedAvg {
                own: u32::MAX,
                total: u64::MAX,
            },
            ReduceOp::Prod,
            ReduceOp::Max,
            ReduceOp::Min,
        ][..],
    );
    let quantization = prop_oneof![
        Just(Quantization::None),
        element().prop_map(|to| Quantization::MinMax { to }),
        element().prop_map(|to| Quantization::ZeroPointScale { to }),
        Just(Quantization::Blockwise4),
    ];
    let wish = prop::option::of(algorithm());
    let how = (quantization, wish, any::<bool>());
    let what = (kind(), op, element(), any::<u64>(), how);
    what.prop_map(
        |(kind, op, element, count, (quantization, algorithm, ordered))| CollectiveSpec {
            kind,
            op,
            element,
            count,
            quantization,
            algorithm,
            ordered,
        },
    )
}

fn kind() -> impl Strategy<Value = CollectiveKind> {
    prop_oneof![
        Just(CollectiveKind::AllReduce),
        Just(CollectiveKind::ReduceScatter),
        any::<u64>().prop_map(|number| CollectiveKind::AllGather {
            laid_out_for: Membership(number),
        }),
        any::<(u64, u64)>().prop_map(|(own, limit)| CollectiveKind::AllGatherV { own, limit }),
        peer().prop_map(|root| CollectiveKind::Broadcast { root }),
        Just(CollectiveKind::Barrier),
    ]
}

pub(super) fn hello() -> impl Strategy<Value = Hello> {
    let numbers = any::<(u16, u32, u16, u16)>();
    (numbers, option::of(any::<IpAddr>()), site(), name()).prop_map(
        |((protocol, group, port, lanes), advertise, site, name)| Hello {
            protocol: ProtocolVersion(protocol),
            group: GroupId(group),
            port,
            advertise,
            lanes,
            site,
            name,
        },
    )
}

fn site() -> impl Strategy<Value = SiteName> {
    "\\PC{0,64}".prop_map(|mut text: String| {
        while text.len() > SITE_NAME_BYTES_MAX {
            text.pop();
        }
        text.trim_start_matches('~').to_string().try_into().unwrap()
    })
}

/// One that somebody gave, or that of a site that was found.
fn told_site() -> impl Strategy<Value = SiteName> {
    prop_oneof![
        site(),
        any::<u64>().prop_map(|peer| SiteName::found_around(PeerId(peer)))
    ]
}

fn sites() -> impl Strategy<Value = SiteMap> {
    let names = vec(told_site(), 1..4);
    (names, vec(any::<Index>(), 0..5))
        .prop_map(|(names, by_rank)| SiteMap::new(by_rank.iter().map(|at| at.get(&names))))
}

fn name() -> impl Strategy<Value = PeerName> {
    "\\PC{0,16}".prop_map(|text: String| PeerName::try_from(text).unwrap())
}

fn awaited() -> impl Strategy<Value = Awaited> {
    let call = prop_oneof![
        Just(AwaitedCall::Connect),
        Just(AwaitedCall::UpdateTopology),
        Just(AwaitedCall::ArePeersPending),
        Just(AwaitedCall::OptimizeTopology),
        Just(AwaitedCall::SyncSharedState),
        (tag(), spec()).prop_map(|(tag, spec)| AwaitedCall::Collective {
            tag,
            kind: spec.kind
        }),
    ];
    let named = (peer(), name()).prop_map(|(peer, name)| NamedPeer { peer, name });
    let wait = (call, vec(named, 0..4), any::<u32>());
    let wait = wait.prop_map(|(call, peers, others)| Wait {
        call,
        peers,
        others,
    });
    vec(wait, 0..4).prop_map(|waits| Awaited { waits })
}

pub(super) fn to_master() -> impl Strategy<Value = ToMaster> {
    use PlanOutcome::{Cancelled, Done, LaneLost};
    let outcome = select(&[Done, LaneLost, Cancelled][..]);
    let topology = prop_oneof![
        hello().prop_map(ToMaster::Hello),
        (any::<u64>(), broken()).prop_map(|(epoch, broken)| {
            let epoch = Epoch(epoch);
            ToMaster::UpdateTopology { epoch, broken }
        }),
        (round(), link()).prop_map(|(round, link)| ToMaster::LinkUp { round, link }),
        (round(), link(), lane_failure()).prop_map(|(round, link, failure)| {
            ToMaster::LinkFailed {
                round,
                link,
                failure,
            }
        }),
        Just(ToMaster::ArePeersPending),
        Just(ToMaster::OptimizeTopology),
        (round(), peer(), measurement()).prop_map(|(round, to, measured)| ToMaster::Measured {
            round,
            to,
            measured
        }),
        (round(), any::<bool>()).prop_map(|(round, ok)| ToMaster::ProbesDone { round, ok }),
    ];
    let work = prop_oneof![
        sync_vote().prop_map(ToMaster::SyncSharedState),
        (round(), any::<bool>(), option::of(peer()))
            .prop_map(|(round, ok, with)| ToMaster::SharedStateDone { round, ok, with }),
        (tag(), spec(), any::<u64>(), broken()).prop_map(|(tag, spec, epoch, broken)| {
            ToMaster::InitiateCollective {
                tag,
                spec,
                epoch: Epoch(epoch),
                broken,
            }
        }),
        (seq(), outcome, broken()).prop_map(|(seq, outcome, broken)| {
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            }
        }),
        tag().prop_map(|tag| ToMaster::Withdraw { tag }),
        any::<bool>().prop_map(|moved| ToMaster::Heartbeat { moved }),
        Just(ToMaster::Leave),
        Just(ToMaster::WhoIsAwaited),
    ];
    prop_oneof![topology, work]
}

fn topology() -> impl Strategy<Value = Topology> {
    let ring = (peers(), sites(), vec(name(), 0..5));
    let links = (any::<u16>(), any::<bool>());
    (any::<u64>(), ring, links, any::<[u32; 4]>()).prop_map(
        |(epoch, (ring, sites, names), (lanes, within_machine), world)| Topology {
            epoch: Epoch(epoch),
            ring: Ring(ring),
            sites,
            lanes,
            within_machine,
            world: world_sizes(world),
            names,
        },
    )
}

fn world_sizes([global, group, groups, largest_group]: [u32; 4]) -> WorldSizes {
    WorldSizes {
        global,
        group,
        groups,
        largest_group,
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    let built = (link(), round()).prop_map(|(link, built)| BuiltLink { link, built });
    vec(built, 0..5).prop_map(Layout)
}

fn conflict() -> impl Strategy<Value = Conflict> {
    let call = || {
        select(
            &[
                CallKind::UpdateTopology,
                CallKind::OptimizeTopology,
                CallKind::SyncSharedState,
                CallKind::Collective,
            ][..],
        )
    };
    (call(), call(), peer()).prop_map(|(yours, theirs, peer)| Conflict {
        yours,
        theirs,
        peer,
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let edge = || (peer(), address(), lane_failure());
    prop_oneof![
        any::<u16>().prop_map(|version| Refusal::Version {
            master: ProtocolVersion(version)
        }),
        any::<u32>().prop_map(|peers_max| Refusal::RunFull { peers_max }),
        Just(Refusal::BadHello),
        Just(Refusal::SlowHello),
        edge().prop_map(|(by, at, failure)| Refusal::CannotBeReached { by, at, failure }),
        edge().prop_map(|(peer, at, failure)| Refusal::CannotReach { peer, at, failure }),
        Just(Refusal::Stopping),
    ]
}

fn collective_refusal() -> impl Strategy<Value = CollectiveRefusal> {
    let field = select(
        &[
            SpecField::Kind,
            SpecField::Root,
            SpecField::Operation,
            SpecField::ElementType,
            SpecField::Count,
            SpecField::Quantization,
            SpecField::Algorithm,
            SpecField::Limit,
            SpecField::Ordered,
        ][..],
    );
    prop_oneof![
        (field, peers(), spec(), spec()).prop_map(|(field, peers, one, other)| {
            CollectiveRefusal::Disagreement {
                field,
                peers,
                values: [one.value(field), other.value(field)],
            }
        }),
        conflict().prop_map(CollectiveRefusal::Conflict),
        peers().prop_map(|peers| CollectiveRefusal::NotJoined { peers }),
        peer().prop_map(|root| CollectiveRefusal::NoSuchRoot { root }),
        Just(CollectiveRefusal::WorldChanged),
        Just(CollectiveRefusal::NoWeight),
        any::<(u64, u64)>().prop_map(|(total, limit)| CollectiveRefusal::TooLong { total, limit }),
        Just(CollectiveRefusal::Withdrawn),
    ]
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    select(&Algorithm::ALL[..])
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let cause = prop_oneof![
        peer().prop_map(AbortCause::PeerLost),
        (peer(), option::of(link())).prop_map(|(by, link)| AbortCause::LaneLost { by, link }),
        peer().prop_map(AbortCause::Cancelled),
        Just(AbortCause::TimedOut),
    ];
    prop_oneof![
        (any::<u64>(), option::of((any::<u64>(), algorithm()))).prop_map(|(epoch, next)| {
            let next = next.map(|(seq, algorithm)| {
                let seq = Seq(seq);
                Reserved { seq, algorithm }
            });
            let epoch = Epoch(epoch);
            Verdict::Committed { epoch, next }
        }),
        cause.prop_map(Verdict::Aborted),
    ]
}

/// The states and events that the table of transitions mentions: all of them.
fn wrong_state() -> impl Strategy<Value = (ConnectionState, Event)> {
    (select(TRANSITIONS), select(TRANSITIONS)).prop_map(|(one, other)| (one.from, other.event))
}

fn misdeed() -> impl Strategy<Value = Misdeed> {
    prop_oneof![
        select(
            &[
                Misdeed::NotAccepted,
                Misdeed::SecondHello,
                Misdeed::DuplicateVote,
                Misdeed::UnknownRound,
                Misdeed::UnaskedProbe,
                Misdeed::Malformed,
                Misdeed::BadManifest,
                Misdeed::MissedBallot,
                Misdeed::Stalled,
                Misdeed::Cancels,
                Misdeed::Unfetchable,
                Misdeed::Silent,
                Misdeed::SlowReader,
            ][..]
        ),
        wrong_state().prop_map(|(state, event)| Misdeed::WrongState { state, event }),
        tag().prop_map(|tag| Misdeed::DuplicateTag { tag }),
        any::<u32>().prop_map(|tags_max| Misdeed::TooManyTags { tags_max }),
        (
            any::<u32>(),
            vec(entry_mismatch(), 0..=MISMATCHES_NAMED_MAX)
        )
            .prop_map(|(entries, named)| Misdeed::StateMismatch { entries, named }),
        (revision(), revision())
            .prop_map(|(expected, offered)| Misdeed::RevisionAhead { expected, offered }),
        peer().prop_map(|with| Misdeed::Unconnectable { with }),
    ]
}

pub(super) fn to_peer() -> impl Strategy<Value = ToPeer> {
    let membership = prop_oneof![
        (peer(), any::<(u32, u32)>()).prop_map(|(peer, (heartbeat_ms, silence_ms))| {
            ToPeer::Welcome {
                peer,
                heartbeat_ms,
                silence_ms,
            }
        }),
        refusal().prop_map(ToPeer::Refused),
        (round(), vec(link_order(), 0..4))
            .prop_map(|(round, links)| ToPeer::EstablishLinks { round, links }),
        (topology(), layout())
            .prop_map(|(topology, layout)| ToPeer::TopologyEstablished { topology, layout }),
        conflict().prop_map(|conflict| ToPeer::CallFailed(CallFailure::Conflict(conflict))),
        any::<bool>().prop_map(|pending| ToPeer::PeersPending { pending }),
        (round(), vec(link_order(), 0..4))
            .prop_map(|(round, probes)| ToPeer::Probe { round, probes }),
        option::of(ring_report()).prop_map(|report| ToPeer::OptimizationConcluded { report }),
    ];
    let work = prop_oneof![
        sync_plan().prop_map(ToPeer::SharedStatePlan),
        (
            round(),
            proptest::result::maybe_ok(revision(), sync_failure())
        )
            .prop_map(|(round, result)| ToPeer::SharedStateConcluded { round, result }),
        (
            tag(),
            seq(),
            algorithm(),
            vec(any::<u64>(), 0..5),
            any::<u64>()
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
        (tag(), collective_refusal())
            .prop_map(|(tag, reason)| ToPeer::CollectiveRefused { tag, reason }),
        (tag(), seq(), verdict()).prop_map(|(tag, seq, verdict)| ToPeer::Verdict {
            tag,
            seq,
            verdict
        }),
        misdeed().prop_map(ToPeer::Kicked),
        Just(ToPeer::Heartbeat),
        Just(ToPeer::Stopping),
        awaited().prop_map(ToPeer::Awaited),
    ];
    prop_oneof![membership, work]
}
