//! Two slices become one, element by element.

use crate::element::{Element, KernelError, Op, check_whole};
use crate::number::Number;

/// `into[i] = into[i] op from[i]` for every element of two slices of equal length.
///
/// Both slices hold whole little-endian elements of type `element` and may start at any address.
/// Nothing is allocated, and an empty slice is fine.
///
/// - Integer sums and products wrap.
/// - Float sums and products are single IEEE operations, rounded to nearest, never fused.
/// - A NaN on either side gives NaN, for every operation: a poisoned value stays visible.
/// - Every NaN that is written has the same bits (positive, quiet, payload zero; `f32::NAN` and
///   `f64::NAN`), and the maximum of the two zeros is `+0`, the minimum `-0`. So the bits of one
///   reduction do not depend on which operand is `into`. (A chain of float sums or products still
///   depends on the order of its steps, as rounding does.)
///
/// # Errors
/// [`KernelError::LengthMismatch`] and [`KernelError::PartialElement`]: nothing was changed.
///
/// ```
/// use pccl_kernels::{Element, Op, reduce};
///
/// let mut mine = [1_i16, -2, i16::MAX].map(i16::to_le_bytes).concat();
/// let theirs = [10_i16, 20, 1].map(i16::to_le_bytes).concat();
/// reduce(Element::I16, Op::Sum, &mut mine, &theirs)?;
/// assert_eq!(mine, [11_i16, 18, i16::MIN].map(i16::to_le_bytes).concat());
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn reduce(element: Element, op: Op, into: &mut [u8], from: &[u8]) -> Result<(), KernelError> {
    if into.len() != from.len() {
        return Err(KernelError::LengthMismatch {
            into: into.len(),
            from: from.len(),
        });
    }
    check_whole(element, into.len())?;

    match element {
        Element::U8 => apply::<u8, 1>(op, into, from),
        Element::I8 => apply::<i8, 1>(op, into, from),
        Element::U16 => apply::<u16, 2>(op, into, from),
        Element::I16 => apply::<i16, 2>(op, into, from),
        Element::U32 => apply::<u32, 4>(op, into, from),
        Element::I32 => apply::<i32, 4>(op, into, from),
        Element::U64 => apply::<u64, 8>(op, into, from),
        Element::I64 => apply::<i64, 8>(op, into, from),
        Element::F32 => apply::<f32, 4>(op, into, from),
        Element::F64 => apply::<f64, 8>(op, into, from),
    }
    Ok(())
}

fn apply<T: Number<[u8; SIZE]>, const SIZE: usize>(op: Op, into: &mut [u8], from: &[u8]) {
    match op {
        Op::Sum => combine(into, from, T::sum),
        Op::Prod => combine(into, from, T::prod),
        Op::Max => combine(into, from, T::max),
        Op::Min => combine(into, from, T::min),
    }
}

/// One loop for each type and operation: `op` is a zero-sized function, inlined.
fn combine<T, const SIZE: usize>(into: &mut [u8], from: &[u8], op: impl Fn(T, T) -> T)
where
    T: Number<[u8; SIZE]>,
{
    let (into, _) = into.as_chunks_mut::<SIZE>();
    let (from, _) = from.as_chunks::<SIZE>();
    for (into, from) in into.iter_mut().zip(from) {
        *into = op(T::from_bytes(*into), T::from_bytes(*from)).to_bytes();
    }
}
