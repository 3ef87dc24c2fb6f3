//! Carrying out what a peer's machine orders; connecting and dropping links.

use std::collections::BTreeMap;

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::topology::{LaneFailure, LinkId, LinkOrder, Ring};

use super::machines::{Fact, Order, PeerDesk};
use super::network::{Path, SeatNo};
use super::plane::{Attempt, End, LaneKey, Member, key};
use super::seat::Knock;
use super::world::{Happening, Process, World};

impl World {
    pub(super) fn obey(&mut self, process: Process, order: Order) {
        match order {
            Order::Send(message) => self.send_up(process, message),
            Order::Answer(heard) => self.user_hears(process, heard),
            Order::Connect { round, links } => self.connect(process, round, &links),
            Order::Adopt { ring, links } => {
                let ring = self.members_of(&ring);
                let dropped = self.seats[process.seat.0].plane.adopt(ring, &links);
                self.drop_lanes(process.seat, dropped);
            }
            Order::Run { seq, bytes } => self.run_plan(process, seq, bytes),
            Order::Stop(seq) => self.stop_plan(process, seq),
            Order::Serve { round, to } => self.serve(process, round, &to),
            Order::Fetch {
                round,
                from,
                content,
            } => self.fetch(process, round, from, content),
            Order::CommitState => self.commit_state(process.seat),
            Order::DropState => {
                let seat = &mut self.seats[process.seat.0];
                (seat.moving, seat.staged) = (None, None);
            }
            Order::Measure { round, probes } => self.measure(process, round, &probes),
            Order::Close => {
                let desk = self.seats[process.seat.0].desk.as_ref();
                let out = desk.and_then(PeerDesk::out);
                self.end_up(process);
                self.close(process);
                if let Some(out) = out {
                    self.goes_out(process, out);
                }
            }
        }
    }

    pub(super) fn seat_of(&self, peer: PeerId) -> Option<SeatNo> {
        self.processes.get(&peer).map(|process| process.seat)
    }

    fn members_of(&self, ring: &Ring) -> Vec<Member> {
        let member = |peer: &PeerId| {
            let seat = self.seat_of(*peer)?;
            Some(Member { peer: *peer, seat })
        };
        ring.0.iter().filter_map(member).collect()
    }

    /// The peer that runs at a seat.
    pub(super) fn peer_at(&self, seat: SeatNo) -> Option<PeerId> {
        let at = self.process(seat)?;
        let mut peers = self.processes.iter();
        peers
            .find(|(_, process)| **process == at)
            .map(|(peer, _)| *peer)
    }

    /// What becomes of a connection to the process of this peer.
    pub(super) fn path_to(&self, from: SeatNo, peer: PeerId) -> Path {
        match self.processes.get(&peer) {
            Some(to) if self.runs(*to) => self.network.path(from, to.seat),
            Some(to) => match self.network.path(from, to.seat) {
                Path::Good | Path::Mute | Path::Refused => Path::Refused,
                unanswered @ (Path::Filtered | Path::Cut) => unanswered,
            },
            None => Path::Refused,
        }
    }

    fn connect(&mut self, process: Process, round: Round, links: &[LinkOrder]) {
        let end = |order: &LinkOrder| {
            let end = End {
                seat: self.seat_of(order.lanes.with)?,
                ticket: order.lanes.ticket,
                dials: order.lanes.dial.is_some(),
                up: false,
                failed: false,
            };
            Some((order.link(), end))
        };
        let ends: BTreeMap<LinkId, End> = links.iter().filter_map(end).collect();
        let dialled: Vec<LinkId> = ends
            .iter()
            .filter(|(_, end)| end.dials)
            .map(|(link, _)| *link)
            .collect();
        let attempt = Attempt { round, ends };
        let dropped = self.seats[process.seat.0].plane.take_order(attempt);
        self.drop_lanes(process.seat, dropped);
        for link in dialled {
            self.dial(process, round, link);
        }
        for knock in std::mem::take(&mut self.seats[process.seat.0].knocks) {
            self.admit(process, knock);
        }
    }

