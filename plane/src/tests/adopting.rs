//! Which lanes become a link: those that the order names, whatever else was connected.

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::id::{Round, Seq};
use tokio::io::AsyncReadExt;
use tokio::test;

use super::reference::{expected, inputs};
use super::support::{
    AROUND, Member, both, built_in, from, in_time, lanes, ranks, raw_lane, ring, run_all, spec, to,
    turns,
};
use crate::{LanesInUse, LinkBroke, LinkInUse};

/// The round of an attempt after the one in which the standing edges were built.
const LATER: Round = Round(2);

/// A reduce of all members ends with the result, and nothing is reported.
async fn reduces(members: &mut [Member], seq: Seq) {
    let inputs = inputs(ElementType::F32, 5_000, members.len());
    let spec = spec(ReduceOp::Sum, ElementType::F32, 5_000);
    let ports = members.iter_mut().map(|m| m.plane.begin(seq, spec, AROUND));

    let ended = run_all(ports.collect(), &inputs).await;

    let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
    for ended in ended {
        assert!(ended.outcome.is_ok(), "{:?}", ended.outcome);
        assert!(ended.data == expected);
    }
    members.iter_mut().for_each(|m| m.plane.stop(seq));
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

/// A newcomer between peers 0 and 1 came up at both of them and was lost before the ring was announced.
/// The next attempt orders nothing and announces the old ring.
#[test(start_paused = true)]
async fn lanes_to_a_newcomer_that_was_lost_do_not_replace_those_that_stand() {
    let mut members = ring(2, 2);
    let (to_newcomer, _newcomer_receives) = lanes(2);
    let (_newcomer_sends, from_newcomer) = lanes(2);
    members[0].plane.install(to(2), LATER, to_newcomer);
    members[1].plane.install(from(2), LATER, from_newcomer);

    for (rank, member) in members.iter_mut().enumerate() {
        let kept = both(rank, 2, LanesInUse::Standing);
        member.plane.adopt(ranks(rank, 2, 2), &kept);
    }

    reduces(&mut members, Seq(1)).await;
}

#[test(start_paused = true)]
async fn lanes_that_are_not_meant_are_closed_when_the_ring_stands() {
    let mut members = ring(2, 1);
    let mut others = Vec::new();
    for link in [to(1), from(1)] {
        let (lane, other_end) = raw_lane();
        members[0].plane.install(link, LATER, vec![lane]);
        others.push(other_end);
    }
    let link = to(1);
    let lanes = LanesInUse::Standing;
    let links = [LinkInUse { link, lanes }];

    members[0].plane.adopt(ranks(0, 2, 1), &links);

    for mut other in others {
        let read = in_time(other.read(&mut [0])).await;
        assert_eq!(read.unwrap(), 0, "the lane is still open");
    }
}

#[test(start_paused = true)]
async fn one_link_is_kept_while_the_other_one_is_replaced() {
    let mut members = ring(2, 1);
    let (sending, receiving) = lanes(3);
    members[0].plane.install(to(1), LATER, sending);
    members[1].plane.install(from(0), LATER, receiving);
    let kept = |link| LinkInUse {
        link,
        lanes: LanesInUse::Standing,
    };
    let used = |link| LinkInUse {
        link,
        lanes: LanesInUse::Installed(LATER),
    };
    let sender = [used(to(1)), kept(from(1))];
    let receiver = [kept(to(0)), used(from(0))];

    members[0].plane.adopt(ranks(0, 2, 3), &sender);
    members[1].plane.adopt(ranks(1, 2, 3), &receiver);
    turns(100).await;

    reduces(&mut members, Seq(1)).await;
}

/// A defect of this crate; were it not told, no collective would ever have a result again.
#[test(start_paused = true)]
#[cfg_attr(
    debug_assertions,
    should_panic(expected = "is to be adopted and is not here")
)]
async fn a_link_that_is_to_be_used_and_is_not_here_counts_as_broken() {
    let mut members = ring(2, 1);
    let (lane, _other_end) = raw_lane();
    members[0].plane.install(to(1), LATER, vec![lane]);

    let never_built = Round(3);
    let links = built_in(0, 2, never_built);
    members[0].plane.adopt(ranks(0, 2, 1), &links);

    let broken = [to(1), from(1)].map(|link| LinkBroke {
        link,
        built: never_built,
    });
    assert_eq!(members[0].reports(), broken);
}
