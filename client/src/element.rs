//! Which element types a buffer may have, and a buffer's elements as bytes.

use bytemuck::Pod;
use half::{bf16, f16};
use pccl_core::element::ElementType;

/// The type of a buffer's elements: every integer width, `f32`, `f64`, [`half::f16`] and
/// [`half::bf16`].
///
/// Sealed: the protocol knows these types and no others.
pub trait Element: sealed::Sealed + Pod + Send + Sync {
    /// What the protocol calls it.
    const TYPE: ElementType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $name:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const TYPE: ElementType = ElementType::$name;
            }
        )*
    };
}

elements! {
    u8 => U8,
    i8 => I8,
    u16 => U16,
    i16 => I16,
    u32 => U32,
    i32 => I32,
    u64 => U64,
    i64 => I64,
    f16 => F16,
    bf16 => BF16,
    f32 => F32,
    f64 => F64,
}

/// The elements as the bytes that they are in memory.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

/// The elements that these bytes are. `None` if they are not at the place or of the length of such elements.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    bytemuck::try_cast_slice(bytes).ok()
}

/// The elements as the bytes that they are in memory, to be changed in place.
pub(crate) fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut(elements)
}

/// Makes a vector so long. Its memory is used again, and what it held is of no use.
pub(crate) fn resize<T: Element>(
    vector: &mut Vec<T>,
    count: usize,
) -> Result<(), std::collections::TryReserveError> {
    vector.truncate(count);
    vector.try_reserve_exact(count - vector.len())?;
    vector.resize(count, T::zeroed());
    Ok(())
}
