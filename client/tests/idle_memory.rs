//! Memory of collectives is kept for the next one, and given back when none follows.
//!
//! The allocator of this program counts, over all peers and the master, which are in one process.

mod support;

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Communicator, Reduce};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::{Run, admit, begin, builder_for, join_as, together_with};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The count is of the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A backup of 4 MiB or more has pages of its own, which the allocator does not see.
const ELEMENTS: usize = 1_000_000;
const BUFFER_BYTES: usize = ELEMENTS * size_of::<f32>();

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// So soon that a test can wait for it.
const SOON: Duration = Duration::from_millis(50);

/// Far beyond what any test takes.
const HANG: Duration = Duration::from_secs(60);

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that were allocated in this region and not freed.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

/// Two peers that keep memory for so long.
fn two_peers(run: &Run, keep: Duration) -> Vec<Communicator> {
    let builder = || run.builder().keep_memory(keep);
    let mut peers = vec![begin(builder())];
    let other = builder();
    let joining = thread::spawn(move || begin(other));
    admit(&mut peers);
    peers.push(joining.join().unwrap());
    peers
}

fn buffers() -> Vec<Mutex<Vec<f32>>> {
    (0..2).map(|_| Mutex::new(vec![1.0; ELEMENTS])).collect()
}

fn reduce(peers: &mut [Communicator], buffers: &[Mutex<Vec<f32>>]) {
    together_with(peers, |index, peer| {
        let mut buffer = buffers[index].lock().unwrap();
        peer.all_reduce(&mut buffer, Reduce::max()).unwrap();
    });
}

/// Waits a little for no more than `bytes` to be held. Whether that came to pass.
fn settles(region: &Region<'_, System>, bytes: usize) -> bool {
    let begun = Instant::now();
    while held(region) > bytes && begun.elapsed() < HANG / 20 {
        thread::yield_now();
    }
    held(region) <= bytes
}

/// Waits until no more than `bytes` are held.
fn wait_for(region: &Region<'_, System>, bytes: usize) {
    let begun = Instant::now();
    while held(region) > bytes {
        assert!(begun.elapsed() < HANG, "{} bytes are held", held(region));
        thread::yield_now();
    }
}

#[test]
fn a_backup_is_kept_for_the_next_reduce() {
    let _alone = alone();
    let run = Run::new();
    let mut peers = two_peers(&run, LONG);
    let buffers = buffers();
    let region = Region::new(ALLOCATOR);

    reduce(&mut peers, &buffers);
    let after_one = held(&region);
    reduce(&mut peers, &buffers);
    let allocated = region.change().bytes_allocated;

    assert!(after_one >= 2 * BUFFER_BYTES, "{after_one} bytes");
    assert!(allocated < 3 * BUFFER_BYTES, "{allocated} bytes");
}

#[test]
fn what_a_reduce_has_used_is_given_back_when_none_follows() {
    let _alone = alone();
    let run = Run::new();
    let mut peers = two_peers(&run, SOON);
    let buffers = buffers();
    let region = Region::new(ALLOCATOR);

    reduce(&mut peers, &buffers);

    wait_for(&region, 256 * 1024);
    assert_eq!(peers.len(), 2);
}

#[test]
fn memory_is_given_back_on_a_callers_runtime_too() {
    let _alone = alone();
    let run = Run::new();
    let builder = || run.builder().keep_memory(SOON);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut buffer = vec![1.0_f32; ELEMENTS];

    runtime.block_on(async {
        let mut peer = builder().connect_async().await.unwrap();
        peer.update_topology_async().await.unwrap();
        let joining = tokio::spawn(builder().connect_async());
        while !peer.are_peers_pending_async().await.unwrap() {}
        peer.update_topology_async().await.unwrap();
        let mut other = joining.await.unwrap().unwrap();
        other.update_topology_async().await.unwrap();
        let mut others = vec![1.0_f32; ELEMENTS];
        let region = Region::new(ALLOCATOR);

        let both = tokio::join!(
            peer.all_reduce_async(&mut buffer, Reduce::max()),
            other.all_reduce_async(&mut others, Reduce::max())
        );
        let used = region.change().bytes_allocated;

        assert!(both.0.is_ok() && both.1.is_ok() && used >= 2 * BUFFER_BYTES);
        let begun = Instant::now();
        while held(&region) > 256 * 1024 {
            assert!(begun.elapsed() < HANG, "{} bytes are held", held(&region));
            tokio::task::yield_now().await;
        }
    });
}

/// Peers that join, take part in a reduce, and leave or die, one after the other.
fn come_and_go(run: &Run, peers: &mut Vec<Communicator>, how_many: usize) {
    // Not those of the run, which keep count of the traffic of each lane.
    let builder = || builder_for(&run.address());
    for number in 0..how_many {
        let reduce = [1.0_f32; 1000];
        let died = number.is_multiple_of(2).then(|| {
            run.join_doomed_as(builder(), peers, ("none", 1), async move |peer| {
                let mut reduce = reduce;
                let done = peer.all_reduce_async(&mut reduce, Reduce::max()).await;
                assert!(done.is_ok());
            })
        });
        if died.is_none() {
            join_as(builder(), peers);
        }
        together_with(peers, |_, peer| {
            let mut reduce = reduce;
            peer.all_reduce(&mut reduce, Reduce::max()).unwrap();
        });
        match died {
            Some(died) => died.join().unwrap(),
            None => drop(peers.pop()),
        }
    }
}

#[test]
fn nothing_is_kept_of_peers_that_have_come_and_gone() {
    const PEERS: usize = 1000;
    // What the runtimes and the master hold for connections at a time grows once in a while, by tens of kilobytes. What
    // is kept of each peer grows each time.
    const TIMES: usize = 4;
    let _alone = alone();
    let run = Run::new();
    let mut peers = vec![begin(builder_for(&run.address()))];
    come_and_go(&run, &mut peers, 50);

    let mut grown = Vec::new();
    while grown.len() < TIMES {
        let region = Region::new(ALLOCATOR);
        come_and_go(&run, &mut peers, PEERS);
        if settles(&region, 20 * PEERS) {
            return;
        }
        grown.push(held(&region));
    }
    panic!("{grown:?} bytes are held");
}
