//! The async twins of all calls without any tokio runtime around them, and inside one that ends.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pccl::{
    Communicator, ErrorFeedback, Quantization, Reduce, ReduceItem, SharedState, SyncReport,
    SyncStrategy,
};
use pccl_core::element::ElementType;
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane};
use pccl_transport_memory::{Intercepted, Interceptor};

use crate::support::{Run, begin, share_out, together, together_with};

/// Wakes a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on this thread: about the least that an executor can be.
fn drive<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A runtime of the program's, of no concern to the communicator.
fn runtime_of_the_program() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// Brings the state to the content of whichever peer does not only receive.
async fn synchronize(
    peer: &mut Communicator,
    content: &mut [u32],
    only_receive: bool,
) -> SyncReport {
    let mut state = SharedState::at(0);
    state.entry("content", content).unwrap();
    let strategy = if only_receive {
        SyncStrategy::ReceiveOnly
    } else {
        SyncStrategy::SendOnly
    };
    let synchronized = peer.sync_shared_state_async(&mut state, strategy).await;
    synchronized.unwrap()
}

/// Makes every call once; the second peer has to fetch the state from the first.
async fn live(index: usize, peer: &mut Communicator) -> [f32; 3] {
    peer.update_topology_async().await.unwrap();
    let mut content = [index as u32; 100_000];
    let synchronized = synchronize(peer, &mut content, index > 0).await;
    assert_eq!(synchronized.entries_received, usize::from(index > 0));
    assert_eq!(content, [0; 100_000]);
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
    let reduce = Reduce::avg().quantize(Quantization::MinMax {
        to: ElementType::U8,
    });
    peer.all_reduce_with_feedback_async(&mut gradients, reduce, &mut ErrorFeedback::new())
        .await
        .unwrap();
    let mut items = [ReduceItem::new(&mut gradients, Reduce::max())];
    let reports = peer.all_reduce_many_with_retry_async(&mut items, 1).await;
    assert_eq!(reports.unwrap().len(), 1);
    peer.optimize_topology_async().await.unwrap();
    assert!(!peer.are_peers_pending_async().await.unwrap());
    result
}

#[test]
fn every_call_works_without_a_tokio_runtime() {
    let run = Run::new();
    let mut peers = run.peers(2);

    let results = together_with(&mut peers, |index, peer| drive(live(index, peer)));

    assert_eq!(results, [[4.0; 3]; 2]);
    for peer in peers {
        drive(peer.shutdown_async());
    }
}

/// Counts the lanes which this end has opened.
struct Dialling(Arc<AtomicUsize>);

impl Interceptor for Dialling {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        self.0.fetch_add(1, Ordering::SeqCst);
        lane
    }
}

/// Two peers, and how many lanes the second one has opened.
fn two_peers(run: &Run) -> (Vec<Communicator>, Arc<AtomicUsize>) {
    let lanes = Arc::new(AtomicUsize::new(0));
    let counts = Dialling(Arc::clone(&lanes));
    let dialling = Intercepted::over(Arc::new(run.under().clone()), counts);
    let mut peers = vec![begin(run.builder())];
    let builder = run.builder().transport(dialling);
    let joining = thread::spawn(move || begin(builder));
    crate::support::admit(&mut peers);
    peers.push(joining.join().unwrap());
    (peers, lanes)
}

#[test]
fn a_call_goes_on_where_the_runtime_that_began_it_has_ended() {
    let run = Run::new();
    let (mut peers, lanes) = two_peers(&run);
    let has_ended = AtomicBool::new(false);

    let received = together_with(&mut peers, |index, peer| {
        let mut content = vec![index as u32; 100_000];
        let opened = lanes.load(Ordering::SeqCst);
        let mut call = Box::pin(synchronize(peer, &mut content, index > 0));
        if index > 0 {
            let runtime = runtime_of_the_program();
            // Up to where it has a lane to the other peer and waits for its answer.
            runtime.block_on(poll_fn(|cx| {
                assert!(call.as_mut().poll(cx).is_pending(), "it is over already");
                match lanes.load(Ordering::SeqCst) > opened {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            }));
            drop(runtime);
            has_ended.store(true, Ordering::SeqCst);
        } else {
            // It answers no sooner: what it serves, it serves while its call is polled.
            let begun = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(begun.is_pending(), "nobody was there to synchronize with");
            while !has_ended.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        let report = drive(call);
        (report.entries_received, content == vec![0; 100_000])
    });

    assert_eq!(received, [(0, true), (1, true)]);
}

#[test]
fn the_next_calls_work_where_the_runtime_of_the_last_one_has_ended() {
    let run = Run::new();
    let mut peers = run.peers(2);
    together_with(&mut peers, |index, peer| {
        let runtime = runtime_of_the_program();
        runtime.block_on(live(index, peer));
    });

    let results = together(&mut peers, |peer| {
        let mut gradients = [1.0_f32; 3];
        peer.all_reduce(&mut gradients, Reduce::sum()).unwrap();
        drive(peer.all_reduce_async(&mut gradients, Reduce::sum())).unwrap();
        gradients
    });

    assert_eq!(results, [[4.0; 3]; 2]);
}
