//! Running a ring over symbols: a chunk is the list of peers whose contribution it holds.

use pccl_core::id::{PeerId, Seq, Tag};
use pccl_core::messages::RingOutcome;
use pccl_core::peer::{Answer, CallError, PeerInput};
use pccl_core::plan::{Action, Algorithm, Arrival, Plan};
use pccl_core::topology::Ring;

use super::Run;
use super::plane::{LinkKey, Plane};
use super::seat::SeatNo;

/// Whose contributions, sorted; one that is in twice stands there twice.
pub(crate) type Chunk = Vec<PeerId>;

/// What is in a user's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// What the user put there.
    Own,
    /// In every chunk, these peers' contributions, each once.
    Sum(Vec<PeerId>),
    /// A collective works on it.
    Lent,
    /// Something that no user may ever see.
    Garbage(Vec<Chunk>),
}

/// A user's buffer of one tag.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) lent: bool,
    pub(super) result: Option<Vec<Chunk>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(super) seq: Seq,
    step: u32,
    chunk: usize,
    content: Chunk,
}

/// One execution at one process.
#[derive(Clone, Debug)]
pub(crate) struct RingRun {
    pub(super) tag: Tag,
    pub(super) seq: Seq,
    pub(super) ring: Ring,
    flows: Vec<Arrival>,
    at: usize,
    /// What is to be sent before anything is taken in.
    to_send: Option<Frame>,
    chunks: Vec<Chunk>,
}

/// How far one attempt to go on came.
enum Progress {
    Nothing,
    Some,
    Ended(RingOutcome),
}

impl Plane {
    pub(super) fn user_lends_buffer(&mut self, tag: Tag) {
        let free = !self.buffers.get(&tag).is_some_and(|buffer| buffer.lent);
        if free {
            let (lent, result) = (true, None);
            self.buffers.insert(tag, Buffer { lent, result });
        }
    }

    /// Gives a buffer back as the answer says: with the result, or as it was.
    pub(super) fn settle_buffer(&mut self, answer: &Answer) {
        let Answer::CollectiveEnded { tag, result } = answer else {
            return;
        };
        let Some(buffer) = self.buffers.get_mut(tag) else {
            return;
        };
        match result {
            Ok(_) => buffer.lent = false,
            // Nothing was lent to a call that was refused on the spot.
            Err(CallError::Usage(pccl_core::peer::Usage::TagInUse(_))) => {}
            Err(_) => {
                buffer.lent = false;
                buffer.result = None;
            }
        }
    }

    /// The buffer is its user's again, as it was.
    pub(super) fn user_takes_buffer(&mut self, tag: Tag) {
        assert!(!self.runs_tag(tag), "its ring runs on");
        self.buffers.remove(&tag);
    }

    pub(crate) fn buffer(&self, tag: Tag) -> Holds {
        match self.buffers.get(&tag) {
            None => Holds::Own,
            Some(buffer) if buffer.lent => Holds::Lent,
            Some(buffer) => match &buffer.result {
                None => Holds::Own,
                Some(chunks) => match chunks.first() {
                    Some(first) if chunks.iter().all(|chunk| chunk == first) => {
                        Holds::Sum(first.clone())
                    }
                    Some(_) | None => Holds::Garbage(chunks.clone()),
                },
            },
        }
    }
}

impl Run {
    pub(super) fn run_ring(&mut self, no: SeatNo, tag: Tag, seq: Seq) {
        let me = self.id(no);
        let ring = self.seats[no].plane.ring().clone();
        let world = u32::try_from(ring.world_size()).unwrap();
        let rank = u32::try_from(ring.rank_of(me).expect("it is on its ring")).unwrap();
        self.watch.ring_runs(seq, &ring);
        let plan = Plan::new(Algorithm::Ring, world, rank).expect("it has a rank");
        let elements = 0..u64::from(world);
        let around = |flow: Arrival| {
            assert_eq!(flow.from, plan.previous());
            assert!(flow.onward.is_none_or(|to| to.rank == plan.next()));
            flow
        };
        let own = plan.contributions(&elements).next().map(|own| Frame {
            seq,
            step: own.to.step,
            chunk: usize::try_from(own.range.start).unwrap(),
            content: vec![me],
        });
        self.seats[no].plane.rings.push(RingRun {
            tag,
            seq,
            ring,
            flows: plan.arrivals(&elements).map(around).collect(),
            at: 0,
            to_send: own,
            chunks: vec![vec![me]; world as usize],
        });
    }

