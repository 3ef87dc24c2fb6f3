//! Synchronizing shared state: votes, the plan of who fetches what from whom, and the conclusion.
//!
//! The conclusion is one for the whole group: either everybody holds the elected content, or nobody's
//! memory was changed. A transfer that fails, or a member that is lost before its part was over,
//! costs a retry of the call.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::election::{Decision, Votes, elect};
use super::record::{Stake, SyncProgress};
use super::{Master, Out, send};
use crate::id::{ContentHash, EntryIndex, GroupId, PeerId, Revision, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::shared_state::{SyncFailure, SyncPlan, SyncRole, SyncVote};
use crate::states::{ConnectionState, Event};
use crate::topology::LaneOrder;
use crate::wire::MAX_ENTRY_NAME_BYTES;

/// The part of a peer that has the elected content already, but does not serve it: a receive-only
/// peer, or one with an older revision.
const NOTHING_TO_FETCH: SyncRole = SyncRole::Request {
    from: None,
    entries: Vec::new(),
};

/// What one peer has to fetch.
type Fetches = BTreeMap<PeerId, (PeerId, Vec<(EntryIndex, ContentHash)>)>;

impl Master {
    pub(super) fn vote_to_sync(&mut self, peer: PeerId, vote: SyncVote, out: &mut Out) {
        if !self.is_orderly(&vote) {
            self.kick(peer, Misdeed::BadManifest, out);
            return;
        }
        if !self.vote_to_begin(peer, Event::VotedToSync, Stake::Sync, out) {
            return;
        }
        if let Some(group) = self.group_of(peer) {
            match &mut group.sync {
                SyncProgress::Voting(votes) => {
                    votes.insert(peer, vote);
                }
                // Every member is part of the transfers, so none of them is idle.
                SyncProgress::Moving { .. } => {}
            }
        }
    }

    fn is_orderly(&self, vote: &SyncVote) -> bool {
        let sorted = vote.entries.is_sorted_by(|one, next| one.name < next.name);
        let short = vote
            .entries
            .iter()
            .all(|entry| entry.name.len() <= MAX_ENTRY_NAME_BYTES);
        sorted && short && vote.entries.len() <= self.config.entries_max.0 as usize
    }

    /// True: everybody of the group had voted, and something moved.
    pub(super) fn count_sync(&mut self, group: GroupId, out: &mut Out) -> bool {
        let wanted = ConnectionState::VoteSyncSharedState;
        let record = self.groups.get(&group);
        if !record.is_some_and(|record| record.tally.all_in(wanted)) {
            return false;
        }
        let veterans = self.veterans(group);
        let Some(record) = self.group_mut(group) else {
            return false;
        };
        let SyncProgress::Voting(votes) = core::mem::take(&mut record.sync) else {
            return false;
        };
        match elect(&votes, &veterans, record.reached) {
            Decision::Failed(failure) => {
                let round = self.take_round();
                self.conclude_sync(group, round, Err(failure), out);
            }
            Decision::Elected {
                revision: elected,
                winner,
                holders,
            } => {
                let revision = rule!(elected; RevisionBumpedTwice => elected.next());
                self.plan_sync(group, &votes, revision, winner, holders, out);
            }
            Decision::Expel(expelled) => {
                record.sync = SyncProgress::Voting(votes);
                for (peer, misdeed) in expelled {
                    self.kick(peer, misdeed, out);
                }
            }
        }
        true
    }

    fn veterans(&self, group: GroupId) -> BTreeSet<PeerId> {
        self.accepted_in(group)
            .filter(|(_, record)| record.synced)
            .map(|(peer, _)| peer)
            .collect()
    }

    fn plan_sync(
        &mut self,
        group: GroupId,
        votes: &Votes,
        revision: Revision,
        winner: PeerId,
        matching: BTreeSet<PeerId>,
        out: &mut Out,
    ) {
        let round = self.take_round();
        let holders = self.choose_holders(votes, matching);
        let fetches = self.choose_fetches(votes, winner, &holders, round);
        if fetches.is_empty() {
            self.conclude_sync(group, round, Ok(revision), out);
            return;
        }
        let voters: BTreeSet<PeerId> = votes.keys().copied().collect();
        let mut roles = self.roles(round, fetches, &holders);
        for peer in &voters {
            let event = if holders.contains(peer) {
                Event::ElectedAsHolder
            } else {
                Event::ElectedAsRequester
            };
            self.step(*peer, event, out);
            let role = roles.remove(peer).unwrap_or(NOTHING_TO_FETCH);
            let plan = SyncPlan {
                round,
                revision,
                role,
            };
            send(out, *peer, ToPeer::SharedStatePlan(plan));
        }
        if let Some(record) = self.group_mut(group) {
            record.sync = SyncProgress::Moving {
                round,
                revision,
                awaiting: voters,
            };
        }
    }

    /// Who serves whom, and who fetches what. Who is missing here has nothing to fetch.
    fn roles(
        &self,
        round: Round,
        fetches: Fetches,
        holders: &BTreeSet<PeerId>,
    ) -> BTreeMap<PeerId, SyncRole> {
        let mut roles = BTreeMap::new();
        let mut served: BTreeMap<PeerId, Vec<LaneOrder>> =
            holders.iter().map(|holder| (*holder, Vec::new())).collect();
        for (requester, (holder, entries)) in fetches {
            if let Some((ask, serve)) = self.transfer_orders(round, requester, holder) {
                served.entry(holder).or_default().push(serve);
                let from = Some(ask);
                roles.insert(requester, SyncRole::Request { from, entries });
            }
        }
        roles.extend(
            served
                .into_iter()
                .map(|(holder, to)| (holder, SyncRole::Distribute { to })),
        );
        roles
    }

    /// As many lanes as both ends would like for an edge of the ring.
    fn transfer_orders(
        &self,
        round: Round,
        requester: PeerId,
        holder: PeerId,
    ) -> Option<(LaneOrder, LaneOrder)> {
        let wish = |peer: PeerId| self.peers.get(&peer).map(|record| record.lanes);
        let lanes = wish(requester)?.min(wish(holder)?);
        self.lane_orders(round, requester, holder, lanes)
    }

    /// Of those that hold the elected content, newcomers fetch the entries that may differ, where
    /// there is somebody to fetch them from.
    fn choose_holders(&self, votes: &Votes, matching: BTreeSet<PeerId>) -> BTreeSet<PeerId> {
        let may_differ = votes.values().any(|vote| {
            vote.entries
                .iter()
                .any(|entry| entry.allow_content_inequality)
        });
        let veterans: BTreeSet<PeerId> = matching
            .iter()
            .filter(|peer| !self.is_newcomer(**peer))
            .copied()
            .collect();
        // A send-only newcomer is never overwritten, not even there.
        let senders = |peer: &&PeerId| {
            votes
                .get(peer)
                .is_some_and(|v| v.strategy == crate::shared_state::SyncStrategy::SendOnly)
        };
        if !may_differ || veterans.is_empty() {
            matching
        } else {
            veterans
                .iter()
                .chain(matching.iter().filter(senders))
                .copied()
                .collect()
        }
    }

    fn is_newcomer(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_none_or(|record| !record.synced)
    }

    /// Who fetches what from whom. Requesters are spread over the holders; another round spreads
    /// them differently, so a pair that cannot be connected is not tried again at once.
    fn choose_fetches(
        &self,
        votes: &Votes,
        winner: PeerId,
        holders: &BTreeSet<PeerId>,
        round: Round,
    ) -> Fetches {
        let Some(elected) = votes.get(&winner) else {
            return Fetches::new();
        };
        let in_turn: Vec<PeerId> = holders.iter().copied().collect();
        let mut fetches = Fetches::new();
        for (peer, vote) in votes.iter().filter(|(peer, _)| !holders.contains(peer)) {
            let turn = (round.0 as usize).wrapping_add(fetches.len());
            let Some(holder) = turn.checked_rem(in_turn.len()).and_then(|i| in_turn.get(i)) else {
                continue;
            };
            let Some(source) = votes.get(holder) else {
                continue;
            };
            let entries = self.dirty_entries(*peer, vote, elected, source);
            let differs = !entries.is_empty();
            if rule!(differs; DirtyByRevisionOnly => differs && vote.revision != elected.revision) {
                fetches.insert(*peer, (*holder, entries));
            }
        }
        fetches
    }

    fn dirty_entries(
        &self,
        peer: PeerId,
        vote: &SyncVote,
        elected: &SyncVote,
        source: &SyncVote,
    ) -> Vec<(EntryIndex, ContentHash)> {
        let newcomer = self.is_newcomer(peer);
        let triples = vote
            .entries
            .iter()
            .zip(&elected.entries)
            .zip(&source.entries);
        let dirty = triples
            .enumerate()
            .filter_map(|(index, ((own, elected), source))| {
                let wanted = if own.allow_content_inequality {
                    newcomer.then_some(source.hash)
                } else {
                    (own.hash != elected.hash).then_some(elected.hash)
                }?;
                Some((EntryIndex(u32::try_from(index).ok()?), wanted))
            });
        dirty.collect()
    }

    pub(super) fn shared_state_done(&mut self, peer: PeerId, done: Round, ok: bool, out: &mut Out) {
        if !self.was_ordered(peer, done, out) {
            return;
        }
        let Some(group) = self.peers.get(&peer).map(|record| record.group) else {
            return;
        };
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let SyncProgress::Moving {
            round, awaiting, ..
        } = &mut record.sync
        else {
            return;
        };
        // Another round: that one was concluded while this report was on its way.
        if *round != done {
            return;
        }
        if !awaiting.remove(&peer) {
            self.kick(peer, Misdeed::DuplicateVote, out);
            return;
        }
        self.step(peer, Event::TransferDone, out);
        if !ok {
            self.conclude_sync(group, done, Err(SyncFailure::TransferFailed { peer }), out);
        }
    }

    /// True: everybody was done, and the synchronization is concluded.
    pub(super) fn count_sync_done(&mut self, group: GroupId, out: &mut Out) -> bool {
        let Some(record) = self.groups.get(&group) else {
            return false;
        };
        let SyncProgress::Moving {
            round,
            revision,
            awaiting,
            ..
        } = &record.sync
        else {
            return false;
        };
        let (round, revision) = (*round, *revision);
        let done =
            rule!(awaiting.is_empty(); StateCommittedBeforeLastReport => awaiting.len() <= 1);
        if done {
            self.conclude_sync(group, round, Ok(revision), out);
        }
        done
    }

    /// The one place where a synchronization ends: the same for every member that took part.
    pub(super) fn conclude_sync(
        &mut self,
        group: GroupId,
        round: Round,
        result: Result<Revision, SyncFailure>,
        out: &mut Out,
    ) {
        if let Some(record) = self.group_mut(group) {
            record.sync = SyncProgress::default();
            let concluded = result.as_ref().ok().copied();
            if concluded.is_some() {
                record.stalls.clear();
            }
            record.reached = rule!(
                concluded.or(record.reached);
                RevisionStandsStill => record.reached.or(concluded)
            );
        }
        if result.is_ok() {
            self.end_conflicts(group);
        }
        let members: Vec<PeerId> = self.accepted_in(group).map(|(peer, _)| peer).collect();
        for peer in members {
            self.step(peer, Event::SyncConcluded, out);
            if let (Some(record), Ok(_)) = (self.record_mut(peer), &result) {
                record.synced = true;
            }
            let result = result.clone();
            send(out, peer, ToPeer::SharedStateConcluded { round, result });
        }
    }

    pub(super) fn sync_loses(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        match &mut record.sync {
            SyncProgress::Voting(votes) => {
                votes.remove(&peer);
            }
            SyncProgress::Moving {
                round, awaiting, ..
            } => {
                let round = *round;
                // Its holder waits for it, or those that it serves do.
                if awaiting.remove(&peer) {
                    let failure = SyncFailure::TransferFailed { peer };
                    self.conclude_sync(group, round, Err(failure), out);
                }
            }
        }
    }
}
