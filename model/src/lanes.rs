//! Connecting ring edges, using them, and losing them.

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq, Tag};
use pccl_core::messages::RingOutcome;
use pccl_core::peer::{AdoptedEdge, PeerInput};
use pccl_core::topology::{Edge, LaneFailure, Topology};

use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::plane::{Lanes, Progress};
use crate::ring::Frame;
use crate::run::{Run, small};
use crate::scenario::Dials;
use crate::state::{Life, RunState, Seat};
use crate::step::SeatNo;
use crate::watch;

/// The same edge from its other end.
pub(crate) fn opposite(edge: Edge) -> Edge {
    match edge {
        Edge::ToNext => Edge::FromPrevious,
        Edge::FromPrevious => Edge::ToNext,
    }
}

/// What can become of an edge that a seat is to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialling {
    /// There is nothing to dial, or the other end has not been told yet.
    NotNow,
    /// The other end waits for it.
    Works(SeatNo),
    /// The other end has taken the lanes, and they come up at this one.
    Opens,
    /// The other end is gone, or hangs.
    Fails,
}

pub(crate) fn dialling(state: &RunState, no: SeatNo, edge: Edge) -> Dialling {
    let Some(seat) = state.seat(no) else {
        return Dialling::NotNow;
    };
    let Some(order) = seat.plane.order.as_ref().filter(|_| !seat.is_mute) else {
        return Dialling::NotNow;
    };
    let Some(wanted) = order.edge(edge).filter(|edge| edge.dials) else {
        return Dialling::NotNow;
    };
    let is_answered = match wanted.progress {
        Progress::Owed => false,
        Progress::Answered => true,
        Progress::Up(_) | Progress::Failed => return Dialling::NotNow,
    };
    let Some((other_no, other)) = running(state, state.seat_of(wanted.with)) else {
        return Dialling::Fails;
    };
    let theirs = other.plane.order.as_ref();
    let theirs = theirs.filter(|theirs| theirs.round == order.round);
    let end = theirs.and_then(|theirs| theirs.edge(opposite(edge)));
    match end.map(|end| &end.progress) {
        Some(Progress::Up(lanes)) if is_answered && !lanes.cut => Dialling::Opens,
        Some(Progress::Owed) if !is_answered && (other.is_closed || other.is_mute) => {
            Dialling::Fails
        }
        Some(Progress::Owed) if !is_answered => Dialling::Works(other_no),
        Some(Progress::Owed | Progress::Answered | Progress::Up(_) | Progress::Failed) | None => {
            if is_answered {
                Dialling::Fails
            } else {
                Dialling::NotNow
            }
        }
    }
}

/// A process that answers.
pub(crate) fn running(state: &RunState, no: Option<SeatNo>) -> Option<(SeatNo, &Seat)> {
    let no = no?;
    let seat = state.seat(no)?;
    (seat.runs() && seat.peer.view().ended().is_none()).then_some((no, seat))
}

/// The lanes of an edge of which a peer may notice that they have ended, or, where it waits for
/// frames, that they stall: by the round in which they were built.
pub(crate) fn noticeable(
    state: &RunState,
    no: SeatNo,
    edge: Edge,
) -> impl Iterator<Item = Round> + '_ {
    let seat = state.seat(no);
    let stalls = move |lanes: &Lanes| {
        let waits = seat.is_some_and(|seat| !seat.plane.rings.is_empty());
        let other = state.seat_with(lanes.with);
        let me = seat.and_then(|seat| seat.id);
        waits
            && (other.is_some_and(|other| other.life == Life::Frozen)
                || me.is_some_and(|me| state.is_black_hole(me, edge, lanes.with)))
    };
    let lanes = seat
        .into_iter()
        .flat_map(move |seat| seat.plane.lanes(edge));
    lanes
        .filter(move |lanes| !lanes.noticed && (lanes.cut || stalls(lanes)))
        .map(|lanes| lanes.built)
}

