//! The data plane of each process: lanes, orders to connect them, measurements.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{Round, Tag};
use pccl_core::peer::{AdoptedEdge, PeerInput, PeerOutput};
use pccl_core::topology::{Edge, LaneFailure, LaneOrder, Ring, Topology};

use super::ring::{Buffer, Frame, RingRun};
use super::seat::SeatNo;
use super::state::{Memory, Moving};
use super::{Run, ip_of};

/// Lanes of one ring edge: sender, receiver, and the round in which they were built.
pub(crate) type LinkKey = (SeatNo, SeatNo, Round);

/// What lies between the processes.
#[derive(Clone, Default)]
pub(crate) struct Fabric {
    /// Pairs that cannot be connected, lower number first.
    pub(crate) blocked: BTreeSet<(SeatNo, SeatNo)>,
    /// Pairs between which no shared state arrives, lower number first.
    pub(crate) untransferable: BTreeSet<(SeatNo, SeatNo)>,
    /// No ring edge can be connected, although measurements go through.
    pub(crate) no_edges: bool,
    /// Processes that cannot measure.
    pub(crate) cannot_measure: BTreeSet<SeatNo>,
    pub(crate) links: BTreeMap<LinkKey, Link>,
}

#[derive(Clone, Default)]
pub(crate) struct Link {
    pub(crate) broken: bool,
    pub(crate) frames: Vec<Frame>,
}

impl Fabric {
    fn is_blocked(&self, one: SeatNo, other: SeatNo) -> bool {
        self.blocked.contains(&(one.min(other), one.max(other)))
    }

    pub(super) fn is_broken(&self, key: &LinkKey) -> bool {
        self.links.get(key).is_none_or(|link| link.broken)
    }
}

/// One end of a ring edge.
#[derive(Clone, Debug)]
struct Ordered {
    order: LaneOrder,
    up: Option<LinkKey>,
    /// What became of it was reported.
    reported: bool,
}

/// The last order to connect edges.
#[derive(Clone, Debug)]
struct Order {
    round: Round,
    next: Option<Ordered>,
    previous: Option<Ordered>,
}

impl Order {
    fn ends(&self) -> impl Iterator<Item = (Edge, &Ordered)> {
        let next = self.next.iter().map(|end| (Edge::ToNext, end));
        next.chain(self.previous.iter().map(|end| (Edge::FromPrevious, end)))
    }

