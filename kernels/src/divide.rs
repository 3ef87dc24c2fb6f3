//! Division of sums, for averages.

use crate::element::{ElementType, KernelError, check_whole};
use crate::f16_blocks::Converter;
use crate::half::{Bf16, Bf16Pair, F16, whole_pairs};
use crate::isa::{Isa, run};
use crate::number::Number;

/// `bytes[i] = bytes[i] / by` for every element, with one division each.
///
/// The slice holds whole little-endian elements of type `element`, and may start at any address.
///
/// - Integers truncate towards zero. The divisor may exceed the largest value of the type (the average of 200 peers
///   over `i8`). A sum that has wrapped before stays wrapped.
/// - Floats are divided by `by` as the same float type (in `f32` a divisor above 2²⁴ is rounded), halves as `f32` and
///   then rounded to the half. A NaN becomes the one NaN that [`reduce()`](crate::reduce()) writes.
///
/// # Errors
/// [`KernelError::PartialElement`] and [`KernelError::ZeroDivisor`]. Nothing was changed.
///
/// ```
/// use pccl_kernels::{ElementType, divide};
///
/// let mut sums = [7_i32, -7, 200].map(i32::to_le_bytes).concat();
/// divide(ElementType::I32, &mut sums, 2)?;
/// assert_eq!(sums, [3_i32, -3, 100].map(i32::to_le_bytes).concat());
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn divide(element: ElementType, bytes: &mut [u8], by: u32) -> Result<(), KernelError> {
    if by == 0 {
        return Err(KernelError::ZeroDivisor);
    }
    check_whole(element, bytes.len())?;

    divide_with(Isa::best(), element, bytes, by);
    Ok(())
}

/// As [`divide`], with the loops of one instruction set. `by` must not be zero.
pub(crate) fn divide_with(isa: Isa, element: ElementType, bytes: &mut [u8], by: u32) {
    match element {
        ElementType::U8 => each::<u8>(isa, bytes, by),
        ElementType::I8 => each::<i8>(isa, bytes, by),
        ElementType::U16 => each::<u16>(isa, bytes, by),
        ElementType::I16 => each::<i16>(isa, bytes, by),
        ElementType::U32 => each::<u32>(isa, bytes, by),
        ElementType::I32 => each::<i32>(isa, bytes, by),
        ElementType::U64 => each::<u64>(isa, bytes, by),
        ElementType::I64 => each::<i64>(isa, bytes, by),
        ElementType::F16 => match Converter::of(isa) {
            Some(converter) => converter.divide(bytes, by),
            None => each::<F16>(isa, bytes, by),
        },
        ElementType::BF16 => {
            let (pairs, last) = bytes.split_at_mut(whole_pairs(bytes.len()));
            each::<Bf16Pair>(isa, pairs, by);
            each::<Bf16>(isa, last, by);
        }
        ElementType::F32 => each::<f32>(isa, bytes, by),
        ElementType::F64 => each::<f64>(isa, bytes, by),
    }
}

fn each<T: Number>(isa: Isa, bytes: &mut [u8], by: u32) {
    run!(isa, {
        for element in T::elements_mut(bytes) {
            *element = T::from_bytes(*element).over(by).to_bytes();
        }
    });
}
