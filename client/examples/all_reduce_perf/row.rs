//! What was measured for one size: the numbers of a row.

use serde::Serialize;

use super::talk::Measured;
use super::work::Work;

/// Iterations as all ranks have seen them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// By iteration, the mean over the ranks.
    times_us: Vec<f64>,
    /// Of all ranks and iterations.
    pub(crate) cpu_ns: u64,
    pub(crate) wrong: u64,
}

impl Samples {
    /// Adds a series: what each rank has measured in it.
    pub(crate) fn add(&mut self, ranks: &[Measured]) {
        let iterations = ranks.iter().map(|rank| rank.times_ns.len()).min();
        for iteration in 0..iterations.unwrap_or(0) {
            let times = ranks.iter().filter_map(|rank| rank.times_ns.get(iteration));
            let sum_ns: f64 = times.map(|ns| *ns as f64).sum();
            self.times_us.push(sum_ns / ranks.len() as f64 / 1e3);
        }
        self.cpu_ns += ranks.iter().map(|rank| rank.cpu_ns).sum::<u64>();
        self.add_wrong(ranks);
    }

    /// Adds what was wrong in a series whose times do not count.
    pub(crate) fn add_wrong(&mut self, ranks: &[Measured]) {
        self.wrong += ranks.iter().map(|rank| rank.wrong).sum::<u64>();
    }

    pub(crate) fn median_us(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        let upper = sorted.get(middle).copied().unwrap_or(f64::NAN);
        if sorted.len().is_multiple_of(2) {
            let lower = middle.checked_sub(1).and_then(|lower| sorted.get(lower));
            f64::midpoint(lower.copied().unwrap_or(upper), upper)
        } else {
            upper
        }
    }

    pub(crate) fn min_us(&self) -> f64 {
        self.sorted().first().copied().unwrap_or(f64::NAN)
    }

    fn max_us(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.times_us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// What is measured in a row.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) peers: usize,
    pub(crate) lanes: u16,
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
    pub(crate) lanes: u16,
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
    #[serde(rename = "floor_algbw_gb_s")]
    pub(crate) algbw_gb_s: Option<f64>,
    #[serde(rename = "floor_cpu_s_per_gb")]
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// Throughput of ours over that of the floor.
    pub(crate) ratio: Option<f64>,
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
        let cpu_s_per_gb = samples.cpu_ns as f64 / contributed;
        FloorColumns {
            piece_bytes: Some(*piece_bytes),
            time_us: Some(time_us),
            algbw_gb_s: Some(gb_per_s(bytes, time_us)),
            cpu_s_per_gb: Some(cpu_s_per_gb),
            ratio: Some(time_us / our_time_us),
            cpu_ratio: Some(our_cpu_s_per_gb / cpu_s_per_gb),
        }
    }
}

fn gb_per_s(bytes: f64, time_us: f64) -> f64 {
    bytes / time_us / 1e3
}
