//! Making up for what quantization loses, in training loops.

use std::iter;

use pccl_core::element::ElementType;

use pccl_plane::Float;

/// Adds the quantization losses of one reduce to this peer's contribution to the next one.
///
/// It is made for sums and averages that are repeated, such as those of gradients. Without it, numbers that are too
/// small for the steps of their frame are lost in each round, or counted too high in each round. With it, the peer
/// whose encoding loses something keeps the loss until it is large enough to count. After any number of rounds, the sum
/// of all results differs from the exact one only by what the peers hold back at that moment, which is about the error
/// of a single round ([`Reduce::error_bound`](crate::Reduce::error_bound)), and by the rounding of float sums, which
/// reduces without quantization have as well.
///
/// Use one feedback for one buffer, such as the gradients of a layer, in all rounds of
/// [`all_reduce_with_feedback`](crate::Communicator::all_reduce_with_feedback). If the number or the
/// type of the elements changes, the feedback starts afresh with the first round that succeeds. If a peer dies, its
/// losses stay unrecovered. Only quantized sums and averages have losses to recover; in any other reduce the feedback
/// only adds what it holds back.
///
/// It keeps the memory of 2 buffers, and of 2 more of `f32` (`f64` for `f64`), between the rounds.
///
/// After Seide and others, "1-bit stochastic gradient descent" (2014), and Karimireddy and others,
/// "Error feedback fixes SignSGD and other gradient compression schemes" (2019). There each peer keeps
/// what encoding its own contribution loses. In a ring partial sums are encoded as well, so each peer
/// keeps what its encodings of those lose too; without that the errors of many rounds would add up as
/// without feedback.
///
/// ```rust,no_run
/// use pccl::{Communicator, ElementType, Error, ErrorFeedback, Quantization, Reduce};
///
/// fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
///     let to_bytes = Quantization::MinMax {
///         to: ElementType::U8,
///     };
///     let average = Reduce::avg().quantize(to_bytes);
///     let mut feedback = ErrorFeedback::new();
///     let rounds = Communicator::builder(master).rounds();
///     rounds.run(weights, |round| {
///         if round.revision() == 1000 {
///             return Ok(round.end());
///         }
///         let mut step = compute(round.state());
///         round.retry(|| round.all_reduce_with_feedback(&mut step, average, &mut feedback))?;
///         Ok(round.commit(|weights| {
///             weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
///         }))
///     })
/// }
/// # fn compute(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ErrorFeedback {
    /// What is held back: `None` before the first round that has succeeded.
    holding: Option<Holding>,
    /// The contribution with that.
    contribution: Vec<u8>,
    result: Vec<u8>,
    /// What will be held back if the round succeeds.
    losses: Vec<u8>,
}

/// The memory of one round.
pub(crate) struct Noting<'a> {
    pub(crate) src: &'a [u8],
    pub(crate) dst: &'a mut [u8],
    /// What encoding loses, in the type of sums.
    pub(crate) losses: &'a mut [u8],
}

/// What is held back of the elements of one buffer.
#[derive(Clone, Debug)]
struct Holding {
    /// Of what type the elements are.
    float: Float,
    /// In the type of sums.
    rests: Vec<u8>,
}

impl ErrorFeedback {
    /// Nothing is held back.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets what is held back, and gives all memory back.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// What this peer holds back, element by element: empty before the first round.
    pub fn held_back(&self) -> impl Iterator<Item = f64> {
        let holding = self.holding.iter();
        holding.flat_map(|holding| holding.float.of_sums().read(&holding.rests))
    }

    /// Begins a round. `None` for integers. What is held back stays as it is
    /// until the round has succeeded, also where it is of another buffer.
    pub(crate) fn begin(&mut self, element: ElementType, buffer: &[u8]) -> Option<Noting<'_>> {
        let float = Float::of(element)?;
        make_room(&mut self.losses, bytes_of_sums(float, buffer));
        make_room(&mut self.contribution, buffer.len());
        make_room(&mut self.result, buffer.len());
        let rests = self
            .holding
            .as_ref()
            .map_or(&[][..], |holding| holding.of(float, buffer));
        let wanted = compensated(float, buffer, rests).zip(float.read(buffer));
        let said = wanted.map(|(wanted, own)| float.in_range(wanted, own));
        float.write(said, &mut self.contribution);
        self.losses.fill(0);
        Some(Noting {
            src: &self.contribution,
            dst: &mut self.result,
            losses: &mut self.losses,
        })
    }

    /// The round has succeeded: `buffer`, which still holds the contribution, gets the result.
    pub(crate) fn finish(&mut self, element: ElementType, buffer: &mut [u8]) {
        let Some(float) = Float::of(element) else {
            return;
        };
        let before = self.holding.take().map_or_else(Vec::new, |holding| {
            let is_of_it = !holding.of(float, buffer).is_empty();
            if is_of_it { holding.rests } else { Vec::new() }
        });
        // Halves cannot take up all that is added to them.
        let wanted = compensated(float, buffer, &before);
        let not_said = wanted.zip(float.read(&self.contribution));
        let not_said = not_said.map(|(wanted, said)| wanted - said);
        let finite = not_said.map(|rest| if rest.is_finite() { rest } else { 0.0 });
        float.of_sums().add(finite, &mut self.losses);
        let rests = std::mem::replace(&mut self.losses, before);
        self.holding = Some(Holding { float, rests });
        buffer.copy_from_slice(&self.result);
    }
}

impl Holding {
    /// What is held back of a buffer of this type and length; nothing where it is of another one.
    fn of(&self, float: Float, buffer: &[u8]) -> &[u8] {
        let fits = self.float == float && self.rests.len() == bytes_of_sums(float, buffer);
        if fits { &self.rests } else { &[] }
    }
}

/// How long a buffer is as sums.
fn bytes_of_sums(float: Float, buffer: &[u8]) -> usize {
    buffer.len() / float.size() * float.of_sums().size()
}

/// Memory of exactly so many bytes, the present one where that is as long.
fn make_room(memory: &mut Vec<u8>, bytes: usize) {
    if memory.len() != bytes {
        *memory = vec![0; bytes];
    }
}

/// The contribution with what was held back, if anything was.
fn compensated<'a>(
    float: Float,
    buffer: &'a [u8],
    held_back: &'a [u8],
) -> impl Iterator<Item = f64> + 'a {
    let held_back = float.of_sums().read(held_back).chain(iter::repeat(0.0));
    let pairs = float.read(buffer).zip(held_back);
    pairs.map(|(own, held_back)| own + held_back)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An infinite element would make its whole frame NaN, on every peer.
    #[test]
    fn what_was_held_back_makes_no_finite_contribution_infinite() {
        let greatest = half::f16::MAX.to_le_bytes();
        let rests = 16_f32.to_le_bytes().to_vec();
        let holding = Some(Holding {
            float: Float::F16,
            rests,
        });
        let mut feedback = ErrorFeedback {
            holding,
            ..ErrorFeedback::default()
        };
        let mut buffer = greatest;

        let noting = feedback.begin(ElementType::F16, &buffer).unwrap();
        let said = noting.src.to_vec();
        feedback.finish(ElementType::F16, &mut buffer);

        assert_eq!(said, greatest);
        assert_eq!(feedback.held_back().collect::<Vec<_>>(), [16.0]);
    }
}