    fn end_mut(&mut self, edge: Edge) -> Option<&mut Ordered> {
        match edge {
            Edge::ToNext => self.next.as_mut(),
            Edge::FromPrevious => self.previous.as_mut(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Plane {
    order: Option<Order>,
    pub(crate) next: Option<LinkKey>,
    pub(crate) previous: Option<LinkKey>,
    pub(crate) topology: Topology,
    pub(super) rings: Vec<RingRun>,
    pub(super) buffers: BTreeMap<Tag, Buffer>,
    pub(crate) memory: Memory,
    pub(super) moving: Option<Moving>,
    probing: Option<(Round, Vec<LaneOrder>)>,
}

impl Plane {
    pub(super) fn new() -> Self {
        Self {
            order: None,
            next: None,
            previous: None,
            topology: Topology::default(),
            rings: Vec::new(),
            buffers: BTreeMap::new(),
            memory: Memory::default(),
            moving: None,
            probing: None,
        }
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.topology.ring
    }

    pub(crate) fn runs_tag(&self, tag: Tag) -> bool {
        self.rings.iter().any(|ring| ring.tag == tag)
    }

    /// Which of this end's edges a link is, standing or up and waiting to stand.
    fn edge_of(&self, key: LinkKey) -> Option<Edge> {
        let mut fresh = self.order.iter().flat_map(Order::ends);
        if self.next == Some(key) {
            Some(Edge::ToNext)
        } else if self.previous == Some(key) {
            Some(Edge::FromPrevious)
        } else {
            fresh
                .find(|(_, end)| end.up == Some(key))
                .map(|(edge, _)| edge)
        }
    }

    fn all_links(&self) -> BTreeSet<LinkKey> {
        let fresh = self.order.iter().flat_map(Order::ends);
        let fresh = fresh.filter_map(|(_, end)| end.up);
        fresh.chain(self.next).chain(self.previous).collect()
    }
}

impl Run {
    /// Carries out what a peer orders from its data plane.
    pub(super) fn order_plane(&mut self, no: SeatNo, output: PeerOutput) {
        match output {
            PeerOutput::Establish {
                round,
                next,
                previous,
                ..
            } => {
                self.connect_edges(no, round, next, previous);
            }
            PeerOutput::AdoptRing {
                topology,
                next,
                previous,
            } => self.adopt_ring(no, topology, (next, previous)),
            PeerOutput::RunRing { tag, seq, .. } => self.run_ring(no, tag, seq),
            PeerOutput::StopRing { seq } => self.stop_ring(no, seq),
            PeerOutput::MoveState(plan) => self.move_state(no, plan),
            PeerOutput::CommitState { round } => self.commit_state(no, round),
            PeerOutput::DropState { round } => self.drop_state(no, round),
            PeerOutput::Probe { round, probes } => {
                self.seats[no].plane.probing = Some((round, probes));
            }
            PeerOutput::Send(_)
            | PeerOutput::Answer(_)
            | PeerOutput::StartTimer { .. }
            | PeerOutput::StopTimer(_)
            | PeerOutput::Close => {}
        }
    }

    /// The data plane of a process does one thing. False: it has nothing to do.
    pub(super) fn work(&mut self, no: SeatNo) -> bool {
        self.dial(no) || self.advance_rings(no) || self.advance_move(no) || self.measure(no)
    }

    fn connect_edges(
        &mut self,
        no: SeatNo,
        round: Round,
        next: Option<LaneOrder>,
        previous: Option<LaneOrder>,
    ) {
        let unused = self.seats[no].plane.order.take();
        self.drop_links(
            no,
            unused
                .iter()
                .flat_map(Order::ends)
                .filter_map(|(_, end)| end.up),
        );
        let ordered = |order| Ordered {
            order,
            up: None,
            reported: false,
        };
        self.seats[no].plane.order = Some(Order {
            round,
            next: next.map(ordered),
            previous: previous.map(ordered),
        });
    }

    /// Opens one lane that this end is to dial.
    fn dial(&mut self, no: SeatNo) -> bool {
        let Some(order) = &self.seats[no].plane.order else {
            return false;
        };
        let round = order.round;
        let dialled = order
            .ends()
            .filter(|(_, end)| !end.reported && end.up.is_none() && end.order.dial.is_some())
            .map(|(edge, end)| (edge, end.order))
            .collect::<Vec<_>>();
        dialled
            .into_iter()
            .any(|(edge, order)| self.dial_one(no, round, edge, order))
    }

    fn dial_one(&mut self, no: SeatNo, round: Round, edge: Edge, order: LaneOrder) -> bool {
        let other = self
            .seat_with(order.with)
            .expect("orders name peers of the run");
        assert_eq!(order.dial.map(|at| at.ip()), Some(ip_of(other)));
        if self.fabric.no_edges || self.fabric.is_blocked(no, other) || self.is_out(other) {
            let failure = LaneFailure::Refused;
            self.seats[no].inbox.push_back(PeerInput::EdgeFailed {
                round,
                edge,
                failure,
            });
            let ordered = self.seats[no].plane.order.as_mut();
            if let Some(end) = ordered.and_then(|order| order.end_mut(edge)) {
                end.reported = true;
            }
            return true;
        }
        let (key, theirs) = match edge {
            Edge::ToNext => ((no, other, round), Edge::FromPrevious),
            Edge::FromPrevious => ((other, no, round), Edge::ToNext),
        };
        let expected = self.seats[other]
            .plane
            .order
            .as_mut()
            .filter(|o| o.round == round);
        let Some(end) = expected.and_then(|order| order.end_mut(theirs)) else {
            return false;
        };
        assert_eq!(
            end.order.ticket, order.ticket,
            "both ends hold the same ticket"
        );
        end.up = Some(key);
        if let Some(end) = self.seats[no]
            .plane
            .order
            .as_mut()
            .and_then(|o| o.end_mut(edge))
        {
            end.up = Some(key);
        }
        self.fabric.links.insert(key, Link::default());
        self.report_edge(no, round, edge);
        self.report_edge(other, round, theirs);
        true
    }

    fn report_edge(&mut self, no: SeatNo, round: Round, edge: Edge) {
        let order = self.seats[no].plane.order.as_mut();
        if let Some(end) = order.and_then(|order| order.end_mut(edge)) {
            end.reported = true;
            let up = PeerInput::EdgeUp { round, edge };
            self.seats[no].inbox.push_back(up);
        }
    }

    fn is_out(&self, no: SeatNo) -> bool {
        !self.seats[no].alive || self.seats[no].peer.view().ended().is_some()
    }

    /// Uses the lanes that it is told to, and drops all others.
    fn adopt_ring(
        &mut self,
        no: SeatNo,
        topology: Topology,
        (next, previous): (Option<AdoptedEdge>, Option<AdoptedEdge>),
    ) {
        let plane = &mut self.seats[no].plane;
        let had = plane.all_links();
        let order = plane.order.take();
        let choose = |edge: Edge, adopted: Option<AdoptedEdge>, standing: Option<LinkKey>| {
            let fresh = order.iter().flat_map(Order::ends).find(|(e, _)| *e == edge);
            let fresh = fresh.and_then(|(_, end)| end.up);
            adopted.map(|adopted| match adopted {
                AdoptedEdge::Keep => standing.expect("what is to be kept stands"),
                AdoptedEdge::Use(round) => fresh
                    .filter(|key| key.2 == round)
                    .expect("what is to be used is up"),
            })
        };
        plane.next = choose(Edge::ToNext, next, plane.next);
        plane.previous = choose(Edge::FromPrevious, previous, plane.previous);
        plane.topology = topology;
        let kept = plane.all_links();
        self.drop_links(no, had.difference(&kept).copied());
    }

    /// This end gives lanes up; the other end sees them close.
    fn drop_links(&mut self, no: SeatNo, links: impl Iterator<Item = LinkKey>) {
        for key in links.collect::<Vec<_>>() {
            let other = if key.0 == no { key.1 } else { key.0 };
            if !self.fabric.is_broken(&key) {
                self.fabric.links.entry(key).or_default().broken = true;
                self.notice_break(other, key);
            }
        }
    }

    fn notice_break(&mut self, no: SeatNo, key: LinkKey) {
        if let Some(edge) = self.seats[no].plane.edge_of(key) {
            let built = key.2;
            self.seats[no]
                .inbox
                .push_back(PeerInput::EdgeBroke { edge, built });
        }
    }

    /// A lane of a standing ring edge ends between two living peers; the first `kept` frames on
    /// their way still arrive.
    pub(crate) fn break_edge(&mut self, from: SeatNo, kept: usize) {
        let Some(key) = self.seats[from].plane.next else {
            return;
        };
        let link = self.fabric.links.entry(key).or_default();
        if !std::mem::replace(&mut link.broken, true) {
            link.frames.truncate(kept);
            self.notice_break(key.0, key);
            self.notice_break(key.1, key);
        }
    }

    /// All lanes of a process end.
    pub(super) fn fabric_drop(&mut self, no: SeatNo) {
        let links = self.seats[no].plane.all_links();
        self.drop_links(no, links.into_iter());
        let plane = &mut self.seats[no].plane;
        (plane.next, plane.previous, plane.order) = (None, None, None);
        plane.rings.clear();
        plane.moving = None;
        plane.probing = None;
    }

    fn measure(&mut self, no: SeatNo) -> bool {
        let Some((round, probes)) = self.seats[no].plane.probing.take() else {
            return false;
        };
        let ok = !self.fabric.cannot_measure.contains(&no);
        for order in probes.iter().filter(|order| ok && order.dial.is_some()) {
            let other = self
                .seat_with(order.with)
                .expect("orders name peers of the run");
            if !self.fabric.is_blocked(no, other) && !self.is_out(other) {
                // Anything that makes one order better than another.
                let kbit_per_s = 1000 + (no * 7 + other * 13) as u64 % 17;
                let to = order.with;
                self.seats[no].inbox.push_back(PeerInput::Measured {
                    round,
                    to,
                    kbit_per_s,
                });
            }
        }
        self.seats[no]
            .inbox
            .push_back(PeerInput::ProbesEnded { round, ok });
        true
    }
}
