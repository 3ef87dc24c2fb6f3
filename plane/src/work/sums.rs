//! How contributions become one value.

use pccl_core::element::{CollectiveSpec, ReduceOp};
use pccl_kernels::{ElementType, Op};

use super::fault::Defect;
use super::kernel::{element_of, op_of};
use crate::memory::ResultMemory;

/// What is computed, of what.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) element: ElementType,
    pub(super) op: Op,
    /// Number of contributors, where the sum is to be divided.
    pub(super) average_over: Option<u32>,
}

impl Sums {
    pub(super) fn of(spec: &CollectiveSpec, world: u32) -> Self {
        Self {
            element: element_of(spec.element),
            op: op_of(spec.op),
            average_over: (spec.op == ReduceOp::Avg).then_some(world),
        }
    }

    /// Computes a part of the result from what arrived and the own contribution.
    pub(super) fn finish(self, target: ResultMemory<'_>, arrived: &[u8]) -> Result<(), Defect> {
        let Self { element, op, .. } = self;
        let result = match target {
            ResultMemory::Same { data, saved } => {
                pccl_kernels::reduce_saving(element, op, data, arrived, saved)?;
                data
            }
            ResultMemory::Apart { own, result } => {
                pccl_kernels::reduce_into(element, op, result, arrived, own)?;
                result
            }
        };
        self.divide(result)
    }

    /// Makes an average of the sum of all contributions.
    pub(super) fn divide(self, sum: &mut [u8]) -> Result<(), Defect> {
        if let Some(contributors) = self.average_over {
            pccl_kernels::divide(self.element, sum, contributors)?;
        }
        Ok(())
    }
}
