//! The limits that the master itself keeps: how many peers, collectives, entries and bytes of a name. One more than
//! that, and whoever has sent it goes, with the reason.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{
    ConnId, ContentHash, EntryIndex, Epoch, GroupId, PeerId, ProtocolVersion, Revision, Tag,
};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, Misdeed, Refusal, ToMaster, ToPeer};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::topology::BrokenLinks;
use pccl_core::wire::MAX_ENTRY_NAME_BYTES;

/// A master with a lone member.
struct Run {
    master: Master,
    member: PeerId,
}

impl Run {
    fn new(config: MasterConfig) -> Self {
        let mut run = Self {
            master: Master::new(config),
            member: PeerId(0),
        };
        let out = run.joins(0);
        let registered = out.iter().find_map(|output| match output {
            MasterOutput::Register { peer, .. } => Some(*peer),
            _ => None,
        });
        run.member = registered.expect("the first one is registered");
        run
    }

    fn joins(&mut self, conn: u64) -> Vec<MasterOutput> {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: Default::default(),
            name: Default::default(),
        };
        let mut out = Vec::new();
        let connected = MasterInput::Connected {
            conn: ConnId(conn),
            hello,
            from: [192, 0, 2, 1].into(),
            identity: None,
        };
        self.master.handle(connected, &mut out);
        out
    }

    /// What the member is sent away for, if it says this.
    fn says(&mut self, message: ToMaster) -> Option<Misdeed> {
        let mut out = Vec::new();
        let peer = self.member;
        let input = MasterInput::Message { peer, message };
        self.master.handle(input, &mut out);
        let told = out.into_iter().filter_map(|output| match output {
            MasterOutput::Send { message, .. } => Some(message),
            _ => None,
        });
        told.into_iter().find_map(|message| match message {
            ToPeer::Kicked(misdeed) => Some(misdeed),
            _ => None,
        })
    }

    fn starts(&mut self, tag: u64) -> Option<Misdeed> {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::F32,
            count: 1,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        self.says(ToMaster::InitiateCollective {
            tag: Tag(tag),
            spec,
            epoch: Epoch(1),
            broken: BrokenLinks::NONE,
        })
    }

    fn offers(&mut self, names: &[&str]) -> Option<Misdeed> {
        let entry = |name: &&str| EntryInfo {
            name: (*name).to_owned(),
            element: ElementType::F32,
            count: 1,
            hash: ContentHash(1),
            allow_content_inequality: false,
        };
        self.says(ToMaster::SyncSharedState(SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: names.iter().map(entry).collect(),
        }))
    }
}

fn of_three() -> MasterConfig {
    MasterConfig {
        peers_max: 3,
        tags_max: 3,
        entries_max: EntryIndex(3),
        ..MasterConfig::default()
    }
}

#[test]
fn one_peer_more_than_a_run_takes_is_refused_and_the_others_stay() {
    let mut run = Run::new(of_three());
    let refused = |out: &[MasterOutput]| {
        let reasons = out.iter().filter_map(|output| match output {
            MasterOutput::Refuse { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        reasons.collect::<Vec<_>>()
    };

    for conn in 1..3 {
        assert_eq!(refused(&run.joins(conn)), []);
    }
    let last = run.joins(3);

    assert_eq!(refused(&last), [Refusal::RunFull { peers_max: 3 }]);
    assert_eq!(run.master.view().peers().count(), 3);
}

#[test]
fn one_collective_in_flight_more_than_a_peer_may_have_is_its_end() {
    let mut run = Run::new(of_three());

    let within: Vec<_> = (0..3).map(|tag| run.starts(tag)).collect();
    let beyond = run.starts(3);

    assert_eq!(within, [None, None, None]);
    assert_eq!(beyond, Some(Misdeed::TooManyTags { tags_max: 3 }));
}

#[test]
fn one_entry_more_than_a_shared_state_may_have_is_its_end() {
    let within = Run::new(of_three()).offers(&["a", "b", "c"]);
    let beyond = Run::new(of_three()).offers(&["a", "b", "c", "d"]);

    assert_eq!(within, None);
    assert_eq!(beyond, Some(Misdeed::BadManifest));
}

#[test]
fn a_name_of_one_byte_more_than_an_entry_may_have_is_its_end() {
    let longest = "n".repeat(MAX_ENTRY_NAME_BYTES);
    let longer = "n".repeat(MAX_ENTRY_NAME_BYTES + 1);

    let within = Run::new(of_three()).offers(&[&longest]);
    let beyond = Run::new(of_three()).offers(&[&longer]);

    assert_eq!(within, None);
    assert_eq!(beyond, Some(Misdeed::BadManifest));
}

/// Two entries of one name, or in another order on another peer, would be others' entries there.
#[test]
fn names_that_are_not_in_order_or_not_each_once_are_its_end() {
    for names in [["b", "a"], ["a", "a"]] {
        let mut run = Run::new(of_three());
        assert_eq!(run.offers(&names), Some(Misdeed::BadManifest), "{names:?}");
    }
}
