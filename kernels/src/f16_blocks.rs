//! `F16` by the conversion instructions that most processors have.
//!
//! A block of halves is widened to `f32` on the stack, computed there by the loops of `f32`, and narrowed. The
//! results have the same bits as those of [`F16`](crate::half::F16), which computes element by element and is the
//! definition: every NaN is made canonical before it is narrowed.

use crate::half::F16;
use crate::isa::{Isa, run};
use crate::number::{Number, Real};
use crate::reduce::Operands;

/// Halves in a block: few enough that everything stays in the first-level cache.
const BLOCK: usize = 512;
const BLOCK_BYTES: usize = BLOCK * size_of::<u16>();

/// Bytes that are saved at a time. Much smaller pieces are slow outside the caches, because copying may go backwards
/// in each.
const SAVED_BYTES: usize = 16 * BLOCK_BYTES;

/// The halves of a block. The elements after the end of a shorter block are arbitrary.
///
/// It is aligned, because vectors across two cache lines take twice as long.
#[repr(align(64))]
struct Wide([f32; BLOCK]);

/// The conversion instructions, if the machine has them.
#[derive(Clone, Copy)]
pub(crate) struct Converter {
    isa: Isa,
    #[cfg(target_arch = "x86_64")]
    avx2: fearless_simd::x86::Avx2,
}

impl Converter {
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        let avx2 = isa.avx2()?;
        Some(Self { isa, avx2 })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn of(_: Isa) -> Option<Self> {
        None
    }

    /// [`reduce()`](crate::reduce()) for `F16`, with `op` of `f32`.
    pub(crate) fn reduce(self, op: impl Fn(f32, f32) -> f32, mut operands: impl Operands) {
        let (mut ones, mut others) = (Wide([0.0; BLOCK]), Wide([0.0; BLOCK]));
        while operands.len() > 0 {
            let len = operands.len().min(SAVED_BYTES);
            let (mut blocks, rest) = operands.split_at(len);
            operands = rest;
            blocks.save();
            while blocks.len() > 0 {
                let len = blocks.len().min(BLOCK_BYTES);
                let (block, rest) = blocks.split_at(len);
                blocks = rest;
                self.reduce_block(&op, block, &mut ones, &mut others);
            }
        }
    }

    fn reduce_block(
        self,
        op: impl Fn(f32, f32) -> f32,
        block: impl Operands,
        ones: &mut Wide,
        others: &mut Wide,
    ) {
        let (first, second) = block.sources();
        self.widen(first, ones);
        self.widen(second, others);
        run!(self.isa, {
            for (one, other) in ones.0.iter_mut().zip(&others.0) {
                *one = op(*one, *other);
            }
        });
        self.narrow(ones, block.into_result());
    }

    /// [`divide()`](crate::divide()) for `F16`.
    pub(crate) fn divide(self, bytes: &mut [u8], by: u32) {
        self.each(bytes, |number| number.over(by));
    }

    /// What [`scale()`](crate::scale()) does for `F16`.
    pub(crate) fn scale(self, bytes: &mut [u8], factor: f64) {
        self.each(bytes, |number| number.times(factor));
    }

    #[inline(always)]
    fn each(self, bytes: &mut [u8], op: impl Fn(f32) -> f32) {
        let mut wide = Wide([0.0; BLOCK]);
        for block in bytes.chunks_mut(BLOCK_BYTES) {
            self.widen(block, &mut wide);
            run!(self.isa, {
                for number in &mut wide.0 {
                    *number = op(*number);
                }
            });
            self.narrow(&wide, block);
        }
    }

    fn widen(self, halves: &[u8], wide: &mut Wide) {
        #[cfg(target_arch = "x86_64")]
        match self.isa.avx512() {
            Some(avx512) => x86::widen_16(avx512, halves, wide),
            None => x86::widen_8(self.avx2, halves, wide),
        }
        let last = halves.len() / 32 * 16;
        let rest = F16::elements(halves).iter().zip(&mut wide.0).skip(last);
        for (half, wide) in rest {
            *wide = F16::from_bytes(*half).to_f32();
        }
    }

    /// Narrows each element. Of each NaN it keeps the upper bits.
    fn narrow(self, wide: &Wide, halves: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        match self.isa.avx512() {
            Some(avx512) => x86::narrow_16(avx512, wide, halves),
            None => x86::narrow_8(self.avx2, wide, halves),
        }
        let last = halves.len() / 32 * 16;
        let rest = F16::elements_mut(halves).iter_mut().zip(&wide.0).skip(last);
        for (half, wide) in rest {
            *half = F16::from_f32(*wide).to_bytes();
        }
    }
}

/// Conversions of whole vectors. Fewer elements at the end are left out.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm512_cvtph_ps,
        _mm512_cvtps_ph,
    };

    use fearless_simd::prelude::*;
    use fearless_simd::{f32x8, f32x16, kernel, u8x16, u8x32};

    use super::Wide;

    kernel!(
        #[inline]
        pub(super) fn widen_8(avx2: Avx2, halves: &[u8], wide: &mut Wide) {
            let wide = wide.0.as_chunks_mut::<8>().0;
            for (wide, halves) in wide.iter_mut().zip(halves.as_chunks::<16>().0) {
                let halves: u8x16<_> = (*halves).simd_into(avx2);
                let singles: f32x8<_> = _mm256_cvtph_ps(halves.into()).simd_into(avx2);
                *wide = singles.into();
            }
        }
    );

    kernel!(
        #[inline]
        pub(super) fn widen_16(avx512: Avx512, halves: &[u8], wide: &mut Wide) {
            let wide = wide.0.as_chunks_mut::<16>().0;
            for (wide, halves) in wide.iter_mut().zip(halves.as_chunks::<32>().0) {
                let halves: u8x32<_> = (*halves).simd_into(avx512);
                let singles: f32x16<_> = _mm512_cvtph_ps(halves.into()).simd_into(avx512);
                *wide = singles.into();
            }
        }
    );

    kernel!(
        #[inline]
        pub(super) fn narrow_8(avx2: Avx2, wide: &Wide, halves: &mut [u8]) {
            let wide = wide.0.as_chunks::<8>().0;
            for (halves, wide) in halves.as_chunks_mut::<16>().0.iter_mut().zip(wide) {
                let singles: f32x8<_> = (*wide).simd_into(avx2);
                let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles.into());
                let bits: u8x16<_> = bits.simd_into(avx2);
                *halves = bits.into();
            }
        }
    );

    kernel!(
        #[inline]
        pub(super) fn narrow_16(avx512: Avx512, wide: &Wide, halves: &mut [u8]) {
            let wide = wide.0.as_chunks::<16>().0;
            for (halves, wide) in halves.as_chunks_mut::<32>().0.iter_mut().zip(wide) {
                let singles: f32x16<_> = (*wide).simd_into(avx512);
                let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles.into());
                let bits: u8x32<_> = bits.simd_into(avx512);
                *halves = bits.into();
            }
        }
    );
}
