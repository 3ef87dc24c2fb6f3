//! One hostile word each, and whom it harms: the one that says it, or nobody.

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::{Epoch, PeerId, Round, Seq, Tag};
use pccl_core::master::{MasterConfig, MasterTimer};
use pccl_core::messages::{Misdeed, ToMaster};
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BrokenLinks, Way};

use super::Bystander;
use super::run::{BOTH, Run, SPEC, Words, from, to};

#[test]
fn who_reports_an_edge_twice_goes_and_the_others_connect_without_it() {
    for link in BOTH {
        let mut run = Run::of(3);
        run.rebuild();
        run.is_up(2, link);
        let before = run.gone();

        run.is_up(2, link);

        assert_eq!(before, []);
        assert_eq!(run.gone(), [(2, Misdeed::DuplicateVote)]);
        run.all_connect();
        run.reduces(&[1, 3]);
    }
}

/// Only the end that opens the lanes can say that they did not come up.
#[test]
fn who_reports_an_edge_failed_and_then_up_goes_and_the_others_connect_without_it() {
    let mut contradicted = 0;
    for link in BOTH {
        let mut run = Run::of(3);
        run.rebuild();
        run.fails(2, link);
        if !run.gone().is_empty() {
            continue;
        }

        run.is_up(2, link);

        assert_eq!(run.gone(), [(2, Misdeed::DuplicateVote)]);
        run.all_connect();
        run.reduces(&[1, 3]);
        contradicted += 1;
    }
    assert!(contradicted > 0);
}

#[test]
fn a_vote_to_start_that_names_breaks_of_an_older_ring_has_no_ring_built_anew() {
    let mut run = Run::of(3);
    let older = run.epoch(2);
    run.rebuild();
    run.all_connect();
    assert!(run.epoch(2) > older);

    let broken = run.both_broken(2);
    starts_with_no_ring_built_anew(run, older, broken);
}

/// Peer 2 is on the ring 1, 2, 3, and each of these leads the other way, to itself, or to nobody.
#[test]
fn a_vote_to_start_that_names_links_which_are_not_there_has_no_ring_built_anew() {
    let run = Run::of(3);

    let epoch = run.epoch(2);
    let broken = BrokenLinks(vec![from(3), to(1), to(2), from(9), to(1)]);
    starts_with_no_ring_built_anew(run, epoch, broken);
}

/// Peer 2 votes for the next collective with this epoch and these links, and the collective commits on the ring
/// that stands.
fn starts_with_no_ring_built_anew(mut run: Run, epoch: Epoch, broken: BrokenLinks) {
    let round = run.round(2);

    run.initiates(1, 1);
    let vote = ToMaster::InitiateCollective {
        tag: Tag(1),
        spec: SPEC,
        epoch,
        broken,
    };
    run.says(2, vote);
    run.initiates(3, 1);

    assert_eq!(run.round(2), round);
    let seq = run.bystander.heard[&PeerId(1)].1;
    (1..=3).for_each(|peer| run.completes(peer, seq));
    assert_eq!(run.bystander.verdicts.len(), 2);
}

#[test]
fn who_reports_an_edge_that_was_not_ordered_goes_and_the_others_connect_without_it() {
    // Of the ring 1, 2, 3 only the link from 1 to 2 is built anew.
    let not_ordered = [
        (1, from(3)),
        (2, to(3)),
        // The other direction of the one that is built.
        (1, from(2)),
        (2, to(1)),
        // Nobody has these.
        (1, to(1)),
        (2, from(9)),
    ];
    for (liar, link) in not_ordered {
        let mut run = Run::of(3);
        run.updates(1, BrokenLinks(vec![to(2)]));
        run.updates(2, BrokenLinks::NONE);
        run.updates(3, BrokenLinks::NONE);
        assert_eq!(run.round(1), run.round(2));

        run.is_up(liar, link);

        assert_eq!(run.gone(), [(liar, Misdeed::UnknownRound)]);
        run.all_connect();
        run.reduces(&[3 - liar, 3]);
    }
}

#[test]
fn a_report_about_a_round_of_the_others_harms_nobody() {
    let mut run = Run::of(3);
    run.updates(1, BrokenLinks(vec![to(2)]));
    run.updates(2, BrokenLinks::NONE);
    run.updates(3, BrokenLinks::NONE);
    let round = run.round(1);

    let link = to(1);
    run.says(3, ToMaster::LinkUp { round, link });

    assert_eq!(
        run.gone(),
        [(3, Misdeed::UnknownRound)],
        "it has no link in it"
    );
    run.all_connect();
    run.reduces(&[1, 2]);
}

/// Only the end that was to open the lanes can know that they did not come up.
#[test]
fn who_reports_that_an_edge_failed_which_it_does_not_dial_goes() {
    let mut run = Run::of(3);
    run.rebuild();

    run.fails(2, from(1));

    assert_eq!(run.gone(), [(2, Misdeed::UnknownRound)]);
    run.all_connect();
    run.reduces(&[1, 3]);
}

