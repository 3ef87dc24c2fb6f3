//! The scalar definition of every operation on every element type. The loops elsewhere only apply it.

/// One element.
///
/// The methods have no branches on the data, so that a loop over them compiles to SIMD code. They are always inlined,
/// so that the loop determines the instruction set for which they are compiled.
pub(crate) trait Number: Copy {
    /// The array of an element's little-endian bytes.
    type Bytes: Copy + 'static;

    fn from_bytes(bytes: Self::Bytes) -> Self;
    fn to_bytes(self) -> Self::Bytes;
    /// The whole elements in `bytes`.
    fn elements(bytes: &[u8]) -> &[Self::Bytes];
    fn elements_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn sum(self, other: Self) -> Self;
    fn prod(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    /// The quotient; integers truncate towards zero. `by` must not be zero.
    fn over(self, by: u32) -> Self;
}

/// One float.
pub(crate) trait Real: Number {
    /// The product, computed in `f64` and rounded to this type, to `f32` before if this is a half.
    fn times(self, factor: f64) -> Self;
}

/// How an element lies in memory.
macro_rules! in_bytes {
    ($bits:ty) => {
        type Bytes = [u8; size_of::<$bits>()];

        #[inline(always)]
        fn elements(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        #[inline(always)]
        fn elements_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
            bytes.as_chunks_mut().0
        }
    };
}
pub(crate) use in_bytes;

macro_rules! integer {
    ($number:ty, quotient: $quotient:expr) => {
        impl Number for $number {
            in_bytes!($number);

            #[inline(always)]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn to_bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn over(self, by: u32) -> Self {
                let quotient: fn(Self, u32) -> Self = $quotient;
                quotient(self, by)
            }
        }
    };
}

integer!(u8, quotient: |a, by| divide_u16(a.into(), by) as Self);
integer!(u16, quotient: divide_u16);
integer!(u32, quotient: divide_u32);
integer!(u64, quotient: |a, by| a / Self::from(by));
integer!(i8, quotient: |a, by| {
    let magnitude = divide_u16(a.unsigned_abs().into(), by) as Self;
    if a < 0 { magnitude.wrapping_neg() } else { magnitude }
});
integer!(i16, quotient: |a, by| {
    let magnitude = divide_u16(a.unsigned_abs(), by) as Self;
    if a < 0 { magnitude.wrapping_neg() } else { magnitude }
});
integer!(i32, quotient: |a, by| {
    let magnitude = divide_u32(a.unsigned_abs(), by) as Self;
    if a < 0 { magnitude.wrapping_neg() } else { magnitude }
});
integer!(i64, quotient: |a, by| a / Self::from(by));

// Processors divide floats in SIMD, integers not. A quotient `a / by` that is no integer is at
// least `1 / by` away from one, its rounding error at most `a / by` divided by 2 to the number of
// mantissa bits: truncation is exact where the dividend has fewer bits than the mantissa. (A
// divisor that `f32` rounds is far beyond every 16-bit dividend, so the quotient is below 1.)
// Adding and subtracting 2 to the number of mantissa bits rounds to a nearby integer, and leaves
// that integer in the low bits of the float; the conversion instructions would not be SIMD.

#[inline(always)]
fn divide_u16(a: u16, by: u32) -> u16 {
    const MAGIC: f32 = (1_u32 << 23) as f32;
    let quotient = f32::from(a) / by as f32;
    let nearest = (quotient + MAGIC) - MAGIC;
    let whole = if nearest > quotient {
        nearest - 1.0
    } else {
        nearest
    };
    (whole + MAGIC).to_bits() as u16
}

#[inline(always)]
fn divide_u32(a: u32, by: u32) -> u32 {
    const MAGIC: f64 = (1_u64 << 52) as f64;
    let quotient = f64::from(a) / f64::from(by);
    let nearest = (quotient + MAGIC) - MAGIC;
    let whole = if nearest > quotient {
        nearest - 1.0
    } else {
        nearest
    };
    (whole + MAGIC).to_bits() as u32
}

/// The sign and payload of a computed NaN depend on the processor and the compiler, so every NaN is replaced by the
/// same one.
macro_rules! canonical {
    ($result:expr) => {{
        let result = $result;
        if result.is_nan() { Self::NAN } else { result }
    }};
}

macro_rules! float {
    ($number:ty) => {
        impl Number for $number {
            in_bytes!($number);

            #[inline(always)]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn to_bytes(self) -> Self::Bytes {
                self.to_bits().to_le_bytes()
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                canonical!(self + other)
            }

            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                canonical!(self * other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let one = if self > other { self } else { other };
                let two = if other > self { other } else { self };
                // The two differ only for zeros of different sign, which `and` makes +0, and for
                // NaN.
                let max = Self::from_bits(one.to_bits() & two.to_bits());
                if self.is_nan() || other.is_nan() {
                    Self::NAN
                } else {
                    max
                }
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let one = if self < other { self } else { other };
                let two = if other < self { other } else { self };
                // The two differ only for zeros of different sign, which `or` makes -0, and for NaN.
                let min = Self::from_bits(one.to_bits() | two.to_bits());
                if self.is_nan() || other.is_nan() {
                    Self::NAN
                } else {
                    min
                }
            }

            #[inline(always)]
            fn over(self, by: u32) -> Self {
                canonical!(self / by as Self)
            }
        }
    };
}

float!(f32);
float!(f64);

impl Real for f32 {
    #[inline(always)]
    fn times(self, factor: f64) -> Self {
        canonical!((f64::from(self) * factor) as Self)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn times(self, factor: f64) -> Self {
        canonical!(self * factor)
    }
}
