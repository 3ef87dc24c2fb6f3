//! Error feedback: what quantization loses in one round comes back in the next ones.

use pccl::half::{bf16, f16};
use pccl::{
    Algorithm, Communicator, Element, ElementType, Error, ErrorFeedback, Quantization, Reduce,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{Run, begin, join_as, together_with};

const PEERS: usize = 3;

/// So few that each chunk is a frame, in which few numbers are large and most are small.
const COUNT: usize = 90;

const TO_BYTES: Quantization = Quantization::MinMax {
    to: ElementType::U8,
};

/// No contributed number is larger.
const LARGEST: f64 = 1.0;

/// What can be quantized.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Ring, Algorithm::Direct, Algorithm::TwoLevel];

/// Peers of which two are at one site and one at another.
fn at_two_sites(run: &Run) -> Vec<Communicator> {
    let site = |index: usize| run.builder().site(["eu", "us"][index % 2]);
    let mut peers = vec![begin(site(0))];
    (1..PEERS).for_each(|index| join_as(site(index), &mut peers));
    peers
}

/// What a peer contributes in a round: every seventh number up to [`LARGEST`], and others that are far
/// smaller than a step of 1/255.
fn contribution(peer: usize, round: usize) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64((round * PEERS + peer) as u64);
    let mut unit = || random.next_u64() as f64 / 2_f64.powi(64);
    let number = |index: usize| match index % 7 {
        0 => 2.0 * unit() - 1.0,
        _ => 0.0006 * unit(),
    };
    (0..COUNT).map(number).collect()
}

/// What came of many rounds.
struct Rounds {
    /// The sum of all contributions, as they were rounded to the type.
    exact: Vec<f64>,
    /// The sum of all results.
    got: Vec<f64>,
    /// What all peers hold back at the end.
    held_back: Vec<f64>,
}

impl Rounds {
    /// The largest error of any element.
    fn worst(&self) -> f64 {
        let errors = self.got.iter().zip(&self.exact);
        errors.fold(0.0, |worst, (got, exact)| worst.max((got - exact).abs()))
    }
}

fn add(sum: &mut [f64], numbers: impl Iterator<Item = f64>) {
    for (sum, number) in sum.iter_mut().zip(numbers) {
        *sum += number;
    }
}

fn reduce_many<T: Element + Into<f64>>(
    peers: &mut [Communicator],
    rounds: usize,
    of_f64: fn(f64) -> T,
    reduce: Reduce,
    with_feedback: bool,
) -> Rounds {
    let sums = together_with(peers, |index, peer| {
        let mut feedback = ErrorFeedback::new();
        let (mut own, mut got) = (vec![0.0; COUNT], vec![0.0; COUNT]);
        for round in 0..rounds {
            let mut buffer: Vec<T> = contribution(index, round).into_iter().map(of_f64).collect();
            add(&mut own, buffer.iter().map(|number| (*number).into()));
            if with_feedback {
                peer.all_reduce_with_feedback(&mut buffer, reduce, &mut feedback)
                    .unwrap();
            } else {
                peer.all_reduce(&mut buffer, reduce).unwrap();
            }
            add(&mut got, buffer.iter().map(|number| (*number).into()));
        }
        (own, got, feedback.held_back().collect::<Vec<f64>>())
    });

    let mut rounds = Rounds {
        exact: vec![0.0; COUNT],
        got: sums[0].1.clone(),
        held_back: vec![0.0; COUNT],
    };
    for (own, _, held_back) in sums {
        add(&mut rounds.exact, own.into_iter());
        add(&mut rounds.held_back, held_back.into_iter());
    }
    rounds
}

#[test]
fn numbers_too_small_for_a_step_arrive_with_feedback_and_are_lost_without() {
    const ROUNDS: usize = 600;
    let run = Run::new();
    let mut peers = run.peers(PEERS);
    let reduce = Reduce::sum().quantize(TO_BYTES);
    let of_f64 = |number| number as f32;

    let with = reduce_many(&mut peers, ROUNDS, of_f64, reduce, true);
    let without = reduce_many(&mut peers, ROUNDS, of_f64, reduce, false);

    let one_round = reduce.error_bound(ElementType::F32, PEERS, LARGEST);
    let one_round = one_round.unwrap();
    assert!(with.worst() < one_round, "{} of {one_round}", with.worst());
    let lost = without.worst();
    assert!(lost > 3.0 * one_round, "only {lost} of {one_round}");
}

/// Together with what is held back, the results of some rounds are what was contributed.
fn nothing_is_lost<T: Element + Into<f64>>(
    peers: &mut [Communicator],
    wish: Algorithm,
    of_f64: fn(f64) -> T,
    precision: f64,
) {
    const ROUNDS: usize = 10;
    let quantizations = [
        TO_BYTES,
        Quantization::MinMax {
            to: ElementType::U16,
        },
        Quantization::ZeroPointScale {
            to: ElementType::I8,
        },
        Quantization::Blockwise4,
    ];
    for (reduce, divisor) in [(Reduce::sum(), 1.0), (Reduce::avg(), PEERS as f64)] {
        for quantization in quantizations {
            let reduce = reduce.algorithm(wish).quantize(quantization);

            let rounds = reduce_many(peers, ROUNDS, of_f64, reduce, true);

            for index in 0..COUNT {
                let all = rounds.got[index] * divisor + rounds.held_back[index];
                let off = (all - rounds.exact[index]).abs();
                let of = T::TYPE;
                assert!(off < precision, "{off} of {index}, {reduce:?} of {of}");
            }
        }
    }
}

