//! Frames with one grid: two parameters, then one code for each element.

use super::decoding::{self, lost, rarely, with_points};
use super::extent::extent;
use super::grid::{Codes, Grid, Kind};
use super::real::{Code, Float, Real};
use super::steps::{Decoder, Points};
use crate::number::Number;

/// Length of the parameters at the front.
pub(super) const fn header_len<E: Float>() -> usize {
    2 * size_of::<<E::Sum as Number>::Bytes>()
}

const fn codes<C: Code>() -> Codes {
    Codes {
        least: C::LEAST,
        levels: C::LEVELS,
    }
}

#[inline(always)]
pub(super) fn encode<E: Float, C: Code>(kind: Kind, elements: &[u8], encoded: &mut [u8]) {
    let elements = E::elements(elements);
    let Some((header, encoded)) = encoded.split_at_mut_checked(header_len::<E>()) else {
        return;
    };
    let grid = Grid::fit(kind, codes::<C>(), extent::<E>(elements));
    write_parameters(grid.parameters(kind), header);

    let encoder = grid.encoder(codes::<C>());
    for (code, element) in C::elements_mut(encoded).iter_mut().zip(elements) {
        let bits = encoder.code(E::from_bytes(*element).widen());
        *code = C::from_low_bits(bits).to_bytes();
    }
}

#[inline(always)]
pub(super) fn reduce<E: Float, C: Code>(
    kind: Kind,
    op: impl Fn(E::Sum, E::Sum) -> E::Sum,
    own: &[u8],
    encoded: &[u8],
    sums: &mut [u8],
) {
    let Some((grid, encoded)) = split::<E, C>(kind, encoded) else {
        return;
    };
    let decoder = grid.decoder(codes::<C>(), Real::MAX);
    let (own, sums) = (E::elements(own), E::Sum::elements_mut(sums));
    with_points!(decoder, |points| {
        decoding::reduce::<E>(points, op, numbers::<C>(encoded), own, sums);
    });
}

#[inline(always)]
pub(super) fn decode<E: Float, C: Code>(kind: Kind, encoded: &[u8], elements: &mut [u8]) {
    let Some((grid, encoded)) = split::<E, C>(kind, encoded) else {
        return;
    };
    let decoder = grid.decoder(codes::<C>(), E::GREATEST);
    let elements = E::elements_mut(elements);
    with_points!(decoder, |points| {
        decoding::decode::<E>(points, numbers::<C>(encoded), elements);
    });
}

/// The error of [`encode`] for each element. Zero if the frame is not finite.
#[inline(always)]
pub(super) fn residual<E: Float, C: Code>(kind: Kind, elements: &[u8], residuals: &mut [u8]) {
    let elements = E::elements(elements);
    let extent = extent::<E>(elements);
    let grid = Grid::fit(kind, codes::<C>(), extent);
    let encoder = grid.encoder(codes::<C>());
    let decoder = grid.decoder(codes::<C>(), E::GREATEST);
    let residuals = E::Sum::elements_mut(residuals).iter_mut();
    for (residual, element) in residuals.zip(elements) {
        let value = E::from_bytes(*element).widen();
        let code = C::from_low_bits(encoder.code(value));
        let decoded = E::narrow(decoder.value(code.to_i32())).widen();
        *residual = lost(value, decoded, extent.finite).to_bytes();
    }
}

#[inline(always)]
fn numbers<C: Code>(codes: &[u8]) -> impl Iterator<Item = i32> {
    C::elements(codes).iter().map(
        #[inline(always)]
        |code| C::from_bytes(*code).to_i32(),
    )
}

/// The grid and the codes of a frame.
#[inline(always)]
fn split<E: Float, C: Code>(kind: Kind, encoded: &[u8]) -> Option<(Grid<E::Sum>, &[u8])> {
    let (header, encoded) = encoded.split_at_checked(header_len::<E>())?;
    let parameters = read_parameters(header)?;
    let grid = Grid::from_parameters(kind, codes::<C>(), parameters);
    Some((grid, encoded))
}

#[inline(always)]
pub(super) fn write_parameters<R: Real>(parameters: [R; 2], header: &mut [u8]) {
    for (bytes, parameter) in R::elements_mut(header).iter_mut().zip(parameters) {
        *bytes = parameter.to_bytes();
    }
}

#[inline(always)]
pub(super) fn read_parameters<R: Real>(header: &[u8]) -> Option<[R; 2]> {
    let [first, second] = R::elements(header) else {
        return None;
    };
    Some([R::from_bytes(*first), R::from_bytes(*second)])
}
