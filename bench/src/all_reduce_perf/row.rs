//! What was measured for one size: the numbers of a row.

use serde::Serialize;

use super::floor::{Exchange, Way};
use super::samples::Samples;
use super::work::Work;

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
    pub(crate) is_optimized: bool,
}

impl Subject {
    /// What a peer contributes in one iteration.
    pub(crate) const fn bytes_per_iteration(&self) -> usize {
        self.count * self.element_bytes * self.concurrent
    }
}

/// A line of the table, and an element of `rows` in the JSON file. GB are 10^9 bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) collective: String,
    pub(crate) peers: usize,
    /// Lanes of an edge that were asked for.
    pub(crate) lanes: u16,
    /// Those of them that carried bytes, of all ranks the most, as counted.
    pub(crate) lanes_used: usize,
    /// How the data travelled in the last iteration.
    pub(crate) algorithm: String,
    /// Have all lanes both their ends on this machine? As the lanes say.
    pub(crate) lanes_are_local: bool,
    /// Was it measured after `optimize_topology`?
    pub(crate) optimized: bool,
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
    /// Of them, as many ran back to back.
    pub(crate) batch: usize,
    /// The median over the iterations; of an iteration the mean over the ranks.
    pub(crate) time_us: f64,
    pub(crate) time_min_us: f64,
    pub(crate) time_max_us: f64,
    /// Of ours, in microseconds, until all peers had called and the master let it start: the median over the iterations
    /// of the mean over the ranks. Of concurrent reduces, the first.
    pub(crate) start_us: f64,
    /// The same, from there until a peer had sent and received everything.
    pub(crate) transfer_us: f64,
    /// The same, from there until the verdict.
    pub(crate) commit_us: f64,
    /// By batch, the mean over its iterations: what programs report that read the clock once for several
    /// reduces.
    pub(crate) batch_times_us: Vec<f64>,
    /// One peer's contribution, all concurrent reduces together, over time.
    pub(crate) algbw_gb_s: f64,
    /// algbw times 2(n-1)/n for an all-reduce, (n-1)/n for its halves, 1 for a broadcast, as nccl-tests defines it:
    /// what a ring that cuts the buffer into n chunks and does not compress sends over each of its edges, over time.
    /// Small buffers travel whole and compressed ones shrink, so that it says nothing about what their edges carried.
    pub(crate) busbw_gb_s: f64,
    /// Elements that were not as expected, of all ranks and iterations, and one for every iteration in
    /// which ranks did not hold the same bits.
    pub(crate) wrong: u64,
    /// CPU time of all peers and of the master, over the contributions of all peers.
    pub(crate) cpu_s_per_gb: f64,
    /// The master's share of it.
    pub(crate) master_cpu_s_per_gb: f64,
    #[serde(flatten)]
    pub(crate) floor: FloorColumns,
}

/// The best bare exchange over plain sockets; nothing where it was left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FloorColumns {
    #[serde(rename = "floor_exchange")]
    pub(crate) exchange: Option<Exchange>,
    #[serde(rename = "floor_piece_bytes")]
    pub(crate) piece_bytes: Option<usize>,
    #[serde(rename = "floor_time_us")]
    pub(crate) time_us: Option<f64>,
    #[serde(rename = "floor_time_min_us")]
    pub(crate) time_min_us: Option<f64>,
    #[serde(rename = "floor_time_max_us")]
    pub(crate) time_max_us: Option<f64>,
    #[serde(rename = "floor_batch_times_us")]
    pub(crate) batch_times_us: Option<Vec<f64>>,
    #[serde(rename = "floor_algbw_gb_s")]
    pub(crate) algbw_gb_s: Option<f64>,
    #[serde(rename = "floor_cpu_s_per_gb")]
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// Throughput of ours over that of the floor.
    pub(crate) ratio: Option<f64>,
    /// The same for each turn by itself, of its medians: the smallest and the largest.
    pub(crate) ratio_min: Option<f64>,
    pub(crate) ratio_max: Option<f64>,
    /// CPU time of ours, the master's included, over that of the floor, which has none.
    pub(crate) cpu_ratio: Option<f64>,
}

/// What a row is made from.
pub(crate) struct Findings {
    pub(crate) ours: Samples,
    pub(crate) master_cpu_ns: u64,
    /// For each of its ways that came into the measurement.
    pub(crate) floors: Vec<(Way, Samples)>,
    pub(crate) iterations: u32,
    /// Iterations that ran back to back.
    pub(crate) batch: usize,
}

impl Row {
    pub(crate) fn new(subject: &Subject, work: &Work, found: &Findings) -> Self {
        let bytes = subject.bytes_per_iteration() as f64;
        let contributed = bytes * subject.peers as f64 * f64::from(found.iterations);
        let time_us = found.ours.median_us();
        let algbw_gb_s = gb_per_s(bytes, time_us);
        let cpu_ns = found.ours.cpu_ns + found.master_cpu_ns;
        let cpu_s_per_gb = cpu_ns as f64 / contributed;
        let [start_us, transfer_us, commit_us] = found.ours.phases_us();
        Self {
            collective: work.collective.to_string(),
            peers: subject.peers,
            lanes: subject.lanes,
            lanes_used: found.ours.lanes_used(),
            algorithm: found
                .ours
                .algorithm()
                .map_or_else(String::new, |taken| taken.to_string()),
            lanes_are_local: subject.lanes_are_local,
            optimized: subject.is_optimized,
            bytes: subject.count * subject.element_bytes,
            count: subject.count,
            r#type: work.element.to_string(),
            redop: work.op.to_string(),
            quantization: work.quantize.map(|by| by.name),
            concurrent: subject.concurrent,
            in_place: work.is_in_place(),
            iterations: found.iterations,
            batch: found.batch,
            time_us,
            time_min_us: found.ours.min_us(),
            time_max_us: found.ours.max_us(),
            start_us,
            transfer_us,
            commit_us,
            batch_times_us: found.ours.batches_us().to_vec(),
            algbw_gb_s,
            busbw_gb_s: algbw_gb_s * work.collective.bus_factor(subject.peers),
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
        let by_time = |one: &&(Way, Samples), other: &&(Way, Samples)| {
            one.1.median_us().total_cmp(&other.1.median_us())
        };
        let Some((way, samples)) = self.floors.iter().min_by(by_time) else {
            return FloorColumns::default();
        };
        let time_us = samples.median_us();
        let (ratio_min, ratio_max) = samples.ratios_to(&self.ours);
        let cpu_s_per_gb = samples.cpu_ns as f64 / contributed;
        FloorColumns {
            exchange: Some(way.exchange),
            piece_bytes: Some(way.piece_bytes),
            time_us: Some(time_us),
            time_min_us: Some(samples.min_us()),
            time_max_us: Some(samples.max_us()),
            batch_times_us: Some(samples.batches_us().to_vec()),
            algbw_gb_s: Some(gb_per_s(bytes, time_us)),
            cpu_s_per_gb: Some(cpu_s_per_gb),
            ratio: Some(time_us / our_time_us),
            ratio_min: Some(ratio_min),
            ratio_max: Some(ratio_max),
            cpu_ratio: Some(our_cpu_s_per_gb / cpu_s_per_gb),
        }
    }
}

impl Row {
    /// What a peer contributes in one iteration: all reduces that run at once.
    pub(crate) const fn total_bytes(&self) -> usize {
        self.bytes * self.concurrent
    }
}

fn gb_per_s(bytes: f64, time_us: f64) -> f64 {
    bytes / time_us / 1e3
}
