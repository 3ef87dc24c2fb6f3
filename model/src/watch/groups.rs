//! What groups have to do with each other: they are admitted and optimized together, and nothing else.

use std::collections::BTreeSet;

use pccl_core::id::{GroupId, PeerId};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer, PeerView};
use pccl_core::messages::ToMaster;
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};

use super::accepted;
use super::source::Source;
use crate::claim::Claim;
use crate::milestone::Milestone;

/// A bystander who looks at one group sees nothing of what concerns others alone.
pub(super) fn apart(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let Some(concerned) = concerned(before, heard) else {
        return;
    };
    let others = before
        .view()
        .groups()
        .filter(|group| !concerned.contains(group));
    let others: Vec<GroupId> = others
        .filter(|g| accepted(before, *g).next().is_some())
        .collect();
    for group in others {
        if !is_as_it_was(before, after, group) || hears_something(before, group, out) {
            run.breaks(Claim::Apart);
        }
        let is_loss = out
            .iter()
            .any(|output| matches!(output, MasterOutput::Lost { .. }));
        if is_loss && works(before, group) {
            run.reach(Milestone::LostBeside);
        }
    }
}

/// The groups that an input is about. `None`: all.
fn concerned(before: &Master, heard: &MasterInput) -> Option<BTreeSet<GroupId>> {
    let view = before.view();
    let concerns_all = |known: PeerView<'_>| {
        let of_all = [
            ConnectionState::VoteAcceptNewPeers,
            ConnectionState::VoteOptimizeTopology,
        ];
        known.asks_pending() || of_all.contains(&known.state())
    };
    if view.peers().any(|(_, known)| concerns_all(known)) {
        return None;
    }
    let in_round = |round| {
        let in_round = view
            .peers()
            .filter(move |(_, known)| known.round() == Some(round));
        in_round.map(|(id, _)| id).collect()
    };
    let about: Vec<PeerId> = match heard {
        MasterInput::Message {
            message:
                ToMaster::UpdateTopology { .. } | ToMaster::OptimizeTopology | ToMaster::ArePeersPending,
            ..
        } => return None,
        MasterInput::Message { peer, .. }
        | MasterInput::Misbehaved { peer, .. }
        | MasterInput::Disconnected { peer } => vec![*peer],
        MasterInput::TimerFired(timer) => match timer {
            MasterTimer::HeartbeatDue | MasterTimer::MeasurementsAge => return None,
            MasterTimer::Silence(peer) | MasterTimer::Late(peer) => vec![*peer],
            MasterTimer::Wiring(round)
            | MasterTimer::RetryWiring(round)
            | MasterTimer::Solver(round) => in_round(*round),
        },
        MasterInput::TourSolved { round, .. } => in_round(*round),
        // It is kept, and changes nothing yet.
        MasterInput::TourImproved { .. } => Vec::new(),
        MasterInput::Connected { .. } => Vec::new(),
        MasterInput::Stop => return None,
    };
    let about = about.iter().filter_map(|peer| view.peer(*peer));
    let (groups, rounds): (BTreeSet<_>, BTreeSet<_>) =
        about.map(|known| (known.group(), known.round())).unzip();
    // Who is in one attempt is in it together.
    let shares = |known: PeerView<'_>| known.round().is_some() && rounds.contains(&known.round());
    let together = view.peers().filter(|(_, known)| shares(*known));
    let together = together.map(|(_, known)| known.group());
    Some(groups.into_iter().chain(together).collect())
}

fn is_as_it_was(before: &Master, after: &Master, group: GroupId) -> bool {
    let (old, new) = (before.view(), after.view());
    let members = || old.peers().filter(|(_, known)| known.group() == group);
    let is_alike = |(id, known): (PeerId, PeerView<'_>)| {
        let stands = |known: PeerView<'_>| (known.phase(), known.state());
        new.peer(id).map(stands) == Some(stands(known))
    };
    old.ring(group) == new.ring(group)
        && old.epoch(group) == new.epoch(group)
        && old.revision(group) == new.revision(group)
        && old.running(group).eq(new.running(group))
        && members().all(is_alike)
}

fn hears_something(before: &Master, group: GroupId, out: &[MasterOutput]) -> bool {
    out.iter().any(|output| match output {
        MasterOutput::Send { peer, .. } => {
            let known = before.view().peer(*peer);
            known.is_some_and(|known| known.group() == group)
        }
        _ => false,
    })
}

