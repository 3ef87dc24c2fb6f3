//! The data plane of one process: lanes, orders to connect them, rings over symbols, transfers.
//!
//! Contents are symbols: what a collective computes is a list of contributions (see [`plan_run`](crate::plan_run)),
//! shared state is its hash.

use std::collections::VecDeque;

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round, Seq};
use pccl_core::peer::{AdoptedLanes, AdoptedLink};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::{LinkId, LinkOrder, Topology};

use crate::plan_run::{Frame, PlanRun, Told};

/// One end of the lanes of a link. The receiving end holds what is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// Of which link they are.
    pub link: LinkId,
    /// The round in which they were built.
    pub built: Round,
    /// The other end is gone, or the lanes broke.
    pub cut: bool,
    /// This end knows.
    pub noticed: bool,
    /// On their way to this end.
    pub frames: VecDeque<Frame>,
}

impl Lanes {
    const fn new(link: LinkId, built: Round) -> Self {
        Self {
            link,
            built,
            cut: false,
            noticed: false,
            frames: VecDeque::new(),
        }
    }
}

/// A frame that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Over this link.
    pub over: LinkId,
    /// What it is.
    pub frame: Frame,
}

/// A link that is to be connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ordered {
    /// Which link.
    pub link: LinkId,
    /// This end opens the lanes.
    pub dials: bool,
    /// How far that is.
    pub progress: LinkProgress,
}

/// How far the lanes of an ordered link are at one end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkProgress {
    /// Nothing has happened.
    Owed,
    /// The end that opens them has asked, and the other one has taken them.
    Answered,
    /// They are up.
    Up(Lanes),
    /// They did not come up, which was reported.
    Failed,
}

impl Ordered {
    fn new(order: &LinkOrder) -> Self {
        Self {
            link: order.link(),
            dials: order.lanes.dial.is_some(),
            progress: LinkProgress::Owed,
        }
    }

    /// Has this end to open them, and has it not said how that went?
    #[must_use]
    pub fn is_owed(&self) -> bool {
        let is_open = match &self.progress {
            LinkProgress::Owed | LinkProgress::Answered => true,
            LinkProgress::Up(_) | LinkProgress::Failed => false,
        };
        self.dials && is_open
    }

    /// The lanes, once they are up.
    #[must_use]
    pub fn lanes(&self) -> Option<&Lanes> {
        match &self.progress {
            LinkProgress::Up(lanes) => Some(lanes),
            LinkProgress::Owed | LinkProgress::Answered | LinkProgress::Failed => None,
        }
    }

    fn lanes_mut(&mut self) -> Option<&mut Lanes> {
        match &mut self.progress {
            LinkProgress::Up(lanes) => Some(lanes),
            LinkProgress::Owed | LinkProgress::Answered | LinkProgress::Failed => None,
        }
    }

    fn into_lanes(self) -> Option<Lanes> {
        match self.progress {
            LinkProgress::Up(lanes) => Some(lanes),
            LinkProgress::Owed | LinkProgress::Answered | LinkProgress::Failed => None,
        }
    }
}

/// The last order to connect links.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The round of the order.
    pub round: Round,
    /// In the order of their names.
    pub links: Vec<Ordered>,
}

impl Order {
    /// The order about one link.
    #[must_use]
    pub fn link(&self, link: LinkId) -> Option<&Ordered> {
        self.links.iter().find(|ordered| ordered.link == link)
    }

    /// The same to change.
    pub fn link_mut(&mut self, link: LinkId) -> Option<&mut Ordered> {
        self.links.iter_mut().find(|ordered| ordered.link == link)
    }

    /// Has this end to open lanes of which it has said nothing?
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.links.iter().any(Ordered::is_owed)
    }

    fn into_lanes(self) -> impl Iterator<Item = Lanes> {
        self.links.into_iter().filter_map(Ordered::into_lanes)
    }
}

/// A synchronization that is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moving {
    /// The plan.
    pub plan: SyncPlan,
    /// Those who ask here and have been served.
    pub served: Vec<PeerId>,
    /// Its end was reported.
    pub ended: bool,
    /// What has arrived and is kept aside.
    pub staged: Vec<(EntryIndex, ContentHash)>,
}

