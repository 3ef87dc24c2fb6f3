//! Whose content the group will hold: a pure function of the votes.
//!
//! 1. **Revision.** Before the first synchronization of a group, or when every voter allows a restart,
//!    the newest revision that a candidate offers is current. Afterwards, with `reached` the revision
//!    of the last synchronization, `reached + 1` is current where a candidate offers it, else
//!    `reached` itself (the same state once more, as after an aborted reduce). Older content is dragged
//!    along. Content beyond `reached + 1` is refused: its holder is expelled, or, where no veteran (a
//!    peer that has been through a synchronization of the group) could be current, the call fails for
//!    all. A newcomer at the right revision by chance does not decide who goes; where no veteran's
//!    content counts, it does.
//! 2. **Candidates** are all voters but the receive-only ones; where somebody is send-only, the
//!    send-only ones alone.
//! 3. **Popularity.** Of the candidates with the current revision, the content that most hold wins. A
//!    tie goes to the content held by the peer with the lowest number, the longest in the run.
//! 4. **Guarantees.** A send-only peer that does not hold the winning content fails the call for all.
//!    A receive-only peer is never a holder. Who describes other entries (names, types, counts, flags,
//!    compared as a set) than the winner is expelled. But a newcomer does not decide who goes here
//!    either: where the winner is no veteran, the entries that most veterans describe are the measure, and
//!    the winner may be the one that is expelled.
//!
//! Votes of the departed are not here: the caller withdraws them when it loses a peer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::element::ElementType;
use crate::id::{ContentHash, PeerId, Revision};
use crate::messages::Misdeed;
use crate::shared_state::{EntryInfo, SyncFailure, SyncStrategy, SyncVote};

pub(super) type Votes = BTreeMap<PeerId, SyncVote>;

/// What an election ends in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// These voters cannot stay; elect again without them.
    Expel(Vec<(PeerId, Misdeed)>),
    /// This content wins.
    Elected {
        revision: Revision,
        winner: PeerId,
        /// Candidates that hold the winning content at the current revision, the winner included.
        holders: BTreeSet<PeerId>,
    },
    /// Nothing is carried out.
    Failed(SyncFailure),
}

pub(super) fn elect(
    votes: &Votes,
    veterans: &BTreeSet<PeerId>,
    reached: Option<Revision>,
) -> Decision {
    let everybody_restarts = votes.values().all(|vote| vote.restart);
    let reached = reached.filter(|_| !everybody_restarts);
    if let Some(decision) = reached.and_then(|reached| ahead(votes, veterans, reached)) {
        return decision;
    }
    let candidates = candidates(votes);
    let revision = match current_revision(votes, &candidates, reached) {
        Ok(revision) => revision,
        Err(failure) => return Decision::Failed(failure),
    };
    let finalists = candidates
        .into_iter()
        .filter(|(_, vote)| vote.revision == revision);
    let Some((winner, holders)) = largest_camp(finalists, content) else {
        return Decision::Failed(SyncFailure::NobodyToSend);
    };
    let loser = votes
        .iter()
        .filter(|(_, vote)| vote.strategy == SyncStrategy::SendOnly)
        .find(|(peer, _)| rule!(!holders.contains(peer); SendOnlyOverwritten => false));
    if let Some((other, _)) = loser {
        return Decision::Failed(SyncFailure::SendersDiffer {
            one: winner,
            other: *other,
        });
    }
    match strangers(votes, measure(votes, veterans, winner)) {
        expelled if expelled.is_empty() => Decision::Elected {
            revision,
            winner,
            holders,
        },
        expelled => Decision::Expel(expelled),
    }
}

/// Voters whose content may win that are beyond the next revision.
fn ahead(votes: &Votes, veterans: &BTreeSet<PeerId>, reached: Revision) -> Option<Decision> {
    let expected = reached.next();
    let counted = || {
        votes
            .iter()
            .filter(|(_, vote)| vote.strategy != SyncStrategy::ReceiveOnly)
    };
    let beyond: Vec<(PeerId, Revision)> = counted()
        .filter(|(_, vote)| vote.revision > expected)
        .map(|(peer, vote)| (*peer, vote.revision))
        .collect();
    let oldest = beyond.iter().map(|(_, offered)| *offered).min()?;
    let by_veterans = counted().any(|(peer, _)| veterans.contains(peer));
    let somebody_keeps_up = counted()
        .filter(|(peer, _)| !by_veterans || veterans.contains(peer))
        .any(|(_, vote)| (reached..=expected).contains(&vote.revision));
    if !somebody_keeps_up {
        return Some(Decision::Failed(SyncFailure::RevisionSkipped {
            expected,
            offered: oldest,
        }));
    }
    let misdeed = |offered| Misdeed::RevisionAhead { expected, offered };
    Some(Decision::Expel(
        beyond
            .into_iter()
            .map(|(peer, o)| (peer, misdeed(o)))
            .collect(),
    ))
}

