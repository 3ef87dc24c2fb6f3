//! Reducing several buffers until each of them is done.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use pccl_core::element::{CollectiveKind, ElementType};
use pccl_core::wire::COLLECTIVES_MAX;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::reduce::{CollectiveReport, Reduce};
use crate::suspects::longer;
use crate::together::Together;

/// A buffer and what is to be reduced into it, for
/// [`all_reduce_many_with_retry`](crate::Communicator::all_reduce_many_with_retry).
#[derive(Debug)]
pub struct ReduceItem<'a> {
    data: &'a mut [u8],
    element: ElementType,
    count: usize,
    reduce: Reduce,
}

impl<'a> ReduceItem<'a> {
    /// A buffer that is replaced by the result. Each item of a list needs a tag of its own.
    pub fn new<T: Element>(buffer: &'a mut [T], reduce: Reduce) -> Self {
        Self {
            element: T::TYPE,
            count: buffer.len(),
            data: bytes_of_mut(buffer),
            reduce,
        }
    }
}

/// Not every item could be reduced. The buffers of those without a report are as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyFailed {
    /// By item: what was done, `None` where nothing was.
    pub reports: Vec<Option<CollectiveReport>>,
    /// The items that failed and why, in rising order; at least one. Items that have neither a
    /// report nor an error were not begun.
    pub errors: Vec<(usize, Error)>,
}

impl fmt::Display for ManyFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.reports.iter().flatten().count();
        write!(f, "{done} of {} items were reduced", self.reports.len())?;
        match self.errors.first() {
            Some((item, error)) => write!(f, "; item {item}: {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ManyFailed {}

impl From<ManyFailed> for Error {
    /// The first item's error.
    fn from(failed: ManyFailed) -> Self {
        let first = failed.errors.into_iter().next();
        first.map_or(Self::RuntimeEnded, |(_, error)| error)
    }
}

/// Reduces the items, `max_in_flight` at a time and in their order. Never more than may be in flight at
/// the master: an item that is repeated would have to wait behind those that begin after it, at each
/// peer behind others.
pub(crate) async fn reduce_all(
    calls: &Calls,
    items: &mut [ReduceItem<'_>],
    max_in_flight: usize,
) -> Result<Vec<CollectiveReport>, ManyFailed> {
    let mut results: Vec<Option<Result<CollectiveReport, Error>>> = vec![None; items.len()];
    if let Some((item, error)) = objection(items) {
        if let Some(result) = results.get_mut(item) {
            *result = Some(Err(error));
        }
        return verdict(results);
    }
    let max_in_flight = max_in_flight.clamp(1, COLLECTIVES_MAX);
    let giving_up = AtomicBool::new(false);
    let mut running = Together::new();
    let mut waiting = items.iter_mut().enumerate();
    loop {
        while running.len() < max_in_flight && !giving_up.load(Ordering::Relaxed) {
            let Some((index, item)) = waiting.next() else {
                break;
            };
            let giving_up = &giving_up;
            running.push(async move { (index, reduce_until_done(calls, item, giving_up).await) });
        }
        let Some((index, result)) = running.next().await else {
            break;
        };
        if let Some(slot) = results.get_mut(index) {
            *slot = Some(result);
        }
    }
    drop(running);
    verdict(results)
}

/// What makes the list impossible, before anything is sent.
fn objection(items: &[ReduceItem<'_>]) -> Option<(usize, Error)> {
    let mut tags = BTreeSet::new();
    items.iter().enumerate().find_map(|(index, item)| {
        let tag = item.reduce.name();
        let kind = CollectiveKind::AllReduce;
        let spec = item.reduce.spec_of(kind, item.element, item.count);
        let unsupported = spec.err();
        let repeated = (!tags.insert(tag)).then_some(Error::TagInUse(tag));
        Some((index, unsupported.or(repeated)?))
    })
}

/// Success only where every item has its own report.
fn verdict(
    results: Vec<Option<Result<CollectiveReport, Error>>>,
) -> Result<Vec<CollectiveReport>, ManyFailed> {
    let whole: Option<Vec<CollectiveReport>> = results
        .iter()
        .map(|result| result.as_ref()?.as_ref().ok().cloned())
        .collect();
    whole.ok_or_else(|| {
        let mut failed = ManyFailed {
            reports: Vec::new(),
            errors: Vec::new(),
        };
        for (index, result) in results.into_iter().enumerate() {
            let (report, error) = match result {
                Some(Ok(report)) => (Some(report), None),
                Some(Err(error)) => (None, Some((index, error))),
                None => (None, None),
            };
            failed.reports.push(report);
            failed.errors.extend(error);
        }
        failed
    })
}

/// Reduces one item as often as it takes. Peers retry alike, because they learn the same verdicts.
async fn reduce_until_done(
    calls: &Calls,
    item: &mut ReduceItem<'_>,
    giving_up: &AtomicBool,
) -> Result<CollectiveReport, Error> {
    let since = Instant::now();
    let mut retries = 0;
    let mut waited = None;
    loop {
        let called = Called::new(calls, item.reduce, item.element, item.count)?;
        match called
            .conclude(Memory::of_reduce(calls, item.data, &item.reduce))
            .await
        {
            Ok(report) => {
                return Ok(CollectiveReport {
                    retries,
                    duration: since.elapsed(),
                    waited: longer(waited, report.waited),
                    ..report
                });
            }
            Err(error) if is_cured_by_retrying(&error) && !giving_up.load(Ordering::Relaxed) => {
                retries += 1;
                waited = longer(waited, error.waited());
            }
            Err(error) => {
                giving_up.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}

/// A conflict is cured by another call, which cannot be made from in here.
fn is_cured_by_retrying(error: &Error) -> bool {
    error.is_retryable() && !matches!(error, Error::Conflict(_))
}