#[test]
fn what_the_results_lack_is_held_back_for_every_type_of_float_and_by_every_algorithm() {
    let run = Run::new();
    let mut peers = at_two_sites(&run);

    for wish in ALGORITHMS {
        // As exact as the sums are, which are of `f32` or `f64`.
        nothing_is_lost::<f16>(&mut peers, wish, f16::from_f64, 1e-4);
        nothing_is_lost::<bf16>(&mut peers, wish, bf16::from_f64, 1e-4);
        nothing_is_lost::<f32>(&mut peers, wish, |number| number as f32, 1e-4);
        nothing_is_lost::<f64>(&mut peers, wish, |number| number, 1e-12);
    }
}

#[test]
fn buffers_of_many_frames_lose_nothing_either() {
    const MANY: usize = 300_000;
    let run = Run::new();
    let mut peers = at_two_sites(&run);
    let own = |index: usize| {
        let mut random = StdRng::seed_from_u64(index as u64);
        let number = move |_| random.next_u32() as f32 / 2_f32.powi(32);
        (0..MANY).map(number).collect::<Vec<f32>>()
    };
    let all: Vec<Vec<f32>> = (0..PEERS).map(own).collect();

    for wish in ALGORITHMS {
        let reduce = Reduce::avg().algorithm(wish).quantize(TO_BYTES);
        let results = together_with(&mut peers, |index, peer| {
            let (mut buffer, mut feedback) = (all[index].clone(), ErrorFeedback::new());
            let report = peer.all_reduce_with_feedback(&mut buffer, reduce, &mut feedback);
            assert_eq!(report.unwrap().algorithm, wish);
            (buffer, feedback.held_back().collect::<Vec<f64>>())
        });

        for index in 0..MANY {
            let exact: f64 = all.iter().map(|own| f64::from(own[index])).sum();
            let got = f64::from(results[0].0[index]) * PEERS as f64;
            let held_back: f64 = results.iter().map(|(_, held_back)| held_back[index]).sum();
            let off = (got + held_back - exact).abs();
            assert!(off < 2e-6, "element {index} by {wish}: {off}");
            assert!(
                results
                    .iter()
                    .all(|(result, _)| result[index] == results[0].0[index])
            );
        }
    }
}

/// A feedback that holds something back, and the buffer that it goes with.
fn after_a_round(peer: &Communicator, index: usize, reduce: Reduce) -> (ErrorFeedback, Vec<f64>) {
    let mut feedback = ErrorFeedback::new();
    let mut buffer: Vec<f64> = contribution(index, 0);
    peer.all_reduce_with_feedback(&mut buffer, reduce, &mut feedback)
        .unwrap();
    assert!(feedback.held_back().any(|number| number != 0.0));
    (feedback, buffer)
}

#[test]
fn a_reduce_that_fails_leaves_buffer_and_feedback_as_they_were() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let reduce = Reduce::sum().quantize(TO_BYTES);

    together_with(&mut peers, |index, peer| {
        let (mut feedback, mut buffer) = after_a_round(peer, index, reduce);
        let held_back: Vec<f64> = feedback.held_back().collect();
        let before = buffer.clone();

        // The peers disagree on the operation.
        let reduce = if index == 0 { reduce } else { Reduce::max() };
        let outcome = peer.all_reduce_with_feedback(&mut buffer, reduce, &mut feedback);

        assert!(matches!(outcome, Err(Error::Disagreement { .. })));
        assert_eq!(buffer, before);
        assert_eq!(feedback.held_back().collect::<Vec<f64>>(), held_back);
    });
}

#[test]
fn a_round_of_another_length_that_fails_leaves_what_is_held_back_of_the_buffer_before() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let reduce = Reduce::sum().quantize(TO_BYTES);

    together_with(&mut peers, |index, peer| {
        let (mut feedback, _) = after_a_round(peer, index, reduce);
        let held_back: Vec<f64> = feedback.held_back().collect();

        // The peers disagree on the length, and nobody means that of the rounds before.
        let mut other = vec![1.0_f32; COUNT + 1 + index];
        let outcome = peer.all_reduce_with_feedback(&mut other, reduce, &mut feedback);
        let after_failure: Vec<f64> = feedback.held_back().collect();
        let mut other = vec![1.0_f32; COUNT + 1];
        peer.all_reduce_with_feedback(&mut other, reduce, &mut feedback)
            .unwrap();

        assert!(matches!(outcome, Err(Error::Disagreement { .. })));
        assert_eq!(after_failure, held_back);
        assert_eq!(feedback.held_back().count(), COUNT + 1, "it starts afresh");
    });
}

#[test]
fn a_poisoned_round_does_not_poison_the_next() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let reduce = Reduce::sum().quantize(TO_BYTES);

    let results = together_with(&mut peers, |_, peer| {
        let mut feedback = ErrorFeedback::new();
        let mut poisoned = [1.0_f32, f32::INFINITY, 3.0, 4.0];
        let mut sound = [1.0_f32, 2.0, 3.0, 4.0];
        for buffer in [&mut poisoned, &mut sound] {
            peer.all_reduce_with_feedback(buffer, reduce, &mut feedback)
                .unwrap();
        }
        (poisoned, sound)
    });

    for (poisoned, sound) in results {
        assert!(poisoned[0].is_nan() && poisoned[1].is_nan());
        assert!(sound.iter().all(|number| number.is_finite()));
    }
}

#[test]
fn integers_have_no_feedback() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);

    let outcome =
        peer.all_reduce_with_feedback(&mut [1_i32], Reduce::sum(), &mut ErrorFeedback::new());

    let (element, quantization) = (ElementType::I32, Quantization::None);
    assert_eq!(
        outcome,
        Err(Error::NotSupported {
            element,
            quantization
        })
    );
}
