//! Frames that ranks make up: whatever they send, and in whatever order, each frame is refused by name or taken, and
//! everything can be put back.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::{Membership, PeerId, Seq};
use pccl_core::plan::{Algorithm, Pattern, Plan, Reach, Shards};
use pccl_core::wire::FrameHeader;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::lengths::GATHER_V;
use super::reference::random_bits;
use super::support::{sites, spec};
use super::worker::{Worker, shuffled};
use crate::memory::Pool;
use crate::pace::Pace;
use crate::work::{Exit, IncomingFrame, NotTaken, OutgoingFrame, Place, RankWork};

const GATHER: CollectiveKind = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

const ALL: [(CollectiveKind, Algorithm); 29] = [
    (CollectiveKind::AllReduce, Algorithm::Ring),
    (CollectiveKind::AllReduce, Algorithm::Whole(Pattern::Ring)),
    (CollectiveKind::AllReduce, Algorithm::Whole(Pattern::Mesh)),
    (
        CollectiveKind::AllReduce,
        Algorithm::Whole(Pattern::Circulant),
    ),
    (CollectiveKind::AllReduce, Algorithm::Direct),
    (CollectiveKind::AllReduce, Algorithm::Circulant),
    (CollectiveKind::AllReduce, Algorithm::TwoLevel),
    (CollectiveKind::AllReduce, Algorithm::TwoLevelRing),
    (CollectiveKind::AllReduce, Algorithm::TwoLevelWhole),
    (CollectiveKind::ReduceScatter, Algorithm::Ring),
    (CollectiveKind::ReduceScatter, Algorithm::Direct),
    (CollectiveKind::ReduceScatter, Algorithm::Circulant),
    (CollectiveKind::ReduceScatter, Algorithm::TwoLevel),
    (CollectiveKind::ReduceScatter, Algorithm::TwoLevelRing),
    (CollectiveKind::AllReduce, Algorithm::Relay),
    (CollectiveKind::ReduceScatter, Algorithm::Relay),
    (GATHER, Algorithm::Ring),
    (GATHER, Algorithm::Direct),
    (GATHER, Algorithm::Circulant),
    (GATHER, Algorithm::TwoLevel),
    (GATHER, Algorithm::TwoLevelRing),
    (GATHER_V, Algorithm::Ring),
    (GATHER_V, Algorithm::Direct),
    (GATHER_V, Algorithm::Circulant),
    (GATHER_V, Algorithm::TwoLevel),
    (GATHER_V, Algorithm::TwoLevelRing),
    (
        CollectiveKind::Broadcast { root: PeerId(1) },
        Algorithm::Chain,
    ),
    (
        CollectiveKind::Broadcast { root: PeerId(1) },
        Algorithm::Tree,
    ),
    (
        CollectiveKind::Broadcast { root: PeerId(1) },
        Algorithm::TwoLevel,
    ),
];

/// Elements, of four bytes each.
const COUNT: usize = 1000;

/// A rank among ones that make up frames, and what is under way at it.
struct Attacked<'a> {
    plan: Plan<'a>,
    worker: Worker,
    /// At most one from each rank, as on a lane.
    arriving: Vec<(u32, IncomingFrame)>,
    leaving: Vec<(u16, OutgoingFrame)>,
    taken: usize,
}

impl<'a> Attacked<'a> {
    fn new(kind: CollectiveKind, plan: Plan<'a>, data: Vec<u8>) -> Self {
        let place = Place {
            world: plan.world(),
            rank: plan.rank(),
            lanes: 1,
        };
        let pace = Pace {
            frame_bytes: 256,
            window: None,
            stripe_bytes: 16 * 1024,
        };
        let distances = match plan.algorithm().reach() {
            Reach::Ring => 1..2,
            Reach::Mesh => 1..plan.world(),
        };
        let exits = distances.map(|distance| Exit {
            rank: (plan.rank() + distance) % plan.world(),
            leaves_machine: false,
            lanes: vec![0],
        });
        let exits: Vec<Exit> = exits.collect();
        let spec = CollectiveSpec {
            kind,
            ..spec(ReduceOp::Sum, ElementType::F32, data.len() / 4)
        };
        let what = (&spec, plan.algorithm());
        Self {
            plan,
            worker: Worker::new(what, place, (pace, &exits), data, &Pool::new(1)),
            arriving: Vec::new(),
            leaving: Vec::new(),
            taken: 0,
        }
    }

