//! The data plane of one process: lanes, orders to connect them, rings over symbols, transfers.
//!
//! Contents are symbols: what a collective computes is a list of contributions (see [`ring`](crate::ring)),
//! shared state is its hash.

use std::collections::VecDeque;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round, Seq};
use pccl_core::peer::AdoptedEdge;
use pccl_core::shared_state::SyncPlan;
use pccl_core::topology::{Edge, LaneOrder, Topology};

use crate::ring::{Frame, RingRun};

/// One end of the lanes of a ring edge. The receiving end holds what is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// Who is at the other end.
    pub with: PeerId,
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
    fn new(with: PeerId, built: Round) -> Self {
        Self {
            with,
            built,
            cut: false,
            noticed: false,
            frames: VecDeque::new(),
        }
    }
}

/// An edge that is to be connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ordered {
    /// With whom.
    pub with: PeerId,
    /// This end opens the lanes.
    pub dials: bool,
    /// How far that is.
    pub progress: Progress,
}

/// How far the lanes of an ordered edge are at one end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
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
    fn new(order: LaneOrder) -> Self {
        Self {
            with: order.with,
            dials: order.dial.is_some(),
            progress: Progress::Owed,
        }
    }

    /// Has this end to open them, and has it not said how that went?
    #[must_use]
    pub fn is_owed(&self) -> bool {
        let is_open = match &self.progress {
            Progress::Owed | Progress::Answered => true,
            Progress::Up(_) | Progress::Failed => false,
        };
        self.dials && is_open
    }

    /// The lanes, once they are up.
    #[must_use]
    pub fn lanes(&self) -> Option<&Lanes> {
        match &self.progress {
            Progress::Up(lanes) => Some(lanes),
            Progress::Owed | Progress::Answered | Progress::Failed => None,
        }
    }

    fn lanes_mut(&mut self) -> Option<&mut Lanes> {
        match &mut self.progress {
            Progress::Up(lanes) => Some(lanes),
            Progress::Owed | Progress::Answered | Progress::Failed => None,
        }
    }

    fn into_lanes(self) -> Option<Lanes> {
        match self.progress {
            Progress::Up(lanes) => Some(lanes),
            Progress::Owed | Progress::Answered | Progress::Failed => None,
        }
    }
}

/// The last order to connect edges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The round of the order.
    pub round: Round,
    /// The edge to send on.
    pub next: Option<Ordered>,
    /// The edge to receive on.
    pub previous: Option<Ordered>,
}

impl Order {
    /// The order about one edge.
    #[must_use]
    pub fn edge(&self, edge: Edge) -> Option<&Ordered> {
        match edge {
            Edge::ToNext => self.next.as_ref(),
            Edge::FromPrevious => self.previous.as_ref(),
        }
    }

    /// Has this end to open lanes of which it has said nothing?
    #[must_use]
    pub fn is_owed(&self) -> bool {
        let edges = [&self.next, &self.previous].into_iter().flatten();
        edges.into_iter().any(Ordered::is_owed)
    }