impl Moving {
    /// Whether this end serves, and all who ask here have what they asked for.
    #[must_use]
    pub fn is_served(&self) -> bool {
        match &self.plan.role {
            SyncRole::Distribute { to } => to.iter().all(|order| self.served.contains(&order.with)),
            SyncRole::Request { .. } => false,
        }
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plane {
    /// The last order to connect links, while it is unfinished.
    pub order: Option<Order>,
    /// The standing links, in the order of their names.
    pub standing: Vec<Lanes>,
    /// The ring that is in use.
    pub topology: Topology,
    /// The executions that run.
    pub runs: Vec<PlanRun>,
    /// Results that are whole, and wait for their verdict.
    pub whole: Vec<PlanRun>,
    /// The last execution that was started here.
    pub newest: Seq,
    /// The synchronization that is carried out.
    pub moving: Option<Moving>,
    /// Measurements that are to be made.
    pub probing: Option<(Round, Vec<LinkOrder>)>,
}

impl Plane {
    /// The standing end of a link.
    #[must_use]
    pub fn standing(&self, link: LinkId) -> Option<&Lanes> {
        self.standing.iter().find(|lanes| lanes.link == link)
    }

    /// The standing link to the next rank.
    #[must_use]
    pub fn to_next(&self, me: PeerId) -> Option<&Lanes> {
        self.standing(LinkId::to(self.topology.ring.next_of(me)?))
    }

    /// The standing lanes of a link, and those that are up and wait to become standing.
    pub fn lanes_mut(&mut self, link: LinkId) -> impl Iterator<Item = &mut Lanes> {
        let standing = self.standing.iter_mut();
        let ordered = self.order.as_mut().and_then(|order| order.link_mut(link));
        standing
            .filter(move |lanes| lanes.link == link)
            .chain(ordered.and_then(Ordered::lanes_mut))
    }

    /// Does anything run here whose end has to be reported?
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        let moves = self.moving.as_ref().is_some_and(|moving| !moving.ended);
        !self.runs.is_empty() || moves || self.probing.is_some()
    }

    /// The same to look at.
    pub fn lanes(&self, link: LinkId) -> impl Iterator<Item = &Lanes> {
        let ordered = self.order.as_ref().and_then(|order| order.link(link));
        self.standing(link)
            .into_iter()
            .chain(ordered.and_then(Ordered::lanes))
    }

    /// The links that stand, and after them those that are ordered and do not stand.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        let ordered = self.order.iter().flat_map(|order| &order.links);
        let ordered = ordered.map(|ordered| ordered.link);
        let fresh = ordered.filter(|link| self.standing(*link).is_none());
        self.standing.iter().map(|lanes| lanes.link).chain(fresh)
    }

    /// Takes an order; returns the lanes of the one before, which are to be dropped.
    pub fn take_order(&mut self, round: Round, links: &[LinkOrder]) -> Vec<Lanes> {
        let links = links.iter().map(Ordered::new).collect();
        let unused = self.order.replace(Order { round, links });
        unused.into_iter().flat_map(Order::into_lanes).collect()
    }

    /// The ordered lanes of a link are up at this end.
    pub fn comes_up(&mut self, link: LinkId) {
        if let Some(order) = &mut self.order {
            let round = order.round;
            if let Some(ordered) = order.link_mut(link) {
                ordered.progress = LinkProgress::Up(Lanes::new(link, round));
            }
        }
    }

    /// Makes a ring the one in use, with the lanes that are named and no others.
    pub fn adopt(&mut self, topology: Topology, links: &[AdoptedLink]) -> Adoption {
        let mut standing = std::mem::take(&mut self.standing);
        let mut fresh: Vec<Lanes> = self
            .order
            .take()
            .into_iter()
            .flat_map(Order::into_lanes)
            .collect();
        let mut kept_beside_fresh = false;
        let chosen = links
            .iter()
            .filter_map(|AdoptedLink { link, lanes }| match lanes {
                AdoptedLanes::Keep => {
                    kept_beside_fresh |= fresh.iter().any(|lanes| lanes.link.way == link.way);
                    take_out(&mut standing, |lanes| lanes.link == *link)
                }
                AdoptedLanes::Use(round) => {
                    let is_meant = |lanes: &Lanes| lanes.link == *link && lanes.built == *round;
                    take_out(&mut fresh, is_meant)
                }
            });
        self.standing = chosen.collect();
        self.topology = topology;
        standing.append(&mut fresh);
        Adoption {
            dropped: standing,
            is_complete: self.standing.len() == links.len(),
            kept_beside_fresh,
        }
    }

    /// Everything that this end holds of lanes; it drops them all.
    pub fn drop_all(&mut self) -> Vec<Lanes> {
        let mut dropped = std::mem::take(&mut self.standing);
        dropped.extend(self.order.take().into_iter().flat_map(Order::into_lanes));
        *self = Self::default();
        dropped
    }

