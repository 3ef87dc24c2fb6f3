//! The work of all ranks under seeded schedules: frames leave and arrive in any order that lanes allow.

use std::collections::VecDeque;
use std::sync::Arc;

use pccl_core::element::{CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::wire::FrameHeader;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::buffers::{Backup, RingBuffers};
use super::super::pool::{Frame, Pool};
use super::super::work::{HELD_MAX, Place, RingWork};
use super::reference::{expected, inputs};
use super::support::spec;

const LANES: u16 = 2;

/// Large enough for two stripes, and in frames of 1000 bytes for many frames per chunk.
const COUNT: usize = 20_000;

type Lane = VecDeque<(FrameHeader, Frame)>;

struct Rank {
    work: RingWork,
    data: Vec<u8>,
    backup: Backup,
    lanes: [Lane; LANES as usize],
}

impl Rank {
    fn new(place: Place, spec: &CollectiveSpec, data: Vec<u8>, pool: &Arc<Pool>) -> Self {
        let mut rank = Self {
            work: RingWork::new(Seq(1), spec, place, 1000, Arc::clone(pool)).unwrap(),
            data,
            backup: Backup::default(),
            lanes: Default::default(),
        };
        rank.buffers().begin();
        rank
    }

    fn buffers(&mut self) -> RingBuffers<'_> {
        RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        }
    }

    fn send(&mut self, lane: u16) -> bool {
        let buffers = RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        };
        let out = self.work.next_out(lane, &buffers).unwrap();
        let any = out.is_some();
        self.lanes[usize::from(lane)].extend(out);
        any
    }

    fn take_from_lane(&mut self, lane: u16) -> Option<(FrameHeader, Frame)> {
        let arrived = self.lanes[usize::from(lane)].pop_front()?;
        self.work.sent(lane);
        Some(arrived)
    }

    fn receive(&mut self, lane: u16, header: &FrameHeader, frame: Frame) {
        let mut buffers = RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        };
        self.work.accept(lane, header, frame, &mut buffers).unwrap();
    }
}

struct Simulation {
    ranks: Vec<Rank>,
    random: StdRng,
    /// The rank whose lanes carry a frame only now and then.
    slow: usize,
    most_held: usize,
    most_set_aside: usize,
}

impl Simulation {
    fn new(seed: u64, world: usize, spec: &CollectiveSpec, inputs: &[Vec<u8>]) -> Self {
        let pool = Pool::new(64);
        let place = |rank| Place {
            world: world as u32,
            rank: rank as u32,
            lanes: LANES,
        };
        let ranks = inputs.iter().enumerate();
        Self {
            ranks: ranks
                .map(|(rank, data)| Rank::new(place(rank), spec, data.clone(), &pool))
                .collect(),
            random: StdRng::seed_from_u64(seed),
            slow: seed as usize % world,
            most_held: 0,
            most_set_aside: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.ranks.iter().all(|rank| rank.work.is_done())
    }

    fn step(&mut self) {
        let from = self.random.next_u32() as usize % self.ranks.len();
        let to = (from + 1) % self.ranks.len();
        let lane = (self.random.next_u32() % u32::from(LANES)) as u16;
        self.ranks[from].send(lane);
        if from == self.slow && !self.random.next_u32().is_multiple_of(60) {
            return;
        }
        if let Some((header, frame)) = self.ranks[from].take_from_lane(lane) {
            self.ranks[to].receive(lane, &header, frame);
            self.most_held = self.most_held.max(self.ranks[to].work.held(lane));
            let set_aside = self.ranks[to].work.set_aside(lane);
            self.most_set_aside = self.most_set_aside.max(set_aside);
        }
    }
}

#[test]
fn every_schedule_leads_to_the_result_in_little_memory() {
    for seed in 0..40 {
        let world = 2 + seed as usize % 4;
        let spec = spec(ReduceOp::Avg, ElementType::I32, COUNT);
        let inputs = inputs(ElementType::I32, COUNT, world);
        let mut run = Simulation::new(seed, world, &spec, &inputs);

        for _ in 0..2_000_000 {
            if run.is_done() {
                break;
            }
            run.step();
        }

        assert!(run.is_done(), "seed {seed} is stuck");
        let expected = expected(ElementType::I32, ReduceOp::Avg, &inputs);
        assert!(
            run.ranks.iter().all(|rank| rank.data == expected),
            "seed {seed}"
        );
        assert!(run.most_held <= HELD_MAX);
        assert!(
            run.most_set_aside > 0 || world == 2,
            "seed {seed} had no congestion"
        );
    }
}

#[test]
fn whatever_the_moment_everything_can_be_put_back() {
    for seed in 0..40 {
        let world = 2 + seed as usize % 4;
        let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
        let inputs = inputs(ElementType::F32, COUNT, world);
        let mut run = Simulation::new(seed, world, &spec, &inputs);

        for _ in 0..seed * 200 {
            run.step();
        }
        for rank in &mut run.ranks {
            rank.backup.restore(&mut rank.data);
        }

        assert!(
            run.ranks
                .iter()
                .zip(&inputs)
                .all(|(rank, input)| rank.data == *input)
        );
    }
}
