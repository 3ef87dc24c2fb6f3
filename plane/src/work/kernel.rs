//! The protocol's words for elements and operations, in the kernels' words.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_kernels::{Element, Op};

/// The kernels' element type.
pub(super) const fn element_of(element: ElementType) -> Element {
    match element {
        ElementType::U8 => Element::U8,
        ElementType::I8 => Element::I8,
        ElementType::U16 => Element::U16,
        ElementType::I16 => Element::I16,
        ElementType::U32 => Element::U32,
        ElementType::I32 => Element::I32,
        ElementType::U64 => Element::U64,
        ElementType::I64 => Element::I64,
        ElementType::F16 => Element::F16,
        ElementType::BF16 => Element::BF16,
        ElementType::F32 => Element::F32,
        ElementType::F64 => Element::F64,
    }
}

/// The operation on two elements. An average is a sum that is divided at the end.
pub(super) const fn op_of(op: ReduceOp) -> Op {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => Op::Sum,
        ReduceOp::Prod => Op::Prod,
        ReduceOp::Max => Op::Max,
        ReduceOp::Min => Op::Min,
    }
}
