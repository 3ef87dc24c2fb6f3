//! What the watchers look at: a run of the model, or one that was recorded.
//!
//! A rule is said once, for both. What it asks is here; what only a model can know (whose contribution a
//! chunk holds, when a fault was planned) stays with the watchers of the model.

use std::net::SocketAddr;

use pccl_core::id::{CallId, GroupId, Identity, PeerId, Round, Seq, Tag};
use pccl_core::master::MasterConfig;
use pccl_core::messages::{CallKind, ToPeer};
use pccl_core::peer::{AdoptedLanes, AdoptedLink, Answer, Peer};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::topology::{LinkId, Topology};

use super::neighbours;
use crate::calls::is_for;
use crate::claim::Claim;
use crate::connection::End;
use crate::contents::Compared;
use crate::milestone::Milestone;
use crate::plane::{Lanes, Order, Ordered};
use crate::prologue;
use crate::run::{Run, is_vote, small};
use crate::script::{Do, UPDATES_MANY};
use crate::state::{Ghost, Life, Seat, address_of, config};
use crate::step::SeatNo;

/// One end of the lanes of a link that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) link: LinkId,
    pub(crate) built: Round,
    /// This end knows that they are dead.
    pub(crate) noticed: bool,
}

impl Standing {
    fn of(lanes: &Lanes) -> Self {
        Self {
            link: lanes.link,
            built: lanes.built,
            noticed: lanes.noticed,
        }
    }
}

/// What stands once these lanes are used: of those that stood, and those that were connected since.
pub(crate) fn chosen(
    links: &[AdoptedLink],
    standing: &[Standing],
    fresh: &[Standing],
) -> Vec<Standing> {
    let chosen = links.iter().filter_map(|adopted| {
        let is_it = |lanes: &&Standing| lanes.link == adopted.link;
        match adopted.lanes {
            AdoptedLanes::Keep => standing.iter().find(is_it).copied(),
            AdoptedLanes::Use(round) => {
                let fresh = fresh.iter().find(is_it).copied();
                fresh.filter(|lanes| lanes.built == round)
            }
        }
    });
    chosen.collect()
}

/// The round in which a peer is told to connect links, if it is.
pub(crate) fn order_to_connect(message: &ToPeer) -> Option<Round> {
    match message {
        ToPeer::EstablishLinks { round, .. } => Some(*round),
        _ => None,
    }
}

/// A run that is looked at.
pub(crate) trait Source {
    /// A process's place in the run.
    type Place: Copy + PartialEq;

    /// Notes that what has just happened broke a claim.
    fn breaks(&mut self, claim: Claim);
    /// Notes that what has just happened reached something.
    fn reach(&mut self, milestone: Milestone);
    /// What the watchers remember.
    fn ghost(&self) -> &Ghost;
    /// The same to change.
    fn edit_ghost(&mut self) -> &mut Ghost;
    /// Something happened that may explain that calls are made again.
    fn shock(&mut self);

    /// All processes.
    fn places(&self) -> Vec<Self::Place>;
    /// The process that the master calls so.
    fn place_of(&self, peer: PeerId) -> Option<Self::Place>;
    /// Whether this peer keeps to the protocol, as far as its machine does. Of a stranger nothing is known.
    fn is_honest(&self, peer: PeerId) -> bool;
    /// Whether the master knows this peer.
    fn is_known(&self, peer: PeerId) -> bool;
    /// What its master holds to.
    fn config(&self) -> MasterConfig;
    /// Whether users may do what the documentation forbids.
    fn users_err(&self) -> bool;
    /// Whether updates may pass over other calls so often that a call gives way to one.
    fn updates_are_many(&self) -> bool;
    /// The key that the process of this name has; `None`: it proves none.
    fn identity_of(&self, peer: PeerId) -> Option<Identity>;
    /// Where others open lanes to the process of this name. `None`: it is forgotten.
    fn whereabouts(&self, peer: PeerId) -> Option<SocketAddr>;
    /// How many lanes it would like. `None`: it is forgotten.
    fn lanes_wished(&self, peer: PeerId) -> Option<u16>;
    /// Whether the master has heard of a vote for something since it was admitted. `None`: one may be on its
    /// way, or was lost there.
    fn has_been_heard_to_vote(&self, peer: PeerId) -> Option<bool>;
    /// The round of the last order to connect a ring that it was sent before what happens. `None`: nobody can
    /// tell any more.
    fn order_sent_to(&self, peer: PeerId) -> Option<Round>;
    /// Whether anybody is known to be about to open lanes that it was told to open in this round, of those who
    /// are in the run of this master.
    fn anybody_dials(&self, round: Round, is_there: &dyn Fn(PeerId) -> bool) -> bool;
    /// The synchronization whose end a peer is being told.
    fn concluding(&self) -> Option<Round>;
    /// Notes which one that is.
    fn conclude(&mut self, round: Round);

