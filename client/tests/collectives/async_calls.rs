//! The async twins of all calls, on runtimes of either flavour, and futures that are dropped.

use std::sync::Arc;
use std::time::Duration;

use pccl::{
    Communicator, Error, GatherV, Reduce, ReduceItem, SharedState, SyncReport, SyncStrategy,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{Run, builder_for, on_event, share_out};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

/// Two peers of one run on the runtime that polls this.
async fn two_peers(master: &str) -> (Communicator, Communicator) {
    let mut one = builder_for(master).connect_async().await.unwrap();
    one.update_topology_async().await.unwrap();
    let joining = tokio::spawn(builder_for(master).connect_async());
    while !one.are_peers_pending_async().await.unwrap() {}
    one.update_topology_async().await.unwrap();
    let mut other = joining.await.unwrap().unwrap();
    other.update_topology_async().await.unwrap();
    (one, other)
}

/// The same; neither of them has just been admitted: an update needs the vote of both.
async fn two_veterans(master: &str) -> (Communicator, Communicator) {
    let (one, other) = two_peers(master).await;
    let (mut mine, mut theirs) = ([1_u8], [1_u8]);
    let (mine, theirs) = tokio::join!(
        one.all_reduce_async(&mut mine, Reduce::sum()),
        other.all_reduce_async(&mut theirs, Reduce::sum())
    );
    assert!(mine.is_ok() && theirs.is_ok(), "{mine:?}, {theirs:?}");
    (one, other)
}

/// Makes every call once.
async fn live(peer: &mut Communicator) -> [f32; 3] {
    peer.update_topology_async().await.unwrap();
    let mut weights = [1.0_f32; 3];
    let mut state = SharedState::at(0);
    state.entry("weights", &mut weights).unwrap();
    peer.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular)
        .await
        .unwrap();
    let handle = peer.start_all_reduce(vec![1_u8; 9], Reduce::sum().tag(1));
    let (mut gradients, mut result) = ([2.0_f32; 3], [0.0_f32; 3]);
    peer.all_reduce_async(&mut gradients, Reduce::sum())
        .await
        .unwrap();
    peer.all_reduce_into_async(&gradients, &mut result, Reduce::avg())
        .await
        .unwrap();
    assert_eq!(handle.await.unwrap().buffer, [2; 9]);
    share_out(peer).await;
    let mut items = [ReduceItem::new(&mut gradients, Reduce::max())];
    let reports = peer.all_reduce_many_with_retry_async(&mut items, 1).await;
    assert_eq!(reports.unwrap().len(), 1);
    assert!(!peer.are_peers_pending_async().await.unwrap());
    result
}

async fn two_lives(master: String) {
    let (mut one, mut other) = timeout(HANG, two_peers(&master)).await.unwrap();

    let both = async { tokio::join!(live(&mut one), live(&mut other)) };
    let results = timeout(HANG, both).await.unwrap();

    assert_eq!(results, ([4.0; 3], [4.0; 3]));
    one.shutdown_async().await;
    other.shutdown_async().await;
}

#[test]
fn every_call_works_on_a_current_thread_runtime() {
    let run = Run::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();

    runtime.block_on(two_lives(run.address()));
}

#[test]
fn every_call_works_on_a_runtime_of_many_threads() {
    let run = Run::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();

    runtime.block_on(async {
        // In a task, so that the futures have to be Send.
        tokio::spawn(two_lives(run.address())).await.unwrap();
    });
}

