//! Operations on frames: one loop for each operation, kind of frame, element type and instruction set.

use super::grid::Kind;
use super::real::{Code, Float};
use super::{blockwise, linear};
use crate::element::Op;
use crate::isa::{Isa, run, run_op};
use crate::number::Number;

/// An operation on a frame, for every kind of frame.
pub(crate) trait Job {
    fn linear<E: Float, C: Code>(self, isa: Isa, kind: Kind);
    fn blockwise<E: Float>(self, isa: Isa);
}

pub(crate) struct Encode<'a> {
    pub(crate) elements: &'a [u8],
    pub(crate) encoded: &'a mut [u8],
}

pub(crate) struct Reduce<'a> {
    pub(crate) op: Op,
    pub(crate) own: &'a [u8],
    pub(crate) encoded: &'a [u8],
    pub(crate) sums: &'a mut [u8],
}

pub(crate) struct Decode<'a> {
    pub(crate) encoded: &'a [u8],
    pub(crate) elements: &'a mut [u8],
}

pub(crate) struct Residual<'a> {
    pub(crate) elements: &'a [u8],
    pub(crate) residuals: &'a mut [u8],
}

impl Job for Encode<'_> {
    fn linear<E: Float, C: Code>(self, isa: Isa, kind: Kind) {
        run!(
            isa,
            linear::encode::<E, C>(kind, self.elements, self.encoded)
        );
    }

    fn blockwise<E: Float>(self, isa: Isa) {
        run!(isa, blockwise::encode::<E>(self.elements, self.encoded));
    }
}

impl Job for Reduce<'_> {
    fn linear<E: Float, C: Code>(self, isa: Isa, kind: Kind) {
        let Self {
            op,
            own,
            encoded,
            sums,
        } = self;
        run_op!(isa, op, |function| linear::reduce::<E, C>(
            kind, function, own, encoded, sums
        ));
    }

    fn blockwise<E: Float>(self, isa: Isa) {
        let Self {
            op,
            own,
            encoded,
            sums,
        } = self;
        run_op!(isa, op, |function| blockwise::reduce::<E>(
            function, own, encoded, sums
        ));
    }
}

impl Job for Decode<'_> {
    fn linear<E: Float, C: Code>(self, isa: Isa, kind: Kind) {
        run!(
            isa,
            linear::decode::<E, C>(kind, self.encoded, self.elements)
        );
    }

    fn blockwise<E: Float>(self, isa: Isa) {
        run!(isa, blockwise::decode::<E>(self.encoded, self.elements));
    }
}

impl Job for Residual<'_> {
    fn linear<E: Float, C: Code>(self, isa: Isa, kind: Kind) {
        run!(
            isa,
            linear::residual::<E, C>(kind, self.elements, self.residuals)
        );
    }

    fn blockwise<E: Float>(self, isa: Isa) {
        run!(isa, blockwise::residual::<E>(self.elements, self.residuals));
    }
}
