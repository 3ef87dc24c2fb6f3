//! Whose content a group will hold, from what everybody offers.
//!
//! The group goes on from the revision that it has reached, whoever was in it then, by one step or none; before its
//! first synchronization, or when everybody allows a restart, from the newest that is offered. The send-only peers are
//! the candidates, or, where there are none, all but the receive-only ones. Those of them that were in the group and
//! keep up say which revision it is; where there are none, whoever offers the newest. Of the candidates that hold this
//! revision the content that most hold wins, in a tie that of the peer that is longest in the run; but where none of
//! those that were in the group has a say and nothing is new, what the group held is held on to. Who offers a revision
//! too far ahead, or other entries than the winner's, is expelled and the rest votes again; but where nobody that
//! decides is in step, nobody is expelled and the call fails. A newcomer that wins against other entries of the
//! veterans is expelled itself, and with it only veterans that are in the minority.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Revision};
use pccl_core::messages::Misdeed;
use pccl_core::shared_state::{EntryInfo, SyncFailure, SyncStrategy, SyncVote};

use super::Peers;

type Offers = BTreeMap<PeerId, SyncVote>;

/// What a group held in the end: the revision, and what is compared of the entries.
pub(super) type Held = (Revision, BTreeSet<EntryInfo>);

pub(super) enum Outcome {
    Expelled(BTreeMap<PeerId, Misdeed>),
    Failed(SyncFailure),
    /// Candidates that hold the winning content.
    Elected {
        revision: Revision,
        winners: Peers,
    },
}

pub(super) fn elect(offers: &Offers, veterans: &Peers, held: Option<&Held>) -> Outcome {
    let strategy = |strategy| -> Peers {
        let voters = offers.iter().filter(|(_, vote)| vote.strategy == strategy);
        voters.map(|(peer, _)| *peer).collect()
    };
    let senders = strategy(SyncStrategy::SendOnly);
    let popular = strategy(SyncStrategy::EnforcePopular);
    let restart = offers.values().all(|vote| vote.restart);
    let held = held.filter(|_| !restart);
    let reached = held.map(|(revision, _)| *revision);
    let revision_of = |peer: &PeerId| offers[peer].revision;

    if let Some(reached) = reached {
        let counted = &senders | &popular;
        let (expected, is_ahead) = (reached.next(), |r: Revision| r > reached.next());
        let ahead: Peers = (counted.iter().copied())
            .filter(|peer| is_ahead(revision_of(peer)))
            .collect();
        let deciding = &counted & veterans;
        let deciding = if deciding.is_empty() {
            counted
        } else {
            deciding
        };
        let in_step = |peer: &PeerId| [reached, expected].contains(&revision_of(peer));
        if let Some(offered) = ahead.iter().map(revision_of).min() {
            return if deciding.iter().any(in_step) {
                let why = |offered| Misdeed::RevisionAhead { expected, offered };
                let why = |peer: PeerId| (peer, why(revision_of(&peer)));
                Outcome::Expelled(ahead.into_iter().map(why).collect())
            } else {
                Outcome::Failed(SyncFailure::RevisionSkipped { expected, offered })
            };
        }
    }

    let candidates = if senders.is_empty() {
        popular
    } else {
        senders.clone()
    };
    let mut speakers = &candidates & veterans;
    speakers.retain(|peer| reached.is_some_and(|reached| revision_of(peer) >= reached));
    let is_back = speakers.is_empty();
    if is_back {
        speakers.clone_from(&candidates);
    }
    let Some(revision) = speakers.iter().map(revision_of).max() else {
        return Outcome::Failed(SyncFailure::NobodyToSend);
    };
    if let Some(reached) = reached.filter(|reached| revision < *reached) {
        let offered = revision;
        let is_held = offers.values().any(|vote| vote.revision >= reached);
        let mut behind = senders.intersection(&speakers);
        let sender = behind.find(|peer| revision_of(peer) == offered);
        return Outcome::Failed(match sender {
            Some(sender) if is_held => SyncFailure::SenderBehind {
                sender: *sender,
                reached,
                offered,
            },
            Some(_) | None => SyncFailure::RevisionLost { reached, offered },
        });
    }
    let finalists: Peers = (candidates.into_iter())
        .filter(|peer| revision_of(peer) == revision)
        .collect();
    let camp = |peer: &PeerId| -> Peers {
        let like = |other: &PeerId| content(&offers[other]) == content(&offers[peer]);
        finalists
            .iter()
            .filter(|other| like(other))
            .copied()
            .collect()
    };
    // Peers come in the order of their numbers: the first of the largest camps is that of the oldest.
    let most = finalists.iter().map(|peer| camp(peer).len()).max();
    let largest = finalists
        .iter()
        .map(camp)
        .find(|camp| Some(camp.len()) == most);
    let keepers = (finalists.iter().copied())
        .filter(|peer| held == Some(&(revision, content(&offers[peer]))))
        .collect::<Peers>();
    let winners = match is_back && !keepers.is_empty() {
        true => keepers,
        false => largest.unwrap(),
    };
    let one = *winners.first().unwrap();

    if let Some(other) = (&senders - &winners).first() {
        let other = *other;
        return Outcome::Failed(SyncFailure::SendersDiffer { one, other });
    }
    let alike = |peer: &PeerId, among: &Peers| -> Peers {
        let same = |other: &&PeerId| shape(&offers[other]) == shape(&offers[peer]);
        among.iter().filter(same).copied().collect()
    };
    let everybody: Peers = offers.keys().copied().collect();
    let experienced = &everybody & veterans;
    let most = experienced
        .iter()
        .map(|peer| alike(peer, &experienced).len())
        .max();
    let first_of_most = experienced
        .iter()
        .find(|peer| Some(alike(peer, &experienced).len()) == most);
    let measure = match (veterans.contains(&one), first_of_most) {
        (false, Some(veteran)) => veteran,
        (true, _) | (false, None) => &one,
    };
    let strangers = &everybody - &alike(measure, &everybody);
    assert!(
        experienced.is_empty() || !experienced.is_subset(&strangers),
        "a group does not lose all that were in it"
    );
    if strangers.is_empty() {
        Outcome::Elected { revision, winners }
    } else {
        // How many entries differ, the stories check.
        let why = Misdeed::StateMismatch {
            entries: 0,
            named: Vec::new(),
        };
        let why = |peer: PeerId| (peer, why.clone());
        Outcome::Expelled(strangers.into_iter().map(why).collect())
    }
}

