//! Collectives of absurd lengths, and from roots that there are not: refused to all who want them or run like any other,
//! and nobody has to go for them.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType};
use pccl_core::id::{Membership, PeerId};
use pccl_core::messages::{ToMaster, Verdict};

use super::run::{Run, SPEC};

const ALL: [u64; 3] = [1, 2, 3];

/// More bytes, or elements, than anybody can count.
const COUNTS: [u64; 4] = [u64::MAX, u64::MAX / 8 + 1, u64::MAX / 3, 1 << 62];

/// What may start among all three.
fn kinds() -> [CollectiveKind; 5] {
    let laid_out_for = Membership::of(&ALL.map(PeerId));
    [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllGather { laid_out_for },
        CollectiveKind::Broadcast { root: PeerId(2) },
        CollectiveKind::Barrier,
    ]
}

/// How many collectives have started.
fn started(run: &Run) -> u64 {
    run.bystander.heard[&PeerId(1)].1.0
}

#[test]
fn lengths_that_no_memory_holds_start_and_end_like_any_other() {
    for kind in kinds() {
        for element in [ElementType::U8, ElementType::F64] {
            for count in COUNTS {
                let mut run = Run::of(3);
                let spec = CollectiveSpec {
                    kind,
                    element,
                    count,
                    ..SPEC
                };

                ALL.into_iter().for_each(|peer| run.wants(peer, 1, spec));
                let seq = run.bystander.heard[&PeerId(1)].1;
                ALL.into_iter().for_each(|peer| run.completes(peer, seq));

                let verdict = &run.bystander.verdicts[&seq];
                assert!(matches!(verdict, Verdict::Committed { .. }), "{kind}");
                assert_eq!(started(&run), 2);
                assert_eq!(run.gone(), []);
                run.reduces(&ALL);
            }
        }
    }
}

#[test]
fn who_wants_an_absurd_length_alone_costs_the_others_this_collective_and_nothing_else() {
    for kind in kinds() {
        for count in COUNTS {
            let mut run = Run::of(3);
            let spec = CollectiveSpec { kind, ..SPEC };

            run.wants(1, 1, spec);
            run.wants(2, 1, CollectiveSpec { count, ..spec });
            run.wants(3, 1, spec);

            assert_eq!(started(&run), 1, "{kind}");
            assert_eq!(run.gone(), []);
            run.reduces(&ALL);
        }
    }
}

#[test]
fn a_broadcast_from_whoever_is_not_there_starts_never_and_all_go_on() {
    for root in [0, 4, u64::MAX] {
        let mut run = Run::of(3);
        let kind = CollectiveKind::Broadcast { root: PeerId(root) };
        let spec = CollectiveSpec { kind, ..SPEC };

        for _ in 0..10 {
            ALL.into_iter().for_each(|peer| run.wants(peer, 1, spec));
        }

        assert_eq!(started(&run), 1, "from {root}");
        assert_eq!(run.gone(), []);
        run.reduces(&ALL);
    }
}

/// It leaves after it has voted for the broadcast from itself, and when it has nothing more to do for it.
#[test]
fn a_root_that_leaves_before_it_starts_ends_it_and_one_that_is_done_does_not() {
    let mut run = Run::of(3);
    let kind = CollectiveKind::Broadcast { root: PeerId(2) };
    let spec = CollectiveSpec { kind, ..SPEC };
    run.wants(2, 1, spec);
    run.wants(1, 1, spec);
    run.says(2, ToMaster::Leave);
    run.wants(3, 1, spec);
    run.all_connect();
    assert_eq!(started(&run), 1);
    run.reduces(&[1, 3]);

    let mut run = Run::of(3);
    ALL.into_iter().for_each(|peer| run.wants(peer, 1, spec));
    let seq = run.bystander.heard[&PeerId(1)].1;
    run.completes(2, seq);
    run.says(2, ToMaster::Leave);
    run.completes(1, seq);
    run.completes(3, seq);
    let verdict = &run.bystander.verdicts[&seq];
    assert!(matches!(verdict, Verdict::Committed { .. }));
    run.reduces(&[1, 3]);
}

#[test]
fn shards_of_others_are_gathered_never_and_all_go_on() {
    let right = Membership::of(&ALL.map(PeerId));
    let others = [
        Membership(0),
        Membership(u64::MAX),
        Membership::of(&[PeerId(1), PeerId(2)]),
    ];
    for other in others {
        for odd in ALL {
            let mut run = Run::of(3);
            let gather = |laid_out_for| CollectiveSpec {
                kind: CollectiveKind::AllGather { laid_out_for },
                ..SPEC
            };

            for peer in ALL {
                let laid_out_for = if peer == odd { other } else { right };
                run.wants(peer, 1, gather(laid_out_for));
            }

            assert_eq!(started(&run), 1);
            assert_eq!(run.gone(), []);
            ALL.into_iter()
                .for_each(|peer| run.wants(peer, 1, gather(right)));
            assert_eq!(started(&run), 2);
        }
    }
}
