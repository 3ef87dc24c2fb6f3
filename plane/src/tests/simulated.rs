//! The work of all ranks under seeded schedules: frames leave and arrive in any order that lanes allow.

use std::collections::VecDeque;
use std::sync::Arc;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::lengths::Lengths;
use pccl_core::plan::{Algorithm, Pattern, Reach, Shards};
use pccl_core::wire::FrameHeader;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::kinds::{GATHER, SCATTER, of_kind, promised};
use super::lengths::{GATHER_V, lengths};
use super::reference::{expected, inputs};
use super::support::spec;
use super::worker::Worker;
use crate::memory::Pool;
use crate::pace::{HELD_MAX, Pace, Share};
use crate::work::{Exit, OutgoingFrame, Place, RankWork};

/// Of the edge that has the most.
const LANES: u16 = 3;

/// Large enough for a stripe per lane, and in frames of 1000 bytes for many frames per chunk.
const COUNT: usize = 20_000;

/// Where the ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machines {
    One,
    /// The last rank and the first are on two.
    Two,
    /// Each rank has its own.
    Many,
}

impl Machines {
    const ALL: [Self; 3] = [Self::One, Self::Two, Self::Many];

    fn of(seed: u64) -> Self {
        Self::ALL[(seed % 3) as usize]
    }

    /// Does a rank send to another machine?
    fn leaves(self, place: Place) -> bool {
        match self {
            Self::One => false,
            Self::Two => place.rank + 1 == place.world,
            Self::Many => true,
        }
    }
}

/// Frames under way: what was sent, and what is to be told when the last byte has gone.
type Lane = VecDeque<(FrameHeader, Vec<u8>)>;

struct Rank {
    worker: Worker,
    /// To which rank each outlet leads, and on which lane.
    leads_to: Vec<(usize, u16)>,
    /// By outlet.
    leaving: Vec<Option<OutgoingFrame>>,
    /// By outlet.
    lanes: Vec<Lane>,
}

impl Rank {
    fn new(
        place: Place,
        shards: &Shards,
        what: (&CollectiveSpec, Algorithm),
        (machines, lanes): (Machines, u16),
        data: Vec<u8>,
        pool: &Arc<Pool>,
    ) -> Self {
        let leaves_machine = machines.leaves(place);
        let pace = Pace {
            frame_bytes: 1000,
            window: (!leaves_machine).then_some(2000),
            stripe_bytes: 16 * 1024,
        };
        let distances = match what.1.reach() {
            Reach::Ring => 1..2,
            Reach::Mesh => 1..place.world,
        };
        let used = if leaves_machine { 0..lanes } else { 0..1 };
        // Any lanes will do, in any order.
        let lanes = used.map(|nth| (nth + place.rank as u16) % LANES);
        let exits = distances.map(|distance| Exit {
            rank: (place.rank + distance) % place.world,
            leaves_machine,
            lanes: lanes.clone().collect(),
        });
        let exits: Vec<Exit> = exits.collect();
        let worker = Worker::of_shards(shards, what, place, (pace, &exits), data, pool);
        let outlets = worker.work.outlets();
        let leads_to = outlets.map(|(exit, lane)| (exits[exit].rank as usize, lane));
        let leads_to: Vec<(usize, u16)> = leads_to.collect();
        Self {
            leaving: leads_to.iter().map(|_| None).collect(),
            lanes: leads_to.iter().map(|_| Lane::new()).collect(),
            leads_to,
            worker,
        }
    }

    /// Begins to send the next frame, where there is one and none is leaving.
    fn begin_to_send(&mut self, lane: u16) {
        let leaving = &mut self.leaving[usize::from(lane)];
        if leaving.is_none() {
            let (work, mut buffers) = self.worker.parts();
            *leaving = work.next_out(lane, &mut buffers).unwrap();
        }
    }

    /// The frame that leaves is on its way.
    fn send(&mut self, lane: u16) {
        if let Some(out) = self.leaving[usize::from(lane)].take() {
            let (work, buffers) = self.worker.parts();
            let payload = RankWork::payload(&out, &buffers).unwrap().to_vec();
            self.lanes[usize::from(lane)].push_back((out.header, payload));
            work.has_left(lane, out);
        }
    }

    fn receive(&mut self, from: (u32, u16), header: &FrameHeader, payload: &[u8]) {
        let (work, mut buffers) = self.worker.parts();
        let mut frame = work.announce(from, header, &mut buffers).unwrap();
        assert_eq!(frame.length(), payload.len());
        frame.room(&mut buffers, 0, 0).copy_from_slice(payload);
        work.accept(frame, &mut buffers).unwrap();
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
        Self::with(seed, world, (spec, Algorithm::Ring), inputs)
    }

