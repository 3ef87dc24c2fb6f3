//! One process: its connection to the master, its data plane, its user's memory.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{CallId, ContentHash, GroupId, PeerId, Revision, Tag};
use pccl_core::peer::{Answer, Call, CallError, PeerConfig, PeerInput};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::wire::WHOLE_BUFFER_MAX;
use pccl_model::connection::Connection;
use pccl_model::plan_run::PlanRun;
use pccl_model::plane::Plane;

use super::ip_of;

/// Position of a process in `Run::seats`.
pub(crate) type SeatNo = usize;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Collective(Tag),
    Other,
}

/// The shared state of a process.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) revision: Revision,
    /// Sorted by name.
    pub(crate) entries: Vec<EntryInfo>,
}

/// What is in a user's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// What the user put there.
    Own,
    /// In every chunk, these peers' contributions, each once.
    Sum(Vec<PeerId>),
    /// A collective works on it.
    Lent,
    /// Something that no user may ever see.
    Garbage(Option<PlanRun>),
}

#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) no: SeatNo,
    pub(crate) group: GroupId,
    /// The process lives (it may have left the run).
    pub(crate) alive: bool,
    /// The process does nothing any more, without anybody noticing.
    pub(crate) frozen: bool,
    /// Its machine hears nothing of its data plane.
    pub(crate) hears_no_plane: bool,
    pub(crate) id: Option<PeerId>,
    pub(crate) connection: Connection,
    /// What the data plane has to tell the peer.
    pub(crate) inbox: VecDeque<PeerInput>,
    pub(crate) answers: Vec<Answer>,
    /// How many calls were made.
    pub(super) calls: u64,
    /// Those that wait for an answer.
    pub(super) open: BTreeMap<CallId, Open>,
    pub(crate) plane: Plane,
    pub(crate) memory: Memory,
    /// Buffers that do not hold what their user put there.
    results: BTreeMap<Tag, Holds>,
}

impl Seat {
    pub(super) fn new(no: SeatNo, group: GroupId) -> Self {
        Self {
            no,
            group,
            alive: true,
            frozen: false,
            hears_no_plane: false,
            id: None,
            connection: Connection::default(),
            inbox: VecDeque::new(),
            answers: Vec::new(),
            calls: 0,
            open: BTreeMap::new(),
            plane: Plane::default(),
            memory: Memory {
                revision: Revision(0),
                entries: vec![shared("weights", 100)],
            },
            results: BTreeMap::new(),
        }
    }

    pub(super) fn ip(&self) -> IpAddr {
        ip_of(self.no)
    }

    /// Does the process do anything?
    pub(crate) fn acts(&self) -> bool {
        self.alive && !self.frozen
    }

    /// Does a collective of this tag run here?
    pub(crate) fn runs_tag(&self, tag: Tag) -> bool {
        self.plane.runs.iter().any(|run| run.tag == small(tag))
    }

    /// What the buffer of this tag holds.
    pub(crate) fn buffer(&self, tag: Tag) -> Holds {
        if self
            .open
            .values()
            .any(|open| *open == Open::Collective(tag))
        {
            return Holds::Lent;
        }
        self.results.get(&tag).cloned().unwrap_or(Holds::Own)
    }

    /// Gives a buffer back as the answer says: with the result, or as it was.
    pub(super) fn settle_buffer(&mut self, answer: &Answer) {
        let Answer::CollectiveEnded { tag, result } = answer else {
            return;
        };
        match result {
            Ok(committed) => {
                let whole = self.plane.whole.iter();
                let mut whole = whole.filter(|run| run.seq == committed.seq);
                let whole = whole.next().cloned();
                let mut ranks = committed.contributors.clone();
                ranks.sort();
                let is_sum = |run: &PlanRun| run.holds_each_once(&committed.contributors);
                let holds = match whole {
                    Some(run) if is_sum(&run) => Holds::Sum(ranks),
                    garbage => Holds::Garbage(garbage),
                };
                self.user_takes_buffer(*tag);
                self.results.insert(*tag, holds);
            }
            // Nothing was lent to a call that was refused on the spot.
            Err(CallError::Usage(_)) => {}
            Err(_) => self.user_takes_buffer(*tag),
        }
    }

    /// The buffer is its user's again, as it was.
    pub(super) fn user_takes_buffer(&mut self, tag: Tag) {
        assert!(!self.runs_tag(tag), "its plan runs on");
        self.plane.whole.retain(|run| run.tag != small(tag));
        self.results.remove(&tag);
    }

    /// A vote that describes the shared state of this process.
    pub(crate) fn sync_call(&self, strategy: SyncStrategy) -> Call {
        Call::SyncSharedState(self.vote(strategy, false))
    }

    pub(crate) fn vote(&self, strategy: SyncStrategy, restart: bool) -> SyncVote {
        SyncVote {
            revision: self.memory.revision,
            strategy,
            restart,
            entries: self.memory.entries.clone(),
        }
    }
}

/// What the peer of a seat has to know before it connects.
pub(super) fn config_of(no: SeatNo, group: GroupId) -> PeerConfig {
    let sites = ["eu", "us", ""];
    PeerConfig {
        group,
        port: 48149,
        advertise: None,
        lanes: 2 + u16::try_from(no % 3).unwrap(),
        site: sites[no % sites.len()].to_owned().try_into().unwrap(),
        name: Default::default(),
        collectives_max: 16,
    }
}

/// The tags of stories are small.
pub(super) fn small(tag: Tag) -> u8 {
    u8::try_from(tag.0).unwrap()
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

/// A collective whose buffers are too large to travel whole.
pub(crate) fn ring_spec() -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        op: ReduceOp::Sum,
        element: ElementType::F32,
        count: WHOLE_BUFFER_MAX,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

/// The usual collective.
pub(crate) fn reduce(tag: u64) -> Call {
    let (tag, spec) = (Tag(tag), ring_spec());
    Call::Initiate { tag, spec }
}
