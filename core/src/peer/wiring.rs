//! Which links are established, which are being connected, and which have lost a lane.
//!
//! The master decides which lanes become a link: it names the round in which they were connected. Both ends of a link
//! get the same round, so they use the same lanes, whatever else was connected in failed attempts.

use alloc::vec::Vec;

use super::io::{AdoptedLanes, AdoptedLink, CallError, PeerOutput};
use super::{Out, Step, send};
use crate::id::{PeerId, Round};
use crate::messages::ToMaster;
use crate::plan::Reach;
use crate::topology::{
    BrokenLinks, BuiltLink, LaneFailure, Layout, LinkId, LinkOrder, Ring, Topology,
};

/// The links of a peer, and the last attempt to connect some of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Wiring {
    /// In ascending order of the links.
    standing: Vec<Standing>,
    /// The last order, until a ring is adopted.
    attempt: Option<Attempt>,
    /// The newest round that was ordered.
    newest: Option<Round>,
}

/// The lanes of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Standing {
    lanes: BuiltLink,
    broken: bool,
}

/// One order to connect links.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    round: Round,
    links: Vec<Ordered>,
}

/// One link of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ordered {
    lanes: Standing,
    report: Report,
}

/// The report about an ordered link. Each link is reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Report {
    Owed,
    Up,
    Failed,
}

/// The links that a peer adopts with a ring.
pub(super) struct Adopted(Vec<AdoptedLink>);

impl Adopted {
    /// The order to the driver.
    pub(super) fn order(self, topology: Topology) -> PeerOutput {
        let Self(links) = self;
        PeerOutput::AdoptRing { topology, links }
    }
}

impl Attempt {
    fn link_mut(&mut self, link: LinkId) -> Option<&mut Ordered> {
        let mut links = self.links.iter_mut();
        links.find(|ordered| ordered.lanes.lanes.link == link)
    }
}

impl Wiring {
    /// Passes on an order, unless a newer one was taken before.
    pub(super) fn establish(
        &mut self,
        me: PeerId,
        round: Round,
        links: Vec<LinkOrder>,
        out: &mut Out,
    ) -> Step {
        let makes_no_sense = |order: &LinkOrder| order.lanes.with == me || order.lanes.lanes == 0;
        let in_order = links.is_sorted_by(|one, next| one.link() < next.link());
        if !in_order || links.iter().any(makes_no_sense) {
            return Err(CallError::MasterMisbehaved);
        }
        if self.newest.is_some_and(|newest| round <= newest) {
            return Ok(());
        }
        self.newest = Some(round);
        self.attempt = Some(Attempt {
            round,
            links: links
                .iter()
                .map(|order| Ordered::of(order.link(), round))
                .collect(),
        });
        out.push(PeerOutput::Establish { round, links });
        Ok(())
    }

    pub(super) fn link_up(&mut self, round: Round, link: LinkId, out: &mut Out) {
        if self.report(round, link, Report::Up) {
            send(out, ToMaster::LinkUp { round, link });
        }
    }

    pub(super) fn link_failed(
        &mut self,
        round: Round,
        link: LinkId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        if self.report(round, link, Report::Failed) {
            let failed = ToMaster::LinkFailed {
                round,
                link,
                failure,
            };
            send(out, failed);
        }
    }

    /// `false` if nothing is to be reported.
    fn report(&mut self, round: Round, link: LinkId, report: Report) -> bool {
        let attempt = self.attempt.as_mut().filter(|a| a.round == round);
        match attempt.and_then(|attempt| attempt.link_mut(link)) {
            Some(ordered) if ordered.report == Report::Owed => {
                ordered.report = report;
                true
            }
            Some(_) | None => false,
        }
    }

    /// A lane ended. This includes lanes that are up and wait to become a link: otherwise their end would be
    /// forgotten by the time they are used.
    pub(super) fn broke(&mut self, link: LinkId, built: Round) {
        let ended = BuiltLink { link, built };
        let ordered = self.attempt.as_mut().and_then(|a| a.link_mut(link));
        let fresh = rule!(
            ordered.map(|ordered| &mut ordered.lanes);
            FreshBreakForgotten => None
        );
        for standing in self.standing.iter_mut().chain(fresh) {
            standing.broken |= rule!(
                standing.lanes == ended;
                OldBreakMarksNewLanes => standing.lanes.link == ended.link
            );
        }
    }

