//! The instruction sets for which every loop is compiled, and the choice between them at run time.

#[cfg(target_arch = "x86_64")]
use fearless_simd::x86::{Avx2, Avx512};
use fearless_simd::{Level, Simd};

/// An instruction set that this machine has. A value of this type is the proof of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(Level);

impl Isa {
    /// The best instruction set of this machine, which is detected once.
    ///
    /// AVX-512 means the features of Ice Lake and Zen 4, and of everything after them. On a machine with only the
    /// older ones, such as Skylake-X, AVX2 is the best.
    #[inline]
    pub(crate) fn best() -> Self {
        Self(Level::new())
    }

    /// All instruction sets of this machine that [`run`](Self::run) distinguishes, in ascending order. The first is
    /// the one for which the whole program is compiled.
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

    /// The proof that the machine has AVX2, if this instruction set includes it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx2(self) -> Option<Avx2> {
        self.0.as_avx2()
    }

    /// The proof that the machine has AVX-512, if this instruction set includes it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx512(self) -> Option<Avx512> {
        self.0.as_avx512()
    }

    /// Calls `kernel`, compiled for this instruction set.
    ///
    /// Everything that `kernel` calls must be `#[inline(always)]`: code that is not inlined here is compiled for the
    /// lowest instruction set. Only vectorization differs: no result depends on the instruction set, because the
    /// compiler fuses and reorders nothing here.
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

/// As [`run`], for a call that takes the function of an operation. The function is zero-sized, so that each operation
/// has its own loop. [`run`], `Op` and `Number` must be in scope.
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
