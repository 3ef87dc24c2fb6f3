//! The whole matrix: every element type, operation and quantization, for rings of 2 to 5 peers and sizes
//! from nothing to many frames, in place, out of place and in two halves, over real lanes: over one, as
//! between peers on one machine, and over all of them, as between machines.
//!
//! | module | what it is for |
//! |---|---|
//! | `number` | what each operation means on two elements, and numbers to reduce |
//! | `reference` | what a reduce must give, element by element |
//! | `group` | rings of peers, and what comes out of them |
//! | `plain`, `quantized` | the cases |
//! | `algorithms` | the same for every collective, by every algorithm |
//! | `special` | NaN, infinities, zeros of either sign, subnormals, integers at their limits |

mod algorithms;
mod group;
mod number;
mod plain;
mod quantized;
mod reference;
mod special;
#[path = "../support/mod.rs"]
mod support;

use pccl::Reduce;

/// Every operation.
const OPS: [Op; 5] = [Op::Sum, Op::Avg, Op::Prod, Op::Max, Op::Min];

/// An operation, in the tests' own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Sum,
    Avg,
    Prod,
    Max,
    Min,
}

impl Op {
    fn reduce(self) -> Reduce {
        match self {
            Self::Sum => Reduce::sum(),
            Self::Avg => Reduce::avg(),
            Self::Prod => Reduce::prod(),
            Self::Max => Reduce::max(),
            Self::Min => Reduce::min(),
        }
    }
}

/// Numbers of elements: none, fewer than peers, as many, what more than two exchange directly, and many frames.
fn sizes<T>(world: usize) -> [usize; 8] {
    let directly = (reference::DIRECT_MAX - 5) / size_of::<T>();
    [0, 1, world - 1, world, 1025, directly, 50_001, most::<T>()]
}

/// The largest of the [`sizes`]: a stripe of two frames or more for each lane, and not the same number of elements
/// in each part.
const fn most<T>() -> usize {
    let stripes = 2 * group::LANES as usize * reference::STRIPE_BYTES_MIN;
    (stripes + 50_000) / size_of::<T>() + 3
}
