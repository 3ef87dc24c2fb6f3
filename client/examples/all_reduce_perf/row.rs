//! What was measured for one size: the numbers of a row.

use serde::Serialize;

use super::talk::Measured;
use super::work::Work;

/// Iterations as all ranks have seen them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// By iteration, the mean over the ranks.
    times_us: Vec<f64>,
    /// By series, the median of its iterations.
    medians_us: Vec<f64>,
    /// Lanes of an edge that carried bytes; of all ranks the most.
    lanes_used: usize,
    /// Of all ranks and iterations.
    pub(crate) cpu_ns: u64,
    pub(crate) wrong: u64,
}

impl Samples {
    /// Adds a series: what each rank has measured in it.
    pub(crate) fn add(&mut self, ranks: &[Measured]) {
        let iterations = ranks.iter().map(|rank| rank.times_ns.len()).min();
        let mut series_us = Vec::new();
        for iteration in 0..iterations.unwrap_or(0) {
            let times = ranks.iter().filter_map(|rank| rank.times_ns.get(iteration));
            let sum_ns: f64 = times.map(|ns| *ns as f64).sum();
            series_us.push(sum_ns / ranks.len() as f64 / 1e3);
        }
        self.medians_us.push(median(&series_us));
        self.times_us.append(&mut series_us);
        let lanes_used = ranks.iter().map(|rank| rank.lanes_used).max();
        self.lanes_used = self.lanes_used.max(lanes_used.unwrap_or(0));
        self.cpu_ns += ranks.iter().map(|rank| rank.cpu_ns).sum::<u64>();
        self.add_wrong(ranks);
    }

    /// Adds what was wrong in a series whose times do not count.
    pub(crate) fn add_wrong(&mut self, ranks: &[Measured]) {
        self.wrong += ranks.iter().map(|rank| rank.wrong).sum::<u64>();
    }

    fn median_us(&self) -> f64 {
        median(&self.times_us)
    }

    pub(crate) fn min_us(&self) -> f64 {
        least(&self.times_us)
    }

    fn max_us(&self) -> f64 {
        most(&self.times_us)
    }
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

/// What is measured in a row.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) peers: usize,
    pub(crate) lanes: u16,
    pub(crate) lanes_are_local: bool,
    /// Elements of one reduce.
    pub(crate) count: usize,
    pub(crate) element_bytes: usize,
    pub(crate) concurrent: usize,
}

impl Subject {
    /// What a peer contributes in one iteration.
    pub(crate) fn bytes_per_iteration(&self) -> usize {
        self.count * self.element_bytes * self.concurrent
    }
}

/// A line of the table, and an element of `rows` in the JSON file. GB are 10^9 bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) peers: usize,
    /// Lanes of an edge that were asked for.
    pub(crate) lanes: u16,
    /// Those of them that carried bytes, of all ranks the most, as counted.
    pub(crate) lanes_used: usize,
    /// Have all lanes both their ends on this machine? As the lanes say.
    pub(crate) lanes_are_local: bool,
    /// Of one reduce.
    pub(crate) bytes: usize,
    /// Elements of one reduce.
    pub(crate) count: usize,
    pub(crate) r#type: String,
    pub(crate) redop: String,
    pub(crate) quantization: Option<&'static str>,
    /// Reduces that ran at once in each iteration.
    pub(crate) concurrent: usize,
    pub(crate) in_place: bool,
    pub(crate) iterations: u32,
    /// The median over the iterations; of an iteration the mean over the ranks.
    pub(crate) time_us: f64,
    pub(crate) time_min_us: f64,
    pub(crate) time_max_us: f64,
    /// One peer's contribution, all concurrent reduces together, over time.
    pub(crate) algbw_gb_s: f64,
    /// What every edge of a ring carries, over time.
    pub(crate) busbw_gb_s: f64,
    /// Elements that were not as expected, of all ranks and iterations.
    pub(crate) wrong: u64,
    /// CPU time of all peers, over the contributions of all peers.
    pub(crate) cpu_s_per_gb: f64,
    pub(crate) master_cpu_s_per_gb: f64,
    #[serde(flatten)]
    pub(crate) floor: FloorColumns,
}

