//! Multiplying floats by a weight: what makes contributions those of a weighted average.

use crate::element::{ElementType, KernelError, check_whole};
use crate::f16_blocks::Converter;
use crate::half::{Bf16, Bf16Pair, F16, whole_pairs};
use crate::isa::{Isa, run};
use crate::number::Real;

/// Multiplies every element of `bytes` by `weight / total`. Of weight zero, every element becomes zero, whatever it was.
///
/// The slice holds whole little-endian elements of type `element` and may start at any address. Quotient and product are
/// computed in `f64`. The product is rounded to the type, that of a half to `f32` before. A NaN becomes the one NaN that
/// [`reduce()`](crate::reduce()) writes.
///
/// # Errors
/// [`KernelError::PartialElement`], [`KernelError::ZeroDivisor`] if `total` is zero, and [`KernelError::NotAFloat`]:
/// nothing was changed.
///
/// ```
/// use pccl_kernels::{ElementType, scale};
///
/// let mut contribution = [8_f32, -2.0].map(f32::to_le_bytes).concat();
/// scale(ElementType::F32, &mut contribution, 3, 4)?;
/// assert_eq!(contribution, [6_f32, -1.5].map(f32::to_le_bytes).concat());
/// # Ok::<(), pccl_kernels::KernelError>(())
/// ```
pub fn scale(
    element: ElementType,
    bytes: &mut [u8],
    weight: u32,
    total: u64,
) -> Result<(), KernelError> {
    if total == 0 {
        return Err(KernelError::ZeroDivisor);
    }
    check_whole(element, bytes.len())?;
    let is_float = scale_with(
        Isa::best(),
        element,
        bytes,
        f64::from(weight) / total as f64,
    );
    if is_float {
        Ok(())
    } else {
        Err(KernelError::NotAFloat { element })
    }
}

/// As [`scale`], with the loops of one instruction set. False: these are no floats.
pub(crate) fn scale_with(isa: Isa, element: ElementType, bytes: &mut [u8], factor: f64) -> bool {
    match element {
        ElementType::U8
        | ElementType::I8
        | ElementType::U16
        | ElementType::I16
        | ElementType::U32
        | ElementType::I32
        | ElementType::U64
        | ElementType::I64 => return false,
        // Zero times infinity would be NaN.
        ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64
            if factor == 0.0 =>
        {
            bytes.fill(0);
        }
        ElementType::F16 => match Converter::of(isa) {
            Some(converter) => converter.scale(bytes, factor),
            None => each::<F16>(isa, bytes, factor),
        },
        ElementType::BF16 => {
            let (pairs, last) = bytes.split_at_mut(whole_pairs(bytes.len()));
            each::<Bf16Pair>(isa, pairs, factor);
            each::<Bf16>(isa, last, factor);
        }
        ElementType::F32 => each::<f32>(isa, bytes, factor),
        ElementType::F64 => each::<f64>(isa, bytes, factor),
    }
    true
}

fn each<T: Real>(isa: Isa, bytes: &mut [u8], factor: f64) {
    run!(isa, {
        for element in T::elements_mut(bytes) {
            *element = T::from_bytes(*element).times(factor).to_bytes();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contribution_without_weight_counts_as_zeros_whatever_it_holds() {
        let mut bytes = [f32::NAN, f32::INFINITY, -3.0]
            .map(f32::to_le_bytes)
            .concat();

        scale(ElementType::F32, &mut bytes, 0, 7).unwrap();

        assert_eq!(bytes, [0; 12]);
    }

    #[test]
    fn a_product_is_rounded_once() {
        let own = 1.000_000_1_f32;
        let mut bytes = own.to_le_bytes();

        scale(ElementType::F32, &mut bytes, 1, 3).unwrap();

        let exact = f64::from(own) * (1.0 / 3.0);
        assert_eq!(f32::from_le_bytes(bytes), exact as f32);
    }

    #[test]
    fn what_has_no_meaning_changes_nothing() {
        let untouched = [1_i32, 2].map(i32::to_le_bytes).concat();
        let mut bytes = untouched.clone();
        let element = ElementType::I32;

        let no_float = scale(element, &mut bytes, 1, 2);
        let no_total = scale(ElementType::F32, &mut bytes, 1, 0);
        let no_whole = scale(ElementType::F64, &mut bytes[..7], 1, 2);

        assert_eq!(no_float, Err(KernelError::NotAFloat { element }));
        assert_eq!(no_total, Err(KernelError::ZeroDivisor));
        assert!(matches!(no_whole, Err(KernelError::PartialElement { .. })));
        assert_eq!(bytes, untouched);
    }
}
