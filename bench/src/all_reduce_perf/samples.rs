//! What all ranks have seen of the iterations of a row, put together.

use pccl::Algorithm;

use super::talk::{Measured, PhasesNs};

/// Iterations as all ranks have seen them.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// Iterations that run back to back; the last batch of a series may be shorter.
    batch: usize,
    /// By iteration, the mean over the ranks.
    times_us: Vec<f64>,
    /// By iteration of ours, the mean over the ranks.
    start_us: Vec<f64>,
    transfer_us: Vec<f64>,
    commit_us: Vec<f64>,
    /// By batch, the mean over its iterations.
    batches_us: Vec<f64>,
    /// By series, the median of its iterations.
    medians_us: Vec<f64>,
    /// Lanes of an edge that carried bytes; of all ranks the most.
    lanes_used: usize,
    algorithm: Option<Algorithm>,
    /// Of all ranks and iterations.
    pub(crate) cpu_ns: u64,
    /// Elements that were not as expected, and one for every iteration whose result was not the same
    /// bits on all ranks.
    pub(crate) wrong: u64,
}

impl Samples {
    /// None yet.
    pub(crate) const fn new(batch: usize) -> Self {
        Self {
            batch,
            times_us: Vec::new(),
            start_us: Vec::new(),
            transfer_us: Vec::new(),
            commit_us: Vec::new(),
            batches_us: Vec::new(),
            medians_us: Vec::new(),
            lanes_used: 0,
            algorithm: None,
            cpu_ns: 0,
            wrong: 0,
        }
    }

    /// Adds a series: what each rank has measured in it.
    pub(crate) fn add(&mut self, ranks: &[Measured]) {
        let iterations = ranks.iter().map(|rank| rank.times_ns.len()).min();
        let mut series_us = Vec::new();
        for iteration in 0..iterations.unwrap_or(0) {
            let times = ranks.iter().filter_map(|rank| rank.times_ns.get(iteration));
            let sum_ns: f64 = times.map(|ns| *ns as f64).sum();
            series_us.push(sum_ns / ranks.len() as f64 / 1e3);
        }
        let batches = series_us.chunks(self.batch.max(1));
        self.batches_us.extend(batches.map(mean));
        self.medians_us.push(median(&series_us));
        self.times_us.append(&mut series_us);
        let lanes_used = ranks.iter().map(|rank| rank.lanes_used).max();
        self.lanes_used = self.lanes_used.max(lanes_used.unwrap_or(0));
        self.algorithm = ranks.iter().find_map(|rank| rank.algorithm);
        self.cpu_ns += ranks.iter().map(|rank| rank.cpu_ns).sum::<u64>();
        self.add_phases(ranks);
        self.add_wrong(ranks);
    }

    fn add_phases(&mut self, ranks: &[Measured]) {
        let iterations = ranks.iter().map(|rank| rank.phases.len()).min();
        for iteration in 0..iterations.unwrap_or(0) {
            let phases = ranks.iter().filter_map(|rank| rank.phases.get(iteration));
            let mean_us = |of: fn(&PhasesNs) -> u64| {
                let each: Vec<f64> = phases.clone().map(|phases| of(phases) as f64).collect();
                mean(&each) / 1e3
            };
            self.start_us.push(mean_us(|phases| phases.start));
            self.transfer_us.push(mean_us(|phases| phases.transfer));
            self.commit_us.push(mean_us(|phases| phases.commit));
        }
    }

    /// Adds what was wrong in a series whose times do not count.
    pub(crate) fn add_wrong(&mut self, ranks: &[Measured]) {
        self.wrong += ranks.iter().map(|rank| rank.wrong).sum::<u64>();
        self.wrong += disagreements(ranks);
    }

    pub(crate) fn median_us(&self) -> f64 {
        median(&self.times_us)
    }

    pub(crate) fn min_us(&self) -> f64 {
        least(&self.times_us)
    }

    pub(crate) fn max_us(&self) -> f64 {
        most(&self.times_us)
    }

    /// The median of each phase: start, transfer, commit. Each by itself, so they are not the parts of one iteration.
    pub(crate) fn phases_us(&self) -> [f64; 3] {
        [&self.start_us, &self.transfer_us, &self.commit_us].map(|times| median(times))
    }

    pub(crate) fn batches_us(&self) -> &[f64] {
        &self.batches_us
    }

    pub(crate) const fn lanes_used(&self) -> usize {
        self.lanes_used
    }

    /// How the data travelled in the last iteration. `None`: of the floor.
    pub(crate) const fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    /// How many times as long as the `other` each series took, by its median, the least and the most;
    /// series were taken in turns.
    pub(crate) fn ratios_to(&self, other: &Self) -> (f64, f64) {
        let series = self.medians_us.iter().zip(&other.medians_us);
        let ratios: Vec<f64> = series.map(|(own, others)| own / others).collect();
        (least(&ratios), most(&ratios))
    }
}

/// Iterations whose result is not the same on all ranks, as far as their checksums tell.
fn disagreements(ranks: &[Measured]) -> u64 {
    let Some((first, others)) = ranks.split_first() else {
        return 0;
    };
    let of = |iteration: usize| first.checksums.get(iteration);
    let most = ranks.iter().map(|rank| rank.checksums.len()).max();
    let differs = |iteration: &usize| {
        let mut others = others.iter();
        others.any(|rank| rank.checksums.get(*iteration) != of(*iteration))
    };
    (0..most.unwrap_or(0)).filter(differs).count() as u64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// NaN where there is none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(f64::NAN);
    if sorted.len().is_multiple_of(2) {
        let lower = middle.checked_sub(1).and_then(|lower| sorted.get(lower));
        f64::midpoint(lower.copied().unwrap_or(upper), upper)
    } else {
        upper
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}
