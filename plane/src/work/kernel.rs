//! The protocol's words for elements and operations, in the kernels' words.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_kernels::{ElementType as KernelElement, Op};

/// The kernels' element type.
pub(crate) const fn element_of(element: ElementType) -> KernelElement {
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

/// The operation on two elements. An average is a sum that is divided at the end, a weighted average one of
/// contributions that were multiplied before.
pub(super) const fn op_of(op: ReduceOp) -> Op {
    match op {
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::WeightedAvg { .. } => Op::Sum,
        ReduceOp::Prod => Op::Prod,
        ReduceOp::Max => Op::Max,
        ReduceOp::Min => Op::Min,
    }
}
