//! The collectives as values, so that a test can do the same with each of them, and what each of them promises.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use pccl::{
    Broadcast, CollectiveHandle, CollectiveReport, Communicator, Element, Error, Gather, PeerId,
    Reduce,
};

/// A collective on a buffer, and the root of those that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast(PeerId),
    Barrier,
}

/// The tag of a barrier.
pub(crate) const BARRIER: u64 = u64::MAX;

impl Kind {
    /// All but the all-reduce.
    pub(crate) const fn others(root: PeerId) -> [Self; 4] {
        let broadcast = Self::Broadcast(root);
        [
            Self::ReduceScatter,
            Self::AllGather,
            broadcast,
            Self::Barrier,
        ]
    }

    pub(crate) const fn all(root: PeerId) -> [Self; 5] {
        let [scatter, gather, broadcast, barrier] = Self::others(root);
        [Self::AllReduce, scatter, gather, broadcast, barrier]
    }

    /// Makes the call, under this tag unless it is a barrier. Sums are made where something is reduced, and the
    /// own shard is laid out now.
    pub(crate) fn call<T: Element>(
        self,
        peer: &Communicator,
        buffer: &mut [T],
        tag: u64,
    ) -> Result<CollectiveReport, Error> {
        let shard = peer.shard(buffer.len());
        match self {
            Self::AllReduce => peer.all_reduce(buffer, Reduce::sum().tag(tag)),
            Self::ReduceScatter => {
                let scattered = peer.reduce_scatter(buffer, Reduce::sum().tag(tag));
                scattered.map(|scattered| scattered.report)
            }
            Self::AllGather => peer.all_gather(buffer, Gather::of(shard).tag(tag)),
            Self::Broadcast(root) => peer.broadcast(buffer, Broadcast::from(root).tag(tag)),
            Self::Barrier => peer.barrier(),
        }
    }

    /// The same as a future.
    pub(crate) async fn call_async<T: Element>(
        self,
        peer: &Communicator,
        buffer: &mut [T],
        tag: u64,
    ) -> Result<CollectiveReport, Error> {
        let shard = peer.shard(buffer.len());
        match self {
            Self::AllReduce => {
                let reduce = Reduce::sum().tag(tag);
                peer.all_reduce_async(buffer, reduce).await
            }
            Self::ReduceScatter => {
                let reduce = Reduce::sum().tag(tag);
                let scattered = peer.reduce_scatter_async(buffer, reduce).await;
                scattered.map(|scattered| scattered.report)
            }
            Self::AllGather => {
                let gather = Gather::of(shard).tag(tag);
                peer.all_gather_async(buffer, gather).await
            }
            Self::Broadcast(root) => {
                let broadcast = Broadcast::from(root).tag(tag);
                peer.broadcast_async(buffer, broadcast).await
            }
            Self::Barrier => peer.barrier_async().await,
        }
    }

    /// The same in the background: its buffer comes back with its end.
    pub(crate) fn start<T: Element>(
        self,
        peer: &Communicator,
        buffer: Vec<T>,
        tag: u64,
    ) -> Started<T> {
        let shard = peer.shard(buffer.len());
        let reduce = Reduce::sum().tag(tag);
        match self {
            Self::AllReduce => Box::pin(ended(peer.start_all_reduce(buffer, reduce))),
            Self::ReduceScatter => {
                let handle = peer.start_reduce_scatter(buffer, reduce);
                Box::pin(async {
                    let (buffer, result) = ended(handle).await;
                    (buffer, result.map(|scattered| scattered.report))
                })
            }
            Self::AllGather => {
                let gather = Gather::of(shard).tag(tag);
                Box::pin(ended(peer.start_all_gather(buffer, gather)))
            }
            Self::Broadcast(root) => {
                let broadcast = Broadcast::from(root).tag(tag);
                Box::pin(ended(peer.start_broadcast(buffer, broadcast)))
            }
            Self::Barrier => {
                let handle = peer.start_barrier();
                Box::pin(async { (buffer, ended(handle).await.1) })
            }
        }
    }

    /// Which part of an all-reduce's result, and which of the root's buffer or of others' shards, each peer ends with,
    /// where peer `i` contributes `inputs[i]` and its id is `ids[i]`.
    pub(crate) fn promised(self, ids: &[PeerId], inputs: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let count = inputs[0].len();
        let sum = |element: usize| {
            let contributions = inputs.iter().map(|input| input[element]);
            contributions.fold(0, u64::wrapping_add)
        };
        let shards = shards(ids, count);
        let ends_with = |index: usize| {
            let mut ends = inputs[index].clone();
            match self {
                Self::AllReduce => {
                    (0..count).for_each(|element| ends[element] = sum(element));
                }
                Self::ReduceScatter => {
                    let own = shards[index].clone();
                    own.for_each(|element| ends[element] = sum(element));
                }
                Self::AllGather => {
                    for (shard, input) in shards.iter().zip(inputs) {
                        ends[shard.clone()].copy_from_slice(&input[shard.clone()]);
                    }
                }
                Self::Broadcast(root) => {
                    let root = ids.iter().position(|id| *id == root).unwrap();
                    ends.clone_from(&inputs[root]);
                }
                Self::Barrier => {}
            }
            ends
        };
        (0..inputs.len()).map(ends_with).collect()
    }
}

/// A collective in the background: its buffer, and how it has ended.
pub(crate) type Started<T> =
    Pin<Box<dyn Future<Output = (Vec<T>, Result<CollectiveReport, Error>)> + Send>>;

/// The buffer of a handle, and how it has ended.
pub(crate) async fn ended<B, R>(handle: CollectiveHandle<B, R>) -> (B, Result<R, Error>) {
    match handle.await {
        Ok(done) => (done.buffer, Ok(done.returned)),
        Err(failed) => (failed.buffer, Err(failed.error)),
    }
}

/// Whose elements are which: as many parts as peers, in the order of their ids, the first ones longer by one.
pub(crate) fn shards(ids: &[PeerId], count: usize) -> Vec<Range<usize>> {
    let world = ids.len();
    let shard = |id: &PeerId| {
        let place = ids.iter().filter(|other| *other < id).count();
        let longer = |part: usize| part.min(count % world);
        let start = |part: usize| part * (count / world) + longer(part);
        start(place)..start(place + 1)
    };
    ids.iter().map(shard).collect()
}

/// A buffer whose elements tell of which peer and place they are.
pub(crate) fn input(index: usize, count: usize) -> Vec<u64> {
    let element = |element: usize| (index as u64 + 1) << 40 | element as u64;
    (0..count).map(element).collect()
}

/// One for each of so many peers.
pub(crate) fn inputs(world: usize, count: usize) -> Vec<Vec<u64>> {
    (0..world).map(|index| input(index, count)).collect()
}

/// A runtime that one thread drives.
pub(crate) fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Polls all of them until each has ended.
pub(crate) async fn for_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        match outputs.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Begins a call, which cannot have ended yet.
pub(crate) async fn begin<F: Future>(mut call: Pin<&mut F>) {
    poll_fn(|cx| {
        assert!(call.as_mut().poll(cx).is_pending(), "it is over already");
        Poll::Ready(())
    })
    .await;
}