    fn with(
        seed: u64,
        world: usize,
        what: (&CollectiveSpec, Algorithm),
        inputs: &[Vec<u8>],
    ) -> Self {
        let shards = Shards::of_ranks(what.0.count, world as u32);
        Self::of_shards(seed, &shards, what, inputs)
    }

    fn of_shards(
        seed: u64,
        shards: &Shards,
        what: (&CollectiveSpec, Algorithm),
        inputs: &[Vec<u8>],
    ) -> Self {
        let world = inputs.len();
        let pool = Pool::new(64);
        let place = |rank| Place {
            world: world as u32,
            rank: rank as u32,
            lanes: LANES,
        };
        let machines = Machines::of(seed);
        let ranks = inputs.iter().enumerate();
        Self {
            ranks: ranks
                .map(|(rank, data)| {
                    // Each edge has lanes of its own number.
                    let lanes = 1 + ((seed / 3 + rank as u64) % u64::from(LANES)) as u16;
                    let at = (machines, lanes);
                    Rank::new(place(rank), shards, what, at, data.clone(), &pool)
                })
                .collect(),
            random: StdRng::seed_from_u64(seed),
            slow: seed as usize % world,
            most_held: 0,
            most_set_aside: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.ranks.iter().all(|rank| rank.worker.work.is_done())
    }

    fn step(&mut self) {
        let from = self.random.next_u32() as usize % self.ranks.len();
        let outlets = self.ranks[from].leads_to.len() as u32;
        let lane = (self.random.next_u32() % outlets) as u16;
        let (to, arrives_on) = self.ranks[from].leads_to[usize::from(lane)];
        self.ranks[from].begin_to_send(lane);
        if from == self.slow && !self.random.next_u32().is_multiple_of(60) {
            return;
        }
        self.ranks[from].send(lane);
        let arrived = self.ranks[from].lanes[usize::from(lane)].pop_front();
        if let Some((header, payload)) = arrived {
            let from = (from as u32, arrives_on);
            self.ranks[to].receive(from, &header, &payload);
            let work = &self.ranks[to].worker.work;
            for (outlet, _) in (0..).zip(work.outlets()) {
                self.most_held = self.most_held.max(work.held(outlet));
                self.most_set_aside = self.most_set_aside.max(work.set_aside(outlet));
            }
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
            run.ranks.iter().all(|rank| rank.worker.data == expected),
            "seed {seed}"
        );
        assert!(run.most_held <= HELD_MAX);
        assert!(
            run.most_set_aside > 0 || world == 2 || Machines::of(seed) != Machines::Many,
            "seed {seed} had no congestion"
        );
        let stays = run.ranks.iter().all(|rank| rank.worker.work.is_local());
        let leaves = run.ranks.iter().all(|rank| !rank.worker.work.is_local());
        let on_one = Machines::of(seed) == Machines::One;
        assert!(if on_one { stays } else { leaves }, "seed {seed}");
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
            rank.worker.backup.restore(&mut rank.worker.data);
        }

        assert!(
            run.ranks
                .iter()
                .zip(&inputs)
                .all(|(rank, input)| rank.worker.data == *input)
        );
    }
}

/// In any schedule the result comes out, and wherever one is cut short everything can be put back.
fn leads_to_the_result_or_back(algorithm: Algorithm, count: usize) {
    for seed in 0..60 {
        let world = 2 + seed as usize % 4;
        let spec = spec(ReduceOp::Avg, ElementType::F32, count);
        let inputs = inputs(ElementType::F32, count, world);
        let simulate = || Simulation::with(seed, world, (&spec, algorithm), &inputs);
        let (mut whole, mut cut_short) = (simulate(), simulate());

        for _ in 0..seed * 5 {
            cut_short.step();
        }
        for _ in 0..100_000_usize.max(100 * count) {
            if whole.is_done() {
                break;
            }
            whole.step();
        }
        for rank in &mut cut_short.ranks {
            rank.worker.backup.restore(&mut rank.worker.data);
        }

        assert!(whole.is_done(), "seed {seed} is stuck");
        let expected = expected(ElementType::F32, ReduceOp::Avg, &inputs);
        let mut restored = cut_short.ranks.iter().zip(&inputs);
        assert!(restored.all(|(rank, input)| rank.worker.data == *input));
        assert!(
            whole.ranks.iter().all(|rank| rank.worker.data == expected),
            "seed {seed}"
        );
    }
}

