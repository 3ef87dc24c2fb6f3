//! Errors of quantized averages over many rounds: they have no direction, and do not grow.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::Seq;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::test;

use super::quantized::{FLOATS, QUANTIZATIONS, encoded, normal, numbers, rounded};
use super::support::{AROUND, Member, ring, run_all, spec};
use crate::error_bound;

/// Elements of a buffer.
const COUNT: usize = 1200;

/// A ring that averages numbers.
struct Averaging {
    members: Vec<Member>,
    seq: Seq,
    element: ElementType,
    quantization: Quantization,
}

impl Averaging {
    const WORLD: usize = 3;

    /// One ring for each float type and quantization.
    fn all() -> impl Iterator<Item = Self> {
        FLOATS.into_iter().flat_map(|element| {
            QUANTIZATIONS.into_iter().map(move |quantization| Self {
                members: ring(Self::WORLD, 2),
                seq: Seq(0),
                element,
                quantization,
            })
        })
    }

    fn name(&self) -> String {
        format!("{}, {}", self.element, self.quantization)
    }

    async fn average(&mut self, contributions: &[Vec<f64>]) -> Vec<f64> {
        self.seq = self.seq.next();
        let element = self.element;
        let spec = CollectiveSpec {
            quantization: self.quantization,
            ..spec(ReduceOp::Avg, element, contributions[0].len())
        };
        let inputs = contributions.iter().map(|own| encoded(element, own));
        let inputs: Vec<Vec<u8>> = inputs.collect();
        let members = self.members.iter_mut();
        let ports = members
            .map(|m| m.plane.begin(self.seq, spec, AROUND))
            .collect();
        let ended = run_all(ports, &inputs).await;
        self.members.iter_mut().for_each(|m| m.plane.stop(self.seq));
        numbers(element, &ended[0].data)
    }
}

#[test(start_paused = true)]
async fn the_errors_of_many_rounds_have_no_direction() {
    const ROUNDS: usize = 200;
    for mut ring in Averaging::all() {
        let mut random = StdRng::seed_from_u64(4);
        let (mut sum, mut sum_of_squares) = (0.0, 0.0);

        for _ in 0..ROUNDS {
            // All positive, so that rounding towards zero would have a direction.
            let mut rank = || -> Vec<f64> {
                let number = |_| rounded(ring.element, normal(&mut random).abs());
                (0..COUNT).map(number).collect()
            };
            let contributions: Vec<Vec<f64>> = (0..Averaging::WORLD).map(|_| rank()).collect();
            let result = ring.average(&contributions).await;
            for (index, got) in result.iter().enumerate() {
                let exact = contributions.iter().map(|own| own[index]).sum::<f64>();
                let error = got - exact / Averaging::WORLD as f64;
                sum += error;
                sum_of_squares += error * error;
            }
        }

        let samples = (ROUNDS * COUNT) as f64;
        let deviation = (sum_of_squares / samples).sqrt();
        // Errors of random direction average to about 1/490 of their size over so many.
        assert!(
            (sum / samples).abs() < deviation / 50.0,
            "{}: {sum} of {samples}, {deviation} each",
            ring.name()
        );
    }
}

#[test(start_paused = true)]
async fn what_is_averaged_over_and_over_stays_where_it_is() {
    const ROUNDS: usize = 300;
    for mut ring in Averaging::all() {
        let mut random = StdRng::seed_from_u64(5);
        let number = |_| rounded(ring.element, normal(&mut random));
        let original: Vec<f64> = (0..COUNT).map(number).collect();
        let largest = original.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let encoded = (ring.element, ring.quantization);
        let bound = error_bound(ReduceOp::Avg, encoded, Averaging::WORLD, largest);

        let mut everybodys = original.clone();
        for _ in 0..ROUNDS {
            everybodys = ring.average(&vec![everybodys; Averaging::WORLD]).await;
        }

        let errors = everybodys
            .iter()
            .zip(&original)
            .map(|(now, then)| now - then);
        let errors: Vec<f64> = errors.collect();
        let mean = errors.iter().sum::<f64>() / COUNT as f64;
        let worst = errors.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let bound = bound.unwrap();
        assert!(worst <= bound, "{}: {worst} of {bound}", ring.name());
        assert!(
            mean.abs() <= bound / 50.0,
            "{}: {mean} of {bound}",
            ring.name()
        );
    }
}