    pub(super) fn stop_ring(&mut self, no: SeatNo, seq: Seq) {
        let rings = &mut self.seats[no].plane.rings;
        rings.retain(|ring| ring.seq != seq);
    }

    /// One frame goes out or is taken in, for one of the rings that run here.
    pub(super) fn advance_rings(&mut self, no: SeatNo) -> bool {
        let first = self.seats[no].plane.rings.len();
        let offset = self.roll(first);
        for turn in 0..first {
            let index = (turn + offset) % first;
            match self.advance_ring(no, index) {
                Progress::Nothing => {}
                Progress::Some => return true,
                Progress::Ended(outcome) => {
                    self.end_ring(no, index, outcome);
                    return true;
                }
            }
        }
        false
    }

    fn end_ring(&mut self, no: SeatNo, index: usize, outcome: RingOutcome) {
        let run = self.seats[no].plane.rings.remove(index);
        let seq = run.seq;
        if outcome == RingOutcome::Done
            && let Some(buffer) = self.seats[no].plane.buffers.get_mut(&run.tag)
        {
            buffer.result = Some(run.chunks);
        }
        self.seats[no]
            .inbox
            .push_back(PeerInput::RingEnded { seq, outcome });
    }

    fn advance_ring(&mut self, no: SeatNo, index: usize) -> Progress {
        let run = &self.seats[no].plane.rings[index];
        match (run.to_send.clone(), run.flows.get(run.at).cloned()) {
            (None, None) => Progress::Ended(RingOutcome::Done),
            (to_send, flow) => match (self.lanes_of_ring(no, index), to_send, flow) {
                (Some((next, _)), Some(frame), _) => self.send_frame(no, index, frame, next),
                (Some((_, previous)), None, Some(flow)) => {
                    self.take_frame(no, index, &flow, previous)
                }
                (_, _, _) => Progress::Ended(RingOutcome::LaneLost),
            },
        }
    }

    /// The lanes to the next and from the previous process. `None`: one of them is gone.
    fn lanes_of_ring(&self, no: SeatNo, index: usize) -> Option<(LinkKey, LinkKey)> {
        let (next, previous) = (self.lanes_to_next(no), self.lanes_from_previous(no));
        let (me, ring) = (self.id(no), &self.seats[no].plane.rings[index].ring);
        self.assert_leads(next.map(|key| key.1), ring.next_of(me), no);
        self.assert_leads(previous.map(|key| key.0), ring.previous_of(me), no);
        next.zip(previous)
    }

    fn assert_leads(&self, to: Option<SeatNo>, neighbour: Option<PeerId>, no: SeatNo) {
        // A process without lanes has closed.
        if let Some(to) = to {
            assert_eq!(
                self.seats[to].id, neighbour,
                "seat {no}: lanes and ring agree"
            );
        }
    }

    fn send_frame(&mut self, no: SeatNo, index: usize, frame: Frame, next: LinkKey) -> Progress {
        if self.fabric.is_broken(&next) {
            return Progress::Ended(RingOutcome::LaneLost);
        }
        self.seats[no].plane.rings[index].to_send = None;
        let link = self.fabric.links.entry(next).or_default();
        link.frames.push(frame);
        Progress::Some
    }

    fn take_frame(&mut self, no: SeatNo, index: usize, flow: &Arrival, key: LinkKey) -> Progress {
        let me = self.id(no);
        let run = &mut self.seats[no].plane.rings[index];
        let link = self.fabric.links.entry(key).or_default();
        let expected = |frame: &Frame| frame.seq == run.seq && frame.step == flow.step;
        let Some(at) = link.frames.iter().position(expected) else {
            return if link.broken {
                Progress::Ended(RingOutcome::LaneLost)
            } else {
                Progress::Nothing
            };
        };
        let mut frame = link.frames.remove(at);
        assert_eq!(flow.range.start, frame.chunk as u64);
        match flow.action {
            Action::Combine | Action::Finish => {
                frame.content.push(me);
                frame.content.sort();
            }
            Action::Copy => {}
            Action::Keep { .. } => unreachable!("no ring keeps contributions"),
        }
        if flow.action.writes_result() {
            run.chunks[frame.chunk].clone_from(&frame.content);
        }
        run.at += 1;
        run.to_send = flow.onward.map(|to| Frame {
            step: to.step,
            ..frame
        });
        Progress::Some
    }
}
