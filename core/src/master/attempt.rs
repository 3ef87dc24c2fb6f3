//! One attempt to connect rings: the links to build, and the reports of their ends.

use alloc::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Scope;
use super::record::StandingLink;
use crate::id::{GroupId, PeerId, Round};
use crate::site::found::FoundSites;
use crate::topology::{LaneFailure, LinkId, Ring, Way};

/// One attempt to connect the rings of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Wiring {
    pub(super) scope: Scope,
    pub(super) rings: BTreeMap<GroupId, PlannedRing>,
    /// Links to build, of all groups, sender first.
    pub(super) links: BTreeMap<(PeerId, PeerId), Progress>,
    /// The same links, receiver first.
    by_receiver: BTreeSet<(PeerId, PeerId)>,
    /// Links that are neither up nor failed.
    pub(super) open: usize,
    /// Whether links of rings have failed, and the attempt waits for the end of the pause.
    pub(super) pausing: bool,
}

/// A ring to be established.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct PlannedRing {
    pub(super) ring: Ring,
    /// Its links, and those of its mesh if it gets one, sender first.
    pub(super) links: BTreeMap<(PeerId, PeerId), StandingLink>,
    /// The found sites of its members, which are announced with the ring.
    pub(super) found: FoundSites,
}

/// The progress of a link that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Whether it belongs to a mesh and to no ring. If it fails, the ring is used without it.
    is_extra: bool,
    /// Whether the receiver, not the sender, opens the lanes.
    receiver_dials: bool,
    up_at_sender: bool,
    up_at_receiver: bool,
    /// The end that has reported a failure.
    failed_at: Option<Way>,
    pub(super) failed: Option<Failure>,
}

/// The ends of a link: the one that opens its lanes, and the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) dialler: PeerId,
    pub(super) dialled: PeerId,
}

/// Why a link counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Failure {
    /// One end reported it.
    Reported(LaneFailure),
    /// Not both ends had reported it in time.
    Overdue {
        /// Whether the end that was to open the lanes had reported, and the other one had not.
        dialler_reported: bool,
    },
}

impl Progress {
    pub(super) fn is_up(self) -> bool {
        let is_up = rule!(
            self.up_at_sender && self.up_at_receiver;
            UpAtOneEnd => self.up_at_sender || self.up_at_receiver
        );
        is_up && self.failed.is_none()
    }

    pub(super) fn is_decided(self) -> bool {
        self.failed.is_some() || self.is_up()
    }

    /// Why the ring cannot be established, because of this link.
    pub(super) fn ring_failure(self) -> Option<Failure> {
        self.failed.filter(|_| !self.is_extra)
    }

    /// Whether the link has failed and the ring is used without it.
    fn is_missing(self) -> bool {
        self.failed.is_some() && self.ring_failure().is_none()
    }

    /// Whether the sending end, or the receiving end, has reported it up.
    pub(super) fn is_reported_at(self, end: Way) -> bool {
        match end {
            Way::Out => self.up_at_sender,
            Way::In => self.up_at_receiver,
        }
    }
}

/// The report of one end about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Up,
    Failed(LaneFailure),
}

impl Wiring {
    pub(super) fn new(
        scope: Scope,
        round: Round,
        rings: BTreeMap<GroupId, PlannedRing>,
        dialler: impl Fn(PeerId, PeerId) -> PeerId,
    ) -> Self {
        let planned = rings.values().flat_map(|plan| &plan.links);
        let fresh = planned.filter(|(_, link)| link.built == round);
        let of_rings: BTreeSet<_> = rings.values().flat_map(|plan| plan.ring.edges()).collect();
        let untried = |link: (PeerId, PeerId)| Progress {
            is_extra: !of_rings.contains(&link),
            receiver_dials: dialler(link.0, link.1) != link.0,
            ..Progress::default()
        };
        let links: BTreeMap<_, _> = fresh.map(|(link, _)| (*link, untried(*link))).collect();
        Self {
            scope,
            rings,
            by_receiver: links.keys().map(|(from, to)| (*to, *from)).collect(),
            open: links.len(),
            links,
            pausing: false,
        }
    }

    /// The link to build that `link` of a peer names, sender first. `None` if it is not to be built.
    pub(super) fn link_at(&self, peer: PeerId, link: LinkId) -> Option<(PeerId, PeerId)> {
        let ends = link.ends(peer);
        self.links.contains_key(&ends).then_some(ends)
    }

    /// Whether the peer has links to build that it has not reported up, except for those without which the ring is
    /// used.
    pub(super) fn awaits(&self, peer: PeerId) -> bool {
        let of_peer = (peer, PeerId(0))..=(peer, PeerId(u64::MAX));
        let mut outgoing = self.links.range(of_peer.clone());
        let mut incoming = self.by_receiver.range(of_peer);
        let is_awaited =
            |progress: &Progress, end| !progress.is_reported_at(end) && !progress.is_missing();
        outgoing.any(|(_, progress)| is_awaited(progress, Way::Out))
            || incoming.any(|(to, from)| {
                let progress = self.links.get(&(*from, *to));
                progress.is_some_and(|progress| is_awaited(progress, Way::In))
            })
    }

    /// The end that was told to open the lanes of a link, and the one that was told to expect them.
    pub(super) fn ends(&self, (from, to): (PeerId, PeerId)) -> Ends {
        let progress = self.links.get(&(from, to));
        let receiver_dials = progress.is_some_and(|progress| progress.receiver_dials);
        let (dialler, dialled) = if receiver_dials {
            (to, from)
        } else {
            (from, to)
        };
        Ends { dialler, dialled }
    }

    /// Notes a report. `false` if that end has reported this link before.
    pub(super) fn note(&mut self, link: (PeerId, PeerId), end: Way, report: Report) -> bool {
        let Some(progress) = self.links.get_mut(&link) else {
            return false;
        };
        let was_decided = progress.is_decided();
        let has_failed_there = progress.failed_at == Some(end);
        if progress.is_reported_at(end) || has_failed_there {
            return false;
        }
        match report {
            Report::Up => match end {
                Way::Out => progress.up_at_sender = true,
                Way::In => progress.up_at_receiver = true,
            },
            Report::Failed(failure) => {
                progress.failed_at = Some(end);
                let before = progress.failed.replace(Failure::Reported(failure));
                if before.is_some() {
                    return false;
                }
            }
        }
        if !was_decided && progress.is_decided() {
            self.open = self.open.saturating_sub(1);
        }
        true
    }

    /// Whether a ring cannot be established.
    pub(super) fn has_failed(&self) -> bool {
        let mut links = self.links.values();
        links.any(|link| link.ring_failure().is_some())
    }

    /// Whether a ring cannot be established because of this link.
    pub(super) fn fails_for(&self, link: (PeerId, PeerId)) -> bool {
        let progress = self.links.get(&link);
        progress.is_some_and(|progress| progress.ring_failure().is_some())
    }

    /// Links that did not come up and without which the rings are used, sender first.
    pub(super) fn missing(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let missing = self.links.iter().filter(|(_, link)| link.is_missing());
        missing.map(|(link, _)| *link)
    }

    /// Counts every unreported link as failed.
    pub(super) fn close(&mut self) {
        let open = self.links.values_mut().filter(|link| !link.is_decided());
        for progress in open {
            let dialler_reported = match progress.receiver_dials {
                true => progress.up_at_receiver,
                false => progress.up_at_sender,
            };
            progress.failed = Some(Failure::Overdue { dialler_reported });
        }
        self.open = 0;
    }
}
