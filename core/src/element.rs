//! The specification of a collective: its kind, element type, operation and quantization, and the fields in which two
//! peers differ for the same tag.

use core::fmt;
use core::mem::discriminant;
use serde::{Deserialize, Serialize};

use crate::id::{Membership, PeerId};
use crate::lengths::Lengths;
use crate::plan::Algorithm;

/// The kind of a collective. The buffers of all participants have the same number of elements, except for
/// [`AllGatherV`](Self::AllGatherV).
///
/// A buffer is divided into as many *shards* as there are participants ([`Shards`](crate::plan::Shards)), one for
/// each. The `Root` names the root by its peer, or, in a [`Plan`](crate::plan::Plan), by its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CollectiveKind<Root = PeerId> {
    /// All participants end with the combination of all contributions.
    AllReduce,
    /// Each participant ends with its shard of the combination of all contributions, in its place. The rest of its
    /// buffer is unchanged.
    ReduceScatter,
    /// Each participant contributes its shard, and all end with all shards.
    AllGather {
        /// The participants for which the shards were laid out. If the actual participants differ, the collective
        /// does not start: the content of one shard must not be taken for another.
        laid_out_for: Membership,
    },
    /// Each participant contributes any number of elements, and all end with all contributions, in the order of the
    /// ranks, as in `MPI_Allgatherv`. The [`Lengths`] of the contributions are known when it starts.
    AllGatherV {
        /// Number of elements that this peer contributes; zero is permitted. It may differ between peers.
        own: u64,
        /// Maximum number of elements of all contributions together. If there are more, the collective does not
        /// start.
        limit: u64,
    },
    /// All participants end with the buffer of the root.
    Broadcast {
        /// The root.
        root: Root,
    },
    /// No data is sent. It ends once all participants have called it.
    Barrier,
}

impl<Root> CollectiveKind<Root> {
    /// Whether contributions are combined. If not, the operation is [`ReduceOp::Sum`] and has no meaning.
    #[must_use]
    pub const fn reduces(&self) -> bool {
        match self {
            Self::AllReduce | Self::ReduceScatter => true,
            Self::AllGather { .. }
            | Self::AllGatherV { .. }
            | Self::Broadcast { .. }
            | Self::Barrier => false,
        }
    }

    /// Whether all participants end with the shards of all, each of which one other participant holds at some time.
    #[must_use]
    pub const fn gathers(&self) -> bool {
        match self {
            Self::AllReduce | Self::AllGather { .. } | Self::AllGatherV { .. } => true,
            Self::ReduceScatter | Self::Broadcast { .. } | Self::Barrier => false,
        }
    }

    /// The root, if there is one.
    #[must_use]
    pub const fn root(&self) -> Option<&Root> {
        match self {
            Self::Broadcast { root } => Some(root),
            Self::AllReduce
            | Self::ReduceScatter
            | Self::AllGather { .. }
            | Self::AllGatherV { .. }
            | Self::Barrier => None,
        }
    }

    /// The participants for which the gathered shards were laid out.
    #[must_use]
    pub const fn laid_out_for(&self) -> Option<Membership> {
        match self {
            Self::AllGather { laid_out_for } => Some(*laid_out_for),
            Self::AllReduce
            | Self::ReduceScatter
            | Self::AllGatherV { .. }
            | Self::Broadcast { .. }
            | Self::Barrier => None,
        }
    }

    /// Number of elements that this peer contributes, and the maximum of all peers together. `None` if all buffers
    /// have the same length.
    #[must_use]
    pub const fn own_and_limit(&self) -> Option<(u64, u64)> {
        match self {
            Self::AllGatherV { own, limit } => Some((*own, *limit)),
            Self::AllReduce
            | Self::ReduceScatter
            | Self::AllGather { .. }
            | Self::Broadcast { .. }
            | Self::Barrier => None,
        }
    }
}

impl CollectiveKind {
    /// The same kind among these peers, by rank. `None` if the root is not one of them.
    ///
    /// ```
    /// use pccl_core::element::CollectiveKind;
    /// use pccl_core::id::PeerId;
    ///
    /// let kind = CollectiveKind::Broadcast { root: PeerId(7) };
    ///
    /// assert_eq!(kind.among(&[PeerId(3), PeerId(7)]), Some(CollectiveKind::Broadcast { root: 1 }));
    /// assert_eq!(kind.among(&[PeerId(3)]), None);
    /// ```
    #[must_use]
    pub fn among(&self, ranks: &[PeerId]) -> Option<CollectiveKind<u32>> {
        Some(match self {
            Self::AllReduce => CollectiveKind::AllReduce,
            Self::ReduceScatter => CollectiveKind::ReduceScatter,
            Self::AllGather { laid_out_for } => CollectiveKind::AllGather {
                laid_out_for: *laid_out_for,
            },
            Self::AllGatherV { own, limit } => CollectiveKind::AllGatherV {
                own: *own,
                limit: *limit,
            },
            Self::Broadcast { root } => CollectiveKind::Broadcast {
                root: u32::try_from(ranks.iter().position(|peer| peer == root)?).ok()?,
            },
            Self::Barrier => CollectiveKind::Barrier,
        })
    }
}

