//! Rings: orders, reports, broken edges, and which lanes a ring is made of.

use crate::desk::*;

#[test]
fn an_admission_counts_as_the_newcomers_first_update() {
    let mut desk = Desk::fresh();

    let first = desk.calls(Call::UpdateTopology);
    let second = desk.calls(Call::UpdateTopology);

    let topology = topology(1, &[1, 2, 3]);
    let answered = Answer::TopologyUpdated(Ok(topology));
    assert_eq!(first, [PeerOutput::Answer(answered)]);
    assert!(matches!(
        sent(&second)[..],
        [ToMaster::UpdateTopology { .. }]
    ));
}

#[test]
fn a_question_about_newcomers_leaves_the_first_update_free_and_any_other_call_does_not() {
    let mut asked = Desk::fresh();
    asked.calls(Call::ArePeersPending);
    let mut synchronized = Desk::fresh();
    synchronized.calls(Call::SyncSharedState(sync_vote()));
    synchronized.hears(conclusion(Err(SyncFailure::NobodyToSend)));

    let free = asked.calls(Call::UpdateTopology);
    let voted = synchronized.calls(Call::UpdateTopology);

    assert!(sent(&free).is_empty());
    assert_eq!(sent(&voted).len(), 1);
}

#[test]
fn an_order_without_edges_is_handed_on_and_not_answered() {
    let mut desk = updating();

    let ordered = desk.hears(establish(2, None, None));
    let up = desk.gets(edge_up(2, Edge::ToNext));

    let order = PeerOutput::Establish {
        round: Round(2),
        next: None,
        previous: None,
    };
    assert_eq!(ordered, [order]);
    assert!(up.is_empty());
}

#[test]
fn each_ordered_edge_is_reported_by_itself_and_once() {
    let mut desk = updating();
    desk.hears(establish(2, Some(4), Some(5)));
    let (round, failure) = (Round(2), LaneFailure::Refused);

    let failed = desk.gets(edge_failed(2, Edge::ToNext, failure));
    let up = desk.gets(edge_up(2, Edge::FromPrevious));
    let again = [
        edge_up(2, Edge::ToNext),
        edge_failed(2, Edge::ToNext, LaneFailure::TimedOut),
        edge_up(2, Edge::FromPrevious),
        edge_failed(2, Edge::FromPrevious, failure),
    ]
    .map(|report| desk.gets(report));

    let edge = Edge::ToNext;
    let report = ToMaster::EdgeFailed {
        round,
        edge,
        failure,
    };
    assert_eq!(failed, [PeerOutput::Send(report)]);
    let edge = Edge::FromPrevious;
    assert_eq!(up, [PeerOutput::Send(ToMaster::EdgeUp { round, edge })]);
    assert!(again.iter().all(Vec::is_empty), "{again:?}");
}

#[test]
fn reports_about_another_round_or_an_edge_that_was_not_ordered_are_not_passed_on() {
    let mut desk = updating();
    desk.hears(establish(2, Some(4), None));
    desk.hears(establish(3, Some(3), None));

    let pointless = [
        edge_up(2, Edge::ToNext),
        edge_failed(2, Edge::ToNext, LaneFailure::TimedOut),
        edge_up(3, Edge::FromPrevious),
        edge_failed(3, Edge::FromPrevious, LaneFailure::TimedOut),
        edge_up(4, Edge::ToNext),
    ]
    .map(|report| desk.gets(report));
    let present = desk.gets(edge_up(3, Edge::ToNext));

    assert!(pointless.iter().all(Vec::is_empty), "{pointless:?}");
    let (round, edge) = (Round(3), Edge::ToNext);
    assert_eq!(sent(&present), [&ToMaster::EdgeUp { round, edge }]);
}

