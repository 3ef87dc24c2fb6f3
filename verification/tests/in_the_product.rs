//! The data plane executes the plans of `pccl_core::plan` and recomputes nothing: a mistake that is switched on
//! there, and that the checker finds, also changes what users get.
//!
//! `cargo test -p verification --features mutants --test in_the_product`. A mistake is switched on for the
//! whole process, so this file has one test.

use std::thread;
use std::time::{Duration, Instant};

use pccl::{Algorithm, Communicator, Error, Gather, Reduce};
use pccl_core::mutants::{Mutant, switch_on, taken};

/// In the plan of the reduce that travels whole: the others stay right.
const IN_WHOLE: [Mutant; 2] = [Mutant::AddedAsTheyArrive, Mutant::OneContributionMissed];

/// In the plan of the reduce that travels directly.
const IN_DIRECT: [Mutant; 3] = [
    Mutant::DirectAddedAsTheyArrive,
    Mutant::ResultsNeverTold,
    Mutant::ResultAddedAgain,
];

/// In the plans of four ranks of one machine, which take rounds: of what is gathered whole, and of the rest.
const IN_ROUNDS: [Mutant; 2] = [Mutant::AddedAsTheyArrive, Mutant::RoundsAddResultsAgain];

/// In the plan of the ring.
const IN_RING: [Mutant; 2] = [Mutant::GatheredTooEarly, Mutant::NeverFinished];

/// In the plan of the ring and in that of its second half.
const IN_RING_AND_HALF: [Mutant; 1] = [Mutant::ReducedTwice];

/// In the halves of the plan of the ring, each by itself.
const IN_HALVES: [Mutant; 2] = [Mutant::ScatteredOneShort, Mutant::AnothersShardGathered];

/// Too few for rounds, and enough.
const WORLDS: [usize; 2] = [3, 4];

/// So many elements are too many to travel whole.
const MIDDLE: usize = 10_000;

/// So many are too many to travel directly.
const LARGE: usize = 1_000_000;

/// So many are too many, too, and their shards are one frame each: a longer frame is refused where a mistake adds it.
const SHARDED: usize = 150_000;

/// By rank. Their sum in single precision depends on the order of the additions: in the order of the ranks it
/// is zero.
const SMALL: [f32; 4] = [1.0, 16_777_216.0, -16_777_216.0, 0.0];

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(60);

/// Whether all peers got the right result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Right {
    /// Of the reduce that travels whole.
    small: bool,
    /// Of the reduce that travels directly, or in rounds.
    middle: bool,
    /// Of the reduce around the ring.
    large: bool,
    /// Of a reduce-scatter, and then of an all-gather.
    shards: bool,
}

const ALL_RIGHT: Right = Right {
    small: true,
    middle: true,
    large: true,
    shards: true,
};

fn reduce_in(world: usize) -> Right {
    let master = pccl_master::spawn("127.0.0.1:0").expect("a port is free");
    let address = master.local_addr().to_string();
    let results = thread::scope(|scope| {
        let reduce = || scope.spawn(|| reduce_all(&address, world));
        let peers: Vec<_> = (0..world).map(|_| reduce()).collect();
        let results = peers.into_iter().map(|peer| peer.join());
        results.collect::<Result<Vec<_>, _>>()
    });
    let results = results.expect("no peer panics");
    let results: Result<Vec<Right>, Error> = results.into_iter().collect();
    let results = results.expect("no call fails");
    Right {
        small: results.iter().all(|right| right.small),
        middle: results.iter().all(|right| right.middle),
        large: results.iter().all(|right| right.large),
        shards: results.iter().all(|right| right.shards),
    }
}

fn reduce_all(address: &str, world: usize) -> Result<Right, Error> {
    let mut peer = Communicator::builder(address).connect()?;
    let begun = Instant::now();
    while peer.world_size() < world {
        assert!(begun.elapsed() < GUARD, "the others do not come");
        peer.update_topology()?;
    }
    let rank = peer.rank();
    // In rounds every chunk is added in an order of its own.
    let (algorithm, own, all) = match world {
        3 => (Algorithm::Direct, SMALL[rank], 0.0),
        _ => (Algorithm::Circulant, 1.0 + rank as f32, 10.0),
    };
    let mut small = vec![SMALL[rank]; 10];
    let mut middle = vec![own; MIDDLE];
    let mut large = vec![3.0 * (1.0 + rank as f32); LARGE];
    peer.all_reduce(&mut small, Reduce::sum())?;
    let report = peer.all_reduce(&mut middle, Reduce::sum())?;
    assert_eq!(report.algorithm, algorithm);
    peer.all_reduce(&mut large, Reduce::avg())?;
    let average = 1.5 * (1.0 + world as f32);
    let mut summed = vec![1_u32; SHARDED];
    let shard = peer.reduce_scatter(&mut summed, Reduce::sum())?.shard;
    let is_scattered = shard.of(&summed).iter().all(|sum| *sum == world as u32);
    let mut gathered: Vec<u32> = vec![0; SHARDED];
    let mine = gathered.iter_mut().zip(1..).skip(shard.range().start);
    mine.take(shard.range().len())
        .for_each(|(element, number)| *element = number);
    peer.all_gather(&mut gathered, Gather::of(shard))?;
    let is_gathered = gathered
        .iter()
        .zip(1..)
        .all(|(element, number)| *element == number);
    Ok(Right {
        small: small.iter().all(|sum| *sum == 0.0),
        middle: middle.iter().all(|sum| *sum == all),
        large: large.iter().all(|known| *known == average),
        shards: is_scattered && is_gathered,
    })
}

/// What comes out with a mistake in a plan.
fn with(mutant: Mutant, world: usize) -> Right {
    switch_on(Some(mutant));
    let right = reduce_in(world);
    let made = taken();
    switch_on(None);
    assert!(made, "{}: nothing executed it", mutant.name());
    right
}

fn comes_out(mutants: &[Mutant], world: usize, expected: Right) {
    for mutant in mutants {
        assert_eq!(with(*mutant, world), expected, "{}", mutant.name());
    }
}

#[test]
fn a_mistake_in_a_plan_is_a_mistake_of_the_data_plane() {
    let [few, enough] = WORLDS;
    let small = Right {
        small: false,
        ..ALL_RIGHT
    };
    let middle = Right {
        middle: false,
        ..ALL_RIGHT
    };
    let large = Right {
        large: false,
        ..ALL_RIGHT
    };
    let shards = Right {
        shards: false,
        ..ALL_RIGHT
    };
    let large_and_shards = Right {
        large: false,
        ..shards
    };
    for world in WORLDS {
        assert_eq!(reduce_in(world), ALL_RIGHT, "without a mistake");
    }
    comes_out(&IN_WHOLE, few, small);
    comes_out(&IN_DIRECT, few, middle);
    comes_out(&IN_RING, few, large);
    comes_out(&IN_RING_AND_HALF, few, large_and_shards);
    comes_out(&IN_HALVES, few, shards);
    let [gathered, in_chunks] = IN_ROUNDS;
    comes_out(&[gathered], enough, small);
    comes_out(&[in_chunks], enough, middle);
    for world in WORLDS {
        assert_eq!(reduce_in(world), ALL_RIGHT, "switched off again");
    }
}
