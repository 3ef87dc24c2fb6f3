//! After every input: count all ballots until nothing moves, then see to the timers.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::record::{Collective, PeerRecord, SyncProgress};
use super::{Ballot, Master, MasterOutput, MasterTimer, Out, send};
use crate::id::{GroupId, PeerId, Tag};
use crate::messages::{CollectiveRefusal, Misdeed, ToPeer};
use crate::states::{CollectiveCommunicationState, ConnectionState};

impl Master {
    pub(super) fn settle(&mut self, out: &mut Out) {
        while self.advance(out) {}
        self.set_timers(out);
    }

    /// One step of whatever can move. Every step uses up a vote, a report or a peer, so this ends.
    fn advance(&mut self, out: &mut Out) -> bool {
        self.count_pending(out)
            || self.count_groups(out)
            || self.count_optimization(out)
            || self.count_optimize(out)
            || self.count_update(out)
            || self.admit_first(out)
            || self.resolve_conflicts(out)
    }

    fn count_groups(&mut self, out: &mut Out) -> bool {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.into_iter().any(|group| {
            self.count_complete(group, out)
                || self.count_sync_done(group, out)
                || self.count_sync(group, out)
                || self.vote_to_rewire(group, out)
                || self.count_rewire(group, out)
                || self.count_initiate(group, out)
        })
    }

    /// Starts and stops timers so that exactly those run that the state wants.
    fn set_timers(&mut self, out: &mut Out) {
        let wanted = self.wanted_timers();
        for timer in self.armed.difference(&wanted) {
            rule!(out.push(MasterOutput::StopTimer(*timer)); TimerNotStopped => {});
        }
        for timer in wanted.difference(&self.armed) {
            out.push(MasterOutput::StartTimer {
                timer: *timer,
                after: self.time_for(*timer),
            });
        }
        self.armed = wanted;
    }

    fn wanted_timers(&self) -> BTreeSet<MasterTimer> {
        let mut wanted: BTreeSet<MasterTimer> = self
            .peers
            .keys()
            .map(|peer| MasterTimer::Silence(*peer))
            .collect();
        if !self.peers.is_empty() {
            wanted.insert(MasterTimer::HeartbeatDue);
        }
        wanted.extend(
            self.wirings
                .iter()
                .map(|(round, wiring)| match wiring.pausing {
                    true => {
                        let pause = MasterTimer::RetryWiring(*round);
                        rule!(pause; PauseNeverEnds => MasterTimer::Wiring(*round))
                    }
                    false => MasterTimer::Wiring(*round),
                }),
        );
        wanted.extend(self.optimization_round().map(MasterTimer::Optimization));
        wanted.extend(self.open_ballots().into_iter().map(MasterTimer::Ballot));
        for group in self.groups.values() {
            if let SyncProgress::Moving { round, .. } = &group.sync {
                wanted.insert(MasterTimer::SharedState(*round));
            }
            wanted.extend(
                group
                    .collectives
                    .values()
                    .filter_map(|collective| match collective {
                        Collective::Running { seq, .. } => Some(MasterTimer::Collective(*seq)),
                        Collective::Initiating(_) => None,
                    }),
            );
        }
        wanted
    }

    fn time_for(&self, timer: MasterTimer) -> Duration {
        let config = &self.config;
        match timer {
            MasterTimer::HeartbeatDue => config.heartbeat,
            MasterTimer::Silence(_) => config.silence,
            MasterTimer::Ballot(_) => config.ballot,
            MasterTimer::Wiring(_) => config.wiring,
            MasterTimer::RetryWiring(round) => {
                let scope = self.wirings.get(&round).map(|wiring| wiring.scope);
                let failures = scope.and_then(|scope| self.failures.get(&scope));
                let attempts = failures.map_or(1, |failures| failures.attempts);
                let doublings = u32::from(attempts.saturating_sub(1)).min(16);
                config.wiring_retry.saturating_mul(1 << doublings)
            }
            MasterTimer::Optimization(_) => config.optimization,
            MasterTimer::SharedState(_) => config.shared_state,
            MasterTimer::Collective(_) => config.collective,
        }
    }

    /// Ballots in which somebody waits for somebody.
    fn open_ballots(&self) -> BTreeSet<Ballot> {
        let mut open = BTreeSet::new();
        for (_, record) in self.accepted() {
            open.extend(major_ballot(record));
            open.extend(record.asked_pending.then_some(Ballot::PeersPending));
            // A peer whose ring is being connected is not idle even without collectives; the ring has
            // a deadline of its own, and its collectives are given all their time afterwards.
            if record.round.is_none() {
                let tags = record
                    .tags
                    .iter()
                    .filter(|(_, state)| waits_to_start(**state));
                open.extend(tags.map(|(tag, _)| Ballot::Initiate(record.group, *tag)));
            }
        }
        open
    }