    /// Who the process is to the master.
    fn id(&self, at: Self::Place) -> Option<PeerId>;
    /// The group that it works in.
    fn group(&self, at: Self::Place) -> GroupId;
    /// Its machine.
    fn peer(&self, at: Self::Place) -> &Peer;
    /// Whether it does anything: it is neither gone nor stopped.
    fn runs(&self, at: Self::Place) -> bool;
    /// The ring that it uses.
    fn topology(&self, at: Self::Place) -> &Topology;
    /// Its ends of the links that stand, in the order of their names.
    fn standing(&self, at: Self::Place) -> Vec<Standing>;
    /// Its ends of the links that are being connected.
    fn fresh(&self, at: Self::Place) -> Vec<Standing>;
    /// Whether it takes part in an execution, or has done its part and not heard the verdict.
    fn performs(&self, at: Self::Place, seq: Seq) -> bool;
    /// Whether it runs a plan for this tag.
    fn runs_plan(&self, at: Self::Place, tag: Tag) -> bool;
    /// Whether it moves shared state, or measures.
    fn is_moving(&self, at: Self::Place) -> bool;
    /// How it took part in its last synchronization.
    fn strategy(&self, at: Self::Place) -> Option<SyncStrategy>;
    /// What of its shared state is to be the same everywhere.
    fn content(&self, at: Self::Place) -> Compared;
    /// Whether it agrees to go on from any revision.
    fn restarts(&self, at: Self::Place) -> bool;
    /// Whether it has voted for something since it was admitted.
    fn has_voted(&self, at: Self::Place) -> bool;
    /// Whether it has taken its last vote back.
    fn took_back(&self, at: Self::Place) -> bool;
    /// Whether it is known to have agreed to another ring when it was handed one, whatever its user gave up since.
    fn has_agreed(&self, at: Self::Place) -> bool;
    /// Whether its user waits for this answer to this call.
    fn waits_for(&self, at: Self::Place, call: CallId, answer: &Answer) -> bool;
    /// Whether its user makes calls that are not possible.
    fn misuses(&self, at: Self::Place) -> bool;
}

