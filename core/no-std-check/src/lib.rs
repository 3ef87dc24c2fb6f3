//! Builds only if `pccl-core` needs no standard library.
//!
//! A program has one panic handler. This one brings its own; if `pccl-core` or anything beneath it
//! linked `std`, there would be two and the build would fail with a duplicate lang item. Building is
//! the whole check: nothing here is meant to run.
//!
//! `cargo build --manifest-path core/no-std-check/Cargo.toml`
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use pccl_core::element::{CollectiveKind, ElementType};
use pccl_core::id::{PeerId, Round};
use pccl_core::messages::ToMaster;
use pccl_core::plan::{self, Algorithm, Pattern, Plan, Shards};
use pccl_core::site::Sites;
use pccl_core::ticket::TicketMint;
use pccl_core::timers::TimerQueue;
use pccl_core::wire::{ControlReader, Preamble, encode_control};
use pccl_core::{log, tour};

/// Never has memory: nothing here is meant to run.
struct NoMemory;

// SAFETY: `alloc` may return null at any time, which says that there is no memory; so no block is
// ever handed out, and `dealloc` is never called with one.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static NO_MEMORY: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Uses a little of everything, so that all of it is compiled into the library.
#[must_use]
pub fn everything() -> usize {
    let mint = TicketMint { key: [1; 16] };
    let mut preamble = Preamble::CONTROL;
    preamble.ticket = mint.mint(Round(1), PeerId(1), PeerId(2));

    let mut bytes = Vec::from(preamble.encode());
    let encoded = encode_control(&ToMaster::Heartbeat { moved: false }, &mut bytes);
    let mut reader = ControlReader::new();
    reader.feed(&bytes);
    let decoded = reader.next_message::<ToMaster>();

    let mut timers = TimerQueue::new();
    timers.arm(PeerId(1), 1_u64);

    let stripes = plan::stripes_for(1 << 20, ElementType::F32, 4, 1 << 20);
    let shards = Shards::of_ranks(1 << 20, 4);
    let replayed = log::replay(&bytes);
    let ring = tour::solve(&tour::TourProblem::default());

    let flows_of = |kind, algorithm| {
        let plan = Plan::new(kind, algorithm, 4, 1);
        plan.map_or(0, |plan| plan.arrivals(shards.stripe(stripes, 0)).count())
    };
    let sites = Sites::of([0, 0, 1, 2]);
    let at_sites = |algorithm| {
        let plan = Plan::among(CollectiveKind::AllReduce, algorithm, &sites, 1);
        plan.map_or(0, |plan| plan.arrivals(shards.stripe(stripes, 0)).count())
    };
    let levels = at_sites(Algorithm::TwoLevel) + at_sites(Algorithm::TwoLevelRing) + at_sites(Algorithm::TwoLevelWhole);
    let flows = |algorithm| flows_of(CollectiveKind::AllReduce, algorithm);
    let root = CollectiveKind::Broadcast { root: 0 };

    flows(Algorithm::Ring)
        + flows(Algorithm::Whole(Pattern::Mesh))
        + flows(Algorithm::Direct)
        + flows(Algorithm::Circulant)
        + levels
        + flows_of(root, Algorithm::Chain)
        + flows_of(root, Algorithm::Tree)
        + usize::from(encoded.is_ok())
        + usize::from(decoded.is_ok())
        + usize::from(replayed.is_ok())
        + usize::from(ring.is_some())
        + usize::from(timers.pop_expired(1).is_some())
}
