//! What a reduction computes, and what a collective reports.

use std::fmt;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{PeerId, Tag};
use pccl_core::plan::Algorithm;

use crate::collective::supported;
use crate::error::Error;
use crate::phases::Phases;
use crate::suspects::Waited;

/// What an all-reduce or a reduce-scatter computes: the operation, the tag that names it, and its quantization.
///
/// All peers of the group have to pass the same `Reduce` under a tag. Collectives that run at the same
/// time need different tags. A tag may be used again as soon as its collective has ended.
///
/// # The result
///
/// All peers that get an element get the same bits. Contributions are combined one by one, in an order that depends on
/// the [algorithm](CollectiveReport::algorithm), the ranks and the place in the buffer; docs/collectives.md defines it.
/// So the rounding of a float sum may differ from that of another order, and from run to run if ranks differ, unless
/// the reduce is [`ordered`](Self::ordered).
///
/// - Integers wrap.
/// - Halves are added, multiplied and divided in `f32`, and rounded to the half once per contribution.
///   So the average of halves is infinite if their sum is beyond the range of the half, unless it is
///   quantized.
/// - If any contribution is NaN, the result is NaN, always with the same bits (positive, quiet, no payload). The
///   maximum of the two zeros is `+0`, their minimum `-0`.
/// - A single peer keeps its contribution unchanged, including the bits of a NaN.
/// - A quantized reduce (see [`quantize`](Self::quantize)) adds in `f32` (`f64` for `f64`), and whatever is sent is
///   rounded to nearest on the frame's grid. A frame that contains an infinity becomes NaN, and the ranks decide
///   which elements share a frame. To mask elements of a maximum, use the least finite number, not the negative
///   infinity.
///
/// ```
/// use pccl::Reduce;
///
/// let gradients = Reduce::avg();
/// let losses = Reduce::max().tag(1);
/// # assert_ne!(gradients, losses);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "this only says what to reduce; pass it to all_reduce or reduce_scatter"]
pub struct Reduce {
    op: ReduceOp,
    tag: Tag,
    quantization: Quantization,
    algorithm: Option<Algorithm>,
    ordered: bool,
    limit: Option<Duration>,
}

impl Reduce {
    const fn new(op: ReduceOp) -> Self {
        Self {
            op,
            tag: Tag(0),
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
            limit: None,
        }
    }

    /// The sum of all contributions. Integers wrap.
    pub const fn sum() -> Self {
        Self::new(ReduceOp::Sum)
    }

    /// The sum, divided once by the number of contributors. Integer division truncates towards zero.
    pub const fn avg() -> Self {
        Self::new(ReduceOp::Avg)
    }

    /// The average, with a weight for the contribution of each peer: Σ wᵢ·xᵢ / Σ wᵢ. Use it if the peers have batches
    /// of different sizes, with the number of samples or tokens as the weight.
    ///
    /// The weight is that of this peer, and every peer passes its own. The master adds the weights of the participants,
    /// so their sum is exact and the same on all peers; the report has it
    /// ([`total_weight`](CollectiveReport::total_weight)). Each peer multiplies its contribution by wᵢ / Σ wᵢ (computed
    /// in `f64` for `f32` and `f64`, in `f32` for halves), rounds it to the element type, and the products are summed.
    /// So the sum of halves does not leave their range. A contribution of weight zero counts as zeros, whatever it
    /// holds, NaN included.
    ///
    /// It needs memory for one more copy of the buffer. It works with [`quantize`](Self::quantize) and
    /// [`ordered`](Self::ordered).
    ///
    /// # Errors of the reduce
    /// [`Error::NoWeight`] on all peers if the sum of the weights is zero; [`Error::WeightedIntegers`] for integers, and
    /// [`Error::WeightedFeedback`] with an [`ErrorFeedback`](crate::ErrorFeedback), before anything is sent.
    ///
    /// ```
    /// use pccl::{Communicator, Error, Reduce};
    ///
    /// /// The average over all samples, however many each peer had.
    /// fn average(peers: &Communicator, gradients: &mut [f32], samples: u32) -> Result<(), Error> {
    ///     peers.all_reduce(gradients, Reduce::weighted_avg(samples))?;
    ///     Ok(())
    /// }
    /// # let _ = average;
    /// ```
    pub const fn weighted_avg(weight: u32) -> Self {
        Self::new(ReduceOp::WeightedAvg {
            own: weight,
            total: 0,
        })
    }