    pub(super) fn timer_fired(&mut self, timer: MasterTimer, out: &mut Out) {
        // One that was stopped may have been on its way. Settling starts it again where it is wanted.
        if !self.armed.remove(&timer) {
            return;
        }
        match timer {
            MasterTimer::HeartbeatDue => {
                for peer in self.peers.keys() {
                    send(out, *peer, ToPeer::Heartbeat);
                }
            }
            MasterTimer::Silence(peer) => self.kick(peer, Misdeed::Silent, out),
            MasterTimer::Ballot(ballot) => self.ballot_overdue(ballot, out),
            MasterTimer::Wiring(round) => self.wiring_overdue(round, out),
            MasterTimer::RetryWiring(round) => self.give_up_wiring(round, out),
            MasterTimer::Optimization(round) => self.optimization_overdue(round, out),
            MasterTimer::SharedState(round) => self.shared_state_overdue(round, out),
            MasterTimer::Collective(seq) => self.collective_overdue(seq, out),
        }
    }

    /// Peers that others have waited for too long are kicked if they are idle. Those that are busy
    /// with something have a deadline of their own there, and the ballot waits another time.
    fn ballot_overdue(&mut self, ballot: Ballot, out: &mut Out) {
        match ballot {
            Ballot::UpdateTopology | Ballot::OptimizeTopology => self.kick_idle(None, out),
            Ballot::Rewire(group) | Ballot::SyncSharedState(group) => {
                self.kick_idle(Some(group), out);
            }
            Ballot::PeersPending => self.kick_idle_where(|record| !record.asked_pending, out),
            Ballot::Initiate(group, tag) => self.initiate_overdue(group, tag, out),
        }
    }

    fn kick_idle(&mut self, group: Option<GroupId>, out: &mut Out) {
        self.kick_idle_where(
            |record| group.is_none_or(|group| record.group == group),
            out,
        );
    }

    fn kick_idle_where(&mut self, is_late: impl Fn(&PeerRecord) -> bool, out: &mut Out) {
        let idle: Vec<PeerId> = self
            .accepted()
            .filter(|(_, record)| record.state == ConnectionState::Idle && is_late(record))
            .map(|(peer, _)| peer)
            .collect();
        for peer in idle {
            self.kick(peer, Misdeed::MissedBallot, out);
        }
    }

    /// Members that wait to start other tags did not join this one: a difference between the programs,
    /// for which nobody is kicked. One that runs another tag may join when that is over.
    fn initiate_overdue(&mut self, group: GroupId, tag: Tag, out: &mut Out) {
        self.kick_idle(Some(group), out);
        let peers: Vec<PeerId> = self
            .accepted_in(group)
            .filter(|(_, record)| !record.tags.contains_key(&tag) && record.only_initiates())
            .map(|(peer, _)| peer)
            .collect();
        if !peers.is_empty() {
            self.refuse_tag(group, tag, &CollectiveRefusal::NotJoined { peers }, out);
        }
    }
}

/// The ballot of the major call, or of the ring, that the peer waits in.
fn major_ballot(record: &PeerRecord) -> Option<Ballot> {
    match record.state {
        ConnectionState::VoteAcceptNewPeers => Some(Ballot::UpdateTopology),
        ConnectionState::VoteNoNewPeersEstablishP2p => Some(Ballot::Rewire(record.group)),
        ConnectionState::VoteOptimizeTopology => Some(Ballot::OptimizeTopology),
        ConnectionState::VoteSyncSharedState => Some(Ballot::SyncSharedState(record.group)),
        // These wait for reports, each with a deadline of its own, or for nothing.
        ConnectionState::Idle
        | ConnectionState::ConnectingToPeers
        | ConnectionState::ConnectingToPeersFailed
        | ConnectionState::WaitingForOtherPeers
        | ConnectionState::OptimizeTopology
        | ConnectionState::OptimizeTopologyFailed
        | ConnectionState::VoteCompleteTopologyOptimization
        | ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState
        | ConnectionState::VoteCompleteSharedStateSync
        | ConnectionState::CollectiveCommunicationsRunning => None,
    }
}

fn waits_to_start(tag: CollectiveCommunicationState) -> bool {
    match tag {
        CollectiveCommunicationState::VoteInitiate => true,
        CollectiveCommunicationState::Perform | CollectiveCommunicationState::VoteComplete => false,
    }
}
