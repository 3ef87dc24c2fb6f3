//! A reduce of a scripted peer by the other collectives: it is scattered, gathered, and told by one of the peers.
//!
//! What each of them leaves behind if it fails is compared with what was there before.

use std::collections::BTreeSet;

use pccl::{Broadcast, CollectiveReport, Communicator, Error, Gather, PeerId, Reduce, Scattered};

/// Why there is no result.
pub(crate) enum Failed {
    /// A call has failed, and the buffer was as before it. All peers begin anew with what they contribute.
    Error(Error),
    /// The library has broken a promise.
    Wrong(String),
}

/// Makes a call, and compares the buffer if that fails.
fn restored<T>(
    buffer: &mut [f32],
    call: impl FnOnce(&mut [f32]) -> Result<T, Error>,
) -> Result<T, Failed> {
    let before = buffer.to_vec();
    call(buffer).map_err(|error| match buffer == before {
        true => Failed::Error(error),
        false => Failed::Wrong(format!("a buffer is not as it was: {error}")),
    })
}

/// Reduces the buffer, and calls `note` with each failure that is made up for.
pub(crate) fn reduce(
    comm: &Communicator,
    buffer: &mut [f32],
    mut note: impl FnMut(&Error),
) -> Result<CollectiveReport, Failed> {
    let Scattered { shard, report } =
        restored(buffer, |buffer| comm.reduce_scatter(buffer, Reduce::sum()))?;
    let gathered = restored(buffer, |buffer| comm.all_gather(buffer, Gather::of(shard)))?;
    // The ring may be another one.
    let who = |report: &CollectiveReport| -> BTreeSet<PeerId> {
        report.contributors.iter().copied().collect()
    };
    if who(&gathered) != who(&report) {
        let what = format!(
            "{:?} have gathered what {:?} have reduced",
            gathered, report
        );
        return Err(Failed::Wrong(what));
    }
    let result = buffer.to_vec();
    loop {
        match tell(comm, buffer, &result) {
            Ok(()) => return Ok(gathered),
            Err(Failed::Error(error @ Error::NoSuchRoot { .. })) => note(&error),
            Err(Failed::Error(error)) if error.is_retryable() => note(&error),
            Err(failed) => return Err(failed),
        }
    }
}

/// The lowest of those who are here tells the others.
fn tell(comm: &Communicator, buffer: &mut [f32], result: &[f32]) -> Result<(), Failed> {
    let present = comm.barrier().map_err(Failed::Error)?.contributors;
    let root = present.into_iter().min();
    let root = root.ok_or_else(|| Failed::Wrong("nobody has passed a barrier".into()))?;
    match root == comm.peer_id() {
        true => buffer.copy_from_slice(result),
        false => buffer.fill(0.0),
    }
    restored(buffer, |buffer| {
        comm.broadcast(buffer, Broadcast::from(root))
    })?;
    Ok(())
}
