//! One process: a peer machine, its two directions of the control connection, its data plane.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{CallId, ContentHash, GroupId, PeerId, Tag};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{Answer, Call, Peer, PeerConfig, PeerInput};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};

use super::plane::Plane;
use super::{Wire, ip_of};

/// Position of a process in `Run::seats`.
pub(crate) type SeatNo = usize;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Collective(Tag),
    Other,
}

#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) no: SeatNo,
    pub(crate) group: GroupId,
    pub(crate) peer: Peer,
    /// The process lives (it may have left the run).
    pub(crate) alive: bool,
    /// The process does nothing any more, without anybody noticing.
    pub(crate) frozen: bool,
    /// Its machine hears nothing of its data plane.
    pub(crate) hears_no_plane: bool,
    pub(crate) id: Option<PeerId>,
    pub(crate) up: VecDeque<Wire<ToMaster>>,
    pub(crate) down: VecDeque<Wire<ToPeer>>,
    /// What the data plane has to tell the peer.
    pub(crate) inbox: VecDeque<PeerInput>,
    pub(crate) answers: Vec<Answer>,
    /// How many calls were made.
    pub(super) calls: u64,
    /// Those that wait for an answer.
    pub(super) open: BTreeMap<CallId, Open>,
    pub(crate) plane: Plane,
    /// Voted as send-only, in its last synchronization.
    pub(crate) sends_only: bool,
    /// Voted as receive-only, in its last synchronization.
    pub(crate) receives_only: bool,
}

impl Seat {
    pub(super) fn new(no: SeatNo, group: GroupId) -> Self {
        let peer = Peer::new(PeerConfig {
            group,
            port: 48149,
            advertise: None,
            lanes: 2 + u16::try_from(no % 3).unwrap(),
            collectives_max: 16,
        });
        Self {
            no,
            group,
            peer,
            alive: true,
            frozen: false,
            hears_no_plane: false,
            id: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            inbox: VecDeque::new(),
            answers: Vec::new(),
            calls: 0,
            open: BTreeMap::new(),
            plane: Plane::new(),
            sends_only: false,
            receives_only: false,
        }
    }

    pub(super) fn ip(&self) -> IpAddr {
        ip_of(self.no)
    }

    /// Does the process do anything?
    pub(crate) fn acts(&self) -> bool {
        self.alive && !self.frozen
    }

    /// Acts, and has not left or been turned away.
    pub(crate) fn is_in_the_run(&self) -> bool {
        self.acts() && self.peer.view().ended().is_none()
    }

    /// A vote that describes the shared state of this process.
    pub(crate) fn sync_call(&self, strategy: SyncStrategy) -> Call {
        Call::SyncSharedState(self.vote(strategy, false))
    }

    pub(crate) fn vote(&self, strategy: SyncStrategy, restart: bool) -> SyncVote {
        SyncVote {
            revision: self.plane.memory.revision,
            strategy,
            restart,
            entries: self.plane.memory.entries.clone(),
        }
    }
}

/// An entry that must be the same everywhere.
pub(crate) fn shared(name: &str, hash: u128) -> EntryInfo {
    EntryInfo {
        name: name.into(),
        element: ElementType::F32,
        count: 8,
        hash: ContentHash(hash),
        allow_content_inequality: false,
    }
}

pub(crate) fn ring_spec() -> CollectiveSpec {
    CollectiveSpec {
        op: ReduceOp::Sum,
        element: ElementType::F32,
        count: 64,
        quantization: Quantization::None,
    }
}

/// The usual collective.
pub(crate) fn reduce(tag: u64) -> Call {
    let (tag, spec) = (Tag(tag), ring_spec());
    Call::Initiate { tag, spec }
}
