//! The links of one process: those that stand, and those that an order has it connect.

use std::collections::BTreeMap;

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::topology::{LinkId, Way};

use super::machines::{AdoptedLanes, AdoptedLink};
use super::network::SeatNo;

/// The lanes of one link, as both ends name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    /// The round in which they were built.
    pub built: Round,
    /// Who sends.
    pub from: SeatNo,
    /// Who receives.
    pub to: SeatNo,
}

impl LaneKey {
    /// The end that is not this one.
    #[must_use]
    pub fn other_end(self, one: SeatNo) -> SeatNo {
        if self.from == one { self.to } else { self.from }
    }
}

/// How the two ends of a link name its lanes: `way` is what it is to `me`.
#[must_use]
pub fn key(me: SeatNo, other: SeatNo, way: Way, built: Round) -> LaneKey {
    let (from, to) = match way {
        Way::Out => (me, other),
        Way::In => (other, me),
    };
    LaneKey { built, from, to }
}

/// A member of a ring, and where it ran when the ring was adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the run.
    pub peer: PeerId,
    /// Where that is.
    pub seat: SeatNo,
}

/// One end of a link that is to be connected.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Where the other end is.
    pub seat: SeatNo,
    /// What the two ends know each other by.
    pub ticket: Ticket,
    /// This end opens the lanes.
    pub dials: bool,
    /// The lanes are up.
    pub up: bool,
    /// It was reported that they cannot be opened.
    pub failed: bool,
}

/// The last order to connect links, until a ring stands.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The round of the order.
    pub round: Round,
    /// This end of each link.
    pub ends: BTreeMap<LinkId, End>,
}

impl Attempt {
    /// The lanes that are up, of all its links.
    fn fresh(&self, me: SeatNo) -> BTreeMap<LinkId, LaneKey> {
        let up = self.ends.iter().filter(|(_, end)| end.up);
        up.map(|(link, end)| (*link, key(me, end.seat, link.way, self.round)))
            .collect()
    }
}

/// The links of one process.
#[derive(Clone, Debug)]
pub struct Plane {
    me: SeatNo,
    /// The last order, until a ring stands.
    pub attempt: Option<Attempt>,
    /// The lanes of each link that stands.
    standing: BTreeMap<LinkId, LaneKey>,
    /// The ring in use.
    pub ring: Vec<Member>,
}

impl Plane {
    /// Without any link.
    #[must_use]
    pub fn new(me: SeatNo) -> Self {
        Self {
            me,
            attempt: None,
            standing: BTreeMap::new(),
            ring: Vec::new(),
        }
    }

    /// Takes an order; returns the lanes of the one before, which are dropped.
    pub fn take_order(&mut self, order: Attempt) -> Vec<LaneKey> {
        let fresh = self.fresh();
        self.attempt = Some(order);
        fresh.into_values().collect()
    }

    /// The link whose lanes another end opens with this ticket, if they are expected.
    #[must_use]
    pub fn expects(&self, ticket: Ticket) -> Option<LinkId> {
        let mut ends = self.attempt.as_ref()?.ends.iter();
        let expected = ends.find(|(_, end)| end.ticket == ticket && !end.dials && !end.up);
        expected.map(|(link, _)| *link)
    }

    /// The ordered lanes of a link are up. The round, if that was not known.
    pub fn comes_up(&mut self, link: LinkId) -> Option<Round> {
        let attempt = self.attempt.as_mut()?;
        let was_up = std::mem::replace(&mut attempt.ends.get_mut(&link)?.up, true);
        (!was_up).then_some(attempt.round)
    }

    /// The lanes of a link cannot be opened. False: that was known.
    pub fn fails(&mut self, link: LinkId) -> bool {
        let attempt = self.attempt.as_mut();
        let end = attempt.and_then(|attempt| attempt.ends.get_mut(&link));
        end.is_some_and(|end| !std::mem::replace(&mut end.failed, true))
    }

