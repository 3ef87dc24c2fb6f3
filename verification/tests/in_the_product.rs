//! The data plane executes the plans of `pccl_core::plan` and recomputes nothing: a mistake that is switched on
//! there, and that the checker finds, also changes what users get.
//!
//! `cargo test -p verification --features mutants --test in_the_product`. A mistake is switched on for the
//! whole process, so this file has one test.

use std::thread;
use std::time::{Duration, Instant};

use pccl::{Algorithm, Communicator, Error, Reduce};
use pccl_core::mutants::{Mutant, switch_on, taken};

/// In the plan of the reduce that travels whole: the others stay right.
const IN_WHOLE: [Mutant; 2] = [Mutant::AddedAsTheyArrive, Mutant::OneContributionMissed];

/// In the plan of the reduce that travels directly.
const IN_DIRECT: [Mutant; 3] = [
    Mutant::DirectAddedAsTheyArrive,
    Mutant::ResultsNeverTold,
    Mutant::ResultAddedAgain,
];

/// In the plan of the ring.
const IN_RING: [Mutant; 3] = [
    Mutant::ReducedTwice,
    Mutant::GatheredTooEarly,
    Mutant::NeverFinished,
];

const WORLD: usize = 3;

/// So many elements are too many to travel whole.
const MIDDLE: usize = 10_000;

/// So many are too many to travel directly.
const LARGE: usize = 1_000_000;

/// By rank. Their sum in single precision depends on the order of the additions: in the order of the ranks it
/// is zero.
const SMALL: [f32; WORLD] = [1.0, 16_777_216.0, -16_777_216.0];

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(60);

/// Whether all of three peers got the right result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Right {
    /// Of the reduce that travels whole.
    small: bool,
    /// Of the reduce that travels directly.
    middle: bool,
    /// Of the reduce around the ring.
    large: bool,
}

fn reduce_at_three() -> Right {
    let master = pccl_master::spawn("127.0.0.1:0").expect("a port is free");
    let address = master.local_addr().to_string();
    let results = thread::scope(|scope| {
        let peers = [(); WORLD].map(|()| scope.spawn(|| reduce_all(&address)));
        peers.map(|peer| peer.join().expect("no peer panics"))
    });
    let results = results.map(|result| result.expect("no call fails"));
    Right {
        small: results.iter().all(|right| right.small),
        middle: results.iter().all(|right| right.middle),
        large: results.iter().all(|right| right.large),
    }
}

fn reduce_all(address: &str) -> Result<Right, Error> {
    let mut peer = Communicator::builder(address).connect()?;
    let begun = Instant::now();
    while peer.world_size() < WORLD {
        assert!(begun.elapsed() < GUARD, "the others do not come");
        peer.update_topology()?;
    }
    let mut small = vec![SMALL[peer.rank()]; 10];
    let mut middle = vec![SMALL[peer.rank()]; MIDDLE];
    let mut large = vec![3.0 * (1.0 + peer.rank() as f32); LARGE];
    peer.all_reduce(&mut small, Reduce::sum())?;
    let report = peer.all_reduce(&mut middle, Reduce::sum())?;
    assert_eq!(report.algorithm, Algorithm::Direct);
    peer.all_reduce(&mut large, Reduce::avg())?;
    Ok(Right {
        small: small.iter().all(|sum| *sum == 0.0),
        middle: middle.iter().all(|sum| *sum == 0.0),
        large: large.iter().all(|average| *average == 6.0),
    })
}

/// What comes out with a mistake in a plan.
fn with(mutant: Mutant) -> Right {
    switch_on(Some(mutant));
    let right = reduce_at_three();
    let made = taken();
    switch_on(None);
    assert!(made, "{}: nothing executed it", mutant.name());
    right
}

#[test]
fn a_mistake_in_a_plan_is_a_mistake_of_the_data_plane() {
    let all_right = Right {
        small: true,
        middle: true,
        large: true,
    };
    assert_eq!(reduce_at_three(), all_right, "without a mistake");
    for mutant in IN_WHOLE {
        let small = false;
        assert_eq!(
            with(mutant),
            Right { small, ..all_right },
            "{}",
            mutant.name()
        );
    }
    for mutant in IN_DIRECT {
        let middle = false;
        assert_eq!(
            with(mutant),
            Right {
                middle,
                ..all_right
            },
            "{}",
            mutant.name()
        );
    }
    for mutant in IN_RING {
        let large = false;
        assert_eq!(
            with(mutant),
            Right { large, ..all_right },
            "{}",
            mutant.name()
        );
    }
    assert_eq!(reduce_at_three(), all_right, "switched off again");
}
