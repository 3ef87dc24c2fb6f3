//! The data plane executes the plans of `pccl_core::plan` and recomputes nothing: a mistake that is switched on
//! there, and that the checker finds, also changes what users get.
//!
//! `cargo test -p verification --features mutants --test in_the_product`. A mistake is switched on for the
//! whole process, so this file has one test.

use std::thread;

use pccl::{Communicator, Error, Reduce};
use pccl_core::mutants::{Mutant, switch_on, taken};

/// Each in a plan that one of the reduces of the test takes.
const IN_PLANS: [Mutant; 5] = [
    Mutant::ReducedTwice,
    Mutant::GatheredTooEarly,
    Mutant::NeverFinished,
    Mutant::AddedAsTheyArrive,
    Mutant::OneContributionMissed,
];

const WORLD: usize = 3;

/// So many elements are too many to travel whole.
const LARGE: usize = 100_000;

/// By rank. Their sum in single precision depends on the order of the additions: in the order of the ranks it
/// is zero.
const SMALL: [f32; WORLD] = [1.0, 16_777_216.0, -16_777_216.0];

/// Whether three peers get the right results, of a reduce that travels whole and of one that does not.
fn all_is_right() -> bool {
    let master = pccl_master::spawn("127.0.0.1:0").expect("a port is free");
    let address = master.local_addr().to_string();
    let results: Vec<Result<bool, Error>> = thread::scope(|scope| {
        let peers = [(); WORLD].map(|()| scope.spawn(|| reduce_both(&address)));
        let joined = peers.map(|peer| peer.join().expect("no peer panics"));
        joined.into()
    });
    results.into_iter().all(|result| result.unwrap_or(false))
}

fn reduce_both(address: &str) -> Result<bool, Error> {
    let mut peer = Communicator::builder(address).connect()?;
    while peer.world_size() < WORLD {
        peer.update_topology()?;
    }
    let own = SMALL[peer.rank()];
    let mut small = vec![own; 10];
    let mut large = vec![3.0 * (1.0 + peer.rank() as f32); LARGE];
    let outcome = [
        peer.all_reduce(&mut small, Reduce::sum()).map(|_| ()),
        peer.all_reduce(&mut large, Reduce::avg()).map(|_| ()),
    ];
    let whole = outcome.iter().all(Result::is_ok);
    let small = small.iter().all(|sum| *sum == 0.0);
    let large = large.iter().all(|average| *average == 6.0);
    Ok(whole && small && large)
}

#[test]
fn a_mistake_in_a_plan_is_a_mistake_of_the_data_plane() {
    assert!(all_is_right(), "without a mistake");
    for mutant in IN_PLANS {
        switch_on(Some(mutant));
        let right = all_is_right();
        let made = taken();
        switch_on(None);
        assert!(made, "{}: nothing executed it", mutant.name());
        assert!(
            !right,
            "{}: the results are right all the same",
            mutant.name()
        );
    }
    assert!(all_is_right(), "switched off again");
}
