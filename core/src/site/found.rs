//! Sites that nobody has named, found by how long round trips between peers take.
//!
//! Round trips inside a site are short, and those between sites are long. If the round trips of a group, in order, have
//! a clear *gap*, those below it are short: peers that are chained by short round trips are at one site (single linkage).
//! Without a gap there are no sites.
//!
//! | two round trips, one after the other in order, have a gap between them if | |
//! |---|---|
//! | the longer is at least [`GAP`] times the shorter | else it is no clear gap |
//! | the shorter is at most [`SHORT_MAX_US`] | a site is no larger than a metropolitan area |
//! | the longer is at least [`LONG_MIN_US`] | racks of a data centre, or processes of a busy machine, are no sites |
//!
//! If there are several gaps the one at the longest round trips counts: sites are then as large as they may be, and the
//! longest paths are those between them.
//!
//! Of a large group some pairs were not measured. Two sites are two only if a round trip between a member of the one
//! and a member of the other was measured, and all that were are long. If there was none, it is not known whether they
//! are one, and no sites are found: no site is cut in two because a pair was not measured.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{SiteName, Sites};
use crate::id::PeerId;

/// A round trip that is longer is not short, in microseconds.
pub const SHORT_MAX_US: u32 = 5_000;

/// A round trip that is shorter is not long, in microseconds.
pub const LONG_MIN_US: u32 = 2_000;

/// The shortest long round trip is at least so many times the longest short one.
pub const GAP: u32 = 5;

/// Two peers, the lower number first.
type Pair = (PeerId, PeerId);

/// The shortest round trip that was measured between two peers, from whichever of them, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RoundTrips(BTreeMap<Pair, u32>);

impl RoundTrips {
    /// Takes another one into account.
    pub fn note(&mut self, (from, to): (PeerId, PeerId), micros: u32) {
        let pair = (from.min(to), from.max(to));
        let known = self.0.entry(pair).or_insert(micros);
        *known = micros.min(*known);
    }

    /// The longest that is short. `None`: there is no gap.
    fn longest_short(&self) -> Option<u32> {
        let mut in_order: Vec<u32> = self.0.values().copied().collect();
        in_order.sort_unstable();
        let behind = in_order.iter().skip(1);
        let mut gaps = in_order.iter().zip(behind).rev();
        let (short, _) = gaps.find(|(short, long)| is_gap(**short, **long))?;
        Some(*short)
    }

    /// Pairs whose round trips are at most this long.
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

/// The sites of a group that were found: for each peer the one that its site is called after, which is the one with the
/// lowest number of those that were found there. Peers that came later are not among them: each is at a site of its own.
///
/// There are no sites, or there are several, of which one has several peers.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct FoundSites(BTreeMap<PeerId, PeerId>);

impl FoundSites {
    /// No sites.
    pub const NONE: Self = Self(BTreeMap::new());

    /// What these round trips tell of the sites of these peers. Others are left out.
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

    /// Whether none were found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What holds of it once these are the peers.
    #[must_use]
    pub fn among(&self, peers: &[PeerId]) -> Self {
        let known = |peer: &PeerId| Some((*peer, *self.0.get(peer)?));
        Self(peers.iter().filter_map(known).collect()).if_two_levels()
    }

    /// The name of a peer's site. That of a site of its own if it was not there when they were found.
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

    /// None, if there are not several, or not several peers at one.
    fn if_two_levels(self) -> Self {
        match Sites::of(self.0.values()).has_two_levels() {
            true => self,
            false => Self::NONE,
        }
    }
}

/// For each of these peers the lowest number of all to which a chain of such pairs leads.
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
