//! What lies between the processes of a run: lanes that come up, carry frames and break, measurements, and
//! transfers of shared state. Contents are symbols, see [`plane`](crate::plane).
//!
//! The model stands on it, and so does every other world that is led by somebody else: what happens next, and
//! what cannot, is for that world to say. Here is what comes of it.

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round, Seq};
use pccl_core::messages::PlanOutcome;
use pccl_core::paths::Measurement;
use pccl_core::peer::{AdoptedLink, PeerInput};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::{LaneFailure, LinkId, Topology, Way};

use crate::plan_run::{Frame, Told};
use crate::plane::{Adoption, Lanes, LinkProgress, Moving, Plane, Sent};

/// The data planes of all processes.
pub trait Fabric {
    /// A process's place in the run.
    type Place: Copy;

    /// The data plane of a process.
    fn plane(&self, at: Self::Place) -> &Plane;
    /// The same to change.
    fn edit_plane(&mut self, at: Self::Place) -> &mut Plane;
    /// Who the process is to the master.
    fn id(&self, at: Self::Place) -> Option<PeerId>;
    /// The process that the master calls so.
    fn place_of(&self, peer: PeerId) -> Option<Self::Place>;
    /// Tells the machine of a process what has become of something.
    fn report(&mut self, at: Self::Place, input: PeerInput);
    /// Whether it never comes to the end of its own part of anything.
    fn is_mute(&self, at: Self::Place) -> bool;
    /// Whether lanes carry nothing although they are up.
    fn is_black_hole(&self, me: PeerId, link: LinkId) -> bool;
    /// What a process measures. `None`: nothing arrives there.
    fn measurement(&self, from: Self::Place, to: PeerId) -> Option<Measurement>;
    /// What a process holds in an entry of its shared state.
    fn content(&self, at: Self::Place, entry: EntryIndex) -> Option<ContentHash>;
    /// Writes an entry; false where there is none.
    fn write(&mut self, at: Self::Place, entry: EntryIndex, hash: ContentHash) -> bool;

    // Links.

    /// The lanes of an ordered link are up at this end, which says so.
    fn comes_up(&mut self, at: Self::Place, link: LinkId) {
        let plane = self.edit_plane(at);
        plane.comes_up(link);
        if let Some(round) = plane.order.as_ref().map(|order| order.round) {
            self.report(at, PeerInput::LinkUp { round, link });
        }
    }

    /// The lanes of an ordered link do not come up. What the other end has taken ends there.
    fn link_fails(&mut self, at: Self::Place, link: LinkId, failure: LaneFailure) {
        let Some(order) = &mut self.edit_plane(at).order else {
            return;
        };
        let round = order.round;
        let Some(ordered) = order.link_mut(link) else {
            return;
        };
        ordered.progress = LinkProgress::Failed;
        self.other_end_sees_the_end(at, link, round);
        let failed = PeerInput::LinkFailed {
            round,
            link,
            failure,
        };
        self.report(at, failed);
    }

    /// This end gives lanes up; the other end will see them end.
    fn drop_lanes(&mut self, at: Self::Place, dropped: &[Lanes]) {
        for lanes in dropped {
            self.other_end_sees_the_end(at, lanes.link, lanes.built);
        }
    }

    /// The lanes of a link that were built in this round end at its other end.
    fn other_end_sees_the_end(&mut self, at: Self::Place, link: LinkId, built: Round) {
        let (Some(me), Some(other)) = (self.id(at), self.place_of(link.with)) else {
            return;
        };
        let end = other_end(link, me);
        let is_meant = |lanes: &Lanes| lanes.built == built && !lanes.cut;
        if self.plane(other).lanes(end).any(is_meant) {
            for lanes in self.edit_plane(other).lanes_mut(end) {
                lanes.cut |= is_meant(lanes);
            }
        }
    }

    /// Lanes break between two living processes: those that are about to become the link, else those that
    /// stand.
    fn break_link(&mut self, at: Self::Place, link: LinkId) {
        let whole = self.edit_plane(at).lanes_mut(link);
        let Some(lanes) = whole.filter(|lanes| !lanes.cut).last() else {
            return;
        };
        lanes.cut = true;
        let lanes = lanes.clone();
        self.drop_lanes(at, &[lanes]);
    }

    /// A process notices that the lanes of a link have ended that were built in these rounds.
    fn notice(&mut self, at: Self::Place, link: LinkId, broken: &[Round]) {
        for lanes in self.edit_plane(at).lanes_mut(link) {
            lanes.noticed |= broken.contains(&lanes.built);
        }
        for built in broken {
            let built = *built;
            self.report(at, PeerInput::LinkBroke { link, built });
        }
        self.end_executions(at, link);
    }

    /// A process uses a ring from here on, with the lanes that are named and no others.
    fn adopt(&mut self, at: Self::Place, topology: Topology, links: &[AdoptedLink]) -> Adoption {
        let adopted = self.edit_plane(at).adopt(topology, links);
        self.drop_lanes(at, &adopted.dropped);
        adopted
    }

    // Collectives.

    /// An execution begins at a process.
    fn begin_execution(&mut self, at: Self::Place, (tag, seq): (u8, Seq), what: Told<'_, PeerId>) {
        let Some(me) = self.id(at) else {
            return;
        };
        let first = self.edit_plane(at).run_plan(me, (tag, seq), what);
        let links: Vec<LinkId> = self.plane(at).links().collect();
        for link in links {
            self.end_executions(at, link);
        }
        if self.plane(at).runs.iter().all(|run| run.seq != seq) {
            return;
        }
        self.send_frames(at, &first);
        self.reap(at);
    }

