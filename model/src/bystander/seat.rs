//! One process, as a bystander has it.

use std::collections::BTreeMap;

use pccl_core::id::{CallId, ContentHash, EntryIndex, GroupId, PeerId, Round, Seq, Tag};
use pccl_core::messages::{CollectiveRefusal, PlanOutcome, ToMaster, ToPeer};
use pccl_core::peer::{
    Answer, CallError, Kind, Peer, PeerConfig, PeerInput, PeerOutput, PeerPhase,
};
use pccl_core::shared_state::{EntryInfo, SyncPlan, SyncRole, SyncStrategy};
use pccl_core::topology::{LinkId, Topology};

use crate::contents::Compared;
use crate::run::is_vote;
use crate::watch::{Standing, chosen};

/// A peer, and what can be seen of what its driver does.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) id: Option<PeerId>,
    pub(super) group: GroupId,
    pub(super) peer: Peer,
    pub(super) topology: Topology,
    pub(super) strategy: Option<SyncStrategy>,
    /// Whether it agreed, when it last voted to synchronize, to go on from any revision.
    pub(super) restarts: bool,
    pub(super) has_voted: bool,
    pub(super) took_back: bool,
    /// The master has heard it vote for something since it was admitted.
    pub(super) was_heard: bool,
    /// It agreed to another ring when it was last handed one.
    pub(super) has_agreed: bool,
    /// In the order of their names.
    pub(super) standing: Vec<Standing>,
    /// Links that are being connected.
    pub(super) ordered: Vec<Standing>,
    /// Executions that run, and those whose result is whole and waits for its verdict.
    executions: BTreeMap<Tag, (Seq, bool)>,
    moving: Option<SyncPlan>,
    is_probing: bool,
    entries: Vec<EntryInfo>,
    /// The calls that wait for an answer.
    open: BTreeMap<CallId, Kind>,
    /// It has closed, or nothing more is heard of it.
    pub(super) is_out: bool,
}

impl Seat {
    pub(super) fn new(config: PeerConfig) -> Self {
        Self {
            id: None,
            group: config.group,
            peer: Peer::new(config),
            topology: Topology::default(),
            strategy: None,
            restarts: false,
            has_voted: false,
            took_back: false,
            was_heard: false,
            has_agreed: false,
            standing: Vec::new(),
            ordered: Vec::new(),
            executions: BTreeMap::new(),
            moving: None,
            is_probing: false,
            entries: Vec::new(),
            open: BTreeMap::new(),
            is_out: false,
        }
    }

    /// Whether it says anything more.
    pub(super) fn runs(&self) -> bool {
        !self.is_out
    }

    pub(super) fn is_connected(&self) -> bool {
        !matches!(
            self.peer.view().phase(),
            PeerPhase::Unconnected | PeerPhase::Gone
        )
    }

    pub(super) fn performs(&self, seq: Seq) -> bool {
        self.executions.values().any(|(known, _)| *known == seq)
    }

    pub(super) fn runs_plan(&self, tag: Tag) -> bool {
        self.executions.get(&tag).is_some_and(|(_, runs)| *runs)
    }

    pub(super) fn is_moving(&self) -> bool {
        self.moving.is_some() || self.is_probing
    }

    /// Stands for all content that has to be the same everywhere.
    pub(super) fn content(&self) -> Compared {
        let compared = self.entries.iter();
        let compared = compared.filter(|entry| !entry.allow_content_inequality);
        let folded = compared.fold(0_u128, |folded, entry| {
            folded.rotate_left(9).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ entry.hash.0
        });
        Compared::of(ContentHash(folded))
    }

    pub(super) fn waits_for(&self, call: CallId, answer: &Answer) -> bool {
        self.open.get(&call) == Some(&answer.kind())
    }

    /// Something happens to it.
    pub(super) fn notes_input(&mut self, input: &PeerInput) {
        match input {
            PeerInput::Call { call, what } => {
                self.open.insert(*call, what.kind());
            }
            PeerInput::GiveUp { call } => self.gives_up(*call),
            PeerInput::LinkBroke { link, built } => self.loses(*link, *built),
            PeerInput::PlanEnded { seq, outcome } => {
                let is_done = *outcome == PlanOutcome::Done;
                self.executions
                    .retain(|_, (known, _)| known != seq || is_done);
                let mut executions = self.executions.values_mut();
                if let Some((_, runs)) = executions.find(|(known, _)| known == seq) {
                    *runs = false;
                }
            }
            PeerInput::ProbesEnded { .. } => self.is_probing = false,
            _ => {}
        }
    }