impl<Root> fmt::Display for CollectiveKind<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather { .. } => "all-gather",
            Self::AllGatherV { .. } => "all-gather of different lengths",
            Self::Broadcast { .. } => "broadcast",
            Self::Barrier => "barrier",
        })
    }
}

/// Type of the elements of a buffer. Little-endian on the wire.
///
/// `F16` is IEEE 754 binary16 (5 bits of exponent, 10 of mantissa), `BF16` the upper half of an `f32`
/// (8 bits of exponent, 7 of mantissa).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ElementType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

impl ElementType {
    /// Every element type, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
    ];

    /// Size of one element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a float of any size. Only floats can be quantized.
    ///
    /// ```
    /// use pccl_core::element::ElementType;
    ///
    /// let floats: Vec<String> = ElementType::ALL
    ///     .into_iter()
    ///     .filter(|element| element.is_float())
    ///     .map(|element| element.to_string())
    ///     .collect();
    /// assert_eq!(floats, ["f16", "bf16", "f32", "f64"]);
    /// ```
    #[must_use]
    pub const fn is_float(self) -> bool {
        match self {
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => true,
            Self::U8
            | Self::I8
            | Self::U16
            | Self::I16
            | Self::U32
            | Self::I32
            | Self::U64
            | Self::I64 => false,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// How the contributions of the peers are combined, element by element.
///
/// - Integer sums and products wrap. [`Avg`](Self::Avg) sums, then divides once by the number of contributors;
///   integer division truncates towards zero, and a sum that has wrapped stays wrapped.
/// - Float sums and products are rounded to nearest at each contribution. Halves are added, multiplied and divided in
///   `f32`, and rounded to the half once per contribution.
/// - A NaN in any contribution gives NaN, also for [`Max`](Self::Max) and [`Min`](Self::Min): positive, quiet, no
///   payload. The maximum of the two zeros is `+0`, their minimum `-0`.
/// - [`WeightedAvg`](Self::WeightedAvg) multiplies each contribution by its weight over the sum of all weights, rounds
///   it to the type (halves to `f32` before), and sums. A contribution of weight zero counts as zeros, whatever it holds.
/// - If there is only one contributor, its contribution is unchanged, bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Avg,
    WeightedAvg {
        /// The weight of this peer's contribution.
        own: u32,
        /// The sum of the weights of all contributions; zero until it [is known](CollectiveSpec::of_weights).
        total: u64,
    },
    Prod,
    Max,
    Min,
}

impl ReduceOp {
    /// The weight of this peer's contribution, if contributions have weights.
    #[must_use]
    pub const fn weight(&self) -> Option<u32> {
        match self {
            Self::WeightedAvg { own, .. } => Some(*own),
            Self::Sum | Self::Avg | Self::Prod | Self::Max | Self::Min => None,
        }
    }

    /// The sum of the weights of all contributions; zero if contributions have no weights or it is not known.
    #[must_use]
    pub const fn total_weight(&self) -> u64 {
        match self {
            Self::WeightedAvg { total, .. } => *total,
            Self::Sum | Self::Avg | Self::Prod | Self::Max | Self::Min => 0,
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::WeightedAvg { .. } => "weighted avg",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
        })
    }
}

/// How floats are quantized between ranks: fewer bits per element, at the price of precision.
///
/// # Frames
/// Elements are quantized frame by frame, and each frame has its own parameters. So the error depends on the range of
/// the elements of one frame. A buffer is cut into a shard for each rank (that of a broadcast is one shard), a shard into
/// a chunk for each lane in use, and a chunk into frames of 65,536 elements; the last frame of a chunk has the rest. Each
/// rank on a chunk's way decodes a frame, reduces in `f32` (`f64` for `F64`), and encodes the result again. With
/// [`Direct`](Algorithm::Direct) contributions meet at one rank, so an element is encoded twice, and with
/// [`TwoLevel`](Algorithm::TwoLevel) three times at most. With [`TwoLevelRing`](Algorithm::TwoLevelRing) it is encoded
/// once at its own site and once at each site that its sum passes. If nothing is reduced, it is encoded once, by the rank
/// that contributes it. An element becomes the nearest value of its frame's grid.
///
/// # Infinity and NaN
/// If one contribution, or one partial sum, is infinite or NaN, all elements of its frame are NaN in the result. With
/// [`Blockwise4`](Self::Blockwise4) only those of its block of 64 elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quantization {
    /// Elements are sent unchanged.
    None,
    /// A grid from the smallest to the largest element of a frame.
    MinMax {
        /// Type of the elements on the wire: `U8` (256 grid values) or `U16` (65,536).
        to: ElementType,
    },
    /// A grid of 256 values from the smallest to the largest element of a frame and zero: zero stays exactly zero.
    /// Its parameters are a zero point and a scale.
    ZeroPointScale {
        /// Type of the elements on the wire: `U8` or `I8`.
        to: ElementType,
    },
    /// Four bits per element: a grid of 16 values from the smallest to the largest element of each block of 64. The
    /// last block of a frame has the rest.
    Blockwise4,
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no quantization"),
            Self::MinMax { to } => write!(f, "min-max quantization to {to}"),
            Self::ZeroPointScale { to } => write!(f, "zero-point-scale quantization to {to}"),
            Self::Blockwise4 => f.write_str("blockwise quantization to 4 bits"),
        }
    }
}