/// The receiver says so first, and refuses the lanes: then the sender reports, as it must.
#[test]
fn an_honest_report_of_a_failed_edge_is_no_repetition_whatever_the_other_end_says() {
    let mut run = Run::of(3);
    run.rebuild();
    let round = run.round(1);
    run.fails(2, from(1));

    run.fails_in(round, 1, to(2));

    assert!(run.accepted().contains(&1), "{:?}", run.gone());
}

#[test]
fn an_edge_that_failed_does_not_come_up_after_all() {
    let mut run = Run::of(3);
    run.rebuild();
    run.fails(1, to(2));

    run.is_up(2, from(1));
    run.all_connect();

    let stands = |peer| run.state(peer) == Some(ConnectionState::Idle);
    assert!(!(1..=3).any(stands), "the attempt has failed");
    assert_eq!(run.gone(), []);
}

#[test]
fn a_withdrawal_of_what_the_peer_has_not_voted_for_changes_nothing() {
    let mut run = Run::of(3);
    run.initiates(1, 1);
    run.initiates(2, 2);
    let before = run.bystander.master.clone();

    let (of_others, of_nobody) = (Tag(1), Tag(9));
    for tag in [of_others, of_nobody] {
        run.says(3, ToMaster::Withdraw { tag });
        run.says(2, ToMaster::Withdraw { tag });
    }

    assert_eq!(run.bystander.master, before);
}

#[test]
fn a_withdrawal_after_the_start_is_too_late_and_harms_nobody() {
    let mut run = Run::of(2);
    run.initiates(1, 1);
    run.initiates(2, 1);
    let seq = run.bystander.heard[&PeerId(1)].1;

    run.says(2, ToMaster::Withdraw { tag: Tag(1) });
    run.completes(1, seq);
    run.completes(2, seq);

    assert_eq!(run.gone(), []);
    assert_eq!(run.bystander.verdicts.len(), 2);
}

#[test]
fn votes_of_a_peer_that_was_set_aside_end_its_part_in_the_run_alone() {
    let words: [(Words, bool); 8] = [
        (|run, peer| run.updates(peer, BrokenLinks::NONE), false),
        (|run, peer| run.initiates(peer, 1), false),
        (|run, peer| run.synchronizes(peer), false),
        (
            |run, peer| run.says(peer, ToMaster::OptimizeTopology),
            false,
        ),
        (
            |run, peer| {
                let (round, ok, with) = (Round(1), true, None);
                run.says(peer, ToMaster::SharedStateDone { round, ok, with });
            },
            false,
        ),
        (|run, peer| run.says(peer, ToMaster::ArePeersPending), true),
        (
            |run, peer| run.says(peer, ToMaster::Withdraw { tag: Tag(1) }),
            true,
        ),
        (|run, peer| run.completes(peer, Seq(1)), true),
    ];
    for (word, is_harmless) in words {
        let mut run = set_aside();

        word(&mut run, 3);

        let expected: &[(u64, Misdeed)] = match is_harmless {
            true => &[],
            false => &[(3, Misdeed::NotAccepted)],
        };
        assert_eq!(run.gone(), expected);
        let seq = run.bystander.heard[&PeerId(1)].1;
        run.completes(1, seq);
        run.completes(2, seq);
        run.reduces(&[1, 2]);
        run.all_update();
        run.all_connect();
        let all: &[u64] = if is_harmless { &[1, 2, 3] } else { &[1, 2] };
        assert_eq!(run.accepted(), all);
    }
}

/// Peers 1 and 2 have synchronized and reduce, for the third time beside peer 3, which waits to
/// synchronize.
fn set_aside() -> Run {
    let mut run = Run::of(2);
    run.synchronizes(1);
    run.synchronizes(2);
    run.bystander.join(0, false);
    run.all_update();
    run.all_connect();
    assert_eq!(run.accepted(), [1, 2, 3]);
    run.synchronizes(3);
    for _ in 0..10 {
        if run.accepted() == [1, 2] {
            break;
        }
        run.initiates(1, 1);
        run.initiates(2, 1);
        run.all_connect();
    }
    assert_eq!(run.accepted(), [1, 2], "peer 3 is set aside");
    run
}

