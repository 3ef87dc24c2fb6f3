//! Timers, and what happens when others have waited for a peer for too long.
//!
//! A peer has one timer, [`Late`](MasterTimer::Late), while others wait for it: for its vote while it is idle, for
//! its vote on a collective of another tag while it waits itself, or for its part of a running operation. Only the
//! peer's obligation counts:
//!
//! - The time for a **vote** starts when the peer is idle and a ballot lacks its vote, and ends when that is no
//!   longer so. No message of the peer restarts it: no heartbeat, no `are_peers_pending`, no vote for other tags, and
//!   no withdrawal of such a vote. If a peer votes and gets its answer at once, it has the whole time again for the
//!   next ballot.
//! - The time for a **part** of a running operation restarts whenever the peer reports that bytes have moved, or that
//!   its part of one of several collectives is over.
//! - The time for the **measurements** of a rotation is fixed, whatever the peer reports.
//!
//! When it runs out:
//!
//! - An **idle** peer is evicted, unless more peers would be evicted than wait for them.
//! - A peer that waits to start **other tags** is not at fault: the programs differ, and the collectives that lack
//!   its vote are refused.
//! - A **running** operation is ended without a result. The peer that holds it up is evicted if at least as many
//!   participants are done as are not, or if it is the second time in a row.
//! - A peer that has not **measured** is no longer waited for.
//!
//! **Invariant:** which timers run is a function of the state. The timers are updated after every input, for the
//! peers that the input concerns.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{Collective, GroupWaits, Lateness, PeerRecord, SyncProgress};
use super::{Master, MasterOutput, MasterTimer, Out};
use crate::id::{GroupId, PeerId, Tag};
use crate::messages::{AbortCause, CollectiveRefusal, Misdeed};
use crate::states::ConnectionState;

/// How often in a row a peer may hold up a running operation.
const STALLS_MAX: u8 = 2;

/// The calls in which peers of all groups wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct GlobalWaits {
    updating: bool,
    optimizing: bool,
    asking: bool,
}

/// What the current input says about a peer.
#[derive(Clone, Copy)]
struct Told {
    /// It is a message of this peer.
    something: bool,
    /// Whether the peer makes progress with its part of a running operation, or its call has ended.
    progress: bool,
}

impl Master {
    /// Starts and stops timers, so that exactly those run that the state requires.
    pub(super) fn set_timers(&mut self, heard: Option<PeerId>, out: &mut Out) {
        self.recheck_waiting();
        let went_on = core::mem::take(&mut self.went_on);
        self.rechecked.extend(heard.iter().chain(&went_on));
        while let Some(peer) = self.rechecked.pop_first() {
            let told = Told {
                something: heard == Some(peer),
                progress: went_on.contains(&peer),
            };
            self.watch(peer, told, out);
        }
        let heartbeat =
            rule!(!self.peers.is_empty(); NoBeatBeforeTheFirst => self.tally.members() > 0);
        self.set_timer(MasterTimer::HeartbeatDue, heartbeat, out);
        self.set_timer(MasterTimer::MeasurementsAge, !self.known.is_empty(), out);
        self.set_round_timers(out);
    }

    /// Checks whether the set of waiting peers has changed, so that others may be late from here on.
    fn recheck_waiting(&mut self) {
        let waits = GlobalWaits {
            updating: self.tally.of(ConnectionState::VoteAcceptNewPeers) > 0,
            optimizing: self.tally.of(ConnectionState::VoteOptimizeTopology) > 0,
            asking: self.tally.asking() > 0,
        };
        if waits != self.waits {
            self.waits = waits;
            let members = self.groups.values().flat_map(|group| &group.members);
            self.rechecked.extend(members);
        }
        for group in &self.dirty {
            let Some(record) = self.groups.get_mut(group) else {
                continue;
            };
            let waits = GroupWaits {
                syncing: record.tally.of(ConnectionState::VoteSyncSharedState) > 0,
                rewiring: record.tally.of(ConnectionState::VoteNoNewPeersEstablishP2p) > 0,
                initiating: record.initiating(),
            };
            if waits != record.waits {
                record.waits = waits;
                rule!(self.rechecked.extend(&record.members); WaitNotNoticed => {});
            }
        }
    }