    /// The links between this peer and the others of its ring.
    pub(super) fn reach(&self, ring: &Ring) -> Reach {
        let others = ring.world_size().saturating_sub(1);
        // All standing links are to members, at most one of each direction.
        if self.standing.len() < others.saturating_mul(2) {
            Reach::Ring
        } else {
            Reach::Mesh
        }
    }

    /// Links that have lost a lane.
    pub(super) fn broken(&self) -> BrokenLinks {
        let broken = self.standing.iter().filter(|standing| standing.broken);
        BrokenLinks(broken.map(|standing| standing.lanes.link).collect())
    }

    /// Adopts `topology` as the ring of `me`, with the lanes that the master names. `None`, without a change, if the
    /// message is invalid: a ring without `me`, sites or names of another number of ranks, links that do not make this
    /// ring, or lanes that are not here.
    pub(super) fn adopt(
        &mut self,
        me: PeerId,
        topology: &Topology,
        layout: &Layout,
    ) -> Option<Adopted> {
        let Topology {
            ring, sites, names, ..
        } = topology;
        let world = ring.world_size();
        let is_named = names.is_empty() || names.len() == world;
        if !makes_ring(layout, ring, me) || !sites.is_of(world) || !is_named {
            return None;
        }
        let adopted = layout.0.iter().map(|built| self.adopt_link(*built));
        let adopted: Vec<(Standing, AdoptedLanes)> = adopted.collect::<Option<_>>()?;
        self.standing = adopted.iter().map(|(standing, _)| *standing).collect();
        self.attempt = None;
        let adopted = adopted.iter().map(|(standing, lanes)| AdoptedLink {
            link: standing.lanes.link,
            lanes: *lanes,
        });
        Some(Adopted(adopted.collect()))
    }

    /// The named lanes, and which ones they are. `None` if there are none.
    fn adopt_link(&self, meant: BuiltLink) -> Option<(Standing, AdoptedLanes)> {
        let mut standing = self.standing.iter();
        let kept = standing.find(|standing| standing.lanes == meant);
        let kept = kept.map(|standing| (*standing, AdoptedLanes::Keep));
        let fresh = self.fresh().find(|fresh| fresh.lanes == meant);
        let used = fresh.map(Standing::used);
        rule!(
            kept.or(used);
            FreshLanesAdopted if self.fresh_that_way(meant).is_some() => self.fresh_that_way(meant)
        )
    }

    /// The lanes of the last order that are up.
    fn fresh(&self) -> impl Iterator<Item = &Standing> {
        let ordered = self.attempt.iter().flat_map(|attempt| &attempt.links);
        let up = ordered.filter(|ordered| ordered.report == Report::Up);
        up.map(|ordered| &ordered.lanes)
    }

    #[cfg(feature = "mutants")]
    fn fresh_that_way(&self, meant: BuiltLink) -> Option<(Standing, AdoptedLanes)> {
        let way = meant.link.way;
        let fresh = self.fresh().find(|fresh| fresh.lanes.link.way == way);
        fresh.map(Standing::used)
    }
}

impl Standing {
    fn used(&self) -> (Self, AdoptedLanes) {
        (*self, AdoptedLanes::Use(self.lanes.built))
    }
}

impl Ordered {
    fn of(link: LinkId, built: Round) -> Self {
        Self {
            lanes: Standing {
                lanes: BuiltLink { link, built },
                broken: false,
            },
            report: Report::Owed,
        }
    }
}

/// Whether `me` is in the ring, and these are links to members of it, those to its neighbours included.
fn makes_ring(layout: &Layout, ring: &Ring, me: PeerId) -> bool {
    let to_next = ring.next_of(me).map(LinkId::to);
    let from_previous = ring.previous_of(me).map(LinkId::from);
    let mut of_ring = to_next.into_iter().chain(from_previous);
    let is_to_member =
        |built: &BuiltLink| built.link.with != me && ring.rank_of(built.link.with).is_some();
    ring.rank_of(me).is_some()
        && layout.is_in_order()
        && layout.0.iter().all(is_to_member)
        && of_ring.all(|link| layout.built(link).is_some())
}
