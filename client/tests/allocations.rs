//! Frames cost no allocations: a reduce of many allocates as often as one of a few.
//!
//! The allocator of this program counts. Everything is in one process: all peers and the master. What is
//! beside the reduces (heartbeats, the test harness) can only add to a count, so each count is the
//! least of several.
//!
//! A queue that gets longer than it ever was doubles its memory. That is not a cost of a frame: a collective's
//! queue for a lane holds at most what it sends there, so it grows a few times, the longer the less often.
//! Fewer than one reallocation for [`FRAMES_PER_GROWTH`] more frames counts as none. What a frame costs by
//! itself is an allocation, and of these, fewer than one for [`FRAMES_PER_ALLOCATION`] counts as none.

mod support;

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pccl::{CollectiveReport, Communicator, Quantization, Reduce};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::lanes::{DISTANCES, Distance};
use support::{Run, together_with};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The count is of the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Elements of a frame that is full.
const FRAME_ELEMENTS: usize = 64 * 1024;

/// What it carries at least, however it is encoded.
const FRAME_BYTES: u64 = FRAME_ELEMENTS as u64 / 2;

/// See above. Twenty frames for a lane make its queue grow three times, from room for four.
const FRAMES_PER_GROWTH: usize = 5;

/// See above.
const FRAMES_PER_ALLOCATION: usize = 24;

/// Lanes of each edge. Near peers use one of them, far ones all.
const LANES: u16 = 4;

/// Each count is the least of so many.
const REPETITIONS: usize = 25;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of one peer, made before anything is counted.
struct Buffers {
    source: Vec<f32>,
    result: Vec<f32>,
}

/// What a kind of reduce has cost.
#[derive(Debug)]
struct Cost {
    /// Frames that all peers together have sent.
    frames: usize,
    allocations: usize,
    reallocations: usize,
}

/// Lets all peers reduce `chunk` full frames per lane and rank, again and again, and counts.
fn cost(
    peers: &mut [Communicator],
    chunk: usize,
    reduce: &(impl Fn(&Communicator, &mut Buffers) -> Vec<CollectiveReport> + Sync),
) -> Cost {
    let lanes = usize::from(LANES);
    let elements = FRAME_ELEMENTS * chunk * lanes * peers.len();
    let buffers: Vec<Mutex<Buffers>> = peers
        .iter()
        .map(|_| {
            Mutex::new(Buffers {
                source: vec![1.0; elements],
                result: vec![1.0; elements],
            })
        })
        .collect();
    let mut once = || {
        let region = Region::new(ALLOCATOR);
        let reports = together_with(peers, |index, peer| {
            reduce(peer, &mut buffers[index].lock().unwrap())
        });
        let change = region.change();
        let steps = 2 * (peers.len() - 1);
        Cost {
            frames: reports.iter().map(Vec::len).sum::<usize>() * steps * lanes * chunk,
            allocations: change.allocations,
            reallocations: change.reallocations,
        }
    };
    // Whatever is allocated once is allocated here.
    for _ in 0..10 {
        once();
    }
    let counted = (0..REPETITIONS).map(|_| once());
    let least = |one: Cost, other: Cost| Cost {
        frames: one.frames,
        allocations: one.allocations.min(other.allocations),
        reallocations: one.reallocations.min(other.reallocations),
    };
    counted.reduce(least).unwrap()
}

/// Counts few frames and ten times as many, near and far, and expects that the difference costs nothing.
fn frames_cost_nothing(
    peers: usize,
    reduce: impl Fn(&Communicator, &mut Buffers) -> Vec<CollectiveReport> + Sync,
) {
    let _alone = alone();
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(peers);
        // The larger one first, so that the smaller one finds everything as large as it needs.
        let many = cost(&mut peers, 10, &reduce);
        let few = cost(&mut peers, 1, &reduce);

        let frames = many.frames - few.frames;
        let allocations = many.allocations.saturating_sub(few.allocations);
        let growths = many.reallocations.saturating_sub(few.reallocations);
        let counted = format!(
            "{distance:?}, {few:?}, {many:?}: {allocations} allocations and {growths} reallocations for \
             {frames} more frames"
        );
        println!("{counted}");
        assert!(few.allocations > 0, "the allocator does not count");
        assert!(allocations < frames / FRAMES_PER_ALLOCATION, "{counted}");
        assert!(growths < frames / FRAMES_PER_GROWTH, "{counted}");
        let busy = run.traffic.bytes_sent();
        let busy = busy.iter().filter(|sent| **sent >= FRAME_BYTES);
        assert_eq!(busy.count(), peers.len() * lanes_in_use(distance));
    }
}

const fn lanes_in_use(distance: Distance) -> usize {
    match distance {
        Distance::Near => 1,
        Distance::Far => LANES as usize,
    }
}

#[test]
fn frames_out_of_place_allocate_nothing() {
    frames_cost_nothing(3, |peer, Buffers { source, result }| {
        vec![peer.all_reduce_into(source, result, Reduce::sum()).unwrap()]
    });
}

#[test]
fn frames_in_place_allocate_nothing() {
    frames_cost_nothing(3, |peer, Buffers { result, .. }| {
        vec![peer.all_reduce(result, Reduce::max()).unwrap()]
    });
}

#[test]
fn quantized_frames_allocate_nothing() {
    let to = pccl::ElementType::U8;
    let reduce = Reduce::avg().quantize(Quantization::MinMax { to });
    frames_cost_nothing(3, |peer, Buffers { source, result }| {
        vec![peer.all_reduce_into(source, result, reduce).unwrap()]
    });
}

#[test]
fn frames_of_reduces_that_share_lanes_allocate_nothing() {
    frames_cost_nothing(2, |peer, Buffers { source, result }| {
        let buffers = [std::mem::take(source), std::mem::take(result)];
        let handles = buffers.into_iter().zip(0..);
        let handles: Vec<_> = handles
            .map(|(buffer, tag)| peer.start_all_reduce(buffer, Reduce::max().tag(tag)))
            .collect();
        let mut reports = Vec::with_capacity(2);
        for (handle, buffer) in handles.into_iter().zip([source, result]) {
            let reduced = handle.wait().unwrap();
            *buffer = reduced.buffer;
            reports.push(reduced.returned);
        }
        reports
    });
}