    /// Makes a ring the one in use, with the links that are named. Returns the lanes that are dropped: all
    /// that are not named.
    ///
    /// # Panics
    /// If lanes are named that are not here, or a link of the ring is not named: the machine contradicts
    /// itself.
    pub fn adopt(&mut self, ring: Vec<Member>, links: &[AdoptedLink]) -> Vec<LaneKey> {
        let fresh = self.fresh();
        let chosen = links.iter().map(|AdoptedLink { link, lanes }| {
            let lanes = match lanes {
                AdoptedLanes::Keep => *self.standing.get(link).expect("what is kept stands"),
                AdoptedLanes::Use(round) => {
                    let fresh = fresh.get(link).filter(|lanes| lanes.built == *round);
                    *fresh.expect("what is used is up")
                }
            };
            (*link, lanes)
        });
        let chosen: BTreeMap<LinkId, LaneKey> = chosen.collect();
        let known = self.standing.iter().chain(&fresh);
        let dropped = known.filter(|(link, lanes)| chosen.get(link) != Some(lanes));
        let dropped = dropped.map(|(_, lanes)| *lanes).collect();
        (self.attempt, self.standing, self.ring) = (None, chosen, ring);
        let mut of_ring = self.to_next().into_iter().chain(self.from_previous());
        assert!(
            of_ring.all(|link| self.standing.contains_key(&link)),
            "the ring has links"
        );
        dropped
    }

    /// The lanes of a link that stands.
    #[must_use]
    pub fn lanes_of(&self, link: LinkId) -> Option<LaneKey> {
        self.standing.get(&link).copied()
    }

    /// The lanes of all links that stand and on which this process sends.
    #[must_use]
    pub fn outgoing(&self) -> Vec<LaneKey> {
        let standing = self.standing.iter();
        let outgoing = standing.filter(|(link, _)| link.way == Way::Out);
        outgoing.map(|(_, lanes)| *lanes).collect()
    }

    /// Which link these lanes are, standing or up and waiting to stand.
    #[must_use]
    pub fn link_of(&self, lanes: LaneKey) -> Option<LinkId> {
        let fresh = self.fresh();
        let mut known = self.standing.iter().chain(&fresh);
        let meant = known.find(|(_, of_link)| **of_link == lanes);
        meant.map(|(link, _)| *link)
    }

    /// The link on which the ring in use sends; a ring of one has none.
    #[must_use]
    pub fn to_next(&self) -> Option<LinkId> {
        let next = self.member_after(1)?;
        Some(LinkId::to(next.peer))
    }

    /// The link on which it receives.
    #[must_use]
    pub fn from_previous(&self) -> Option<LinkId> {
        let previous = self.member_after(self.ring.len().checked_sub(1)?)?;
        Some(LinkId::from(previous.peer))
    }

    /// Whether these lanes stand, and what runs on the ring runs on them.
    #[must_use]
    pub fn carries_ring(&self, lanes: LaneKey) -> bool {
        let mut of_ring = self.to_next().into_iter().chain(self.from_previous());
        of_ring.any(|link| self.lanes_of(link) == Some(lanes))
    }

    /// Everything that this end holds; it drops it all.
    pub fn drop_all(&mut self) -> Vec<LaneKey> {
        let fresh = self.fresh().into_values();
        let dropped = fresh.chain(self.standing.values().copied()).collect();
        *self = Self::new(self.me);
        dropped
    }

    fn fresh(&self) -> BTreeMap<LinkId, LaneKey> {
        let attempt = self.attempt.as_ref();
        attempt.map_or_else(BTreeMap::new, |attempt| attempt.fresh(self.me))
    }

