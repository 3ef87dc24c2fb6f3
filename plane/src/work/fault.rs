//! Whose fault it is that work cannot go on: a neighbour's, or this library's.

use std::fmt;
use std::panic::Location;

use pccl_kernels::KernelError;

/// A frame that the plan does not expect. The neighbour that sent it is at fault. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// There is no such stripe, or no such step in it.
    NoSuchFlow,
    /// It is not the next one of its flow, or reaches beyond its end.
    OutOfOrder,
    /// Half an element, nothing at all, more than a frame may hold, or so little that many such frames would
    /// fill the memory with what is known about each.
    Length,
    /// It came from another rank than the one that sends it, or other frames of its stripe from there came on
    /// another lane.
    OtherLane,
    /// It would overwrite a contribution that is still needed.
    TooEarly,
}

/// What this library relies upon is not so, at this place of its source. No neighbour and no user is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Defect(&'static Location<'static>);

impl Defect {
    /// Of the line that calls this.
    #[track_caller]
    pub(crate) const fn here() -> Self {
        Self(Location::caller())
    }
}

impl fmt::Debug for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Defect({self})")
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

impl From<KernelError> for Defect {
    /// Kernels object to lengths and element types alone, and both were checked before.
    #[track_caller]
    fn from(_: KernelError) -> Self {
        Self::here()
    }
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Misfit(Misfit),
    Defect(Defect),
}

impl From<Misfit> for NotTaken {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl From<Defect> for NotTaken {
    fn from(defect: Defect) -> Self {
        Self::Defect(defect)
    }
}
