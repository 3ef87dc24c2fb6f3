//! Transfers of shared state: which peer fetches from which holders, and what follows from failed transfers.
//!
//! A requester and the holder from which it could not fetch are a *failed pair* of the group until one of the group's
//! synchronizations succeeds.
//!
//! A requester gets several holders if it lacks much: one for each
//! [`transfer_share_min`](crate::master::MasterConfig::transfer_share_min) bytes, at most
//! [`transfer_holders_max`](crate::master::MasterConfig::transfer_holders_max). If it fails, nobody knows whose fault
//! that is, so there is no failed pair. From then on, until a synchronization succeeds, the requester *fetches from
//! one holder at a time*, and the rules below are about those attempts. If a holder names the requester that it could
//! not serve, the two become a failed pair at once.
//!
//! 1. A requester gets a holder with which it has not failed, if there is one; if possible one with which fewer than
//!    two requesters have failed. Requesters are spread over the holders, in another order each time.
//! 2. A requester that has failed with every holder, or with [`HOLDERS_TRIED_MAX`] of them, is evicted: a newcomer
//!    after two attempts, a veteran after
//!    [`transfer_attempts_max`](crate::master::MasterConfig::transfer_attempts_max). No veteran is evicted while a
//!    newcomer is to be.
//! 3. If others lack the content and can fetch it, a peer that would be evicted is *set aside* instead, once: it
//!    waits with its vote for the next update, and can then fetch from them.
//! 4. Between two successes never more peers are evicted than stay: if half of a group cannot fetch from the other
//!    half, nobody knows whose fault that is. The call fails, and its error says why.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Master;
use super::election::Elected;
use super::manifest::Offers;
use crate::id::{GroupId, PeerId, Round};
use crate::shared_state::{FetchList, SyncStrategy};

/// A requester that has failed with this many holders gets no other one, so that a peer that always fails does not
/// cost its group an attempt for each holder.
const HOLDERS_TRIED_MAX: usize = 8;

/// Number of attempts after which a newcomer is evicted: a single one may have met a lane that broke by chance.
const NEWCOMER_ATTEMPTS: u32 = 2;

/// The transfers of one requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    /// At least one. Each of them holds all of the entries.
    pub(super) holders: Vec<PeerId>,
    pub(super) entries: FetchList,
}

/// Requesters that cannot get the elected content.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Hopeless {
    pub(super) peers: Vec<PeerId>,
    /// Whether others lack the content and can get it.
    pub(super) others_fetch: bool,
}

/// The requesters with their transfers.
pub(super) type Fetches = BTreeMap<PeerId, Fetch>;

/// The failures of a group since its last successful synchronization.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct FailedTransfers {
    /// Number of failures, requester first.
    pairs: BTreeMap<(PeerId, PeerId), u8>,
    /// Requesters that have failed with several holders at once: they fetch from one at a time.
    one_at_a_time: BTreeSet<PeerId>,
    /// Number of evicted peers.
    sent_away: usize,
}

impl FailedTransfers {
    pub(super) fn note(&mut self, requester: PeerId, holder: PeerId) {
        let pair = rule!((requester, holder); TransferTurnedRound => (holder, requester));
        let times = self.pairs.entry(pair).or_default();
        *times = times.saturating_add(1);
    }

    /// A requester could not fetch from these holders.
    pub(super) fn note_requester(&mut self, requester: PeerId, holders: &[PeerId]) {
        if rule!(holders.len() == 1; AllHoldersBlamed => true) {
            holders
                .iter()
                .for_each(|holder| self.note(requester, *holder));
        } else {
            self.one_at_a_time.insert(requester);
        }
    }

    pub(super) fn note_sent_away(&mut self, peers: usize) {
        self.sent_away = self.sent_away.saturating_add(peers);
    }

    /// The others hold the group's content, so their failures are forgotten.
    pub(super) fn succeed(&mut self, is_aside: impl Fn(PeerId) -> bool) {
        self.pairs.retain(|(requester, _), _| is_aside(*requester));
        self.one_at_a_time.retain(|requester| is_aside(*requester));
        self.sent_away = 0;
    }

