//! Finding sites by round-trip times, if no user has named any.
//!
//! Round trips inside a site are short, and those between sites are long. If the sorted round trips of a group have a
//! clear *gap*, those below it are short, and peers that are connected by chains of short round trips are at one site
//! (single linkage). Without a gap there are no sites.
//!
//! | two consecutive round trips of the sorted list have a gap between them if | because |
//! |---|---|
//! | the longer is at least [`GAP`] times the shorter | otherwise the gap is not clear |
//! | the shorter is at most [`SHORT_MAX_US`] | a site is no larger than a metropolitan area |
//! | the longer is at least [`LONG_MIN_US`] | racks of a data centre, or processes of a busy machine, are not sites |
//!
//! If there are several gaps, the one at the longest round trips counts. Sites are then as large as possible, and the
//! longest paths are those between them.
//!
//! In a large group some pairs were not measured. Two sites are separate only if a round trip between a member of one
//! and a member of the other was measured, and all measured ones are long. If none was measured, it is not known
//! whether they are one site, and no sites are found. So no site is split because a pair was not measured.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{SiteName, Sites};
use crate::id::PeerId;

/// Maximum of a short round trip, in microseconds.
pub const SHORT_MAX_US: u32 = 5_000;

/// Minimum of a long round trip, in microseconds.
pub const LONG_MIN_US: u32 = 2_000;

/// Minimum ratio of the shortest long round trip to the longest short one.
pub const GAP: u32 = 5;

/// Two peers, the lower id first.
type Pair = (PeerId, PeerId);

/// The shortest measured round trip between two peers, in either direction, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RoundTrips(BTreeMap<Pair, u32>);

impl RoundTrips {
    /// Adds a measurement.
    pub fn note(&mut self, (from, to): (PeerId, PeerId), micros: u32) {
        let pair = (from.min(to), from.max(to));
        let known = self.0.entry(pair).or_insert(micros);
        *known = micros.min(*known);
    }

    /// The longest short round trip. `None` if there is no gap.
    fn longest_short(&self) -> Option<u32> {
        let mut in_order: Vec<u32> = self.0.values().copied().collect();
        in_order.sort_unstable();
        let behind = in_order.iter().skip(1);
        let mut gaps = in_order.iter().zip(behind).rev();
        let (short, _) = gaps.find(|(short, long)| is_gap(**short, **long))?;
        Some(*short)
    }

    /// Pairs with a round trip of at most this length.
    fn up_to(&self, longest: u32) -> impl Iterator<Item = Pair> + '_ {
        let near = self.0.iter().filter(move |(_, micros)| **micros <= longest);
        near.map(|(pair, _)| *pair)
    }
}

fn is_gap(short: u32, long: u32) -> bool {
    short <= SHORT_MAX_US && long >= LONG_MIN_US && short.saturating_mul(GAP) <= long
}

impl FromIterator<((PeerId, PeerId), u32)> for RoundTrips {
    fn from_iter<T: IntoIterator<Item = ((PeerId, PeerId), u32)>>(measured: T) -> Self {
        let mut all = Self::default();
        for (edge, micros) in measured {
            all.note(edge, micros);
        }
        all
    }
}

/// The found sites of a group: for each peer the peer after which its site is named, which is the one with the lowest
/// id at that site. Peers that joined later are not included: each of them is at its own site.
///
/// There are no sites, or there are several, one of which has several peers.
///
/// ```
/// use pccl_core::id::PeerId;
/// use pccl_core::site::found::FoundSites;
///
/// let peers = [1, 2, 3].map(PeerId);
/// let [paris, lyon, tokyo] = peers;
/// let measured = [((paris, tokyo), 240_000), ((tokyo, lyon), 245_000), ((lyon, paris), 4_000)];
///
/// let found = FoundSites::of(&peers, &measured.into_iter().collect());
///
/// assert_eq!(found.name_of(lyon), found.name_of(paris));
/// assert_eq!(found.name_of(tokyo).as_str(), "~3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct FoundSites(BTreeMap<PeerId, PeerId>);

impl FoundSites {
    /// No sites.
    pub const NONE: Self = Self(BTreeMap::new());

    /// The sites of these peers, by these round trips. Other peers are ignored.
    #[must_use]
    pub fn of(peers: &[PeerId], round_trips: &RoundTrips) -> Self {
        let among: BTreeSet<PeerId> = peers.iter().copied().collect();
        let is_among = |(one, other): &Pair| among.contains(one) && among.contains(other);
        let of_them = round_trips.0.iter().filter(|(pair, _)| is_among(pair));
        let of_them = RoundTrips(of_them.map(|(pair, micros)| (*pair, *micros)).collect());
        let Some(longest) = of_them.longest_short() else {
            return Self::NONE;
        };
        let linked = Self(chained(among, of_them.up_to(longest)));
        match linked.are_apart(&of_them) {
            true => linked.if_two_levels(),
            false => Self::NONE,
        }
    }

    /// Whether no sites were found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sites that remain if the group has these peers.
    #[must_use]
    pub fn among(&self, peers: &[PeerId]) -> Self {
        let known = |peer: &PeerId| Some((*peer, *self.0.get(peer)?));
        Self(peers.iter().filter_map(known).collect()).if_two_levels()
    }

    /// The name of a peer's site. If the peer joined later, that of a site of its own.
    #[must_use]
    pub fn name_of(&self, peer: PeerId) -> SiteName {
        match self.is_empty() {
            true => SiteName::NONE,
            false => SiteName::found_around(*self.0.get(&peer).unwrap_or(&peer)),
        }
    }

    /// Whether a round trip was measured between any two of the sites.
    fn are_apart(&self, round_trips: &RoundTrips) -> bool {
        let between = |(one, other): &Pair| {
            let (one, other) = (*self.0.get(one)?, *self.0.get(other)?);
            (one != other).then_some((one.min(other), one.max(other)))
        };
        let measured: BTreeSet<Pair> = round_trips.0.keys().filter_map(between).collect();
        let sites: BTreeSet<PeerId> = self.0.values().copied().collect();
        measured.len() == sites.len() * sites.len().saturating_sub(1) / 2
    }

    /// The sites, or none if there are not several, or not several peers at one of them.
    fn if_two_levels(self) -> Self {
        match Sites::of(self.0.values()).has_two_levels() {
            true => self,
            false => Self::NONE,
        }
    }
}

/// For each of these peers, the lowest id of all peers to which a chain of such pairs leads.
fn chained(peers: BTreeSet<PeerId>, pairs: impl Iterator<Item = Pair>) -> BTreeMap<PeerId, PeerId> {
    let mut lowest: BTreeMap<PeerId, PeerId> = peers.into_iter().map(|peer| (peer, peer)).collect();
    for (one, other) in pairs {
        let ends = (lowest.get(&one).copied(), lowest.get(&other).copied());
        let (Some(one), Some(other)) = ends else {
            continue;
        };
        let (kept, merged) = (one.min(other), one.max(other));
        for peer in lowest.values_mut().filter(|peer| **peer == merged) {
            *peer = kept;
        }
    }
    lowest
}

#[cfg(test)]
mod tests;
