//! Connecting links, using them, and losing them.

use pccl_core::id::{PeerId, Round, Seq, Tag};
use pccl_core::messages::RingOutcome;
use pccl_core::peer::{AdoptedLink, PeerInput};
use pccl_core::plan::Algorithm;
use pccl_core::topology::{LaneFailure, LinkId, Topology};

use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::plane::{Lanes, Progress, Sent};
use crate::run::{Run, small};
use crate::scenario::Dials;
use crate::state::{Life, RunState, Seat};
use crate::step::SeatNo;
use crate::watch;

/// What can become of a link that a seat is to dial.
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

pub(crate) fn dialling(state: &RunState, no: SeatNo, link: LinkId) -> Dialling {
    let Some(seat) = state.seat(no) else {
        return Dialling::NotNow;
    };
    let Some(order) = seat.plane.order.as_ref().filter(|_| !seat.is_mute) else {
        return Dialling::NotNow;
    };
    let Some(wanted) = order.link(link).filter(|ordered| ordered.dials) else {
        return Dialling::NotNow;
    };
    let is_answered = match wanted.progress {
        Progress::Owed => false,
        Progress::Answered => true,
        Progress::Up(_) | Progress::Failed => return Dialling::NotNow,
    };
    let Some((other_no, other)) = running(state, state.seat_of(link.with)) else {
        return Dialling::Fails;
    };
    let theirs = other.plane.order.as_ref();
    let theirs = theirs.filter(|theirs| theirs.round == order.round);
    let end = theirs.zip(seat.id);
    let end = end.and_then(|(theirs, me)| theirs.link(other_end(link, me)));
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

/// The same link from its other end.
const fn other_end(link: LinkId, me: PeerId) -> LinkId {
    LinkId {
        way: link.way.other_end(),
        with: me,
    }
}

/// A process that answers.
pub(crate) fn running(state: &RunState, no: Option<SeatNo>) -> Option<(SeatNo, &Seat)> {
    let no = no?;
    let seat = state.seat(no)?;
    (seat.runs() && seat.peer.view().ended().is_none()).then_some((no, seat))
}

/// The lanes of a link of which a peer may notice that they have ended, or, where it waits for
/// frames, that they stall: by the round in which they were built.
pub(crate) fn noticeable(
    state: &RunState,
    no: SeatNo,
    link: LinkId,
) -> impl Iterator<Item = Round> + '_ {
    let seat = state.seat(no);
    let stalls = move |lanes: &Lanes| {
        let waits = seat.is_some_and(|seat| !seat.plane.rings.is_empty());
        let other = state.seat_with(link.with);
        let me = seat.and_then(|seat| seat.id);
        waits
            && (other.is_some_and(|other| other.life == Life::Frozen)
                || me.is_some_and(|me| state.is_black_hole(me, lanes.link)))
    };
    let lanes = seat
        .into_iter()
        .flat_map(move |seat| seat.plane.lanes(link));
    lanes
        .filter(move |lanes| !lanes.noticed && (lanes.cut || stalls(lanes)))
        .map(|lanes| lanes.built)
}

/// What is measured from one peer to another. The higher to the lower is fast: the ring turns the other way
/// round.
pub(crate) fn measured(from: PeerId, to: PeerId) -> u64 {
    if to < from { 2000 } else { 1000 }
}

