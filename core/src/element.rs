//! What a collective computes: element types, operations, quantization, and where two peers' wishes
//! for the same tag differ.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Type of the elements of a buffer. Little-endian on the wire.
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
/// Integer sums and products wrap. [`Avg`](Self::Avg) sums, then divides once by the number of
/// contributors; integer division truncates towards zero.
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

/// How frames of floats are compressed on the way.
///
/// Each frame has parameters of its own; a frame that holds a value that is not finite decodes to NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quantization {
    /// Frames carry the elements as they are.
    None,
    /// Linear between the smallest and the largest element of a frame.
    MinMax {
        /// Type of the elements on the wire: `U8` or `U16`.
        to: ElementType,
    },
    /// A zero point and a scale per frame: zero stays exactly zero.
    ZeroPointScale {
        /// Type of the elements on the wire: `U8` or `I8`.
        to: ElementType,
    },
    /// Four bits per element, linear between the smallest and the largest element of a block of 64.
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
    /// Compression of the frames.
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
    /// Different compression.
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
