//! Time limits of calls: what is given up, what the others are told, and what the limit is not about.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use pccl::{AbortCause, Broadcast, Communicator, Error, Gather, GatherV, Reduce, Tag};

use crate::support::{Run, together_with};

const SHORT: Duration = Duration::from_millis(50);

/// Far beyond what any of these calls takes, and short enough to wait for.
const LONG: Duration = Duration::from_secs(2);

/// So that the call is made; nothing of it runs until the next poll.
fn poll_once<F: Future>(call: Pin<&mut F>) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.poll(&mut context).is_pending());
}

fn finish<F: Future>(call: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(call)
}

#[test]
fn a_call_that_no_other_peer_makes_is_given_up_and_leaves_its_tag_free() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let (tag, limit) = (Tag(3), SHORT);
    let late = Error::TimeLimit { tag, limit };
    let first = &peers[0];
    let mut buffer = vec![1_f32; 1000];

    let reduced = first.all_reduce(&mut buffer, Reduce::sum().tag(3).timeout(SHORT));
    assert_eq!(reduced, Err(late.clone()));
    let scattered = first.reduce_scatter(&mut buffer, Reduce::sum().tag(3).timeout(SHORT));
    assert_eq!(scattered.unwrap_err(), late);
    let gather = Gather::of(first.shard(1000)).tag(3).timeout(SHORT);
    assert_eq!(first.all_gather(&mut buffer, gather), Err(late.clone()));
    let mut all = Vec::new();
    let gathered = first.all_gather_v(&buffer, &mut all, GatherV::default().tag(3).timeout(SHORT));
    assert_eq!(gathered.unwrap_err(), late);
    let broadcast = Broadcast::from(first.peer_id()).tag(3).timeout(SHORT);
    assert_eq!(first.broadcast(&mut buffer, broadcast), Err(late.clone()));
    let started = first.start_all_reduce(buffer, Reduce::sum().tag(3).timeout(SHORT));
    let failed = started.wait().unwrap_err();
    assert_eq!((failed.error, &failed.buffer), (late, &vec![1.0; 1000]));

    together_with(&mut peers, |_, peer| {
        let mut buffer = [1_f32; 10];
        peer.all_reduce(&mut buffer, Reduce::sum().tag(3)).unwrap();
        assert_eq!(buffer, [2.0; 10]);
    });
}

#[test]
fn a_reduce_that_has_started_is_aborted_for_all_when_the_limit_of_one_is_over() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();
    let tag = Tag(0);
    let mut stuck = vec![2_f32; 1000];
    {
        let mut call = pin!(peers[1].all_reduce_async(&mut stuck, Reduce::sum()));
        poll_once(call.as_mut());

        let mut buffer = vec![1_f32; 1000];
        let limit = LONG;
        let late = peers[0].all_reduce(&mut buffer, Reduce::sum().timeout(limit));

        assert_eq!(late, Err(Error::TimeLimit { tag, limit }));
        assert_eq!(buffer, [1.0; 1000]);
        let other = finish(call);
        let cause = AbortCause::Cancelled(ids[0]);
        let waited = None;
        assert_eq!(other, Err(Error::Aborted { tag, cause, waited }));
    }
    assert_eq!(stuck, [2.0; 1000]);

    together_with(&mut peers, |_, peer| {
        let mut buffer = [1_f32; 10];
        let reduce = Reduce::sum().timeout(Duration::MAX);
        peer.all_reduce(&mut buffer, reduce).unwrap();
        assert_eq!(buffer, [2.0; 10]);
    });
}

/// The others may have been told that it is committed.
#[test]
fn a_peer_whose_part_is_complete_waits_for_the_verdict_whatever_its_limit() {
    let run = Run::new();
    let peers = run.peers(2);
    let root = peers[0].peer_id();
    let mut received = vec![0_f32; 1000];
    let receiver = &peers[1];
    let call = receiver.broadcast_async(&mut received, Broadcast::from(root));
    let mut call = Box::pin(call);
    poll_once(call.as_mut());

    thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let mut buffer = vec![5_f32; 1000];
            peers[0].broadcast(&mut buffer, Broadcast::from(root).timeout(LONG))
        });
        // The limit passes while the root's part is complete and that of the other is not.
        thread::sleep(LONG + SHORT);
        let ended = finish(call.as_mut());

        assert_eq!(ended.map(|report| report.world_size), Ok(2));
        let sent = sent.join().unwrap();
        assert_eq!(sent.map(|report| report.world_size), Ok(2));
    });
    drop(call);
    assert_eq!(received, [5.0; 1000]);
}