/// The specification of a collective under a tag. All peers of the group must specify the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectiveSpec {
    /// The kind.
    pub kind: CollectiveKind,
    /// The operation; [`ReduceOp::Sum`] if the kind [reduces](CollectiveKind::reduces) nothing.
    pub op: ReduceOp,
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements of the whole buffer; zero is permitted. For an [`AllGatherV`](CollectiveKind::AllGatherV)
    /// it is zero until the [lengths](Self::of_lengths) are known.
    pub count: u64,
    /// How the elements are quantized between ranks.
    pub quantization: Quantization,
    /// The requested algorithm, which is used if possible. `None`: the master chooses.
    pub algorithm: Option<Algorithm>,
    /// Whether contributions are combined in the order of the peers' ids, on any ring and with any algorithm. `false`
    /// if the kind does not [reduce](CollectiveKind::reduces). Must not be combined with quantization.
    pub ordered: bool,
}

/// A field of a [`CollectiveSpec`] in which peers may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpecField {
    /// For example an all-reduce and a broadcast.
    Kind,
    /// Broadcasts from different peers.
    Root,
    /// For example a sum and a maximum.
    Operation,
    /// For example `f32` and `f64`.
    ElementType,
    /// Different lengths of the buffer.
    Count,
    /// Quantized and not, or quantized differently.
    Quantization,
    /// Different requested algorithms.
    Algorithm,
    /// Different limits of an all-gather of different lengths.
    Limit,
    /// In the order of the peers' ids, and in any order.
    Ordered,
}

impl SpecField {
    /// Every field, in the order in which they are compared.
    pub const ALL: [Self; 9] = [
        Self::Kind,
        Self::Root,
        Self::Operation,
        Self::ElementType,
        Self::Count,
        Self::Quantization,
        Self::Algorithm,
        Self::Limit,
        Self::Ordered,
    ];
}

impl fmt::Display for SpecField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "kind",
            Self::Root => "root",
            Self::Operation => "operation",
            Self::ElementType => "element type",
            Self::Count => "element count",
            Self::Quantization => "quantization",
            Self::Algorithm => "algorithm",
            Self::Limit => "limit",
            Self::Ordered => "order of the additions",
        })
    }
}

/// The value of one field of a [`CollectiveSpec`]. Its text is part of the message that says where two peers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum SpecValue {
    Kind(CollectiveKind),
    Root(Option<PeerId>),
    Operation(ReduceOp),
    ElementType(ElementType),
    Count(u64),
    Quantization(Quantization),
    Algorithm(Option<Algorithm>),
    Limit(Option<u64>),
    Ordered(bool),
}

impl fmt::Display for SpecValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Root(Some(root)) => root.fmt(f),
            Self::Root(None) => f.write_str("no root"),
            Self::Operation(op) => op.fmt(f),
            Self::ElementType(element) => element.fmt(f),
            Self::Count(count) | Self::Limit(Some(count)) => write!(f, "{count} elements"),
            Self::Limit(None) => f.write_str("no limit"),
            Self::Quantization(quantization) => quantization.fmt(f),
            Self::Algorithm(Some(algorithm)) => algorithm.fmt(f),
            Self::Algorithm(None) => f.write_str("any algorithm"),
            Self::Ordered(true) => f.write_str("the order of the peer ids"),
            Self::Ordered(false) => f.write_str("any order"),
        }
    }
}

