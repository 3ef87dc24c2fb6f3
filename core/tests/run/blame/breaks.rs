//! Collectives and synchronizations that fail again and again: by a link that breaks, or by a peer that gives
//! them up.

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::{PeerId, Revision, Seq, Tag};
use pccl_core::master::MasterConfig;
use pccl_core::messages::{PlanOutcome, ToMaster};
use pccl_core::shared_state::{SyncStrategy, SyncVote};
use pccl_core::topology::BrokenLinks;

use super::desk::{Desk, from, to};

/// The reduce of a group of this size is aborted if a peer says that it has lost a link.
fn reduce_breaks(desk: &mut Desk, size: u64, says: impl Fn(&Desk) -> Option<(u64, BrokenLinks)>) {
    let says = |desk: &Desk| says(desk).map(|(peer, broken)| (peer, PlanOutcome::LaneLost, broken));
    reduce(desk, size, says);
}

/// All of a group of this size reduce. `says`: who says how that ended, instead of all that it is done.
fn reduce(
    desk: &mut Desk,
    size: u64,
    says: impl Fn(&Desk) -> Option<(u64, PlanOutcome, BrokenLinks)>,
) {
    collective(desk, size, crate::harness::ring_spec(), says);
}

/// The same with another collective.
fn collective(
    desk: &mut Desk,
    size: u64,
    spec: CollectiveSpec,
    says: impl Fn(&Desk) -> Option<(u64, PlanOutcome, BrokenLinks)>,
) {
    let tag = Tag(1);
    let present = desk.present();
    for peer in 1..=size {
        if present.contains(&peer) {
            let epoch = desk.epoch();
            let vote = ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken: BrokenLinks::NONE,
            };
            desk.says(peer, vote);
        }
    }
    if present.iter().any(|peer| desk.connects(*peer)) {
        desk.connect_all(|_, _| true);
    }
    desk.runs += 1;
    let seq = Seq(desk.runs);
    let complaint = says(desk);
    if let Some((peer, outcome, broken)) = complaint {
        desk.says(
            peer,
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            },
        );
        return;
    }
    for peer in present {
        let (outcome, broken) = (PlanOutcome::Done, BrokenLinks::NONE);
        desk.says(
            peer,
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            },
        );
    }
}

/// How often this happens, fewer times than `most`, until the peer is gone.
fn times_until_gone(desk: &mut Desk, peer: u64, most: u32, happens: impl Fn(&mut Desk)) -> u32 {
    let mut times = 0;
    while desk.present().contains(&peer) {
        happens(desk);
        times += 1;
        assert!(times < most, "of {}", desk.present().len());
    }
    times
}

/// Peer 2 says of each reduce that it has lost a link that it does not have.
#[test]
fn who_loses_links_that_are_not_there_is_the_one_that_goes() {
    let mut desk = Desk::with_accepted_peers(3);

    let aborts = times_until_gone(&mut desk, 2, 40, |desk| {
        reduce_breaks(desk, 3, |_| Some((2, BrokenLinks(vec![to(1)]))));
    });

    assert_eq!(desk.present(), [1, 3], "after {aborts}");
}

/// The lanes from peer 2 to peer 3 come up, and carry nothing.
#[test]
fn an_edge_that_carries_nothing_is_routed_around() {
    for size in [4, 8, 30] {
        let mut desk = Desk::with_accepted_peers(size);
        let carries_nothing = |desk: &Desk| {
            let link = BrokenLinks(vec![to(3)]);
            let next = desk.ring().next_of(PeerId(2));
            (next == Some(PeerId(3))).then_some((2, link))
        };

        let mut aborts = 0;
        while carries_nothing(&desk).is_some() {
            reduce_breaks(&mut desk, size, carries_nothing);
            aborts += 1;
            if aborts == 2 {
                reduce_breaks(&mut desk, size, carries_nothing);
            }
            assert!(aborts < 4);
        }

        assert_eq!(desk.present().len() as u64, size, "nobody goes");
    }
}

