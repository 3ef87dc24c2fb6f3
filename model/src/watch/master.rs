//! What the master does: membership, rings, revisions.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::master::{Master, MasterInput, MasterOutput};
use pccl_core::messages::{CallKind, CollectiveRefusal, PlanOutcome, ToMaster, ToPeer};
use pccl_core::site::SiteName;
use pccl_core::states::{
    CollectiveCommunicationState, CollectiveEvent, ConnectionPhase, ConnectionState, Event,
};
use pccl_core::topology::{Topology, WorldSizes};
use pccl_core::tour::TourProblem;

use super::accepted;
use super::deadlines::deadlines;
use super::election::{elected, failed};
use super::entries::{nothing_moves, planned_part};
use super::groups::{apart, ballots};
use super::innocence::{sent_away, sent_away_for_what_befell_it};
use super::orders::{given, most_lanes};
use super::precedence::precedence;
use super::probes::probes;
use super::reasons::{Moment, reasons};
use super::source::Source;
use super::transfers::sources;
use super::verdicts::verdicts;
use super::{rings as ring_orders, trouble};
use crate::claim::Claim;
use crate::lanes::{measured, shared};
use crate::memo::MasterStep;
use crate::milestone::Milestone;
use crate::run::Run;

pub(crate) fn master_hears(run: &mut Run<'_>, peer: PeerId, message: &ToMaster) {
    vote_arrives(run, peer, message);
    if let Some(before) = run.state.master.clone() {
        trouble::hears(run, &before, peer, message);
    }
}

/// The master hears that somebody's part of a collective is whole.
pub(crate) fn vote_arrives(run: &mut impl Source, peer: PeerId, message: &ToMaster) {
    if let ToMaster::CompleteCollective {
        seq,
        outcome: PlanOutcome::Done,
        ..
    } = message
        && run.is_known(peer)
    {
        run.edit_ghost().done.insert((*seq, peer));
    }
}

/// The step was taken.
pub(crate) fn master_moved(run: &mut Run<'_>, step: &MasterStep) {
    let MasterStep {
        before,
        heard,
        after,
        out,
        ..
    } = step;
    let moment = Moment {
        before,
        after,
        heard,
        out,
    };
    trouble::befell(run, before, heard, out);
    for output in out {
        look_at(run, before, after, heard, output);
    }
    reasons(run, &moment);
    master_keeps(run, before, after, heard, out);
    if !step.is_unmoved_by_what_is_late {
        run.breaks(Claim::Unmoved);
    }
    ring_orders::stand(run, after, out);
    sources(run, before, out);
    trouble::mended(run, before, after, heard, out);
    ring_orders::ordered(run, before, after, out);
    precedence(run, before, after, heard, out);
    given(run, before, after, out);
}

/// What holds of every step of a master, whatever it said.
pub(crate) fn master_keeps(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    verdicts(run, before, after, out);
    deadlines(run, before, after, heard, out);
    admission(run, before, after);
    exclusivity(run, after);
    revisions(run, before, after);
    rings(run, before, after);
    apart(run, before, after, heard, out);
    ballots(run, after);
    probes(run, before, after, heard, out);
}

/// What holds of all that a master says, whoever hears it.
pub(crate) fn master_says(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    output: &MasterOutput,
) {
    match output {
        MasterOutput::Inconsistent { .. } => run.breaks(Claim::WithinTheTable),
        MasterOutput::Send { peer, message } => match message {
            ToPeer::TopologyEstablished { topology, .. } => {
                topology_is_right(run, before, after, *peer, topology);
            }
            ToPeer::SharedStateConcluded {
                result: Ok(revision),
                ..
            } => {
                let group = after.view().peer(*peer).map(|view| view.group());
                if group.is_some_and(|group| after.view().revision(group) != Some(*revision)) {
                    run.breaks(Claim::Revision);
                }
            }
            ToPeer::Kicked(_) | ToPeer::Refused(_) => {
                sent_away(run, before, heard, *peer, message);
            }
            _ => {}
        },
        _ => {}
    }
}

fn look_at(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    output: &MasterOutput,
) {
    master_says(run, before, after, heard, output);
    match output {
        MasterOutput::SolveTour { problem, .. } => what_was_measured(run, problem),
        MasterOutput::Moved { event, from, .. } => {
            run.coverage.moved(*from, *event);
            match event {
                Event::RingStandsForCollectives => run.reach(Milestone::Rewired),
                Event::RetryUpdate | Event::RetryRewire | Event::RetryAdmission => {
                    run.reach(Milestone::WiredAgain);
                }
                _ => {}
            }
        }
        MasterOutput::Send { peer, message } => said(run, before, after, heard, *peer, message),
        MasterOutput::Inconsistent { .. }
        | MasterOutput::Register { .. }
        | MasterOutput::Refuse { .. }
        | MasterOutput::Close { .. }
        | MasterOutput::StartTimer { .. }
        | MasterOutput::StopTimer(_)
        | MasterOutput::SearchTour { .. }
        | MasterOutput::EndSearch { .. }
        | MasterOutput::Lost { .. }
        | MasterOutput::Stopped => {}
    }
}

