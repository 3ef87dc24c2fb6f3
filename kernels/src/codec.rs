//! Quantization: floats are encoded as small integers for slow links.
//!
//! Each frame is encoded by itself. Its codes are the points of an even grid over the range of its elements, and an
//! element becomes the nearest point. The frame carries the parameters of its grid.

mod blockwise;
mod decoding;
mod extent;
pub(crate) mod grid;
pub(crate) mod job;
pub(crate) mod linear;
pub(crate) mod real;
pub(crate) mod steps;

use std::num::NonZeroUsize;

use crate::divide::divide;
use crate::element::{ElementType, KernelError, Op, check_pair, check_whole};
use crate::half::{Bf16, F16};
use crate::isa::Isa;
use grid::Kind;
use job::{Decode, Encode, Job, Reduce, Residual};
use real::Float;

/// How elements become codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// 256 values from the smallest element of the frame to the largest. If all elements are the same number, the
    /// frame decodes to exactly that number; zeros of either sign decode to +0.
    MinMaxU8,
    /// As `MinMaxU8`, with 65,536 values.
    MinMaxU16,
    /// 256 values whose range contains 0, which decodes to exactly 0.
    ZeroPointU8,
    /// As `ZeroPointU8`, with codes from -128 to 127.
    ZeroPointI8,
    /// 16 values from the smallest to the largest element of each block of 64. The last block of a frame may be
    /// shorter.
    Blockwise4,
}

impl Scheme {
    /// All schemes, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::MinMaxU8,
        Self::MinMaxU16,
        Self::ZeroPointU8,
        Self::ZeroPointI8,
        Self::Blockwise4,
    ];

    /// Number of steps from the smallest to the largest value.
    const fn levels(self) -> u32 {
        match self {
            Self::MinMaxU8 | Self::ZeroPointU8 | Self::ZeroPointI8 => 255,
            Self::MinMaxU16 => 65_535,
            Self::Blockwise4 => 15,
        }
    }
}

/// Encodes frames of floats, and decodes them.
///
/// All slices are plain little-endian bytes at any address. A frame that [`encode`](Self::encode) or
/// [`encode_sums`](Self::encode_sums) has encoded has [`encoded_len`](Self::encoded_len) bytes. To decode it, its
/// number of elements, its element type and its scheme must be known. The same input gives the same bytes on every
/// machine.
///
/// # Layout of a frame
/// | scheme | frame |
/// |---|---|
/// | min-max | smallest element, scale, codes |
/// | zero-point | scale, zero point, codes |
/// | blockwise | for each 64 elements: smallest element, scale, 32 bytes with two codes each |
///
/// Parameters are of type [`sum_element`](Self::sum_element). A code stands for `least + code · scale`, or `(code -
/// zero point) · scale`, where `least` is the smallest element.
///
/// # Error
/// An element becomes the nearest of the values of the codes. If two are equally near, it becomes the one with the
/// even code, so that errors have no direction. Let `levels` be the number of steps from the smallest to the largest
/// element (with zero-point: 0 included): 255, 65,535 or 15. An element differs from its decoded value by at most
///
/// ```text
/// scale · (1/2 + 1/64) + 16 · ε · m + u · m,    scale = (greatest - least) / levels
/// ```
///
/// where `m` is the largest absolute value in the frame, `ε` is 2⁻²⁴ (2⁻⁵³ for `F64`), and `u`, for halves only, is
/// the rounding of the half: 2⁻¹¹ for `F16`, 2⁻⁸ for `BF16`. If the result is subnormal, add one smallest subnormal
/// number. [`error_bound`](Self::error_bound) returns this bound.
///
/// Repeated encoding and decoding does not drift. The second encoding may move an element once more, by at most the
/// bound, if an extreme of the frame was not a point of its own grid. After that no element moves.
///
/// A frame (blockwise: a block) with an infinity or a NaN decodes to NaN everywhere, so a poisoned value stays
/// visible. If no element exceeds the largest finite number by more than the distance of two points, decoded values
/// beyond it become that number. Sums of halves may exceed it further. Then every decoded value beyond the range of
/// the half is infinite, even if the sum was inside by less than half a distance.
///
/// A frame from the network may hold any bytes: decoding returns some numbers, and never panics.
///
/// ```
/// use pccl_kernels::{Codec, ElementType, Op, Scheme};
///
/// let codec = Codec::new(ElementType::F32, Scheme::MinMaxU8)?;
/// let theirs = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
/// let mut frame = vec![0; codec.encoded_len(4)];
/// codec.encode(&theirs, &mut frame)?;
///
/// let own = [10.0_f32, 10.0, 10.0, 10.0].map(f32::to_le_bytes).concat();
/// let mut sums = vec![0; 4 * codec.sum_element().size()];
/// codec.reduce(Op::Sum, &own, &frame, &mut sums)?;
/// codec.encode_sums(&sums, &mut frame)?;
///
/// let mut result = vec![0; 16];
/// codec.decode(&frame, &mut result)?;
/// let bound = codec.error_bound(1.0, 4.0) + codec.error_bound(11.0, 14.0);
/// for (bytes, exact) in result.as_chunks::<4>().0.iter().zip([11.0, 12.0, 13.0, 14.0]) {
///     assert!((f64::from(f32::from_le_bytes(*bytes)) - exact).abs() <= bound);
/// }
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codec {
    float: FloatElement,
    scheme: Scheme,
}

