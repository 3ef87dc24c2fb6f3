//! Futures that are dropped: before the collective has started, while it runs, and when the own part is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pccl::{AbortCause, Communicator, Error, PeerId, Reduce};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::kind::{Kind, begin, for_all, input, inputs, one_thread};
use crate::support::{Run, builder_for, on_event};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

/// Peers of one run, on the runtime that polls this.
struct Three {
    peers: [Communicator; 3],
    ids: [PeerId; 3],
}

impl Three {
    async fn of(master: &str) -> Self {
        let mut first = builder_for(master).connect_async().await.unwrap();
        first.update_topology_async().await.unwrap();
        let mut peers = vec![first];
        while peers.len() < 3 {
            let joining = tokio::spawn(builder_for(master).connect_async());
            while !pending(&peers).await {}
            for_all(peers.iter_mut().map(|peer| peer.update_topology_async())).await;
            let mut newcomer = joining.await.unwrap().unwrap();
            newcomer.update_topology_async().await.unwrap();
            peers.push(newcomer);
        }
        let ids = [0, 1, 2].map(|index: usize| peers[index].peer_id());
        let peers = peers.try_into().expect("three of them");
        Self { peers, ids }
    }

    /// Over once the master has heard all that this one has said, and a call waits for it or for all others: a peer
    /// that others wait for is answered at once.
    async fn asks(&self, index: usize) {
        let answer = self.peers[index].are_peers_pending_async().await;
        assert_eq!(answer, Ok(false));
    }

    /// They reduce.
    async fn go_on(&self) {
        let reduces = self.peers.iter().map(|peer| async {
            let mut buffer = [1_u8; 5];
            peer.all_reduce_async(&mut buffer, Reduce::sum())
                .await
                .unwrap();
            buffer
        });
        assert_eq!(for_all(reduces).await, [[3; 5]; 3]);
    }
}

async fn pending(peers: &[Communicator]) -> bool {
    let asked = peers.iter().map(Communicator::are_peers_pending_async);
    let answers = for_all(asked).await;
    answers.into_iter().any(|answer| answer.unwrap())
}

#[tokio::test]
async fn what_is_dropped_before_it_starts_is_taken_back_and_those_that_wait_go_on_waiting() {
    let run = Run::new();
    let three = timeout(HANG, Three::of(&run.address())).await.unwrap();
    let [one, two, last] = &three.peers;
    for kind in Kind::others(three.ids[0]) {
        let [mut mine, mut theirs, mut rest] = [0, 1, 2].map(|index| input(index, 1000));
        let story = async {
            let mut given_up = Box::pin(kind.call_async(one, &mut mine, 3));
            begin(given_up.as_mut()).await;
            // Once it is called.
            three.asks(2).await;
            let mut waits = Box::pin(kind.call_async(two, &mut theirs, 3));
            begin(waits.as_mut()).await;
            drop(given_up);
            // Once it is taken back, and the other one waits.
            three.asks(0).await;
            begin(waits.as_mut()).await;
            assert_eq!(mine, input(0, 1000), "{kind:?}");

            let again = kind.call_async(one, &mut mine, 3);
            let last = kind.call_async(last, &mut rest, 3);
            let (waited, again, last) = tokio::join!(waits, again, last);
            for result in [waited, again, last] {
                result.unwrap();
            }
        };
        timeout(HANG, story).await.unwrap();

        let promised = kind.promised(&three.ids, &inputs(3, 1000));
        assert_eq!([mine, theirs, rest], promised[..], "{kind:?}");
        timeout(HANG, three.go_on()).await.unwrap();
    }
}

/// What was dropped is of another kind than what all call under its tag next.
#[tokio::test]
async fn the_tag_of_what_was_dropped_is_free_for_a_collective_of_another_kind() {
    let run = Run::new();
    let three = timeout(HANG, Three::of(&run.address())).await.unwrap();
    let kinds = Kind::others(three.ids[1]);
    for (dropped, next) in kinds[..3].iter().zip(kinds[1..3].iter().chain(&kinds[..1])) {
        let mut buffers = inputs(3, 100);
        let story = async {
            let mut given_up = Box::pin(dropped.call_async(&three.peers[0], &mut buffers[0], 9));
            begin(given_up.as_mut()).await;
            three.asks(2).await;
            drop(given_up);
            assert!(!pending(&three.peers).await);
            let calls = three.peers.iter().zip(&mut buffers);
            for_all(calls.map(|(peer, buffer)| next.call_async(peer, buffer, 9))).await
        };
        let results = timeout(HANG, story).await.unwrap();

        assert!(
            results.iter().all(Result::is_ok),
            "{dropped:?}, {next:?}: {results:?}"
        );
        assert_eq!(buffers, next.promised(&three.ids, &inputs(3, 100)));
    }
}