/// What is compared: the entries, and the hashes of those that must be the same everywhere.
pub(super) fn content(vote: &SyncVote) -> BTreeSet<EntryInfo> {
    let mut entries: Vec<EntryInfo> = vote.entries.clone();
    for entry in &mut entries {
        if entry.allow_content_inequality {
            entry.hash = ContentHash(0);
        }
    }
    entries.into_iter().collect()
}

/// The entries, whatever is in them.
fn shape(vote: &SyncVote) -> BTreeSet<EntryInfo> {
    let mut entries: Vec<EntryInfo> = vote.entries.clone();
    for entry in &mut entries {
        entry.hash = ContentHash(0);
    }
    entries.into_iter().collect()
}

/// Who serves. A newcomer that holds the winning content fetches what peers may differ in from those
/// that have been in the run, where there are any; unless it is send-only, and never overwritten.
pub(super) fn holders(offers: &Offers, veterans: &Peers, winners: &Peers) -> Peers {
    let may_differ = |vote: &SyncVote| vote.entries.iter().any(|e| e.allow_content_inequality);
    let experienced = winners & veterans;
    if experienced.is_empty() || !offers.values().any(may_differ) {
        return winners.clone();
    }
    let sends_only = |peer: &&PeerId| offers[peer].strategy == SyncStrategy::SendOnly;
    let senders: Peers = winners.iter().filter(sends_only).copied().collect();
    &experienced | &senders
}

/// What failed in a group since its last success.
#[derive(Clone, Debug, Default)]
pub(super) struct Mishaps {
    /// Who could not fetch, and from whom, each time that it happened.
    failures: Vec<(PeerId, PeerId)>,
    /// Who could not fetch from several at once.
    unsuited: Peers,
    /// How many were sent away for it.
    victims: usize,
}