    /// The product. Integers wrap.
    pub const fn prod() -> Self {
        Self::new(ReduceOp::Prod)
    }

    /// The largest contribution, element by element.
    pub const fn max() -> Self {
        Self::new(ReduceOp::Max)
    }

    /// The smallest contribution, element by element.
    pub const fn min() -> Self {
        Self::new(ReduceOp::Min)
    }

    /// Names the collective. Default: 0.
    pub const fn tag(mut self, tag: u64) -> Self {
        self.tag = Tag(tag);
        self
    }

    /// Quantizes the data that peers send. Only buffers of floats can be quantized. A combination that is not supported
    /// fails with [`Error::NotSupported`] before anything is sent. [`error_bound`](Self::error_bound) returns the
    /// largest error.
    pub const fn quantize(mut self, quantization: Quantization) -> Self {
        self.quantization = quantization;
        self
    }

    /// Requests an algorithm, which overrides the master's choice. All peers of the group have to request the same one.
    ///
    /// If a collective cannot use the algorithm, because the group lacks the links that it needs, because the buffer is
    /// too large, or because it is quantized, it uses another one. A quantized reduce can use `Ring`, `Direct`,
    /// `TwoLevel` and `TwoLevelRing`. The [report](CollectiveReport::algorithm) says which.
    /// Default: none.
    ///
    /// ```
    /// use pccl::{Algorithm, Reduce};
    ///
    /// let gradients = Reduce::sum().algorithm(Algorithm::Direct);
    /// # assert_ne!(gradients, Reduce::sum());
    /// ```
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// Combines contributions in the order of the [peer ids](crate::Communicator::peer_id): the result has the same
    /// bits for the same contributors, whatever the ring, the sites and the algorithm, and a reduce-scatter has those
    /// of an all-reduce. They are the bits of ((a + b) + c) + d, each sum rounded to the type, of peers a < b < c < d;
    /// an average is divided at the end. Another set of contributors may give other bits. All peers of the group have
    /// to ask for it, or get [`Error::Disagreement`].
    ///
    /// The master chooses among the algorithms that keep this order. An ordered reduce sends about as many bytes as an
    /// unordered one in three cases: in a world of two, if there are links between all members, or if the ring is in
    /// the order of the ids, as it is until an optimization changes it. Otherwise a small buffer is sent whole, and a
    /// larger one uses [`Algorithm::Relay`], which then sends up to about N / 2 times as many bytes as a ring.
    /// `pccl-master --max-mesh` and `--max-sites-mesh` set the size up to which a group has all links. A requested
    /// [`algorithm`](Self::algorithm) that does not keep the order is ignored.
    ///
    /// A [quantized](Self::quantize) reduce cannot be ordered, and fails with [`Error::OrderedQuantized`] before
    /// anything is sent. Default: not ordered.
    ///
    /// ```
    /// use pccl::{Communicator, Error, Reduce};
    ///
    /// fn same_bits_in_each_run(peers: &Communicator, gradients: &mut [f32]) -> Result<(), Error> {
    ///     peers.all_reduce(gradients, Reduce::avg().ordered())?;
    ///     Ok(())
    /// }
    /// # let _ = same_bits_in_each_run;
    /// ```
    pub const fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Gives the reduce up if in this time after the call not all peers have called, or this peer's part is not complete.
    /// Peers may pass different limits. Default: no limit; the master's deadlines end a reduce that does not start or
    /// makes no progress (docs/limits.md).
    ///
    /// The call then fails with [`Error::TimeLimit`], and the buffer is unchanged. If the reduce has started, it is
    /// aborted on all other peers ([`Error::Aborted`], [`Cancelled`](crate::AbortCause::Cancelled)); if it has not, the
    /// others wait for this peer to call again. Once all peers have called and this peer's part is complete, it waits for
    /// the master's verdict without a limit, because it may be committed already. If its part was complete before all had
    /// called (docs/collectives.md, "Called again"), it asks the master for its vote back when the limit is over, and the
    /// answer decides. That takes a round trip, and as long as the master is away.
    ///
    /// Of an item of a list, and of a reduce that is repeated, the limit is that of each attempt.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use pccl::Reduce;
    ///
    /// let gradients = Reduce::avg().timeout(Duration::from_secs(30));
    /// # assert_ne!(gradients, Reduce::avg());
    /// ```
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) const fn limit(&self) -> Option<Duration> {
        self.limit
    }

    pub(crate) const fn name(&self) -> Tag {
        self.tag
    }

    pub(crate) const fn op(&self) -> ReduceOp {
        self.op
    }

    pub(crate) const fn quantization(&self) -> Quantization {
        self.quantization
    }

    /// What to tell the master, or why this release cannot do it.
    pub(crate) fn spec_of(
        &self,
        kind: CollectiveKind,
        element: ElementType,
        count: usize,
    ) -> Result<CollectiveSpec, Error> {
        if self.ordered && self.quantization != Quantization::None {
            let quantization = self.quantization;
            return Err(Error::OrderedQuantized { quantization });
        }
        if self.op.weight().is_some() && !element.is_float() {
            return Err(Error::WeightedIntegers { element });
        }
        supported(CollectiveSpec {
            kind,
            op: self.op,
            element,
            count: count as u64,
            quantization: self.quantization,
            algorithm: self.algorithm,
            ordered: self.ordered,
        })
    }

    pub(crate) const fn not_supported(&self, element: ElementType) -> Error {
        Error::NotSupported {
            element,
            quantization: self.quantization,
        }
    }
}

