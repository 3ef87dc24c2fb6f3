//! Random messages: each is valid by itself, few are at the right time.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{
    ContentHash, Epoch, GroupId, PeerId, ProtocolVersion, Revision, Round, Seq, Tag,
};
use pccl_core::messages::{Hello, PlanOutcome, ToMaster};
use pccl_core::paths::Measurement;
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::site::{SITE_NAME_BYTES_MAX, SiteName};
use pccl_core::topology::{BrokenLinks, LaneFailure, LinkId, Way};
use pccl_core::wire::ControlHead;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// Numbers that are small enough to hit something, or as large as can be.
fn number(random: &mut StdRng) -> u64 {
    if random.random_ratio(1, 10) {
        random.next_u64()
    } else {
        random.random_range(0..8)
    }
}

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    *from.choose(random).expect("something to choose from")
}

/// Of anybody, also of the peer itself, in any order and more than once: no peer says so.
fn broken(random: &mut StdRng) -> BrokenLinks {
    let links = (0..random.random_range(0..4)).map(|_| link(random));
    BrokenLinks(links.collect())
}

fn link(random: &mut StdRng) -> LinkId {
    LinkId {
        way: pick(random, &[Way::Out, Way::In]),
        with: PeerId(number(random)),
    }
}

fn site(random: &mut StdRng) -> SiteName {
    let long = "x".repeat(SITE_NAME_BYTES_MAX);
    let name = pick(random, &["", "eu", "us", &long]);
    name.to_owned().try_into().expect("a name of a site")
}

/// A hello that is mostly right.
pub(crate) fn hello(random: &mut StdRng) -> Hello {
    Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(random.random_range(0..3)),
        port: random.random_range(0..4),
        advertise: random
            .random_bool(0.3)
            .then(|| [127, 0, 0, random.random()].into()),
        lanes: random.random_range(0..4),
        site: site(random),
        name: Default::default(),
    }
}

/// Any message.
pub(crate) fn message(random: &mut StdRng) -> ToMaster {
    let round = Round(number(random));
    match random.random_range(0..17) {
        0 => ToMaster::Hello(hello(random)),
        1 => ToMaster::UpdateTopology {
            epoch: Default::default(),
            broken: broken(random),
        },
        2 | 3 => ToMaster::LinkUp {
            round,
            link: link(random),
        },
        4 => ToMaster::LinkFailed {
            round,
            link: link(random),
            failure: pick(random, &[LaneFailure::Refused, LaneFailure::Local]),
        },
        5 => ToMaster::ArePeersPending,
        6 => ToMaster::OptimizeTopology,
        7 => ToMaster::Measured {
            round,
            to: PeerId(number(random)),
            measured: Measurement {
                bytes_per_s: number(random),
                round_trip_us: random.random(),
            },
        },
        8 => ToMaster::ProbesDone {
            round,
            ok: random.random(),
        },
        9 => ToMaster::SyncSharedState(sync_vote(random)),
        10 => ToMaster::SharedStateDone {
            round,
            ok: random.random(),
            with: random.random::<bool>().then(|| PeerId(number(random))),
        },
        11 => ToMaster::InitiateCollective {
            tag: Tag(number(random)),
            spec: spec(random),
            epoch: Epoch(number(random)),
            broken: broken(random),
        },
        12 => ToMaster::CompleteCollective {
            seq: Seq(number(random)),
            outcome: pick(random, &[PlanOutcome::Done, PlanOutcome::LaneLost]),
            broken: broken(random),
        },
        13 => ToMaster::Heartbeat {
            moved: random.random(),
        },
        14 => ToMaster::Withdraw {
            tag: Tag(number(random)),
        },
        15 => ToMaster::WhoIsAwaited,
        _ => ToMaster::Leave,
    }
}

fn spec(random: &mut StdRng) -> CollectiveSpec {
    let gather = CollectiveKind::AllGatherV {
        own: number(random),
        limit: number(random),
    };
    let kind = pick(random, &[CollectiveKind::AllReduce, gather]);
    CollectiveSpec {
        kind,
        op: pick(random, &[ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max]),
        element: pick(random, &ElementType::ALL),
        count: number(random),
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

fn sync_vote(random: &mut StdRng) -> SyncVote {
    let strategies = [
        SyncStrategy::EnforcePopular,
        SyncStrategy::SendOnly,
        SyncStrategy::ReceiveOnly,
    ];
    let entries = (0..random.random_range(0..20)).map(|_| entry(random));
    SyncVote {
        entries: entries.collect(),
        revision: Revision(number(random)),
        strategy: pick(random, &strategies),
        restart: random.random(),
    }
}

fn entry(random: &mut StdRng) -> EntryInfo {
    EntryInfo {
        name: "w".repeat(random.random_range(0..300)),
        element: pick(random, &ElementType::ALL),
        count: number(random),
        // Both halves are in use.
        hash: ContentHash(u128::from(number(random)) * (1 << 64 | 1)),
        allow_content_inequality: random.random(),
    }
}

/// The beginning of a frame that announces a message of so many bytes, which need not come; or a session frame, if the
/// highest bit is set.
pub(crate) fn announcing(length: u32, beginning: &[u8]) -> Vec<u8> {
    let sums = ControlHead::of_message(beginning).expect("a beginning is short");
    let head = ControlHead {
        is_session: length >> 31 == 1,
        length: (length & !(1 << 31)) as usize,
        ..sums
    };
    [&head.encode(), beginning].concat()
}
