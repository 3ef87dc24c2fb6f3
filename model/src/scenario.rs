//! What is explored: who takes part, what the users do, and which faults may happen.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::wire::WHOLE_BUFFER_MAX;

use crate::contents::SecondPlan;
use crate::milestone::Milestone;
use crate::script::Program;

/// A collective whose buffers are too large to travel whole.
pub(crate) const LARGE: CollectiveSpec = CollectiveSpec {
    count: WHOLE_BUFFER_MAX,
    ..SMALL
};

/// A collective whose buffers travel whole.
pub(crate) const SMALL: CollectiveSpec = CollectiveSpec {
    kind: CollectiveKind::AllReduce,
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 1,
    quantization: Quantization::None,
    algorithm: None,
    ordered: false,
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
    /// What every collective computes.
    pub spec: CollectiveSpec,
    /// How many faults may happen.
    pub faults: u8,
    /// Which.
    pub kinds: &'static [Fault],
    /// How the frames of the rings interleave.
    pub frames: Frames,
    /// Where lanes come up first.
    pub dials: Dials,
    /// Are all members of a group given links, or the neighbours in its ring alone?
    pub mesh: bool,
    /// Whether the master sees all processes at one address: a mesh is then used in rounds.
    pub one_machine: bool,
    /// Whether all edges share one link: probes of several at once find less than one by itself.
    pub shared: bool,
    /// Whether groups of three and more are too large to measure all of their edges.
    pub large: bool,
    /// The peers that are far from all others, and near each other, by their numbers. Empty: paths are longer in one
    /// direction than in the other.
    pub remote: &'static [u64],
    /// Whether the solver's first answer is the present ring, and a search that goes on finds the best.
    pub searches: bool,
    /// Do both sides show that they live? It changes nothing but what is on its way.
    pub heartbeats: bool,
    /// Is shared state fetched from several holders at once, however little it is?
    pub several: bool,
    /// May what is repeated begin ahead?
    pub ahead: bool,
    /// Do all users go through one loop, so that none gets in another's way?
    pub in_step: bool,
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
    /// Another entry of its shared state.
    pub second: Option<SecondPlan>,
    /// It agrees to go on from whatever revision is left.
    pub restart: bool,
    /// How many collectives it has in flight at most.
    pub collectives_max: u16,
    /// The number of the site that it is at.
    pub site: u8,
}

/// Where a process is when the exploration begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Accepted and idle.
    Inside,
    /// Not connected; connecting is its user's first call.
    Outside,
}

/// How the frames of the rings, and the edges that come up, interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Any that is there may be taken next, any edge may come up next.
    Free,
    /// Of those that are there, the one at the peer with the lowest number. Taking a frame in commutes
    /// with taking in another elsewhere, so a ring that nobody disturbs ends alike, and so do edges that
    /// come up; what this drops is how far each peer was when something disturbs it.
    InTurn,
}

/// Where the lanes of an edge come up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dials {
    /// At both ends in one step.
    AtOnce,
    /// At the end that is dialled, then at the one that dials: what befalls them in between is met.
    ByHalves,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Fault {
    Crash,
    Freeze,
    Cut,
    HalfOpen,
    BreakLink,
    BlackHole,
    ClosePort,
    Mute,
    MuteDialler,
    RefuseDial,
    RefuseMeasure,
    BreakFetch,
    Late,
    CrashMaster,
    StopMaster,
    RestartMaster,
}

/// Every kind of fault, but for those that have scenarios of their own: a port that closes, lanes that carry
/// nothing, a peer that never comes to the end of its part or never opens its lanes, and a master that is followed
/// by another one.
pub const ANY_FAULT: &[Fault] = &[
    Fault::Crash,
    Fault::Freeze,
    Fault::Cut,
    Fault::HalfOpen,
    Fault::BreakLink,
    Fault::RefuseDial,
    Fault::RefuseMeasure,
    Fault::BreakFetch,
    Fault::Late,
    Fault::CrashMaster,
    Fault::StopMaster,
];

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

    /// Which kinds of faults may happen, in words.
    #[must_use]
    pub fn kinds_in_words(&self) -> String {
        if self.kinds == ANY_FAULT {
            return "any".to_owned();
        }
        let names: Vec<String> = self.kinds.iter().map(|kind| format!("{kind:?}")).collect();
        names.join(", ")
    }

    /// May this kind of fault happen?
    #[must_use]
    pub fn allows(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }
}
