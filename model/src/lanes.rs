//! Connecting links, using them, and losing them.

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round, Seq, Tag};
use pccl_core::paths::Measurement;
use pccl_core::peer::{AdoptedLink, PeerInput};
use pccl_core::topology::{LaneFailure, LinkId, Topology};

use crate::claim::Claim;
use crate::fabric::{Fabric, other_end};
use crate::milestone::Milestone;
use crate::plan_run::Told;
use crate::plane::{Lanes, LinkProgress, Plane};
use crate::run::{Run, small};
use crate::scenario::{Dials, Scenario};
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
        LinkProgress::Owed => false,
        LinkProgress::Answered => true,
        LinkProgress::Up(_) | LinkProgress::Failed => return Dialling::NotNow,
    };
    let Some((other_no, other)) = running(state, state.seat_of(link.with)) else {
        return Dialling::Fails;
    };
    let theirs = other.plane.order.as_ref();
    let theirs = theirs.filter(|theirs| theirs.round == order.round);
    let end = theirs.zip(seat.id);
    let end = end.and_then(|(theirs, me)| theirs.link(other_end(link, me)));
    match end.map(|end| &end.progress) {
        Some(LinkProgress::Up(lanes)) if is_answered && !lanes.cut => Dialling::Opens,
        Some(LinkProgress::Owed) if !is_answered && (other.is_closed || other.is_mute) => {
            Dialling::Fails
        }
        Some(LinkProgress::Owed) if !is_answered => Dialling::Works(other_no),
        Some(
            LinkProgress::Owed
            | LinkProgress::Answered
            | LinkProgress::Up(_)
            | LinkProgress::Failed,
        )
        | None => {
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

/// The lanes of a link of which a peer may notice that they have ended, or, where it waits for
/// frames, that they stall: by the round in which they were built.
pub(crate) fn noticeable(
    state: &RunState,
    no: SeatNo,
    link: LinkId,
) -> impl Iterator<Item = Round> + '_ {
    let seat = state.seat(no);
    let stalls = move |lanes: &Lanes| {
        let waits = seat.is_some_and(|seat| !seat.plane.runs.is_empty());
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
/// round. In a large group it is different: a ring wants two edges that are measured later than the others. So it is if
/// some peers are far from the others: the ring stays, and there are sites to be found.
pub(crate) fn measured(scenario: &Scenario, from: PeerId, to: PeerId) -> Measurement {
    const WANTED: [(u64, u64); 5] = [(3, 2), (4, 1), (1, 4), (3, 1), (4, 2)];
    let is_remote = |peer: PeerId| scenario.remote.contains(&peer.0);
    let is_fast = if scenario.large {
        WANTED.contains(&(from.0, to.0))
    } else if scenario.remote.is_empty() {
        to < from
    } else {
        is_remote(from) == is_remote(to)
    };
    Measurement {
        bytes_per_s: 1 << 50,
        round_trip_us: if is_fast { 1000 } else { 2_000_000 },
    }
}

/// What is left of an edge where all of them share one link.
pub(crate) const fn shared(alone: Measurement) -> Measurement {
    Measurement {
        bytes_per_s: alone.bytes_per_s / 4,
        ..alone
    }
}

impl Fabric for Run<'_> {
    type Place = SeatNo;

    fn plane(&self, at: SeatNo) -> &Plane {
        &self.seat(at).plane
    }

    fn edit_plane(&mut self, at: SeatNo) -> &mut Plane {
        &mut self.edit(at).plane
    }

    fn id(&self, at: SeatNo) -> Option<PeerId> {
        self.seat(at).id
    }

    fn place_of(&self, peer: PeerId) -> Option<SeatNo> {
        self.state.seat_of(peer)
    }

    fn report(&mut self, at: SeatNo, input: PeerInput) {
        self.give(at, input);
    }

    fn is_mute(&self, at: SeatNo) -> bool {
        self.seat(at).is_mute
    }

    fn is_black_hole(&self, me: PeerId, link: LinkId) -> bool {
        self.state.is_black_hole(me, link)
    }

    fn measurement(&self, from: SeatNo, to: PeerId) -> Option<Measurement> {
        running(&self.state, self.state.seat_of(to))?;
        let alone = measured(self.scenario, self.seat(from).id?, to);
        let probing = self.seat(from).plane.probing.as_ref();
        let is_alone = probing.is_none_or(|(_, probes)| probes.len() < 2);
        Some(match self.scenario.shared && !is_alone {
            true => shared(alone),
            false => alone,
        })
    }

    fn content(&self, at: SeatNo, entry: EntryIndex) -> Option<ContentHash> {
        self.seat(at).user.contents.get(entry)
    }

    fn write(&mut self, at: SeatNo, entry: EntryIndex, hash: ContentHash) -> bool {
        self.edit(at).user.contents.set(entry, hash)
    }
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
                    ordered.progress = LinkProgress::Answered;
                }
            }
        }
        if let Some(me) = self.seat(no).id {
            self.comes_up(other, other_end(link, me));
        }
    }

    pub(crate) fn dial_fails(&mut self, no: SeatNo, link: LinkId) {
        let order = self.seat(no).plane.order.as_ref();
        let Some(ordered) = order.and_then(|order| order.link(link)) else {
            return;
        };
        let other = self.state.seat_with(link.with);
        let is_closed = other.is_some_and(|seat| seat.is_closed);
        let is_mute = other.is_some_and(|seat| seat.is_mute);
        let failure = match (other.map(|seat| seat.life), &ordered.progress) {
            // Nobody listens where a process has ended; one that is frozen lets others wait; and what
            // is refused between two that run is the fault of what lies between them.
            (_, LinkProgress::Answered) => LaneFailure::Closed,
            (None | Some(Life::Departed), _) => LaneFailure::Refused,
            (Some(Life::Frozen), _) => LaneFailure::TimedOut,
            (Some(Life::Running), _) if is_closed => LaneFailure::Refused,
            (Some(Life::Running), _) if is_mute => LaneFailure::TimedOut,
            (Some(Life::Running), _) => LaneFailure::Unreachable,
        };
        self.link_fails(no, link, failure);
    }

    /// What a peer sends to its present next one arrives no more, on no lanes, and nobody is told.
    pub(crate) fn dig_black_hole(&mut self, no: SeatNo) {
        let seat = self.seat(no);
        let to_next = |me| Some((me, seat.plane.to_next(me)?.link.with));
        let pair = seat.id.and_then(to_next);
        self.state.black_holes.extend(pair);
    }

    /// A peer notices whatever there is to notice about a link.
    pub(crate) fn notices(&mut self, no: SeatNo, link: LinkId) {
        let broken: Vec<Round> = noticeable(&self.state, no, link).collect();
        self.notice(no, link, &broken);
    }

    pub(crate) fn adopt_ring(&mut self, no: SeatNo, topology: Topology, links: &[AdoptedLink]) {
        if !self.seat(no).plane.runs.is_empty() {
            self.state.breaks(Claim::Exclusivity);
        }
        let Some(me) = self.seat(no).peer.view().peer_id() else {
            return;
        };
        self.edit(no).id = Some(me);
        let adopted = self.adopt(no, topology, links);
        if !adopted.is_complete {
            self.state.breaks(Claim::Orders);
        }
        if adopted.kept_beside_fresh {
            self.state.reach(Milestone::KeptBesideFresh);
        }
        watch::adopted(self, no, me);
    }

    pub(crate) fn run_plan(&mut self, no: SeatNo, (tag, seq): (Tag, Seq), what: Told<'_, PeerId>) {
        watch::plan_runs(self, no, seq);
        self.begin_execution(no, (small(tag), seq), what);
    }

    pub(crate) fn takes_frame(&mut self, no: SeatNo, tag: u8) {
        if self.take_frame(no, tag).is_err() {
            self.state.breaks(Claim::ExactlyOnce);
        }
    }
}