    /// Updates a peer's timers.
    fn watch(&mut self, peer: PeerId, told: Told, out: &mut Out) {
        let silence = MasterTimer::Silence(peer);
        let late = MasterTimer::Late(peer);
        let Some(record) = self.peers.get(&peer) else {
            self.set_timer(silence, false, out);
            self.set_timer(late, false, out);
            return;
        };
        let wanted = self.lateness(record);
        let before = record.late;
        let watched = rule!(true; NewcomersSilenceUnwatched => record.is_accepted());
        self.set_timer(silence, watched, out);
        let runs = self.armed.contains(&late);
        let goes_on = rule!(told.progress; LateThoughHeard => false);
        let is_for_vote = |late: Option<Lateness>| late.is_some_and(Lateness::is_for_vote);
        // By its own word a peer gains no time for the vote that it owes.
        let owes_as_before = told.something && is_for_vote(before) && is_for_vote(wanted);
        let is_other = rule!(
            wanted != before && !owes_as_before;
            WordsGainTime => told.something || wanted != before
        );
        if wanted.is_some() && (!runs || is_other || goes_on) {
            rule!(self.start_timer(late, wanted, out); LateNotWatched => {});
        } else if wanted.is_none() {
            self.set_timer(late, false, out);
        }
        if wanted != before
            && let Some(record) = self.peers.get_mut(&peer)
        {
            record.late = wanted;
        }
    }

    fn set_round_timers(&mut self, out: &mut Out) {
        let mut wanted: BTreeSet<MasterTimer> = self
            .wirings
            .iter()
            .map(|(round, wiring)| match wiring.pausing {
                true => {
                    let pause = MasterTimer::RetryWiring(*round);
                    rule!(pause; PauseNeverEnds => MasterTimer::Wiring(*round))
                }
                false => MasterTimer::Wiring(*round),
            })
            .collect();
        rule!({}; WiringWatchedToFirstReport => wanted.retain(|timer| self.is_unreported(*timer)));
        let solving = rule!(self.solving_round(); SolverNotWatched => None);
        wanted.extend(solving.map(MasterTimer::Solver));
        // Timers of rounds come after those of peers.
        let first = MasterTimer::Wiring(crate::id::Round(0));
        let armed: Vec<MasterTimer> = self.armed.range(first..).copied().collect();
        for timer in armed.iter().filter(|timer| !wanted.contains(timer)) {
            self.set_timer(*timer, false, out);
        }
        for timer in wanted {
            rule!(
                self.set_timer(timer, true, out);
                ReportGainsTimeForAll => self.start_timer(timer, None, out)
            );
        }
    }

    #[cfg(feature = "mutants")]
    fn is_unreported(&self, timer: MasterTimer) -> bool {
        let MasterTimer::Wiring(round) = timer else {
            return true;
        };
        let wiring = self.wirings.get(&round);
        wiring.is_some_and(|wiring| wiring.open == wiring.links.len())
    }

    fn set_timer(&mut self, timer: MasterTimer, wanted: bool, out: &mut Out) {
        if wanted && !self.armed.contains(&timer) {
            self.start_timer(timer, None, out);
        } else if !wanted && self.armed.remove(&timer) {
            rule!(out.push(MasterOutput::StopTimer(timer)); TimerNotStopped => {});
        }
    }

    fn start_timer(&mut self, timer: MasterTimer, late: Option<Lateness>, out: &mut Out) {
        self.armed.insert(timer);
        let after = self.time_for(timer, late);
        out.push(MasterOutput::StartTimer { timer, after });
    }

    fn time_for(&self, timer: MasterTimer, late: Option<Lateness>) -> Duration {
        let config = &self.config;
        match timer {
            MasterTimer::HeartbeatDue => config.heartbeat,
            MasterTimer::MeasurementsAge => config.measurements,
            MasterTimer::Silence(_) => config.silence,
            MasterTimer::Late(_) => match late {
                Some(Lateness::Part) => rule!(config.stalled; PartHasAVotesTime => config.late),
                Some(Lateness::Probe) => rule!(config.probe; ProbeHasAPartsTime => config.stalled),
                Some(Lateness::Join) => rule!(config.late; JoinHasAPartsTime => config.stalled),
                Some(Lateness::Vote) | None => config.late,
            },
            MasterTimer::Wiring(_) => config.wiring,
            MasterTimer::RetryWiring(round) => {
                let rings = self.wirings.get(&round).map(|wiring| wiring.rings.keys());
                let failed = rings
                    .into_iter()
                    .flatten()
                    .filter_map(|g| self.attempts.get(g));
                let doublings = failed.map(|attempts| u32::from(attempts.count)).max();
                let doublings = doublings
                    .unwrap_or(0)
                    .min(self.config.wiring_attempts_max.into());
                config.wiring_retry.saturating_mul(1 << doublings.min(16))
            }
            MasterTimer::Solver(_) => config.solver,
        }
    }

