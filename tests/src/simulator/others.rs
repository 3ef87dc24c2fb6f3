//! The collectives of a simulated step that reduce nothing in place: each is checked at once.

use pccl::{
    Broadcast, CollectiveHandle, CollectiveReport, Communicator, ElementType, Error, Gather,
    GatherV, GatheredV, Next, PeerId, Quantization, Reduce, ReduceItem, Scattered,
};

use super::life::Life;
use crate::churn::numbers::{
    Key, LARGEST, Op, digest, fill, is_contribution, verify, verify_within,
};
use crate::churn::reduces::Failed;

/// Tags that no reduce of a step has.
const TAGS: u64 = 1000;

/// Elements of each buffer.
const ELEMENTS: usize = 300;

/// Buffers of a list.
const LISTED: u64 = 3;

/// A barrier, a broadcast, a gathering of contributions of different lengths, a reduce in two halves, and a list.
pub(super) async fn call_all(
    life: &Life,
    comm: &Communicator,
    seed: u64,
    revision: u64,
) -> Result<(), Failed> {
    let key = |tag| Key {
        seed,
        revision,
        tag,
    };
    let members = loop {
        match again(life, life.due("barrier", comm.barrier_async()).await?)? {
            Some(report) => break report.contributors,
            None => continue,
        }
    };
    let root = members
        .iter()
        .copied()
        .min()
        .unwrap_or_else(|| comm.peer_id());
    broadcast(life, comm, key(TAGS), root).await?;
    gather(life, comm, key(TAGS + 1)).await?;
    halves(life, comm, key(TAGS + 2)).await?;
    list(life, comm, |nth| key(TAGS + 4 + nth)).await
}

async fn broadcast(life: &Life, comm: &Communicator, key: Key, root: PeerId) -> Result<(), Failed> {
    let mut buffer = vec![0.0_f32; ELEMENTS];
    fill(&mut buffer, key, comm.peer_id().0);
    let how = Broadcast::from(root)
        .tag(key.tag)
        .quantize(quantization(key));
    let bound = how.error_bound(ElementType::F32, LARGEST.into());
    loop {
        let result;
        (buffer, result) = life
            .due("broadcast", spread(comm, buffer, (how, key)))
            .await?;
        if again(life, result)?.is_some() {
            right(is_near(&buffer, (key, &[root.0]), bound), "a broadcast")?;
            return are_alike(life, comm, &buffer, key).await;
        }
        right(
            is_contribution(&buffer, key, comm.peer_id().0),
            "a broadcast that failed",
        )?;
    }
}

/// How the numbers of a step travel that are only copied.
const fn quantization(key: Key) -> Quantization {
    match key.revision % 3 {
        2 => Quantization::MinMax {
            to: ElementType::U8,
        },
        _ => Quantization::None,
    }
}

/// Whether these are the sums of what the members contribute, or as near to them as the bound says, if there is one.
fn is_near(buffer: &[f32], (key, members): (Key, &[u64]), bound: Option<f64>) -> bool {
    let verified = match bound {
        None => verify(buffer, key, members, Op::Sum),
        Some(bound) => verify_within(buffer, key, members, Op::Sum, bound),
    };
    verified.is_ok()
}

/// Whether the collectives of a step are made by handles.
const fn by_handle(key: Key) -> bool {
    key.revision % 2 == 1
}

/// The buffers of a handle, and how it has ended.
async fn ended<B, R>(handle: CollectiveHandle<B, R>) -> (B, Result<R, Error>) {
    match handle.await {
        Ok(done) => (done.buffer, Ok(done.returned)),
        Err(failed) => (failed.buffer, Err(failed.error)),
    }
}

async fn spread(
    comm: &Communicator,
    mut buffer: Vec<f32>,
    (how, key): (Broadcast, Key),
) -> (Vec<f32>, Result<CollectiveReport, Error>) {
    if by_handle(key) {
        return ended(comm.start_broadcast(buffer, how)).await;
    }
    let result = comm.broadcast_async(&mut buffer, how).await;
    (buffer, result)
}

async fn gather(life: &Life, comm: &Communicator, key: Key) -> Result<(), Failed> {
    let own = comm.peer_id().0;
    let mut mine = vec![0.0_f32; length_of(own)];
    fill(&mut mine, key, own);
    let mut all = Vec::new();
    let how = GatherV::default().tag(key.tag);
    let gathered = loop {
        let called = collect(comm, (mine, all), (how, key));
        let result;
        ((mine, all), result) = life.due("all_gather_v", called).await?;
        if let Some(gathered) = again(life, result)? {
            break gathered;
        }
        let is_as_before = is_contribution(&mine, key, own) && all.is_empty();
        right(is_as_before, "an all_gather_v that failed")?;
    };
    let is_right = gathered.parts().all(|(peer, range)| {
        range.len() == length_of(peer.0)
            && all
                .get(range)
                .is_some_and(|part| is_contribution(part, key, peer.0))
    });
    right(is_right, "an all_gather_v")
}

async fn collect(
    comm: &Communicator,
    (mine, mut all): (Vec<f32>, Vec<f32>),
    (how, key): (GatherV, Key),
) -> ((Vec<f32>, Vec<f32>), Result<GatheredV, Error>) {
    if by_handle(key) {
        return ended(comm.start_all_gather_v(mine, all, how)).await;
    }
    let result = comm.all_gather_v_async(&mine, &mut all, how).await;
    ((mine, all), result)
}

