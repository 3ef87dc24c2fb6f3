//! What a collective computes: element types, operations, quantization, and where two peers' wishes
//! for the same tag differ.

use core::fmt;
use serde::{Deserialize, Serialize};

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

    /// Is it a float, of any size? Only floats can be quantized.
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

/// How the contributions of the peers become one value, element by element.
///
/// - Integer sums and products wrap. [`Avg`](Self::Avg) sums, then divides once by the number of
///   contributors; integer division truncates towards zero, and a sum that has wrapped stays wrapped.
/// - Float sums and products are rounded to nearest at each contribution; halves are added, multiplied
///   and divided in `f32`, and rounded to the half once per contribution.
/// - A NaN in any contribution gives NaN, also of [`Max`](Self::Max) and [`Min`](Self::Min): positive,
///   quiet, no payload. The maximum of the two zeros is `+0`, their minimum `-0`.
/// - The only contributor of a collective keeps its contribution bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Avg,
    Prod,
    Max,
    Min,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
        })
    }
}

/// How floats are quantized for their way from rank to rank: fewer bits per element, at the price of
/// precision.
///
/// # Frames
/// Elements are quantized frame by frame, each with parameters of its own, so what is lost depends on
/// how far the elements of one frame lie apart. A buffer is cut into a stripe for each lane in use, a
/// stripe into a chunk for each rank, and a chunk into frames of 65,536 elements; the last frame of a
/// chunk has what is left. Each rank on a chunk's way decodes a frame, reduces in `f32` (`f64` for `F64`)
/// and encodes the result anew. An element becomes the nearest value of its frame's grid.
///
/// # Infinity and NaN
/// One contribution, or one sum on the way, that is infinite or NaN makes all elements of its frame NaN
/// in the result; with [`Blockwise4`](Self::Blockwise4) only those of its block of 64 elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quantization {
    /// Frames carry the elements as they are.
    None,
    /// A grid from the smallest to the largest element of a frame.
    MinMax {
        /// Type of the elements on the wire: `U8` (256 grid values) or `U16` (65,536).
        to: ElementType,
    },
    /// A grid of 256 values from the smallest to the largest element of a frame that includes zero:
    /// zero stays exactly zero. Its parameters are a zero point and a scale.
    ZeroPointScale {
        /// Type of the elements on the wire: `U8` or `I8`.
        to: ElementType,
    },
    /// Four bits per element: a grid of 16 values from the smallest to the largest element of each block
    /// of 64, of which the last in a frame has what is left.
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

/// What one peer asks for under a tag. All peers of the group must ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectiveSpec {
    /// The operation.
    pub op: ReduceOp,
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements, zero included.
    pub count: u64,
    /// How the elements are quantized on their way.
    pub quantization: Quantization,
}

/// The part of a [`CollectiveSpec`] on which peers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpecField {
    /// Sum against max, say.
    Operation,
    /// `f32` against `f64`, say.
    ElementType,
    /// Buffers of different length.
    Count,
    /// Quantized against not, or in different ways.
    Quantization,
}

impl SpecField {
    /// Every field, in the order in which they are compared.
    pub const ALL: [Self; 4] = [
        Self::Operation,
        Self::ElementType,
        Self::Count,
        Self::Quantization,
    ];
}

impl fmt::Display for SpecField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operation => "operation",
            Self::ElementType => "element type",
            Self::Count => "element count",
            Self::Quantization => "quantization",
        })
    }
}

impl CollectiveSpec {
    /// The first field in which the two differ, or `None` where they ask for the same.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<SpecField> {
        SpecField::ALL
            .into_iter()
            .find(|field| self.differs_in(other, *field))
    }

    /// Do the two differ in this field?
    #[must_use]
    pub fn differs_in(&self, other: &Self, field: SpecField) -> bool {
        match field {
            SpecField::Operation => self.op != other.op,
            SpecField::ElementType => self.element != other.element,
            SpecField::Count => self.count != other.count,
            SpecField::Quantization => self.quantization != other.quantization,
        }
    }
}
