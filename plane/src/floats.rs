//! Floats of any type as bytes, one after the other, where speed is not what counts.

use half::{bf16, f16};
use pccl_core::element::ElementType;

/// A float type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Float {
    /// `None` for integers.
    #[must_use]
    pub const fn of(element: ElementType) -> Option<Self> {
        match element {
            ElementType::F16 => Some(Self::F16),
            ElementType::BF16 => Some(Self::BF16),
            ElementType::F32 => Some(Self::F32),
            ElementType::F64 => Some(Self::F64),
            ElementType::U8
            | ElementType::I8
            | ElementType::U16
            | ElementType::I16
            | ElementType::U32
            | ElementType::I32
            | ElementType::U64
            | ElementType::I64 => None,
        }
    }

    /// The type in which encoded frames are summed.
    #[must_use]
    pub const fn of_sums(self) -> Self {
        match self {
            Self::F16 | Self::BF16 | Self::F32 => Self::F32,
            Self::F64 => Self::F64,
        }
    }

    /// In bytes.
    #[inline]
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// The numbers in `bytes`.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> impl Iterator<Item = f64> {
        let elements = bytes.chunks_exact(self.size());
        elements.map(move |element| self.read_one(element))
    }

    #[inline]
    fn read_one(self, element: &[u8]) -> f64 {
        match (self, element) {
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (Self::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
            (Self::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            // Pieces are as long as the type.
            (Self::F16 | Self::BF16 | Self::F32 | Self::F64, _) => f64::NAN,
        }
    }

    /// The greatest finite number.
    #[inline]
    const fn greatest(self) -> f64 {
        match self {
            Self::F16 => 65_504.0,
            Self::BF16 => 3.389_531_389_251_535_5e38,
            Self::F32 => f32::MAX as f64,
            Self::F64 => f64::MAX,
        }
    }

    /// `number`, made of a finite `own`, where it is finite in this type, else the finite one next to it.
    /// What was not finite is as it was.
    #[inline]
    #[must_use]
    pub fn in_range(self, number: f64, own: f64) -> f64 {
        if own.is_finite() {
            number.clamp(-self.greatest(), self.greatest())
        } else {
            number
        }
    }

    /// Writes as many numbers as `bytes` has room for, each rounded (halves by way of `f32` on some
    /// processors).
    pub fn write(self, numbers: impl Iterator<Item = f64>, bytes: &mut [u8]) {
        for (element, number) in bytes.chunks_exact_mut(self.size()).zip(numbers) {
            self.write_one(number, element);
        }
    }

    /// Adds a number to each in `bytes`.
    pub fn add(self, numbers: impl Iterator<Item = f64>, bytes: &mut [u8]) {
        for (element, number) in bytes.chunks_exact_mut(self.size()).zip(numbers) {
            self.write_one(self.read_one(element) + number, element);
        }
    }

    /// `element` is as long as the type.
    #[inline]
    fn write_one(self, number: f64, element: &mut [u8]) {
        match self {
            Self::F16 => element.copy_from_slice(&f16::from_f64(number).to_le_bytes()),
            Self::BF16 => element.copy_from_slice(&bf16::from_f64(number).to_le_bytes()),
            Self::F32 => element.copy_from_slice(&(number as f32).to_le_bytes()),
            Self::F64 => element.copy_from_slice(&number.to_le_bytes()),
        }
    }
}