/// What a collective did. Displayed, it is a line for a log, with the [phases](Self::phases) in parentheses:
///
/// ```text
/// two-level, 16 peers at 4 sites, 37748736 bytes sent and 37748736 received in 310.0ms (105.2ms + 104.8ms + 100.0ms)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveReport {
    /// Number of participants.
    pub world_size: usize,
    /// The participants, in ring order. The result of an all-reduce or a reduce-scatter holds their contributions. Some
    /// of them may have left since.
    pub contributors: Vec<PeerId>,
    /// The algorithm, which the master chose for all participants. A barrier moves no data, and reports
    /// [`Algorithm::Ring`].
    pub algorithm: Algorithm,
    /// Number of [sites](crate::Builder::site) of the participants, 1 if all are at one.
    pub sites: usize,
    /// The sum of the weights of all contributions to a [weighted average](Reduce::weighted_avg); zero for all others.
    pub total_weight: u64,
    /// Bytes of payload that this peer sent to other ranks: elements, or frames that encode them.
    /// Only the committed attempt counts; the bytes of aborted attempts do not.
    pub bytes_sent: u64,
    /// The same for what it received from other ranks.
    pub bytes_received: u64,
    /// From the call to its end, including all [`retries`](Self::retries). For an item of a list: from the
    /// beginning of the item.
    pub duration: Duration,
    /// Where the time of the committed attempt went. Aborted attempts are part of `duration` only.
    pub phases: Phases,
    /// Attempts that were aborted before this one. Only
    /// [`all_reduce_many_with_retry`](crate::Communicator::all_reduce_many_with_retry) retries.
    pub retries: u32,
    /// The longest time of at least a second in which nothing moved, and for whom this peer waited then, in any of the
    /// attempts. `None`: bytes moved all the time.
    pub waited: Option<Waited>,
}

impl fmt::Display for CollectiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            world_size,
            algorithm,
            sites,
            bytes_sent,
            bytes_received,
            duration,
            phases,
            ..
        } = self;
        write!(f, "{algorithm}, {world_size} peers")?;
        if *sites > 1 {
            write!(f, " at {sites} sites")?;
        }
        write!(
            f,
            ", {bytes_sent} bytes sent and {bytes_received} received in {duration:.1?} ({phases})"
        )?;
        if self.retries > 0 {
            write!(f, ", {} retries", self.retries)?;
        }
        match &self.waited {
            Some(waited) => write!(f, "; waited {waited}"),
            None => Ok(()),
        }
    }
}