    /// The same to change.
    pub fn edge_mut(&mut self, edge: Edge) -> Option<&mut Ordered> {
        match edge {
            Edge::ToNext => self.next.as_mut(),
            Edge::FromPrevious => self.previous.as_mut(),
        }
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

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plane {
    /// The last order to connect edges, while it is unfinished.
    pub order: Option<Order>,
    /// The standing edge to send on.
    pub next: Option<Lanes>,
    /// The standing edge to receive on.
    pub previous: Option<Lanes>,
    /// The ring that is in use.
    pub topology: Topology,
    /// What runs.
    pub rings: Vec<RingRun>,
    /// Results that are whole, and wait for their verdict.
    pub whole: Vec<RingRun>,
    /// The last execution that was started here.
    pub newest: Seq,
    /// The synchronization that is carried out.
    pub moving: Option<Moving>,
    /// Measurements that are to be made.
    pub probing: Option<(Round, Vec<LaneOrder>)>,
}

impl Plane {
    /// The standing end of an edge.
    #[must_use]
    pub fn standing(&self, edge: Edge) -> Option<&Lanes> {
        match edge {
            Edge::ToNext => self.next.as_ref(),
            Edge::FromPrevious => self.previous.as_ref(),
        }
    }

    /// The standing lanes of an edge, and those that are up and wait to become standing.
    pub fn lanes_mut(&mut self, edge: Edge) -> impl Iterator<Item = &mut Lanes> {
        let (standing, order) = match edge {
            Edge::ToNext => (&mut self.next, &mut self.order),
            Edge::FromPrevious => (&mut self.previous, &mut self.order),
        };
        let ordered = order.as_mut().and_then(|order| order.edge_mut(edge));
        standing
            .iter_mut()
            .chain(ordered.and_then(Ordered::lanes_mut))
    }

    /// Does anything run here whose end has to be reported?
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        let moves = self.moving.as_ref().is_some_and(|moving| !moving.ended);
        !self.rings.is_empty() || moves || self.probing.is_some()
    }

    /// The same to look at.
    pub fn lanes(&self, edge: Edge) -> impl Iterator<Item = &Lanes> {
        let ordered = self.order.as_ref().and_then(|order| order.edge(edge));
        self.standing(edge)
            .into_iter()
            .chain(ordered.and_then(Ordered::lanes))
    }

    /// Takes an order; returns the lanes of the one before, which are to be dropped.
    pub fn take_order(
        &mut self,
        round: Round,
        next: Option<LaneOrder>,
        previous: Option<LaneOrder>,
    ) -> Vec<(Edge, Lanes)> {
        let unused = self.order.replace(Order {
            round,
            next: next.map(Ordered::new),
            previous: previous.map(Ordered::new),
        });
        unused.map(lanes_of_order).unwrap_or_default()
    }

    /// The ordered lanes of an edge are up at this end.
    pub fn comes_up(&mut self, edge: Edge) {
        if let Some(order) = &mut self.order {
            let round = order.round;
            if let Some(ordered) = order.edge_mut(edge) {
                ordered.progress = Progress::Up(Lanes::new(ordered.with, round));
            }
        }
    }

    /// Makes a ring the one in use, with the lanes that are named and no others.
    pub fn adopt(
        &mut self,
        topology: Topology,
        next: Option<AdoptedEdge>,
        previous: Option<AdoptedEdge>,
    ) -> Adopted {
        let (mut fresh_next, mut fresh_previous) = (None, None);
        if let Some(order) = self.order.take() {
            fresh_next = order.next.and_then(Ordered::into_lanes);
            fresh_previous = order.previous.and_then(Ordered::into_lanes);
        }
        let mut adopted = Adopted {
            dropped: Vec::new(),
            is_complete: true,
            kept_beside_fresh: false,
        };
        let standing = self.next.take();
        self.next = adopted.choose(Edge::ToNext, next, fresh_next, standing);
        let standing = self.previous.take();
        self.previous = adopted.choose(Edge::FromPrevious, previous, fresh_previous, standing);
        self.topology = topology;
        adopted
    }

    /// Everything that this end holds of lanes; it drops them all.
    pub fn drop_all(&mut self) -> Vec<(Edge, Lanes)> {
        let mut dropped = self.order.take().map(lanes_of_order).unwrap_or_default();
        dropped.extend(self.next.take().map(|lanes| (Edge::ToNext, lanes)));
        dropped.extend(
            self.previous
                .take()
                .map(|lanes| (Edge::FromPrevious, lanes)),
        );
        *self = Self::default();
        dropped
    }

    /// Starts an execution; returns the first frame to send.
    pub fn run_ring(
        &mut self,
        me: PeerId,
        tag: u8,
        seq: Seq,
        spec: &CollectiveSpec,
    ) -> Option<Frame> {
        let ring = &self.topology.ring;
        let world = u32::try_from(ring.world_size()).ok()?;
        let rank = u32::try_from(ring.rank_of(me)?).ok()?;
        let run = RingRun::new(me, (rank, world), (tag, seq), spec)?;
        let first = run.first_frame();
        self.newest = self.newest.max(seq);
        self.rings.push(run);
        first
    }

    /// The frame that one of the rings here waits for, if it has arrived.
    #[must_use]
    pub fn expected(&self, tag: u8) -> Option<Frame> {
        let run = self.rings.iter().find(|run| run.tag == tag)?;
        let lanes = self.previous.as_ref()?;
        let awaited = |frame: &&Frame| frame.seq == run.seq && frame.step == run.at;
        lanes.frames.iter().find(awaited).copied()
    }

    /// Takes the frame that a ring waits for; returns what is to be sent on. `Err`: the frame is not
    /// what the plan expects.
    pub fn take_frame(&mut self, frame: Frame) -> Result<Option<Frame>, Frame> {
        if let Some(lanes) = &mut self.previous
            && let Some(at) = lanes.frames.iter().position(|known| *known == frame)
        {
            lanes.frames.remove(at);
        }
        let run = self.rings.iter_mut().find(|run| run.seq == frame.seq);
        let run = run.ok_or(frame)?;
        run.take(frame)
    }

    /// Rings that are complete here stop running and wait for their verdict.
    pub fn reap(&mut self) -> Vec<Seq> {
        let (done, running) = std::mem::take(&mut self.rings)
            .into_iter()
            .partition::<Vec<_>, _>(RingRun::is_done);
        self.rings = running;
        let ended = done.iter().map(|run| run.seq).collect();
        self.whole.extend(done);
        self.drop_old_frames();
        ended
    }

    /// Gives an execution up.
    pub fn stop(&mut self, seq: Seq) {
        self.rings.retain(|run| run.seq != seq);
        self.drop_old_frames();
    }

    /// Frames of executions that have ended here are read and thrown away.
    fn drop_old_frames(&mut self) {
        let (rings, newest) = (&self.rings, self.newest);
        if let Some(lanes) = &mut self.previous {
            let wanted =
                |frame: &Frame| frame.seq > newest || rings.iter().any(|run| run.seq == frame.seq);
            lanes.frames.retain(wanted);
        }
    }
}

fn lanes_of_order(order: Order) -> Vec<(Edge, Lanes)> {
    let next = order.next.and_then(Ordered::into_lanes);
    let previous = order.previous.and_then(Ordered::into_lanes);
    let next = next.map(|lanes| (Edge::ToNext, lanes));
    next.into_iter()
        .chain(previous.map(|lanes| (Edge::FromPrevious, lanes)))
        .collect()
}

/// What became of lanes where another ring was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Lanes that this end gives up.
    pub dropped: Vec<(Edge, Lanes)>,
    /// All lanes that were named were there.
    pub is_complete: bool,
    /// Lanes were kept although others were connected for their edge since.
    pub kept_beside_fresh: bool,
}

impl Adopted {
    /// The lanes that are named; the others are dropped.
    fn choose(
        &mut self,
        edge: Edge,
        named: Option<AdoptedEdge>,
        fresh: Option<Lanes>,
        standing: Option<Lanes>,
    ) -> Option<Lanes> {
        let (chosen, unused) = match named {
            None => (None, [fresh, standing]),
            Some(AdoptedEdge::Keep) => {
                self.kept_beside_fresh |= fresh.is_some();
                (standing, [fresh, None])
            }
            Some(AdoptedEdge::Use(round)) => match fresh {
                Some(lanes) if lanes.built == round => (Some(lanes), [standing, None]),
                other => (None, [other, standing]),
            },
        };
        self.is_complete &= named.is_none() || chosen.is_some();
        let unused = unused.into_iter().flatten();
        self.dropped.extend(unused.map(|lanes| (edge, lanes)));
        chosen
    }
}