/// The element types that have a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FloatElement {
    F16,
    BF16,
    F32,
    F64,
}

impl Codec {
    /// A codec for elements of type `element`: `F16`, `BF16`, `F32` or `F64`.
    ///
    /// # Errors
    /// [`KernelError::NotAFloat`] for all other types.
    pub const fn new(element: ElementType, scheme: Scheme) -> Result<Self, KernelError> {
        let float = match element {
            ElementType::F16 => FloatElement::F16,
            ElementType::BF16 => FloatElement::BF16,
            ElementType::F32 => FloatElement::F32,
            ElementType::F64 => FloatElement::F64,
            ElementType::U8
            | ElementType::I8
            | ElementType::U16
            | ElementType::I16
            | ElementType::U32
            | ElementType::I32
            | ElementType::U64
            | ElementType::I64 => return Err(KernelError::NotAFloat { element }),
        };
        Ok(Self { float, scheme })
    }

    /// The type of the encoded and decoded elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        match self.float {
            FloatElement::F16 => ElementType::F16,
            FloatElement::BF16 => ElementType::BF16,
            FloatElement::F32 => ElementType::F32,
            FloatElement::F64 => ElementType::F64,
        }
    }

    /// How elements become codes.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The type of running sums, and of a frame's parameters: `F32` for halves and `F32`, `F64` for `F64`.
    #[must_use]
    pub const fn sum_element(&self) -> ElementType {
        self.of_sums().element()
    }

    /// A codec of the same scheme for elements of type [`sum_element`](Self::sum_element). It encodes sums.
    #[must_use]
    pub const fn of_sums(self) -> Self {
        let float = match self.float {
            FloatElement::F16 | FloatElement::BF16 | FloatElement::F32 => FloatElement::F32,
            FloatElement::F64 => FloatElement::F64,
        };
        Self {
            float,
            scheme: self.scheme,
        }
    }

    /// Length in bytes of a frame of `elements` elements. Zero for no elements, and never less for more elements.
    /// `usize::MAX`, which is longer than any slice, if the length does not fit.
    #[must_use]
    pub const fn encoded_len(&self, elements: usize) -> usize {
        if elements == 0 {
            return 0;
        }
        let header = 2 * self.sum_element().size();
        match self.scheme {
            Scheme::MinMaxU8 | Scheme::ZeroPointU8 | Scheme::ZeroPointI8 => {
                elements.saturating_add(header)
            }
            Scheme::MinMaxU16 => elements.saturating_mul(2).saturating_add(header),
            // Less than a byte for each element.
            Scheme::Blockwise4 => {
                elements.div_ceil(blockwise::BLOCK) * header + elements.div_ceil(2)
            }
        }
    }

    /// Encodes one frame.
    ///
    /// `elements` holds whole elements of [`element`](Self::element). `encoded` must have
    /// [`encoded_len`](Self::encoded_len) bytes, and is overwritten.
    ///
    /// # Errors
    /// [`KernelError::PartialElement`] and [`KernelError::EncodedLength`]. Nothing was changed.
    pub fn encode(&self, elements: &[u8], encoded: &mut [u8]) -> Result<(), KernelError> {
        self.check(self.element(), elements.len(), encoded.len())?;
        self.dispatch(Isa::best(), Encode { elements, encoded });
        Ok(())
    }

    /// Decodes a frame and combines it with this peer's elements: `sums[i] = decoded[i] op own[i]`.
    ///
    /// `own` holds elements of [`element`](Self::element). `sums` holds as many elements of
    /// [`sum_element`](Self::sum_element), and is overwritten. No intermediate value is rounded to a half. NaN and
    /// zeros are treated as by [`reduce()`](crate::reduce()).
    ///
    /// # Errors
    /// [`KernelError::PartialElement`], [`KernelError::LengthMismatch`] and [`KernelError::EncodedLength`]. Nothing
    /// was changed.
    pub fn reduce(
        &self,
        op: Op,
        own: &[u8],
        encoded: &[u8],
        sums: &mut [u8],
    ) -> Result<(), KernelError> {
        self.check(self.element(), own.len(), encoded.len())?;
        self.check_sums(own.len(), sums.len())?;
        let operands = Reduce {
            op,
            own,
            encoded,
            sums,
        };
        self.dispatch(Isa::best(), operands);
        Ok(())
    }

    /// Encodes a frame of sums, as [`encode`](Self::encode) encodes a frame of elements. It decodes to elements.
    ///
    /// # Errors
    /// [`KernelError::PartialElement`] and [`KernelError::EncodedLength`]. Nothing was changed.
    pub fn encode_sums(&self, sums: &[u8], encoded: &mut [u8]) -> Result<(), KernelError> {
        self.of_sums().encode(sums, encoded)
    }

    /// Divides each element of `sums`, which are of type [`sum_element`](Self::sum_element). See [`divide()`].
    ///
    /// # Errors
    /// [`KernelError::PartialElement`] and [`KernelError::ZeroDivisor`]. Nothing was changed.
    pub fn divide_sums(&self, sums: &mut [u8], by: u32) -> Result<(), KernelError> {
        divide(self.sum_element(), sums, by)
    }

    /// Decodes one frame.
    ///
    /// `elements` must have room for as many whole elements of [`element`](Self::element) as the frame has, and is
    /// overwritten.
    ///
    /// # Errors
    /// [`KernelError::PartialElement`] and [`KernelError::EncodedLength`]. Nothing was changed.
    pub fn decode(&self, encoded: &[u8], elements: &mut [u8]) -> Result<(), KernelError> {
        self.check(self.element(), elements.len(), encoded.len())?;
        self.dispatch(Isa::best(), Decode { encoded, elements });
        Ok(())
    }

    /// The error of encoding: `residuals[i]` = `elements[i]` minus its decoded value, if `elements` is encoded in
    /// frames of `frame_elements` elements (the last one may be shorter).
    ///
    /// `elements` is of type [`element`](Self::element). `residuals` has as many elements of
    /// [`sum_element`](Self::sum_element), and is overwritten. If a frame (blockwise: a block) contains an infinity
    /// or a NaN, its residuals are 0. For training loops that add the residuals of one step to the gradients of the
    /// next.
    ///
    /// # Errors
    /// [`KernelError::PartialElement`] and [`KernelError::LengthMismatch`]. Nothing was changed.
    pub fn residual(
        &self,
        elements: &[u8],
        frame_elements: NonZeroUsize,
        residuals: &mut [u8],
    ) -> Result<(), KernelError> {
        check_whole(self.element(), elements.len())?;
        self.check_sums(elements.len(), residuals.len())?;
        let elements = elements.chunks(frame_elements.get().saturating_mul(self.element().size()));
        let sum_bytes = self.sum_element().size();
        let residuals = residuals.chunks_mut(frame_elements.get().saturating_mul(sum_bytes));
        for (elements, residuals) in elements.zip(residuals) {
            let operands = Residual {
                elements,
                residuals,
            };
            self.dispatch(Isa::best(), operands);
        }
        Ok(())
    }

    /// Upper bound of the difference between an element and its decoded value, if all elements of the frame are
    /// between `lo` and `hi`. See [above](Self#error).
    #[must_use]
    pub fn error_bound(&self, lo: f64, hi: f64) -> f64 {
        let (lo, hi) = match self.scheme {
            Scheme::MinMaxU8 | Scheme::MinMaxU16 | Scheme::Blockwise4 => (lo, hi),
            Scheme::ZeroPointU8 | Scheme::ZeroPointI8 => (lo.min(0.0), hi.max(0.0)),
        };
        let levels = f64::from(self.scheme.levels());
        // The relative rounding of sums and of elements, and the least subnormal numbers.
        let (sum, element, least_sum, least) = match self.float {
            FloatElement::F16 => (
                2_f64.powi(-24),
                2_f64.powi(-11),
                2_f64.powi(-149),
                2_f64.powi(-24),
            ),
            FloatElement::BF16 => (
                2_f64.powi(-24),
                2_f64.powi(-8),
                2_f64.powi(-149),
                2_f64.powi(-133),
            ),
            FloatElement::F32 => (2_f64.powi(-24), 0.0, 2_f64.powi(-149), 2_f64.powi(-149)),
            FloatElement::F64 => (2_f64.powi(-53), 0.0, f64::from_bits(1), f64::from_bits(1)),
        };
        let largest = lo.abs().max(hi.abs());
        let scale = hi / levels - lo / levels + least_sum;
        scale * (0.5 + 1.0 / 64.0) + largest * (16.0 * sum + element) + least
    }

    /// Checks that an encoded frame and a slice of `len` bytes of `element` hold equally many elements.
    fn check(&self, element: ElementType, len: usize, encoded: usize) -> Result<(), KernelError> {
        check_whole(element, len)?;
        let needed = self.encoded_len(len / element.size());
        if needed == encoded {
            Ok(())
        } else {
            Err(KernelError::EncodedLength {
                needed,
                len: encoded,
            })
        }
    }

    /// Checks that there are as many sums as elements.
    fn check_sums(&self, elements: usize, sums: usize) -> Result<(), KernelError> {
        let needed = elements / self.element().size() * self.sum_element().size();
        check_pair(self.sum_element(), sums, needed)
    }

    /// Runs the one loop of `job` for these elements and this scheme.
    pub(crate) fn dispatch(&self, isa: Isa, job: impl Job) {
        match self.float {
            FloatElement::F16 => self.dispatch_scheme::<F16>(isa, job),
            FloatElement::BF16 => self.dispatch_scheme::<Bf16>(isa, job),
            FloatElement::F32 => self.dispatch_scheme::<f32>(isa, job),
            FloatElement::F64 => self.dispatch_scheme::<f64>(isa, job),
        }
    }

    fn dispatch_scheme<E: Float>(&self, isa: Isa, job: impl Job) {
        match self.scheme {
            Scheme::MinMaxU8 => job.linear::<E, u8>(isa, Kind::MinMax),
            Scheme::MinMaxU16 => job.linear::<E, u16>(isa, Kind::MinMax),
            Scheme::ZeroPointU8 => job.linear::<E, u8>(isa, Kind::ZeroPoint),
            Scheme::ZeroPointI8 => job.linear::<E, i8>(isa, Kind::ZeroPoint),
            Scheme::Blockwise4 => job.blockwise::<E>(isa),
        }
    }
}
