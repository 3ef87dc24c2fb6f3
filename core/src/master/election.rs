//! The election of the content that the group will hold: a pure function of the votes.
//!
//! 1. **Revision.** Before the first synchronization of a group, or if every voter allows a restart, the newest
//!    revision that a candidate offers is current. After that, let `reached` be the revision of the last
//!    synchronization, which is remembered even if all members have left since. If a candidate offers `reached + 1`,
//!    that is current, otherwise `reached` itself (the same state again, as after an aborted reduce). If a candidate
//!    that offers one of the two is a veteran (a peer that has been through a synchronization of the group), only the
//!    offers of veterans count for this: a newcomer does not raise the revision. Peers with other content, older or a
//!    newcomer's, fetch the elected one. Content beyond `reached + 1` is refused: its holder is evicted, or, if no
//!    veteran could be current, the call fails for all peers. A newcomer that has the right revision by chance does
//!    not decide which peer is evicted, unless no veteran's content counts.
//! 2. **Candidates** are all voters except the receive-only ones. If a voter is send-only, only the send-only ones
//!    are.
//! 3. **Popularity.** Among the candidates with the current revision, the content that most of them hold wins. In a
//!    tie, the content of the peer with the lowest id wins, which has been in the run for the longest time. But if
//!    the group repeats the revision that it had reached, and no veteran decides, as after all members have left, the
//!    content that it held wins against any other, if a peer still has it.
//! 4. **Guarantees.** A send-only peer that does not hold the winning content fails the call for all peers. So does a
//!    send-only newcomer whose next revision does not count beside a send-only veteran's. A receive-only peer is
//!    never a holder. A peer that describes other entries (names, types, counts, flags, compared as a set) than the
//!    winner is evicted. But a newcomer does not decide that either: if the winner is not a veteran, the entries that
//!    most veterans describe are the reference, and the winner may be the one that is evicted.
//!
//! Votes of departed peers are not here: the caller withdraws them when it loses a peer. Manifests were compared when
//! they arrived (see `manifest`); an election counts digests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::manifest::{Digest, Offer, Offers};
use super::remembered::Reached;
use crate::id::{PeerId, Revision};
use crate::messages::Misdeed;
use crate::shared_state::{SyncFailure, SyncStrategy};

/// The outcome of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Evict these voters, and elect again without them.
    Expel(Vec<(PeerId, Misdeed)>),
    /// This content wins.
    Elected(Elected),
    /// The synchronization fails.
    Failed(SyncFailure),
}

/// The content that wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elected {
    pub(super) revision: Revision,
    pub(super) winner: PeerId,
    /// Candidates that hold the winning content at the current revision, the winner included.
    pub(super) holders: BTreeSet<PeerId>,
}

pub(super) fn elect(
    offers: &Offers,
    veterans: &BTreeSet<PeerId>,
    reached: Option<Reached>,
) -> Decision {
    let everybody_restarts = rule!(
        offers.values().all(|offer| offer.restart);
        ReceiversHaveNoSay => offers.values().all(|offer| {
            offer.restart || offer.strategy == SyncStrategy::ReceiveOnly
        }),
        RestartByOne => offers.values().any(|offer| offer.restart)
    );
    let before = reached;
    let reached = before.filter(|_| !everybody_restarts);
    let bound = rule!(reached; RestartHeldToTheNext => before);
    if let Some(decision) = bound.and_then(|reached| ahead(offers, veterans, reached.revision)) {
        return decision;
    }
    let candidates = candidates(offers);
    let deciding = deciding(&candidates, veterans, reached);
    let revision = match current_revision(offers, &deciding, reached) {
        Ok(revision) => revision,
        Err(failure) => return Decision::Failed(failure),
    };
    let decided_by_veterans = deciding.iter().all(|(peer, _)| veterans.contains(peer));
    let repeats = |reached: &Reached| reached.revision == revision && !decided_by_veterans;
    let repeated = rule!(reached.filter(repeats); HeldContentForgotten => None);
    let finalists = with_revision(candidates, revision);
    let Some((winner, holders)) = winning_camp(&finalists, repeated) else {
        return Decision::Failed(SyncFailure::NobodyToSend);
    };
    let loser = offers
        .iter()
        .filter(|(_, offer)| offer.strategy == SyncStrategy::SendOnly)
        .find(|(peer, _)| rule!(!holders.contains(peer); SendOnlyOverwritten => false));
    if let Some((other, _)) = loser {
        return Decision::Failed(SyncFailure::SendersDiffer {
            one: winner,
            other: rule!(*other; SenderDiffersFromItself => winner),
        });
    }
    match strangers(offers, measure(offers, veterans, winner)) {
        expelled if expelled.is_empty() => Decision::Elected(Elected {
            revision,
            winner,
            holders,
        }),
        expelled => Decision::Expel(expelled),
    }
}

