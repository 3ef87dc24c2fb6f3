//! How fast the kernels are, as ratios to a `memcpy` of the same buffers measured in the same run.
//!
//! ```sh
//! cargo run --release -p pccl-kernels --example throughput
//! ```
//!
//! "hot" works on buffers that stay in a core's cache, as frames do; "cold" on buffers that do not.
//! The number is the time of the kernel over the time of the copy: 1.0 is as fast as copying. The
//! program fails where a float sum on hot buffers takes longer than six copies. About four is what
//! SSE2 allows beside a `memcpy` in AVX; a loop that is no SIMD code takes ten and more.
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use pccl_kernels::{Element, Op, divide, reduce, simplehash};

const HOT: usize = 128 << 10;
const COLD: usize = 64 << 20;
const WORST_RATIO: f64 = 6.0;

fn main() -> ExitCode {
    let mut slowest_sum: f64 = 0.0;
    for (name, len) in [("hot, 128 KiB", HOT), ("cold, 64 MiB", COLD)] {
        let mut buffers = Buffers::new(len);
        let copy = seconds(len, || {
            buffers.into.copy_from_slice(black_box(&buffers.from))
        });
        println!("{name}: memcpy {:.1} GB/s", len as f64 / copy / 1e9);
        println!(
            "{:>8} {:>6} {:>6} {:>6} {:>6} {:>6}",
            "", "sum", "prod", "max", "min", "div"
        );
        for element in Element::ALL {
            let times = buffers.times(element).map(|time| time / copy);
            println!("{:>8} {}", format!("{element:?}"), columns(&times));
            if len == HOT && matches!(element, Element::F32 | Element::F64) {
                slowest_sum = slowest_sum.max(times[0]);
            }
        }
        let hash = seconds(len, || {
            black_box(simplehash(black_box(&buffers.from)));
        });
        println!(
            "simplehash {:.2} ({:.1} GB/s)\n",
            hash / copy,
            len as f64 / hash / 1e9
        );
    }

    if slowest_sum > WORST_RATIO {
        eprintln!("a hot float sum takes {slowest_sum:.1} copies, more than {WORST_RATIO}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Buffers {
    into: Vec<u8>,
    from: Vec<u8>,
}

impl Buffers {
    fn new(len: usize) -> Self {
        // Ones and twos in every byte: no NaN and no subnormal in any float type.
        let from = (0..len).map(|i| 1 + (i % 2) as u8).collect();
        Self {
            into: vec![1; len],
            from,
        }
    }

    /// Seconds for sum, product, maximum, minimum and division.
    fn times(&mut self, element: Element) -> [f64; 5] {
        let len = self.from.len();
        let [sum, prod, max, min] = Op::ALL.map(|op| {
            self.into.fill(1);
            seconds(len, || {
                reduce(
                    element,
                    op,
                    black_box(&mut self.into),
                    black_box(&self.from),
                )
                .expect("equal buffers of whole elements");
            })
        });
        self.into.fill(100);
        let div = seconds(len, || {
            divide(element, black_box(&mut self.into), black_box(3)).expect("whole elements");
        });
        [sum, prod, max, min, div]
    }
}

/// The least time of several goes; each goes over at least 64 MiB.
fn seconds(len: usize, mut kernel: impl FnMut()) -> f64 {
    let calls = (COLD / len).max(1);
    let mut least = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..calls {
            kernel();
        }
        least = least.min(start.elapsed().as_secs_f64() / calls as f64);
    }
    least
}

fn columns(ratios: &[f64]) -> String {
    ratios
        .iter()
        .map(|ratio| format!("{ratio:>6.2}"))
        .collect::<Vec<_>>()
        .join(" ")
}