impl Run<'_> {
    pub(crate) fn dial(&mut self, no: SeatNo, link: LinkId) {
        let Dialling::Works(other) = dialling(&self.state, no, link) else {
            return;
        };
        match self.scenario.dials {
            Dials::AtOnce => self.comes_up(no, link),
            Dials::ByHalves => {
                let order = self.edit(no).plane.order.as_mut();
                if let Some(ordered) = order.and_then(|order| order.link_mut(link)) {
                    ordered.progress = Progress::Answered;
                }
            }
        }
        if let Some(me) = self.seat(no).id {
            self.comes_up(other, other_end(link, me));
        }
    }

    /// The lanes of an ordered link are up at this end, which says so.
    pub(crate) fn comes_up(&mut self, no: SeatNo, link: LinkId) {
        let plane = &mut self.edit(no).plane;
        plane.comes_up(link);
        if let Some(round) = plane.order.as_ref().map(|order| order.round) {
            self.give(no, PeerInput::LinkUp { round, link });
        }
    }

    pub(crate) fn dial_fails(&mut self, no: SeatNo, link: LinkId) {
        let Some(order) = &mut self.edit(no).plane.order else {
            return;
        };
        let round = order.round;
        let Some(ordered) = order.link_mut(link) else {
            return;
        };
        let before = std::mem::replace(&mut ordered.progress, Progress::Failed);
        let other = self.state.seat_with(link.with);
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
        self.other_end_sees_the_end(no, link, round);
        let failed = PeerInput::LinkFailed {
            round,
            link,
            failure,
        };
        self.give(no, failed);
    }

    /// This end gives lanes up; the other end will see them end.
    pub(crate) fn drop_lanes(&mut self, no: SeatNo, dropped: &[Lanes]) {
        for lanes in dropped {
            self.other_end_sees_the_end(no, lanes.link, lanes.built);
        }
    }

    fn other_end_sees_the_end(&mut self, no: SeatNo, link: LinkId, built: Round) {
        let (Some(me), Some(other)) = (self.seat(no).id, self.state.seat_of(link.with)) else {
            return;
        };
        let end = other_end(link, me);
        let is_meant = |lanes: &Lanes| lanes.built == built && !lanes.cut;
        if self.seat(other).plane.lanes(end).any(is_meant) {
            for lanes in self.edit(other).plane.lanes_mut(end) {
                lanes.cut |= is_meant(lanes);
            }
        }
    }

    /// What a peer sends to its present next one arrives no more, on no lanes, and nobody is told.
    pub(crate) fn dig_black_hole(&mut self, no: SeatNo) {
        let seat = self.seat(no);
        let to_next = |me| Some((me, seat.plane.to_next(me)?.link.with));
        let pair = seat.id.and_then(to_next);
        self.state.black_holes.extend(pair);
    }

    /// Lanes on which a peer sends break between two living processes: those that are about to
    /// become the link, else those that stand.
    pub(crate) fn break_link(&mut self, no: SeatNo, link: LinkId) {
        let whole = self.edit(no).plane.lanes_mut(link);
        let Some(lanes) = whole.filter(|lanes| !lanes.cut).last() else {
            return;
        };
        lanes.cut = true;
        let lanes = lanes.clone();
        self.drop_lanes(no, &[lanes]);
    }

    pub(crate) fn notice(&mut self, no: SeatNo, link: LinkId) {
        let broken: Vec<Round> = noticeable(&self.state, no, link).collect();
        let plane = &mut self.edit(no).plane;
        for lanes in plane.lanes_mut(link) {
            lanes.noticed |= broken.contains(&lanes.built);
        }
        for built in broken {
            self.give(no, PeerInput::LinkBroke { link, built });
        }
        self.end_rings(no, link);
    }

    /// Every execution here that needs this link has lost a lane, if the link has.
    fn end_rings(&mut self, no: SeatNo, link: LinkId) {
        let plane = &self.seat(no).plane;
        if !plane.standing(link).is_some_and(|lanes| lanes.noticed) {
            return;
        }
        let lost = plane.rings.iter().filter(|run| plane.uses(run, link));
        let lost: Vec<Seq> = lost.map(|run| run.seq).collect();
        for seq in lost {
            self.edit(no).plane.stop(seq);
            self.ring_ended(no, seq, RingOutcome::LaneLost);
        }
    }

    pub(crate) fn adopt_ring(&mut self, no: SeatNo, topology: Topology, links: &[AdoptedLink]) {
        if !self.seat(no).plane.rings.is_empty() {
            self.state.breaks(Claim::Exclusivity);
        }
        let Some(me) = self.seat(no).peer.view().peer_id() else {
            return;
        };
        self.edit(no).id = Some(me);
        let adopted = self.edit(no).plane.adopt(topology, links);
        if !adopted.is_complete {
            self.state.breaks(Claim::Orders);
        }
        if adopted.kept_beside_fresh {
            self.state.reach(Milestone::KeptBesideFresh);
        }
        self.drop_lanes(no, &adopted.dropped);
        watch::adopted(self, no, me);
    }

    pub(crate) fn run_ring(&mut self, no: SeatNo, tag: Tag, seq: Seq, algorithm: Algorithm) {
        let Some(me) = self.seat(no).id else {
            return;
        };
        let first = self.edit(no).plane.run_ring(me, small(tag), seq, algorithm);
        watch::ring_runs(self, no, seq);
        let links: Vec<LinkId> = self.seat(no).plane.links().collect();
        for link in links {
            self.end_rings(no, link);
        }
        if self.seat(no).plane.rings.iter().all(|run| run.seq != seq) {
            return;
        }
        self.send_frames(no, &first);
        self.reap(no);
    }

    pub(crate) fn take_frame(&mut self, no: SeatNo, tag: u8) {
        let Some(frame) = self.seat(no).plane.expected(tag) else {
            return;
        };
        match self.edit(no).plane.take_frame(frame) {
            Ok(onward) => {
                self.send_frames(no, &onward);
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

    fn send_frames(&mut self, no: SeatNo, frames: &[Sent]) {
        for sent in frames {
            self.send_frame(no, *sent);
        }
    }

    /// What is sent into broken lanes is lost.
    fn send_frame(&mut self, no: SeatNo, sent: Sent) {
        let seat = self.seat(no);
        let (Some(me), Some(lanes)) = (seat.id, seat.plane.standing(sent.over)) else {
            return;
        };
        if lanes.cut || self.state.is_black_hole(me, lanes.link) {
            return;
        }
        let built = lanes.built;
        let Some(other) = self.state.seat_of(sent.over.with) else {
            return;
        };
        let ends = self.edit(other).plane.lanes_mut(other_end(sent.over, me));
        for end in ends.filter(|end| end.built == built) {
            end.frames.push_back(sent.frame);
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
            let kbit_per_s = me.map_or(0, |me| measured(me, order.with));
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