fn said(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    peer: PeerId,
    message: &ToPeer,
) {
    let state_before = |tag: &Tag| {
        let view = before.view().peer(peer)?;
        view.tags()
            .find(|(known, _)| known == tag)
            .map(|(_, state)| state)
    };
    match message {
        ToPeer::Commence { .. } => {
            let from = Some(CollectiveCommunicationState::VoteInitiate);
            run.coverage.tag_moved(None, CollectiveEvent::Initiated);
            run.coverage.tag_moved(from, CollectiveEvent::Commenced);
        }
        ToPeer::CollectiveRefused { reason, .. } => {
            let from = Some(CollectiveCommunicationState::VoteInitiate);
            run.coverage.tag_moved(from, CollectiveEvent::Refused);
            if *reason != CollectiveRefusal::Withdrawn {
                gave_way(run);
            }
        }
        ToPeer::Verdict { tag, seq, .. } => {
            let mut groups = before.view().groups();
            let ran = groups.any(|group| before.view().running(group).any(|one| one.1 == *seq));
            // If it commences in this step, this peer has voted ahead.
            let voted = !ran
                || matches!(heard, MasterInput::Message { peer: caster, message: ToMaster::CompleteCollective { .. } } if *caster == peer);
            let performing = Some(CollectiveCommunicationState::Perform);
            let from = if voted {
                run.coverage
                    .tag_moved(performing, CollectiveEvent::Completed);
                Some(CollectiveCommunicationState::VoteComplete)
            } else {
                state_before(tag)
            };
            run.coverage.tag_moved(from, CollectiveEvent::Decided);
        }
        ToPeer::CallFailed(_) => gave_way(run),
        ToPeer::SharedStatePlan(plan) => {
            if let Some(elected) = elected(run, before, after, peer, plan.revision) {
                planned_part(run, peer, plan, &elected);
            }
        }
        ToPeer::SharedStateConcluded { result, .. } => match result {
            Ok(revision) => {
                if let Some(elected) = elected(run, before, after, peer, *revision) {
                    nothing_moves(run, &elected);
                }
            }
            Err(why) => {
                if let Some(known) = after.view().peer(peer) {
                    failed(run, before, after, heard, known.group(), why);
                }
            }
        },
        ToPeer::Kicked(_) | ToPeer::Refused(_) => {
            sent_away_for_what_befell_it(run, (before, after), peer, message);
        }
        ToPeer::OptimizationConcluded { report: None }
            if run.state.faults == run.scenario.faults =>
        {
            run.breaks(Claim::Failures)
        }
        ToPeer::Welcome { .. }
        | ToPeer::TopologyEstablished { .. }
        | ToPeer::EstablishLinks { .. }
        | ToPeer::PeersPending { .. }
        | ToPeer::Probe { .. }
        | ToPeer::OptimizationConcluded { .. }
        | ToPeer::Heartbeat
        | ToPeer::Awaited(_)
        | ToPeer::Stopping => {}
    }
}

/// A call gave way to another peer's. Where nothing has gone wrong and all go through one loop, nobody
/// gets in another's way.
fn gave_way(run: &mut Run<'_>) {
    let all_is_well = run.state.faults == run.scenario.faults;
    if run.scenario.in_step && all_is_well {
        run.breaks(Claim::InStep);
    }
    run.reach(Milestone::GaveWay);
}

