//! `--optimize`: what `optimize_topology` has made of the ring, and whether reduces go as it has said.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Communicator, Error, RingEstimate, RingReport};
use serde::{Deserialize, Serialize};

use super::hosts::Hosts;
use super::row::Row;
use super::stopwatch::ns_since;
use super::table::columns;

/// What one rank was told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Which peer it is.
    pub(crate) peer: u64,
    /// The peers of the ring that stands.
    pub(crate) ring: Vec<u64>,
    pub(crate) report: RingReport,
    /// From the call to its return.
    pub(crate) took_ns: u64,
}

/// Optimizes the topology, with all other ranks.
pub(crate) fn optimize(comm: &mut Communicator) -> Result<Told, Error> {
    let begun = Instant::now();
    let found = loop {
        match comm.optimize_topology() {
            Ok(found) => break found,
            Err(error) if error.is_retryable() => thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error),
        }
    };
    Ok(Told {
        peer: comm.peer_id().0,
        ring: found.ring.iter().map(|peer| peer.0).collect(),
        report: found.optimized.unwrap_or_default(),
        took_ns: ns_since(begun),
    })
}

/// The same for the whole group, with ranks in the place of peers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Optimized {
    pub(crate) before: Vec<usize>,
    pub(crate) after: Vec<usize>,
    pub(crate) report: RingReport,
    /// Until the last rank was told.
    pub(crate) seconds: f64,
}

impl Optimized {
    /// From what the ranks were told, in their order. `None`: they were told different things, or of peers that
    /// are none of them.
    pub(crate) fn of(told: &[Told]) -> Option<Self> {
        let first = told.first()?;
        let same = |other: &Told| other.ring == first.ring && other.report == first.report;
        if !told.iter().all(same) {
            return None;
        }
        let ranks: BTreeMap<u64, usize> = told.iter().map(|told| told.peer).zip(0..).collect();
        let ranks_of = |peers: &[u64]| -> Option<Vec<usize>> {
            peers.iter().map(|peer| ranks.get(peer).copied()).collect()
        };
        let before: Vec<u64> = first.report.before.0.iter().map(|peer| peer.0).collect();
        let took_ns = told.iter().map(|told| told.took_ns).max()?;
        Some(Self {
            before: from_the_first(ranks_of(&before)?),
            after: from_the_first(ranks_of(&first.ring)?),
            report: first.report.clone(),
            seconds: took_ns as f64 / 1e9,
        })
    }

    /// The rings, what their slowest edges carry, and how far another ring may be ahead.
    pub(crate) fn rings(&self, hosts: &Hosts) -> String {
        let mut text = format!("#\n# optimize_topology took {:.1} s\n", self.seconds);
        let named = |ring: &[usize]| -> String {
            let names: Vec<String> = ring.iter().map(|rank| hosts.name_of_rank(*rank)).collect();
            names.join(" ")
        };
        let (before, after) = (self.report.expected_before, self.report.expected);
        writeln!(text, "# before   {}: {}", named(&self.before), edge(before)).ok();
        writeln!(text, "# after    {}: {}", named(&self.after), edge(after)).ok();
        let gap = match self.report.gap() {
            None => "nothing was solved".to_owned(),
            Some(0.0) => "proven: the slowest edge of no other ring is faster".to_owned(),
            Some(gap) => format!(
                "proven: the slowest edge of no other ring is more than {:.1} % faster",
                100.0 * gap
            ),
        };
        writeln!(text, "# gap      {gap}").ok();
        text
    }

    /// Measured beside expected times, of rows of the same sizes.
    pub(crate) fn gains(&self, before: &[Row], after: &[Row]) -> String {
        let mut text =
            "#\n# gain     times of the rows above, and what was expected of the measured edges\n"
                .to_owned();
        let names = [
            "size",
            "before (us)",
            "expected",
            "after (us)",
            "expected",
            "gain",
            "expected",
        ];
        writeln!(text, "{}", columns(&names, &WIDTHS).replacen(' ', "#", 1)).ok();
        for (before, after) in before.iter().zip(after) {
            let bytes = before.total_bytes() as u64;
            let us = |ring: Option<RingEstimate>| {
                ring.map_or(f64::NAN, |ring| ring.reduce_time(bytes).as_secs_f64() * 1e6)
            };
            let expected = (us(self.report.expected_before), us(self.report.expected));
            let line = [
                before.bytes.to_string(),
                format!("{:.1}", before.time_us),
                format!("{:.1}", expected.0),
                format!("{:.1}", after.time_us),
                format!("{:.1}", expected.1),
                format!("{:.2}", before.time_us / after.time_us),
                format!("{:.2}", expected.0 / expected.1),
            ];
            writeln!(text, "{}", columns(&line, &WIDTHS).replacen(' ', "#", 1)).ok();
        }
        text
    }
}

const WIDTHS: [usize; 7] = [12, 14, 14, 14, 14, 10, 10];

/// A ring has no beginning; this one gets the lowest rank.
fn from_the_first(mut ring: Vec<usize>) -> Vec<usize> {
    let lowest = (0..ring.len()).min_by_key(|at| ring.get(*at));
    ring.rotate_left(lowest.unwrap_or(0));
    ring
}

fn edge(expected: Option<RingEstimate>) -> String {
    expected.map_or("not all of its edges are known".into(), |expected| {
        let mbit_per_s = expected.bytes_per_s as f64 * 8.0 / 1e6;
        let round_ms = expected.round_ns as f64 / 1e6;
        format!("slowest edge {mbit_per_s:.1} Mbit/s, {round_ms:.1} ms once around")
    })
}

/// An element of `optimizations` in the JSON file.
#[derive(Serialize)]
pub(crate) struct Summary {
    peers: usize,
    lanes: u16,
    seconds: f64,
    before: Vec<String>,
    after: Vec<String>,
    /// Bytes per second of the slowest edge; `null`: not all edges are known.
    slowest_before: Option<u64>,
    slowest_after: Option<u64>,
    /// By how much the slowest edge of another ring may be faster.
    gap: Option<f64>,
}

impl Summary {
    pub(crate) fn new(peers: usize, lanes: u16, hosts: &Hosts, found: &Optimized) -> Self {
        let named = |ring: &[usize]| ring.iter().map(|rank| hosts.name_of_rank(*rank)).collect();
        let slowest = |ring: Option<RingEstimate>| ring.map(|ring| ring.bytes_per_s);
        Self {
            peers,
            lanes,
            seconds: found.seconds,
            before: named(&found.before),
            after: named(&found.after),
            slowest_before: slowest(found.report.expected_before),
            slowest_after: slowest(found.report.expected),
            gap: found.report.gap(),
        }
    }
}
