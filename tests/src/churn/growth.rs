//! Whether processes hold more and more: medians of samples in several rests.
//!
//! What a process holds depends on the size of the world, and for some seconds on what happened before. So the driver
//! lets the run come to rest with the same few peers each time. They make no call until the library has given back the
//! memory that it keeps for later collectives, and take samples then. The first rest ends the warm-up; the last one is
//! compared with it, and those in between show whether something grows all the time.
//!
//! Memory is measured twice. The heap is what the program has allocated and not freed, to the byte. A buffer that is
//! kept may grow once, so growth by no more than [`HEAP_NOISE_BYTES`] does not count. What is resident and not of a
//! file (`RssAnon`) also holds stacks, what C libraries allocate, and what the allocator keeps. The processes run with
//! tunables by which glibc returns blocks of more than 8 KiB at once, has one arena for the smaller ones, and keeps no
//! stacks of threads that have ended. What remains is the high-water mark of small blocks: measured, some 40 KiB of a
//! master and 130 KiB of a peer in minutes, with a heap that does not grow. So growth of resident memory by no more
//! than [`NOISE_KIB`] does not count, whatever it is in percent.

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::Finding;
use super::talk::Holdings;

/// Growth beyond this is a failure.
const PERCENT_MAX: u64 = 5;

/// Growth of the heap that does not count: as much as the buffer of a connection keeps.
pub const HEAP_NOISE_BYTES: u64 = 64 * 1024;

/// Growth of resident memory that does not count, in KiB.
pub const NOISE_KIB: u64 = 256;

/// Samples of the processes that live long, by their names.
#[derive(Clone, Debug, Default)]
pub struct Window {
    samples: BTreeMap<String, Vec<Holdings>>,
}

impl Window {
    /// Adds what a process holds.
    pub fn add(&mut self, who: &str, holds: Holdings) {
        self.samples.entry(who.to_owned()).or_default().push(holds);
    }

    /// The fewest samples that there are of one of these processes.
    #[must_use]
    pub fn samples_of(&self, names: &[String]) -> usize {
        let counts = names
            .iter()
            .map(|name| self.samples.get(name).map_or(0, Vec::len));
        counts.min().unwrap_or(0)
    }
}

/// What a process held, rest by rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Which process.
    pub who: String,
    /// Of what.
    pub what: &'static str,
    /// The median of each rest, the one after the warm-up first.
    pub medians: Vec<u64>,
    /// Growth by no more than this does not count.
    pub noise: u64,
}

impl Growth {
    /// From the first rest to the last one, in percent. Negative if less is held.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let (first, last) = self.ends();
        100.0 * (last as f64 / first.max(1) as f64 - 1.0)
    }

    /// The failure that this is, if it is one.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let (first, last) = self.ends();
        let is_too_much = 100 * last > (100 + PERCENT_MAX) * first && last > first + self.noise;
        is_too_much.then(|| Finding::Growth {
            who: self.who.clone(),
            what: self.what.into(),
            first,
            last,
        })
    }

    fn ends(&self) -> (u64, u64) {
        let first = self.medians.first().copied().unwrap_or(0);
        (first, self.medians.last().copied().unwrap_or(0))
    }
}

/// Compares the processes that are in all rests.
#[must_use]
pub fn growth(rests: &[Window]) -> Vec<Growth> {
    let mut rows = Vec::new();
    let names = rests.first().map(|rest| rest.samples.keys());
    for who in names.into_iter().flatten() {
        let samples = rests.iter().map(|rest| rest.samples.get(who));
        let Some(samples) = samples.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let mut compare = |what, noise, of: fn(&Holdings) -> u64| {
            let who = who.clone();
            let medians = samples.iter().map(|samples| median(samples, of)).collect();
            rows.push(Growth {
                who,
                what,
                medians,
                noise,
            });
        };
        compare("descriptors", 0, |holds| holds.descriptors);
        compare("threads", 0, |holds| holds.threads);
        compare("heap bytes", HEAP_NOISE_BYTES, |holds| holds.heap_bytes);
        compare("resident KiB", NOISE_KIB, |holds| holds.memory_kib);
    }
    rows
}

fn median(samples: &[Holdings], of: fn(&Holdings) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(descriptors: u64, threads: u64, memory_kib: u64) -> Window {
        with_heap(1_000_000, (descriptors, threads, memory_kib))
    }

    fn with_heap(heap_bytes: u64, others: (u64, u64, u64)) -> Window {
        let (descriptors, threads, memory_kib) = others;
        let mut window = Window::default();
        for peak in [0, 500, 0, 0, 1] {
            let holds = Holdings {
                descriptors: descriptors + peak,
                threads,
                heap_bytes,
                memory_kib,
            };
            window.add("peer 0", holds);
        }
        window
    }

    fn found(last: Window) -> Vec<Finding> {
        let rows = growth(&[window(20, 4, 10_000), window(90, 90, 90), last]);
        rows.iter().filter_map(Growth::finding).collect()
    }

    #[test]
    fn growing_descriptors_are_found() {
        let findings = found(window(22, 4, 10_000));
        let [Finding::Growth { who, what, .. }] = &*findings else {
            panic!("{findings:?}");
        };
        assert_eq!((who.as_str(), what.as_str()), ("peer 0", "descriptors"));
    }

    #[test]
    fn growing_threads_and_growing_memory_are_found() {
        assert_eq!(found(window(20, 5, 10_000)).len(), 1);
        assert_eq!(found(window(20, 4, 10_501)).len(), 1);
    }

    #[test]
    fn what_stays_within_five_percent_or_becomes_less_is_not_found() {
        assert_eq!(found(window(21, 4, 10_500)), []);
        assert_eq!(found(window(10, 2, 5_000)), []);
    }

    /// A kilobyte of each of a hundred connections, for instance.
    #[test]
    fn a_growing_heap_is_found_though_it_is_less_than_the_noise_of_resident_memory() {
        let heap = |bytes| with_heap(bytes, (20, 4, 10_000));
        let findings = |last| {
            let rows = growth(&[heap(200_000), heap(last)]);
            let found: Vec<_> = rows.iter().filter_map(Growth::finding).collect();
            found
        };
        assert_eq!(findings(200_000 + HEAP_NOISE_BYTES), []);
        let [Finding::Growth { what, .. }] = &*findings(200_001 + HEAP_NOISE_BYTES) else {
            panic!("not found");
        };
        assert_eq!(what, "heap bytes");
    }

    #[test]
    fn growth_of_little_memory_by_less_than_the_noise_is_not_found() {
        let rests = [window(20, 4, 800), window(20, 4, 800 + NOISE_KIB)];
        assert!(growth(&rests).iter().all(|row| row.finding().is_none()));
        let rests = [window(20, 4, 800), window(20, 4, 801 + NOISE_KIB)];
        assert!(growth(&rests).iter().any(|row| row.finding().is_some()));
    }

    #[test]
    fn a_process_that_is_not_in_all_rests_is_not_compared() {
        let mut other = Window::default();
        other.add("peer 9", Holdings::default());
        assert_eq!(growth(&[window(20, 4, 10_000), other]), []);
    }
}