fn candidates(votes: &Votes) -> Vec<(PeerId, &SyncVote)> {
    let with = |strategy: SyncStrategy| -> Vec<(PeerId, &SyncVote)> {
        votes
            .iter()
            .filter(|(_, v)| {
                rule!(
                    v.strategy == strategy;
                    ReceiveOnlyChosen if v.strategy == SyncStrategy::ReceiveOnly
                        => strategy == SyncStrategy::EnforcePopular
                )
            })
            .map(|(p, v)| (*p, v))
            .collect()
    };
    let senders = with(SyncStrategy::SendOnly);
    if senders.is_empty() {
        with(SyncStrategy::EnforcePopular)
    } else {
        senders
    }
}

fn current_revision(
    votes: &Votes,
    candidates: &[(PeerId, &SyncVote)],
    reached: Option<Revision>,
) -> Result<Revision, SyncFailure> {
    let first = candidates
        .iter()
        .max_by_key(|(peer, vote)| (vote.revision, Reverse(*peer)));
    let (sender, offered) = first.map_or(Err(SyncFailure::NobodyToSend), |(peer, vote)| {
        Ok((*peer, vote.revision))
    })?;
    match reached {
        Some(reached) if rule!(offered < reached; RevisionGoesBack => false) => {
            let is_held = votes.values().any(|vote| vote.revision >= reached);
            let failure = if is_held && is_send_only(votes, sender) {
                SyncFailure::SenderBehind {
                    sender,
                    reached,
                    offered,
                }
            } else {
                SyncFailure::RevisionLost { reached, offered }
            };
            Err(failure)
        }
        Some(_) | None => Ok(offered),
    }
}

fn is_send_only(votes: &Votes, peer: PeerId) -> bool {
    let vote = votes.get(&peer);
    vote.is_some_and(|vote| vote.strategy == SyncStrategy::SendOnly)
}

/// What is compared of an entry: its key, and its hash where that must be equal.
type Compared<'a> = (&'a str, ElementType, u64, bool, Option<ContentHash>);

fn content(entry: &EntryInfo) -> Compared<'_> {
    let hash = (!entry.allow_content_inequality).then_some(entry.hash);
    let (name, element, count, may_differ, _) = description(entry);
    (name, element, count, may_differ, hash)
}

fn description(entry: &EntryInfo) -> Compared<'_> {
    let may_differ = entry.allow_content_inequality;
    (
        entry.name.as_str(),
        entry.element,
        entry.count,
        may_differ,
        None,
    )
}

/// The largest camp of peers in whose entries this is the same, and its first peer.
fn largest_camp<'a>(
    voters: impl Iterator<Item = (PeerId, &'a SyncVote)>,
    compared: impl Fn(&'a EntryInfo) -> Compared<'a>,
) -> Option<(PeerId, BTreeSet<PeerId>)> {
    let mut camps: BTreeMap<Vec<Compared<'_>>, BTreeSet<PeerId>> = BTreeMap::new();
    for (peer, vote) in voters {
        let alike = vote.entries.iter().map(&compared).collect();
        camps.entry(alike).or_default().insert(peer);
    }
    let holders = camps.into_values().max_by_key(|camp| {
        let first = camp.first().copied();
        let latest_last =
            rule!(Reverse(first); TieToTheLatest => Reverse(first.map(|p| PeerId(!p.0))));
        (camp.len(), latest_last)
    })?;
    Some((*holders.first()?, holders))
}

/// Whose entries everybody is to have.
fn measure(votes: &Votes, veterans: &BTreeSet<PeerId>, winner: PeerId) -> PeerId {
    if veterans.contains(&winner) {
        return winner;
    }
    let experienced = votes.iter().filter(|(peer, _)| veterans.contains(peer));
    let camp = largest_camp(experienced.map(|(peer, vote)| (*peer, vote)), description);
    camp.map_or(winner, |(first, _)| first)
}

/// Voters whose entries are not those of `measure`.
fn strangers(votes: &Votes, measure: PeerId) -> Vec<(PeerId, Misdeed)> {
    let Some(elected) = votes.get(&measure) else {
        return Vec::new();
    };
    votes
        .iter()
        .map(|(peer, vote)| (*peer, differing_keys(elected, vote)))
        .filter(|(_, entries)| *entries > 0)
        .map(|(peer, entries)| (peer, Misdeed::StateMismatch { entries }))
        .collect()
}

fn differing_keys(elected: &SyncVote, vote: &SyncVote) -> u32 {
    let differs = |entry: &&EntryInfo| {
        entry_of(elected, &entry.name).is_none_or(|elected| !entry.same_key(elected))
    };
    let differing = vote.entries.iter().filter(differs).count();
    let is_lacking = |entry: &&EntryInfo| entry_of(vote, &entry.name).is_none();
    let lacking = elected.entries.iter().filter(is_lacking).count();
    u32::try_from(differing + lacking).unwrap_or(u32::MAX)
}

/// Entries are sorted by name: a vote that is not does not get here.
fn entry_of<'a>(vote: &'a SyncVote, name: &str) -> Option<&'a EntryInfo> {
    let index = vote
        .entries
        .binary_search_by(|entry| entry.name.as_str().cmp(name));
    vote.entries.get(index.ok()?)
}
