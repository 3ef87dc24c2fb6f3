//! Which of two calls gives way when peers wait for each other.
//!
//! Two members of a group that wait in different calls would wait forever: neither can cast the vote that the other
//! lacks. The call that gives way is answered with [`Conflict`], which names the other call and its caller. Nothing
//! was changed, and the caller should make that call first. In order:
//!
//! 1. `optimize_topology` continues;
//! 2. `sync_shared_state` gives way to it;
//! 3. a collective that has not started gives way to both. A running one is never disturbed: the major call waits for
//!    it.
//!
//! `update_topology` conflicts with no call: a peer that waits in another call agrees to the update, and continues to
//! wait on the new ring (`topology`). But not forever: after the eighth update its call gives way.
//!
//! Programs that answer a conflict by making the same call again would do so forever. So the third collective in a
//! row that would give way to a synchronization does not. Instead, the peers that wait to synchronize are *set
//! aside*, however many they are. They wait, with their votes, for an update after the others have reduced, as if
//! they had not been admitted. So the others continue, and synchronize with them when their own programs reach that
//! call. But peers that have synchronized before do not wait for peers that never have: then the synchronization
//! gives way once. If three more collectives follow, newcomers that neither synchronize nor let others do so are
//! evicted.
//!
//! A peer that calls `are_peers_pending` while a major call waits for its vote would wait forever as well, because it
//! cannot make that call before it has its answer. It is answered `true`, which leads it to the others. A newcomer
//! whose loop begins with this question gets the answer that the others had, because it was the pending peer itself.
//!
//! If the others of its group wait to start a collective, it is answered `false`, for the same reason: they have had
//! their answer, and continue without an update.
//!
//! So in the usual loop (update, synchronize, compute, reduce) a peer that is out of step comes back into step at the
//! start of its loop.

use alloc::vec::Vec;

use super::conflicts::Conflicts;
use super::manifest::Offer;
use super::record::{Collective, GroupRecord, Stake, SyncProgress};
use super::{Master, Out, send};
use crate::id::{GroupId, PeerId, Tag};
use crate::messages::{CallFailure, CallKind, CollectiveRefusal, Conflict, Misdeed, ToPeer};
use crate::states::{ConnectionPhase, ConnectionState, Event};

/// Number of updates after which a call that they have passed over gives way.
const PASSED_MAX: u8 = 8;

/// Number of updates for which a peer stays aside, unless the others reduce before.
const ASIDE_FOR: u8 = 2;

/// Number of the collective in a row that does not give way to a synchronization.
const CONFLICTS_MAX: u8 = 3;

impl Master {
    /// `true` if a call gave way.
    pub(super) fn resolve_conflicts(&mut self, out: &mut Out) -> bool {
        self.sync_gives_way(out)
            || rule!(self.collectives_give_way(out); CollectiveStandsFast => false)
            || rule!(self.queries_give_way(out); QueryStandsFast => false)
    }

    fn queries_give_way(&mut self, out: &mut Out) -> bool {
        if self.tally.asking() == 0 {
            return false;
        }
        let update = self.tally.of(ConnectionState::VoteAcceptNewPeers) > 0;
        let optimize = self.tally.of(ConnectionState::VoteOptimizeTopology) > 0;
        let asking: Vec<(PeerId, ConnectionState, bool)> = self
            .accepted()
            .filter(|(_, record)| record.asked_pending)
            .filter_map(|(peer, record)| {
                if update || optimize || self.major_call(record.group).is_some() {
                    return Some((peer, record.state, true));
                }
                let holds_up = record.state == ConnectionState::Idle
                    && self.a_tag_that_waits(record.group).is_some();
                holds_up.then_some((peer, record.state, rule!(false; AskersLedAstray => true)))
            })
            .collect();
        for (peer, _, pending) in &asking {
            if let Some(record) = self.record_mut(*peer) {
                record.asked_pending = false;
            }
            let pending = *pending;
            send(out, *peer, ToPeer::PeersPending { pending });
        }
        !asking.is_empty()
    }

    fn sync_gives_way(&mut self, out: &mut Out) -> bool {
        let groups: Vec<GroupId> = self.dirty.iter().copied().collect();
        groups.into_iter().any(|group| {
            let optimize = rule!(
                self.first_in(group, ConnectionState::VoteOptimizeTopology);
                OptimizeElsewhereBeatsSync => self.first_of_all_in(ConnectionState::VoteOptimizeTopology)
            );
            optimize.is_some_and(|peer| {
                rule!(
                    self.syncs_give_way(group, CallKind::OptimizeTopology, peer, out);
                    OptimizeGivesWay => self.optimize_yields(group, out)
                )
            })
        })
    }

