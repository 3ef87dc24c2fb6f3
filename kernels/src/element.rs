//! Element types, operations and errors of the kernels.

use std::error::Error;
use std::fmt;

/// Type of the elements in a byte slice, little-endian.
///
/// `F16` is IEEE 754 binary16 (5 bits of exponent, 10 of mantissa), `BF16` the upper half of an
/// `f32` (8 bits of exponent, 7 of mantissa).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// All element types, in the order of their declaration.
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

/// The operation that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Addition. Integers wrap.
    Sum,
    /// Multiplication. Integers wrap.
    Prod,
    /// The larger of the two.
    Max,
    /// The smaller of the two.
    Min,
}

impl Op {
    /// All operations, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Prod, Self::Max, Self::Min];
}

/// Why a call was rejected. No byte was changed. Correct the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// The two slices differ in length.
    LengthMismatch {
        /// Length of the destination in bytes.
        into: usize,
        /// Length of the source in bytes.
        from: usize,
    },
    /// The slice ends in the middle of an element.
    PartialElement {
        /// Length of the slice in bytes.
        len: usize,
        /// The element type.
        element: ElementType,
    },
    /// The divisor of an average is zero.
    ZeroDivisor,
    /// The elements to be quantized or weighted are not floats.
    NotAFloat {
        /// The element type.
        element: ElementType,
    },
    /// The length of an encoded frame does not fit its number of elements.
    EncodedLength {
        /// Required length in bytes.
        needed: usize,
        /// Length of the slice in bytes.
        len: usize,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthMismatch { into, from } => {
                write!(
                    f,
                    "the destination holds {into} bytes but the source {from}"
                )
            }
            Self::PartialElement { len, element } => write!(
                f,
                "{len} bytes do not hold a whole number of {element:?} elements of {} bytes",
                element.size()
            ),
            Self::ZeroDivisor => f.write_str("an average needs at least one contribution"),
            Self::NotAFloat { element } => {
                write!(
                    f,
                    "only floats can be quantized or weighted, not {element:?} elements"
                )
            }
            Self::EncodedLength { needed, len } => {
                write!(
                    f,
                    "an encoded frame of {needed} bytes is needed, not of {len}"
                )
            }
        }
    }
}

impl Error for KernelError {}

/// Checks that a destination and a source of these lengths hold equally many whole elements.
pub(crate) fn check_pair(
    element: ElementType,
    into: usize,
    from: usize,
) -> Result<(), KernelError> {
    if into == from {
        check_whole(element, into)
    } else {
        Err(KernelError::LengthMismatch { into, from })
    }
}

/// Checks that a slice of `len` bytes holds whole elements.
pub(crate) fn check_whole(element: ElementType, len: usize) -> Result<(), KernelError> {
    if len.is_multiple_of(element.size()) {
        Ok(())
    } else {
        Err(KernelError::PartialElement { len, element })
    }
}