    /// Starts an execution; returns the first frames to send.
    pub fn run_plan(
        &mut self,
        me: PeerId,
        (tag, seq): (u8, Seq),
        (kind, lengths, algorithm): Told<'_, PeerId>,
    ) -> Vec<Sent> {
        let ring = &self.topology.ring;
        let rank = ring.rank_of(me).and_then(|rank| u32::try_from(rank).ok());
        let run = rank.zip(kind.among(&ring.0)).and_then(|(rank, kind)| {
            PlanRun::new(
                me,
                (rank, self.topology.sites.sites()),
                (tag, seq),
                (kind, lengths, algorithm),
            )
        });
        let Some(run) = run else {
            return Vec::new();
        };
        let first = self.over_links(run.first_frames());
        // What was whole and begun ahead in vain is undone.
        self.whole.retain(|whole| whole.tag != tag);
        self.newest = self.newest.max(seq);
        self.runs.push(run);
        first
    }

    /// Over which links frames go to other ranks.
    fn over_links(&self, frames: Vec<(u32, Frame)>) -> Vec<Sent> {
        let over_link = |(rank, frame)| {
            let over = LinkId::to(self.rank(rank)?);
            Some(Sent { over, frame })
        };
        frames.into_iter().filter_map(over_link).collect()
    }

    fn rank(&self, rank: u32) -> Option<PeerId> {
        self.topology.ring.0.get(rank as usize).copied()
    }

    /// On which link the next frame of an execution comes.
    fn awaits(&self, run: &PlanRun) -> Option<LinkId> {
        run.awaits()
            .and_then(|rank| self.rank(rank))
            .map(LinkId::from)
    }

    /// Whether an execution needs this link.
    #[must_use]
    pub fn uses(&self, run: &PlanRun, link: LinkId) -> bool {
        let with = self.topology.ring.rank_of(link.with);
        let with = with.and_then(|rank| u32::try_from(rank).ok());
        with.is_some_and(|with| run.uses(link.way, with))
    }

    /// The frame that one of the executions here waits for, if it has arrived.
    #[must_use]
    pub fn expected(&self, tag: u8) -> Option<Frame> {
        let run = self.runs.iter().find(|run| run.tag == tag)?;
        let lanes = self.standing(self.awaits(run)?)?;
        let awaited = |frame: &&Frame| frame.seq == run.seq && frame.step == run.at;
        lanes.frames.iter().find(awaited).copied()
    }

    /// Takes the frame that an execution waits for; returns what is to be sent on. `Err`: the frame is not
    /// what the plan expects.
    pub fn take_frame(&mut self, frame: Frame) -> Result<Vec<Sent>, Frame> {
        let run = self.runs.iter().position(|run| run.seq == frame.seq);
        let at = run.ok_or(frame)?;
        let from = self.runs.get(at).and_then(|run| self.awaits(run));
        let mut standing = self.standing.iter_mut();
        if let Some(lanes) = standing.find(|lanes| Some(lanes.link) == from)
            && let Some(at) = lanes.frames.iter().position(|known| *known == frame)
        {
            lanes.frames.remove(at);
        }
        let run = self.runs.get_mut(at).ok_or(frame)?;
        let onward = run.take(frame)?;
        Ok(self.over_links(onward))
    }

    /// Executions that are complete here stop running and wait for their verdict.
    pub fn reap(&mut self) -> Vec<Seq> {
        let (done, running) = std::mem::take(&mut self.runs)
            .into_iter()
            .partition::<Vec<_>, _>(PlanRun::is_done);
        self.runs = running;
        let ended = done.iter().map(|run| run.seq).collect();
        self.whole.extend(done);
        self.drop_old_frames();
        ended
    }

    /// Ends an execution here: what of it is not whole is given up, and its frames are nobody's.
    pub fn stop(&mut self, seq: Seq) {
        self.newest = self.newest.max(seq);
        self.runs.retain(|run| run.seq != seq);
        self.drop_old_frames();
    }

    /// Frames of executions that have ended here are read and thrown away.
    fn drop_old_frames(&mut self) {
        let (runs, newest) = (&self.runs, self.newest);
        let wanted =
            |frame: &Frame| frame.seq > newest || runs.iter().any(|run| run.seq == frame.seq);
        for lanes in &mut self.standing {
            lanes.frames.retain(wanted);
        }
    }
}

fn take_out(lanes: &mut Vec<Lanes>, is_meant: impl Fn(&Lanes) -> bool) -> Option<Lanes> {
    let at = lanes.iter().position(is_meant)?;
    Some(lanes.remove(at))
}

/// What became of lanes when another ring was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// Lanes that this end gives up.
    pub dropped: Vec<Lanes>,
    /// All lanes that were named were there.
    pub is_complete: bool,
    /// Lanes were kept although others of their direction were connected since.
    pub kept_beside_fresh: bool,
}
