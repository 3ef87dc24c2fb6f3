//! Collectives: one verdict for all, whatever happens in between.

use pccl_core::element::{
    CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp, SpecField,
};
use pccl_core::id::{PeerId, Tag};
use pccl_core::messages::{AbortCause, CollectiveRefusal};
use pccl_core::peer::{Answer, Call, CallError};
use pccl_core::plan::Algorithm;

use crate::harness::{Holds, Run, SeatNo, reduce, ring_spec};

fn result(run: &mut Run, no: SeatNo) -> Result<Vec<PeerId>, CallError> {
    match run.outcome(no) {
        Answer::CollectiveEnded { result, .. } => result.map(|committed| committed.contributors),
        other => panic!("{other:?}"),
    }
}

fn abort_cause(run: &mut Run, no: SeatNo) -> AbortCause {
    match result(run, no) {
        Err(CallError::Aborted { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// Steps until the ring of the seat has finished and its vote is on its way.
fn until_voted(run: &mut Run, no: SeatNo) {
    use pccl_core::states::CollectiveCommunicationState::VoteComplete;
    let voted = |run: &Run| {
        let mut tags = run.peer(no).view().tags();
        tags.any(|view| view.state == VoteComplete)
    };
    while !voted(run) {
        assert!(run.step(), "the plan never finishes");
    }
}

/// the plan had finished locally, and the verdict is abort.
#[test]
fn a_buffer_whose_plan_had_finished_is_restored_when_the_verdict_is_abort() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.call_all(&[0, 1, 2], &reduce(1));
        until_voted(&mut run, 0);

        // The third dies with its vote: whether it had finished is not known.
        run.lose_with_prefix(2, 0);
        run.settle();

        let verdicts = [result(&mut run, 0), result(&mut run, 1)];
        assert_eq!(verdicts[0], verdicts[1]);
        for no in [0, 1] {
            let expected = match &verdicts[0] {
                Ok(_) => Holds::Sum((0..3).map(|no| run.id(no)).collect()),
                Err(_) => Holds::Own,
            };
            assert_eq!(run.seats[no].buffer(Tag(1)), expected, "seed {seed}");
        }
    }
}

/// R-2, with the abort certain: the other one has not voted, and gives up.
#[test]
fn who_had_finished_restores_its_buffer_when_another_gives_up() {
    let mut stories = 0;
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 2);
        run.call_all(&[0, 1], &reduce(1));
        until_voted(&mut run, 0);
        if !run.seats[1].runs_tag(Tag(1)) {
            continue;
        }

        run.give_up(1, Tag(1));
        run.settle();

        let cause = AbortCause::Cancelled(run.id(1));
        assert_eq!(abort_cause(&mut run, 0), cause);
        assert!(run.answers(1).is_empty());
        for no in [0, 1] {
            assert_eq!(run.seats[no].buffer(Tag(1)), Holds::Own);
        }
        stories += 1;
    }
    assert!(
        stories > 0,
        "the ring of the first never ended before that of the second"
    );
}

