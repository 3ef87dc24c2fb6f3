//! The data plane of one process: lanes, orders to connect them, rings over symbols, transfers.
//!
//! Contents are symbols: what a collective computes is a list of contributions (see [`ring`](crate::ring)),
//! shared state is its hash.

use std::collections::VecDeque;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round, Seq};
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
    /// The lanes, once they are up.
    pub lanes: Option<Lanes>,
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
    /// Its outcome was reported.
    pub reported: bool,
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

    fn edge_mut(&mut self, edge: Edge) -> Option<&mut Ordered> {
        match edge {
            Edge::ToNext => self.next.as_mut(),
            Edge::FromPrevious => self.previous.as_mut(),
        }
    }

    /// Are all lanes up?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let mut edges = self.next.iter().chain(&self.previous);
        edges.all(|edge| edge.lanes.is_some())
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
            .chain(ordered.and_then(|edge| edge.lanes.as_mut()))
    }

    /// The same to look at.
    pub fn lanes(&self, edge: Edge) -> impl Iterator<Item = &Lanes> {
        let ordered = self.order.as_ref().and_then(|order| order.edge(edge));
        self.standing(edge)
            .into_iter()
            .chain(ordered.and_then(|edge| edge.lanes.as_ref()))
    }

    /// Takes an order; returns the lanes of the one before, which are to be dropped.
    pub fn take_order(
        &mut self,
        round: Round,
        next: Option<LaneOrder>,
        previous: Option<LaneOrder>,
    ) -> Vec<(Edge, Lanes)> {
        let ordered = |order: LaneOrder| Ordered {
            with: order.with,
            dials: order.dial.is_some(),
            lanes: None,
        };
        let reported = next.is_none() && previous.is_none();
        let unused = self.order.replace(Order {
            round,
            next: next.map(ordered),
            previous: previous.map(ordered),
            reported,
        });
        unused.map(lanes_of_order).unwrap_or_default()
    }

    /// The ordered lanes of an edge are up at this end.
    pub fn comes_up(&mut self, edge: Edge) {
        if let Some(order) = &mut self.order {
            let round = order.round;
            if let Some(ordered) = order.edge_mut(edge) {
                ordered.lanes = Some(Lanes::new(ordered.with, round));
            }
        }
    }

    /// Makes a ring the one in use; returns the lanes that are to be dropped.
    pub fn adopt(&mut self, me: PeerId, topology: Topology) -> Vec<(Edge, Lanes)> {
        let (mut fresh_next, mut fresh_previous) = (None, None);
        if let Some(order) = self.order.take() {
            fresh_next = order.next.and_then(|edge| edge.lanes);
            fresh_previous = order.previous.and_then(|edge| edge.lanes);
        }
        let mut dropped = Vec::new();
        let neighbours = (topology.ring.next_of(me), topology.ring.previous_of(me));
        let standing = self.next.take();
        self.next = choose(
            Edge::ToNext,
            neighbours.0,
            fresh_next,
            standing,
            &mut dropped,
        );
        let standing = self.previous.take();
        self.previous = choose(
            Edge::FromPrevious,
            neighbours.1,
            fresh_previous,
            standing,
            &mut dropped,
        );
        self.topology = topology;
        dropped
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
        let first = run.frame(0);
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
    /// what the schedule expects.
    pub fn take_frame(&mut self, frame: Frame) -> Result<Option<Frame>, Frame> {
        if let Some(lanes) = &mut self.previous
            && let Some(at) = lanes.frames.iter().position(|known| *known == frame)
        {
            lanes.frames.remove(at);
        }
        let run = self.rings.iter_mut().find(|run| run.seq == frame.seq);
        let run = run.ok_or(frame)?;
        if !run.take(frame) {
            return Err(frame);
        }
        Ok(run.frame(run.at))
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
    let next = order.next.and_then(|edge| edge.lanes);
    let previous = order.previous.and_then(|edge| edge.lanes);
    let next = next.map(|lanes| (Edge::ToNext, lanes));
    next.into_iter()
        .chain(previous.map(|lanes| (Edge::FromPrevious, lanes)))
        .collect()
}

/// Fresh lanes where they lead to the neighbour, else those that stand; the others are dropped.
fn choose(
    edge: Edge,
    neighbour: Option<PeerId>,
    fresh: Option<Lanes>,
    standing: Option<Lanes>,
    dropped: &mut Vec<(Edge, Lanes)>,
) -> Option<Lanes> {
    let mut chosen = None;
    for lanes in [fresh, standing].into_iter().flatten() {
        if chosen.is_none() && Some(lanes.with) == neighbour {
            chosen = Some(lanes);
        } else {
            dropped.push((edge, lanes));
        }
    }
    chosen
}
