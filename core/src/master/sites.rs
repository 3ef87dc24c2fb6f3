//! The sites of a group: those that its members name, or those that were found.
//!
//! Sites are announced with the ring of a group, and belong to an epoch like it. They do not change within an epoch,
//! because all members lay out their exchanges by them. So they are settled when rings are announced. If any member
//! has named its site, the names apply. Otherwise:
//!
//! - at the end of an optimization, they are [found](crate::site::found) by its measurements, whether or not its
//!   rings changed;
//! - with any other ring, they are the sites found before, without departed peers. Each newcomer is at its own site
//!   until the next optimization: its paths are not known, and at another site it would have to forward bytes for
//!   peers that may be far away.
//!
//! A measurement that becomes stale changes nothing, nor does a peer that joins or leaves before there is another
//! ring.

use alloc::vec::Vec;

use super::Master;
use super::record::GroupRecord;
use crate::id::{GroupId, PeerId, Round};
use crate::site::found::{FoundSites, RoundTrips};
use crate::site::{SiteMap, SiteName};
use crate::topology::Ring;

impl Master {
    /// The site of each rank of the group's ring.
    pub(super) fn sites_of(&self, group: &GroupRecord) -> SiteMap {
        self.sites_on(&group.ring, &group.found)
    }

    /// The site of each rank of a ring, if these sites were found.
    pub(super) fn sites_on(&self, ring: &Ring, found: &FoundSites) -> SiteMap {
        let name = |peer: &PeerId| match self.named_site(*peer) {
            // Of a group in which anybody has named its site none are found.
            named if named.is_named() => named.clone(),
            _ => found.name_of(*peer),
        };
        let names: Vec<SiteName> = ring.0.iter().map(name).collect();
        SiteMap::new(&names)
    }

    /// The site that a peer names. No peer on a ring that is announced has departed.
    fn named_site(&self, peer: PeerId) -> &SiteName {
        static NONE: SiteName = SiteName::NONE;
        self.peers.get(&peer).map_or(&NONE, |record| &record.site)
    }

    /// The found sites of a group once a ring of these members is established that is connected in this round.
    pub(super) fn found_for(&self, round: Round, group: GroupId, members: &[PeerId]) -> FoundSites {
        let mut named = members.iter().map(|peer| self.named_site(*peer));
        if named.any(SiteName::is_named) {
            FoundSites::NONE
        } else if self.is_connecting(round) {
            self.find_sites(members)
        } else {
            let known = self.groups.get(&group);
            known.map_or(FoundSites::NONE, |group| group.found.among(members))
        }
    }

    /// The sites by the measurements. All peers that the master sees at one address are at one site.
    fn find_sites(&self, members: &[PeerId]) -> FoundSites {
        let address = |peer: &PeerId| self.peers.get(peer).map(|peer| peer.address.ip());
        let mut addresses = members.iter().map(address);
        let first = addresses.next();
        if addresses.all(|address| Some(address) == first) {
            return FoundSites::NONE;
        }
        let round_trips: RoundTrips = {
            let members = members.iter();
            members
                .flat_map(|peer| self.known.round_trips_from(*peer))
                .collect()
        };
        FoundSites::of(members, &round_trips)
    }
}