#[tokio::test]
async fn a_reduce_that_is_dropped_before_it_starts_is_taken_back_and_may_be_called_again() {
    let run = Run::new();
    let (mut one, mut other) = two_peers(&run.address()).await;
    let (mut mine, mut theirs) = (vec![1_u64; 1000], vec![1_u64; 1000]);

    let given_up = one.all_reduce_async(&mut mine, Reduce::sum());
    let none = timeout(Duration::from_millis(20), given_up).await;
    let restored = mine.clone();
    let both = async {
        // Behind it the vote has been taken back for certain.
        let updates = tokio::join!(one.update_topology_async(), other.update_topology_async());
        let reduces = tokio::join!(
            one.all_reduce_async(&mut mine, Reduce::sum()),
            other.all_reduce_async(&mut theirs, Reduce::sum())
        );
        (updates, reduces)
    };
    let (updates, reduces) = timeout(HANG, both).await.unwrap();

    assert!(none.is_err());
    assert_eq!(restored, [1; 1000]);
    assert!(updates.0.is_ok() && updates.1.is_ok(), "{updates:?}");
    assert!(reduces.0.is_ok() && reduces.1.is_ok(), "{reduces:?}");
    assert_eq!((mine, theirs), (vec![2; 1000], vec![2; 1000]));
}

#[tokio::test]
async fn a_synchronization_does_not_wait_for_a_reduce_that_was_dropped_before_it_started() {
    async fn sync(peer: &mut Communicator) -> Result<SyncReport, Error> {
        let mut weights = [1.0_f32; 3];
        let mut state = SharedState::at(0);
        state.entry("weights", &mut weights).unwrap();
        let strategy = SyncStrategy::EnforcePopular;
        peer.sync_shared_state_async(&mut state, strategy).await
    }
    let run = Run::new();
    let (mut one, mut other) = two_peers(&run.address()).await;

    let mut buffer = [1_u64; 9];
    let given_up = one.all_reduce_async(&mut buffer, Reduce::sum());
    let none = timeout(Duration::from_millis(20), given_up).await;
    let both = async { tokio::join!(sync(&mut one), sync(&mut other)) };
    let (mine, theirs) = timeout(HANG, both).await.unwrap();

    assert!(none.is_err());
    assert!(mine.is_ok() && theirs.is_ok(), "{mine:?}, {theirs:?}");
}

