//! The data planes of the processes: those of the model, led by a story. What cannot be connected, measured
//! or fetched is for the story to say.

use std::collections::BTreeSet;

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round};
use pccl_core::paths::Measurement;
use pccl_core::peer::{PeerInput, PeerOutput};
use pccl_core::shared_state::SyncRole;
use pccl_core::topology::{LaneFailure, LinkId};
use pccl_model::fabric::{Fabric, other_end};
use pccl_model::plane::{Lanes, LinkProgress, Plane};

use super::Run;
use super::seat::{SeatNo, small};

/// What does not work between the processes.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// Pairs that cannot be connected, lower number first.
    pub(crate) blocked: BTreeSet<(SeatNo, SeatNo)>,
    /// Pairs between which no shared state arrives, lower number first.
    pub(crate) untransferable: BTreeSet<(SeatNo, SeatNo)>,
    /// No link can be connected, although measurements go through.
    pub(crate) no_links: bool,
    /// Processes that cannot measure.
    pub(crate) cannot_measure: BTreeSet<SeatNo>,
}

impl Fabric for Run {
    type Place = SeatNo;

    fn plane(&self, at: SeatNo) -> &Plane {
        &self.seats[at].plane
    }

    fn edit_plane(&mut self, at: SeatNo) -> &mut Plane {
        &mut self.seats[at].plane
    }

    fn id(&self, at: SeatNo) -> Option<PeerId> {
        self.seats[at].id
    }

    fn place_of(&self, peer: PeerId) -> Option<SeatNo> {
        self.seat_with(peer)
    }

    fn report(&mut self, at: SeatNo, input: PeerInput) {
        self.seats[at].inbox.push_back(input);
    }

    fn is_mute(&self, _: SeatNo) -> bool {
        false
    }

    fn is_black_hole(&self, _: PeerId, _: LinkId) -> bool {
        false
    }

    fn measurement(&self, from: SeatNo, to: PeerId) -> Option<Measurement> {
        let to = self.named(to);
        let arrives = !self.is_blocked(from, to) && !self.is_out(to);
        // Anything that makes one order better than another.
        arrives.then_some(Measurement {
            bytes_per_s: 1_000_000 * (1 + (from * 7 + to * 13) as u64 % 17),
            round_trip_us: 1000,
        })
    }

    fn content(&self, at: SeatNo, entry: EntryIndex) -> Option<ContentHash> {
        let entry = self.seats[at].memory.entries.get(entry.0 as usize)?;
        Some(entry.hash)
    }

    fn write(&mut self, at: SeatNo, entry: EntryIndex, hash: ContentHash) -> bool {
        let entry = self.seats[at].memory.entries.get_mut(entry.0 as usize);
        entry.map(|entry| entry.hash = hash).is_some()
    }
}

impl Run {
    /// Carries out what a peer orders from its data plane.
    pub(super) fn order_plane(&mut self, no: SeatNo, output: PeerOutput) {
        match output {
            PeerOutput::Establish { round, links } => {
                let unused = self.seats[no].plane.take_order(round, &links);
                self.drop_lanes(no, &unused);
            }
            PeerOutput::AdoptRing { topology, links } => {
                assert!(self.seats[no].plane.runs.is_empty(), "a plan runs on");
                let adopted = self.adopt(no, topology, &links);
                assert!(adopted.is_complete, "what is to be used is there");
            }
            PeerOutput::RunPlan {
                tag,
                seq,
                spec,
                lengths,
                algorithm,
                ..
            } => self.begin_execution(no, (small(tag), seq), (spec.kind, &lengths, algorithm)),
            PeerOutput::StopPlan { seq } => self.seats[no].plane.stop(seq),
            PeerOutput::MoveState { plan, .. } => self.move_state(no, plan),
            PeerOutput::CommitState { round } => {
                let plan = self.commit_state(no, round);
                let plan = plan.expect("only a running plan is committed");
                self.seats[no].memory.revision = plan.revision;
            }
            PeerOutput::DropState { round } => {
                assert!(self.drop_state(no, round), "only a running plan is dropped");
            }
            PeerOutput::Probe { round, probes } => {
                self.seats[no].plane.probing = Some((round, probes));
            }
            PeerOutput::StopProbes { .. } => self.seats[no].plane.probing = None,
            PeerOutput::Send(_)
            | PeerOutput::Answer { .. }
            | PeerOutput::Confirm { .. }
            | PeerOutput::StartTimer { .. }
            | PeerOutput::StopTimer(_)
            | PeerOutput::Awaited(_)
            | PeerOutput::Close => {}
        }
    }

