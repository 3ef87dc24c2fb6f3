//! The data plane of each process: lanes, orders to connect them, measurements.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{Round, Tag};
use pccl_core::peer::{AdoptedLanes, AdoptedLink, PeerInput, PeerOutput};
use pccl_core::topology::{LaneFailure, LaneOrder, LinkId, LinkOrder, Ring, Topology, Way};

use super::ring::{Buffer, Frame, RingRun};
use super::seat::SeatNo;
use super::state::{Memory, Moving};
use super::{Run, ip_of};

/// Lanes of one link: sender, receiver, and the round in which they were built.
pub(crate) type LinkKey = (SeatNo, SeatNo, Round);

/// What lies between the processes.
#[derive(Clone, Default)]
pub(crate) struct Fabric {
    /// Pairs that cannot be connected, lower number first.
    pub(crate) blocked: BTreeSet<(SeatNo, SeatNo)>,
    /// Pairs between which no shared state arrives, lower number first.
    pub(crate) untransferable: BTreeSet<(SeatNo, SeatNo)>,
    /// No link can be connected, although measurements go through.
    pub(crate) no_links: bool,
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

/// One end of a link.
#[derive(Clone, Debug)]
struct Ordered {
    order: LaneOrder,
    up: Option<LinkKey>,
    /// What became of it was reported.
    reported: bool,
}

/// The last order to connect links.
#[derive(Clone, Debug)]
struct Order {
    round: Round,
    ends: BTreeMap<LinkId, Ordered>,
}

#[derive(Clone)]
pub(crate) struct Plane {
    order: Option<Order>,
    /// Those that stand.
    links: BTreeMap<LinkId, LinkKey>,
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
            links: BTreeMap::new(),
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

    /// The links that stand here, or that are up and wait to stand.
    fn all(&self) -> impl Iterator<Item = (LinkId, LinkKey)> {
        let standing = self.links.iter().map(|(link, key)| (*link, *key));
        let ordered = self.order.iter().flat_map(|order| &order.ends);
        let fresh = ordered.filter_map(|(link, end)| Some((*link, end.up?)));
        standing.chain(fresh)
    }

    /// Which of this end's links these lanes are.
    fn link_of(&self, key: LinkKey) -> Option<LinkId> {
        let mut all = self.all();
        all.find(|(_, other)| *other == key).map(|(link, _)| link)
    }

    fn all_links(&self) -> BTreeSet<LinkKey> {
        self.all().map(|(_, key)| key).collect()
    }
}

impl Run {
    /// Carries out what a peer orders from its data plane.
    pub(super) fn order_plane(&mut self, no: SeatNo, output: PeerOutput) {
        match output {
            PeerOutput::Establish { round, links } => self.connect_links(no, round, links),
            PeerOutput::AdoptRing { topology, links } => self.adopt_ring(no, topology, &links),
            PeerOutput::RunRing { tag, seq, .. } => self.run_ring(no, tag, seq),
            PeerOutput::StopRing { seq } => self.stop_ring(no, seq),
            PeerOutput::MoveState { plan, .. } => self.move_state(no, plan),
            PeerOutput::CommitState { round } => self.commit_state(no, round),
            PeerOutput::DropState { round } => self.drop_state(no, round),
            PeerOutput::Probe { round, probes } => {
                self.seats[no].plane.probing = Some((round, probes));
            }
            PeerOutput::Send(_)
            | PeerOutput::Answer { .. }
            | PeerOutput::StartTimer { .. }
            | PeerOutput::StopTimer(_)
            | PeerOutput::Close => {}
        }
    }

    /// The data plane of a process does one thing. False: it has nothing to do.
    pub(super) fn work(&mut self, no: SeatNo) -> bool {
        self.dial(no) || self.advance_rings(no) || self.advance_move(no) || self.measure(no)
    }

    fn connect_links(&mut self, no: SeatNo, round: Round, links: Vec<LinkOrder>) {
        let unused = self.seats[no].plane.order.take();
        let unused = unused.iter().flat_map(|order| order.ends.values());
        self.drop_links(no, unused.filter_map(|end| end.up));
        let ordered = |order: LinkOrder| {
            let end = Ordered {
                order: order.lanes,
                up: None,
                reported: false,
            };
            (order.link(), end)
        };
        let count = links.len();
        let ends: BTreeMap<LinkId, Ordered> = links.into_iter().map(ordered).collect();
        assert_eq!(ends.len(), count, "each link is ordered once");
        self.seats[no].plane.order = Some(Order { round, ends });
    }