    /// What others wait for this peer to do.
    fn lateness(&self, record: &PeerRecord) -> Option<Lateness> {
        if !record.is_accepted() {
            return None;
        }
        let waits = self.groups.get(&record.group).map(|group| group.waits);
        let waits = rule!(
            waits.unwrap_or_default();
            LateForAnotherGroup => self.groups.values().next().map(|g| g.waits).unwrap_or_default()
        );
        match record.state {
            ConnectionState::Idle => {
                let of_group = waits.syncing || waits.rewiring || waits.initiating > 0;
                let rests = rule!(record.rests; RestingIsLate => false);
                let optimizing = rule!(self.waits.optimizing; OptimizersWaitForNobody => false);
                let of_all = optimizing
                    || self.waits.updating && !rests
                    || self.waits.asking && !record.asked_pending;
                (of_group || of_all).then_some(Lateness::Vote)
            }
            ConnectionState::OptimizeTopology => Some(Lateness::Probe),
            ConnectionState::DistributeSharedState | ConnectionState::RequestSharedState => {
                Some(Lateness::Part)
            }
            ConnectionState::CollectiveCommunicationsRunning => {
                if rule!(record.tags.performs(); DoneIsLate => !record.tags.only_initiate()) {
                    Some(Lateness::Part)
                } else {
                    let lacks =
                        record.tags.only_initiate() && record.tags.initiating() < waits.initiating;
                    lacks.then_some(Lateness::Join)
                }
            }
            // These wait themselves, or have a deadline for all in their ring.
            ConnectionState::VoteAcceptNewPeers
            | ConnectionState::VoteNoNewPeersEstablishP2p
            | ConnectionState::ConnectingToPeers
            | ConnectionState::ConnectingToPeersFailed
            | ConnectionState::WaitingForOtherPeers
            | ConnectionState::VoteOptimizeTopology
            | ConnectionState::OptimizeTopologyFailed
            | ConnectionState::VoteCompleteTopologyOptimization
            | ConnectionState::VoteSyncSharedState
            | ConnectionState::VoteCompleteSharedStateSync => None,
        }
    }