    fn dial(&mut self, process: Process, round: Round, link: LinkId) {
        let spread = self.draw(self.pace.spread);
        let pace = &self.pace;
        let (time, answer) = match self.path_to(process.seat, link.with) {
            Path::Good | Path::Mute => (pace.connect() + spread, Ok(())),
            Path::Refused => (pace.round_trip + spread, Err(LaneFailure::Refused)),
            Path::Filtered | Path::Cut => (pace.dial_limit, Err(LaneFailure::TimedOut)),
        };
        self.after(time, Happening::DialAnswered(process, round, link, answer));
    }

    pub(super) fn dial_answered(
        &mut self,
        process: Process,
        round: Round,
        link: LinkId,
        answer: Result<(), LaneFailure>,
    ) {
        let Some(end) = self.dialling(process, round, link) else {
            return;
        };
        let knock = Knock {
            from: process,
            round,
            link,
            ticket: end.ticket,
        };
        match answer {
            Err(failure) => self.dial_fails(knock, failure),
            Ok(()) => match self.processes.get(&link.with).copied() {
                Some(to) if self.runs(to) => self.admit(to, knock),
                Some(_) | None => self.dial_fails(knock, LaneFailure::Closed),
            },
        }
    }

    /// The end that dials, while its order stands.
    fn dialling(&self, process: Process, round: Round, link: LinkId) -> Option<End> {
        if !self.runs(process) {
            return None;
        }
        let attempt = self.seats[process.seat.0].plane.attempt.as_ref()?;
        let end = attempt.ends.get(&link).filter(|end| end.dials && !end.up)?;
        (attempt.round == round).then_some(*end)
    }

    fn dial_fails(&mut self, knock: Knock, failure: LaneFailure) {
        if self.dialling(knock.from, knock.round, knock.link).is_none() {
            return;
        }
        if self.seats[knock.from.seat.0].plane.fails(knock.link) {
            let fact = Fact::LinkFailed {
                round: knock.round,
                link: knock.link,
                failure,
            };
            self.learn(knock.from, fact);
        }
    }

    /// Lets a lane in that is expected, and holds one that may be soon.
    fn admit(&mut self, at: Process, knock: Knock) {
        if self.dialling(knock.from, knock.round, knock.link).is_none() {
            return;
        }
        let Some(link) = self.seats[at.seat.0].plane.expects(knock.ticket) else {
            self.seats[at.seat.0].knocks.push(knock);
            self.after(self.pace.hold, Happening::HoldEnds(at, knock.ticket));
            return;
        };
        let lanes = key(at.seat, knock.from.seat, link.way, knock.round);
        self.lanes.insert(lanes, knock.from.seat);
        for (end, link) in [(at, link), (knock.from, knock.link)] {
            if let Some(round) = self.seats[end.seat.0].plane.comes_up(link) {
                self.learn(end, Fact::LinkUp { round, link });
            }
        }
    }

    pub(super) fn hold_ends(&mut self, at: Process, ticket: Ticket) {
        let knocks = &mut self.seats[at.seat.0].knocks;
        if let Some(place) = knocks.iter().position(|knock| knock.ticket == ticket) {
            let knock = knocks.swap_remove(place);
            self.dial_fails(knock, LaneFailure::BadHandshake);
        }
    }

    /// One end drops lanes; the other notices.
    pub(super) fn drop_lanes(&mut self, by: SeatNo, dropped: Vec<LaneKey>) {
        for lanes in dropped {
            if self.lanes.remove(&lanes).is_some()
                && let Some(other) = self.process(lanes.other_end(by))
            {
                let time = self.pace.round_trip / 2;
                self.after(time, Happening::Notices(other, lanes));
            }
        }
    }

    /// Lanes at this end have broken.
    pub(super) fn notices(&mut self, process: Process, lanes: LaneKey) {
        if !self.runs(process) {
            return;
        }
        if let Some(link) = self.seats[process.seat.0].plane.link_of(lanes) {
            let built = lanes.built;
            self.learn(process, Fact::LinkBroke { link, built });
            self.reduces_notice(process, lanes);
        }
    }
}
