//! Errors of quantized averages over many rounds: they have no direction, and do not grow.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::Seq;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::test;

use super::quantized::{encoded, normal, numbers, rounded};
use super::support::{Member, ring, run_all, spec};

const TO_BYTES: Quantization = Quantization::MinMax {
    to: ElementType::U8,
};

/// A ring that averages `f32` numbers, encoded in bytes.
struct Averaging {
    members: Vec<Member>,
    seq: Seq,
}

impl Averaging {
    const WORLD: usize = 3;

    fn new() -> Self {
        Self {
            members: ring(Self::WORLD, 2),
            seq: Seq(0),
        }
    }

    async fn average(&mut self, contributions: &[Vec<f64>]) -> Vec<f64> {
        self.seq = self.seq.next();
        let element = ElementType::F32;
        let spec = CollectiveSpec {
            quantization: TO_BYTES,
            ..spec(ReduceOp::Avg, element, contributions[0].len())
        };
        let inputs = contributions.iter().map(|own| encoded(element, own));
        let inputs: Vec<Vec<u8>> = inputs.collect();
        let members = self.members.iter_mut();
        let ports = members.map(|m| m.plane.begin(self.seq, spec)).collect();
        let ended = run_all(ports, &inputs).await;
        self.members.iter_mut().for_each(|m| m.plane.end(self.seq));
        numbers(element, &ended[0].data)
    }
}

#[test(start_paused = true)]
async fn the_errors_of_many_rounds_have_no_direction() {
    const ROUNDS: usize = 200;
    const COUNT: usize = 1200;
    let mut ring = Averaging::new();
    let mut random = StdRng::seed_from_u64(4);
    let (mut sum, mut sum_of_squares) = (0.0, 0.0);

    for _ in 0..ROUNDS {
        // All positive, so that rounding towards zero would have a direction.
        let mut rank = || -> Vec<f64> {
            let number = |_| rounded(ElementType::F32, normal(&mut random).abs());
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
        "{sum} of {samples}"
    );
}

#[test(start_paused = true)]
async fn what_is_averaged_over_and_over_stays_where_it_is() {
    const COUNT: usize = 1200;
    let mut ring = Averaging::new();
    let mut random = StdRng::seed_from_u64(5);
    let number = |_| rounded(ElementType::F32, normal(&mut random));
    let original: Vec<f64> = (0..COUNT).map(number).collect();
    let largest = original.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let reduce = crate::Reduce::avg().quantize(TO_BYTES);
    let bound = reduce.error_bound(ElementType::F32, Averaging::WORLD, largest);

    let mut everybodys = original.clone();
    for _ in 0..300 {
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
    assert!(worst <= bound, "{worst} of {bound}");
    assert!(mean.abs() <= bound / 50.0, "{mean} of {bound}");
}
