//! Several buffers that a scripted peer reduces at once, each under a tag of its own: exact numbers,
//! quantized ones and halves.
//!
//! What is quantized is not exact, so nothing in it could tell a round. Its contributions depend on the
//! peer alone: the same contributors in the same order give the same bits in every round and on every
//! peer, also where an attempt before was aborted.

use pccl::half::{bf16, f16};
use pccl::{
    CollectiveReport, Communicator, Element, ElementType, ManyFailed, Quantization, Reduce,
    ReduceItem,
};
use serde::{Deserialize, Serialize};

use crate::contribution::{SLOTS, checksum, fill, is_contribution, verify};

/// Buffers of numbers whose sums are exact and tell the round of each contributor.
const EXACT: usize = 3;

/// Reduces that run at a time.
const IN_FLIGHT: usize = 4;

const TO_BYTES: Quantization = Quantization::MinMax {
    to: ElementType::U8,
};

const TO_WORDS: Quantization = Quantization::MinMax {
    to: ElementType::U16,
};

/// One buffer after its reduce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Whose contributions it holds, in ring order.
    pub contributors: Vec<u64>,
    /// Of the result.
    pub checksum: u64,
    /// How often it was aborted before.
    pub retries: u32,
}

/// The buffers.
pub(crate) struct Several {
    exact: Vec<Vec<f32>>,
    to_bytes: Vec<f32>,
    to_words: Vec<bf16>,
    halves: Vec<f16>,
}

impl Several {
    pub(crate) fn new(elements: usize) -> Self {
        let elements = elements.max(SLOTS);
        Self {
            exact: vec![vec![0.0; elements]; EXACT],
            to_bytes: vec![0.0; elements],
            to_words: vec![bf16::ZERO; elements],
            halves: vec![f16::ZERO; elements],
        }
    }

    /// Writes what `peer` contributes in this round.
    pub(crate) fn fill(&mut self, peer: u64, round: u64) {
        for (buffer, told) in self.exact.iter_mut().zip(told_rounds(round)) {
            fill(buffer, peer, told);
        }
        write(&mut self.to_bytes, |index| fraction(peer, index) as f32);
        write(&mut self.to_words, |index| {
            bf16::from_f64(fraction(peer, index))
        });
        write(&mut self.halves, |index| f16::from_f64(whole(peer, index)));
    }

    /// Reduces all of them, as often as it takes.
    pub(crate) fn reduce(
        &mut self,
        comm: &Communicator,
    ) -> Result<Vec<CollectiveReport>, ManyFailed> {
        let mut tags = 1..;
        let mut tagged = |reduce: Reduce| reduce.tag(tags.next().unwrap_or_default());
        let exact = self.exact.iter_mut();
        let mut items: Vec<_> = exact
            .map(|buffer| ReduceItem::new(buffer, tagged(Reduce::sum())))
            .collect();
        items.push(ReduceItem::new(&mut self.to_bytes, tagged(summed())));
        items.push(ReduceItem::new(&mut self.to_words, tagged(averaged())));
        items.push(ReduceItem::new(&mut self.halves, tagged(Reduce::sum())));
        comm.all_reduce_many_with_retry(&mut items, IN_FLIGHT)
    }