    /// Who is so many places behind this process in the ring, if that is another one.
    fn member_after(&self, places: usize) -> Option<Member> {
        let rank = self.ring.iter().position(|member| member.seat == self.me)?;
        let member = self.ring[(rank + places) % self.ring.len()];
        (member.seat != self.me).then_some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(link: LinkId, round: u64) -> AdoptedLink {
        let lanes = AdoptedLanes::Use(Round(round));
        AdoptedLink { link, lanes }
    }

    fn kept(link: LinkId) -> AdoptedLink {
        let lanes = AdoptedLanes::Keep;
        AdoptedLink { link, lanes }
    }

    /// The peer at a seat has the number of the seat.
    fn to(seat: usize) -> LinkId {
        LinkId::to(PeerId(seat as u64))
    }

    fn from(seat: usize) -> LinkId {
        LinkId::from(PeerId(seat as u64))
    }

    fn sends_to(seat: usize, built: u64) -> LaneKey {
        key(SeatNo(0), SeatNo(seat), Way::Out, Round(built))
    }

    /// This end dials where it sends.
    fn order(round: u64, links: &[LinkId]) -> Attempt {
        let end = |link: &LinkId| {
            let end = End {
                seat: SeatNo(link.with.0 as usize),
                ticket: Ticket(link.with.0.into()),
                dials: link.way == Way::Out,
                up: false,
                failed: false,
            };
            (*link, end)
        };
        Attempt {
            round: Round(round),
            ends: links.iter().map(end).collect(),
        }
    }

    fn ring(seats: &[usize]) -> Vec<Member> {
        let member = |seat: &usize| Member {
            peer: PeerId(*seat as u64),
            seat: SeatNo(*seat),
        };
        seats.iter().map(member).collect()
    }

    /// A process that stands between 1 and 2 on a ring of three, with lanes of round 1.
    fn between_one_and_two() -> Plane {
        let mut plane = Plane::new(SeatNo(0));
        plane.take_order(order(1, &[to(2), from(1)]));
        plane.comes_up(to(2));
        plane.comes_up(from(1));
        plane.adopt(ring(&[0, 2, 1]), &[used(to(2), 1), used(from(1), 1)]);
        plane
    }

    #[test]
    fn each_link_of_an_order_is_reported_once() {
        let mut plane = Plane::new(SeatNo(0));
        plane.take_order(order(4, &[to(2), from(1)]));

        assert_eq!(plane.expects(Ticket(1)), Some(from(1)));
        assert_eq!(plane.expects(Ticket(2)), None);
        assert_eq!(plane.comes_up(to(2)), Some(Round(4)));
        assert_eq!(plane.comes_up(from(1)), Some(Round(4)));
        assert_eq!(plane.comes_up(from(1)), None);
    }

    #[test]
    fn lanes_that_are_to_be_used_replace_those_that_stood() {
        let mut plane = between_one_and_two();
        plane.take_order(order(2, &[to(2)]));
        plane.comes_up(to(2));

        let dropped = plane.adopt(ring(&[0, 2, 1]), &[used(to(2), 2), kept(from(1))]);

        assert_eq!(plane.lanes_of(to(2)), Some(sends_to(2, 2)));
        assert_eq!(dropped, [sends_to(2, 1)]);
    }

    #[test]
    fn a_link_to_another_neighbour_takes_the_place_of_the_one_that_stood() {
        let mut plane = between_one_and_two();
        plane.take_order(order(2, &[to(3)]));
        plane.comes_up(to(3));

        let dropped = plane.adopt(ring(&[0, 3, 2, 1]), &[used(to(3), 2), kept(from(1))]);

        assert_eq!(plane.outgoing(), [sends_to(3, 2)]);
        assert_eq!(dropped, [sends_to(2, 1)]);
    }

    #[test]
    fn lanes_that_came_up_in_vain_are_dropped_and_those_that_are_kept_stay() {
        let mut plane = between_one_and_two();
        plane.take_order(order(2, &[to(3)]));
        plane.comes_up(to(3));

        let dropped = plane.adopt(ring(&[0, 2, 1]), &[kept(to(2)), kept(from(1))]);

        assert_eq!(plane.lanes_of(to(2)), Some(sends_to(2, 1)));
        assert_eq!(dropped, [sends_to(3, 2)]);
    }

    #[test]
    fn only_the_links_to_its_neighbours_carry_the_ring() {
        let mut plane = between_one_and_two();
        plane.take_order(order(2, &[to(1)]));
        plane.comes_up(to(1));
        let links = [used(to(1), 2), kept(to(2)), kept(from(1))];

        let dropped = plane.adopt(ring(&[0, 2, 1]), &links);

        assert_eq!(dropped, []);
        assert_eq!(plane.link_of(sends_to(1, 2)), Some(to(1)));
        assert!(!plane.carries_ring(sends_to(1, 2)));
        assert!(plane.carries_ring(sends_to(2, 1)));
        assert_eq!(plane.to_next(), Some(to(2)));
        assert_eq!(plane.from_previous(), Some(from(1)));
    }
}
