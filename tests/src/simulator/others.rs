//! The collectives of a simulated step that reduce nothing in place: each is checked at once.

use pccl::{Broadcast, Communicator, Error, Gather, GatherV, Next, PeerId, Reduce};

use super::life::Life;
use crate::churn::numbers::{Key, Op, fill, is_contribution, verify};
use crate::churn::reduces::Failed;

/// Tags that no reduce of a step has.
const TAGS: u64 = 1000;

/// Elements of each buffer.
const ELEMENTS: usize = 300;

/// A barrier, a broadcast, a gathering of contributions of different lengths, and a reduce in two halves.
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
        match again(life.due("barrier", comm.barrier_async()).await?)? {
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
    halves(life, comm, key(TAGS + 2)).await
}

async fn broadcast(life: &Life, comm: &Communicator, key: Key, root: PeerId) -> Result<(), Failed> {
    let mut buffer = vec![0.0_f32; ELEMENTS];
    fill(&mut buffer, key, comm.peer_id().0);
    let how = Broadcast::from(root).tag(key.tag);
    while again(
        life.due("broadcast", comm.broadcast_async(&mut buffer, how))
            .await?,
    )?
    .is_none()
    {
        right(
            life,
            is_contribution(&buffer, key, comm.peer_id().0),
            "a broadcast that failed",
        )?;
    }
    right(life, is_contribution(&buffer, key, root.0), "a broadcast")
}

async fn gather(life: &Life, comm: &Communicator, key: Key) -> Result<(), Failed> {
    let own = comm.peer_id().0;
    let mut mine = vec![0.0_f32; length_of(own)];
    fill(&mut mine, key, own);
    let mut all = Vec::new();
    let how = GatherV::default().tag(key.tag);
    let gathered = loop {
        let called = comm.all_gather_v_async(&mine, &mut all, how);
        if let Some(gathered) = again(life.due("all_gather_v", called).await?)? {
            break gathered;
        }
    };
    let is_right = gathered.parts().all(|(peer, range)| {
        range.len() == length_of(peer.0)
            && all
                .get(range)
                .is_some_and(|part| is_contribution(part, key, peer.0))
    });
    right(life, is_right, "an all_gather_v")
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
        let called = comm.reduce_scatter_async(&mut buffer, how);
        if let Some(scattered) = again(life.due("reduce_scatter", called).await?)? {
            break scattered;
        }
        right(
            life,
            is_contribution(&buffer, key, comm.peer_id().0),
            "a reduce_scatter that failed",
        )?;
    };
    let how = Gather::of(scattered.shard.clone()).tag(key.tag + 1);
    while again(
        life.due(
            "all_gather",
            comm.all_gather_async(&mut buffer, how.clone()),
        )
        .await?,
    )?
    .is_none()
    {}
    let members: Vec<u64> = scattered
        .report
        .contributors
        .iter()
        .map(|peer| peer.0)
        .collect();
    right(
        life,
        verify(&buffer, key, &members, Op::Sum).is_ok(),
        "a reduce in two halves",
    )
}

fn right(life: &Life, is_right: bool, what: &str) -> Result<(), Failed> {
    match is_right || life.world.plan.flips_bits() {
        true => Ok(()),
        false => Err(Failed::Wrong(format!(
            "{what} has left other numbers than it must"
        ))),
    }
}

/// `None`: the same call is to be made again.
fn again<T>(called: Result<T, Error>) -> Result<Option<T>, Failed> {
    match called {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.next() == Next::CallAgain => Ok(None),
        Err(error) => Err(error.into()),
    }
}
