//! One attempt to connect rings: which links are to be built, and what their ends have reported.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Scope;
use super::record::StandingLink;
use crate::id::{GroupId, PeerId, Round};
use crate::site::found::FoundSites;
use crate::topology::{LaneFailure, LinkId, Ring, Way};

/// One attempt to connect the rings of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wiring {
    pub(super) scope: Scope,
    pub(super) rings: BTreeMap<GroupId, PlannedRing>,
    /// Links to build, of all groups, sender first.
    pub(super) links: BTreeMap<(PeerId, PeerId), Progress>,
    /// The same, receiver first.
    by_receiver: BTreeSet<(PeerId, PeerId)>,
    /// Links that are neither up nor failed.
    pub(super) open: usize,
    /// Some links of rings have failed: waits for the pause to end.
    pub(super) pausing: bool,
}

/// A ring that is to stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlannedRing {
    pub(super) ring: Ring,
    /// Its links, and those of the mesh if there is to be one, sender first.
    pub(super) links: BTreeMap<(PeerId, PeerId), StandingLink>,
    /// The sites between its members that are told with it, as far as they were found.
    pub(super) found: FoundSites,
}

/// What is known of a link that is to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Progress {
    /// It is of a mesh and of no ring: if it fails, the ring stands without it.
    is_extra: bool,
    /// Not the sender: the receiver opens the lanes.
    receiver_dials: bool,
    up_at_sender: bool,
    up_at_receiver: bool,
    /// The end that has reported a failure.
    failed_at: Option<Way>,
    pub(super) failed: Option<Failure>,
}

/// The ends of a link, by who opens its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) dialler: PeerId,
    pub(super) dialled: PeerId,
}

/// Why a link counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Failure {
    /// One end said so.
    Reported(LaneFailure),
    /// Not both ends had reported it when the time was over.
    Overdue {
        /// The end that was to open the lanes had: the other one had not.
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

    /// Why the ring cannot stand, because of this link.
    pub(super) fn ring_failure(self) -> Option<Failure> {
        self.failed.filter(|_| !self.is_extra)
    }

    /// Whether it is missed, and the ring stands without it.
    fn is_missing(self) -> bool {
        self.failed.is_some() && self.ring_failure().is_none()
    }

    /// Whether the end that sends, or the one that receives, has reported it up.
    pub(super) fn is_reported_at(self, end: Way) -> bool {
        match end {
            Way::Out => self.up_at_sender,
            Way::In => self.up_at_receiver,
        }
    }
}

/// What one end says about a link.
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

    /// The link to build, sender first, that a peer means. `None`: it is not to be built.
    pub(super) fn link_at(&self, peer: PeerId, link: LinkId) -> Option<(PeerId, PeerId)> {
        let ends = link.ends(peer);
        self.links.contains_key(&ends).then_some(ends)
    }

    /// Whether the peer has links to build and has not reported all of them up, but for those that the ring
    /// stands without.
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

    /// Who was told to open the lanes of a link, and who to expect them.
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

    /// False: that end has reported this link before.
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

    /// Whether a ring cannot stand.
    pub(super) fn has_failed(&self) -> bool {
        let mut links = self.links.values();
        links.any(|link| link.ring_failure().is_some())
    }

    /// Whether a ring cannot stand because of this link.
    pub(super) fn fails_for(&self, link: (PeerId, PeerId)) -> bool {
        let progress = self.links.get(&link);
        progress.is_some_and(|progress| progress.ring_failure().is_some())
    }

    /// Links that did not come up and that the rings stand without, sender first.
    pub(super) fn missing(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let missing = self.links.iter().filter(|(_, link)| link.is_missing());
        missing.map(|(link, _)| *link)
    }

    /// Whatever was not reported in time has failed.
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