    fn syncs_give_way(
        &mut self,
        group: GroupId,
        theirs: CallKind,
        peer: PeerId,
        out: &mut Out,
    ) -> bool {
        let losers = self.all_in(group, ConnectionState::VoteSyncSharedState);
        let caller = rule!(
            peer;
            ConflictNamesTheLoser => losers.first().copied().unwrap_or(peer)
        );
        let named = rule!(theirs; ConflictNamesACollective => CallKind::Collective);
        let conflict = Conflict {
            yours: CallKind::SyncSharedState,
            theirs: named,
            peer: caller,
        };
        for loser in &losers {
            self.step(*loser, Event::CallGaveWay, out);
            let failure = CallFailure::Conflict(conflict);
            send(out, *loser, ToPeer::CallFailed(failure));
        }
        if let Some(record) = self.group_mut(group)
            && !losers.is_empty()
        {
            record.sync = SyncProgress::default();
        }
        !losers.is_empty()
    }

    fn collectives_give_way(&mut self, out: &mut Out) -> bool {
        let groups: Vec<GroupId> = self.dirty.iter().copied().collect();
        groups.into_iter().any(|group| {
            let Some((theirs, peer)) = self.major_call(group) else {
                return false;
            };
            let Some(tag) = self.a_tag_that_waits(group) else {
                return false;
            };
            if theirs == CallKind::SyncSharedState && self.resolves_for_collective(group, tag, out)
            {
                return true;
            }
            let conflict = Conflict {
                yours: CallKind::Collective,
                theirs,
                peer,
            };
            self.refuse_tag(group, tag, &CollectiveRefusal::Conflict(conflict), out);
            true
        })
    }

    /// Counts the collectives in a row that gave way to a synchronization. `true` if this one does not give way.
    fn resolves_for_collective(&mut self, group: GroupId, tag: Tag, out: &mut Out) -> bool {
        let Some(record) = self.group_mut(group) else {
            return false;
        };
        let conflicts = record.conflicts.note(tag);
        let is_early = conflicts < CONFLICTS_MAX;
        if rule!(is_early; ThirdConflictNotResolved => true) {
            return false;
        }
        let Some(Collective::Initiating(votes)) = record.collectives.get(&tag) else {
            return false;
        };
        let callers: Vec<PeerId> = votes.keys().copied().collect();
        let synced = |peer: &PeerId| self.peers.get(peer).is_some_and(|peer| peer.synced);
        let waiting = self.all_in(group, ConnectionState::VoteSyncSharedState);
        if callers.iter().any(synced) || !waiting.iter().any(synced) {
            waiting
                .into_iter()
                .for_each(|peer| self.set_aside(peer, out));
            self.forget_conflicts(group);
            true
        } else {
            self.resolves_for_newcomers(group, conflicts, &callers, out)
        }
    }

    /// Peers that have synchronized before wait to synchronize only for newcomers. `true` if the newcomers'
    /// collective does not give way.
    fn resolves_for_newcomers(
        &mut self,
        group: GroupId,
        conflicts: u8,
        callers: &[PeerId],
        out: &mut Out,
    ) -> bool {
        if rule!(conflicts >= 2 * CONFLICTS_MAX; NewcomersGoAtOnce => conflicts >= CONFLICTS_MAX) {
            for newcomer in callers {
                self.kick(*newcomer, Misdeed::MissedBallot, out);
            }
            self.forget_conflicts(group);
            return true;
        }
        let first = callers.first().filter(|_| conflicts == CONFLICTS_MAX);
        first.is_some_and(|caller| {
            self.syncs_give_way(group, CallKind::Collective, *caller, out);
            true
        })
    }

    fn forget_conflicts(&mut self, group: GroupId) {
        if let Some(record) = self.group_mut(group) {
            record.conflicts = Conflicts::default();
        }
    }

    /// Counts an update for the calls that it has passed over.
    pub(super) fn pass_over(
        &mut self,
        members: &[(PeerId, Stake)],
        updating: PeerId,
        out: &mut Out,
    ) {
        for (peer, stake) in members {
            let Some(record) = self.record_mut(*peer) else {
                continue;
            };
            let waits = match stake {
                Stake::Sync | Stake::Vote | Stake::Rewire => true,
                Stake::Admission | Stake::Update | Stake::Optimization => false,
            };
            if !waits {
                continue;
            }
            record.passed = record.passed.saturating_add(1);
            let is_passed = rule!(record.passed >= PASSED_MAX; PassedOverForEver => false);
            let group = record.group;
            if is_passed {
                self.gives_way_to_update(group, *stake, updating, out);
            }
        }
    }

    fn gives_way_to_update(
        &mut self,
        group: GroupId,
        stake: Stake,
        updating: PeerId,
        out: &mut Out,
    ) {
        self.recount();
        let theirs = CallKind::UpdateTopology;
        match stake {
            Stake::Sync => drop(self.syncs_give_way(group, theirs, updating, out)),
            Stake::Vote => self.optimizes_give_way(group, theirs, updating, out),
            Stake::Rewire => {
                while let Some(tag) = self.a_tag_that_waits(group) {
                    let conflict = Conflict {
                        yours: CallKind::Collective,
                        theirs,
                        peer: updating,
                    };
                    self.refuse_tag(group, tag, &CollectiveRefusal::Conflict(conflict), out);
                }
            }
            Stake::Admission | Stake::Update | Stake::Optimization => {}
        }
    }

