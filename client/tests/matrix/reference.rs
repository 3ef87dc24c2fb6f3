//! What a reduce must give, element by element.

use pccl::{Element, Reduce};

use crate::Op;
use crate::group::Way;
use crate::number::Number;

/// Bytes below which a buffer is not cut into another stripe.
pub(crate) const STRIPE_BYTES_MIN: usize = 512 * 1024;

/// Bytes up to which a buffer travels around the ring whole, where those of all ranks together have no
/// more than [`ALL_WHOLE_MAX`].
const WHOLE_MAX: usize = 32 * 1024;

/// See [`WHOLE_MAX`].
const ALL_WHOLE_MAX: usize = 256 * 1024;

/// Bytes up to which three peers of one machine exchange a buffer directly.
pub(crate) const DIRECT_MAX: usize = 64 * 1024;

/// Bytes up to which four and more peers of one machine reduce a buffer in rounds.
const ROUNDS_MAX: usize = 128 * 1024;

/// The operation on all contributions at once: for numbers of which it does not depend on the order.
pub(crate) fn at_once<T: Number>(op: Op, contributions: &[&[T]]) -> Vec<T> {
    let elements = 0..contributions[0].len();
    let mut numbers = Vec::new();
    elements
        .map(|index| {
            numbers.clear();
            numbers.extend(contributions.iter().map(|own| own[index]));
            T::at_once(op, &numbers)
        })
        .collect()
}

/// The operation in the order in which it is defined to be computed, rounded each time.
pub(crate) fn in_order<T: Number>(op: Op, contributions: &[&[T]]) -> Vec<T> {
    let world = contributions.len();
    let count = contributions[0].len();
    let order = Order::of(size_of_val(contributions[0]), world);
    order
        .first_ranks(count, world)
        .into_iter()
        .enumerate()
        .map(|(index, first)| {
            let own = |rank: usize| contributions[rank % world][index];
            let combined = match order {
                Order::Chain | Order::Chains => {
                    let chain = (first..first + world).map(own);
                    chain.reduce(|sum, own| sum.combine(op, own)).unwrap()
                }
                Order::Trees => in_rounds(op, world, &own, (first, 0)),
            };
            if op == Op::Avg {
                combined.over(world)
            } else {
                combined
            }
        })
        .collect()
}

/// In which order contributions are added.
#[derive(Clone, Copy)]
enum Order {
    /// From the first rank on.
    Chain,
    /// Each shard from the rank after that of its number on, around the ring, where it ends.
    Chains,
    /// Each shard along a tree whose root is the rank of its number.
    Trees,
}

impl Order {
    /// Buffers that travel whole or directly are combined from the first rank on.
    fn of(bytes: usize, world: usize) -> Self {
        match world {
            _ if Self::travels_whole(bytes, world) => Self::Chain,
            3 if bytes <= DIRECT_MAX => Self::Chain,
            4.. if bytes <= ROUNDS_MAX => Self::Trees,
            _ => Self::Chains,
        }
    }

    const fn travels_whole(bytes: usize, world: usize) -> bool {
        bytes <= WHOLE_MAX && bytes * world <= ALL_WHOLE_MAX
    }

    /// For each element: the rank that its additions begin with. A buffer is cut into a shard for each rank. Parts
    /// differ by at most one element, and longer ones come first; how they are cut into stripes makes no difference.
    fn first_ranks(self, count: usize, world: usize) -> Vec<usize> {
        let first = |shard: usize| match self {
            Self::Chain => 0,
            Self::Chains => (shard + 1) % world,
            Self::Trees => shard,
        };
        let shards = cut(count, world).into_iter().enumerate();
        let ranks = shards.flat_map(|(shard, length)| std::iter::repeat_n(first(shard), length));
        ranks.collect()
    }
}

/// What a rank has added of the chunk that is so many ranks ahead of it, when it sends it on; of its own chunk, the sum
/// of all. In round after round, in which the distance halves, rounding up, it gets what the rank at this distance
/// behind it has added of the chunks up to that distance ahead of this one, and no chunk that was sent before.
fn in_rounds<T: Number>(
    op: Op,
    world: usize,
    own: &impl Fn(usize) -> T,
    (rank, ahead): (usize, usize),
) -> T {
    let mut sum = own(rank);
    let mut reach = world;
    while reach > 1 {
        let distance = reach.div_ceil(2);
        if ahead >= distance {
            break;
        }
        if ahead < reach - distance {
            let there = (rank + world - distance, ahead + distance);
            sum = sum.combine(op, in_rounds(op, world, own, there));
        }
        reach = distance;
    }
    sum
}

/// Whether a result has the same bits however it comes about. A buffer that an all-reduce sends whole is scattered in
/// shards, and floats are added in another order then, unless they are quantized: such are never sent whole.
pub(crate) fn is_added_alike<T: Element>(way: Way, reduce: Reduce, own: &[&[T]]) -> bool {
    let bytes = size_of_val(own[0]);
    let is_quantized = reduce.error_bound(T::TYPE, own.len(), 1.0).is_some();
    match way {
        Way::InPlace | Way::OutOfPlace => true,
        Way::InHalves => {
            let travels_whole = Order::travels_whole(bytes, own.len());
            !T::TYPE.is_float() || is_quantized || own.len() <= 3 || !travels_whole
        }
    }
}

/// The lengths of so many parts of a whole.
fn cut(whole: usize, parts: usize) -> Vec<usize> {
    let length = |part| whole / parts + usize::from(part < whole % parts);
    (0..parts).map(length).collect()
}