    /// A process takes in the frame that one of its executions waits for, if it is there.
    ///
    /// # Errors
    /// The frame is not what the plan expects.
    fn take_frame(&mut self, at: Self::Place, tag: u8) -> Result<(), Frame> {
        if let Some(frame) = self.plane(at).expected(tag) {
            let onward = self.edit_plane(at).take_frame(frame)?;
            self.send_frames(at, &onward);
            self.reap(at);
        }
        Ok(())
    }

    /// Executions that are complete here are reported.
    fn reap(&mut self, at: Self::Place) {
        for seq in self.edit_plane(at).reap() {
            self.execution_ended(at, seq, PlanOutcome::Done);
        }
    }

    /// One of a peer's executions has ended.
    fn execution_ended(&mut self, at: Self::Place, seq: Seq, outcome: PlanOutcome) {
        if !self.is_mute(at) {
            self.report(at, PeerInput::PlanEnded { seq, outcome });
        }
    }

    /// Every execution here that needs this link has lost a lane, if the link has.
    fn end_executions(&mut self, at: Self::Place, link: LinkId) {
        let plane = self.plane(at);
        if !plane.standing(link).is_some_and(|lanes| lanes.noticed) {
            return;
        }
        let lost = plane.runs.iter().filter(|run| plane.uses(run, link));
        let lost: Vec<Seq> = lost.map(|run| run.seq).collect();
        for seq in lost {
            self.edit_plane(at).stop(seq);
            self.execution_ended(at, seq, PlanOutcome::LaneLost);
        }
    }

    /// Frames leave. What is sent into broken lanes is lost.
    fn send_frames(&mut self, at: Self::Place, frames: &[Sent]) {
        for sent in frames {
            let (Some(me), Some(lanes)) = (self.id(at), self.plane(at).standing(sent.over)) else {
                continue;
            };
            let built = lanes.built;
            if lanes.cut || self.is_black_hole(me, sent.over) {
                continue;
            }
            let Some(other) = self.place_of(sent.over.with) else {
                continue;
            };
            let ends = self.edit_plane(other).lanes_mut(other_end(sent.over, me));
            for end in ends.filter(|end| end.built == built) {
                end.frames.push_back(sent.frame);
            }
        }
    }

    // Measurements.

    /// A process measures what it was asked, or cannot.
    fn measure(&mut self, at: Self::Place, ok: bool) {
        if self.is_mute(at) {
            return;
        }
        let Some((round, probes)) = self.plane(at).probing.clone() else {
            return;
        };
        for order in probes.iter().filter(|order| ok && order.way == Way::Out) {
            let to = order.lanes.with;
            if let Some(measured) = self.measurement(at, to) {
                let measured = PeerInput::Measured {
                    round,
                    to,
                    measured,
                };
                self.report(at, measured);
            }
        }
        self.edit_plane(at).probing = None;
        self.report(at, PeerInput::ProbesEnded { round, ok });
    }

    // Shared state.

    /// A process is told what to fetch or to serve.
    fn move_state(&mut self, at: Self::Place, plan: SyncPlan) {
        let at_once = match &plan.role {
            SyncRole::Distribute { to } => to.is_empty(),
            SyncRole::Request { from, .. } => from.is_empty(),
        };
        self.edit_plane(at).moving = Some(Moving {
            plan,
            served: Vec::new(),
            ended: false,
            staged: Vec::new(),
        });
        if at_once {
            self.end_move(at, true, None);
        }
    }

    /// A process fetches what it was told to, some of it from each of these holders. False: what arrives is not
    /// what was promised.
    fn fetch(&mut self, at: Self::Place, holders: &[Self::Place]) -> bool {
        if let Some(moving) = &mut self.edit_plane(at).moving
            && let SyncRole::Request { entries, .. } = &moving.plan.role
        {
            let entries = entries.to_vec();
            moving.staged = entries;
        }
        let promised = self.plane(at).moving.as_ref();
        let is_kept = promised.is_some_and(|moving| {
            let mut staged = moving.staged.iter();
            staged.all(|(entry, hash)| {
                let mut holders = holders.iter();
                holders.all(|holder| self.content(*holder, *entry) == Some(*hash))
            })
        });
        self.end_move(at, is_kept, None);
        let asker = self.id(at).filter(|_| is_kept);
        for holder in holders {
            if let Some(moving) = &mut self.edit_plane(*holder).moving {
                moving.served.extend(asker);
            }
        }
        is_kept
    }

    /// What a process had to fetch or to serve is done, or cannot be; the other end is named if it is known.
    fn end_move(&mut self, at: Self::Place, ok: bool, with: Option<PeerId>) {
        let is_mute = self.is_mute(at);
        if let Some(moving) = &mut self.edit_plane(at).moving {
            moving.ended = true;
            let round = moving.plan.round;
            if !is_mute {
                self.report(at, PeerInput::TransfersEnded { round, ok, with });
            }
        }
    }

    /// What was fetched is written. `None`: this synchronization is not carried out here, or an entry is
    /// missing.
    fn commit_state(&mut self, at: Self::Place, round: Round) -> Option<SyncPlan> {
        let moving = self.edit_plane(at).moving.take();
        let moving = moving.filter(|moving| moving.plan.round == round)?;
        let mut staged = moving.staged.iter();
        let is_whole = staged.all(|(entry, hash)| self.write(at, *entry, *hash));
        is_whole.then_some(moving.plan)
    }

    /// What was fetched is dropped. False: this synchronization is not carried out here.
    fn drop_state(&mut self, at: Self::Place, round: Round) -> bool {
        let moving = self.edit_plane(at).moving.take();
        moving.is_some_and(|moving| moving.plan.round == round)
    }
}

/// The same link from its other end.
#[must_use]
pub const fn other_end(link: LinkId, me: PeerId) -> LinkId {
    LinkId {
        way: link.way.other_end(),
        with: me,
    }
}