/// Peer 2 says of each reduce that it has lost a lane, and does not say which.
#[test]
fn who_loses_lanes_each_time_is_the_one_that_goes() {
    for size in [3, 4, 8] {
        let mut desk = Desk::with_accepted_peers(size);

        let aborts = times_until_gone(&mut desk, 2, 40, |desk| {
            reduce_breaks(desk, size, |_| Some((2, BrokenLinks::NONE)));
        });

        assert_eq!(desk.present().len() as u64, size - 1, "after {aborts}");
        reduce_breaks(&mut desk, size, |_| None);
    }
}

/// The lanes from peer 2 to peer 3 carry nothing large. A broadcast goes from peer to peer up to the one before its
/// root: that it is committed says nothing of the edge from there to the root.
#[test]
fn a_broadcast_does_not_make_up_for_the_edge_that_leads_to_its_root() {
    for (root, is_forgiven) in [(3, false), (1, true), (2, true)] {
        let mut desk = Desk::with_accepted_peers(4);
        let carries_nothing = |desk: &Desk| {
            let link = BrokenLinks(vec![to(3)]);
            let next = desk.ring().next_of(PeerId(2));
            (next == Some(PeerId(3))).then_some((2, link))
        };
        let spec = CollectiveSpec {
            kind: CollectiveKind::Broadcast { root: PeerId(root) },
            ..crate::harness::ring_spec()
        };

        let mut aborts = 0;
        while carries_nothing(&desk).is_some() && aborts < 10 {
            reduce_breaks(&mut desk, 4, carries_nothing);
            aborts += 1;
            collective(&mut desk, 4, spec, |_| None);
        }

        assert_eq!(aborts == 10, is_forgiven, "from {root}: {aborts} aborts");
    }
}

/// A link breaks once, under many reduces of a ring of two: each of them is aborted for it.
#[test]
fn an_edge_that_breaks_under_many_collectives_at_once_has_broken_once() {
    let mut desk = Desk::with_accepted_peers(2);
    let tags = 1..=16;
    for (tag, peer) in tags.clone().flat_map(|tag| [(tag, 1), (tag, 2)]) {
        let (spec, epoch) = (crate::harness::ring_spec(), desk.epoch());
        let vote = ToMaster::InitiateCollective {
            tag: Tag(tag),
            spec,
            epoch,
            broken: BrokenLinks::NONE,
        };
        desk.says(peer, vote);
    }

    for seq in tags.map(Seq) {
        let (outcome, broken) = (PlanOutcome::LaneLost, BrokenLinks(vec![to(2)]));
        let vote = ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        };
        desk.says(1, vote);
    }

    assert_eq!(desk.present(), [1, 2]);
}

/// Peer 2 holds the whole result of one reduce, and says with it which link has died, before it says that another
/// reduce has failed for that link.
#[test]
fn a_break_counts_also_if_it_was_named_before_anything_was_aborted_for_it() {
    let mut desk = Desk::with_accepted_peers(2);

    let rounds = times_until_gone(&mut desk, 2, 12, |desk| {
        for (tag, peer) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let (spec, epoch) = (crate::harness::ring_spec(), desk.epoch());
            let broken = BrokenLinks::NONE;
            let tag = Tag(tag);
            desk.says(
                peer,
                ToMaster::InitiateCollective {
                    tag,
                    spec,
                    epoch,
                    broken,
                },
            );
            if desk.connects(peer) {
                desk.connect_all(|_, _| true);
            }
        }
        let (first, second) = (Seq(desk.runs + 1), Seq(desk.runs + 2));
        desk.runs += 2;
        for (peer, seq, outcome, link) in [
            (2, first, PlanOutcome::Done, to(1)),
            (2, second, PlanOutcome::LaneLost, to(1)),
            (1, first, PlanOutcome::LaneLost, from(2)),
        ] {
            let broken = BrokenLinks(vec![link]);
            let vote = ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            };
            desk.says(peer, vote);
        }
    });

    assert!(rounds > 1, "one break is not enough");
}