impl Mishaps {
    pub(super) fn happens(&mut self, requester: PeerId, holder: PeerId) {
        self.failures.push((requester, holder));
    }

    /// A transfer from all of these failed.
    pub(super) fn fails(&mut self, requester: PeerId, holders: &[PeerId]) {
        match holders {
            [holder] => self.happens(requester, *holder),
            _ => _ = self.unsuited.insert(requester),
        }
    }

    pub(super) fn has_failed(&self, requester: PeerId) -> bool {
        self.unsuited.contains(&requester) || !self.tried(requester).is_empty()
    }

    pub(super) fn claims(&mut self, victims: usize) {
        self.victims += victims;
    }

    pub(super) fn end_for_all_but(&mut self, aside: &Peers) {
        self.failures
            .retain(|(requester, _)| aside.contains(requester));
        self.unsuited.retain(|requester| aside.contains(requester));
        self.victims = 0;
    }

    pub(super) fn without(&mut self, gone: PeerId) {
        self.failures
            .retain(|(requester, holder)| ![requester, holder].contains(&&gone));
        self.unsuited.remove(&gone);
    }

    fn tried(&self, peer: PeerId) -> Peers {
        let own = self
            .failures
            .iter()
            .filter(|(requester, _)| *requester == peer);
        own.map(|(_, holder)| *holder).collect()
    }

    /// Which holders a requester may be sent to: one that it has not failed with before any other, and
    /// among those, or where there are none, one that has not failed two.
    pub(super) fn choices(&self, requester: PeerId, holders: &Peers) -> Peers {
        let failed_two = |holder: &PeerId| {
            let with = self.failures.iter().filter(|(_, with)| with == holder);
            with.map(|(requester, _)| *requester)
                .collect::<Peers>()
                .len()
                > 1
        };
        let mut sound = holders.clone();
        sound.retain(|holder| !failed_two(holder));
        let sound = if sound.is_empty() {
            holders.clone()
        } else {
            sound
        };
        let tried = self.tried(requester);
        let preferred = [&sound - &tried, holders - &tried, sound];
        let choices = preferred.into_iter().find(|choices| !choices.is_empty());
        choices.unwrap_or_default()
    }

    /// Who of the requesters is given up. Newcomers are given up sooner, and while one is, no other is.
    /// Half of those that were there stay.
    pub(super) fn given_up(
        &self,
        requesters: &Peers,
        holders: &Peers,
        veterans: &Peers,
        patience: u8,
        members: usize,
    ) -> (Peers, bool) {
        let is_hopeless = |peer: &PeerId| {
            let tried = self.tried(*peer);
            tried.len() >= 8 || (holders - &tried).is_empty()
        };
        let is_given_up = |peer: &&PeerId| {
            let attempts = self.failures.iter().filter(|(who, _)| who == *peer).count();
            let patience = match veterans.contains(peer) {
                true => usize::from(patience).max(2),
                false => 2,
            };
            attempts >= patience && is_hopeless(peer)
        };
        let all: Peers = requesters.iter().filter(is_given_up).copied().collect();
        let others = !requesters.iter().all(is_hopeless);
        let newcomers = &all - veterans;
        let mut given_up = if newcomers.is_empty() { all } else { newcomers };
        while self.victims + given_up.len() > members - given_up.len() {
            if given_up.pop_first().is_none() {
                break;
            }
        }
        (given_up, others)
    }
}

/// What a peer that is no holder lacks: what differs, and, as a newcomer, also what may.
pub(super) fn fetches(
    own: &SyncVote,
    source: &SyncVote,
    is_newcomer: bool,
) -> Vec<(EntryIndex, ContentHash)> {
    let pairs = own.entries.iter().zip(&source.entries).zip(0..);
    let lacking = pairs.filter(|((own, source), _)| match own.allow_content_inequality {
        true => is_newcomer,
        false => own.hash != source.hash,
    });
    lacking
        .map(|((_, source), index)| (EntryIndex(index), source.hash))
        .collect()
}