#[test]
fn an_order_that_another_one_has_overtaken_means_nothing() {
    let mut desk = updating();
    desk.hears(establish(3, Some(3), None));

    let older = desk.hears(establish(2, Some(4), None));
    let same = desk.hears(establish(3, Some(4), None));
    let up = desk.gets(edge_up(3, Edge::ToNext));

    assert!(older.is_empty() && same.is_empty());
    assert_eq!(
        sent(&up).len(),
        1,
        "the order that was taken is carried out"
    );
}

#[test]
fn an_order_that_makes_no_sense_means_that_the_master_misbehaves() {
    let without_lanes = LaneOrder {
        lanes: 0,
        ..order(3)
    };
    for nonsense in [order(ME.0), without_lanes] {
        for (next, previous) in [(Some(nonsense), None), (Some(order(3)), Some(nonsense))] {
            let mut desk = updating();
            let round = Round(2);

            desk.hears(ToPeer::EstablishRing {
                round,
                next,
                previous,
            });

            assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
        }
    }
}

#[test]
fn a_ring_takes_each_edge_from_the_round_that_the_master_names() {
    let mut desk = updating();
    desk.hears(establish(2, Some(3), None));
    desk.gets(edge_up(2, Edge::ToNext));

    let adopted = desk.hears(established(2, &[1, 2, 3], Some(2), Some(1)));

    let ring = topology(2, &[1, 2, 3]);
    assert_eq!(adopted[..1], [adopt(ring, from_round(2), KEEP)]);
}

#[test]
fn fresh_lanes_of_an_attempt_that_came_to_nothing_are_not_used_though_they_are_up() {
    let mut desk = updating();
    desk.hears(establish(2, Some(3), Some(1)));
    desk.gets(edge_up(2, Edge::ToNext));
    desk.gets(edge_up(2, Edge::FromPrevious));

    let adopted = desk.hears(established(2, &[1, 2, 3], Some(1), Some(1)));
    desk.gets(edge_broke(Edge::ToNext, 2));

    let ring = topology(2, &[1, 2, 3]);
    assert_eq!(adopted[..1], [adopt(ring, KEEP, KEEP)]);
    let broken = desk.peer.view().broken_edges();
    assert_eq!(broken, BrokenEdges::NONE, "no edge is made of those lanes");
}

#[test]
fn both_ends_of_an_edge_use_the_lanes_of_one_round_whatever_came_up_at_either() {
    let up_at = [(true, true), (true, false), (false, true), (false, false)];
    for (up_at_sender, up_at_receiver) in up_at {
        let mut sender = Desk::in_a_ring_of_two(PeerId(2), PeerId(3));
        let mut receiver = Desk::in_a_ring_of_two(PeerId(3), PeerId(2));
        sender.hears(establish(2, Some(3), None));
        receiver.hears(establish(2, None, Some(2)));
        if up_at_sender {
            sender.gets(edge_up(2, Edge::ToNext));
        }
        if up_at_receiver {
            receiver.gets(edge_up(2, Edge::FromPrevious));
        }
        let given_up = established(2, &[2, 3], Some(1), Some(1));

        let at_sender = sender.hears(given_up.clone());
        let at_receiver = receiver.hears(given_up);

        let kept = adopt(topology(2, &[2, 3]), KEEP, KEEP);
        assert_eq!(at_sender.first(), Some(&kept));
        assert_eq!(at_receiver[..1], [kept]);
    }
}

#[test]
fn a_ring_that_is_told_again_keeps_the_lanes_that_were_fresh() {
    let mut desk = updating();
    desk.hears(establish(2, Some(3), None));
    desk.gets(edge_up(2, Edge::ToNext));
    desk.hears(established(2, &[1, 2, 3], Some(2), Some(1)));
    desk.calls(Call::UpdateTopology);

    let again = desk.hears(established(2, &[1, 2, 3], Some(2), Some(1)));

    let ring = topology(2, &[1, 2, 3]);
    assert_eq!(again[..1], [adopt(ring, KEEP, KEEP)]);
}

