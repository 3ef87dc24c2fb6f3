//! A state of the whole run: the machines of the product, what lies between them, and a memory of what
//! was said.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};

use pccl_core::id::{GroupId, PeerId, Revision, Round, Seq, Tag};
use pccl_core::master::Master;
use pccl_core::messages::Verdict;
use pccl_core::peer::{Peer, PeerConfig, PeerTimer};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::site::SiteName;
use pccl_core::topology::LinkId;
use pccl_core::tour::TourProblem;

use crate::claim::Claim;
use crate::connection::Connection;
use crate::contents::{Compared, Contents};
use crate::hashed::Hashed;
use crate::journal::Journal;
use crate::milestone::Milestone;
use crate::plane::Plane;
use crate::scenario::Scenario;
use crate::scenario::{SeatPlan, Start};
use crate::script::User;
use crate::step::SeatNo;
use crate::trouble::Trouble;

/// Does a process do anything?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// It runs.
    Running,
    /// It does nothing, and nobody was told.
    Frozen,
    /// It is gone, or out of the run for good.
    Departed,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Which plan of the scenario it follows. Seats with equal plans are interchangeable.
    pub plan: u8,
    /// Does it do anything?
    pub life: Life,
    /// Who it is to the master, from its welcome until it is gone.
    pub id: Option<PeerId>,
    /// The machine of the product.
    pub peer: Peer,
    /// The connection to the master.
    pub connection: Connection,
    /// Lanes, rings, transfers.
    pub plane: Plane,
    /// The program that calls.
    pub user: User,
    /// The timers of the machine that run.
    pub timers: BTreeSet<PeerTimer>,
    /// How it took part in its last synchronization.
    pub strategy: Option<SyncStrategy>,
    /// It lives, moves bytes for others, and never comes to the end of its own part of anything.
    pub is_mute: bool,
    /// Nobody can open lanes to it.
    pub is_closed: bool,
    /// Has voted for something since it was admitted.
    pub has_voted: bool,
    /// Has taken its last vote back.
    pub took_back: bool,
    /// Tags that its user has called for and that it has not voted for, in the order of the calls.
    pub called: Vec<u8>,
    /// Was told a ring, has voted for nothing, and its user has called for nothing since: its next update is
    /// answered with that ring.
    pub was_told_a_ring: bool,
}

impl Seat {
    /// A process before its first call.
    #[must_use]
    pub fn new(plan_no: u8, plan: &SeatPlan) -> Self {
        let inside = plan.start == Start::Inside;
        let contents = Contents::new(plan.content, plan.second);
        Self {
            plan: plan_no,
            life: Life::Running,
            id: None,
            peer: Peer::new(config(plan_no, plan)),
            connection: Connection::default(),
            plane: Plane::default(),
            user: User::new(
                inside,
                plan.program.first,
                Revision(u64::from(plan.revision)),
                contents,
            ),
            timers: BTreeSet::new(),
            strategy: None,
            is_mute: false,
            is_closed: false,
            has_voted: false,
            took_back: false,
            called: Vec::new(),
            was_told_a_ring: false,
        }
    }

    /// Does it do anything?
    #[must_use]
    pub fn runs(&self) -> bool {
        self.life == Life::Running
    }

    /// Leaves nothing but what is on its way to the master.
    pub fn depart(&mut self, plan: &SeatPlan) {
        let mut departed = Self::new(self.plan, plan);
        departed.life = Life::Departed;
        departed.user.end();
        departed.connection.down.finish();
        departed.connection.up = std::mem::take(&mut self.connection.up);
        departed.id = self.id;
        *self = departed;
    }
}

/// What a peer has to know before it connects. Peers of different plans differ in all of it but the site, so that
/// whoever takes one for the other is noticed; those of one plan are interchangeable.
pub(crate) fn config(plan_no: u8, plan: &SeatPlan) -> PeerConfig {
    let number = usize::from(plan_no);
    let advertised = IpAddr::V4(Ipv4Addr::new(198, 51, 100, plan_no));
    PeerConfig {
        group: GroupId(plan.group),
        port: 48149 + u16::from(plan_no),
        advertise: (number % 2 == 1).then_some(advertised),
        lanes: LANES.get(number).copied().unwrap_or(1),
        site: site_of(plan),
        name: Default::default(),
        collectives_max: plan.collectives_max,
    }
}

/// The name of its site: its number, and none for the first.
fn site_of(plan: &SeatPlan) -> SiteName {
    let name = match plan.site {
        0 => String::new(),
        site => site.to_string(),
    };
    SiteName::try_from(name).unwrap_or_default()
}

/// How many lanes peers of each plan would like.
const LANES: [u16; 4] = [3, 5, 2, 4];

/// From where the master sees a peer connect: each from a machine of its own, unless they share one.
pub(crate) fn address_of(scenario: &Scenario, peer: PeerId) -> IpAddr {
    let host = match scenario.one_machine {
        true => 1,
        false => u8::try_from(peer.0).unwrap_or(u8::MAX),
    };
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))
}

/// What a bystander who sees everything has to remember. Entries are forgotten when nobody can be
/// told of them any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ghost {
    /// The last verdict about each tag.
    pub verdicts: BTreeMap<(GroupId, Tag), (Seq, Verdict)>,
    /// Whose vote that its part is whole has reached the master.
    pub done: BTreeSet<(Seq, PeerId)>,
    /// What the last synchronization of each group left.
    pub contents: BTreeMap<GroupId, (Round, Revision, Compared)>,
    /// What went wrong between peers.
    pub trouble: Trouble,
    /// How many updates have passed over the call that a peer waits in. Counted where users update so often
    /// that it matters only.
    pub passed: BTreeMap<PeerId, u8>,
    /// How often in a row the collectives of a group have given way to a synchronization, and which of them
    /// since the last of these began.
    pub in_a_row: BTreeMap<GroupId, (u8, BTreeSet<Tag>)>,
    /// How often rings of the optimization that runs were probed under load.
    pub loads: u8,
    /// Whose measurements in it took too long.
    pub slow: BTreeSet<PeerId>,
}