/// From then on it cannot be taken back: the others move bytes for it.
#[test]
fn a_reduce_that_is_dropped_when_it_has_started_is_aborted_for_the_other() {
    let run = Run::new();
    let started = Arc::new(Notify::new());
    let noticed = Arc::clone(&started);
    let tell = move |kind: &str| {
        if kind == "plan_started" {
            noticed.notify_one();
        }
    };
    let (mut mine, mut theirs) = (vec![1_u64; 1000], vec![1_u64; 1000]);

    let both = async {
        let (one, other) = two_peers(&run.address()).await;
        let given_up = async {
            tokio::select! {
                // Before the ring is polled, so that it cannot be through.
                biased;
                () = started.notified() => {}
                result = one.all_reduce_async(&mut mine, Reduce::sum()) => panic!("{result:?}"),
            }
        };
        tokio::join!(given_up, other.all_reduce_async(&mut theirs, Reduce::sum()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ((), result) = on_event(tell, || {
        runtime
            .block_on(async { timeout(HANG, both).await })
            .unwrap()
    });

    let error = result.unwrap_err();
    assert!(matches!(error, Error::Aborted { .. }), "{error}");
    assert_eq!((mine, theirs), (vec![1; 1000], vec![1; 1000]));
}

/// What was gathered for it until then is nobody's, and the next one gathers other lengths.
#[test]
fn a_gather_that_is_dropped_when_it_has_started_leaves_all_memory_alone() {
    let run = Run::new();
    let started = Arc::new(Notify::new());
    let noticed = Arc::clone(&started);
    let tell = move |kind: &str| {
        if kind == "plan_started" {
            noticed.notify_one();
        }
    };
    let (mine, theirs) = (vec![1_u64; 1000], vec![2_u64; 10]);
    let (mut all, mut their_all) = (vec![7; 3], vec![8; 3]);

    let both = async {
        let (one, other) = two_peers(&run.address()).await;
        let how = GatherV::default();
        let given_up = async {
            tokio::select! {
                // Before its plan is polled, so that it cannot be through.
                biased;
                () = started.notified() => {}
                result = one.all_gather_v_async(&mine, &mut all, how) => panic!("{result:?}"),
            }
        };
        let calls = tokio::join!(
            given_up,
            other.all_gather_v_async(&theirs, &mut their_all, how)
        );
        let before = (all.clone(), their_all.clone());
        let next = tokio::join!(
            one.all_gather_v_async(&mine[..3], &mut all, how),
            other.all_gather_v_async(&theirs[..2], &mut their_all, how)
        );
        (calls.1, before, next)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (result, before, next) = on_event(tell, || {
        runtime
            .block_on(async { timeout(HANG, both).await })
            .unwrap()
    });

    let error = result.unwrap_err();
    assert!(matches!(error, Error::Aborted { .. }), "{error}");
    assert_eq!(before, (vec![7; 3], vec![8; 3]));
    assert!(next.0.is_ok() && next.1.is_ok(), "{next:?}");
    assert_eq!(all, their_all);
    all.sort_unstable();
    assert_eq!(all, [1, 1, 1, 2, 2]);
}

#[tokio::test]
async fn an_update_that_was_dropped_is_joined_by_the_next_one() {
    let run = Run::new();
    let (mut one, mut other) = two_veterans(&run.address()).await;

    let dropped = timeout(Duration::from_millis(20), one.update_topology_async()).await;
    let both = async { tokio::join!(one.update_topology_async(), other.update_topology_async()) };
    let (mine, theirs) = timeout(HANG, both).await.unwrap();

    assert!(dropped.is_err());
    assert_eq!(mine.unwrap().ring, theirs.unwrap().ring);
}

#[tokio::test]
async fn a_reduce_waits_for_an_update_that_was_dropped() {
    let run = Run::new();
    let (mut one, mut other) = two_veterans(&run.address()).await;
    let (mut mine, mut theirs) = ([1_i32; 5], [2_i32; 5]);

    let dropped = timeout(Duration::from_millis(20), one.update_topology_async()).await;
    let both = async {
        tokio::join!(one.all_reduce_async(&mut mine, Reduce::sum()), async {
            other.update_topology_async().await.unwrap();
            other.all_reduce_async(&mut theirs, Reduce::sum()).await
        })
    };
    let (one, other) = timeout(HANG, both).await.unwrap();

    assert!(dropped.is_err());
    assert!(one.is_ok() && other.is_ok());
    assert_eq!((mine, theirs), ([3; 5], [3; 5]));
}

#[tokio::test]
async fn a_synchronization_that_is_dropped_leaves_memory_alone_and_costs_the_other_a_retry() {
    let run = Run::new();
    let (mut one, mut other) = two_peers(&run.address()).await;
    let (mut mine, mut theirs) = ([1.0_f64; 4], [2.0_f64; 4]);

    let mut state = SharedState::at(0);
    state.entry("weights", &mut mine).unwrap();
    let vote = one.sync_shared_state_async(&mut state, SyncStrategy::ReceiveOnly);
    let dropped = timeout(Duration::from_millis(20), vote).await;
    let mut state = SharedState::at(0);
    state.entry("weights", &mut theirs).unwrap();
    let error = timeout(
        HANG,
        other.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular),
    );
    let error = error.await.unwrap().unwrap_err();

    assert!(dropped.is_err());
    assert!(matches!(error, Error::SyncFailed(_)) && error.is_retryable());
    assert_eq!((mine, theirs), ([1.0; 4], [2.0; 4]));
}

#[tokio::test]
async fn a_handle_gives_its_buffer_back_when_its_runtime_ends_under_it() {
    let run = Run::new();
    let address = run.address();
    let (hand_over, handed_over) = std::sync::mpsc::channel();
    let short_lived = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (one, other) = two_peers(&address).await;
            // Nobody joins in, so it is still open when the runtime is dropped.
            let handle = one.start_all_reduce(vec![7_u8; 3], Reduce::sum());
            std::mem::forget(other);
            hand_over.send(handle).unwrap();
        });
    });
    short_lived.join().unwrap();

    let failed = timeout(HANG, handed_over.recv().unwrap())
        .await
        .unwrap()
        .unwrap_err();

    assert!(failed.error.is_final());
    assert_eq!(failed.buffer, [7; 3]);
}
