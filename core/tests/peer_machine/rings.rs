//! Rings: orders, reports, broken edges, adoption.

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
fn an_order_without_edges_is_reported_at_once_and_only_once() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);

    let ordered = desk.hears(establish(2, None, None));
    let again = desk.gets(PeerInput::EdgesUp { round: Round(2) });

    let round = Round(2);
    assert_eq!(sent(&ordered), [&ToMaster::EdgesEstablished { round }]);
    assert!(again.is_empty());
}

#[test]
fn reports_about_a_superseded_round_are_not_passed_on() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk.hears(establish(2, Some(4), None));
    desk.hears(establish(3, Some(3), None));

    let late = desk.gets(PeerInput::EdgesUp { round: Round(2) });
    let late_failure = desk.gets(PeerInput::EdgeFailed {
        round: Round(2),
        with: PeerId(4),
        failure: LaneFailure::TimedOut,
    });
    let present = desk.gets(PeerInput::EdgesUp { round: Round(3) });

    assert!(late.is_empty() && late_failure.is_empty());
    let round = Round(3);
    assert_eq!(sent(&present), [&ToMaster::EdgesEstablished { round }]);
}

#[test]
fn a_failed_edge_is_reported_once_with_its_cause() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk.hears(establish(2, Some(4), None));
    let (round, with, failure) = (Round(2), PeerId(4), LaneFailure::Refused);

    let first = desk.gets(PeerInput::EdgeFailed {
        round,
        with,
        failure,
    });
    let second = desk.gets(PeerInput::EdgesUp { round });

    assert_eq!(
        sent(&first),
        [&ToMaster::EdgeFailed {
            round,
            with,
            failure
        }]
    );
    assert!(second.is_empty());
}

#[test]
fn a_broken_edge_goes_with_every_vote_until_its_lanes_are_replaced() {
    let mut desk = Desk::accepted();
    let (edge, built) = (Edge::ToNext, Round(1));

    desk.gets(PeerInput::EdgeBroke { edge, built });
    let vote = desk.calls(initiate(1));
    desk.hears(establish(2, Some(3), None));
    desk.gets(PeerInput::EdgesUp { round: Round(2) });
    desk.hears(established(2, &[1, 2, 3]));
    desk.gets(PeerInput::EdgeBroke { edge, built });

    let (tag, spec) = (Tag(1), spec());
    let broken = TO_NEXT_BROKEN;
    assert_eq!(
        sent(&vote),
        [&ToMaster::InitiateCollective { tag, spec, broken }]
    );
    assert_eq!(desk.peer.view().broken_edges(), BrokenEdges::NONE);
}

#[test]
fn an_edge_that_breaks_between_its_report_and_its_adoption_is_not_forgotten() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk.hears(establish(2, Some(4), None));
    desk.gets(PeerInput::EdgesUp { round: Round(2) });

    desk.gets(PeerInput::EdgeBroke {
        edge: Edge::ToNext,
        built: Round(2),
    });
    desk.hears(established(2, &[1, 2, 4, 3]));

    assert_eq!(desk.peer.view().broken_edges(), TO_NEXT_BROKEN);
}

#[test]
fn an_edge_that_broke_after_the_vote_and_was_not_rebuilt_stays_broken() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);

    desk.gets(PeerInput::EdgeBroke {
        edge: Edge::ToNext,
        built: Round(1),
    });
    desk.hears(established(2, &[1, 2, 3]));

    assert_eq!(desk.peer.view().broken_edges(), TO_NEXT_BROKEN);
}

#[test]
fn a_ring_that_stands_answers_an_update_but_no_collective_that_waited_for_it() {
    let mut updating = Desk::accepted();
    updating.calls(Call::UpdateTopology);
    let mut reducing = Desk::accepted();
    reducing.calls(initiate(1));

    let updated = updating.hears(established(2, &[1, 2, 3]));
    let rewired = reducing.hears(established(2, &[1, 2, 3]));

    assert_eq!(answers(&updated).len(), 1);
    assert_eq!(
        rewired,
        [PeerOutput::AdoptRing(topology(2, &[1, 2, 3]))],
        "the collective goes on"
    );
}

#[test]
fn a_ring_that_makes_no_sense_here_means_that_the_master_misbehaves() {
    let without_me = established(2, &[1, 3]);
    let neighbour_without_lanes = established(2, &[1, 2, 4, 3]);
    let older = established(0, &[1, 2, 3]);
    for message in [without_me, neighbour_without_lanes, older] {
        let mut desk = Desk::accepted();
        desk.calls(Call::UpdateTopology);

        let out = desk.hears(message);

        let why = CallError::MasterMisbehaved;
        assert_eq!(answers(&out), [&Answer::TopologyUpdated(Err(why.clone()))]);
        assert!(is_gone_with(&desk, &why));
    }
}

#[test]
fn no_ring_is_touched_while_a_collective_runs_on_it() {
    let mut desk = performing();

    desk.hears(establish(2, Some(4), None));

    assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
}
