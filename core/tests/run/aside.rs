//! Peers that are set aside: the others go on in the same moment, and who comes back keeps its place.

use pccl_core::id::{GroupId, Tag};
use pccl_core::peer::{Answer, Call};
use pccl_core::shared_state::SyncStrategy;

use crate::harness::{Holds, Run, SeatNo, reduce};

fn synchronizes(run: &mut Run, no: SeatNo) {
    let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
    run.call(no, sync);
    run.settle();
}

fn reduces(run: &mut Run, no: SeatNo) {
    run.call(no, reduce(1));
    run.settle();
}

/// One vote ends two things: an update that changes nothing, and the third conflict in a row. The rest of the
/// group needs another ring then, and gets the orders for it in the answer to the same message.
#[test]
fn a_vote_that_ends_an_update_and_sets_its_caster_aside_rewires_the_others_at_once() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.join_many(1, GroupId(1));
        synchronizes(&mut run, 2);
        reduces(&mut run, 0);
        reduces(&mut run, 0);
        for no in [0, 1, 3, 2] {
            run.call(no, Call::OptimizeTopology);
            run.settle();
        }
        for no in 0..4 {
            run.answers(no);
        }
        run.call_all(&[0, 1], &reduce(1));
        run.call(3, Call::UpdateTopology);
        run.settle();

        synchronizes(&mut run, 2);

        let updated = run.outcome(3);
        assert!(
            matches!(updated, Answer::TopologyUpdated(Ok(_))),
            "{updated:?}"
        );
        assert!(run.is_aside(2), "seed {seed}");
        let contributors = vec![run.id(0), run.id(1)];
        for no in [0, 1] {
            assert_eq!(
                run.seats[no].buffer(Tag(1)),
                Holds::Sum(contributors.clone())
            );
        }
    }
}

/// An admission has begun, and all that it began with are gone but one, which was set aside since. That one
/// comes in with it, and who registered later waits for its vote.
#[test]
fn who_was_set_aside_during_an_admission_comes_in_before_who_registered_later() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        let silent = run.join(GroupId(0));
        run.settle();
        run.freeze(silent);
        synchronizes(&mut run, 1);
        run.call(2, Call::UpdateTopology);
        run.settle();
        // All agree: the admission begins, and does not get on.
        reduces(&mut run, 0);
        run.leave(2);
        run.settle();
        run.lose(silent);
        run.settle();
        reduces(&mut run, 0);
        reduces(&mut run, 0);
        assert!(run.is_aside(1), "seed {seed}");
        let later = run.join(GroupId(0));
        run.settle();

        run.lose(0);
        run.settle();

        assert!(!run.is_aside(1) && !run.is_accepted(later), "seed {seed}");
        let synchronized = run.outcome(1);
        assert!(
            matches!(synchronized, Answer::Synchronized(Ok(_))),
            "{synchronized:?}"
        );
        run.call(1, Call::UpdateTopology);
        run.settle();
        assert!(run.is_accepted(later), "seed {seed}");
    }
}
