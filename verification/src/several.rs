//! Several scenarios, side by side: threads that share the search of one wait for each other, and threads that search
//! one each do not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use pccl_model::scenario::Scenario;

use crate::progress::Progress;
use crate::search::{Explored, Limits, SearchPanicked, explore};

/// How a number of scenarios is explored.
pub(crate) struct Several<'a> {
    pub(crate) scenarios: &'a [Scenario],
    /// Of a scenario.
    pub(crate) limits: &'a (dyn Fn(&Scenario) -> Limits + Sync),
    /// About how many states a scenario has, if that is known: large ones come first, so that none is left at the end
    /// for one thread.
    pub(crate) size: &'a dyn Fn(&Scenario) -> usize,
    /// For all of them.
    pub(crate) threads: usize,
    /// How many scenarios at a time.
    pub(crate) at_once: usize,
}

/// What the threads share.
struct Work<'a> {
    /// Positions in the list of scenarios, in the order in which they are begun.
    order: Vec<usize>,
    begun: AtomicUsize,
    ended: AtomicUsize,
    is_over: AtomicBool,
    progress: Mutex<&'a mut Progress>,
}

impl Work<'_> {
    fn next(&self) -> Option<usize> {
        let is_over = self.is_over.load(Ordering::Relaxed);
        let next = self.begun.fetch_add(1, Ordering::Relaxed);
        self.order.get(next).copied().filter(|_| !is_over)
    }
}

impl Several<'_> {
    /// Explores them all, until a claim is broken: then what was found so far is returned, and of the searches that it
    /// cut short nothing. In the order of the scenarios.
    pub(crate) fn explore(&self, progress: &mut Progress) -> Result<Vec<Explored>, SearchPanicked> {
        let mut order: Vec<usize> = (0..self.scenarios.len()).collect();
        let size = |at: &usize| self.scenarios.get(*at).map_or(0, self.size);
        order.sort_by_key(|at| std::cmp::Reverse(size(at)));
        let work = Work {
            order,
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            progress: Mutex::new(progress),
        };
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.at_once {
                let (work, tell) = (&work, tell.clone());
                let (scenarios, limits) = (self.scenarios, self.limits);
                let threads = (self.threads / self.at_once).max(1);
                scope.spawn(move || {
                    while let Some((at, scenario)) =
                        work.next().and_then(|at| Some((at, scenarios.get(at)?)))
                    {
                        // Fails only if nobody asks any more.
                        let _ = tell.send((at, one(scenario, threads, limits(scenario), work)));
                    }
                });
            }
            drop(tell);
            collect(&told, &work)
        })
    }
}

/// One of several.
fn one(
    scenario: &Scenario,
    threads: usize,
    limits: Limits,
    work: &Work<'_>,
) -> Result<Explored, SearchPanicked> {
    let mut show = |unique, time| {
        let mut progress = work.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work.ended.load(Ordering::Relaxed);
        let of = work.order.len();
        let scenario = format!("{done} of {of} done, {}", scenario.name);
        progress.show(&scenario, unique, time);
        !work.is_over.load(Ordering::Relaxed)
    };
    let explored = explore(scenario, threads, limits, &mut show);
    work.ended.fetch_add(1, Ordering::Relaxed);
    explored
}

fn collect(
    told: &mpsc::Receiver<(usize, Result<Explored, SearchPanicked>)>,
    work: &Work<'_>,
) -> Result<Vec<Explored>, SearchPanicked> {
    let mut all = Vec::new();
    for (at, explored) in told {
        let was_over = work.is_over.load(Ordering::Relaxed);
        let is_last = !matches!(&explored, Ok(explored) if explored.violation.is_none());
        if is_last {
            work.is_over.store(true, Ordering::Relaxed);
        }
        // Others were cut short.
        if !was_over || is_last {
            all.push((at, explored?));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, explored)| explored).collect())
}
