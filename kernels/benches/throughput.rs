//! How fast the kernels are, beside a `memcpy` of the same run.
//!
//! ```sh
//! cargo bench -p pccl-kernels
//! cargo bench -p pccl-kernels -- quantize      # the rows whose name contains it
//! ```
//!
//! A row is GB/s (10⁹ bytes of one buffer per second: of the elements, for quantization of the
//! uncompressed ones), the same for the copy that was measured in turns with it, and the ratio.
//! "hot" works on buffers that stay in a core's second-level cache, as frames do; "cold" on buffers
//! that do not fit any. Buffers start at a cache line, but for the rows that say otherwise.
//!
//! The program fails where a target of the project is missed. The best times of a row count: other work
//! on the machine makes both slower, but not always at the same moment. So a row with a target is
//! measured several times, always as often, whether or not it has reached the target before.
use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pccl_kernels::{
    Codec, ElementType, Op, Scheme, content_hash, divide, reduce, reduce_into, reduce_saving,
    simplehash,
};

const CACHE_LINE: usize = 64;
const HOT: usize = 128 << 10;
const COLD: usize = 64 << 20;

/// How often a row with a target is measured; others, once.
const TRIES: usize = 10;

/// What the project wants of hot and of cold buffers, as ratios to a copy.
const TARGETS: [(&str, Heat, f64); 7] = [
    ("reduce f32 sum", Heat::Hot, 0.6),
    ("quantize f32 MinMaxU8", Heat::Hot, 0.5),
    ("quantize f32 ZeroPointU8", Heat::Hot, 0.5),
    ("dequantize-sum f32 MinMaxU8", Heat::Hot, 0.5),
    ("dequantize-sum f32 ZeroPointU8", Heat::Hot, 0.5),
    ("reduce bf16 sum", Heat::Hot, 0.25),
    ("reduce f32 sum", Heat::Cold, 0.8),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heat {
    Hot,
    Cold,
}

fn main() -> ExitCode {
    // `cargo bench` passes `--bench`.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let mut missed = 0;
    let started = Instant::now();
    for (heat, len) in [(Heat::Hot, HOT), (Heat::Cold, COLD)] {
        println!("\n{heat:?}: buffers of {} KiB", len >> 10);
        println!("{:<36} {:>6} {:>8} {:>6}", "", "GB/s", "memcpy", "ratio");
        let mut bench = Bench::new(heat, len, filter.as_deref());
        bench.reductions();
        bench.quantization();
        bench.hashes();
        missed += bench.missed;
    }
    println!("\n({:.0} s)", started.elapsed().as_secs_f64());
    if missed > 0 {
        eprintln!("{missed} rows are slower than the project wants");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Bench<'a> {
    heat: Heat,
    filter: Option<&'a str>,
    missed: usize,
    buffers: Buffers,
}

/// All of the same length.
struct Buffers {
    into: Aligned,
    from: Aligned,
    other: Aligned,
    copied: Aligned,
}

impl Buffers {
    /// The same element everywhere.
    fn fill(&mut self, element: &[u8]) {
        for buffer in [&mut self.into, &mut self.from, &mut self.other] {
            for place in buffer.chunks_exact_mut(element.len()) {
                place.copy_from_slice(element);
            }
        }
    }
}

/// Bytes that start at a cache line.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let mut bytes = vec![0; len + CACHE_LINE];
        let start = bytes.as_ptr().align_offset(CACHE_LINE);
        bytes.truncate(start + len);
        Self { bytes, start }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl<'a> Bench<'a> {
    fn new(heat: Heat, len: usize, filter: Option<&'a str>) -> Self {
        let [into, from, other, copied] = std::array::from_fn(|_| Aligned::new(len));
        Self {
            heat,
            filter,
            missed: 0,
            buffers: Buffers {
                into,
                from,
                other,
                copied,
            },
        }
    }

    fn reductions(&mut self) {
        for element in ElementType::ALL {
            // Ones: none of their sums, products and quotients is subnormal, infinite or NaN.
            self.buffers.fill(&number(element, 1.0));
            let name = format!("{element:?}").to_lowercase();
            for op in Op::ALL {
                let op_name = format!("{op:?}").to_lowercase();
                self.row(&format!("reduce {name} {op_name}"), 1, |b| {
                    reduce(element, op, &mut b.into, &b.from).expect("buffers that fit");
                });
            }
            self.row(&format!("divide {name}"), 1, |b| {
                divide(element, &mut b.into, black_box(1)).expect("whole elements");
            });
        }
        for element in [
            ElementType::F32,
            ElementType::F64,
            ElementType::BF16,
            ElementType::F16,
            ElementType::U8,
        ] {
            self.buffers.fill(&number(element, 1.0));
            self.other_forms(element);
        }
    }

    fn other_forms(&mut self, element: ElementType) {
        let name = format!("{element:?}").to_lowercase();
        self.row(&format!("reduce_into {name} sum"), 1, |b| {
            reduce_into(element, Op::Sum, &mut b.into, &b.from, &b.other)
                .expect("buffers that fit");
        });
        self.row(&format!("reduce_saving {name} sum"), 1, |b| {
            reduce_saving(element, Op::Sum, &mut b.into, &b.from, &mut b.other)
                .expect("buffers that fit");
        });
        let size = element.size();
        self.row(&format!("reduce {name} sum, off cache lines"), 1, |b| {
            let from = &b.from[..b.from.len() - size];
            reduce(element, Op::Sum, &mut b.into[size..], from).expect("buffers that fit");
        });
    }

    fn quantization(&mut self) {
        for element in [
            ElementType::F32,
            ElementType::F64,
            ElementType::BF16,
            ElementType::F16,
        ] {
            for scheme in Scheme::ALL {
                self.codec(Codec::new(element, scheme).expect("a float"));
            }
        }
    }

    fn codec(&mut self, codec: Codec) {
        let element = format!("{:?}", codec.element()).to_lowercase();
        let names = ["quantize", "dequantize-sum", "decode"]
            .map(|what| format!("{what} {element} {:?}", codec.scheme()));
        if names.iter().all(|name| self.is_left_out(name)) {
            return;
        }
        let [quantize, dequantize, decode] = names;
        // Sums of halves are wider: half as many elements, so that they fit the same buffers.
        let wider = codec.sum_element().size() / codec.element().size();
        let bytes = self.buffers.from.len() / wider;
        let count = bytes / codec.element().size();
        let mut frame = vec![0; codec.encoded_len(count)];
        let elements: Vec<u8> = (0..count)
            .flat_map(|i| number(codec.element(), (i * 7_919 % 10_007) as f32 / 5_000.0 - 1.0))
            .collect();
        codec.encode(&elements, &mut frame).expect("a whole frame");
        self.buffers.from[..bytes].copy_from_slice(&elements);

        self.row(&quantize, wider, |b| {
            let elements = black_box(&b.from[..bytes]);
            codec.encode(elements, &mut frame).expect("a whole frame");
        });
        self.row(&dequantize, wider, |b| {
            let own = black_box(&b.from[..bytes]);
            codec
                .reduce(Op::Sum, own, &frame, &mut b.into)
                .expect("a whole frame");
        });
        self.row(&decode, wider, |b| {
            codec
                .decode(&frame, &mut b.into[..bytes])
                .expect("a whole frame");
        });
    }

    fn hashes(&mut self) {
        self.row("simplehash", 1, |b| {
            black_box(simplehash(black_box(&b.from)));
        });
        self.row("content_hash", 1, |b| {
            black_box(content_hash(black_box(&b.from)));
        });
    }

    fn is_left_out(&self, name: &str) -> bool {
        self.filter.is_some_and(|part| !name.contains(part))
    }

    /// Measures `kernel`, which goes over one part in `part` of a buffer, in turns with a copy of
    /// as many bytes.
    fn row(&mut self, name: &str, part: usize, mut kernel: impl FnMut(&mut Buffers)) {
        if self.is_left_out(name) {
            return;
        }
        let target = TARGETS
            .iter()
            .find(|(row, heat, _)| *row == name && *heat == self.heat)
            .map(|(_, _, target)| *target);
        let bytes = self.buffers.from.len() / part;
        let (mut ours, mut copy) = (Duration::MAX, Duration::MAX);
        let tries = target.map_or(1, |_| TRIES);
        for _ in 0..tries {
            self.measure(bytes, &mut kernel, &mut ours, &mut copy);
        }
        let ratio = copy.as_secs_f64() / ours.as_secs_f64();
        let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
        print!(
            "{name:<36} {:>6.1} {:>8.1} {ratio:>6.2}",
            speed(ours),
            speed(copy)
        );
        match target {
            Some(target) if ratio < target => {
                println!("  MISSED: {target}, in {tries} tries");
                self.missed += 1;
            }
            Some(target) => println!("  wanted: {target}"),
            None => println!(),
        }
    }

    /// Lessens the times of a call of `kernel` and of a copy to the best ones.
    fn measure(
        &mut self,
        bytes: usize,
        mut kernel: impl FnMut(&mut Buffers),
        ours: &mut Duration,
        copy: &mut Duration,
    ) {
        let (rounds, calls) = match self.heat {
            Heat::Hot => (300, 16),
            Heat::Cold => (8, 1),
        };
        for _ in 0..rounds {
            *ours = time(calls, || kernel(black_box(&mut self.buffers))).min(*ours);
            *copy = time(calls, || {
                let Buffers { copied, from, .. } = black_box(&mut self.buffers);
                copied[..bytes].copy_from_slice(&from[..bytes]);
            })
            .min(*copy);
        }
    }
}

/// Of one call, among several.
fn time(calls: u32, mut kernel: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        kernel();
    }
    start.elapsed() / calls
}

/// An element's little-endian bytes.
fn number(element: ElementType, value: f32) -> Vec<u8> {
    match element {
        ElementType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::BF16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::F32 => value.to_le_bytes().to_vec(),
        ElementType::F64 => f64::from(value).to_le_bytes().to_vec(),
        ElementType::U8
        | ElementType::I8
        | ElementType::U16
        | ElementType::I16
        | ElementType::U32
        | ElementType::I32
        | ElementType::U64
        | ElementType::I64 => (value as i64).to_le_bytes()[..element.size()].to_vec(),
    }
}