/// A question to the solver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tour {
    /// The optimization.
    pub round: Round,
    /// Whose ring.
    pub group: GroupId,
    /// What is known.
    pub problem: TourProblem,
}

/// A state of the whole run.
#[derive(Clone)]
pub struct RunState {
    /// The machine of the product; `None`: it died.
    pub master: Option<Hashed<Master>>,
    /// Its journal, where it may be followed by another one.
    pub journal: Option<Hashed<Journal>>,
    /// The processes.
    pub seats: Vec<Hashed<Seat>>,
    /// Open questions to the solver, oldest first.
    pub tours: Vec<Tour>,
    /// Questions that were answered, the last of each group, where searches go on.
    pub asked: Vec<Tour>,
    /// Searches that go on, oldest first.
    pub searches: Vec<Tour>,
    /// Faults that may still happen.
    pub faults: u8,
    /// Lanes from the first of two peers to the second come up and carry nothing.
    pub black_holes: BTreeSet<(PeerId, PeerId)>,
    /// What has to be remembered.
    pub ghost: Hashed<Ghost>,
    /// The claim that the last step broke.
    pub broken: Option<Claim>,
    /// What the last step reached, a bit for each [`Milestone`]: about the step, not about the state.
    pub reached: u64,
}

impl RunState {
    /// The seat of a peer that is in the run.
    #[must_use]
    pub fn seat_of(&self, peer: PeerId) -> Option<SeatNo> {
        let at = self.seats.iter().position(|seat| seat.id == Some(peer))?;
        u8::try_from(at).ok().map(SeatNo)
    }

    /// Do the lanes of this link of a peer carry nothing?
    #[must_use]
    pub fn is_black_hole(&self, me: PeerId, link: LinkId) -> bool {
        self.black_holes.contains(&link.ends(me))
    }

    /// A process.
    #[must_use]
    pub fn seat(&self, no: SeatNo) -> Option<&Seat> {
        self.seats.get(no.index()).map(|seat| &**seat)
    }

    /// The process that is this peer.
    #[must_use]
    pub fn seat_with(&self, peer: PeerId) -> Option<&Seat> {
        self.seat(self.seat_of(peer)?)
    }

    /// Numbers of all seats.
    pub fn seat_numbers(&self) -> impl Iterator<Item = SeatNo> + use<> {
        (0..u8::try_from(self.seats.len()).unwrap_or(u8::MAX)).map(SeatNo)
    }

    /// Notes that the step reached something.
    pub fn reach(&mut self, milestone: Milestone) {
        self.reached |= 1 << milestone as u32;
    }

    /// Did the last step reach this?
    #[must_use]
    pub fn has_reached(&self, milestone: Milestone) -> bool {
        self.reached & (1 << milestone as u32) != 0
    }

    /// Notes that the step broke a claim; the first one counts.
    pub fn breaks(&mut self, claim: Claim) {
        self.broken.get_or_insert(claim);
    }

    pub(crate) fn seal(&mut self) {
        for seat in &mut self.seats {
            seat.seal();
        }
        if let Some(master) = &mut self.master {
            master.seal();
        }
        if let Some(journal) = &mut self.journal {
            journal.seal();
        }
        self.ghost.seal();
    }

    /// 64 bits that stand for the state with interchangeable seats in a fixed order: the symmetry that the
    /// search uses.
    ///
    /// Seats are interchangeable where their plans are equal, for nothing but the seat itself refers
    /// to its place. Peers' numbers are left as they are: the protocol prefers lower ones, so peers
    /// that differ in nothing but their number are *not* alike.
    #[must_use]
    pub fn key(&self) -> u64 {
        let mut seats: Vec<&Hashed<Seat>> = self.seats.iter().collect();
        seats.sort_by_key(|seat| order_of(seat));
        let mut hasher = ahash::RandomState::with_seeds(5, 6, 7, 8).build_hasher();
        self.master.hash(&mut hasher);
        for seat in seats {
            seat.fingerprint().hash(&mut hasher);
        }
        self.hash_the_rest(&mut hasher);
        hasher.finish()
    }

    fn hash_the_rest<H: Hasher>(&self, state: &mut H) {
        self.journal.hash(state);
        self.tours.hash(state);
        self.asked.hash(state);
        self.searches.hash(state);
        self.faults.hash(state);
        self.black_holes.hash(state);
        self.ghost.hash(state);
        self.broken.hash(state);
    }
}

/// Where a seat stands among those that are interchangeable with it.
fn order_of(seat: &Hashed<Seat>) -> (u8, bool, Option<PeerId>, u64) {
    (seat.plan, seat.id.is_none(), seat.id, seat.fingerprint())
}

impl PartialEq for RunState {
    fn eq(&self, other: &Self) -> bool {
        self.master == other.master
            && self.journal == other.journal
            && self.seats == other.seats
            && self.tours == other.tours
            && self.asked == other.asked
            && self.searches == other.searches
            && self.faults == other.faults
            && self.black_holes == other.black_holes
            && self.ghost == other.ghost
            && self.broken == other.broken
    }
}

impl Hash for RunState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.master.hash(state);
        self.seats.hash(state);
        self.hash_the_rest(state);
    }
}
