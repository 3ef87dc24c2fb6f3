//! A sum becomes an average.

use crate::element::{Element, KernelError, check_whole};
use crate::number::Number;

/// `bytes[i] = bytes[i] / by` for every element: one division each.
///
/// The slice holds whole little-endian elements of type `element` and may start at any address.
///
/// - Integers truncate towards zero. The divisor may exceed the greatest value of the type (the
///   average of 200 peers over `i8`). A sum that wrapped before stays wrapped.
/// - Floats are divided by `by` as the same float type (in `f32` a divisor beyond 2²⁴ is rounded).
///   A NaN becomes the one NaN that [`reduce()`](crate::reduce()) writes.
///
/// # Errors
/// [`KernelError::PartialElement`] and [`KernelError::ZeroDivisor`]: nothing was changed.
///
/// ```
/// use pccl_kernels::{Element, divide};
///
/// let mut sums = [7_i32, -7, 200].map(i32::to_le_bytes).concat();
/// divide(Element::I32, &mut sums, 2)?;
/// assert_eq!(sums, [3_i32, -3, 100].map(i32::to_le_bytes).concat());
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn divide(element: Element, bytes: &mut [u8], by: u32) -> Result<(), KernelError> {
    if by == 0 {
        return Err(KernelError::ZeroDivisor);
    }
    check_whole(element, bytes.len())?;

    match element {
        Element::U8 => each::<u8, 1>(bytes, by),
        Element::I8 => each::<i8, 1>(bytes, by),
        Element::U16 => each::<u16, 2>(bytes, by),
        Element::I16 => each::<i16, 2>(bytes, by),
        Element::U32 => each::<u32, 4>(bytes, by),
        Element::I32 => each::<i32, 4>(bytes, by),
        Element::U64 => each::<u64, 8>(bytes, by),
        Element::I64 => each::<i64, 8>(bytes, by),
        Element::F32 => each::<f32, 4>(bytes, by),
        Element::F64 => each::<f64, 8>(bytes, by),
    }
    Ok(())
}

fn each<T: Number<[u8; SIZE]>, const SIZE: usize>(bytes: &mut [u8], by: u32) {
    for element in bytes.as_chunks_mut::<SIZE>().0 {
        *element = T::from_bytes(*element).over(by).to_bytes();
    }
}