/// What becomes of three peers that call the same, if the first gives it up.
struct Dropped {
    ids: [PeerId; 3],
    /// Of the two others.
    results: [Result<(), Error>; 2],
    buffers: [Vec<u64>; 3],
}

impl Dropped {
    /// It is given up when this event has happened so many times, to whichever of them. They go on with another reduce.
    fn at(
        (event, times): (&'static str, usize),
        count: usize,
        kind: impl Fn([PeerId; 3]) -> Kind,
    ) -> Self {
        let run = Run::new();
        let come = Arc::new(Notify::new());
        let (seen, notice) = (AtomicUsize::new(0), Arc::clone(&come));
        let tell = move |other: &str| {
            let before = seen.fetch_add(usize::from(other == event), Ordering::Relaxed);
            if other == event && before + 1 == times {
                notice.notify_one();
            }
        };
        let mut buffers = [0, 1, 2].map(|index| input(index, count));
        let story = async {
            let three = Three::of(&run.address()).await;
            let [one, two, last] = &three.peers;
            let kind = kind(three.ids);
            let [mine, theirs, rest] = &mut buffers;
            let given_up = async {
                tokio::select! {
                    // Before the call is polled, so that nothing happens between the event and the drop.
                    biased;
                    () = come.notified() => {}
                    result = kind.call_async(one, mine, 0) => panic!("{event} {times}: {result:?}"),
                }
            };
            let two = kind.call_async(two, theirs, 0);
            let last = kind.call_async(last, rest, 0);
            let ((), two, last) = tokio::join!(given_up, two, last);
            three.go_on().await;
            (three.ids, [two.map(drop), last.map(drop)])
        };
        let in_time = async { timeout(HANG, story).await.unwrap() };
        let (ids, results) = on_event(tell, || one_thread().block_on(in_time));
        Self {
            ids,
            results,
            buffers,
        }
    }

    /// Everybody's buffer is as it was, and the others are told who gave it up.
    fn is_aborted(&self) -> bool {
        let why = |error: &Error| match error {
            Error::Aborted { cause, .. } => *cause == AbortCause::Cancelled(self.ids[0]),
            _ => false,
        };
        let told = |result: &Result<(), Error>| result.as_ref().is_err_and(why);
        self.results.iter().all(told) && self.buffers == inputs(3, self.buffers[0].len())[..]
    }

    /// The others have the result, and the first has its buffer as it was.
    fn is_committed(&self, kind: impl Fn([PeerId; 3]) -> Kind) -> bool {
        let inputs = inputs(3, self.buffers[0].len());
        let promised = kind(self.ids).promised(&self.ids, &inputs);
        self.results.iter().all(Result::is_ok)
            && self.buffers[0] == inputs[0]
            && self.buffers[1..] == promised[1..]
    }
}

/// A kind, of which the root may be one of three.
type OfKind = fn([PeerId; 3]) -> Kind;

/// The first of three is the root of a broadcast, or the last of the chain, or before that.
const KINDS: [OfKind; 5] = [
    |_| Kind::ReduceScatter,
    |_| Kind::AllGather,
    |[first, ..]| Kind::Broadcast(first),
    |[_, second, _]| Kind::Broadcast(second),
    |[.., third]| Kind::Broadcast(third),
];

/// Of which nothing travels.
const BARRIER: OfKind = |_| Kind::Barrier;

#[test]
fn what_is_dropped_when_it_has_started_is_aborted_for_the_others() {
    for kind in KINDS.into_iter().chain([BARRIER]) {
        let dropped = Dropped::at(("plan_started", 1), 1000, kind);

        assert!(dropped.is_aborted(), "{:?}", dropped.results);
    }
}

#[test]
fn what_is_dropped_when_all_have_done_their_parts_is_committed_for_the_others() {
    for kind in KINDS.into_iter().chain([BARRIER]) {
        let dropped = Dropped::at(("plan_done", 3), 1000, kind);

        assert!(dropped.is_committed(kind), "{:?}", dropped.results);
    }
}

/// Some bytes have moved, or the parts of some are done.
#[test]
fn what_is_dropped_in_the_middle_is_aborted_or_committed_for_both_others() {
    let moments = [
        ("frame_sent", 1),
        ("frame_sent", 4),
        ("frame_sent", 9),
        ("frame_sent", 16),
        ("plan_done", 1),
        ("plan_done", 2),
    ];
    for kind in KINDS {
        let mut aborted = 0;
        for moment in moments {
            let dropped = Dropped::at(moment, 2_000_000, kind);

            let is_aborted = dropped.is_aborted();
            aborted += usize::from(is_aborted);
            assert!(
                is_aborted || dropped.is_committed(kind),
                "{moment:?}: {:?}",
                dropped.results
            );
        }
        assert!(aborted > 1, "hardly any moment was in the middle");
    }
}