    /// It has dealt with what happened.
    pub(super) fn notes_end_of(&mut self, input: &PeerInput) {
        if let PeerInput::Message(ToPeer::CollectiveRefused { reason, .. }) = input
            && *reason == CollectiveRefusal::Withdrawn
        {
            self.took_back = true;
        }
    }

    /// What was whole for this call is nobody's.
    fn gives_up(&mut self, call: CallId) {
        if let Some(Kind::Collective(tag)) = self.open.remove(&call) {
            self.executions.retain(|of, (_, runs)| *of != tag || *runs);
        }
    }

    fn loses(&mut self, link: LinkId, built: Round) {
        let mut known = self.ordered.iter_mut().chain(&mut self.standing);
        if let Some(lanes) = known.find(|lanes| (lanes.link, lanes.built) == (link, built)) {
            lanes.noticed = true;
        }
    }

    /// It wants something done.
    pub(super) fn notes_output(&mut self, output: &PeerOutput) {
        match output {
            PeerOutput::Send(message) => self.says(message),
            PeerOutput::Answer { call, answer } => {
                self.open.remove(call);
                self.answers(answer);
            }
            PeerOutput::Establish { round, links } => {
                let ordered = links.iter().map(|order| Standing {
                    link: order.link(),
                    built: *round,
                    noticed: false,
                });
                self.ordered = ordered.collect();
            }
            PeerOutput::AdoptRing { topology, links } => {
                let fresh = std::mem::take(&mut self.ordered);
                let before = std::mem::take(&mut self.standing);
                self.standing = chosen(links, &before, &fresh);
                self.topology = topology.clone();
            }
            PeerOutput::RunPlan { tag, seq, .. } => {
                self.executions.insert(*tag, (*seq, true));
            }
            // What is whole here waits for its verdict.
            PeerOutput::StopPlan { seq } => {
                self.executions
                    .retain(|_, (known, runs)| known != seq || !*runs);
            }
            PeerOutput::MoveState { plan, .. } => self.moving = Some(plan.clone()),
            PeerOutput::CommitState { round } => self.commits(*round),
            PeerOutput::DropState { .. } => self.moving = None,
            PeerOutput::Probe { .. } => self.is_probing = true,
            PeerOutput::StopProbes { .. } => self.is_probing = false,
            PeerOutput::Close => {
                self.is_out = true;
                self.standing.clear();
                self.ordered.clear();
                self.topology = Topology::default();
            }
            PeerOutput::Confirm { .. }
            | PeerOutput::StartTimer { .. }
            | PeerOutput::StopTimer(_)
            | PeerOutput::Awaited(_) => {}
        }
    }

    fn says(&mut self, message: &ToMaster) {
        if is_vote(message) {
            self.has_voted = true;
            self.took_back = false;
        }
        if let ToMaster::SyncSharedState(vote) = message {
            self.strategy = Some(vote.strategy);
            self.restarts = vote.restart;
            self.entries.clone_from(&vote.entries);
        }
    }

    fn answers(&mut self, answer: &Answer) {
        // Where the call was a mistake, what goes on goes on.
        if matches!(answer.error(), Some(CallError::Usage(_))) {
            return;
        }
        match answer {
            Answer::CollectiveEnded { tag, .. } => drop(self.executions.remove(tag)),
            Answer::Synchronized(_) => self.moving = None,
            Answer::TopologyOptimized(_) => self.is_probing = false,
            Answer::Connected(_) | Answer::TopologyUpdated(_) | Answer::PeersPending(_) => {}
        }
    }

    /// What was fetched is written.
    fn commits(&mut self, round: Round) {
        let Some(plan) = self.moving.take().filter(|plan| plan.round == round) else {
            return;
        };
        if let SyncRole::Request { entries, .. } = &plan.role {
            for (EntryIndex(at), hash) in entries.iter() {
                if let Some(entry) = self.entries.get_mut(at as usize) {
                    entry.hash = hash;
                }
            }
        }
    }
}
