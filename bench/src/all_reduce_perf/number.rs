//! The element types as numbers, and what the kernels call them.

use pccl::half::{bf16, f16};
use pccl::{Element, ElementType, ReduceOp};
use pccl_kernels::{ElementType as KernelElement, Op};

/// An element that expected results can be computed with.
pub(crate) trait Number: Element {
    /// This whole number. Integers keep its low bits; floats take it as it is, if it is small.
    fn whole(value: i64) -> Self;
    /// Divided once; integers truncate. `by` is at most 64, which every type holds.
    fn over(self, by: usize) -> Self;
    /// About this value.
    fn approximate(self) -> f64;
    /// What no tolerance takes for this value: NaN, or where there is none, every bit turned over.
    fn spoiled(self) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*; spoiled: |$is:ident| $spoiled:expr) => {$(
        impl Number for $number {
            fn whole(value: i64) -> Self {
                value as Self
            }

            fn over(self, by: usize) -> Self {
                self / by as Self
            }

            fn approximate(self) -> f64 {
                self as f64
            }

            fn spoiled(self) -> Self {
                let $is = self;
                $spoiled
            }
        }
    )*};
}

macro_rules! halves {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn whole(value: i64) -> Self {
                Self::from_f32(value as f32)
            }

            fn over(self, by: usize) -> Self {
                Self::from_f32(self.to_f32() / by as f32)
            }

            fn approximate(self) -> f64 {
                self.to_f64()
            }

            fn spoiled(self) -> Self {
                Self::NAN
            }
        }
    )*};
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64; spoiled: |is| !is);
numbers!(f32, f64; spoiled: |_is| Self::NAN);
halves!(f16, bf16);

/// The type as the kernels call it.
pub(crate) const fn kernel_element(element: ElementType) -> KernelElement {
    match element {
        ElementType::U8 => KernelElement::U8,
        ElementType::I8 => KernelElement::I8,
        ElementType::U16 => KernelElement::U16,
        ElementType::I16 => KernelElement::I16,
        ElementType::U32 => KernelElement::U32,
        ElementType::I32 => KernelElement::I32,
        ElementType::U64 => KernelElement::U64,
        ElementType::I64 => KernelElement::I64,
        ElementType::F16 => KernelElement::F16,
        ElementType::BF16 => KernelElement::BF16,
        ElementType::F32 => KernelElement::F32,
        ElementType::F64 => KernelElement::F64,
    }
}

/// The operation as the kernels call it; an average is a sum that is divided at the end.
pub(crate) const fn kernel_op(op: ReduceOp) -> Op {
    match op {
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::WeightedAvg { .. } => Op::Sum,
        ReduceOp::Prod => Op::Prod,
        ReduceOp::Max => Op::Max,
        ReduceOp::Min => Op::Min,
    }
}
