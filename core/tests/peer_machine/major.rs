//! Synchronizing shared state and optimizing the ring.

use crate::desk::*;

#[test]
fn fetched_state_is_written_when_everybody_has_it() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    let round = Round(5);

    let moving = desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));
    let over = desk.gets(PeerInput::TransfersEnded {
        round,
        ok: true,
        with: None,
    });
    let told = desk.hears(conclusion(Ok(Revision(3))));

    assert_eq!(moving, [move_state(plan(fetch_one()))]);
    let (ok, with) = (true, None);
    assert_eq!(
        sent(&over),
        [&ToMaster::SharedStateDone { round, ok, with }]
    );
    let synchronized = Synchronized {
        revision: Revision(3),
        fetched: vec![(EntryIndex(0), ContentHash(77))],
    };
    assert_eq!(
        told,
        [
            PeerOutput::CommitState { round },
            to_caller(Answer::Synchronized(Ok(synchronized))),
        ]
    );
}

#[test]
fn a_sync_that_failed_elsewhere_drops_what_was_fetched_here() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));
    let failure = SyncFailure::TransferFailed { peer: PeerId(3) };

    let told = desk.hears(conclusion(Err(failure.clone())));
    let late = desk.gets(PeerInput::TransfersEnded {
        round: Round(5),
        ok: true,
        with: None,
    });

    let why = CallError::SyncFailed(failure);
    assert_eq!(
        told,
        [
            PeerOutput::DropState { round: Round(5) },
            to_caller(Answer::Synchronized(Err(why))),
        ]
    );
    assert!(late.is_empty());
}

#[test]
fn a_sync_refused_at_the_vote_drops_nothing() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));

    let told = desk.hears(conclusion(Err(SyncFailure::NobodyToSend)));

    let why = CallError::SyncFailed(SyncFailure::NobodyToSend);
    assert_eq!(told, [to_caller(Answer::Synchronized(Err(why)))]);
}

#[test]
fn a_sync_in_which_nothing_moves_needs_no_plan() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));

    let told = desk.hears(conclusion(Ok(Revision(3))));

    let synchronized = Synchronized {
        revision: Revision(3),
        fetched: Vec::new(),
    };
    let answer = Answer::Synchronized(Ok(synchronized));
    assert_eq!(told, [to_caller(answer)]);
}

#[test]
fn success_before_the_transfers_ended_means_that_the_master_misbehaves() {
    for failed_here in [None, Some(false)] {
        let mut desk = Desk::accepted();
        desk.calls(Call::SyncSharedState(sync_vote()));
        desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));
        if let Some(ok) = failed_here {
            let (round, with) = (Round(5), None);
            desk.gets(PeerInput::TransfersEnded { round, ok, with });
        }

        let out = desk.hears(conclusion(Ok(Revision(3))));

        assert_eq!(
            out.first(),
            Some(&PeerOutput::DropState { round: Round(5) })
        );
        assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
    }
}

#[test]
fn an_optimization_measures_adopts_the_better_ring_and_is_answered_at_its_end() {
    let mut desk = Desk::accepted();
    let round = Round(2);
    let links = [(to(1), 3), (from(3), 3)];
    let report = RingReport {
        bound: Some(7),
        ..RingReport::default()
    };

    let vote = desk.calls(Call::OptimizeTopology);
    let probe = desk.hears(ToPeer::Probe {
        round,
        probes: vec![link_order(to(3))],
    });
    let measured = desk.gets(PeerInput::Measured {
        round,
        to: PeerId(3),
        measured: MEASURED,
    });
    let done = desk.gets(PeerInput::ProbesEnded { round, ok: true });
    desk.hears(establish(3, &links.map(|(link, _)| link)));
    for (link, round) in links {
        desk.gets(link_up(round, link));
    }
    let adopted = desk.hears(established(2, &[1, 3, 2], &links));
    let told = desk.hears(ToPeer::OptimizationConcluded {
        report: Some(report.clone()),
    });

    assert_eq!(vote, [PeerOutput::Send(ToMaster::OptimizeTopology)]);
    assert!(matches!(probe[..], [PeerOutput::Probe { .. }]));
    let reported = ToMaster::Measured {
        round,
        to: PeerId(3),
        measured: MEASURED,
    };
    assert_eq!(measured, [PeerOutput::Send(reported)]);
    let ok = true;
    assert_eq!(done, [PeerOutput::Send(ToMaster::ProbesDone { round, ok })]);
    let better = topology(2, &[1, 3, 2]);
    let used = links.map(|(link, round)| (link, from_round(round)));
    assert_eq!(adopted, [adopt(better.clone(), &used)]);
    let optimized = Optimized {
        topology: better,
        report,
    };
    assert_eq!(told, [to_caller(Answer::TopologyOptimized(Ok(optimized)))]);
}

#[test]
fn a_failed_optimization_ends_the_call_and_late_measurements_are_dropped() {
    let mut desk = Desk::accepted();
    let round = Round(2);
    desk.calls(Call::OptimizeTopology);
    desk.hears(ToPeer::Probe {
        round,
        probes: Vec::new(),
    });

    let told = desk.hears(ToPeer::OptimizationConcluded { report: None });
    let late = desk.gets(PeerInput::ProbesEnded { round, ok: true });

    let why = CallError::OptimizationFailed;
    let failed = to_caller(Answer::TopologyOptimized(Err(why)));
    assert_eq!(told, [PeerOutput::StopProbes { round }, failed]);
    assert!(late.is_empty());
}

#[test]
fn what_the_master_does_not_wait_for_is_measured_no_longer() {
    let mut desk = Desk::accepted();
    desk.calls(Call::OptimizeTopology);
    let probes = || vec![link_order(to(3))];
    let order = |round| ToPeer::Probe {
        round: Round(round),
        probes: probes(),
    };
    desk.hears(order(2));

    let next = desk.hears(order(3));
    let late = desk.gets(PeerInput::Measured {
        round: Round(2),
        to: PeerId(3),
        measured: MEASURED,
    });
    let older = desk.hears(order(2));
    let wired = desk.hears(establish(4, &[to(1), from(3)]));

    assert!(matches!(
        next[..],
        [PeerOutput::Probe {
            round: Round(3),
            ..
        }]
    ));
    assert!(late.is_empty() && older.is_empty(), "{late:?} {older:?}");
    let round = Round(3);
    assert!(matches!(wired[0], PeerOutput::Establish { .. }));
    assert_eq!(wired[1..], [PeerOutput::StopProbes { round }]);
}

#[test]
fn measurements_that_make_no_sense_mean_that_the_master_misbehaves() {
    let no_lanes = LinkOrder {
        lanes: LaneOrder {
            lanes: 0,
            ..order(3)
        },
        ..link_order(to(3))
    };
    let senseless = [
        vec![no_lanes],
        vec![link_order(LinkId::to(ME))],
        vec![link_order(to(3)), link_order(to(3))],
        vec![link_order(from(3)), link_order(to(1))],
    ];
    for probes in senseless {
        let mut desk = Desk::accepted();
        desk.calls(Call::OptimizeTopology);

        desk.hears(ToPeer::Probe {
            round: Round(2),
            probes,
        });

        assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
    }
}