/// Peers contribute different numbers of elements, one of them none.
const fn length_of(peer: u64) -> usize {
    (peer % 4) as usize * 70
}

async fn halves(life: &Life, comm: &Communicator, key: Key) -> Result<(), Failed> {
    let mut buffer = vec![0.0_f32; ELEMENTS];
    fill(&mut buffer, key, comm.peer_id().0);
    let how = Reduce::sum().tag(key.tag);
    let scattered = loop {
        let called = scatter(comm, buffer, (how, key));
        let result;
        (buffer, result) = life.due("reduce_scatter", called).await?;
        if let Some(scattered) = again(life, result)? {
            break scattered;
        }
        right(
            is_contribution(&buffer, key, comm.peer_id().0),
            "a reduce_scatter that failed",
        )?;
    };
    let how = Gather::of(scattered.shard.clone()).tag(key.tag + 1);
    let how = how.quantize(quantization(key));
    let before = buffer.clone();
    loop {
        let called = put_together(comm, buffer, (how.clone(), key));
        let result;
        (buffer, result) = life.due("all_gather", called).await?;
        if again(life, result)?.is_some() {
            break;
        }
        right(buffer == before, "an all_gather that failed")?;
    }
    let members: Vec<u64> = scattered
        .report
        .contributors
        .iter()
        .map(|peer| peer.0)
        .collect();
    let largest = f64::from(LARGEST) * members.len() as f64;
    let bound = how.error_bound(ElementType::F32, largest);
    let is_right = is_near(&buffer, (key, &members), bound);
    right(is_right, "a reduce in two halves")?;
    are_alike(life, comm, &buffer, key).await
}

/// What was quantized may differ from the exact numbers, but not between the peers: the greatest digest is that of all,
/// and so is the least.
async fn are_alike(
    life: &Life,
    comm: &Communicator,
    buffer: &[f32],
    key: Key,
) -> Result<(), Failed> {
    if quantization(key) == Quantization::None {
        return Ok(());
    }
    let own = digest(buffer);
    let mut greatest = [own, !own];
    loop {
        let called = comm.all_reduce_async(&mut greatest, Reduce::max().tag(key.tag));
        if again(life, life.due("all_reduce", called).await?)?.is_some() {
            return right(greatest == [own, !own], "one of several peers");
        }
    }
}

async fn scatter(
    comm: &Communicator,
    mut buffer: Vec<f32>,
    (how, key): (Reduce, Key),
) -> (Vec<f32>, Result<Scattered, Error>) {
    if by_handle(key) {
        return ended(comm.start_reduce_scatter(buffer, how)).await;
    }
    let result = comm.reduce_scatter_async(&mut buffer, how).await;
    (buffer, result)
}

async fn put_together(
    comm: &Communicator,
    mut buffer: Vec<f32>,
    (how, key): (Gather, Key),
) -> (Vec<f32>, Result<CollectiveReport, Error>) {
    if by_handle(key) {
        return ended(comm.start_all_gather(buffer, how)).await;
    }
    let result = comm.all_gather_async(&mut buffer, how).await;
    (buffer, result)
}

/// Several buffers at once, which the library reduces again until all are done.
async fn list(life: &Life, comm: &Communicator, key: impl Fn(u64) -> Key) -> Result<(), Failed> {
    let own = comm.peer_id().0;
    let mut buffers = [(); LISTED as usize].map(|()| vec![0.0_f32; ELEMENTS]);
    let mut items = Vec::new();
    for (nth, buffer) in (0..).zip(&mut buffers) {
        fill(buffer, key(nth), own);
        items.push(ReduceItem::new(buffer, Reduce::sum().tag(key(nth).tag)));
    }
    let called = comm.all_reduce_many_with_retry_async(&mut items, 2);
    let called = life.due("all_reduce_many_with_retry", called).await?;
    let (reports, failed): (Vec<Option<CollectiveReport>>, _) = match called {
        Ok(reports) => (reports.into_iter().map(Some).collect(), None),
        Err(failed) => (failed.reports.clone(), Some(failed)),
    };
    let is_right = |(nth, report): (u64, &Option<CollectiveReport>)| {
        let buffer = buffers.get(nth as usize).map_or(&[][..], Vec::as_slice);
        match report {
            Some(report) => {
                let members: Vec<u64> = report.contributors.iter().map(|peer| peer.0).collect();
                verify(buffer, key(nth), &members, Op::Sum).is_ok()
            }
            None => is_contribution(buffer, key(nth), own),
        }
    };
    let are_right = reports.len() == buffers.len() && (0..).zip(&reports).all(is_right);
    right(are_right, "a list of reduces")?;
    let retries: u32 = reports.iter().flatten().map(|report| report.retries).sum();
    if retries > 0 {
        life.world.repeated(life.number);
    }
    failed.map_or(Ok(()), |failed| Err(Error::from(failed).into()))
}

fn right(is_right: bool, what: &str) -> Result<(), Failed> {
    match is_right {
        true => Ok(()),
        false => Err(Failed::Wrong(format!(
            "{what} has left other numbers than it must"
        ))),
    }
}

/// `None`: the same call is to be made again.
fn again<T>(life: &Life, called: Result<T, Error>) -> Result<Option<T>, Failed> {
    match called {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.next() == Next::CallAgain => {
            life.world.failed(life.number, &error);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