    /// The data plane of a process does one thing. False: it has nothing to do.
    pub(super) fn work(&mut self, no: SeatNo) -> bool {
        self.dial_any(no)
            || self.go_on_with_rings(no)
            || self.go_on_with_move(no)
            || self.measure_any(no)
    }

    /// Opens the lanes of a link that this end is to open.
    fn dial_any(&mut self, no: SeatNo) -> bool {
        let order = self.seats[no].plane.order.iter();
        let owed = order.flat_map(|order| order.links.iter().filter(|link| link.is_owed()));
        let owed: Vec<LinkId> = owed.map(|ordered| ordered.link).collect();
        owed.into_iter().any(|link| self.dial(no, link))
    }

    fn dial(&mut self, no: SeatNo, link: LinkId) -> bool {
        let other = self.named(link.with);
        if self.faults.no_links || self.is_blocked(no, other) || self.is_out(other) {
            self.link_fails(no, link, LaneFailure::Refused);
            return true;
        }
        let theirs = other_end(link, self.id(no));
        let order = |no: SeatNo| self.seats[no].plane.order.as_ref();
        let expected =
            order(other).filter(|theirs| Some(theirs.round) == order(no).map(|o| o.round));
        let expected = expected.and_then(|order| order.link(theirs));
        let waits = expected.is_some_and(|end| end.progress == LinkProgress::Owed);
        if waits {
            self.comes_up(no, link);
            self.comes_up(other, theirs);
        }
        waits
    }

    /// A frame is taken in, or a lane is noticed to be lost.
    fn go_on_with_rings(&mut self, no: SeatNo) -> bool {
        if self.seats[no].plane.runs.is_empty() {
            return self.notice_any(no);
        }
        let frame_first = self.roll(2) == 0;
        (frame_first && self.take_any_frame(no)) || self.notice_any(no) || self.take_any_frame(no)
    }

    fn take_any_frame(&mut self, no: SeatNo) -> bool {
        let plane = &self.seats[no].plane;
        let tags = plane.runs.iter().map(|run| run.tag);
        let ready: Vec<u8> = tags.filter(|tag| plane.expected(*tag).is_some()).collect();
        if ready.is_empty() {
            return false;
        }
        let chosen = self.roll(ready.len());
        let tag = &ready[chosen];
        let taken = self.take_frame(no, *tag);
        taken.expect("the frame is what the plan expects");
        true
    }

    fn notice_any(&mut self, no: SeatNo) -> bool {
        let links: Vec<LinkId> = self.seats[no].plane.links().collect();
        links.into_iter().any(|link| {
            let lanes = self.seats[no].plane.lanes(link);
            let lost = lanes.filter(|lanes| lanes.cut && !lanes.noticed);
            let lost: Vec<Round> = lost.map(|lanes| lanes.built).collect();
            if !lost.is_empty() {
                self.notice(no, link, &lost);
            }
            !lost.is_empty()
        })
    }

    fn go_on_with_move(&mut self, no: SeatNo) -> bool {
        let moving = self.seats[no].plane.moving.as_ref();
        let Some(moving) = moving.filter(|moving| !moving.ended) else {
            return false;
        };
        match &moving.plan.role {
            SyncRole::Request { from, .. } => {
                let round = moving.plan.round;
                let holders: Vec<_> = from.iter().map(|order| self.named(order.with)).collect();
                !holders.is_empty() && self.fetch_from(no, holders, round)
            }
            SyncRole::Distribute { to } => {
                let is_served = moving.is_served();
                let mut askers = to.iter().map(|order| order.with);
                let stranger = askers.find(|asker| self.cannot_fetch(no, self.named(*asker)));
                let ends = is_served || stranger.is_some();
                if ends {
                    self.end_move(no, is_served, stranger);
                }
                ends
            }
        }
    }

