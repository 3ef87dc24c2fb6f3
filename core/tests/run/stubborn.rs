//! Programs that answer each conflict by the same calls again: none holds up the others for ever.

use pccl_core::id::GroupId;
use pccl_core::messages::Misdeed;
use pccl_core::peer::{Answer, Call, CallError};
use pccl_core::shared_state::SyncStrategy;

use crate::harness::{Run, SeatNo, reduce};

/// One call of a program.
#[derive(Clone, Copy, Debug)]
enum Makes {
    Update,
    Sync,
    Reduce,
}

const REDUCES: &[Makes] = &[Makes::Reduce];
/// The documented way to make an aborted reduce again.
const REDUCES_AND_UPDATES: &[Makes] = &[Makes::Reduce, Makes::Update];
const SYNCS: &[Makes] = &[Makes::Sync];
/// The top of the usual loop.
const UPDATES_AND_SYNCS: &[Makes] = &[Makes::Update, Makes::Sync];

/// Processes that go through their calls, whatever the answers are.
struct Stubborn {
    run: Run,
    programs: Vec<&'static [Makes]>,
    /// Calls of each that were answered.
    answered: Vec<usize>,
    waits: Vec<bool>,
    /// Collectives and synchronizations of each that succeeded.
    committed: Vec<u32>,
    synchronized: Vec<u32>,
}

impl Stubborn {
    /// The first so many have synchronized before, and the others are newcomers.
    fn new(seed: u64, veterans: usize, programs: &[&'static [Makes]]) -> Self {
        let mut run = Run::with_accepted_peers(seed, veterans);
        for no in 0..veterans {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();
        run.join_many(programs.len() - veterans, GroupId(0));
        for no in 0..programs.len() {
            assert!(run.is_accepted(no));
            run.answers(no);
        }
        let size = programs.len();
        Self {
            run,
            programs: programs.to_vec(),
            answered: vec![0; size],
            waits: vec![false; size],
            committed: vec![0; size],
            synchronized: vec![0; size],
        }
    }

    fn go_on(mut self, rounds: usize) -> Self {
        for _ in 0..rounds {
            for no in 0..self.programs.len() {
                if !self.waits[no] && self.run.peer(no).view().ended().is_none() {
                    self.calls(no);
                }
            }
            self.run.settle();
            for no in 0..self.programs.len() {
                for answer in self.run.answers(no) {
                    self.hears(no, &answer);
                }
            }
        }
        self
    }

    fn calls(&mut self, no: SeatNo) {
        let program = self.programs[no];
        let call = match program[self.answered[no] % program.len()] {
            Makes::Update => Call::UpdateTopology,
            Makes::Sync => self.run.seats[no].sync_call(SyncStrategy::EnforcePopular),
            Makes::Reduce => reduce(1),
        };
        self.waits[no] = true;
        self.run.call(no, call);
    }

    fn hears(&mut self, no: SeatNo, answer: &Answer) {
        self.waits[no] = false;
        self.answered[no] += 1;
        let is_committed = matches!(answer, Answer::CollectiveEnded { result: Ok(_), .. });
        self.committed[no] += u32::from(is_committed);
        self.synchronized[no] += u32::from(matches!(answer, Answer::Synchronized(Ok(_))));
    }
}

#[test]
fn one_that_reduces_goes_on_beside_one_newcomer_that_synchronizes() {
    for seed in 1..10 {
        for reduces in [REDUCES, REDUCES_AND_UPDATES] {
            let end = Stubborn::new(seed, 1, &[reduces, SYNCS]).go_on(40);

            assert!(end.committed[0] > 1, "seed {seed}, {reduces:?}");
            assert_eq!(end.run.peer(1).view().ended(), None);
        }
    }
}

#[test]
fn one_that_reduces_goes_on_beside_many_newcomers_that_synchronize() {
    for seed in 1..10 {
        let programs = [REDUCES_AND_UPDATES, SYNCS, UPDATES_AND_SYNCS, SYNCS];
        let end = Stubborn::new(seed, 1, &programs).go_on(40);

        assert!(end.committed[0] > 1, "seed {seed}");
    }
}

#[test]
fn veterans_that_answer_a_conflict_in_different_ways_go_on() {
    for seed in 1..10 {
        for programs in [
            [REDUCES_AND_UPDATES, UPDATES_AND_SYNCS, UPDATES_AND_SYNCS],
            [UPDATES_AND_SYNCS, REDUCES_AND_UPDATES, REDUCES_AND_UPDATES],
        ] {
            let end = Stubborn::new(seed, 3, &programs).go_on(40);

            let committed: u32 = end.committed.iter().sum();
            assert!(committed > 1, "seed {seed}");
            let all_stay = (0..3).all(|no| end.run.peer(no).view().ended().is_none());
            assert!(all_stay, "seed {seed}");
        }
    }
}

#[test]
fn where_nobody_has_synchronized_those_that_reduce_go_on() {
    for seed in 1..10 {
        let end = Stubborn::new(seed, 0, &[SYNCS, REDUCES_AND_UPDATES, SYNCS]).go_on(40);

        assert!(end.committed[1] > 1, "seed {seed}");
    }
}

/// It has all the time that three conflicts and an answered synchronization take to do what the others do.
#[test]
fn veterans_that_synchronize_do_not_wait_for_a_newcomer_that_never_does() {
    for seed in 1..10 {
        for reduces in [REDUCES, REDUCES_AND_UPDATES] {
            let end = Stubborn::new(seed, 2, &[SYNCS, UPDATES_AND_SYNCS, reduces]).go_on(40);

            assert!(end.synchronized[0] > 1, "seed {seed}, {reduces:?}");
            let why = CallError::Kicked(Misdeed::MissedBallot);
            assert_eq!(end.run.peer(2).view().ended(), Some(&why));
        }
    }
}

/// Three collectives of one step, for which three others wait to synchronize: one conflict, and not three.
#[test]
fn collectives_that_are_started_side_by_side_are_one_conflict() {
    for seed in 1..10 {
        let mut run = Stubborn::new(seed, 4, &[SYNCS; 4]).run;
        for no in 0..3 {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();
        for tag in 1..=3 {
            run.call(3, reduce(tag));
        }
        run.settle();

        assert!((0..4).all(|no| !run.is_aside(no)), "seed {seed}");
        let sync = run.seats[3].sync_call(SyncStrategy::EnforcePopular);
        run.call(3, sync);
        run.settle();
        for no in 0..4 {
            let answer = run.answers(no).pop();
            assert!(
                matches!(answer, Some(Answer::Synchronized(Ok(_)))),
                "{answer:?}"
            );
        }
    }
}

/// A newcomer that is out of step once, with all collectives of a step, reads so and stays.
#[test]
fn a_newcomer_that_starts_six_collectives_too_early_is_not_kicked() {
    for seed in 1..10 {
        let mut run = Stubborn::new(seed, 2, &[SYNCS; 3]).run;
        for no in 0..2 {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();
        for tag in 1..=6 {
            run.call(2, reduce(tag));
        }
        run.settle();
        for no in 0..2 {
            if !run.answers(no).is_empty() {
                let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
                run.call(no, sync);
            }
        }
        run.settle();

        assert!((0..3).all(|no| run.is_accepted(no)), "seed {seed}");
    }
}
