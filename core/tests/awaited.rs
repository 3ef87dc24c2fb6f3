//! Whom a peer waits for: what the master answers to each that asks.

use pccl_core::awaited::{AwaitedCall, WAITED_FOR_MAX, WAITS_MAX};
use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{ConnId, GroupId, PeerId, ProtocolVersion, Revision, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::shared_state::{SyncStrategy, SyncVote};
use pccl_core::topology::BrokenLinks;

/// A master, and peers whose links all come up.
struct Desk(Master);

impl Desk {
    /// Members 1 to n, each of which is called `node-` and its number. All but the last have called something since
    /// they were admitted.
    fn with(n: u64) -> Self {
        let mut desk = Self(Master::new(MasterConfig::rings_only()));
        for newcomer in 1..=n {
            desk.joins(newcomer, 0);
            // The others rest, and agree.
            if newcomer > 1 {
                desk.updates(1);
            }
        }
        (1..n).rev().for_each(|peer| drop(desk.updates(peer)));
        desk
    }

    /// Says this, and connects whatever links are ordered.
    fn tell(&mut self, input: MasterInput) -> Vec<MasterOutput> {
        let mut out = Vec::new();
        self.0.handle(input, &mut out);
        for output in &out {
            if let MasterOutput::Send {
                peer,
                message: ToPeer::EstablishLinks { round, links },
            } = output
            {
                for order in links {
                    let (round, link) = (*round, order.link());
                    self.says(peer.0, ToMaster::LinkUp { round, link });
                }
            }
        }
        out
    }

    fn says(&mut self, peer: u64, message: ToMaster) -> Vec<MasterOutput> {
        let peer = PeerId(peer);
        self.tell(MasterInput::Message { peer, message })
    }

    fn joins(&mut self, number: u64, group: u32) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(group),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: Default::default(),
            name: format!("node-{number}").try_into().unwrap(),
        };
        self.tell(MasterInput::Connected {
            conn: ConnId(number),
            hello,
            from: [192, 0, 2, number as u8].into(),
            identity: None,
        });
    }

    fn updates(&mut self, peer: u64) -> Vec<MasterOutput> {
        let epoch = self.0.view().epoch(GroupId(0)).unwrap();
        let broken = BrokenLinks::default();
        self.says(peer, ToMaster::UpdateTopology { epoch, broken })
    }

    fn initiates(&mut self, peer: u64, tag: u64) {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::F32,
            count: 4,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let epoch = self.0.view().epoch(GroupId(0)).unwrap();
        let initiate = ToMaster::InitiateCollective {
            tag: Tag(tag),
            spec,
            epoch,
            broken: BrokenLinks::default(),
        };
        self.says(peer, initiate);
    }

    /// The answer to a peer that asks, a line for each wait. The question changes nothing else.
    fn asks(&mut self, peer: u64) -> Vec<String> {
        let before = self.0.clone();
        let out = self.says(peer, ToMaster::WhoIsAwaited);
        assert!(self.0 == before, "a question changes nothing");
        let [
            MasterOutput::StartTimer {
                timer: MasterTimer::Silence(_),
                ..
            },
            MasterOutput::Send {
                message: ToPeer::Awaited(awaited),
                ..
            },
        ] = &out[..]
        else {
            panic!("one answer, and a sign of life: {out:?}");
        };
        awaited.waits.iter().map(ToString::to_string).collect()
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn who_has_called_nothing_waits_for_nobody() {
    let mut desk = Desk::with(3);
    desk.initiates(1, 0);

    assert_eq!(desk.asks(2), NOTHING);
    assert_eq!(desk.asks(3), NOTHING);
}

#[test]
fn a_stranger_gets_no_answer() {
    let mut desk = Desk::with(1);

    assert_eq!(desk.says(7, ToMaster::WhoIsAwaited), []);
}

#[test]
fn a_newcomer_waits_for_members_that_have_not_called_update_topology() {
    let mut desk = Desk::with(4);
    desk.joins(5, 0);
    // Peer 4 rests, and agrees.
    let all = "waiting to be admitted by 3 peers: 1 (node-1), 2 (node-2), 3 (node-3) to call update_topology";
    assert_eq!(desk.asks(5), [all]);

    desk.updates(1);
    desk.initiates(2, 0);

    let rest = "waiting to be admitted by 1 peer: 3 (node-3) to call update_topology";
    assert_eq!(desk.asks(5), [rest]);
    let caller = "update_topology waits for peer 3 (node-3) to make the same call";
    assert_eq!(desk.asks(1), [caller]);
}

#[test]
fn a_newcomer_waits_for_any_member_if_all_rest() {
    let mut desk = Desk::with(1);
    desk.joins(2, 0);

    let only = "waiting to be admitted by 1 peer: 1 (node-1) to call update_topology";
    assert_eq!(desk.asks(2), [only]);
}

#[test]
fn members_of_all_groups_are_waited_for_to_optimize_and_those_of_one_to_synchronize() {
    let mut desk = Desk::with(2);
    desk.joins(3, 1);
    desk.updates(1);

    desk.says(1, ToMaster::OptimizeTopology);
    let optimize = "optimize_topology waits for peers 2 (node-2), 3 (node-3) to make the same call";
    assert_eq!(desk.asks(1), [optimize]);

    let vote = SyncVote {
        revision: Revision(0),
        strategy: SyncStrategy::EnforcePopular,
        restart: false,
        entries: Vec::new(),
    };
    let mut desk = Desk::with(2);
    desk.joins(3, 1);
    desk.updates(1);
    desk.says(1, ToMaster::SyncSharedState(vote));
    let sync = "sync_shared_state waits for peer 2 (node-2) to make the same call";
    assert_eq!(desk.asks(1), [sync]);
}

#[test]
fn collectives_and_a_query_are_waits_of_their_own() {
    let mut desk = Desk::with(3);
    desk.initiates(1, 5);
    desk.initiates(1, 6);
    desk.initiates(2, 6);
    desk.says(1, ToMaster::ArePeersPending);

    assert_eq!(
        desk.asks(1),
        [
            "are_peers_pending waits for peers 2 (node-2), 3 (node-3) to make the same call",
            "all-reduce with tag 5 waits for peers 2 (node-2), 3 (node-3) to make the same call",
            "all-reduce with tag 6 waits for peer 3 (node-3) to make the same call",
        ]
    );
    assert_eq!(
        desk.asks(2),
        ["all-reduce with tag 6 waits for peer 3 (node-3) to make the same call"]
    );

    desk.initiates(3, 6);
    let on_its_way = desk.asks(2);
    assert_eq!(on_its_way, NOTHING);
}

#[test]
fn an_answer_is_bounded_no_matter_how_many_calls_and_peers_there_are() {
    let members = WAITED_FOR_MAX as u64 + 4;
    let mut desk = Desk::with(members);
    for tag in 0..2 * WAITS_MAX as u64 {
        desk.initiates(1, tag);
    }

    let out = desk.says(1, ToMaster::WhoIsAwaited);

    let Some(MasterOutput::Send {
        message: ToPeer::Awaited(awaited),
        ..
    }) = out.last()
    else {
        panic!("an answer");
    };
    assert_eq!(awaited.waits.len(), WAITS_MAX);
    for (tag, wait) in (0..).zip(&awaited.waits) {
        let kind = CollectiveKind::AllReduce;
        let tag = Tag(tag);
        assert_eq!(wait.call, AwaitedCall::Collective { tag, kind });
        assert_eq!((wait.peers.len(), wait.others), (WAITED_FOR_MAX, 3));
        assert!(
            wait.to_string()
                .contains("17 (node-17) and 3 others to make")
        );
    }
}

#[test]
fn a_topology_has_the_names_of_all_ranks_if_anybody_has_one() {
    let mut desk = Desk::with(3);
    desk.updates(1);

    // The third one agrees.
    let told = desk.updates(2);

    let topologies = told.iter().filter_map(|output| match output {
        MasterOutput::Send {
            message: ToPeer::TopologyEstablished { topology, .. },
            ..
        } => Some(topology),
        _ => None,
    });
    let topologies: Vec<_> = topologies.collect();
    assert_eq!(topologies.len(), 2, "{told:?}");
    for topology in topologies {
        let named = [1, 2, 3, 4].map(|peer| topology.named(PeerId(peer)).to_string());
        assert_eq!(named, ["1 (node-1)", "2 (node-2)", "3 (node-3)", "4"]);
    }
}
