//! Joining: hello, welcome, admission, refusal, signs of life.

use crate::desk::*;

#[test]
fn a_peer_says_hello_is_welcomed_connects_its_edges_and_is_part_of_the_run() {
    let mut desk = Desk::unconnected();

    let hello = desk.calls(Call::Connect);
    let welcomed = desk.gets(PeerInput::Message(welcome()));
    let ordered = desk.hears(establish(1, &[to(3), from(1)]));
    let reported = [to(3), from(1)].map(|link| desk.gets(link_up(1, link)));
    let joined = desk.hears(established(1, &[1, 2, 3], &FIRST_LINKS));

    let says = Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 4,
        site: site_of(ME.0),
        name: Default::default(),
    };
    assert_eq!(sent(&hello), [&ToMaster::Hello(says)]);
    assert_eq!(welcomed.len(), 2, "both timers start: {welcomed:?}");
    assert!(matches!(ordered[..], [PeerOutput::Establish { .. }]));
    let round = Round(1);
    let up = |link| vec![PeerOutput::Send(ToMaster::LinkUp { round, link })];
    assert_eq!(reported, [up(to(3)), up(from(1))]);
    let topology = topology(1, &[1, 2, 3]);
    assert_eq!(
        joined,
        [
            adopt(
                topology.clone(),
                &[(to(3), from_round(1)), (from(1), from_round(1))]
            ),
            to_caller(Answer::Connected(Ok(Joined { peer: ME, topology }))),
        ]
    );
    assert_eq!(desk.peer.view().phase(), PeerPhase::Accepted);
}

#[test]
fn a_refused_newcomer_reads_why_in_its_connect_call() {
    let mut desk = Desk::registered();
    let refusal = Refusal::CannotBeReached {
        by: PeerId(1),
        at: ([192, 0, 2, 7], 48149).into(),
        failure: LaneFailure::TimedOut,
    };

    let out = desk.hears(ToPeer::Refused(refusal.clone()));

    let why = CallError::Refused(refusal);
    assert_eq!(answers(&out), [&Answer::Connected(Err(why))]);
    assert_eq!(out.last(), Some(&PeerOutput::Close));
}

#[test]
fn a_master_that_never_welcomes_counts_as_lost() {
    let mut desk = Desk::unconnected();
    let timer = PeerTimer::MasterSilence;

    let hello = desk.calls(Call::Connect);
    let out = desk.gets(PeerInput::TimerFired(timer));

    let after = WELCOME_LIMIT;
    assert!(hello.contains(&PeerOutput::StartTimer { timer, after }));

    assert_eq!(
        answers(&out),
        [&Answer::Connected(Err(CallError::MasterLost))]
    );
}

#[test]
fn calls_before_admission_and_a_second_connect_are_usage_errors() {
    for mut desk in [
        Desk::unconnected(),
        Desk::awaiting_welcome(),
        Desk::registered(),
    ] {
        let before = desk.peer.clone();

        let out = desk.calls(initiate(1));

        let why = CallError::Usage(Usage::NotConnected);
        assert_eq!(out, [ended(1, Err(why))]);
        assert_eq!(desk.peer, before);
    }
    let mut desk = Desk::registered();

    let out = desk.calls(Call::Connect);

    let why = CallError::Usage(Usage::AlreadyConnected);
    assert_eq!(out, [to_caller(Answer::Connected(Err(why)))]);
}

#[test]
fn every_message_restarts_the_silence_timer_and_heartbeats_go_out() {
    let mut desk = Desk::accepted();

    let heard = desk.gets(PeerInput::Message(ToPeer::Heartbeat));
    let due = desk.gets(PeerInput::TimerFired(PeerTimer::HeartbeatDue));

    let restarts = |out: &[PeerOutput], which| {
        out.iter()
            .any(|o| matches!(o, PeerOutput::StartTimer { timer, .. } if *timer == which))
    };
    assert!(restarts(&heard, PeerTimer::MasterSilence));
    assert_eq!(sent(&due), [&ToMaster::Heartbeat { moved: false }]);
    assert!(restarts(&due, PeerTimer::HeartbeatDue));
}

#[test]
fn bytes_that_moved_are_told_with_the_next_heartbeat_and_with_no_other() {
    let mut desk = performing();
    let due = PeerInput::TimerFired(PeerTimer::HeartbeatDue);
    desk.gets(PeerInput::Moved);

    let silent = desk.gets(PeerInput::Moved);
    let first = desk.gets(due.clone());
    let second = desk.gets(due);

    assert!(silent.is_empty(), "a heartbeat is not sent before its time");
    assert_eq!(sent(&first), [&ToMaster::Heartbeat { moved: true }]);
    assert_eq!(sent(&second), [&ToMaster::Heartbeat { moved: false }]);
}

#[test]
fn a_peer_that_waits_to_be_admitted_moves_nothing_for_the_run() {
    let mut desk = Desk::registered();
    desk.gets(PeerInput::Moved);

    let due = desk.gets(PeerInput::TimerFired(PeerTimer::HeartbeatDue));

    assert_eq!(sent(&due), [&ToMaster::Heartbeat { moved: false }]);
}
