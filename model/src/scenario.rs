//! What is explored: who takes part, what the users do, and which faults may happen.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::shared_state::SyncStrategy;

use crate::script::{Do, Program};

/// What every collective computes.
pub(crate) const SPEC: CollectiveSpec = CollectiveSpec {
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 1,
    quantization: Quantization::None,
};

/// One configuration to explore.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// A short name in kebab-case.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// The processes.
    pub seats: Vec<SeatPlan>,
    /// How many faults may happen.
    pub faults: u8,
    /// Which.
    pub kinds: &'static [Fault],
    /// How the frames of the rings interleave.
    pub frames: Frames,
    /// What must be reached at least once, or the scenario says less than it claims.
    pub milestones: &'static [Milestone],
}

/// One process of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeatPlan {
    /// The group that it works in.
    pub group: u32,
    /// Is it part of the run when the exploration begins?
    pub start: Start,
    /// What its user does.
    pub program: &'static Program,
    /// What it holds as shared state at the start: equal numbers, equal content.
    pub content: u8,
    /// The revision that it offers at the start.
    pub revision: u8,
}

/// Where a process is when the exploration begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Accepted and idle.
    Inside,
    /// Not connected; connecting is its user's first call.
    Outside,
}

/// How the frames of the rings interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Any that is there may be taken next.
    Free,
    /// Of those that are there, the one at the lowest seat. Taking a frame in commutes with taking in
    /// another elsewhere, so this drops no result of a ring; what it drops is which frames were on
    /// their way when a process dies.
    InTurn,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Fault {
    Crash,
    Freeze,
    Cut,
    HalfOpen,
    BreakEdge,
    RefuseDial,
    RefuseMeasure,
    BreakFetch,
    Late,
    CrashMaster,
}

/// Every kind of fault.
pub const ANY_FAULT: &[Fault] = &[
    Fault::Crash,
    Fault::Freeze,
    Fault::Cut,
    Fault::HalfOpen,
    Fault::BreakEdge,
    Fault::RefuseDial,
    Fault::RefuseMeasure,
    Fault::BreakFetch,
    Fault::Late,
    Fault::CrashMaster,
];

/// An interesting thing that happens. Each guards a property that would be empty without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Milestone {
    /// A collective was committed.
    Committed,
    /// A collective was committed although a contributor was gone.
    CommittedWithoutOne,
    /// A collective was aborted.
    Aborted,
    /// A collective was aborted at a peer that had the whole result already.
    RestoredWhole,
    /// An aborted collective was committed in a later attempt.
    Recovered,
    /// Two collectives of a group ran at the same time.
    TwoTagsAtOnce,
    /// A newcomer was admitted by the others.
    Admitted,
    /// A peer found the run empty and was admitted at once.
    AdmittedAlone,
    /// A ring was rebuilt without newcomers.
    Rewired,
    /// An attempt to connect a ring was given up and made again.
    WiredAgain,
    /// A synchronization in which content moved succeeded.
    ContentMoved,
    /// A synchronization in which nothing had to move succeeded.
    ContentKept,
    /// A synchronization failed.
    SyncFailed,
    /// A revision of a group advanced.
    RevisionAdvanced,
    /// Another ring was adopted because it is better.
    Optimized,
    /// An optimization was given up.
    OptimizationFailed,
    /// A call gave way to another peer's.
    GaveWay,
    /// Somebody who asked was told that peers are pending.
    ToldPending,
    /// Somebody who asked was told that nobody is pending.
    ToldNobodyPending,
    /// A peer lost the master while a collective of its was undecided.
    LostMasterUndecided,
    /// A peer was noticed by its silence alone.
    NoticedBySilence,
    /// A user left on purpose at the end of its program.
    LeftAtTheEnd,
}

/// All milestones.
pub const MILESTONES: &[Milestone] = &[
    Milestone::Committed,
    Milestone::CommittedWithoutOne,
    Milestone::Aborted,
    Milestone::RestoredWhole,
    Milestone::Recovered,
    Milestone::TwoTagsAtOnce,
    Milestone::Admitted,
    Milestone::AdmittedAlone,
    Milestone::Rewired,
    Milestone::WiredAgain,
    Milestone::ContentMoved,
    Milestone::ContentKept,
    Milestone::SyncFailed,
    Milestone::RevisionAdvanced,
    Milestone::Optimized,
    Milestone::OptimizationFailed,
    Milestone::GaveWay,
    Milestone::ToldPending,
    Milestone::ToldNobodyPending,
    Milestone::LostMasterUndecided,
    Milestone::NoticedBySilence,
    Milestone::LeftAtTheEnd,
];