/// Does a collective of the group run, or does its shared state move?
fn works(master: &Master, group: GroupId) -> bool {
    let moves = |state| {
        let moving = [
            ConnectionState::DistributeSharedState,
            ConnectionState::RequestSharedState,
        ];
        moving.contains(&state)
    };
    let mut peers = master.view().peers();
    master.view().running(group).next().is_some()
        || peers.any(|(_, known)| known.group() == group && moves(known.state()))
}

/// Where all have voted something happens at once.
pub(super) fn ballots(run: &mut impl Source, after: &Master) {
    let waits_for_nobody = after.view().groups().any(|group| is_over(after, group));
    if waits_for_nobody || is_over_for_all(after) {
        run.breaks(Claim::Ballots);
    }
}

/// Has everybody voted whose vote a ballot of this group lacked?
fn is_over(master: &Master, group: GroupId) -> bool {
    let members = || {
        let peers = master.view().peers().map(|(_, known)| known);
        peers.filter(|known| known.group() == group && is_accepted(*known))
    };
    if members().next().is_none() {
        return false;
    }
    let ballots = [
        ConnectionState::VoteSyncSharedState,
        ConnectionState::VoteNoNewPeersEstablishP2p,
        ConnectionState::VoteCompleteSharedStateSync,
    ];
    let has_all = |ballot| members().all(|known| known.state() == ballot);
    let initiates = (
        CollectiveCommunicationState::VoteInitiate,
        ConnectionState::CollectiveCommunicationsRunning,
    );
    let first = members().next();
    let mut tags = first
        .into_iter()
        .flat_map(|known| known.tags())
        .map(|(tag, _)| tag);
    let starts = |tag| {
        members().all(|known| {
            let own = known.tags().find(|(known, _)| *known == tag);
            (own.map(|(_, state)| state), known.state()) == (Some(initiates.0), initiates.1)
        })
    };
    ballots.into_iter().any(has_all) || (!master.view().is_ring_stale(group) && tags.any(starts))
}

/// The same for the ballots of all groups.
fn is_over_for_all(master: &Master) -> bool {
    let members = || {
        let peers = master.view().peers().map(|(_, known)| known);
        peers.filter(|known| is_accepted(*known))
    };
    let waits_to_start = |known: PeerView<'_>| {
        let begins = CollectiveCommunicationState::VoteInitiate;
        known.state() == ConnectionState::CollectiveCommunicationsRunning
            && known.tags().all(|(_, state)| state == begins)
    };
    let votes = |known: PeerView<'_>| known.state() == ConnectionState::VoteAcceptNewPeers;
    let agrees = |known: PeerView<'_>| {
        let waiting = [
            ConnectionState::VoteSyncSharedState,
            ConnectionState::VoteOptimizeTopology,
            ConnectionState::VoteNoNewPeersEstablishP2p,
        ];
        votes(known) || waiting.contains(&known.state()) || waits_to_start(known)
    };
    let optimizes = |known: PeerView<'_>| known.state() == ConnectionState::VoteOptimizeTopology;
    let is_anybody_there = members().next().is_some();
    let is_updated = members().any(votes) && members().all(agrees);
    let is_answered = members().all(|known| known.asks_pending());
    is_anybody_there && (is_updated || members().all(optimizes) || is_answered)
}

fn is_accepted(known: PeerView<'_>) -> bool {
    known.phase() == ConnectionPhase::Accepted
}

/// An epoch is one membership: whoever is told it is told the same world, and within a group the same ring.
pub(super) fn epochs<S: Source>(run: &mut S, no: S::Place) {
    let mine = run.topology(no);
    let group = run.group(no);
    let others = run.places().into_iter().filter(|other| *other != no);
    let mut others = others.filter(|other| run.id(*other).is_some());
    let differs = others.any(|other| {
        let theirs = run.topology(other);
        let worlds = [theirs, mine].map(|known| {
            let world = known.world;
            (world.global, world.groups, world.largest_group)
        });
        let is_of_group = run.group(other) == group;
        theirs.epoch == mine.epoch && (worlds[0] != worlds[1] || (is_of_group && theirs != mine))
    });
    if differs {
        run.breaks(Claim::Epochs);
    }
}
