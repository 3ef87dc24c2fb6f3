//! A synchronization beside which the peers that hold the content work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pccl::SyncStrategy::{EnforcePopular, ReceiveOnly};
use pccl::{Builder, Communicator, Error, Overlapped, Reduce, SharedState, SyncFailure};
use pccl_core::wire::{Preamble, Purpose};
use tokio::sync::Semaphore;

use crate::support::tapped::Tapped;
use crate::support::{Run, begin, join_as, together, together_with};

const LENGTH: usize = 300_000;

/// As a blocking call. The work is told what it sees.
fn overlapped<R>(
    peer: &mut Communicator,
    revision: u64,
    weights: &mut [f32],
    work: impl FnOnce(u64, &[f32]) -> R,
) -> Overlapped<R> {
    let mut state = SharedState::at(revision);
    state.entry("weights", weights).unwrap();
    let overlapped = peer.sync_shared_state_overlapped(&mut state, EnforcePopular, |state| {
        work(state.revision, state.get("weights").unwrap())
    });
    let after = overlapped.synced.as_ref().map(|report| report.revision);
    assert_eq!(state.revision, after.unwrap_or(revision));
    overlapped
}

/// A builder of peers whose lanes for shared state say nothing until so many permits are there.
fn gated(run: &Run, gate: &Arc<Semaphore>, permits: u32) -> Builder {
    let gate = Arc::clone(gate);
    let tapped = Tapped::new(move |said| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let preamble = said.first.first_chunk().map(Preamble::decode);
            if preamble.unwrap().unwrap().purpose == Purpose::SharedState {
                drop(gate.acquire_many(permits).await);
            }
        })
    });
    run.builder().transport(tapped.on(run.under().clone()))
}

/// Two peers that have synchronized.
fn synchronized(builder: impl Fn() -> Builder) -> Vec<Communicator> {
    let mut peers = vec![begin(builder())];
    join_as(builder(), &mut peers);
    together(&mut peers, |peer| {
        let overlapped = overlapped(peer, 0, &mut [1.0; LENGTH], |_, _| ());
        // Nothing had to move.
        assert!(overlapped.work.is_some() && overlapped.synced.is_ok());
    });
    peers
}

/// Two peers that have synchronized, and one more.
fn with_newcomer(builder: impl Fn() -> Builder) -> Vec<Communicator> {
    let mut peers = synchronized(&builder);
    join_as(builder(), &mut peers);
    peers
}

/// Another state than that of the others, at revision 0.
async fn fetch(mut peer: Communicator) {
    let mut weights = vec![0.0_f32; LENGTH];
    let mut state = SharedState::at(0);
    state.entry("weights", &mut weights).unwrap();
    let call = peer.sync_shared_state_async(&mut state, EnforcePopular);
    call.await.unwrap();
}

#[test]
fn holders_work_while_a_newcomer_fetches_and_it_does_not() {
    let run = Run::new();
    let begun = Arc::new(Semaphore::new(0));
    // Nothing moves before both of them work.
    let mut peers = with_newcomer(|| gated(&run, &begun, 2));

    let results = together_with(&mut peers, |index, peer| {
        let is_new = index == 2;
        let mut weights = vec![if is_new { 0.0 } else { 2.0 }; LENGTH];
        let revision = u64::from(!is_new);
        let overlapped = overlapped(peer, revision, &mut weights, |revision, weights| {
            begun.add_permits(1);
            (revision, weights.iter().sum::<f32>())
        });
        let report = overlapped.synced.unwrap();
        assert_eq!(report.entries_received, usize::from(is_new));
        // It has made no steps, and receives those of the others.
        let mut change = [if is_new { 9.0_f32 } else { 0.5 }; 10];
        let weight = u32::from(overlapped.work.is_some());
        peer.all_reduce(&mut change, Reduce::weighted_avg(weight))
            .unwrap();
        assert_eq!(change, [0.5; 10]);
        assert!(weights.iter().all(|weight| *weight == 2.0));
        overlapped.work
    });

    let sum = (1, 600_000.0);
    assert_eq!(results, [Some(sum), Some(sum), None]);
}

/// Such as the peers of a site, which reduce at each local step.
#[test]
fn collectives_of_another_communicator_go_on_while_a_newcomer_fetches() {
    let run = Run::new();
    let begun = Arc::new(Semaphore::new(0));
    // Nothing moves before both holders have made their local steps.
    let outer = || gated(&run, &begun, 2);
    let mut peers = synchronized(outer);
    for _ in 0..2 {
        join_as(run.builder().group(1), &mut peers);
    }
    join_as(outer(), &mut peers);
    let newcomer = peers.pop().unwrap();
    let inner = peers.split_off(2);
    peers.push(newcomer);

    let results = together_with(&mut peers, |index, peer| {
        let is_new = index == 2;
        let mut weights = vec![if is_new { 0.0 } else { 2.0 }; LENGTH];
        let revision = u64::from(!is_new);
        let overlapped = overlapped(peer, revision, &mut weights, |_, _| {
            let mut step = [1.0_f32; 1000];
            for _ in 0..3 {
                inner[index].all_reduce(&mut step, Reduce::sum()).unwrap();
            }
            begun.add_permits(1);
            step[0]
        });
        let report = overlapped.synced.unwrap();
        assert_eq!(report.entries_received, usize::from(is_new));
        overlapped.work
    });

    assert_eq!(results, [Some(8.0), Some(8.0), None]);
}