impl Run<'_> {
    pub(crate) fn dial(&mut self, no: SeatNo, edge: Edge) {
        let Dialling::Works(other) = dialling(&self.state, no, edge) else {
            return;
        };
        match self.scenario.dials {
            Dials::AtOnce => self.comes_up(no, edge),
            Dials::ByHalves => {
                let order = self.edit(no).plane.order.as_mut();
                if let Some(ordered) = order.and_then(|order| order.edge_mut(edge)) {
                    ordered.progress = Progress::Answered;
                }
            }
        }
        self.comes_up(other, opposite(edge));
    }

    /// The lanes of an ordered edge are up at this end, which says so.
    pub(crate) fn comes_up(&mut self, no: SeatNo, edge: Edge) {
        let plane = &mut self.edit(no).plane;
        plane.comes_up(edge);
        if let Some(round) = plane.order.as_ref().map(|order| order.round) {
            self.give(no, PeerInput::EdgeUp { round, edge });
        }
    }

    pub(crate) fn dial_fails(&mut self, no: SeatNo, edge: Edge) {
        let Some(order) = &mut self.edit(no).plane.order else {
            return;
        };
        let round = order.round;
        let Some(ordered) = order.edge_mut(edge) else {
            return;
        };
        let with = ordered.with;
        let before = std::mem::replace(&mut ordered.progress, Progress::Failed);
        let other = self.state.seat_with(with);
        let is_closed = other.is_some_and(|seat| seat.is_closed);
        let is_mute = other.is_some_and(|seat| seat.is_mute);
        let failure = match (other.map(|seat| seat.life), before) {
            // Nobody listens where a process has ended; one that is frozen lets others wait; and what
            // is refused between two that run is the fault of what lies between them.
            (_, Progress::Answered) => LaneFailure::Closed,
            (None | Some(Life::Departed), _) => LaneFailure::Refused,
            (Some(Life::Frozen), _) => LaneFailure::TimedOut,
            (Some(Life::Running), _) if is_closed => LaneFailure::Refused,
            (Some(Life::Running), _) if is_mute => LaneFailure::TimedOut,
            (Some(Life::Running), _) => LaneFailure::Unreachable,
        };
        // What the other end has taken ends there.
        self.other_end_sees_the_end(no, edge, with, round);
        let failed = PeerInput::EdgeFailed {
            round,
            edge,
            failure,
        };
        self.give(no, failed);
    }

    /// This end gives lanes up; the other end will see them end.
    pub(crate) fn drop_lanes(&mut self, no: SeatNo, dropped: Vec<(Edge, Lanes)>) {
        for (edge, lanes) in dropped {
            self.other_end_sees_the_end(no, edge, lanes.with, lanes.built);
        }
    }

    fn other_end_sees_the_end(&mut self, no: SeatNo, edge: Edge, with: PeerId, built: Round) {
        let me = self.seat(no).id;
        let Some(other) = self.state.seat_of(with) else {
            return;
        };
        let is_meant = |end: &Lanes| end.built == built && Some(end.with) == me && !end.cut;
        if self.seat(other).plane.lanes(opposite(edge)).any(is_meant) {
            for end in self.edit(other).plane.lanes_mut(opposite(edge)) {
                end.cut |= is_meant(end);
            }
        }
    }

    /// What a peer sends to its present next one arrives no more, on no lanes, and nobody is told.
    pub(crate) fn dig_black_hole(&mut self, no: SeatNo) {
        let seat = self.seat(no);
        let pair = seat
            .id
            .zip(seat.plane.next.as_ref().map(|lanes| lanes.with));
        self.state.black_holes.extend(pair);
    }

    /// Lanes on which a peer sends break between two living processes: those that are about to
    /// become the ring, else those that stand.
    pub(crate) fn break_edge(&mut self, no: SeatNo) {
        let whole = self.edit(no).plane.lanes_mut(Edge::ToNext);
        let Some(lanes) = whole.filter(|lanes| !lanes.cut).last() else {
            return;
        };
        lanes.cut = true;
        let lanes = lanes.clone();
        self.drop_lanes(no, vec![(Edge::ToNext, lanes)]);
    }

    pub(crate) fn notice(&mut self, no: SeatNo, edge: Edge) {
        let broken: Vec<Round> = noticeable(&self.state, no, edge).collect();
        let plane = &mut self.edit(no).plane;
        for lanes in plane.lanes_mut(edge) {
            lanes.noticed |= broken.contains(&lanes.built);
        }
        let stands = plane.standing(edge).is_some_and(|lanes| lanes.noticed);
        for built in broken {
            self.give(no, PeerInput::EdgeBroke { edge, built });
        }
        if stands {
            self.end_rings(no);
        }
    }

    /// Every ring that runs here has lost a lane.
    fn end_rings(&mut self, no: SeatNo) {
        let rings = std::mem::take(&mut self.edit(no).plane.rings);
        for run in rings {
            self.edit(no).plane.stop(run.seq);
            self.ring_ended(no, run.seq, RingOutcome::LaneLost);
        }
    }

    pub(crate) fn adopt_ring(
        &mut self,
        no: SeatNo,
        topology: Topology,
        next: Option<AdoptedEdge>,
        previous: Option<AdoptedEdge>,
    ) {
        if !self.seat(no).plane.rings.is_empty() {
            self.state.breaks(Claim::Exclusivity);
        }
        let Some(me) = self.seat(no).peer.view().peer_id() else {
            return;
        };
        self.edit(no).id = Some(me);
        let adopted = self.edit(no).plane.adopt(topology, next, previous);
        if !adopted.is_complete {
            self.state.breaks(Claim::Orders);
        }
        if adopted.kept_beside_fresh {
            self.state.reach(Milestone::KeptBesideFresh);
        }
        self.drop_lanes(no, adopted.dropped);
        watch::adopted(self, no, me);
    }

    pub(crate) fn run_ring(&mut self, no: SeatNo, tag: Tag, seq: Seq, spec: &CollectiveSpec) {
        let Some(me) = self.seat(no).id else {
            return;
        };
        let first = self.edit(no).plane.run_ring(me, small(tag), seq, spec);
        watch::ring_runs(self, no, seq);
        let known = |edge| {
            self.seat(no)
                .plane
                .standing(edge)
                .is_some_and(|lanes| lanes.noticed)
        };
        if known(Edge::ToNext) || known(Edge::FromPrevious) {
            self.end_rings(no);
            return;
        }
        self.send_frame(no, first);
        self.reap(no);
    }

    pub(crate) fn take_frame(&mut self, no: SeatNo, tag: u8) {
        let Some(frame) = self.seat(no).plane.expected(tag) else {
            return;
        };
        match self.edit(no).plane.take_frame(frame) {
            Ok(next) => {
                self.send_frame(no, next);
                self.reap(no);
            }
            Err(_) => self.state.breaks(Claim::ExactlyOnce),
        }
    }

    fn reap(&mut self, no: SeatNo) {
        for seq in self.edit(no).plane.reap() {
            self.ring_ended(no, seq, RingOutcome::Done);
        }
    }

    /// What is sent into broken lanes is lost.
    fn send_frame(&mut self, no: SeatNo, frame: Option<Frame>) {
        let seat = self.seat(no);
        let (Some(frame), Some(lanes)) = (frame, &seat.plane.next) else {
            return;
        };
        let is_lost = |me| self.state.black_holes.contains(&(me, lanes.with));
        if lanes.cut || seat.id.is_some_and(is_lost) {
            return;
        }
        let (me, built) = (seat.id, lanes.built);
        let Some(other) = self.state.seat_of(lanes.with) else {
            return;
        };
        let ends = self.edit(other).plane.lanes_mut(Edge::FromPrevious);
        for end in ends.filter(|end| end.built == built && Some(end.with) == me) {
            end.frames.push_back(frame);
        }
    }

    /// Measures what was asked; the numbers make one order of the peers better than the others.
    pub(crate) fn measure(&mut self, no: SeatNo, ok: bool) {
        if self.seat(no).is_mute {
            return;
        }
        let Some((round, probes)) = self.edit(no).plane.probing.take() else {
            return;
        };
        let me = self.seat(no).id;
        for order in probes.iter().filter(|order| ok && order.dial.is_some()) {
            if running(&self.state, self.state.seat_of(order.with)).is_none() {
                continue;
            }
            // The higher to the lower is fast: the ring turns the other way round.
            let kbit_per_s = if Some(order.with) < me { 2000 } else { 1000 };
            self.give(
                no,
                PeerInput::Measured {
                    round,
                    to: order.with,
                    kbit_per_s,
                },
            );
        }
        self.give(no, PeerInput::ProbesEnded { round, ok });
    }
}
