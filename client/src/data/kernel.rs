//! The protocol's words for elements and operations, in the kernels' words.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_kernels::{Element, Op};

/// The kernels' element type, or `None` where there are no kernels for it.
pub(super) fn element_of(element: ElementType) -> Option<Element> {
    Some(match element {
        ElementType::U8 => Element::U8,
        ElementType::I8 => Element::I8,
        ElementType::U16 => Element::U16,
        ElementType::I16 => Element::I16,
        ElementType::U32 => Element::U32,
        ElementType::I32 => Element::I32,
        ElementType::U64 => Element::U64,
        ElementType::I64 => Element::I64,
        ElementType::F32 => Element::F32,
        ElementType::F64 => Element::F64,
        ElementType::F16 | ElementType::BF16 => return None,
    })
}

/// The operation on two elements. An average is a sum that is divided at the end.
pub(super) fn op_of(op: ReduceOp) -> Op {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => Op::Sum,
        ReduceOp::Prod => Op::Prod,
        ReduceOp::Max => Op::Max,
        ReduceOp::Min => Op::Min,
    }
}
