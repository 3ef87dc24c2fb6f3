//! Every way out of the run.

use crate::desk::*;

#[test]
fn a_peer_that_loses_the_master_invents_no_verdict() {
    let mut desk = voted(PlanOutcome::Done);

    let out = desk.gets(PeerInput::MasterDisconnected);

    assert_eq!(answers(&out).len(), 1);
    assert_eq!(out.first(), Some(&ended(1, Err(CallError::MasterLost))));
}

#[test]
fn every_end_stops_what_runs_answers_what_is_open_and_stays() {
    let kicked = Misdeed::MissedBallot;
    let ends = [
        (PeerInput::MasterDisconnected, CallError::MasterLost),
        (
            PeerInput::TimerFired(PeerTimer::MasterSilence),
            CallError::MasterLost,
        ),
        (PeerInput::MasterMisbehaved, CallError::MasterMisbehaved),
        (
            PeerInput::Message(ToPeer::Kicked(kicked.clone())),
            CallError::Kicked(kicked),
        ),
        (
            PeerInput::Message(ToPeer::Stopping),
            CallError::MasterStopped,
        ),
        (PeerInput::Leave, CallError::Left),
    ];
    for (end, why) in ends {
        let mut desk = performing();
        desk.calls(initiate(2));
        desk.calls(Call::ArePeersPending);

        let out = desk.gets(end);
        let later = desk.calls(Call::UpdateTopology);
        let ignored = desk.gets(PeerInput::MasterDisconnected);

        assert!(out.contains(&PeerOutput::StopPlan { seq: Seq(9) }));
        for timer in [PeerTimer::HeartbeatDue, PeerTimer::MasterSilence] {
            assert!(out.contains(&PeerOutput::StopTimer(timer)));
        }
        let expected = [
            to_caller(Answer::PeersPending(Err(why.clone()))),
            ended(1, Err(why.clone())),
            ended(2, Err(why.clone())),
        ];
        assert_eq!(answers(&out).len(), expected.len());
        assert!(expected.iter().all(|answer| out.contains(answer)));
        assert_eq!(out.last(), Some(&PeerOutput::Close));
        let again = Answer::TopologyUpdated(Err(why.clone()));
        assert_eq!(later, [to_caller(again)]);
        assert!(ignored.is_empty());
        assert!(is_gone_with(&desk, &why));
    }
}

#[test]
fn a_peer_that_leaves_says_so_first() {
    let mut desk = Desk::accepted();

    let out = desk.gets(PeerInput::Leave);

    assert_eq!(out.first(), Some(&PeerOutput::Send(ToMaster::Leave)));
}

#[test]
fn losing_the_master_in_mid_sync_drops_what_was_fetched() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));

    let out = desk.gets(PeerInput::MasterDisconnected);

    assert_eq!(
        out[..2],
        [
            PeerOutput::DropState { round: Round(5) },
            to_caller(Answer::Synchronized(Err(CallError::MasterLost))),
        ]
    );
}

#[test]
fn messages_that_answer_nothing_mean_that_the_master_misbehaves() {
    let unasked = [
        welcome(),
        ToPeer::PeersPending { pending: false },
        ToPeer::Probe {
            round: Round(2),
            probes: Vec::new(),
        },
        ToPeer::OptimizationConcluded {
            report: Some(RingReport::default()),
        },
        ToPeer::SharedStatePlan(plan(fetch_one())),
        conclusion(Ok(Revision(3))),
        commence(1, 9),
        ToPeer::CollectiveRefused {
            tag: Tag(1),
            reason: CollectiveRefusal::NotJoined { peers: Vec::new() },
        },
    ];
    for message in unasked {
        let mut desk = Desk::accepted();

        desk.hears(message.clone());

        let misbehaved = is_gone_with(&desk, &CallError::MasterMisbehaved);
        assert!(misbehaved, "{message:?}");
    }
}