/// Voters whose content may win and whose revision is beyond the next one.
fn ahead(offers: &Offers, veterans: &BTreeSet<PeerId>, reached: Revision) -> Option<Decision> {
    let expected = reached.next();
    let counted = || {
        offers
            .iter()
            .filter(|(_, offer)| offer.strategy != SyncStrategy::ReceiveOnly)
    };
    let beyond: Vec<(PeerId, Revision)> = counted()
        .filter(|(_, offer)| offer.revision > expected)
        .map(|(peer, offer)| (*peer, offer.revision))
        .collect();
    let offered = || beyond.iter().map(|(_, offered)| *offered);
    let oldest = rule!(offered().min()?; NewestSkipNamed => offered().max()?);
    let by_veterans = counted().any(|(peer, _)| veterans.contains(peer));
    let somebody_keeps_up = counted()
        .filter(|(peer, _)| !by_veterans || veterans.contains(peer))
        .any(|(_, offer)| (reached..=expected).contains(&offer.revision));
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

fn candidates(offers: &Offers) -> Vec<(PeerId, &Offer)> {
    let with = |strategy: SyncStrategy| -> Vec<(PeerId, &Offer)> {
        offers
            .iter()
            .filter(|(_, offer)| {
                rule!(
                    offer.strategy == strategy;
                    ReceiveOnlyChosen if offer.strategy == SyncStrategy::ReceiveOnly
                        => strategy == SyncStrategy::EnforcePopular
                )
            })
            .map(|(peer, offer)| (*peer, offer))
            .collect()
    };
    let senders = with(SyncStrategy::SendOnly);
    if senders.is_empty() {
        with(SyncStrategy::EnforcePopular)
    } else {
        senders
    }
}

/// The candidates that determine the current revision: the veterans with a possible revision, or, if there are none,
/// all candidates.
fn deciding<'a>(
    candidates: &[(PeerId, &'a Offer)],
    veterans: &BTreeSet<PeerId>,
    reached: Option<Reached>,
) -> Vec<(PeerId, &'a Offer)> {
    let keeps_up = |offer: &Offer| {
        reached.is_some_and(|reached| {
            rule!(
                offer.revision >= reached.revision;
                VeteranWhoRepeatsDoesNotDecide => offer.revision > reached.revision
            )
        })
    };
    let experienced = candidates
        .iter()
        .filter(|(peer, offer)| veterans.contains(peer) && keeps_up(offer));
    let experienced: Vec<(PeerId, &Offer)> = experienced.copied().collect();
    if experienced.is_empty() {
        candidates.to_vec()
    } else {
        experienced
    }
}

fn current_revision(
    offers: &Offers,
    deciding: &[(PeerId, &Offer)],
    reached: Option<Reached>,
) -> Result<Revision, SyncFailure> {
    let first = deciding
        .iter()
        .max_by_key(|(peer, offer)| (offer.revision, Reverse(*peer)));
    let (sender, offered) = first.map_or(Err(SyncFailure::NobodyToSend), |(peer, offer)| {
        Ok((*peer, offer.revision))
    })?;
    match reached.map(|reached| reached.revision) {
        Some(reached) if rule!(offered < reached; RevisionGoesBack => false) => {
            let is_held = offers.values().any(|offer| offer.revision >= reached);
            let failure = if is_held && is_send_only(offers, sender) {
                let (reached, offered) =
                    rule!((reached, offered); SenderBehindTurnedRound => (offered, reached));
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

fn is_send_only(offers: &Offers, peer: PeerId) -> bool {
    let offer = offers.get(&peer);
    offer.is_some_and(|offer| offer.strategy == SyncStrategy::SendOnly)
}

fn with_revision(candidates: Vec<(PeerId, &Offer)>, revision: Revision) -> Vec<(PeerId, &Offer)> {
    let mut finalists = candidates;
    finalists.retain(|(_, offer)| offer.revision == revision);
    finalists
}

/// The candidates that hold the group's last content, if the group repeats it; otherwise the largest set of
/// candidates with equal content. And the first peer of the set.
fn winning_camp(
    finalists: &[(PeerId, &Offer)],
    repeated: Option<Reached>,
) -> Option<(PeerId, BTreeSet<PeerId>)> {
    let contents = || finalists.iter().map(|(peer, offer)| (*peer, offer.content));
    let held = contents().filter(|(_, content)| repeated.is_some_and(|r| r.content == *content));
    largest_camp(held).or_else(|| largest_camp(contents()))
}

/// The largest set of peers with equal content, and its first peer.
fn largest_camp(
    voters: impl Iterator<Item = (PeerId, Digest)>,
) -> Option<(PeerId, BTreeSet<PeerId>)> {
    let mut camps: BTreeMap<Digest, BTreeSet<PeerId>> = BTreeMap::new();
    for (peer, compared) in voters {
        camps.entry(compared).or_default().insert(peer);
    }
    let holders = camps.into_values().max_by_key(|camp| {
        let first = camp.first().copied();
        let latest_last =
            rule!(Reverse(first); TieToTheLatest => Reverse(first.map(|p| PeerId(!p.0))));
        (camp.len(), latest_last)
    })?;
    Some((*holders.first()?, holders))
}

/// The peer whose entries are the reference.
fn measure(offers: &Offers, veterans: &BTreeSet<PeerId>, winner: PeerId) -> PeerId {
    if veterans.contains(&winner) {
        return winner;
    }
    let experienced = offers.iter().filter(|(peer, _)| veterans.contains(peer));
    let camp = largest_camp(experienced.map(|(peer, offer)| (*peer, offer.description())));
    camp.map_or(winner, |(first, _)| first)
}

/// Voters whose entries are not those of the reference. Each description is compared with it once.
fn strangers(offers: &Offers, measure: PeerId) -> Vec<(PeerId, Misdeed)> {
    let Some(elected) = offers.get(&measure) else {
        return Vec::new();
    };
    let mut compared: BTreeMap<Digest, Misdeed> = BTreeMap::new();
    let mut strangers = Vec::new();
    for (peer, offer) in offers {
        if offer.description() != elected.description() {
            let misdeed = compared
                .entry(offer.description())
                .or_insert_with(|| offer.mismatch(elected));
            strangers.push((*peer, misdeed.clone()));
        }
    }
    strangers
}