    /// From those of them that can be reached.
    fn fetch_from(&mut self, no: SeatNo, mut holders: Vec<SeatNo>, round: Round) -> bool {
        holders.retain(|holder| !self.is_out(*holder) && !self.cannot_fetch(no, *holder));
        if holders.is_empty() {
            self.end_move(no, false, None);
            return true;
        }
        let is_told = |holder: &SeatNo| {
            let serving = self.seats[*holder].plane.moving.as_ref();
            serving.is_some_and(|serving| serving.plan.round == round)
        };
        let are_told = holders.iter().all(is_told);
        if are_told {
            assert!(
                self.fetch(no, &holders),
                "the holders have what was promised"
            );
        }
        are_told
    }

    fn measure_any(&mut self, no: SeatNo) -> bool {
        let has_to = self.seats[no].plane.probing.is_some();
        self.measure(no, !self.faults.cannot_measure.contains(&no));
        has_to
    }

    /// The process of this name, which an order speaks of.
    fn named(&self, peer: PeerId) -> SeatNo {
        let no = self.seat_with(peer);
        no.expect("orders name peers of the run")
    }

    fn is_blocked(&self, one: SeatNo, other: SeatNo) -> bool {
        let pair = (one.min(other), one.max(other));
        self.faults.blocked.contains(&pair)
    }

    /// Whichever end of such a pair notices first says so.
    fn cannot_fetch(&self, one: SeatNo, other: SeatNo) -> bool {
        let pair = (one.min(other), one.max(other));
        self.is_blocked(one, other) || self.faults.untransferable.contains(&pair)
    }

    fn is_out(&self, no: SeatNo) -> bool {
        !self.seats[no].alive || self.peer(no).view().ended().is_some()
    }

    /// All lanes of a process end.
    pub(super) fn drop_plane(&mut self, no: SeatNo) {
        let lanes = self.seats[no].plane.drop_all();
        self.drop_lanes(no, &lanes);
    }

    // What a story says and asks.

    /// The lanes on which a process sends around its ring.
    fn lanes_to_next(&mut self, no: SeatNo) -> Option<&mut Lanes> {
        let seat = &mut self.seats[no];
        let next = seat.plane.topology.ring.next_of(seat.id?)?;
        let mut standing = seat.plane.standing.iter_mut();
        standing.find(|lanes| lanes.link == LinkId::to(next))
    }

    /// Who is next on the ring of a process that is on one.
    pub(crate) fn next_of(&self, no: SeatNo) -> SeatNo {
        let next = self.seats[no].plane.topology.ring.next_of(self.id(no));
        self.named(next.expect("it is on a ring"))
    }

    /// A lane of the link to the next on the ring ends between two living peers; the first `kept` frames on
    /// their way still arrive.
    pub(crate) fn break_link(&mut self, from: SeatNo, kept: usize) {
        let Some(lanes) = self.lanes_to_next(from).filter(|lanes| !lanes.cut) else {
            return;
        };
        lanes.cut = true;
        let lanes = lanes.clone();
        let (to, theirs) = (
            self.named(lanes.link.with),
            other_end(lanes.link, self.id(from)),
        );
        let ends = self.seats[to].plane.lanes_mut(theirs);
        for end in ends.filter(|end| end.built == lanes.built) {
            end.frames.truncate(kept);
        }
        self.drop_lanes(from, &[lanes]);
    }

    /// A process will not notice which of its lanes have ended.
    pub(crate) fn misses_what_broke(&mut self, no: SeatNo) {
        for lanes in &mut self.seats[no].plane.standing {
            lanes.noticed |= lanes.cut;
        }
    }

    /// The holders that a process was told to fetch from, until that is concluded.
    pub(crate) fn sources_of(&self, no: SeatNo) -> Vec<SeatNo> {
        let moving = self.seats[no].plane.moving.as_ref();
        match moving.map(|moving| &moving.plan.role) {
            Some(SyncRole::Request { from, .. }) => {
                from.iter().map(|order| self.named(order.with)).collect()
            }
            Some(SyncRole::Distribute { .. }) | None => Vec::new(),
        }
    }

    /// The first of them.
    pub(crate) fn fetches_from(&self, no: SeatNo) -> Option<SeatNo> {
        self.sources_of(no).first().copied()
    }
}