/// The ring over plain sockets; nothing where it was left out.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct FloorColumns {
    #[serde(rename = "floor_piece_bytes")]
    pub(crate) piece_bytes: Option<usize>,
    #[serde(rename = "floor_time_us")]
    pub(crate) time_us: Option<f64>,
    #[serde(rename = "floor_time_min_us")]
    pub(crate) time_min_us: Option<f64>,
    #[serde(rename = "floor_time_max_us")]
    pub(crate) time_max_us: Option<f64>,
    #[serde(rename = "floor_algbw_gb_s")]
    pub(crate) algbw_gb_s: Option<f64>,
    #[serde(rename = "floor_cpu_s_per_gb")]
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// Throughput of ours over that of the floor.
    pub(crate) ratio: Option<f64>,
    /// The same for each turn by itself, of its medians: the smallest and the largest.
    pub(crate) ratio_min: Option<f64>,
    pub(crate) ratio_max: Option<f64>,
    /// CPU time of ours over that of the floor.
    pub(crate) cpu_ratio: Option<f64>,
}

/// What a row is made from.
pub(crate) struct Findings {
    pub(crate) ours: Samples,
    pub(crate) master_cpu_ns: u64,
    /// With the size of its pieces.
    pub(crate) floor: Option<(usize, Samples)>,
    pub(crate) iterations: u32,
}

impl Row {
    pub(crate) fn new(subject: &Subject, work: &Work, found: &Findings) -> Self {
        let bytes = subject.bytes_per_iteration() as f64;
        let contributed = bytes * subject.peers as f64 * f64::from(found.iterations);
        let peers = subject.peers as f64;
        let time_us = found.ours.median_us();
        let algbw_gb_s = gb_per_s(bytes, time_us);
        let cpu_s_per_gb = found.ours.cpu_ns as f64 / contributed;
        Self {
            peers: subject.peers,
            lanes: subject.lanes,
            lanes_used: found.ours.lanes_used,
            lanes_are_local: subject.lanes_are_local,
            bytes: subject.count * subject.element_bytes,
            count: subject.count,
            r#type: work.element.to_string(),
            redop: work.op.to_string(),
            quantization: work.quantize.map(|by| by.name),
            concurrent: subject.concurrent,
            in_place: work.is_in_place(),
            iterations: found.iterations,
            time_us,
            time_min_us: found.ours.min_us(),
            time_max_us: found.ours.max_us(),
            algbw_gb_s,
            busbw_gb_s: algbw_gb_s * 2.0 * (peers - 1.0) / peers,
            wrong: found.ours.wrong,
            cpu_s_per_gb,
            master_cpu_s_per_gb: found.master_cpu_ns as f64 / contributed,
            floor: found.floor_columns(bytes, contributed, time_us, cpu_s_per_gb),
        }
    }
}

impl Findings {
    /// `bytes` of an iteration and those `contributed` in all of them, beside what was found of ours.
    fn floor_columns(
        &self,
        bytes: f64,
        contributed: f64,
        our_time_us: f64,
        our_cpu_s_per_gb: f64,
    ) -> FloorColumns {
        let Some((piece_bytes, samples)) = &self.floor else {
            return FloorColumns::default();
        };
        let time_us = samples.median_us();
        let turns = samples.medians_us.iter().zip(&self.ours.medians_us);
        let ratios: Vec<f64> = turns.map(|(floor, ours)| floor / ours).collect();
        let cpu_s_per_gb = samples.cpu_ns as f64 / contributed;
        FloorColumns {
            piece_bytes: Some(*piece_bytes),
            time_us: Some(time_us),
            time_min_us: Some(samples.min_us()),
            time_max_us: Some(samples.max_us()),
            algbw_gb_s: Some(gb_per_s(bytes, time_us)),
            cpu_s_per_gb: Some(cpu_s_per_gb),
            ratio: Some(time_us / our_time_us),
            ratio_min: Some(least(&ratios)),
            ratio_max: Some(most(&ratios)),
            cpu_ratio: Some(our_cpu_s_per_gb / cpu_s_per_gb),
        }
    }
}

fn gb_per_s(bytes: f64, time_us: f64) -> f64 {
    bytes / time_us / 1e3
}