#[test]
fn a_vote_that_was_cast_stands_when_its_caster_dies() {
    let mut commits = 0;
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.call_all(&[0, 1, 2], &reduce(1));
        until_voted(&mut run, 2);
        while !run.seats[2].connection.up.queue.is_empty() {
            run.step();
        }
        run.lose(2);
        run.settle();

        // Its part was done before it voted; the others may still have needed its lanes.
        let verdicts = [result(&mut run, 0), result(&mut run, 1)];
        assert_eq!(verdicts[0], verdicts[1], "seed {seed}");
        match &verdicts[0] {
            Ok(contributors) => {
                assert!(
                    contributors.contains(&run.id(2)),
                    "the result holds what it gave"
                );
                commits += 1;
            }
            Err(CallError::Aborted { cause, .. }) => {
                assert_ne!(*cause, AbortCause::PeerLost(run.id(2)), "seed {seed}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(commits > 0, "the others always needed its lanes");
}

#[test]
fn a_peer_lost_mid_reduce_aborts_the_reduce_for_everyone() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call_all(&[0, 1, 2], &reduce(1));
    run.steps(8);

    run.lose(2);
    run.settle();

    for no in [0, 1] {
        let cause = abort_cause(&mut run, no);
        let lost = run.id(2);
        let by_loss = matches!(cause, AbortCause::PeerLost(peer) if peer == lost);
        assert!(
            by_loss || matches!(cause, AbortCause::LaneLost { .. }),
            "{cause}"
        );
        assert_eq!(run.seats[no].buffer(Tag(1)), Holds::Own);
    }
}

/// a disagreement is refused by naming the field and the peers.
#[test]
fn peers_that_want_different_things_under_one_tag_are_told_in_what_they_differ() {
    let usual = ring_spec();
    let broadcast = |root| CollectiveSpec {
        kind: CollectiveKind::Broadcast { root: PeerId(root) },
        ..usual
    };
    let gather = |limit| gather_v(0, limit);
    let odd = [
        (usual, SpecField::Kind, broadcast(1)),
        (usual, SpecField::Kind, gather(9)),
        (gather(8), SpecField::Limit, gather(9)),
        (broadcast(1), SpecField::Root, broadcast(2)),
        (
            usual,
            SpecField::Count,
            CollectiveSpec { count: 65, ..usual },
        ),
        (
            usual,
            SpecField::Operation,
            CollectiveSpec {
                op: ReduceOp::Max,
                ..usual
            },
        ),
        (
            usual,
            SpecField::ElementType,
            CollectiveSpec {
                element: ElementType::F64,
                ..usual
            },
        ),
        (
            usual,
            SpecField::Quantization,
            CollectiveSpec {
                quantization: Quantization::MinMax {
                    to: ElementType::U8,
                },
                ..usual
            },
        ),
        (
            usual,
            SpecField::Algorithm,
            CollectiveSpec {
                algorithm: Some(Algorithm::Ring),
                ..usual
            },
        ),
        (
            usual,
            SpecField::Ordered,
            CollectiveSpec {
                ordered: true,
                ..usual
            },
        ),
    ];
    for (others, field, spec) in odd {
        let mut run = Run::with_accepted_peers(1, 3);
        let tag = Tag(1);

        run.call_all(&[0, 2], &Call::Initiate { tag, spec: others });
        run.call(1, Call::Initiate { tag, spec });
        run.settle();

        let peers = vec![run.id(0), run.id(1)];
        let values = [others.value(field), spec.value(field)];
        let reason = CollectiveRefusal::Disagreement {
            field,
            peers,
            values,
        };
        for no in 0..3 {
            let why = CallError::CollectiveRefused {
                tag,
                reason: reason.clone(),
            };
            assert_eq!(result(&mut run, no), Err(why));
        }
        run.call_all(&[0, 1, 2], &reduce(1));
        run.settle();
        assert_eq!(run.watch.commits, 3, "the tag is free again");
    }
}

/// The one whose buffer all want is in the run no more, or was never in the group: those who wait hear its name, and
/// go on with others.
#[test]
fn a_broadcast_from_a_peer_that_does_not_take_part_is_refused_by_its_name() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 3);
        let (tag, root) = (Tag(1), run.id(2));
        let kind = CollectiveKind::Broadcast { root };
        let spec = CollectiveSpec {
            kind,
            ..ring_spec()
        };
        run.call_all(&[0, 1], &Call::Initiate { tag, spec });
        run.lose(2);
        run.settle();

        let reason = CollectiveRefusal::NoSuchRoot { root };
        for no in [0, 1] {
            let why = CallError::CollectiveRefused {
                tag,
                reason: reason.clone(),
            };
            assert_eq!(result(&mut run, no), Err(why));
        }
        run.call_all(&[0, 1], &reduce(1));
        run.settle();
        assert_eq!(run.watch.commits, 2, "the tag is free again");
    }
}

/// Of so many elements of its own, among so many at most.
fn gather_v(own: u64, limit: u64) -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllGatherV { own, limit },
        count: 0,
        ..ring_spec()
    }
}

/// Each of these calls it with so many elements.
fn call_gather_v(run: &mut Run, own: &[(SeatNo, u64)], limit: u64) {
    for (no, own) in own {
        let (tag, spec) = (Tag(1), gather_v(*own, limit));
        run.call(*no, Call::Initiate { tag, spec });
    }
}

#[test]
fn all_get_what_each_has_however_much_that_is() {
    let cases: [[u64; 3]; 5] = [[2, 0, 5], [0, 0, 0], [0, 0, 9], [1, 1, 1], [7, 2, 0]];
    for (seed, lengths) in (1..).zip(cases) {
        let mut run = Run::with_accepted_peers(seed, 3);

        let own: Vec<(SeatNo, u64)> = (0..3).zip(lengths).collect();
        call_gather_v(&mut run, &own, 9);
        run.settle();

        let all: Vec<PeerId> = (0..3).map(|no| run.id(no)).collect();
        for no in 0..3 {
            assert_eq!(result(&mut run, no), Ok(all.clone()), "{lengths:?}");
            assert_eq!(run.seats[no].buffer(Tag(1)), Holds::Sum(all.clone()));
        }
    }
}