#[test]
fn a_ring_of_one_has_no_lanes() {
    let mut desk = updating();

    let alone = desk.hears(established(2, &[2], None, None));

    assert_eq!(alone[..1], [adopt(topology(2, &[2]), None, None)]);
}

#[test]
fn a_broken_edge_goes_with_every_vote_until_its_lanes_are_replaced() {
    let mut desk = Desk::accepted();

    desk.gets(edge_broke(Edge::ToNext, 1));
    let vote = desk.calls(initiate(1));
    desk.hears(establish(2, Some(3), None));
    desk.gets(edge_up(2, Edge::ToNext));
    desk.hears(established(2, &[1, 2, 3], Some(2), Some(1)));
    desk.gets(edge_broke(Edge::ToNext, 1));

    let wanted = ToMaster::InitiateCollective {
        tag: Tag(1),
        spec: spec(),
        epoch: Epoch(1),
        broken: TO_NEXT_BROKEN,
    };
    assert_eq!(sent(&vote), [&wanted]);
    assert_eq!(desk.peer.view().broken_edges(), BrokenEdges::NONE);
}

#[test]
fn an_edge_that_breaks_between_its_report_and_its_adoption_is_not_forgotten() {
    let mut desk = updating();
    desk.hears(establish(2, Some(4), None));
    desk.gets(edge_up(2, Edge::ToNext));

    desk.gets(edge_broke(Edge::ToNext, 2));
    desk.hears(established(2, &[1, 2, 4, 3], Some(2), Some(1)));

    assert_eq!(desk.peer.view().broken_edges(), TO_NEXT_BROKEN);
}

#[test]
fn an_edge_that_broke_after_the_vote_and_was_not_rebuilt_stays_broken() {
    let mut desk = updating();

    desk.gets(edge_broke(Edge::ToNext, 1));
    desk.hears(established(2, &[1, 2, 3], Some(1), Some(1)));

    assert_eq!(desk.peer.view().broken_edges(), TO_NEXT_BROKEN);
}

#[test]
fn a_ring_that_makes_no_sense_here_means_that_the_master_misbehaves() {
    let ring = [1, 2, 3];
    let nonsense = [
        (
            "without this peer",
            established(2, &[1, 3], Some(1), Some(1)),
        ),
        ("older", established(0, &ring, Some(1), Some(1))),
        (
            "another neighbour",
            established(2, &[1, 2, 4, 3], Some(1), Some(1)),
        ),
        (
            "lanes that lead elsewhere",
            established(2, &ring, Some(2), Some(1)),
        ),
        (
            "lanes that failed",
            established(2, &[1, 2, 4], Some(1), Some(2)),
        ),
        (
            "lanes that are not up",
            established(2, &[5, 2, 3], Some(1), Some(2)),
        ),
        (
            "a round that never was",
            established(2, &ring, Some(1), Some(7)),
        ),
        ("an edge unnamed", established(2, &ring, None, Some(1))),
        (
            "the other edge unnamed",
            established(2, &ring, Some(1), None),
        ),
        ("an edge too many", established(2, &[2], None, Some(1))),
        (
            "the other edge too many",
            established(2, &[2], Some(1), None),
        ),
    ];
    for (what, message) in nonsense {
        let mut desk = updating();
        // To peer 4 lanes are up; from peer 5 they never came up.
        desk.hears(establish(2, Some(4), Some(5)));
        desk.gets(edge_up(2, Edge::ToNext));
        if what == "lanes that failed" {
            desk.gets(edge_failed(2, Edge::FromPrevious, LaneFailure::TimedOut));
        }

        let out = desk.hears(message);

        let why = CallError::MasterMisbehaved;
        let answered = [&Answer::TopologyUpdated(Err(why.clone()))];
        assert_eq!(answers(&out), answered, "{what}");
        assert!(is_gone_with(&desk, &why), "{what}");
        let adopted = |output: &PeerOutput| matches!(output, PeerOutput::AdoptRing { .. });
        assert!(!out.iter().any(adopted), "{what}");
    }
}

fn updating() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk
}