    /// Checks the results, and tells of them.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self, reports: &[CollectiveReport]) -> Result<Vec<Part>, String> {
        let contributors: Vec<Vec<u64>> = reports
            .iter()
            .map(|report| report.contributors.iter().map(|peer| peer.0).collect())
            .collect();
        let of = |item: usize| contributors.get(item).ok_or("a report is missing");
        for (item, buffer) in self.exact.iter().enumerate() {
            let rounds = verify(buffer, of(item)?).map_err(|wrong| wrong.to_string())?;
            let fits = |told: &u64| told_rounds(told / EXACT as u64).nth(item) == Some(*told);
            if !rounds.values().all(fits) {
                return Err(format!(
                    "contributions of another tag in {item}: {rounds:?}"
                ));
            }
        }
        is_near(&self.to_bytes, of(EXACT)?, summed(), fraction, |sum, _| sum)?;
        let average = |sum, count| sum / count;
        is_near(
            &self.to_words,
            of(EXACT + 1)?,
            averaged(),
            fraction,
            average,
        )?;
        for (index, got) in self.halves.iter().enumerate() {
            let sum: f64 = of(EXACT + 2)?.iter().map(|peer| whole(*peer, index)).sum();
            if got.to_f64() != sum {
                return Err(format!("element {index} of halves is {got}, not {sum}"));
            }
        }
        let sums = self.checksums();
        let parts = contributors.into_iter().zip(reports).zip(sums);
        Ok(parts
            .map(|((contributors, report), checksum)| Part {
                contributors,
                checksum,
                retries: report.retries,
            })
            .collect())
    }

    /// Is every buffer that was not reduced as it was filled?
    pub(crate) fn is_restored(&self, failed: &ManyFailed, peer: u64, round: u64) -> bool {
        let mut before = Self::new(self.to_bytes.len());
        before.fill(peer, round);
        let pairs = self.checksums().into_iter().zip(before.checksums());
        let same = pairs.zip(&failed.reports);
        let exact = self
            .exact
            .iter()
            .zip(told_rounds(round))
            .zip(&failed.reports);
        same.into_iter()
            .all(|((now, then), report)| report.is_some() || now == then)
            && exact
                .into_iter()
                .all(|((now, told), report)| report.is_some() || is_contribution(now, peer, told))
    }

    fn checksums(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.exact.iter().map(|buffer| checksum(buffer)).collect();
        sums.push(checksum(&self.to_bytes));
        let words: Vec<f32> = self.to_words.iter().map(|n| n.to_f32()).collect();
        sums.push(checksum(&words));
        let halves: Vec<f32> = self.halves.iter().map(|n| n.to_f32()).collect();
        sums.push(checksum(&halves));
        sums
    }
}

fn summed() -> Reduce {
    Reduce::sum().quantize(TO_BYTES)
}

fn averaged() -> Reduce {
    Reduce::avg().quantize(TO_WORDS)
}

/// What the exact buffers tell as their round.
fn told_rounds(round: u64) -> impl Iterator<Item = u64> {
    (0..EXACT as u64).map(move |item| round * EXACT as u64 + item)
}

fn write<T>(buffer: &mut [T], number: impl Fn(usize) -> T) {
    for (index, element) in buffer.iter_mut().enumerate() {
        *element = number(index);
    }
}

/// Is a quantized result within its bound?
fn is_near<T: Element + Into<f64>>(
    result: &[T],
    contributors: &[u64],
    reduce: Reduce,
    number: fn(u64, usize) -> f64,
    finish: fn(f64, f64) -> f64,
) -> Result<(), String> {
    let bound = reduce.error_bound(T::TYPE, contributors.len(), 1.0);
    // Contributions were rounded to the type before they were encoded.
    let bound = bound.unwrap_or(0.0) + contributors.len() as f64 * 2_f64.powi(-9);
    for (index, got) in result.iter().enumerate() {
        let sum: f64 = contributors.iter().map(|peer| number(*peer, index)).sum();
        let exact = finish(sum, contributors.len() as f64);
        let got: f64 = (*got).into();
        let is_near = (got - exact).abs() <= bound;
        if !is_near {
            let of = T::TYPE;
            return Err(format!(
                "element {index} of {of} is {got}, not near {exact}"
            ));
        }
    }
    Ok(())
}

/// From -1 to 1, by peer and place.
fn fraction(peer: u64, index: usize) -> f64 {
    let mixed = (peer + 1)
        .wrapping_mul(0x9e37_79b9)
        .wrapping_add(index as u64 * 40_503);
    (mixed % 2001) as f64 / 1000.0 - 1.0
}

/// From 1 to 8: sums of them are exact in halves.
fn whole(peer: u64, index: usize) -> f64 {
    ((peer + index as u64) % 8 + 1) as f64
}