impl CollectiveSpec {
    /// The value of this field.
    #[must_use]
    pub const fn value(&self, field: SpecField) -> SpecValue {
        match field {
            SpecField::Kind => SpecValue::Kind(self.kind),
            SpecField::Root => SpecValue::Root(self.kind.root().copied()),
            SpecField::Operation => SpecValue::Operation(self.op),
            SpecField::ElementType => SpecValue::ElementType(self.element),
            SpecField::Count => SpecValue::Count(self.count),
            SpecField::Quantization => SpecValue::Quantization(self.quantization),
            SpecField::Algorithm => SpecValue::Algorithm(self.algorithm),
            SpecField::Limit => SpecValue::Limit(self.limit()),
            SpecField::Ordered => SpecValue::Ordered(self.ordered),
        }
    }

    /// The first field in which the two differ. `None` if they are equal.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<SpecField> {
        SpecField::ALL
            .into_iter()
            .find(|field| self.differs_in(other, *field))
    }

    /// Whether the two differ in this field.
    #[must_use]
    pub fn differs_in(&self, other: &Self, field: SpecField) -> bool {
        match field {
            SpecField::Kind => discriminant(&self.kind) != discriminant(&other.kind),
            SpecField::Root => self.kind.root() != other.kind.root(),
            SpecField::Operation => discriminant(&self.op) != discriminant(&other.op),
            SpecField::ElementType => self.element != other.element,
            SpecField::Count => self.count != other.count,
            SpecField::Quantization => self.quantization != other.quantization,
            SpecField::Algorithm => self.algorithm != other.algorithm,
            SpecField::Limit => self.limit() != other.limit(),
            SpecField::Ordered => self.ordered != other.ordered,
        }
    }

    /// Bytes of the whole buffer in memory, saturating at `u64::MAX`.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.element.size() as u64)
    }

    /// Bytes of the whole buffer on its way between ranks: as a rule fewer than in memory if it is quantized. The two
    /// parameters of a frame are not counted, those of a block are.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        let per_element = match self.quantization {
            Quantization::None => self.element.size(),
            Quantization::MinMax { to } | Quantization::ZeroPointScale { to } => to.size(),
            Quantization::Blockwise4 => {
                // The parameters of a block are `f64` for `f64`, and otherwise `f32`.
                let of_block = if self.element.size() > 4 { 16 } else { 8 };
                let blocks = self.count.div_ceil(64).saturating_mul(of_block);
                return self.count.div_ceil(2).saturating_add(blocks);
            }
        };
        self.count.saturating_mul(per_element as u64)
    }

    const fn limit(&self) -> Option<u64> {
        match self.kind.own_and_limit() {
            Some((_, limit)) => Some(limit),
            None => None,
        }
    }

    /// The same specification with the number of elements of all contributions, which have these lengths. `None` if
    /// their sum exceeds the limit, or if the kind takes no lengths.
    ///
    /// ```
    /// use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
    /// use pccl_core::lengths::Lengths;
    ///
    /// let spec = CollectiveSpec {
    ///     kind: CollectiveKind::AllGatherV { own: 2, limit: 10 },
    ///     op: ReduceOp::Sum,
    ///     element: ElementType::F32,
    ///     count: 0,
    ///     quantization: Quantization::None,
    ///     algorithm: None,
    ///     ordered: false,
    /// };
    ///
    /// let known = spec.of_lengths(&Lengths(vec![2, 0, 5])).map(|spec| spec.count);
    /// assert_eq!(known, Some(7));
    /// assert_eq!(spec.of_lengths(&Lengths(vec![2, 9])), None);
    /// ```
    #[must_use]
    pub fn of_lengths(&self, lengths: &Lengths) -> Option<Self> {
        let count = match self.limit() {
            Some(limit) => lengths.total().filter(|total| *total <= limit)?,
            None if lengths.0.is_empty() => self.count,
            None => return None,
        };
        Some(Self { count, ..*self })
    }

    /// The same with the sum of the weights of all contributions, zero if they have none. `None`: the operation takes no
    /// weights, or the sum is zero or less than the weight of this peer.
    ///
    /// ```
    /// use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
    ///
    /// let spec = CollectiveSpec {
    ///     kind: CollectiveKind::AllReduce,
    ///     op: ReduceOp::WeightedAvg { own: 3, total: 0 },
    ///     element: ElementType::F32,
    ///     count: 10,
    ///     quantization: Quantization::None,
    ///     algorithm: None,
    ///     ordered: false,
    /// };
    ///
    /// let known = spec.of_weights(8).map(|spec| spec.op);
    /// assert_eq!(known, Some(ReduceOp::WeightedAvg { own: 3, total: 8 }));
    /// assert_eq!(spec.of_weights(2), None);
    /// ```
    #[must_use]
    pub const fn of_weights(&self, total: u64) -> Option<Self> {
        let op = match (self.op.weight(), total) {
            (None, 0) => self.op,
            (Some(own), total) if total > 0 && total >= own as u64 => {
                ReduceOp::WeightedAvg { own, total }
            }
            (None | Some(_), _) => return None,
        };
        Some(Self { op, ..*self })
    }
}