impl Source for Run<'_> {
    type Place = SeatNo;

    fn breaks(&mut self, claim: Claim) {
        self.state.breaks(claim);
    }

    fn reach(&mut self, milestone: Milestone) {
        self.state.reach(milestone);
    }

    fn ghost(&self) -> &Ghost {
        &self.state.ghost
    }

    fn edit_ghost(&mut self) -> &mut Ghost {
        self.state.ghost.edit()
    }

    fn shock(&mut self) {
        Run::shock(self);
    }

    fn places(&self) -> Vec<SeatNo> {
        self.state.seat_numbers().collect()
    }

    fn place_of(&self, peer: PeerId) -> Option<SeatNo> {
        self.state.seat_of(peer)
    }

    fn is_honest(&self, _: PeerId) -> bool {
        true
    }

    fn is_known(&self, peer: PeerId) -> bool {
        self.master_knows(peer)
    }

    fn config(&self) -> MasterConfig {
        prologue::config(self.scenario)
    }

    fn users_err(&self) -> bool {
        false
    }

    fn updates_are_many(&self) -> bool {
        let mut plans = self.scenario.seats.iter();
        plans.any(|plan| plan.program.rounds >= UPDATES_MANY)
    }

    fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        Some(neighbours::identity_of(peer))
    }

    fn whereabouts(&self, peer: PeerId) -> Option<SocketAddr> {
        let no = self.state.seat_of(peer)?;
        let known = config(self.seat(no).plan, self.plan(no));
        let ip = known
            .advertise
            .unwrap_or_else(|| address_of(self.scenario, peer));
        Some(SocketAddr::new(ip, known.port))
    }

    fn lanes_wished(&self, peer: PeerId) -> Option<u16> {
        let no = self.state.seat_of(peer)?;
        Some(config(self.seat(no).plan, self.plan(no)).lanes)
    }

    fn has_been_heard_to_vote(&self, peer: PeerId) -> Option<bool> {
        let no = self.state.seat_of(peer)?;
        let seat = self.seat(no);
        if seat.life == Life::Departed {
            return None;
        }
        let all_arrived = seat.connection.up.end == End::Open;
        let is_known =
            !seat.has_voted || all_arrived && !seat.connection.up.queue.iter().any(is_vote);
        is_known.then_some(seat.has_voted)
    }

    fn order_sent_to(&self, peer: PeerId) -> Option<Round> {
        let seat = self.seat(self.state.seat_of(peer)?);
        if seat.connection.down.end != End::Open {
            return None;
        }
        let mut under_way = seat.connection.down.queue.iter().rev();
        let order = || seat.plane.order.as_ref().map(|order| order.round);
        under_way.find_map(order_to_connect).or_else(order)
    }

    fn anybody_dials(&self, round: Round, is_there: &dyn Fn(PeerId) -> bool) -> bool {
        let is_about_to = |seat: &Seat| {
            let order = seat.plane.order.as_ref();
            let order = order.filter(|order| order.round == round);
            order.is_some_and(Order::is_owed)
        };
        let mut seats = self.state.seats.iter();
        seats.any(|seat| seat.id.is_some_and(is_there) && is_about_to(seat))
    }

    fn concluding(&self) -> Option<Round> {
        self.concluding
    }

    fn conclude(&mut self, round: Round) {
        self.concluding = Some(round);
    }

    fn id(&self, at: SeatNo) -> Option<PeerId> {
        self.seat(at).id
    }

    fn group(&self, at: SeatNo) -> GroupId {
        GroupId(self.plan(at).group)
    }

    fn peer(&self, at: SeatNo) -> &Peer {
        &self.seat(at).peer
    }

    fn runs(&self, at: SeatNo) -> bool {
        self.seat(at).runs()
    }

    fn topology(&self, at: SeatNo) -> &Topology {
        &self.seat(at).plane.topology
    }

    fn standing(&self, at: SeatNo) -> Vec<Standing> {
        let standing = self.seat(at).plane.standing.iter();
        standing.map(Standing::of).collect()
    }

    fn fresh(&self, at: SeatNo) -> Vec<Standing> {
        let order = self.seat(at).plane.order.iter();
        let lanes = order.flat_map(|order| order.links.iter().filter_map(Ordered::lanes));
        lanes.map(Standing::of).collect()
    }

    fn performs(&self, at: SeatNo, seq: Seq) -> bool {
        let plane = &self.seat(at).plane;
        let mut known = plane.runs.iter().chain(&plane.whole);
        known.any(|known| known.seq == seq)
    }

    fn runs_plan(&self, at: SeatNo, tag: Tag) -> bool {
        let mut runs = self.seat(at).plane.runs.iter();
        runs.any(|known| known.tag == small(tag))
    }

    fn is_moving(&self, at: SeatNo) -> bool {
        let plane = &self.seat(at).plane;
        plane.moving.is_some() || plane.probing.is_some()
    }

    fn strategy(&self, at: SeatNo) -> Option<SyncStrategy> {
        self.seat(at).strategy
    }

    fn content(&self, at: SeatNo) -> Compared {
        self.seat(at).user.contents.compared()
    }

    fn restarts(&self, at: SeatNo) -> bool {
        self.plan(at).restart
    }

    fn has_voted(&self, at: SeatNo) -> bool {
        self.seat(at).has_voted
    }

    fn took_back(&self, at: SeatNo) -> bool {
        self.seat(at).took_back
    }

    fn has_agreed(&self, _: SeatNo) -> bool {
        // The model asks at the moment when the ring stands, and no earlier.
        false
    }

    fn waits_for(&self, at: SeatNo, call: CallId, answer: &Answer) -> bool {
        let user = &self.seat(at).user;
        if !is_for(call, answer) {
            return false;
        }
        match answer {
            Answer::Connected(_) => user.waits_to_connect(),
            Answer::TopologyUpdated(_) => user.waits_in(CallKind::UpdateTopology),
            Answer::TopologyOptimized(_) => user.waits_in(CallKind::OptimizeTopology),
            Answer::Synchronized(_) => user.waits_in(CallKind::SyncSharedState),
            Answer::PeersPending(_) => user.waits_in_query(),
            Answer::CollectiveEnded { tag, .. } => user.runs(small(*tag)),
        }
    }

    fn misuses(&self, at: SeatNo) -> bool {
        let steps = self.plan(at).program.steps;
        steps.iter().any(|step| matches!(step, Do::StartTwice(_)))
    }
}
