//! Element-wise reduction of two slices.

use crate::element::{ElementType, KernelError, Op, check_pair};
use crate::f16_blocks::Converter;
use crate::half::{Bf16, Bf16Pair, F16, whole_pairs};
use crate::isa::{Isa, run, run_op};
use crate::number::Number;

/// `into[i] = into[i] op from[i]` for every element of two slices of equal length.
///
/// Both slices hold whole little-endian elements of type `element`, and may start at any address. The function
/// allocates nothing. Empty slices are permitted.
///
/// - Integer sums and products wrap.
/// - Float sums and products are single IEEE operations, rounded to nearest, never fused. Halves (`F16`, `BF16`) are
///   added and multiplied as `f32`, and then rounded once to the half.
/// - A NaN on either side gives NaN, for every operation: a poisoned value stays visible.
/// - Every NaN that is written has the same bits (positive, quiet, payload zero; `f32::NAN` and `f64::NAN`). The
///   maximum of the two zeros is `+0`, the minimum `-0`. So the bits of one reduction do not depend on which operand
///   is `into`. (A chain of float sums or products still depends on the order of its steps, because of rounding.)
///
/// # Errors
/// [`KernelError::LengthMismatch`] and [`KernelError::PartialElement`]. Nothing was changed.
///
/// ```
/// use pccl_kernels::{ElementType, Op, reduce};
///
/// let mut mine = [1_i16, -2, i16::MAX].map(i16::to_le_bytes).concat();
/// let theirs = [10_i16, 20, 1].map(i16::to_le_bytes).concat();
/// reduce(ElementType::I16, Op::Sum, &mut mine, &theirs)?;
/// assert_eq!(mine, [11_i16, 18, i16::MIN].map(i16::to_le_bytes).concat());
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn reduce(
    element: ElementType,
    op: Op,
    into: &mut [u8],
    from: &[u8],
) -> Result<(), KernelError> {
    check_pair(element, into.len(), from.len())?;
    combine(Isa::best(), element, op, InPlace { into, from });
    Ok(())
}

/// `out[i] = a[i] op b[i]` for every element. `out` is overwritten.
///
/// Slices, values and NaN are as in [`reduce()`].
///
/// # Errors
/// [`KernelError::LengthMismatch`] and [`KernelError::PartialElement`]. Nothing was changed.
///
/// ```
/// use pccl_kernels::{ElementType, Op, reduce_into};
///
/// let mut larger = [0; 3];
/// reduce_into(ElementType::U8, Op::Max, &mut larger, &[1, 5, 9], &[4, 5, 6])?;
/// assert_eq!(larger, [4, 5, 9]);
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn reduce_into(
    element: ElementType,
    op: Op,
    out: &mut [u8],
    a: &[u8],
    b: &[u8],
) -> Result<(), KernelError> {
    check_pair(element, out.len(), a.len())?;
    check_pair(element, out.len(), b.len())?;
    combine(Isa::best(), element, op, OutOfPlace { out, a, b });
    Ok(())
}

/// `saved[i] = into[i]`, then `into[i] = into[i] op from[i]`, in one pass over memory.
///
/// For in-place reductions that must be undone if they fail: to undo one, copy `saved` back. `saved` is overwritten.
/// Slices, values and NaN are as in [`reduce()`]; saved bytes are copied unchanged, whatever NaN they hold.
///
/// # Errors
/// [`KernelError::LengthMismatch`] and [`KernelError::PartialElement`]. Nothing was changed.
///
/// ```
/// use pccl_kernels::{ElementType, Op, reduce_saving};
///
/// let (mut mine, mut before) = ([1, 2, 3], [0; 3]);
/// reduce_saving(ElementType::U8, Op::Sum, &mut mine, &[10, 20, 30], &mut before)?;
/// assert_eq!((mine, before), ([11, 22, 33], [1, 2, 3]));
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn reduce_saving(
    element: ElementType,
    op: Op,
    into: &mut [u8],
    from: &[u8],
    saved: &mut [u8],
) -> Result<(), KernelError> {
    check_pair(element, into.len(), from.len())?;
    check_pair(element, saved.len(), into.len())?;
    combine(Isa::best(), element, op, Saving { into, from, saved });
    Ok(())
}

/// The sources and the destination of an operation.
pub(crate) trait Operands: Sized {
    /// Length of every slice in bytes.
    fn len(&self) -> usize;
    /// Splits all slices at byte `at`.
    fn split_at(self, at: usize) -> (Self, Self);
    /// The operands.
    fn sources(&self) -> (&[u8], &[u8]);
    /// Saves the bytes that results will overwrite, if they are to be saved.
    fn save(&mut self) {}
    /// The destination.
    fn into_result<'r>(self) -> &'r mut [u8]
    where
        Self: 'r;
    /// One loop over all elements. The slices have equal lengths.
    fn each<T: Number>(self, op: impl Fn(T, T) -> T);
}

pub(crate) struct InPlace<'a> {
    pub(crate) into: &'a mut [u8],
    pub(crate) from: &'a [u8],
}

pub(crate) struct OutOfPlace<'a> {
    pub(crate) out: &'a mut [u8],
    pub(crate) a: &'a [u8],
    pub(crate) b: &'a [u8],
}

