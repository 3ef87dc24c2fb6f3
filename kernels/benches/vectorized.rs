//! Whether every kernel is SIMD code.
//!
//! ```sh
//! cargo bench -p pccl-kernels --bench vectorized
//! ```
//!
//! A loop that is not takes five to forty times as long, and nothing else shows it. So each kernel
//! is measured beside a `memcpy` of the same buffers. Its floor lies between what was measured with
//! SIMD code and what with `-C no-vectorize-loops -C no-vectorize-slp` (and BLAKE3 without any), in
//! most rows at twice the latter: with those options, every row is below its floor but those of
//! `F16` whose conversions are SIMD instructions called by name.
//!
//! The best of many short measurements counts, taken in turns with the copy, and a kernel that is
//! below its floor is measured again for a while. A ratio to a copy still depends on the machine's
//! memory, so this is a benchmark for whoever changes a kernel and not a test.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pccl_kernels::{
    Codec, ElementType, Op, Scheme, checksum, content_hash, divide, reduce, reduce_into,
    reduce_saving, simplehash,
};

const LEN: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

type Kernel = Box<dyn FnMut(&mut Buffers)>;

struct Buffers {
    into: Vec<u8>,
    from: Vec<u8>,
    other: Vec<u8>,
}

struct Row {
    name: String,
    floor: f64,
    kernel: Kernel,
    /// The least time of the kernel and of a copy of [`LEN`] bytes, once measured.
    times: Option<(Duration, Duration)>,
}

impl Row {
    fn new(name: String, floor: f64, kernel: impl FnMut(&mut Buffers) + 'static) -> Self {
        Self {
            name,
            floor,
            kernel: Box::new(kernel),
            times: None,
        }
    }

    fn measure(&mut self, buffers: &mut Buffers) {
        for _ in 0..20 {
            let start = Instant::now();
            (self.kernel)(black_box(buffers));
            let middle = Instant::now();
            buffers.other.copy_from_slice(black_box(&buffers.from));
            black_box(&mut buffers.other);
            let (kernel, copy) = self.times.unwrap_or((Duration::MAX, Duration::MAX));
            self.times = Some((kernel.min(middle - start), copy.min(middle.elapsed())));
        }
    }

    /// The kernel's speed as a part of the copy's; 0 before it was measured.
    fn ratio(&self) -> f64 {
        self.times.map_or(0.0, |(kernel, copy)| {
            copy.as_secs_f64() / kernel.as_secs_f64()
        })
    }
}

fn main() -> ExitCode {
    let mut buffers = Buffers {
        into: vec![1; LEN],
        from: vec![1; LEN],
        other: vec![1; LEN],
    };
    let mut rows: Vec<_> = [reductions(), divisions(), codecs(), hashes()]
        .into_iter()
        .flatten()
        .collect();

    let started = Instant::now();
    loop {
        for row in rows.iter_mut().filter(|row| row.ratio() < row.floor) {
            row.measure(&mut buffers);
        }
        let all = rows.iter().all(|row| row.ratio() >= row.floor);
        if all || started.elapsed() > PATIENCE {
            break;
        }
    }

    let below: BTreeMap<_, _> = rows
        .iter()
        .filter(|row| row.ratio() < row.floor)
        .map(|row| (&row.name, format!("{:.3} < {}", row.ratio(), row.floor)))
        .collect();
    for row in rows.iter().filter(|row| row.name == "checksum") {
        println!("{} {:?}", row.ratio(), row.times);
    }
    println!("{} kernels measured", rows.len());
    if below.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("slower beside a copy than SIMD code is: {below:#?}");
    ExitCode::FAILURE
}

