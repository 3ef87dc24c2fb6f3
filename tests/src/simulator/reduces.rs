//! The reduces of one simulated step: all at once, some of them given up and made again.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use pccl::{CollectiveReport, Communicator, Error, Next, Tag};
use rand::RngExt;
use tokio::time::{sleep, timeout};

use super::life::Life;
use crate::churn::numbers::{Number, fill};
use crate::churn::reduces::{Committed, Failed, checked, first_wrong_first, restored};
use crate::churn::talk::Done;
use crate::churn::work::{Elements, Manner, Work};

/// A future among others.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a call is given up.
#[derive(Clone, Copy, Debug)]
enum Whim {
    /// Its future or handle is dropped after a while.
    Drop(Duration),
    /// It has this time limit.
    Limit(Duration),
}

/// Makes all calls at once, and waits for their ends. The reduces come in the order of their tags.
pub(super) async fn reduce_all(
    life: &Life,
    comm: &Communicator,
    work: &[Work],
) -> Result<Vec<Committed>, Failed> {
    let calls = work.iter().map(|work| reduce(life, comm, *work));
    let results = all(calls.collect()).await;
    first_wrong_first(results)
}

fn reduce<'a>(
    life: &'a Life,
    comm: &'a Communicator,
    work: Work,
) -> Boxed<'a, Result<Committed, Failed>> {
    match (work.manner, work.elements) {
        (Manner::Handle, _) => Box::pin(by_handle(life, comm, work)),
        (_, Elements::F32) => Box::pin(by_call::<f32>(life, comm, work)),
        (_, Elements::F64) => Box::pin(without_result(by_call::<f64>(life, comm, work))),
        (_, Elements::I32) => Box::pin(without_result(by_call::<i32>(life, comm, work))),
    }
}

/// Only results of `f32` go into the state.
async fn without_result<T>(
    call: impl Future<Output = Result<(Done, Vec<T>), Failed>>,
) -> Result<Committed, Failed> {
    let (done, _) = call.await?;
    Ok((done, Vec::new()))
}

async fn by_handle(life: &Life, comm: &Communicator, work: Work) -> Result<Committed, Failed> {
    let peer = comm.peer_id().0;
    let mut buffer = contribution::<f32>(&work, peer);
    let mut was_dropped = false;
    loop {
        let whim = whim(life);
        let reduce = match whim {
            Some(Whim::Limit(limit)) => work.reduce().timeout(limit),
            _ => work.reduce(),
        };
        let mut handle = comm.start_all_reduce(buffer, reduce);
        if let Some(Whim::Drop(after)) = whim {
            sleep(after).await;
            if !handle.is_finished() {
                drop(handle);
                life.dropped();
                was_dropped = true;
                buffer = contribution(&work, peer);
                continue;
            }
        }
        match life.due("all_reduce", &mut handle).await? {
            Ok(reduced) => {
                let done = life.checked(&work, &reduced.buffer, &reduced.returned)?;
                if was_dropped {
                    life.redone(&done);
                }
                return Ok((done, reduced.buffer));
            }
            Err(failed) => {
                life.restored(&work, &failed.buffer, peer, &failed.error)?;
                call_again(life, &work, failed.error)?;
                buffer = failed.buffer;
            }
        }
    }
}

async fn by_call<T: Number>(
    life: &Life,
    comm: &Communicator,
    work: Work,
) -> Result<(Done, Vec<T>), Failed> {
    let peer = comm.peer_id().0;
    let mut buffer = contribution::<T>(&work, peer);
    let mut result = vec![T::whole(0); buffer.len()];
    let mut was_dropped = false;
    loop {
        let whim = whim(life);
        let reduce = match whim {
            Some(Whim::Limit(limit)) => work.reduce().timeout(limit),
            _ => work.reduce(),
        };
        let calling = async {
            match work.manner {
                Manner::Into => {
                    comm.all_reduce_into_async(&buffer, &mut result, reduce)
                        .await
                }
                Manner::InPlace | Manner::Handle => {
                    comm.all_reduce_async(&mut buffer, reduce).await
                }
            }
        };
        let called = match whim {
            Some(Whim::Drop(after)) => timeout(after, calling).await.ok(),
            _ => Some(life.due("all_reduce", calling).await?),
        };
        match called {
            Some(Ok(report)) => {
                let result = match work.manner {
                    Manner::Into => result,
                    Manner::InPlace | Manner::Handle => buffer,
                };
                let done = life.checked(&work, &result, &report)?;
                if was_dropped {
                    life.redone(&done);
                }
                return Ok((done, result));
            }
            Some(Err(error)) => {
                life.restored(&work, &buffer, peer, &error)?;
                call_again(life, &work, error)?;
            }
            None => {
                life.dropped();
                was_dropped = true;
                let tag = Tag(work.key.tag);
                life.restored(&work, &buffer, peer, &Error::GivenUp { tag })?;
            }
        }
    }
}

impl Life {
    /// Checks a result.
    pub(super) fn checked<T: Number>(
        &self,
        work: &Work,
        result: &[T],
        report: &CollectiveReport,
    ) -> Result<Done, Failed> {
        checked(work, result, report)
    }

    /// Checks that a call that failed has left its buffer as it was.
    pub(super) fn restored<T: Number>(
        &self,
        work: &Work,
        buffer: &[T],
        peer: u64,
        error: &Error,
    ) -> Result<(), Failed> {
        restored(work, buffer, peer, error)
    }
}

/// Goes on if the same call is to be made again.
fn call_again(life: &Life, work: &Work, error: Error) -> Result<(), Failed> {
    life.tell(&format!("tag {}: {error}", work.key.tag));
    match error.next() {
        Next::CallAgain => {
            life.world.failed(life.number, &error);
            Ok(())
        }
        _ => Err(Failed::Error(error)),
    }
}

fn contribution<T: Number>(work: &Work, peer: u64) -> Vec<T> {
    let mut buffer = vec![T::whole(0); work.length];
    fill(&mut buffer, work.key, peer);
    buffer
}

/// Whether the next call is given up, and how.
fn whim(life: &Life) -> Option<Whim> {
    let one_in = life.world.plan.script.gives_up;
    let mut random = life.random();
    if one_in == 0 || life.world.is_over() || !random.random_ratio(1, one_in) {
        return None;
    }
    let after = Duration::from_millis(random.random_range(0..300));
    Some(match random.random() {
        true => Whim::Drop(after),
        false => Whim::Limit(after.max(Duration::from_millis(1))),
    })
}

/// The outputs of all, in their order.
async fn all<T>(futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut running: Vec<Option<Boxed<'_, T>>> = futures.into_iter().map(Some).collect();
    let mut outputs: Vec<Option<T>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (slot, output) in running.iter_mut().zip(&mut outputs) {
            let Some(future) = slot else {
                continue;
            };
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *output = Some(value);
                *slot = None;
            }
        }
        match running.iter().all(Option::is_none) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