    fn optimizes_give_way(
        &mut self,
        group: GroupId,
        theirs: CallKind,
        peer: PeerId,
        out: &mut Out,
    ) {
        let conflict = Conflict {
            yours: CallKind::OptimizeTopology,
            theirs,
            peer,
        };
        for loser in self.all_in(group, ConnectionState::VoteOptimizeTopology) {
            self.step(loser, Event::CallGaveWay, out);
            let failure = CallFailure::Conflict(conflict);
            send(out, loser, ToPeer::CallFailed(failure));
        }
    }

    #[cfg(feature = "mutants")]
    fn optimize_yields(&mut self, group: GroupId, out: &mut Out) -> bool {
        let sync = self.first_in(group, ConnectionState::VoteSyncSharedState);
        let Some(peer) = sync else {
            return false;
        };
        self.optimizes_give_way(group, CallKind::SyncSharedState, peer, out);
        true
    }

    /// Sets a peer aside: it waits for the next update with its vote to synchronize, as if it had not been admitted.
    /// If it asks whether newcomers wait, it is one itself.
    pub(super) fn set_aside(&mut self, peer: PeerId, out: &mut Out) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        record.phase = ConnectionPhase::Registered;
        let group = record.group;
        if core::mem::take(&mut record.asked_pending) {
            let pending = true;
            send(out, peer, ToPeer::PeersPending { pending });
        }
        let Some(record) = self.group_mut(group) else {
            return;
        };
        record.members.remove(&peer);
        rule!(record.find_ready(); AsideLeavesNothingReady => {});
        let vote =
            rule!(record.vote_aside(peer); VoteAsideDropped => record.vote_aside(peer).and(None));
        self.regrouped.insert(group);
        if let Some(record) = self.record_mut(peer) {
            record.aside = vote;
            record.left_out = ASIDE_FOR;
        }
    }

    /// The collectives of a group continue, so peers that were set aside for them may be admitted again.
    pub(super) fn end_conflicts(&mut self, id: GroupId) {
        if let Some(group) = self.group_mut(id) {
            group.conflicts = Conflicts::default();
        }
        // With nobody but members there is nobody to look for.
        if self.peers.len() > self.tally.members() {
            let waiting = self.peers.values_mut().filter(|record| record.group == id);
            waiting.for_each(|record| record.left_out = 0);
        }
    }

    #[cfg(feature = "mutants")]
    fn first_of_all_in(&self, state: ConnectionState) -> Option<PeerId> {
        let mut accepted = self.accepted().filter(|(_, peer)| peer.state == state);
        accepted.next().map(|(peer, _)| peer)
    }

    fn major_call(&self, group: GroupId) -> Option<(CallKind, PeerId)> {
        let optimize = self.first_in(group, ConnectionState::VoteOptimizeTopology);
        let sync = || {
            rule!(
                self.first_in(group, ConnectionState::VoteSyncSharedState);
                MajorCallOfAnyGroup => self.first_of_all_in(ConnectionState::VoteSyncSharedState)
            )
        };
        let optimize = optimize.map(|peer| (CallKind::OptimizeTopology, peer));
        optimize.or_else(|| sync().map(|peer| (CallKind::SyncSharedState, peer)))
    }

    /// A tag in the vote to start. A peer in a major call has no collectives, so while a member of the group is in
    /// one, this vote cannot become unanimous.
    fn a_tag_that_waits(&self, group: GroupId) -> Option<Tag> {
        let record = self.groups.get(&group)?;
        if record.initiating() == 0 {
            return None;
        }
        record
            .collectives
            .iter()
            .find_map(|(tag, collective)| match collective {
                Collective::Initiating(_) => Some(*tag),
                Collective::Running { .. } => None,
            })
    }

    fn first_in(&self, group: GroupId, state: ConnectionState) -> Option<PeerId> {
        self.all_in(group, state).first().copied()
    }

    fn all_in(&self, group: GroupId, state: ConnectionState) -> Vec<PeerId> {
        let record = self.groups.get(&group);
        if record.is_none_or(|record| record.tally.of(state) == 0) {
            return Vec::new();
        }
        self.accepted_in(group)
            .filter(|(_, record)| record.state == state)
            .map(|(peer, _)| peer)
            .collect()
    }
}

impl GroupRecord {
    /// Takes the vote to synchronize of a peer that is set aside.
    fn vote_aside(&mut self, peer: PeerId) -> Option<Offer> {
        match &mut self.sync {
            SyncProgress::Voting(votes) => votes.remove(&peer),
            SyncProgress::Moving { .. } => None,
        }
    }

    /// Admits a member with the vote that it had when it was set aside.
    pub(super) fn come_back(&mut self, peer: PeerId, vote: Option<Offer>) {
        if let (Some(vote), SyncProgress::Voting(votes)) = (vote, &mut self.sync) {
            votes.insert(peer, vote);
        }
    }
}