    pub(super) fn is_late(&mut self, peer: PeerId, out: &mut Out) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        let (late, group) = (record.late.take(), record.group);
        match late {
            Some(Lateness::Vote) if self.may_be_kicked_for_its_vote(peer) => {
                let goes = rule!(peer; WhoWaitsIsKicked => self.who_waits().unwrap_or(peer));
                self.kick(goes, Misdeed::MissedBallot, out);
            }
            Some(Lateness::Vote) => {}
            Some(Lateness::Join) => self.refuse_what_lacks(peer, group, out),
            Some(Lateness::Part) => self.holds_up(peer, group, out),
            Some(Lateness::Probe) => rule!(
                self.probes_overdue(peer, out);
                SlowProbeKicked => self.kick(peer, Misdeed::Stalled, out)
            ),
            None => {}
        }
    }

    #[cfg(feature = "mutants")]
    fn who_waits(&self) -> Option<PeerId> {
        let mut waiting = self.accepted();
        waiting.find_map(|(peer, record)| (record.state != ConnectionState::Idle).then_some(peer))
    }

    /// Whether at most as many peers would be evicted as wait for them. Otherwise a peer that is far ahead of all
    /// others would have the whole run evicted.
    fn may_be_kicked_for_its_vote(&self, peer: PeerId) -> bool {
        let Some(late) = self.peers.get(&peer) else {
            return false;
        };
        let of_all = self.waits.optimizing
            || self.waits.updating && !late.rests
            || self.waits.asking && !late.asked_pending;
        let concerned = || {
            let accepted = self.accepted();
            accepted.filter(|(_, record)| {
                rule!(of_all || record.group == late.group; LateCountedInAllGroups => true)
            })
        };
        let idle = |record: &PeerRecord| record.state == ConnectionState::Idle;
        let lacking =
            concerned().filter(|(_, record)| idle(record) && self.lateness(record).is_some());
        let lacking = lacking.count().max(1);
        let waiting = concerned().filter(|(_, record)| !idle(record) || record.asked_pending);
        rule!(lacking <= waiting.count(); KickedThoughMoreWouldGo => true)
    }

    /// Refuses the tags that members have not joined which wait to start other tags. The programs differ, and no peer
    /// is evicted for it.
    fn refuse_what_lacks(&mut self, peer: PeerId, group: GroupId, out: &mut Out) {
        let Some(record) = self.groups.get(&group) else {
            return;
        };
        let lacking = record
            .collectives
            .iter()
            .filter_map(|(tag, collective)| match collective {
                Collective::Initiating(votes) => (!votes.contains_key(&peer)).then_some(*tag),
                Collective::Running { .. } => None,
            });
        let lacking: Vec<Tag> = lacking.collect();
        for tag in lacking {
            let others = self.accepted_in(group).filter(|(_, record)| {
                record.tags.only_initiate()
                    && rule!(
                        record.tags.get(tag).is_none();
                        JoinersCalledAbsent => record.tags.get(tag).is_some()
                    )
            });
            let peers = others.map(|(peer, _)| peer).collect();
            self.refuse_tag(group, tag, &CollectiveRefusal::NotJoined { peers }, out);
        }
    }

    /// The peer neither ends its part of a running operation nor moves bytes of it.
    fn holds_up(&mut self, peer: PeerId, group: GroupId, out: &mut Out) {
        let (done, lacking) = self.parts_of_what_lacks(peer, group);
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        let stalls = record.stalls.entry(peer).or_default();
        *stalls = stalls.saturating_add(1);
        let own = *stalls;
        let goes = rule!(
            lacking <= done || own >= STALLS_MAX;
            StallsOfAllAddUp => lacking <= done || {
                let all = record.stalls.values().map(|one| usize::from(*one));
                all.sum::<usize>() >= usize::from(STALLS_MAX)
            },
            MajorityStalls => lacking >= done || own >= STALLS_MAX,
            StalledAtOnce => true
        );
        if rule!(goes; StalledAgainAndAgain => false) {
            self.kick(peer, Misdeed::Stalled, out);
        } else {
            self.end_what_lacks(peer, group, out);
        }
    }

    /// Of the running operations that lack this peer's part: the number of parts that are done, and that are not.
    fn parts_of_what_lacks(&self, peer: PeerId, group: GroupId) -> (usize, usize) {
        let Some(record) = self.groups.get(&group) else {
            return (0, 0);
        };
        if let SyncProgress::Moving { awaiting, .. } = &record.sync
            && awaiting.contains(&peer)
        {
            let members = record.members.len();
            return (members.saturating_sub(awaiting.len()), awaiting.len());
        }
        let running = record
            .collectives
            .values()
            .filter_map(|collective| match collective {
                Collective::Running { awaiting, .. } => Some(awaiting),
                Collective::Initiating(_) => None,
            });
        let lacking = running.filter(|awaiting| awaiting.contains(&peer));
        let members = record.members.len();
        let lacking = lacking.map(BTreeSet::len).min().unwrap_or(members);
        (members.saturating_sub(lacking), lacking)
    }

    fn end_what_lacks(&mut self, peer: PeerId, group: GroupId, out: &mut Out) {
        let Some(record) = self.groups.get(&group) else {
            return;
        };
        if let SyncProgress::Moving { awaiting, .. } = &record.sync
            && awaiting.contains(&peer)
        {
            self.transfers_overdue(group, out);
            return;
        }
        let lacking = record
            .collectives
            .iter()
            .filter_map(|(tag, collective)| match collective {
                Collective::Running { awaiting, .. } => awaiting.contains(&peer).then_some(*tag),
                Collective::Initiating(_) => None,
            });
        let lacking: Vec<Tag> = lacking.collect();
        for tag in lacking {
            let cause = rule!(AbortCause::TimedOut; StallCalledLoss => AbortCause::PeerLost(peer));
            self.abort(group, tag, cause, out);
        }
    }
}
