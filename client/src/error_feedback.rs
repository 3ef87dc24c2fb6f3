//! Making up for what quantization loses, in training loops.

use pccl_core::element::ElementType;

use crate::floats::Float;

/// Adds what quantization has lost in one reduce to this peer's contribution to the next.
///
/// For sums and averages that are taken over and over, as of gradients: numbers that are too small for
/// the steps of their frame would be lost each time, or counted too high each time. With feedback what
/// is lost is kept, by the peer whose encoding lost it, until it is large enough to count. After any
/// number of rounds the sum of all results differs from the exact one only by what the peers hold
/// back at that moment, which is about the error of a single round
/// ([`Reduce::error_bound`](crate::Reduce::error_bound)).
///
/// One feedback goes with one buffer (a layer's gradients, say) through all rounds, in
/// [`all_reduce_with_feedback`](crate::Communicator::all_reduce_with_feedback). Where the number or the
/// type of the elements changes it starts afresh. What a peer holds back is lost with the peer. Other
/// operations than sums and averages, and reduces without quantization, lose nothing that could be
/// made up for: there it only hands out what it holds back.
///
/// Memory: 2 buffers, and 2 more of `f32` (`f64` for `f64`), kept between the rounds.
///
/// After Seide and others, "1-bit stochastic gradient descent" (2014), and Karimireddy and others,
/// "Error feedback fixes SignSGD and other gradient compression schemes" (2019). There each peer keeps
/// what encoding its own contribution loses. In a ring partial sums are encoded as well, so each peer
/// keeps what its encodings of those lose too; without that the errors of many rounds would add up as
/// without feedback.
///
/// ```no_run
/// # fn train() -> Vec<f32> { Vec::new() }
/// # fn example(comm: pccl::Communicator) -> Result<(), pccl::Error> {
/// use pccl::{ElementType, ErrorFeedback, Quantization, Reduce};
///
/// let to_bytes = Quantization::MinMax { to: ElementType::U8 };
/// let mut feedback = ErrorFeedback::new();
/// loop {
///     let mut gradients = train();
///     comm.all_reduce_with_feedback(
///         &mut gradients,
///         Reduce::avg().quantize(to_bytes),
///         &mut feedback,
///     )?;
/// }
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ErrorFeedback {
    /// Of what type the elements are; `None` before the first round.
    float: Option<Float>,
    /// What this peer holds back, in the type of sums.
    held_back: Vec<u8>,
    /// The contribution with that.
    contribution: Vec<u8>,
    result: Vec<u8>,
    /// What will be held back if the round succeeds.
    losses: Vec<u8>,
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
        let float = self.float.unwrap_or(Float::F32);
        float.of_sums().read(&self.held_back)
    }

    /// Source, result and losses for one round. `None` for integers.
    pub(crate) fn begin(
        &mut self,
        element: ElementType,
        buffer: &[u8],
    ) -> Option<(&[u8], &mut [u8], &mut [u8])> {
        let float = Float::of(element)?;
        let bytes_of_sums = buffer.len() / float.size() * float.of_sums().size();
        if self.float != Some(float) || self.held_back.len() != bytes_of_sums {
            self.reset();
            self.float = Some(float);
            self.held_back = vec![0; bytes_of_sums];
            self.losses = vec![0; bytes_of_sums];
            self.contribution = vec![0; buffer.len()];
            self.result = vec![0; buffer.len()];
        }
        float.write(
            compensated(float, buffer, &self.held_back),
            &mut self.contribution,
        );
        self.losses.fill(0);
        Some((&self.contribution, &mut self.result, &mut self.losses))
    }

    /// The round has succeeded: `buffer`, which still holds the contribution, gets the result.
    pub(crate) fn finish(&mut self, buffer: &mut [u8]) {
        let Some(float) = self.float else {
            return;
        };
        // Halves cannot take up all that is added to them.
        let wanted = compensated(float, buffer, &self.held_back);
        let not_said = wanted.zip(float.read(&self.contribution));
        let not_said = not_said.map(|(wanted, said)| wanted - said);
        let finite = not_said.map(|rest| if rest.is_finite() { rest } else { 0.0 });
        float.of_sums().add(finite, &mut self.losses);
        std::mem::swap(&mut self.held_back, &mut self.losses);
        buffer.copy_from_slice(&self.result);
    }
}

/// The contribution with what was held back.
fn compensated<'a>(
    float: Float,
    buffer: &'a [u8],
    held_back: &'a [u8],
) -> impl Iterator<Item = f64> + 'a {
    let pairs = float.read(buffer).zip(float.of_sums().read(held_back));
    pairs.map(|(own, held_back)| own + held_back)
}
