//! Calls of peers that do not meet, and calls at the wrong time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pccl::{Communicator, Error, Reduce, SharedState, SyncStrategy};
use pccl_transport_memory::Path;
use tokio::join;

use super::world::{FIRST, MASTER, SECOND, World, ip};
use super::{Told, ends, expect, expect_of_two, seconds};

/// How long bytes take from the first peer to the second one.
const SLOW: Duration = Duration::from_millis(400);

/// The communicator of a peer that is alone.
async fn lone(world: &World) -> Communicator {
    world.start_master().await;
    world.peer(MASTER).connect_async().await.unwrap()
}

/// Synchronizes a state of one entry.
async fn sync(peer: &mut Communicator) -> Result<(), Error> {
    let mut weights = [1_f32; 8];
    let mut state = SharedState::at(0);
    state.entry("weights", &mut weights).unwrap();
    let synced = peer.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular);
    synced.await.map(drop)
}

/// Reduces under this tag.
async fn reduce(peer: &Communicator, tag: u64) -> Result<(), Error> {
    let mut buffer = [1_f32; 8];
    let reduced = peer.all_reduce_async(&mut buffer, Reduce::sum().tag(tag));
    reduced.await.map(drop)
}

#[test]
fn two_peers_reduce_in_opposite_orders() {
    let told = Told {
        peers: &[
            "",
            "tag 2 did not start: these peers did not join it in time, because they wait in collectives of \
             other tags: peer 1; start the round again, and collectives in the same order on all peers",
        ],
        within: seconds(610),
        ..Told::default()
    };
    expect(told, async |world| {
        let (first, second) = world.two().await;
        let second_then = async {
            let told = reduce(&second, 2).await;
            reduce(&second, 1).await.unwrap();
            told
        };
        ends(join!(reduce(&first, 1), second_then)).into()
    });
}

#[test]
fn one_peer_reduces_while_another_synchronizes() {
    expect_of_two(
        [
            "peer 2 called sync_shared_state while this peer called a collective; call sync_shared_state first, \
             then try again",
            "",
        ],
        async |first, second| {
            let first_then = async {
                let told = reduce(first, 0).await;
                sync(first).await.unwrap();
                told
            };
            ends(join!(first_then, sync(second)))
        },
    );
}

#[test]
fn one_peer_synchronizes_while_another_optimizes() {
    let told = Told {
        peers: &[
            "peer 2 called optimize_topology while this peer called sync_shared_state; call optimize_topology \
             first, then try again",
            "",
        ],
        within: seconds(10),
        ..Told::default()
    };
    expect(told, async |world| {
        let (mut first, mut second) = world.two().await;
        let first_then = async {
            let told = sync(&mut first).await;
            first.optimize_topology_async().await.unwrap();
            told
        };
        ends(join!(first_then, second.optimize_topology_async())).into()
    });
}

/// What a major call gets while a handle runs.
fn while_a_handle_runs(call: impl AsyncFnOnce(&mut Communicator) -> Result<(), Error>) {
    expect_of_two(
        [
            "a collective is pending; wait for its handle before changing the topology or the state",
            "",
        ],
        async |first, second| {
            let running = first.start_all_reduce(vec![1_f32; 8], Reduce::sum());
            let told = call(first).await;
            let (ours, theirs) = join!(running, reduce(second, 0));
            ours.unwrap();
            [told, theirs]
        },
    );
}

#[test]
fn the_topology_is_updated_while_a_reduce_runs() {
    while_a_handle_runs(async |peer| peer.update_topology_async().await.map(drop));
}

#[test]
fn the_topology_is_optimized_while_a_reduce_runs() {
    while_a_handle_runs(async |peer| peer.optimize_topology_async().await.map(drop));
}

#[test]
fn the_state_is_synchronized_while_a_reduce_runs() {
    while_a_handle_runs(async |peer| sync(peer).await);
}