pub(crate) struct Saving<'a> {
    pub(crate) into: &'a mut [u8],
    pub(crate) from: &'a [u8],
    pub(crate) saved: &'a mut [u8],
}

impl Operands for InPlace<'_> {
    fn sources(&self) -> (&[u8], &[u8]) {
        (self.into, self.from)
    }

    fn into_result<'r>(self) -> &'r mut [u8]
    where
        Self: 'r,
    {
        self.into
    }

    fn len(&self) -> usize {
        self.into.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let into = self.into.split_at_mut(at);
        let from = self.from.split_at(at);
        let head = Self {
            into: into.0,
            from: from.0,
        };
        let tail = Self {
            into: into.1,
            from: from.1,
        };
        (head, tail)
    }

    #[inline(always)]
    fn each<T: Number>(self, op: impl Fn(T, T) -> T) {
        let (into, from) = (T::elements_mut(self.into), T::elements(self.from));
        for (into, from) in into.iter_mut().zip(from) {
            *into = op(T::from_bytes(*into), T::from_bytes(*from)).to_bytes();
        }
    }
}

impl Operands for OutOfPlace<'_> {
    fn sources(&self) -> (&[u8], &[u8]) {
        (self.a, self.b)
    }

    fn into_result<'r>(self) -> &'r mut [u8]
    where
        Self: 'r,
    {
        self.out
    }

    fn len(&self) -> usize {
        self.out.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let out = self.out.split_at_mut(at);
        let a = self.a.split_at(at);
        let b = self.b.split_at(at);
        let head = Self {
            out: out.0,
            a: a.0,
            b: b.0,
        };
        let tail = Self {
            out: out.1,
            a: a.1,
            b: b.1,
        };
        (head, tail)
    }

    #[inline(always)]
    fn each<T: Number>(self, op: impl Fn(T, T) -> T) {
        let operands = T::elements(self.a).iter().zip(T::elements(self.b));
        for (out, (a, b)) in T::elements_mut(self.out).iter_mut().zip(operands) {
            *out = op(T::from_bytes(*a), T::from_bytes(*b)).to_bytes();
        }
    }
}

impl Operands for Saving<'_> {
    fn save(&mut self) {
        self.saved.copy_from_slice(self.into);
    }

    fn sources(&self) -> (&[u8], &[u8]) {
        (self.into, self.from)
    }

    fn into_result<'r>(self) -> &'r mut [u8]
    where
        Self: 'r,
    {
        self.into
    }

    fn len(&self) -> usize {
        self.into.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let into = self.into.split_at_mut(at);
        let from = self.from.split_at(at);
        let saved = self.saved.split_at_mut(at);
        let head = Self {
            into: into.0,
            from: from.0,
            saved: saved.0,
        };
        let tail = Self {
            into: into.1,
            from: from.1,
            saved: saved.1,
        };
        (head, tail)
    }

    #[inline(always)]
    fn each<T: Number>(self, op: impl Fn(T, T) -> T) {
        let into = T::elements_mut(self.into).iter_mut();
        let others = T::elements(self.from)
            .iter()
            .zip(T::elements_mut(self.saved));
        for (into, (from, saved)) in into.zip(others) {
            *saved = *into;
            *into = op(T::from_bytes(*into), T::from_bytes(*from)).to_bytes();
        }
    }
}

/// The loop of one instruction set. The slices must have equal lengths.
pub(crate) fn combine(isa: Isa, element: ElementType, op: Op, operands: impl Operands) {
    match element {
        ElementType::U8 => apply::<u8>(isa, op, operands),
        ElementType::I8 => apply::<i8>(isa, op, operands),
        ElementType::U16 => apply::<u16>(isa, op, operands),
        ElementType::I16 => apply::<i16>(isa, op, operands),
        ElementType::U32 => apply::<u32>(isa, op, operands),
        ElementType::I32 => apply::<i32>(isa, op, operands),
        ElementType::U64 => apply::<u64>(isa, op, operands),
        ElementType::I64 => apply::<i64>(isa, op, operands),
        ElementType::F16 => match (op, Converter::of(isa)) {
            (Op::Sum, Some(converter)) => converter.reduce(f32::sum, operands),
            (Op::Prod, Some(converter)) => converter.reduce(f32::prod, operands),
            (Op::Sum | Op::Prod, None) | (Op::Max | Op::Min, _) => {
                apply::<F16>(isa, op, operands);
            }
        },
        ElementType::BF16 => match op {
            Op::Sum | Op::Prod => {
                let whole = whole_pairs(operands.len());
                let (pairs, last) = operands.split_at(whole);
                apply::<Bf16Pair>(isa, op, pairs);
                apply::<Bf16>(isa, op, last);
            }
            Op::Max | Op::Min => apply::<Bf16>(isa, op, operands),
        },
        ElementType::F32 => apply::<f32>(isa, op, operands),
        ElementType::F64 => apply::<f64>(isa, op, operands),
    }
}

/// One loop for each type and operation.
fn apply<T: Number>(isa: Isa, op: Op, operands: impl Operands) {
    run_op!(isa, op, |function| operands.each::<T>(function));
}