    /// Forgets a departed peer.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.pairs
            .retain(|(requester, holder), _| *requester != peer && *holder != peer);
        self.one_at_a_time.remove(&peer);
    }

    /// The holders with which a peer has failed, and how often with each.
    fn of(&self, requester: PeerId) -> impl Iterator<Item = (PeerId, u8)> {
        let first = (requester, PeerId(u64::MIN));
        let last = (requester, PeerId(u64::MAX));
        let pairs = self.pairs.range(first..=last);
        pairs.map(|((_, holder), times)| (*holder, *times))
    }

    /// Holders with which at least two requesters have failed.
    fn suspects(&self) -> BTreeSet<PeerId> {
        let mut once = BTreeSet::new();
        let holders = self.pairs.keys().map(|(_, holder)| *holder);
        holders.filter(|holder| !once.insert(*holder)).collect()
    }
}

/// The holders to which requesters can be sent.
struct Sources<'a> {
    failed: &'a FailedTransfers,
    all: &'a BTreeSet<PeerId>,
    /// All holders except the suspects, or all if there are only suspects.
    good: Vec<PeerId>,
}

impl<'a> Sources<'a> {
    fn new(failed: &'a FailedTransfers, all: &'a BTreeSet<PeerId>) -> Self {
        let good: Vec<PeerId> = all.difference(&failed.suspects()).copied().collect();
        let good = match good.is_empty() {
            true => all.iter().copied().collect(),
            false => good,
        };
        Self { failed, all, good }
    }

    /// The holders for a requester whose turn this is, at most `most`.
    fn for_requester(&self, requester: PeerId, turn: usize, most: usize) -> Vec<PeerId> {
        let tried: BTreeSet<PeerId> = self.failed.of(requester).map(|(h, _)| h).collect();
        let has_failed = !tried.is_empty() || self.failed.one_at_a_time.contains(&requester);
        if rule!(has_failed; SeveralAfterAFailure => false) {
            self.one_for(&tried, turn).into_iter().collect()
        } else {
            let first = turn.checked_rem(self.good.len()).unwrap_or_default();
            let in_turn = self.good.iter().cycle().skip(first);
            in_turn.take(most.min(self.good.len())).copied().collect()
        }
    }

    /// The holder for a requester that has failed with these.
    fn one_for(&self, tried: &BTreeSet<PeerId>, turn: usize) -> Option<PeerId> {
        let untried = |holders: &mut dyn Iterator<Item = &PeerId>| -> Vec<PeerId> {
            let untried = holders.filter(|holder| !tried.contains(holder));
            untried.copied().collect()
        };
        let good = untried(&mut self.good.iter());
        in_turn(&good, turn)
            .or_else(|| in_turn(&untried(&mut self.all.iter()), turn))
            .or_else(|| in_turn(&self.good, turn))
    }

    /// Whether it has failed with so many holders that it gets no other one.
    fn is_hopeless(&self, requester: PeerId) -> bool {
        let tried: BTreeSet<PeerId> = self.failed.of(requester).map(|(h, _)| h).collect();
        tried.len() >= HOLDERS_TRIED_MAX || self.all.is_subset(&tried)
    }

    fn has_to_go(&self, requester: PeerId, attempts_max: u32) -> bool {
        let attempts: u32 = self.failed.of(requester).map(|(_, n)| u32::from(n)).sum();
        attempts >= attempts_max && self.is_hopeless(requester)
    }
}

fn in_turn(holders: &[PeerId], turn: usize) -> Option<PeerId> {
    holders.get(turn.checked_rem(holders.len())?).copied()
}

impl Master {
    /// The holders of the elected content. Newcomers among them fetch the entries that may differ, if another peer
    /// can serve them.
    pub(super) fn choose_holders(
        &self,
        offers: &Offers,
        matching: BTreeSet<PeerId>,
    ) -> BTreeSet<PeerId> {
        let may_differ = offers.values().any(|offer| offer.may_differ());
        let veterans: BTreeSet<PeerId> = matching
            .iter()
            .filter(|peer| !self.is_newcomer(**peer))
            .copied()
            .collect();
        // A send-only newcomer is never overwritten, not even there.
        let senders = |peer: &&PeerId| {
            let offer = offers.get(peer);
            offer.is_some_and(|offer| offer.strategy == SyncStrategy::SendOnly)
        };
        if rule!(!may_differ || veterans.is_empty(); NewcomerServesWhatMayDiffer => true) {
            matching
        } else {
            let senders = matching.iter().filter(senders);
            veterans.iter().chain(senders).copied().collect()
        }
    }

    pub(super) fn is_newcomer(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_none_or(|record| !record.synced)
    }