/// Within a machine ranks contribute no more than a window ahead of what they know to have arrived. One of them waits
/// for an older operation and begins late: the others' contributions pass through it meanwhile.
#[test]
fn halves_of_a_ring_lead_to_the_result_although_a_rank_begins_late() {
    for (seed, kind) in (0..60).flat_map(|seed| [(seed, SCATTER), (seed, GATHER)]) {
        let world = 2 + seed as usize % 4;
        let spec = of_kind(kind, spec(ReduceOp::Sum, ElementType::I32, COUNT));
        let inputs = inputs(ElementType::I32, COUNT, world);
        let mut run = Simulation::new(seed, world, &spec, &inputs);
        let late = run.slow;
        run.ranks[late].worker.work.set_share(Share::Nothing);

        for step in 0..1_000_000 {
            if step == seed * 100 {
                run.ranks[late].worker.work.set_share(Share::Whole);
            }
            if run.is_done() {
                break;
            }
            run.step();
        }

        assert!(run.is_done(), "{kind} with seed {seed} is stuck");
        let promised = promised(&spec, &inputs);
        let ended = run.ranks.iter().map(|rank| &rank.worker.data);
        assert!(ended.eq(&promised), "{kind} with seed {seed}");
        assert!(run.most_held <= HELD_MAX);
    }
}

/// Ranks pass on what is not theirs to add, and add in turns that are not in the order of the ring.
#[test]
fn what_is_relayed_leads_to_the_result_in_little_memory_and_can_be_put_back() {
    let mut most_set_aside = 0;
    for (seed, kind) in
        (0..60).flat_map(|seed| [(seed, CollectiveKind::AllReduce), (seed, SCATTER)])
    {
        let world = 2 + seed as usize % 4;
        let spec = of_kind(kind, spec(ReduceOp::Avg, ElementType::I32, COUNT));
        let inputs = inputs(ElementType::I32, COUNT, world);
        let simulate = || Simulation::with(seed, world, (&spec, Algorithm::Relay), &inputs);
        let (mut whole, mut cut_short) = (simulate(), simulate());

        for _ in 0..seed * 50 {
            cut_short.step();
        }
        for _ in 0..2_000_000 {
            if whole.is_done() {
                break;
            }
            whole.step();
        }
        for rank in &mut cut_short.ranks {
            rank.worker.backup.restore(&mut rank.worker.data);
        }

        assert!(whole.is_done(), "{kind} with seed {seed} is stuck");
        let promised = promised(&spec, &inputs);
        let ended = whole.ranks.iter().map(|rank| &rank.worker.data);
        assert!(ended.eq(&promised), "{kind} with seed {seed}");
        let mut restored = cut_short.ranks.iter().zip(&inputs);
        assert!(restored.all(|(rank, input)| rank.worker.data == *input));
        assert!(whole.most_held <= HELD_MAX);
        most_set_aside = most_set_aside.max(whole.most_set_aside);
    }
    assert!(most_set_aside > 0, "there was no congestion");
}

/// Whatever way the sums take, nothing but the shard is written, which has no room for what waits.
#[test]
fn a_reduce_scatter_leaves_its_contributions_alone_whatever_the_schedule() {
    let mut most_set_aside = 0;
    for (seed, algorithm) in (0..60).flat_map(|seed| SCATTERING.map(|one| (seed, one))) {
        let world = 2 + seed as usize % 4;
        let spec = of_kind(SCATTER, spec(ReduceOp::Avg, ElementType::I32, COUNT));
        let inputs = inputs(ElementType::I32, COUNT, world);
        let shards = Shards::of_ranks(spec.count, world as u32);
        let shard = |rank: usize| {
            let range = shards.of_rank(rank as u32);
            4 * range.start as usize..4 * range.end as usize
        };
        let mut run = Simulation::with(seed, world, (&spec, algorithm), &inputs);
        for (number, rank) in run.ranks.iter_mut().enumerate() {
            let range = shard(number);
            rank.worker.apart = Some((vec![0xEE; range.len()], range.start));
        }

        for _ in 0..2_000_000 {
            if run.is_done() {
                break;
            }
            run.step();
        }

        assert!(run.is_done(), "{algorithm} with seed {seed} is stuck");
        let promised = promised(&spec, &inputs);
        for (number, rank) in run.ranks.iter().enumerate() {
            let (result, _) = rank.worker.apart.as_ref().unwrap();
            assert_eq!(
                *result,
                promised[number][shard(number)],
                "{algorithm}, {seed}"
            );
            assert_eq!(rank.worker.data, inputs[number], "{algorithm}, {seed}");
        }
        // Over a mesh each rank keeps terms, and sends many sums.
        assert!(algorithm.reach() == Reach::Mesh || run.most_held <= HELD_MAX);
        most_set_aside = most_set_aside.max(run.most_set_aside);
    }
    assert!(most_set_aside > 0, "there was no congestion");
}