/// Both links of a ring of two join the same pair, and one abort is one.
#[test]
fn in_a_ring_of_two_an_abort_counts_once_against_the_pair() {
    let both = BrokenLinks(vec![to(1), from(1)]);
    let one_twice = BrokenLinks(vec![to(1), to(1)]);
    for broken in [BrokenLinks::NONE, both, one_twice] {
        let mut desk = Desk::with_accepted_peers(2);

        let mut aborts = 0;
        while desk.present().len() == 2 {
            reduce_breaks(&mut desk, 2, |_| Some((2, broken.clone())));
            aborts += 1;
        }

        let attempts = MasterConfig::default().wiring_attempts_max;
        assert_eq!(aborts, attempts, "{broken:?}");
    }
}

/// A link breaks now and then, and works in between.
#[test]
fn an_edge_that_breaks_now_and_then_stays_on_the_ring() {
    let mut desk = Desk::with_accepted_peers(4);
    let before = desk.ring();

    for _ in 0..10 {
        reduce_breaks(&mut desk, 4, |_| Some((2, BrokenLinks(vec![to(3)]))));
        reduce_breaks(&mut desk, 4, |_| None);
    }

    assert_eq!(desk.ring(), before);
    assert_eq!(desk.present(), [1, 2, 3, 4]);
}

/// Peer 2 cancels each reduce that it takes part in.
#[test]
fn who_cancels_every_collective_goes_and_the_others_reduce() {
    for size in [2, 3, 8] {
        let mut desk = Desk::with_accepted_peers(size);

        let cancelled = Some((2, PlanOutcome::Cancelled, BrokenLinks::NONE));
        let aborts = times_until_gone(&mut desk, 2, 20, |desk| {
            reduce(desk, size, |_| cancelled.clone());
        });

        assert_eq!(desk.present().len() as u64, size - 1, "after {aborts}");
        assert_eq!(aborts, 16, "it has had time to notice");
    }
}

#[test]
fn who_cancels_collectives_while_others_of_that_size_are_committed_stays() {
    let mut desk = Desk::with_accepted_peers(3);

    for turn in 0..100 {
        let cancels = turn % 16 != 15;
        reduce(&mut desk, 3, |_| {
            cancels.then_some((2, PlanOutcome::Cancelled, BrokenLinks::NONE))
        });
    }

    assert_eq!(desk.present(), [1, 2, 3]);
}

/// Peer 1 holds what peer 2 is to fetch. Peer 1 may give up its call, of which nobody else is the cause.
fn synchronize(desk: &mut Desk, gives_up: bool) {
    let strategies = [(1, SyncStrategy::SendOnly), (2, SyncStrategy::ReceiveOnly)];
    for (peer, strategy) in strategies {
        let vote = SyncVote {
            revision: Revision(0),
            strategy,
            restart: true,
            entries: vec![crate::harness::shared("weights", peer.into())],
        };
        desk.says(peer, ToMaster::SyncSharedState(vote));
    }
    let (round, with) = (desk.round, None);
    let done = |ok| ToMaster::SharedStateDone { round, ok, with };
    desk.says(1, done(!gives_up));
    if !gives_up {
        desk.says(2, done(true));
    }
}

#[test]
fn a_holder_that_gives_up_every_synchronization_goes() {
    let mut desk = Desk::with_accepted_peers(2);

    let given_up = times_until_gone(&mut desk, 1, 20, |desk| synchronize(desk, true));

    assert_eq!((desk.present(), given_up), (vec![2], 16));
}

#[test]
fn a_holder_that_gives_up_synchronizations_between_others_stays() {
    let mut desk = Desk::with_accepted_peers(2);

    for turn in 0..100 {
        synchronize(&mut desk, turn % 16 != 15);
    }

    assert_eq!(desk.present(), [1, 2]);
}