    /// Requesters that must be evicted before the elected content is moved, because they have failed too often.
    pub(super) fn unfetchable(
        &self,
        group: GroupId,
        offers: &Offers,
        elected: &Elected,
    ) -> Hopeless {
        let Some(failed) = self.groups.get(&group).map(|record| &record.failed) else {
            return Hopeless::default();
        };
        if failed.pairs.is_empty() {
            return Hopeless::default();
        }
        let sources = Sources::new(failed, &elected.holders);
        let veteran_attempts = u32::from(self.config.transfer_attempts_max);
        let mut requesters = self.requesters(offers, elected);
        let others_fetch = requesters.any(|peer| !sources.is_hopeless(peer));
        let hopeless = self.requesters(offers, elected).filter(|peer| {
            let attempts_max = match self.is_newcomer(*peer) {
                true => NEWCOMER_ATTEMPTS,
                false => veteran_attempts.max(NEWCOMER_ATTEMPTS),
            };
            sources.has_to_go(*peer, attempts_max)
        });
        let (newcomers, veterans): (Vec<PeerId>, Vec<PeerId>) =
            hopeless.partition(|peer| self.is_newcomer(*peer));
        let first = match newcomers.is_empty() {
            true => veterans,
            false => newcomers,
        };
        let may_go = offers.len().saturating_sub(failed.sent_away) / 2;
        Hopeless {
            // The latest to come go first.
            peers: first.into_iter().rev().take(may_go).collect(),
            others_fetch,
        }
    }

    /// Peers that lack part of the elected content.
    fn requesters(&self, offers: &Offers, elected: &Elected) -> impl Iterator<Item = PeerId> {
        let winner = offers.get(&elected.winner);
        let others = offers
            .iter()
            .filter(|(peer, _)| !elected.holders.contains(peer));
        others
            .filter(move |(peer, offer)| {
                let lacks = |winner| offer.lacks(winner, self.is_newcomer(**peer));
                let lacks = winner.is_some_and(lacks);
                rule!(
                    lacks;
                    DirtyByRevisionOnly => lacks && offer.revision != elected.revision
                )
            })
            .map(|(peer, _)| *peer)
    }

    /// The transfers of each requester. A peer that is missing here has nothing to fetch.
    pub(super) fn choose_fetches(
        &self,
        group: GroupId,
        offers: &Offers,
        elected: &Elected,
        round: Round,
    ) -> Fetches {
        let mut fetches = Fetches::new();
        let Some(record) = self.groups.get(&group) else {
            return fetches;
        };
        let Some(winner) = offers.get(&elected.winner) else {
            return fetches;
        };
        let sources = Sources::new(&record.failed, &elected.holders);
        // All holders have the elected content: whoever has the same as another lacks the same.
        let mut dirty = BTreeMap::new();
        for peer in self.requesters(offers, elected) {
            let turn = (round.0 as usize).wrapping_add(fetches.len());
            let Some(offer) = offers.get(&peer) else {
                continue;
            };
            let is_newcomer = self.is_newcomer(peer);
            let (marks, bytes) = dirty
                .entry((offer.content, rule!(is_newcomer; DirtyOfAnother => false)))
                .or_insert_with(|| {
                    let marks = offer.dirty(winner, is_newcomer);
                    let bytes = offer.bytes_of(&marks);
                    (marks, bytes)
                });
            let mut holders = sources.for_requester(peer, turn, self.holders_for(*bytes));
            let Some(source) = holders.first().and_then(|holder| offers.get(holder)) else {
                continue;
            };
            // What a newcomer is given of what may differ is the same from each.
            let serves = |holder: &PeerId| {
                let holder = offers.get(holder);
                holder.is_some_and(|holder| !is_newcomer || holder.holds_the_same(source))
            };
            holders.retain(serves);
            let marks = Arc::clone(marks);
            let entries = rule!(source.pick(marks); EntryUnderAnotherHash => offer.pick(marks));
            fetches.insert(peer, Fetch { holders, entries });
        }
        fetches
    }

    /// Number of holders for a requester without failures that lacks this many bytes.
    fn holders_for(&self, bytes: u64) -> usize {
        let shares = bytes / self.config.transfer_share_min.max(1);
        let most = u64::from(self.config.transfer_holders_max);
        // At most 255.
        usize::try_from(shares.min(most)).unwrap_or(1).max(1)
    }
}