impl Milestone {
    /// The milestone as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Committed => "a collective is committed",
            Self::CommittedWithoutOne => "a collective is committed although a contributor is gone",
            Self::Aborted => "a collective is aborted",
            Self::RestoredWhole => "a peer restores a result that was whole",
            Self::Recovered => "a collective is committed after it was aborted",
            Self::TwoTagsAtOnce => "two collectives of a group run at the same time",
            Self::Admitted => "a newcomer is admitted by the others",
            Self::AdmittedAlone => "a peer finds the run empty and is admitted at once",
            Self::Rewired => "a ring is rebuilt without newcomers",
            Self::WiredAgain => "a ring is connected after an attempt failed",
            Self::ContentMoved => "a synchronization moves content",
            Self::ContentKept => "a synchronization finds nothing to move",
            Self::SyncFailed => "a synchronization fails",
            Self::RevisionAdvanced => "a revision advances",
            Self::Optimized => "a topology is optimized",
            Self::OptimizationFailed => "an optimization fails",
            Self::GaveWay => "a call gives way to another peer's",
            Self::ToldPending => "a peer is told that others are pending",
            Self::ToldNobodyPending => "a peer is told that nobody is pending",
            Self::LostMasterUndecided => "a peer loses the master while a collective is undecided",
            Self::NoticedBySilence => "a peer is noticed by its silence alone",
            Self::LeftAtTheEnd => "a user leaves at the end of its program",
        }
    }
}

impl Scenario {
    /// The same with another number of processes: the last one is left out, or repeated.
    #[must_use]
    pub fn with_peers(mut self, peers: usize) -> Self {
        if let Some(last) = self.seats.last().copied() {
            self.seats.resize(peers.max(1), last);
        }
        self
    }

    /// The same with another fault budget.
    #[must_use]
    pub fn with_faults(mut self, faults: u8) -> Self {
        self.faults = faults;
        self
    }

    /// May this kind of fault happen?
    #[must_use]
    pub fn allows(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }
}

/// A process of group 0 that is inside.
const fn inside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        group: 0,
        start: Start::Inside,
        program,
        content: 0,
        revision: 0,
    }
}

const fn outside(program: &'static Program) -> SeatPlan {
    SeatPlan {
        start: Start::Outside,
        ..inside(program)
    }
}

/// One reduce.
const REDUCE: &Program = &Program {
    steps: &[Do::Start(1), Do::Finish(1)],
    rounds: 1,
};

/// The loop of DESIGN §6, once.
const TRAIN: &Program = &Program {
    steps: &[
        Do::Update,
        Do::Sync(SyncStrategy::EnforcePopular),
        Do::Start(1),
        Do::Finish(1),
        Do::Advance,
    ],
    rounds: 1,
};

/// The standard scenarios: what `cargo run -p verification` explores.
#[must_use]
pub fn standard() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "reduce-2",
            about: "two peers reduce, and retry until it succeeds",
            seats: vec![inside(REDUCE); 2],
            faults: 2,
            kinds: ANY_FAULT,
            frames: Frames::Free,
            milestones: &[Milestone::Committed, Milestone::Aborted],
        },
        Scenario {
            name: "train-2",
            about: "the training loop",
            seats: vec![inside(TRAIN); 2],
            faults: 1,
            kinds: ANY_FAULT,
            frames: Frames::InTurn,
            milestones: &[Milestone::Committed, Milestone::Aborted],
        },
        Scenario {
            name: "join-1",
            about: "one peer joins two that train",
            seats: vec![inside(TRAIN), inside(TRAIN), outside(TRAIN)],
            faults: 0,
            kinds: ANY_FAULT,
            frames: Frames::InTurn,
            milestones: &[Milestone::Admitted],
        },
    ]
}

/// The scenario of this name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    let mut all = standard().into_iter();
    all.find(|scenario| scenario.name == name)
}