#[test]
fn two_threads_ask_for_pending_peers_at_once() {
    expect_of_two(
        ["are_peers_pending is already waiting; one at a time", ""],
        async |first, second| {
            let (once, again, other) = join!(
                first.are_peers_pending_async(),
                first.are_peers_pending_async(),
                second.are_peers_pending_async(),
            );
            once.unwrap();
            ends((again, other))
        },
    );
}

/// It is dropped on the way of what it sends.
#[test]
fn a_handle_is_dropped_before_its_reduce_has_ended() {
    let told = Told {
        peers: &["tag 0 was aborted: peer 1 gave the operation up; call again"],
        within: seconds(5),
        ..Told::default()
    };
    expect(told, async |world| {
        let far = Path {
            delay: SLOW,
            ..Path::default()
        };
        world.net.set_path(ip(FIRST), ip(SECOND), far);
        world.net.set_path(ip(SECOND), ip(FIRST), far);
        let (first, second) = world.two().await;
        let dropping = async {
            let running = first.start_all_reduce(vec![1_f32; 8], Reduce::sum());
            let ended = tokio::time::timeout(SLOW / 2, running).await;
            ended.map(drop).unwrap_err();
        };
        let (told, ()) = join!(reduce(&second, 0), dropping);
        vec![told]
    });
}

/// What is read when this blocks in an async task.
fn blocking(told: &str, call: impl FnOnce(&World, &Communicator)) {
    let within = seconds(5);
    let nobody = Told {
        within,
        ..Told::default()
    };
    expect(nobody, async |world| {
        let peer = lone(world).await;
        let call = AssertUnwindSafe(|| call(world, &peer));
        let panic = catch_unwind(call).unwrap_err();
        assert_eq!(*panic.downcast::<String>().unwrap(), told);
        Vec::new()
    });
}

#[test]
fn a_blocking_call_is_made_in_an_async_task() {
    blocking(
        "a call that blocks was made in an async task; await all_reduce_async there",
        |_, peer| {
            let _ = peer.all_reduce(&mut [1_f32; 8], Reduce::sum());
        },
    );
}

#[test]
fn a_handle_is_waited_for_in_an_async_task() {
    blocking(
        "a call that blocks was made in an async task; await the handle there",
        |_, peer| {
            let _ = peer.start_all_reduce(vec![1_f32; 8], Reduce::sum()).wait();
        },
    );
}

#[test]
fn a_peer_connects_by_a_blocking_call_in_an_async_task() {
    blocking(
        "a call that blocks was made in an async task; await connect_async there",
        |world, _| drop(world.peer(MASTER).connect()),
    );
}

#[test]
fn a_training_loop_runs_in_an_async_task() {
    blocking(
        "a call that blocks was made in an async task; await Rounds::run_async there",
        |world, _| {
            let rounds = world.peer(MASTER).rounds();
            let mut weights = vec![1_f32; 8];
            let _ = rounds.run(&mut weights, |round| Ok::<_, Error>(round.end()));
        },
    );
}

#[test]
fn a_call_is_made_after_the_master_was_stopped() {
    let told = Told {
        peers: &[
            "the master was stopped: the run is over",
            "the master was stopped: the run is over",
        ],
        within: seconds(5),
        ..Told::default()
    };
    expect(told, async |world| {
        let stop = world.start_master().await;
        let peer = world.peer(MASTER).connect_async().await.unwrap();
        stop.stop();
        vec![reduce(&peer, 0).await, reduce(&peer, 0).await]
    });
}

#[test]
fn a_peer_goes_on_after_it_was_removed() {
    expect_of_two(
        [
            "the master removed this peer from the run: its shared state is not that of the other peers: it lacks \
             \"weights\" (8 f32 elements); give all peers the same entries",
            "the master removed this peer from the run: its shared state is not that of the other peers: it lacks \
             \"weights\" (8 f32 elements); give all peers the same entries",
        ],
        async |first, second| {
            let mut state = SharedState::at(0);
            let others = join!(
                sync(first),
                second.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular),
            );
            assert_eq!(others.0, Ok(()));
            [
                reduce(second, 0).await,
                second.update_topology_async().await.map(drop),
            ]
        },
    );
}
