//! The reduces of one step: several at once, made in different manners, repeated where that is the advice, and
//! checked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pccl::{CollectiveHandle, CollectiveReport, Communicator, Error, Next, Quantization};

use super::numbers::{LARGEST, Number, digest, fill, is_contribution, verify, verify_within};
use super::talk::Done;
use super::work::{Elements, Manner, Work};

/// Why a step has no result.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A call failed, and its buffer is as it was.
    Error(Error),
    /// The library has broken a promise.
    Wrong(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A reduce that was committed, with its result if that is of `f32`.
pub(crate) type Committed = (Done, Vec<f32>);

/// How often calls were aborted and made again.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) aborts: AtomicU64,
    pub(super) retries: AtomicU64,
}

/// A handle that runs.
pub(super) struct Started {
    work: Work,
    handle: CollectiveHandle<Vec<f32>>,
}

/// Makes all calls at once, and waits for their ends. The reduces come in the order of their tags.
pub(super) fn reduce_all(
    comm: &Communicator,
    work: &[Work],
    counts: &Counts,
) -> Result<Vec<Committed>, Failed> {
    let handles = start_handles(comm, work);
    let results = thread::scope(|scope| {
        let others = work.iter().filter(|work| work.manner != Manner::Handle);
        let others: Vec<_> = others
            .map(|work| scope.spawn(|| reduce_by_call(comm, work, counts)))
            .collect();
        let mut results: Vec<_> = handles
            .into_iter()
            .map(|started| wait(comm, started, counts))
            .collect();
        for other in others {
            let joined = other.join();
            results.push(joined.unwrap_or_else(|_| Err(Failed::Wrong("a call panicked".into()))));
        }
        results
    });
    first_wrong_first(results)
}

/// What was found wrong must not be hidden by an error beside it.
pub(crate) fn first_wrong_first(
    results: Vec<Result<Committed, Failed>>,
) -> Result<Vec<Committed>, Failed> {
    let mut committed = Vec::new();
    let mut failed = None;
    for result in results {
        match result {
            Ok(done) => committed.push(done),
            Err(wrong @ Failed::Wrong(_)) => return Err(wrong),
            // The first error says what to do, unless another one ends the connection.
            Err(Failed::Error(error)) => match &failed {
                Some(Error::Conflict(_)) | None => failed = Some(error),
                Some(_) if error.is_final() => failed = Some(error),
                Some(_) => {}
            },
        }
    }
    committed.sort_by_key(|(done, _)| done.tag);
    match failed {
        None => Ok(committed),
        Some(error) => Err(Failed::Error(error)),
    }
}

/// Starts those reduces that are made by handles.
pub(super) fn start_handles(comm: &Communicator, work: &[Work]) -> Vec<Started> {
    let handles = work.iter().filter(|work| work.manner == Manner::Handle);
    let start = |work: &Work| {
        let mut buffer = vec![0.0; work.length];
        fill::<f32>(&mut buffer, work.key, comm.peer_id().0);
        Started {
            work: *work,
            handle: comm.start_all_reduce(buffer, work.reduce()),
        }
    };
    handles.map(start).collect()
}

/// Leaves the run while the handles run. Each of them is committed, or gives its buffer back as it was.
pub(super) fn leave_midway(comm: Communicator, handles: Vec<Started>) -> Result<(), Failed> {
    let peer = comm.peer_id().0;
    comm.shutdown();
    for Started { work, handle } in handles {
        match handle.wait() {
            Ok(reduced) => drop(checked(&work, &reduced.buffer, &reduced.returned)?),
            Err(failed) => restored(&work, &failed.buffer, peer, &failed.error)?,
        }
    }
    Ok(())
}

fn wait(comm: &Communicator, started: Started, counts: &Counts) -> Result<Committed, Failed> {
    let Started { work, mut handle } = started;
    loop {
        let failed = match handle.wait() {
            Ok(reduced) => {
                let done = checked(&work, &reduced.buffer, &reduced.returned)?;
                return Ok((done, reduced.buffer));
            }
            Err(failed) => failed,
        };
        restored(&work, &failed.buffer, comm.peer_id().0, &failed.error)?;
        call_again(failed.error, counts)?;
        handle = comm.start_all_reduce(failed.buffer, work.reduce());
    }
}

fn reduce_by_call(comm: &Communicator, work: &Work, counts: &Counts) -> Result<Committed, Failed> {
    match work.elements {
        Elements::F32 => reduce_numbers::<f32>(comm, work, counts),
        Elements::F64 => {
            let (done, _) = reduce_numbers::<f64>(comm, work, counts)?;
            Ok((done, Vec::new()))
        }
        Elements::I32 => {
            let (done, _) = reduce_numbers::<i32>(comm, work, counts)?;
            Ok((done, Vec::new()))
        }
    }
}

fn reduce_numbers<T: Number>(
    comm: &Communicator,
    work: &Work,
    counts: &Counts,
) -> Result<(Done, Vec<T>), Failed> {
    let peer = comm.peer_id().0;
    let mut buffer = vec![T::whole(0); work.length];
    fill(&mut buffer, work.key, peer);
    let mut result = match work.manner {
        Manner::Into => vec![T::whole(0); work.length],
        Manner::InPlace | Manner::Handle => Vec::new(),
    };
    loop {
        let called = match work.manner {
            Manner::Into => comm.all_reduce_into(&buffer, &mut result, work.reduce()),
            Manner::InPlace | Manner::Handle => comm.all_reduce(&mut buffer, work.reduce()),
        };
        match called {
            Ok(report) => {
                let result = match work.manner {
                    Manner::Into => result,
                    Manner::InPlace | Manner::Handle => buffer,
                };
                return Ok((checked(work, &result, &report)?, result));
            }
            Err(error) => {
                restored(work, &buffer, peer, &error)?;
                call_again(error, counts)?;
            }
        }
    }
}

/// Goes on if the same call is to be made again.
fn call_again(error: Error, counts: &Counts) -> Result<(), Failed> {
    if matches!(error, Error::Aborted { .. }) {
        counts.aborts.fetch_add(1, Ordering::Relaxed);
    }
    match error.next() {
        Next::CallAgain => {
            counts.retries.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(Failed::Error(error)),
    }
}

/// Checks that a call that failed has left its buffer as it was.
pub(crate) fn restored<T: Number>(
    work: &Work,
    buffer: &[T],
    peer: u64,
    error: &Error,
) -> Result<(), Failed> {
    if buffer.len() == work.length && is_contribution(buffer, work.key, peer) {
        return Ok(());
    }
    Err(Failed::Wrong(format!(
        "a buffer of {} elements is not as it was before {work:?} failed: {error}",
        buffer.len()
    )))
}

/// Checks a result against what its contributors have given.
pub(crate) fn checked<T: Number>(
    work: &Work,
    result: &[T],
    report: &CollectiveReport,
) -> Result<Done, Failed> {
    let contributors: Vec<u64> = report.contributors.iter().map(|peer| peer.0).collect();
    let verified = if work.quantization == Quantization::None {
        verify(result, work.key, &contributors, work.op)
    } else {
        let bound = work
            .reduce()
            .error_bound(T::TYPE, contributors.len(), LARGEST.into());
        // Without a bound nothing would be near enough.
        let bound = bound.unwrap_or(-1.0);
        verify_within(result, work.key, &contributors, work.op, bound)
    };
    verified.map_err(|wrong| {
        Failed::Wrong(format!(
            "the result of {work:?} by {} for {contributors:?}: {wrong}",
            report.algorithm
        ))
    })?;
    Ok(Done {
        tag: work.key.tag,
        contributors,
        digest: digest(result),
    })
}