/// Nobody is accepted without the vote of everybody who is.
fn admission(run: &mut impl Source, before: &Master, after: &Master) {
    fn accepted(master: &Master) -> impl Iterator<Item = PeerId> {
        let peers = master.view().peers();
        let accepted = peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
        accepted.map(|(id, _)| id)
    }
    if accepted(before).eq(accepted(after)) {
        return;
    }
    let [old, new] = [before, after].map(|master| accepted(master).collect::<BTreeSet<_>>());
    if old
        .iter()
        .any(|peer| !new.contains(peer) && after.view().peer(*peer).is_some())
    {
        run.reach(Milestone::SetAside);
        run.shock();
    }
    if new.is_subset(&old) {
        return;
    }
    run.shock();
    let stayed: Vec<PeerId> = old.intersection(&new).copied().collect();
    run.reach(if stayed.is_empty() {
        Milestone::AdmittedAlone
    } else {
        Milestone::Admitted
    });
    for peer in stayed {
        let place = run.place_of(peer);
        // One that is gone may have voted before.
        match place.filter(|at| run.runs(*at)).map(|at| stand(run, at)) {
            None | Some(Stand::Votes) => {}
            Some(Stand::Waits) => run.reach(Milestone::Consented),
            Some(Stand::Rests) => {}
            Some(Stand::Works) if place.is_some_and(|at| run.has_agreed(at)) => {}
            Some(Stand::Works) => run.breaks(Claim::Admission),
        }
    }
}

/// Whether a peer agrees to another ring at this moment.
pub(crate) fn agrees<S: Source>(run: &S, at: S::Place) -> bool {
    !matches!(stand(run, at), Stand::Works)
}

/// How a peer stands to another ring.
enum Stand {
    /// It calls for one.
    Votes,
    /// It waits for others to make its own call, of which nothing has begun.
    Waits,
    /// It has voted for nothing since it was admitted, or taken its vote back.
    Rests,
    /// It has not agreed to any.
    Works,
}

fn stand<S: Source>(run: &S, at: S::Place) -> Stand {
    let view = run.peer(at).view();
    let begun = run.is_moving(at);
    let mut tags = view.tags();
    let waits_to_start =
        |tag: pccl_core::peer::TagView| tag.state == CollectiveCommunicationState::VoteInitiate;
    match view.open_calls().major {
        Some(CallKind::UpdateTopology) => Stand::Votes,
        Some(_) if !begun => Stand::Waits,
        Some(_) => Stand::Works,
        None if view.tags().next().is_some() && tags.all(waits_to_start) => Stand::Waits,
        None if !run.has_voted(at) || run.took_back(at) => Stand::Rests,
        None => Stand::Works,
    }
}

/// What may not overlap within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Wiring,
    Optimizing,
    Moving,
    Collectives,
}

fn activity(state: ConnectionState) -> Option<Activity> {
    match state {
        ConnectionState::ConnectingToPeers
        | ConnectionState::ConnectingToPeersFailed
        | ConnectionState::WaitingForOtherPeers => Some(Activity::Wiring),
        ConnectionState::OptimizeTopology
        | ConnectionState::OptimizeTopologyFailed
        | ConnectionState::VoteCompleteTopologyOptimization => Some(Activity::Optimizing),
        ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState
        | ConnectionState::VoteCompleteSharedStateSync => Some(Activity::Moving),
        ConnectionState::Idle
        | ConnectionState::VoteAcceptNewPeers
        | ConnectionState::VoteNoNewPeersEstablishP2p
        | ConnectionState::VoteOptimizeTopology
        | ConnectionState::VoteSyncSharedState
        | ConnectionState::CollectiveCommunicationsRunning => None,
    }
}