    /// Opens one lane that this end is to dial.
    fn dial(&mut self, no: SeatNo) -> bool {
        let Some(order) = &self.seats[no].plane.order else {
            return false;
        };
        let round = order.round;
        let dialled = order
            .ends
            .iter()
            .filter(|(_, end)| !end.reported && end.up.is_none() && end.order.dial.is_some())
            .map(|(link, end)| (*link, end.order))
            .collect::<Vec<_>>();
        dialled
            .into_iter()
            .any(|(link, order)| self.dial_one(no, round, link, order))
    }

    fn dial_one(&mut self, no: SeatNo, round: Round, link: LinkId, order: LaneOrder) -> bool {
        let other = self
            .seat_with(order.with)
            .expect("orders name peers of the run");
        assert_eq!(order.dial.map(|at| at.ip()), Some(ip_of(other)));
        if self.fabric.no_links || self.fabric.is_blocked(no, other) || self.is_out(other) {
            let failure = LaneFailure::Refused;
            self.seats[no].inbox.push_back(PeerInput::LinkFailed {
                round,
                link,
                failure,
            });
            let ordered = self.seats[no].plane.order.as_mut();
            if let Some(end) = ordered.and_then(|order| order.ends.get_mut(&link)) {
                end.reported = true;
            }
            return true;
        }
        let me = self.id(no);
        let (key, theirs) = match link.way {
            Way::Out => ((no, other, round), LinkId::from(me)),
            Way::In => ((other, no, round), LinkId::to(me)),
        };
        let expected = self.seats[other]
            .plane
            .order
            .as_mut()
            .filter(|o| o.round == round);
        let Some(end) = expected.and_then(|order| order.ends.get_mut(&theirs)) else {
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
            .and_then(|o| o.ends.get_mut(&link))
        {
            end.up = Some(key);
        }
        self.fabric.links.insert(key, Link::default());
        self.report_link(no, round, link);
        self.report_link(other, round, theirs);
        true
    }

    fn report_link(&mut self, no: SeatNo, round: Round, link: LinkId) {
        let order = self.seats[no].plane.order.as_mut();
        if let Some(end) = order.and_then(|order| order.ends.get_mut(&link)) {
            end.reported = true;
            let up = PeerInput::LinkUp { round, link };
            self.seats[no].inbox.push_back(up);
        }
    }

    fn is_out(&self, no: SeatNo) -> bool {
        !self.seats[no].alive || self.seats[no].peer.view().ended().is_some()
    }

    /// Uses the lanes that it is told to, and drops all others.
    fn adopt_ring(&mut self, no: SeatNo, topology: Topology, links: &[AdoptedLink]) {
        let plane = &mut self.seats[no].plane;
        let had = plane.all_links();
        let order = plane.order.take();
        let choose = |adopted: &AdoptedLink| {
            let standing = plane.links.get(&adopted.link).copied();
            let fresh = order
                .iter()
                .find_map(|order| order.ends.get(&adopted.link)?.up);
            let key = match adopted.lanes {
                AdoptedLanes::Keep => standing.expect("what is to be kept stands"),
                AdoptedLanes::Use(round) => fresh
                    .filter(|key| key.2 == round)
                    .expect("what is to be used is up"),
            };
            (adopted.link, key)
        };
        plane.links = links.iter().map(choose).collect();
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
        if let Some(link) = self.seats[no].plane.link_of(key) {
            let built = key.2;
            self.seats[no]
                .inbox
                .push_back(PeerInput::LinkBroke { link, built });
        }
    }

    /// The lanes on which a process sends around its ring. `None`: there are none.
    pub(super) fn lanes_to_next(&self, no: SeatNo) -> Option<LinkKey> {
        let plane = &self.seats[no].plane;
        let next = plane.ring().next_of(self.seats[no].id?)?;
        plane.links.get(&LinkId::to(next)).copied()
    }

    /// The lanes on which it receives there.
    pub(super) fn lanes_from_previous(&self, no: SeatNo) -> Option<LinkKey> {
        let plane = &self.seats[no].plane;
        let previous = plane.ring().previous_of(self.seats[no].id?)?;
        plane.links.get(&LinkId::from(previous)).copied()
    }

    /// Who is next on the ring of a process that is on one.
    pub(crate) fn next_of(&self, no: SeatNo) -> SeatNo {
        self.lanes_to_next(no).expect("it is on a ring").1
    }

    /// A lane of the link to the next on the ring ends between two living peers; the first `kept` frames on
    /// their way still arrive.
    pub(crate) fn break_link(&mut self, from: SeatNo, kept: usize) {
        let Some(key) = self.lanes_to_next(from) else {
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
        (plane.links, plane.order) = (BTreeMap::new(), None);
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
