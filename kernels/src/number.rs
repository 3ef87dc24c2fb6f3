//! The scalar meaning of every operation on every element type. The loops elsewhere only apply it.

/// One element. `B` is the array of its little-endian bytes.
///
/// Everything here is free of branches on the data, so that a loop over it becomes SIMD code.
pub(crate) trait Number<B>: Copy {
    fn from_bytes(bytes: B) -> Self;
    fn to_bytes(self) -> B;
    fn sum(self, other: Self) -> Self;
    fn prod(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    /// The quotient; integers truncate towards zero. `by` is not zero.
    fn over(self, by: u32) -> Self;
}

macro_rules! integer {
    ($number:ty, wide: $wide:ty) => {
        impl Number<[u8; size_of::<$number>()]> for $number {
            #[inline(always)]
            fn from_bytes(bytes: [u8; size_of::<$number>()]) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn to_bytes(self) -> [u8; size_of::<$number>()] {
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
                // The wide type holds every divisor, which this type may not. The quotient is no
                // greater than the dividend, so it fits back.
                (<$wide>::from(self) / <$wide>::from(by)) as Self
            }
        }
    };
}

integer!(u8, wide: u32);
integer!(u16, wide: u32);
integer!(u32, wide: u32);
integer!(u64, wide: u64);
integer!(i8, wide: i64);
integer!(i16, wide: i64);
integer!(i32, wide: i64);
integer!(i64, wide: i64);

macro_rules! float {
    ($number:ty) => {
        impl Number<[u8; size_of::<$number>()]> for $number {
            #[inline(always)]
            fn from_bytes(bytes: [u8; size_of::<$number>()]) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn to_bytes(self) -> [u8; size_of::<$number>()] {
                // Which sign and payload a computed NaN carries is up to the processor and the
                // compiler, so every NaN leaves as the same one.
                let bits = if self.is_nan() {
                    Self::NAN.to_bits()
                } else {
                    self.to_bits()
                };
                bits.to_le_bytes()
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let greater = if self > other { self } else { other };
                // Equal values have equal bits, the two zeros excepted: `and` makes those +0.
                let tie = Self::from_bits(self.to_bits() & other.to_bits());
                let max = if self == other { tie } else { greater };
                // `greater` is `other` where either is NaN; only a NaN in `self` is lost by that.
                if self.is_nan() { self } else { max }
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let lesser = if self < other { self } else { other };
                // Equal values have equal bits, the two zeros excepted: `or` makes those -0.
                let tie = Self::from_bits(self.to_bits() | other.to_bits());
                let min = if self == other { tie } else { lesser };
                if self.is_nan() { self } else { min }
            }

            #[inline(always)]
            fn over(self, by: u32) -> Self {
                self / by as Self
            }
        }
    };
}

float!(f32);
float!(f64);