/// The reference adds the weights as well, and compares what all are told.
#[test]
fn an_average_with_weights_starts_unless_all_weights_are_zero() {
    let cases = [[3, 0, 5], [u32::MAX; 3], [0, 0, 1], [0, 0, 0]];
    for (seed, weights) in (1..).zip(cases) {
        let mut run = Run::with_accepted_peers(seed, 3);

        for (no, own) in (0..3).zip(weights) {
            let op = ReduceOp::WeightedAvg { own, total: 0 };
            let spec = CollectiveSpec { op, ..ring_spec() };
            run.call(no, Call::Initiate { tag: Tag(1), spec });
        }
        run.settle();

        let all: Vec<PeerId> = (0..3).map(|no| run.id(no)).collect();
        let why = || CallError::CollectiveRefused {
            tag: Tag(1),
            reason: CollectiveRefusal::NoWeight,
        };
        let is_nothing = weights == [0; 3];
        let expected = if is_nothing { Err(why()) } else { Ok(all) };
        for no in 0..3 {
            assert_eq!(result(&mut run, no), expected, "{weights:?}");
        }
    }
}

/// What was not allowed is, once one of them has less.
#[test]
fn who_would_gather_more_than_all_allow_hears_how_much_and_nothing_starts() {
    for (own, total) in [(4, 10), (u64::MAX, u64::MAX), (u64::MAX - 5, u64::MAX)] {
        let mut run = Run::with_accepted_peers(1, 3);

        call_gather_v(&mut run, &[(0, 1), (1, own), (2, 5)], 9);
        run.settle();

        let reason = CollectiveRefusal::TooLong { total, limit: 9 };
        for no in 0..3 {
            let why = CallError::CollectiveRefused {
                tag: Tag(1),
                reason: reason.clone(),
            };
            assert_eq!(result(&mut run, no), Err(why));
        }
        call_gather_v(&mut run, &[(0, 1), (1, 3), (2, 5)], 9);
        run.settle();
        assert_eq!(run.watch.commits, 3, "the tag is free again");
    }
}

/// The survivors have other lengths the second time, and those of the first are forgotten with the lost one's part.
#[test]
fn after_a_loss_the_survivors_gather_what_they_have_then() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 3);
        call_gather_v(&mut run, &[(0, 2), (1, 4), (2, 3)], 9);
        until_voted(&mut run, 0);
        run.lose_with_prefix(1, 0);
        run.settle();
        let first = [0, 2].map(|no| result(&mut run, no));
        assert_eq!(first[0], first[1]);
        if first[0].is_ok() {
            continue;
        }

        call_gather_v(&mut run, &[(0, 0), (2, 8)], 9);
        run.settle();

        let left: Vec<PeerId> = [0, 2].map(|no| run.id(no)).into();
        for no in [0, 2] {
            assert_eq!(result(&mut run, no), Ok(left.clone()), "seed {seed}");
            assert_eq!(run.seats[no].buffer(Tag(1)), Holds::Sum(left.clone()));
        }
    }
}

/// M-5: a whole group dies in mid-operation; its tag serves those who come after.
#[test]
fn a_tag_can_be_used_again_after_its_whole_group_died() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 2);
        run.call_all(&[0, 1], &reduce(1));
        let steps = run.roll(20);
        run.steps(steps);
        run.lose(0);
        run.lose(1);
        run.settle();

        run.join_many(2, pccl_core::id::GroupId(0));
        run.call_all(&[2, 3], &reduce(1));
        run.settle();

        for no in [2, 3] {
            assert_eq!(
                result(&mut run, no).map(|all| all.len()),
                Ok(2),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn many_tags_run_together_and_one_that_is_cancelled_hurts_no_other() {
    let mut run = Run::with_accepted_peers(1, 3);
    for tag in 0..5 {
        run.call_all(&[0, 1, 2], &reduce(tag));
    }
    run.steps(20);

    run.give_up(1, Tag(3));
    run.settle();

    assert_eq!(run.answers(1).len(), 4);
    for no in [0, 2] {
        let mut answers = run.answers(no);
        if answers.len() == 4 {
            // The vote was taken back before the collective started, and may come again.
            run.call(1, reduce(3));
            run.settle();
            run.seats[1].answers.pop();
            answers.extend(run.answers(no));
        }
        assert_eq!(answers.len(), 5);
        let failed: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                Answer::CollectiveEnded {
                    tag,
                    result: Err(_),
                } => Some(*tag),
                _ => None,
            })
            .collect();
        assert!(failed.is_empty() || failed == [Tag(3)], "{failed:?}");
    }
}

#[test]
fn a_peer_alone_reduces_with_itself() {
    let mut run = Run::with_accepted_peers(1, 1);

    run.call(0, reduce(1));
    run.settle();

    assert_eq!(result(&mut run, 0), Ok(vec![run.id(0)]));
}