fn reductions() -> Vec<Row> {
    let floors = [
        (ElementType::U8, 0.09, 0.05),
        (ElementType::I8, 0.09, 0.05),
        (ElementType::U16, 0.2, 0.1),
        (ElementType::I16, 0.2, 0.1),
        (ElementType::U32, 0.4, 0.3),
        (ElementType::I32, 0.4, 0.3),
        (ElementType::U64, 0.6, 0.5),
        (ElementType::I64, 0.6, 0.5),
        (ElementType::F16, 0.03, 0.04),
        (ElementType::BF16, 0.04, 0.04),
        (ElementType::F32, 0.2, 0.12),
        (ElementType::F64, 0.35, 0.25),
    ];
    let mut rows = Vec::new();
    for (element, sum, max) in floors {
        for op in Op::ALL {
            let floor = match op {
                Op::Sum | Op::Prod => sum,
                Op::Max | Op::Min => max,
            };
            let name = |what| format!("{what} {element:?} {op:?}");
            rows.push(Row::new(name("reduce"), floor, move |b| {
                reduce(element, op, &mut b.into, &b.from).unwrap();
            }));
            rows.push(Row::new(name("reduce_into"), floor, move |b| {
                reduce_into(element, op, &mut b.into, &b.from, &b.other).unwrap();
            }));
            rows.push(Row::new(name("reduce_saving"), 0.8 * floor, move |b| {
                reduce_saving(element, op, &mut b.into, &b.from, &mut b.other).unwrap();
            }));
        }
    }
    rows
}

fn hashes() -> Vec<Row> {
    vec![
        Row::new("checksum".to_owned(), 0.3, |b| {
            black_box(checksum(&b.from));
        }),
        Row::new("simplehash".to_owned(), 0.12, |b| {
            black_box(simplehash(&b.from));
        }),
        Row::new("content_hash".to_owned(), 0.025, |b| {
            black_box(content_hash(&b.from));
        }),
    ]
}

fn divisions() -> Vec<Row> {
    // (No processor divides 64-bit integers in SIMD code.)
    let floors = [
        (ElementType::U8, 0.02),
        (ElementType::I8, 0.02),
        (ElementType::U16, 0.04),
        (ElementType::I16, 0.04),
        (ElementType::U32, 0.06),
        (ElementType::I32, 0.06),
        (ElementType::F16, 0.017),
        (ElementType::BF16, 0.04),
        (ElementType::F32, 0.1),
        (ElementType::F64, 0.12),
    ];
    let row = |(element, floor)| {
        Row::new(format!("divide {element:?}"), floor, move |b| {
            divide(element, &mut b.into, black_box(1)).unwrap();
        })
    };
    floors.map(row).into()
}

fn codecs() -> Vec<Row> {
    // For quantization and what it loses, dequantization with a sum, and decoding.
    let floors = [
        (ElementType::F16, 0.02, 0.01, 0.035, 0.025),
        (ElementType::BF16, 0.03, 0.02, 0.06, 0.05),
        (ElementType::F32, 0.06, 0.05, 0.12, 0.13),
        (ElementType::F64, 0.1, 0.09, 0.26, 0.3),
    ];
    let mut rows = Vec::new();
    for (element, quantize, residual, dequantize, decode) in floors {
        for scheme in Scheme::ALL {
            // Blocks have much to do besides.
            let part = if scheme == Scheme::Blockwise4 {
                0.7
            } else {
                1.0
            };
            let codec = Codec::new(element, scheme).unwrap();
            // Sums of halves take as many buffers of their own.
            let wider = codec.sum_element().size() / element.size();
            let bytes = LEN / wider;
            let speed = part * wider as f64;
            let count = NonZeroUsize::new(bytes / element.size()).unwrap();
            let mut frame = vec![0; codec.encoded_len(count.get())];
            let encoded = frame.clone();

            let name = |what: &str| format!("{what} {element:?} {scheme:?}");
            rows.push(Row::new(name("quantize"), quantize * speed, move |b| {
                codec.encode(&b.from[..bytes], &mut frame).unwrap();
            }));
            rows.push(Row::new(name("residual"), residual * speed, move |b| {
                let elements = &b.from[..bytes];
                codec.residual(elements, count, &mut b.into).unwrap();
            }));
            for op in Op::ALL {
                let (name, frame) = (name(&format!("dequantize {op:?}")), encoded.clone());
                rows.push(Row::new(name, dequantize * speed, move |b| {
                    let own = &b.from[..bytes];
                    codec.reduce(op, own, &frame, &mut b.into).unwrap();
                }));
            }
            rows.push(Row::new(name("decode"), decode * speed, move |b| {
                codec.decode(&encoded, &mut b.into[..bytes]).unwrap();
            }));
        }
    }
    rows
}