#[test]
fn the_work_is_kept_if_the_peer_that_fetches_dies() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("sync_plan", 1), fetch);

    let results = together(&mut peers, |peer| {
        let mut weights = vec![2.0; LENGTH];
        let first = overlapped(peer, 1, &mut weights, |revision, _| revision);
        let failed = first.synced.unwrap_err();
        let again = overlapped(peer, 1, &mut weights, |revision, _| revision);
        (
            first.work,
            failed,
            again.work,
            again.synced.unwrap().revision,
        )
    });

    doomed.join().unwrap();
    for (work, failed, again, revision) in results {
        assert!(matches!(failed, Error::SyncFailed(_)), "{failed}");
        assert_eq!((work, again, revision), (Some(1), Some(1), 1));
    }
}

#[test]
fn no_work_is_done_if_the_synchronization_fails_before() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together(&mut peers, |peer| {
        let mut state = SharedState::at(0);
        let mut weights = [0.5_f32; 4];
        state.entry("weights", &mut weights).unwrap();
        let overlapped = peer.sync_shared_state_overlapped(&mut state, ReceiveOnly, |_| ());
        (overlapped.work, overlapped.synced.unwrap_err())
    });

    for (work, error) in results {
        assert_eq!(work, None);
        assert!(
            matches!(error, Error::SyncFailed(SyncFailure::NobodyToSend)),
            "{error}"
        );
    }
}

/// It serves nobody, and has nothing to fetch.
#[test]
fn content_of_an_older_revision_is_worked_on_as_that_of_the_group() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let doomed = run.join_doomed(&mut peers, ("sync_plan", 1), fetch);

    let results = together_with(&mut peers, |index, peer| {
        let own = u64::from(index == 0);
        let mut weights = vec![2.0; LENGTH];
        // Fails, and leaves each its own revision.
        let first = overlapped(peer, own, &mut weights, |revision, _| revision);
        let again = overlapped(peer, own, &mut weights, |revision, _| revision);
        let synced = again.synced.unwrap().revision;
        (first.work, first.synced.is_err(), again.work, synced)
    });

    doomed.join().unwrap();
    assert_eq!(results[0], (Some(1), true, Some(1), 1));
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_panic_of_the_work_is_the_callers_after_the_others_have_the_content() {
    let run = Run::new();
    let mut peers = with_newcomer(|| run.builder());

    let results = together_with(&mut peers, |index, peer| {
        let mut weights = vec![if index == 2 { 0.0_f32 } else { 2.0 }; LENGTH];
        let mut state = SharedState::at(u64::from(index == 0));
        state.entry("weights", &mut weights).unwrap();
        let call = || {
            peer.sync_shared_state_overlapped(&mut state, EnforcePopular, |state| {
                assert!(index != 1, "as the test wants it");
                state.revision
            })
        };
        let ended = catch_unwind(AssertUnwindSafe(call));
        let work = ended.map(|overlapped| overlapped.synced.map(|_| overlapped.work));
        (work.ok(), state.revision, weights[0])
    });

    assert_eq!(results[0], (Some(Ok(Some(1))), 1, 2.0));
    assert_eq!(results[1], (None, 0, 2.0), "as it was");
    assert_eq!(results[2], (Some(Ok(None)), 1, 2.0));
}

#[test]
fn a_task_works_while_its_peer_serves() {
    let run = Run::new();
    let begun = Arc::new(Semaphore::new(0));
    let mut peers = with_newcomer(|| gated(&run, &begun, 2));

    let results = together_with(&mut peers, |index, peer| {
        let is_new = index == 2;
        let mut weights = vec![if is_new { 0.0_f32 } else { 2.0 }; LENGTH];
        let mut state = SharedState::at(u64::from(!is_new));
        state.entry("weights", &mut weights).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let overlapped = runtime.block_on(peer.sync_shared_state_overlapped_async(
            &mut state,
            EnforcePopular,
            async |state| {
                begun.add_permits(1);
                tokio::time::sleep(Duration::from_millis(1)).await;
                state.revision
            },
        ));
        (overlapped.work, overlapped.synced.unwrap().revision)
    });

    assert_eq!(results, [(Some(1), 1), (Some(1), 1), (None, 1)]);
}