/// Peers 3 and 4 are a group of their own, and its ring is whole. Peer 3 waits for peer 4 in a collective when
/// peer 1 has all rings connected anew, for a newcomer; and peer 1 dies.
#[test]
fn an_update_that_comes_to_nothing_leaves_collectives_that_wait_on_a_whole_ring_as_they_were() {
    let bystander = Bystander::new(MasterConfig::rings_only());
    let mut run = Run { bystander };
    for group in [0, 0, 1, 1] {
        run.bystander.join(group, false);
    }
    run.all_update();
    run.all_connect();
    assert_eq!(run.accepted(), [1, 2, 3, 4]);
    run.says(2, ToMaster::Leave);
    run.bystander.join(0, false);
    run.initiates(3, 1);
    run.updates(1, BrokenLinks::NONE);
    assert_eq!(run.state(1), Some(ConnectionState::ConnectingToPeers));
    run.says(1, ToMaster::Leave);

    run.initiates(4, 1);

    let seq = run.bystander.heard[&PeerId(3)].1;
    run.completes(3, seq);
    run.completes(4, seq);
    assert_eq!(run.bystander.verdicts.len(), 1);
}

/// What a peer votes for that has reported a failed link, before the attempt is over.
fn voted_after_its_edge_failed(vote: Words) -> Run {
    let mut run = Run::of(3);
    for newcomer in [4, 5] {
        run.bystander.join(0, false);
        for peer in 1..=3 {
            run.updates(peer, BrokenLinks::NONE);
        }
        if newcomer == 4 {
            run.all_connect();
        }
    }
    run.fails(4, run.ordered(4, Way::Out));
    assert_eq!(run.state(4), Some(ConnectionState::ConnectingToPeersFailed));
    vote(&mut run, 4);
    run.all_connect();
    run
}

#[test]
fn a_vote_between_a_failed_edge_and_the_next_attempt_stands_when_the_ring_does() {
    let votes: [(Words, ConnectionState); 3] = [
        (
            |run, peer| run.updates(peer, BrokenLinks::NONE),
            ConnectionState::Idle,
        ),
        (
            |run, peer| run.synchronizes(peer),
            ConnectionState::VoteSyncSharedState,
        ),
        (
            |run, peer| run.says(peer, ToMaster::OptimizeTopology),
            ConnectionState::VoteOptimizeTopology,
        ),
    ];
    for (vote, state) in votes {
        let mut run = voted_after_its_edge_failed(vote);

        run.fires(MasterTimer::RetryWiring(run.round(4)));
        run.all_connect();

        assert_eq!(run.gone(), []);
        assert_eq!(run.accepted(), [1, 2, 3, 4, 5]);
        assert_eq!(run.state(4), Some(state));
    }
}

/// Eight updates of the others pass over it.
fn passed_over() -> Run {
    let mut run = Run::of(3);
    run.says(3, ToMaster::OptimizeTopology);
    for _ in 0..8 {
        assert_eq!(run.state(3), Some(ConnectionState::VoteOptimizeTopology));
        run.updates(1, BrokenLinks::NONE);
        run.updates(2, BrokenLinks::NONE);
    }
    run
}

#[test]
fn who_updates_for_ever_does_not_keep_another_call_waiting_for_ever() {
    let run = passed_over();

    assert_eq!(run.gone(), []);
    assert_eq!(run.state(3), Some(ConnectionState::Idle));
}

/// The ring is to be turned round, which one link prevents.
fn not_turned_round() -> Run {
    let mut run = Run::of(3);
    for peer in 1..=3 {
        run.says(peer, ToMaster::OptimizeTopology);
    }
    run.measures();
    run.bystander.solve(true);
    run.measures();
    run.fails(1, to(3));
    run.all_connect();
    run.fires(MasterTimer::RetryWiring(run.round(1)));
    run
}

#[test]
fn a_better_ring_that_cannot_be_connected_leaves_the_present_one() {
    let mut run = not_turned_round();

    assert_eq!(run.gone(), []);
    run.reduces(&[1, 2, 3]);
}

/// Corners that random words seldom reach.
pub(super) fn corners() -> impl Iterator<Item = Bystander> {
    let votes: [Words; 3] = [
        |run, peer| run.updates(peer, BrokenLinks::NONE),
        |run, peer| run.synchronizes(peer),
        |run, peer| run.says(peer, ToMaster::OptimizeTopology),
    ];
    let voted = votes.into_iter().map(voted_after_its_edge_failed);
    voted
        .chain([passed_over(), not_turned_round()])
        .map(|run| run.bystander)
}

/// Whatever lengths a peer makes up, nobody allocates for them, and nobody goes.
#[test]
fn who_claims_to_have_more_than_there_can_be_starts_nothing_and_harms_nobody() {
    for (claimed, limit) in [(u64::MAX, 9), (u64::MAX, u64::MAX), (10, 9)] {
        let mut run = Run::of(3);
        let before = run.bystander.heard.clone();
        for (peer, own) in [(1, 4), (2, claimed), (3, 4)] {
            let spec = CollectiveSpec {
                kind: CollectiveKind::AllGatherV { own, limit },
                count: 0,
                ..SPEC
            };
            run.wants(peer, 1, spec);
        }

        assert_eq!(run.bystander.heard, before);
        assert_eq!(run.gone(), []);
        run.reduces(&[1, 2, 3]);
    }
}