    /// A frame that may fit, and from whom.
    fn made_up(&self, random: &mut StdRng) -> (u32, FrameHeader) {
        let shards = Shards::of_ranks(COUNT as u64, self.plan.world());
        let steps = self.plan.steps();
        let step = random.random_range(0..=steps);
        let flow = self.plan.arrival(shards.stripe(1, 0), step);
        let (from, range) = flow.map_or((0, 0..0), |flow| (flow.from, flow.range));
        let (from, at) = match random.random_range(0..20) {
            0 => (random.random_range(0..self.plan.world()), range.start),
            1 => (from, random.random_range(0..COUNT as u64)),
            _ => {
                let frames = (range.end - range.start).div_ceil(64).max(1);
                (from, range.start + 64 * random.random_range(0..frames))
            }
        };
        let length = match random.random_range(0..10) {
            0 => random.random_range(0..2 * COUNT as u32),
            _ => 4 * range.end.saturating_sub(at).min(64) as u32,
        };
        let header = FrameHeader {
            seq: Seq(1),
            offset: 4 * at,
            length,
            step,
            stripe: 0,
            flags: 0,
            sum: None,
        };
        (from, header)
    }

    fn go_on(&mut self, random: &mut StdRng) {
        let (from, header) = self.made_up(random);
        let (work, mut buffers) = self.worker.parts();
        match random.random_range(0..4) {
            0 => {
                let outlet = random.random_range(0..work.outlets().count() as u16);
                let out = work.next_out(outlet, &mut buffers).unwrap();
                self.leaving.extend(out.map(|out| (outlet, out)));
            }
            1 if !self.leaving.is_empty() => {
                let (outlet, out) = self.leaving.remove(0);
                let payload = RankWork::payload(&out, &buffers).unwrap();
                assert_eq!(payload.len(), out.length());
                work.has_left(outlet, out);
            }
            2 if !self.arriving.is_empty() => {
                let at = random.random_range(0..self.arriving.len());
                let (_, mut frame) = self.arriving.swap_remove(at);
                random.fill(frame.room(&mut buffers, 0, 0));
                work.accept(frame, &mut buffers).unwrap();
                self.taken += 1;
            }
            _ if self.arriving.iter().any(|(busy, _)| *busy == from) => {}
            _ => match work.announce((from, 0), &header, &mut buffers) {
                Ok(frame) => self.arriving.push((from, frame)),
                Err(NotTaken::Misfit(_)) => {}
                Err(NotTaken::Defect(defect)) => panic!("{defect} about {header:?}"),
            },
        }
    }
}

#[test]
fn frames_that_are_made_up_are_refused_or_taken_and_everything_can_be_put_back() {
    for (kind, algorithm) in ALL {
        let mut done = 0;
        for seed in 0..60 {
            let mut random = StdRng::seed_from_u64(seed);
            let world = random.random_range(3..=9);
            let peers: Vec<PeerId> = (0..u64::from(world)).map(PeerId).collect();
            // The root gets nothing.
            let ranks = kind.root().map_or(0..world, |_| 2..world);
            let rank = random.random_range(ranks);
            let ranked = kind.among(&peers).unwrap();
            let sites = sites(world);
            let plan = Plan::among(ranked, algorithm, &sites, rank).unwrap();
            let turns = shuffled(world);
            let plan = plan.in_turns(&turns).unwrap();
            let data = random_bits(4 * COUNT, 1, seed).remove(0);
            let mut attacked = Attacked::new(kind, plan, data.clone());

            for _ in 0..seed * 1000 {
                attacked.go_on(&mut random);
            }

            let worker = &mut attacked.worker;
            done += usize::from(worker.work.is_done());
            worker.backup.restore(&mut worker.data);
            assert!(worker.data == data, "{kind} {algorithm:?}, seed {seed}");
        }
        assert!(done > 10, "{kind} {algorithm:?}: {done} came to an end");
    }
}
