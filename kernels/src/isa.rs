//! The instruction sets for which every loop is compiled, and the choice among them at run time.

#[cfg(target_arch = "x86_64")]
use fearless_simd::x86::{Avx2, Avx512};
use fearless_simd::{Level, Simd};

/// An instruction set that this machine has. Making one is the proof of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(Level);

impl Isa {
    /// The best one of this machine, which is looked up once and remembered.
    ///
    /// AVX-512 stands for what Ice Lake and Zen 4 have and all after them: where only the older
    /// parts of it are there, as on Skylake-X, AVX2 is the best.
    #[inline]
    pub(crate) fn best() -> Self {
        Self(Level::new())
    }

    /// Every one of this machine that [`run`](Self::run) tells apart, from the least to the best.
    /// What the whole program is compiled for is the least.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self(Level::baseline())];
        #[cfg(target_arch = "x86_64")]
        {
            let (least, best) = (Level::baseline(), Level::new());
            let avx2 = best.as_avx2().filter(|_| least.as_avx2().is_none());
            let avx512 = best.as_avx512().filter(|_| least.as_avx512().is_none());
            all.extend(avx2.map(|avx2| Self(Level::Avx2(avx2))));
            all.extend(avx512.map(|avx512| Self(Level::Avx512(avx512))));
        }
        all
    }

    /// The proof that the machine has AVX2, where that is part of this instruction set.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx2(self) -> Option<Avx2> {
        self.0.as_avx2()
    }

    /// The proof that the machine has AVX-512, likewise.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx512(self) -> Option<Avx512> {
        self.0.as_avx512()
    }

    /// Calls `kernel`, compiled for this instruction set.
    ///
    /// Everything that `kernel` calls must be `#[inline(always)]`: code that is not inlined here
    /// is compiled for the least machine. Vectors only: no result depends on the instruction set,
    /// as nothing here is ever fused or reordered by the compiler.
    #[inline]
    pub(crate) fn run<R>(self, kernel: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(avx512) = self.0.as_avx512() {
                return avx512.vectorize(kernel);
            }
            if let Some(avx2) = self.0.as_avx2() {
                return avx2.vectorize(kernel);
            }
        }
        // The baseline of the other architectures is their SIMD (NEON on 64-bit Arm).
        kernel()
    }
}

/// Runs one call, compiled for an instruction set.
macro_rules! run {
    ($isa:expr, $call:expr) => {
        $isa.run(
            #[inline(always)]
            || $call,
        )
    };
}
pub(crate) use run;

/// Likewise a call that takes the function of an operation: a zero-sized one, so that each operation
/// has a loop of its own. [`run`], `Op` and `Number` have to be in scope.
macro_rules! run_op {
    ($isa:expr, $op:expr, |$function:ident| $call:expr) => {
        match $op {
            Op::Sum => run!($isa, {
                let $function = Number::sum;
                $call
            }),
            Op::Prod => run!($isa, {
                let $function = Number::prod;
                $call
            }),
            Op::Max => run!($isa, {
                let $function = Number::max;
                $call
            }),
            Op::Min => run!($isa, {
                let $function = Number::min;
                $call
            }),
        }
    };
}
pub(crate) use run_op;