fn exclusivity(run: &mut impl Source, master: &Master) {
    for group in master.view().groups() {
        let peers = master.view().peers();
        let members = peers
            .filter(|(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted);
        let mut first = None;
        let running = master.view().running(group).count();
        if running > 0 {
            first = Some(Activity::Collectives);
        }
        if running > 1 {
            run.reach(Milestone::TwoTagsAtOnce);
        }
        for active in members.filter_map(|(_, peer)| activity(peer.state())) {
            if *first.get_or_insert(active) != active {
                run.breaks(Claim::Exclusivity);
            }
        }
    }
}

/// The revision grows by one or stays, unless all members agree to go on from any.
fn revisions(run: &mut impl Source, before: &Master, after: &Master) {
    for group in after.view().groups() {
        let (old, new) = (before.view().revision(group), after.view().revision(group));
        let restarts = || {
            let mut members = accepted(after, group).filter_map(|peer| run.place_of(peer));
            members.all(|at| run.restarts(at))
        };
        let right = match (old, new) {
            (Some(old), Some(new)) => new == old || new == old.next() || restarts(),
            // It outlives the group's last member.
            (Some(_), None) => false,
            (None, Some(_) | None) => true,
        };
        if !right {
            run.breaks(Claim::Revision);
        }
        if old != new && old.is_some() {
            run.reach(Milestone::RevisionAdvanced);
        }
    }
}

/// An epoch's ring never changes.
fn rings(run: &mut impl Source, before: &Master, after: &Master) {
    for group in after.view().groups() {
        let same_epoch = before.view().epoch(group) == after.view().epoch(group);
        if same_epoch && before.view().ring(group) != after.view().ring(group) {
            run.breaks(Claim::OneView);
        }
    }
}

/// Names of sites hold if any member of the group has given one. Else all sites have been found, or none.
fn are_sites_right(master: &Master, group: GroupId, topology: &Topology) -> bool {
    let of_ring = topology.ring.0.iter();
    let named = of_ring.map(|peer| master.view().peer(*peer).map(|peer| peer.site()));
    let named: Option<Vec<&SiteName>> = named.collect();
    let told: Vec<&SiteName> = topology.sites.by_rank().collect();
    let found = told.iter().filter(|site| site.is_found()).count();
    let are_given = match named {
        Some(named) if named.iter().any(|site| site.is_named()) => told == named,
        Some(unnamed) => told == unnamed || found == told.len(),
        None => false,
    };
    are_given && Some(&topology.sites) == master.view().sites(group).as_ref()
}

/// The ring that a peer is told is its group's, and all of the group are on it, each at its site.
fn topology_is_right(
    run: &mut impl Source,
    before: &Master,
    master: &Master,
    peer: PeerId,
    topology: &Topology,
) {
    let Some(group) = master.view().peer(peer).map(|view| view.group()) else {
        return;
    };
    // Another ring may follow at once, and is judged itself.
    let epochs = [before, master].map(|master| master.view().epoch(group));
    if epochs[0] < Some(topology.epoch) && Some(topology.epoch) < epochs[1] {
        return;
    }
    let mut on_ring = topology.ring.0.clone();
    on_ring.sort();
    // Who comes in with its vote to synchronize may be set aside by the same step.
    let (aside, members): (Vec<PeerId>, Vec<PeerId>) =
        on_ring.iter().partition(|peer| is_aside(master, **peer));
    let right = members.into_iter().eq(accepted(master, group))
        && are_sites_right(master, group, topology)
        && is_world(master, group, &topology.world, &aside)
        && topology.lanes == most_lanes(run, &topology.ring)
        && Some(&topology.ring) == master.view().ring(group)
        && Some(topology.epoch) == master.view().epoch(group);
    if !right {
        run.breaks(Claim::OneView);
    }
}

/// Whether a peer waits with its vote to synchronize for the next update.
fn is_aside(master: &Master, peer: PeerId) -> bool {
    master.view().peer(peer).is_some_and(|peer| {
        peer.phase() == ConnectionPhase::Registered
            && peer.state() == ConnectionState::VoteSyncSharedState
    })
}

/// Whether the world has these sizes, with these of the group, who were set aside since. In other groups some
/// may have been as well.
fn is_world(master: &Master, group: GroupId, told: &WorldSizes, aside: &[PeerId]) -> bool {
    let peers = master.view().peers().map(|(id, _)| id);
    let all_aside: Vec<PeerId> = peers.filter(|peer| is_aside(master, *peer)).collect();
    let least = world(master, group, aside);
    let most = world(master, group, &all_aside);
    let is_between = least.global < told.global && told.global <= most.global;
    *told == least || (told.group == least.group && is_between)
}

/// World sizes, counted here: of those who are accepted, and of these.
fn world(master: &Master, group: GroupId, and: &[PeerId]) -> WorldSizes {
    let mut members: BTreeMap<GroupId, u32> = BTreeMap::new();
    for (id, peer) in master.view().peers() {
        if peer.phase() == ConnectionPhase::Accepted || and.contains(&id) {
            *members.entry(peer.group()).or_default() += 1;
        }
    }
    let size = |group| members.get(&group).copied().unwrap_or_default();
    let sizes = members.values().copied();
    WorldSizes {
        global: sizes.clone().sum(),
        group: size(group),
        groups: u32::try_from(members.len()).unwrap_or(u32::MAX),
        largest_group: sizes.max().unwrap_or(0),
    }
}

/// The solver is told what was measured and nothing else: where nothing has failed, each pair in both directions.
fn what_was_measured(run: &mut Run<'_>, problem: &TourProblem) {
    let mut edges = problem.edges.iter();
    let is_right = edges.all(|((from, to), known)| {
        let alone = measured(run.scenario, *from, *to);
        *known == alone || run.scenario.shared && *known == shared(alone)
    });
    let pairs = problem.members.len() * problem.members.len().saturating_sub(1);
    // Of large groups some are estimated.
    let is_all = problem.edges.len() == pairs || problem.estimated_but.is_some();
    let all_is_well = run.state.faults == run.scenario.faults;
    if !is_right || all_is_well && !is_all {
        run.breaks(Claim::Measured);
    }
}