const SCATTERING: [Algorithm; 6] = [
    Algorithm::Ring,
    Algorithm::Relay,
    Algorithm::Direct,
    Algorithm::Circulant,
    Algorithm::TwoLevel,
    Algorithm::TwoLevelRing,
];

/// However much each has, and wherever it is cut short.
#[test]
fn what_all_have_is_gathered_whatever_the_schedule_and_can_be_put_back() {
    for (seed, algorithm) in (0..60).flat_map(|seed| GATHERING.map(|one| (seed, one))) {
        let world = 2 + seed as usize % 4;
        let all_have = Lengths(lengths(world, &mut StdRng::seed_from_u64(seed)));
        let shards = Shards::of_lengths(&all_have).unwrap();
        let count = all_have.total().unwrap() as usize;
        let spec = of_kind(GATHER_V, spec(ReduceOp::Sum, ElementType::I32, count));
        let inputs = inputs(ElementType::I32, count, world);
        let simulate = || Simulation::of_shards(seed, &shards, (&spec, algorithm), &inputs);
        let (mut whole, mut cut_short) = (simulate(), simulate());

        for _ in 0..seed * 5 {
            cut_short.step();
        }
        for _ in 0..1_000_000 {
            if whole.is_done() {
                break;
            }
            whole.step();
        }
        for rank in &mut cut_short.ranks {
            rank.worker.backup.restore(&mut rank.worker.data);
        }

        assert!(whole.is_done(), "{algorithm:?} with seed {seed} is stuck");
        let shard = |rank: usize| {
            let shard = shards.of_rank(rank as u32);
            &inputs[rank][4 * shard.start as usize..4 * shard.end as usize]
        };
        let gathered: Vec<u8> = (0..world).flat_map(shard).copied().collect();
        let mut ended = whole.ranks.iter().map(|rank| &rank.worker.data);
        assert!(ended.all(|data| *data == gathered), "{algorithm:?}, {seed}");
        let mut restored = cut_short.ranks.iter().zip(&inputs);
        assert!(restored.all(|(rank, input)| rank.worker.data == *input));
        assert!(whole.most_held <= HELD_MAX);
    }
}

const GATHERING: [Algorithm; 5] = [
    Algorithm::Ring,
    Algorithm::Direct,
    Algorithm::Circulant,
    Algorithm::TwoLevel,
    Algorithm::TwoLevelRing,
];

const SMALL: usize = 2_500;

#[test]
fn buffers_that_travel_whole_lead_to_the_result_and_can_be_put_back_whatever_the_schedule() {
    leads_to_the_result_or_back(Algorithm::Whole(Pattern::Ring), SMALL);
    leads_to_the_result_or_back(Algorithm::Whole(Pattern::Mesh), SMALL);
    leads_to_the_result_or_back(Algorithm::Whole(Pattern::Circulant), SMALL);
}

#[test]
fn buffers_that_travel_directly_lead_to_the_result_and_can_be_put_back_whatever_the_schedule() {
    leads_to_the_result_or_back(Algorithm::Direct, 2 * SMALL);
    leads_to_the_result_or_back(Algorithm::Direct, 3);
}

#[test]
fn buffers_that_travel_in_rounds_lead_to_the_result_and_can_be_put_back_whatever_the_schedule() {
    leads_to_the_result_or_back(Algorithm::Circulant, 2 * SMALL);
    leads_to_the_result_or_back(Algorithm::Circulant, 3);
}

#[test]
fn buffers_that_travel_in_two_levels_lead_to_the_result_and_can_be_put_back_whatever_the_schedule()
{
    for algorithm in [
        Algorithm::TwoLevel,
        Algorithm::TwoLevelRing,
        Algorithm::TwoLevelWhole,
    ] {
        leads_to_the_result_or_back(algorithm, 2 * SMALL);
        leads_to_the_result_or_back(algorithm, 8 * SMALL);
        leads_to_the_result_or_back(algorithm, 3);
    }
}
