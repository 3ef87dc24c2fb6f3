//! Synchronizing shared state: votes, the plan of the transfers, and the conclusion.
//!
//! The conclusion is the same for the whole group: either all members hold the elected content, or no memory was
//! changed. A transfer that fails, or a member that is lost before its part was over, costs a retry of the call.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::election::{Decision, Elected, elect};
use super::manifest::{Offer, Offers};
use super::record::{Stake, SyncProgress};
use super::remembered::Reached;
use super::transfers::{Fetch, Fetches, Hopeless};
use super::{Master, Out, send};
use crate::id::{GroupId, PeerId, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::shared_state::{FetchList, SyncFailure, SyncPlan, SyncRole, SyncVote};
use crate::states::{ConnectionState, Event};
use crate::topology::LaneOrder;
use crate::wire::MAX_ENTRY_NAME_BYTES;

/// The role of a peer that has the elected content already, but does not serve it: a receive-only peer, or one with
/// an older revision.
fn nothing_to_fetch() -> SyncRole {
    SyncRole::Request {
        from: Vec::new(),
        entries: FetchList::default(),
    }
}

impl Master {
    pub(super) fn vote_to_sync(&mut self, peer: PeerId, vote: SyncVote, out: &mut Out) {
        if !self.is_orderly(&vote) {
            self.kick(peer, Misdeed::BadManifest, out);
            return;
        }
        let Some(group) = self.vote_to_begin(peer, Event::VotedToSync, Stake::Sync, out) else {
            return;
        };
        if let Some(record) = self.groups.get_mut(&group) {
            match &mut record.sync {
                SyncProgress::Voting(offers) => {
                    let offer = Offer::read(&vote, &self.config.tickets, offers);
                    offers.insert(peer, offer);
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

    /// `true` if all members of the group had voted, and something changed.
    pub(super) fn count_sync(&mut self, group: GroupId, out: &mut Out) -> bool {
        let Some(offers) = self.take_offers(group) else {
            return false;
        };
        let veterans = self.veterans(group);
        let reached = self
            .remembered
            .of(rule!(group; ReachedByAnotherGroup => GroupId(0)));
        match elect(&offers, &veterans, reached) {
            Decision::Failed(failure) => {
                let round = self.take_round();
                self.conclude_sync(group, round, Err(failure), out);
            }
            Decision::Elected(mut elected) => {
                elected.holders = self.choose_holders(&offers, elected.holders);
                let hopeless = self.unfetchable(group, &offers, &elected);
                if hopeless.peers.is_empty() {
                    self.plan_sync(group, &offers, &elected, out);
                } else {
                    self.give_up_on(group, offers, hopeless, out);
                }
            }
            Decision::Expel(expelled) => self.expel(group, offers, expelled, out),
        }
        true
    }

    /// The offers of the members of a group, once each of them has voted.
    fn take_offers(&mut self, group: GroupId) -> Option<Offers> {
        let wanted = ConnectionState::VoteSyncSharedState;
        let record = self.groups.get(&group);
        let unanimous = rule!(
            record.is_some_and(|record| record.tally.all_in(wanted));
            BallotOfAllGroups => self.tally.all_in(wanted)
        );
        if !unanimous {
            return None;
        }
        match core::mem::take(&mut self.group_mut(group)?.sync) {
            SyncProgress::Voting(offers) => Some(offers),
            SyncProgress::Moving { .. } => None,
        }
    }

    /// These peers cannot get the content: sets them aside until others hold it, or evicts them.
    fn give_up_on(&mut self, group: GroupId, offers: Offers, hopeless: Hopeless, out: &mut Out) {
        let may_wait = |peer: &PeerId| {
            let record = self.peers.get(peer);
            let waits = hopeless.others_fetch && record.is_some_and(|record| !record.spared);
            rule!(waits; UnfetchableNotSpared => false)
        };
        let (wait, go): (Vec<PeerId>, Vec<PeerId>) =
            hopeless.peers.iter().partition(|p| may_wait(p));
        let expelled = go.into_iter().map(|peer| (peer, Misdeed::Unfetchable));
        self.expel(group, offers, expelled.collect(), out);
        for peer in wait {
            if let Some(record) = self.record_mut(peer) {
                record.spared = true;
            }
            self.set_aside(peer, out);
        }
    }

    /// Evicts these peers. The others' votes stand.
    fn expel(
        &mut self,
        group: GroupId,
        offers: Offers,
        expelled: Vec<(PeerId, Misdeed)>,
        out: &mut Out,
    ) {
        if let Some(record) = self.group_mut(group) {
            record.sync = SyncProgress::Voting(offers);
            let unfetchable = |(_, why): &&(PeerId, Misdeed)| *why == Misdeed::Unfetchable;
            let sent_away = expelled.iter().filter(unfetchable).count();
            record.failed.note_sent_away(sent_away);
        }
        for (peer, misdeed) in expelled {
            self.kick(peer, misdeed, out);
        }
    }

    fn veterans(&self, group: GroupId) -> BTreeSet<PeerId> {
        self.accepted_in(group)
            .filter(|(_, record)| record.synced)
            .map(|(peer, _)| peer)
            .collect()
    }

    fn plan_sync(&mut self, group: GroupId, offers: &Offers, elected: &Elected, out: &mut Out) {
        let round = self.take_round();
        let Some(content) = offers.get(&elected.winner).map(|offer| offer.content) else {
            return;
        };
        let revision = rule!(elected.revision; RevisionBumpedTwice => elected.revision.next());
        let reached = Reached { revision, content };
        let fetches = self.choose_fetches(group, offers, elected, round);
        if fetches.is_empty() {
            self.conclude_sync(group, round, Ok(reached), out);
            return;
        }
        let sources = fetches
            .iter()
            .map(|(peer, fetch)| (*peer, fetch.holders.clone()));
        let progress = SyncProgress::Moving {
            round,
            reached,
            sources: sources.collect(),
            awaiting: offers.keys().copied().collect(),
        };
        let mut roles = self.roles(round, fetches, &elected.holders);
        for peer in offers.keys() {
            let event = if elected.holders.contains(peer) {
                Event::ElectedAsHolder
            } else {
                Event::ElectedAsRequester
            };
            self.step(*peer, event, out);
            let role = roles.remove(peer).unwrap_or_else(nothing_to_fetch);
            let plan = SyncPlan {
                round,
                revision,
                role,
            };
            send(out, *peer, ToPeer::SharedStatePlan(plan));
        }
        if let Some(record) = self.group_mut(group) {
            record.sync = progress;
        }
    }

    /// The transfers of each peer. A peer that is missing here has nothing to fetch.
    fn roles(
        &self,
        round: Round,
        fetches: Fetches,
        holders: &BTreeSet<PeerId>,
    ) -> BTreeMap<PeerId, SyncRole> {
        let mut roles = BTreeMap::new();
        let mut served: BTreeMap<PeerId, Vec<LaneOrder>> =
            holders.iter().map(|holder| (*holder, Vec::new())).collect();
        for (requester, fetch) in fetches {
            let Fetch { holders, entries } = fetch;
            let mut from = Vec::new();
            for holder in holders {
                if let Some((ask, serve)) = self.transfer_orders(round, requester, holder) {
                    served.entry(holder).or_default().push(serve);
                    from.push(ask);
                }
            }
            if !from.is_empty() {
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

    /// From each holder, as many lanes as both ends want for a ring edge. The rate of a lane depends on its path, so
    /// with fewer lanes each path would be underused.
    fn transfer_orders(
        &self,
        round: Round,
        requester: PeerId,
        holder: PeerId,
    ) -> Option<(LaneOrder, LaneOrder)> {
        let wish = |peer: PeerId| self.peers.get(&peer).map(|record| record.lanes);
        let (one, other) = (wish(requester)?, wish(holder)?);
        let lanes = rule!(one.min(other); LanesOfTheGreedy => one.max(other));
        self.lane_orders(round, requester, holder, lanes)
    }

    pub(super) fn shared_state_done(
        &mut self,
        peer: PeerId,
        done: Round,
        ok: bool,
        with: Option<PeerId>,
        out: &mut Out,
    ) {
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
            round,
            sources,
            awaiting,
            ..
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
        let served = with.map(|requester| {
            let holders = sources.get(&requester);
            let holders = holders.filter(|holders| holders.contains(&peer));
            (requester, holders.map(Vec::len))
        });
        let part = match (ok, sources.get(&peer), served) {
            (true, _, _) => Part::Done,
            (false, Some(holders), _) => {
                record.failed.note_requester(peer, holders);
                Part::Failed
            }
            // Who has everything has not failed with this holder.
            (false, None, Some((requester, Some(_)))) if !awaiting.contains(&requester) => {
                Part::Done
            }
            (false, None, Some((requester, Some(holders)))) => {
                record.failed.note(requester, peer);
                let is_the_only_one = rule!(holders == 1; UnservedFailsAll => true);
                match is_the_only_one {
                    true => Part::Failed,
                    false => Part::Done,
                }
            }
            (false, None, Some((_, None))) => Part::Failed,
            (false, None, None) => Part::Cancelled,
        };
        self.step(peer, Event::TransferDone, out);
        if part != Part::Done {
            let failure = rule!(
                SyncFailure::TransferFailed { peer };
                TransferNamesTheOther => SyncFailure::TransferFailed { peer: with.unwrap_or(peer) }
            );
            self.conclude_sync(group, done, Err(failure), out);
        }
        if part == Part::Cancelled {
            self.note_cancel(group, peer, 0, out);
        }
    }

    /// `true` if all members were done, and the synchronization is concluded.
    pub(super) fn count_sync_done(&mut self, group: GroupId, out: &mut Out) -> bool {
        let record = self.groups.get(&group);
        let Some((round, reached)) = record.and_then(|record| record.sync.all_reported()) else {
            return false;
        };
        self.conclude_sync(group, round, Ok(reached), out);
        true
    }

    /// Ends a synchronization. No other place does: all members that took part get the same outcome.
    pub(super) fn conclude_sync(
        &mut self,
        group: GroupId,
        round: Round,
        result: Result<Reached, SyncFailure>,
        out: &mut Out,
    ) {
        if let Some(record) = self.group_mut(group) {
            record.sync = SyncProgress::default();
            if result.is_ok() {
                record.stalls.clear();
                record.cancels.retain(|_, cancels| cancels.bytes > 0);
            }
        }
        if let Ok(reached) = result {
            self.remember(group, reached);
            self.end_conflicts(group);
        }
        let result = result.map(|reached| reached.revision);
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

    /// Success: remembers the group's content, and forgets the failures on the way.
    fn remember(&mut self, group: GroupId, reached: Reached) {
        let peers = &self.peers;
        let is_aside = |peer: PeerId| peers.get(&peer).is_some_and(|peer| peer.aside.is_some());
        if let Some(record) = self.groups.get_mut(&group) {
            record.failed.succeed(is_aside);
        }
        let kept = rule!(
            reached;
            RevisionStandsStill => self.remembered.of(group).unwrap_or(reached),
            RestartUndone => {
                let before = self.remembered.of(group);
                let later = before.filter(|before| before.revision > reached.revision);
                later.unwrap_or(reached)
            }
        );
        let has_members = |group: GroupId| self.groups.contains_key(&group);
        self.remembered.keep(group, kept, has_members);
    }

    /// The transfers of a group have taken too long: those that are not done have failed.
    pub(super) fn transfers_overdue(&mut self, group: GroupId, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let SyncProgress::Moving {
            round,
            sources,
            awaiting,
            ..
        } = &record.sync
        else {
            return;
        };
        for (requester, holders) in sources {
            if awaiting.contains(requester) {
                record.failed.note_requester(*requester, holders);
            }
        }
        let round = *round;
        self.conclude_sync(group, round, Err(SyncFailure::TimedOut), out);
    }

    pub(super) fn sync_loses(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        record.failed.forget(peer);
        match &mut record.sync {
            SyncProgress::Voting(offers) => {
                offers.remove(&peer);
            }
            SyncProgress::Moving {
                round, awaiting, ..
            } => {
                let round = *round;
                // Its holder waits for it, or those that it serves do.
                if awaiting.remove(&peer) {
                    let failure = rule!(
                        SyncFailure::TransferFailed { peer };
                        LossDuringSyncCalledTimeOut => SyncFailure::TimedOut
                    );
                    self.conclude_sync(group, round, Err(failure), out);
                }
            }
        }
    }
}

/// What the report of one peer means for the attempt of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It continues, even if a holder could not serve a requester that has everything, or has other holders.
    Done,
    /// It has failed.
    Failed,
    /// It has failed because a holder has given up its own call.
    Cancelled,
}

impl SyncProgress {
    /// The round, and the content that the group then holds, if every member has reported its transfers done.
    fn all_reported(&self) -> Option<(Round, Reached)> {
        match self {
            Self::Voting(_) => None,
            Self::Moving {
                round,
                reached,
                awaiting,
                ..
            } => {
                let done = rule!(awaiting.is_empty(); StateCommittedBeforeLastReport => awaiting.len() <= 1);
                done.then_some((*round, *reached))
            }
        }
    }
}
