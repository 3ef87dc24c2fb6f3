//! Joining a run, and being turned away.

use pccl_core::id::{ConnId, Epoch, GroupId, PeerId, ProtocolVersion, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, Refusal, ToMaster, ToPeer};
use pccl_core::peer::{Answer, Call, CallError};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::site::SiteName;
use pccl_core::topology::{BrokenLinks, LaneFailure, LinkId, LinkOrder};

use crate::harness::{Run, SeatNo, reduce};

fn joined(run: &mut Run, no: SeatNo) -> bool {
    matches!(run.outcome(no), Answer::Connected(Ok(_)))
}

#[test]
fn peers_join_update_and_reduce_under_every_order_of_events() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 3);

        let peers = run.accepted();
        run.call_all(&peers, &reduce(1));
        run.settle();

        assert_eq!(peers.len(), 3);
        assert_eq!(run.watch.commits, 3, "seed {seed}");
        let newcomer = run.join(GroupId(0));
        run.settle();
        run.call_all(&peers, &Call::UpdateTopology);
        run.settle();
        assert!(run.is_accepted(newcomer));
    }
}

#[test]
fn the_first_peer_of_an_empty_run_is_admitted_at_once() {
    let mut run = Run::new(1);
    let first = run.join(GroupId(0));

    run.settle();

    assert!(joined(&mut run, first));
    assert_eq!(run.peer(first).view().world_sizes().global, 1);
}

/// M-3: a newcomer that cannot be reached is refused with a reason, and its neighbours stay.
#[test]
fn a_newcomer_that_cannot_be_reached_is_refused_and_its_neighbours_stay() {
    let mut run = Run::with_accepted_peers(1, 2);
    let newcomer = run.join(GroupId(0));
    run.faults.blocked.extend([(0, newcomer), (1, newcomer)]);
    run.settle();

    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.settle();

    let answer = run.outcome(newcomer);
    let Answer::Connected(Err(CallError::Refused(refusal))) = answer else {
        panic!("{answer:?}");
    };
    let failure = LaneFailure::Refused;
    let blames_the_address = match refusal {
        Refusal::CannotBeReached { failure: f, .. } | Refusal::CannotReach { failure: f, .. } => {
            f == failure
        }
        _ => false,
    };
    assert!(blames_the_address, "{refusal}");
    for neighbour in [0, 1] {
        assert!(matches!(
            run.outcome(neighbour),
            Answer::TopologyUpdated(Ok(_))
        ));
    }
    run.call_all(&[0, 1], &reduce(1));
    run.settle();
    assert_eq!(run.watch.commits, 2);
}

/// M-3, with a healthy newcomer beside the one that cannot be reached.
#[test]
fn of_two_newcomers_only_the_one_that_cannot_be_reached_is_refused() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 2);
        let (sick, healthy) = (run.join(GroupId(0)), run.join(GroupId(0)));
        run.faults
            .blocked
            .extend([(0, sick), (1, sick), (sick, healthy)]);
        run.settle();

        run.call_all(&[0, 1], &Call::UpdateTopology);
        run.settle();

        assert!(!joined(&mut run, sick), "seed {seed}");
        assert!(joined(&mut run, healthy), "seed {seed}");
        for neighbour in [0, 1] {
            assert!(matches!(
                run.outcome(neighbour),
                Answer::TopologyUpdated(Ok(_))
            ));
        }
    }
}

/// The accepted peer that a newcomer was to connect to has died, which the newcomer sees first.
#[test]
fn a_newcomer_is_not_blamed_for_the_death_of_its_neighbour() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 3);
        let newcomer = run.join(GroupId(0));
        run.settle();

        run.call_all(&[0, 1, 2], &Call::UpdateTopology);
        run.steps(2);
        run.lose(0);
        run.settle();

        assert!(joined(&mut run, newcomer), "seed {seed}");
    }
}

/// M-11: the last accepted peer leaves while others wait.
#[test]
fn newcomers_come_in_once_when_the_last_accepted_peer_dies() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 1);
        let newcomers = [run.join(GroupId(0)), run.join(GroupId(0))];
        run.settle();

        run.call(0, Call::UpdateTopology);
        let steps = run.roll(12);
        run.steps(steps);
        run.lose(0);
        run.settle();

        for newcomer in newcomers {
            assert!(joined(&mut run, newcomer));
        }
        run.update_all();
        run.call_all(&newcomers, &reduce(1));
        run.settle();
        assert_eq!(run.watch.commits, 2);
    }
}

#[test]
fn two_groups_share_the_run_and_keep_their_rings() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(3, GroupId(1));

    run.call_all(&[0, 1], &reduce(1));
    run.settle();

    let world = run.peer(0).view().world_sizes();
    assert_eq!((world.global, world.group), (5, 2));
    assert_eq!((world.groups, world.largest_group), (2, 3));
    assert_eq!(run.watch.commits, 2, "the other group is not asked");
}

#[test]
fn everybody_hears_the_same_about_newcomers_also_while_reducing() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.join(GroupId(0));
    run.settle();
    run.call_all(&[0, 1, 2], &reduce(1));

    run.call_all(&[0, 1, 2], &Call::ArePeersPending);
    run.settle();

    for no in 0..3 {
        let answers = run.answers(no);
        assert!(answers.contains(&Answer::PeersPending(Ok(true))));
    }
    assert_eq!(run.watch.commits, 3);
}

/// A loop that asks first: the others asked before the newcomer was in, and go on to synchronize.
#[test]
fn a_newcomer_whose_loop_begins_with_the_question_keeps_step() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 2);
        let newcomer = run.join(GroupId(0));
        run.settle();
        run.call_all(&[0, 1], &Call::UpdateTopology);
        run.settle();
        for no in [0, 1, newcomer] {
            run.answers(no);
        }

        run.call(newcomer, Call::ArePeersPending);
        for no in [0, 1] {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();

        assert_eq!(run.outcome(newcomer), Answer::PeersPending(Ok(true)));
        run.call(newcomer, Call::UpdateTopology);
        let sync = run.seats[newcomer].sync_call(SyncStrategy::EnforcePopular);
        run.answers(newcomer);
        run.call(newcomer, sync);
        run.settle();
        for no in [0, 1, newcomer] {
            assert!(matches!(run.outcome(no), Answer::Synchronized(Ok(_))));
        }
    }
}

/// A loop that asks first: the others asked before the newcomer was in, and go on to reduce.
#[test]
fn a_newcomer_whose_loop_begins_with_the_question_keeps_step_with_those_who_reduce() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 2);
        run.join_many(1, GroupId(0));

        run.call_all(&[0, 1], &reduce(1));
        run.call(2, Call::ArePeersPending);
        run.settle();
        assert_eq!(run.outcome(2), Answer::PeersPending(Ok(false)));
        run.call(2, reduce(1));
        run.settle();

        assert_eq!(run.watch.commits, 3, "seed {seed}");
    }
}

#[test]
fn who_asks_while_another_group_synchronizes_waits_for_it() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(1, GroupId(1));
    let sync = run.seats[0].sync_call(SyncStrategy::EnforcePopular);
    run.call(0, sync);

    run.call(2, Call::ArePeersPending);
    run.settle();

    assert!(run.answers(2).is_empty());
}

/// A newcomer that cannot be connected costs the others a retry. One that comes meanwhile is not part
/// of that retry: else newcomers that keep coming would hold the others up for ever.
#[test]
fn who_registers_while_others_are_admitted_waits_for_the_next_ballot() {
    let (mut master, _, mut out) = admitting_peer_2();

    master.handle(hello_from(3), &mut out);
    out.clear();
    fails_until_peer_1_is_told(&mut master, LaneFailure::TimedOut, &mut out);

    assert!(out.iter().any(|output| is_refused(output, PeerId(2))));
    assert!(
        out.iter().any(stands_alone),
        "peer 1 waits for nobody: {out:?}"
    );
    out.clear();
    master.handle(said(1, voted_to_update()), &mut out);
    assert!(
        out.iter().find_map(round_ordered).is_some(),
        "peer 3 is next"
    );
}

/// What a newcomer is blamed for is not what its neighbour's own machine lacked.
#[test]
fn a_newcomer_is_refused_for_the_second_failure_and_not_for_what_its_neighbour_lacks() {
    for (failure, attempts) in [
        (LaneFailure::Closed, 2),
        (LaneFailure::TimedOut, 2),
        (LaneFailure::Local, 2),
    ] {
        let (mut master, _, mut out) = admitting_peer_2();

        out.clear();
        let failed = fails_until_peer_1_is_told(&mut master, failure, &mut out);

        assert_eq!(failed, attempts, "{failure}");
        assert!(out.iter().any(|output| is_refused(output, PeerId(2))));
    }
}

/// Lanes cannot be opened between peers 1 and 2, in one attempt after the other: who is to open them on the
/// link from peer 1 says so. Returns how many there were.
fn fails_until_peer_1_is_told(
    master: &mut Master,
    failure: LaneFailure,
    out: &mut Vec<MasterOutput>,
) -> usize {
    for attempt in 1..9 {
        let rounds = master.view().timers().filter_map(|timer| match timer {
            MasterTimer::Wiring(round) => Some(round),
            _ => None,
        });
        let round = rounds.last().expect("a ring is connected");
        let up = |link| ToMaster::LinkUp { round, link };
        let back = [
            (2, up(LinkId::to(PeerId(1)))),
            (1, up(LinkId::from(PeerId(2)))),
        ];
        for (peer, said_by) in back {
            master.handle(said(peer, said_by), out);
        }
        let link = LinkId::from(PeerId(1));
        let failed = match out.iter().any(|output| dials_back(output, round)) {
            true => said(
                2,
                ToMaster::LinkFailed {
                    round,
                    link,
                    failure,
                },
            ),
            false => could_not_connect_with_peer_2(round, failure),
        };
        master.handle(failed, out);
        master.handle(
            MasterInput::TimerFired(MasterTimer::RetryWiring(round)),
            out,
        );
        if out.iter().any(stands_alone) {
            return attempt;
        }
    }
    panic!("peer 1 waits for ever: {out:?}");
}

/// Peer 1 is alone in the run and has voted; peer 2 is being connected with it, in this round.
fn admitting_peer_2() -> (Master, Round, Vec<MasterOutput>) {
    let mut master = Master::new(MasterConfig::default());
    let mut out = Vec::new();
    for conn in 1..=2 {
        master.handle(hello_from(conn), &mut out);
    }
    master.handle(said(1, voted_to_update()), &mut out);
    let round = out.iter().find_map(round_ordered);
    (master, round.expect("a ring is connected"), out)
}

/// Peer 1 reports it.
fn could_not_connect_with_peer_2(round: Round, failure: LaneFailure) -> MasterInput {
    let link = LinkId::to(PeerId(2));
    let failed = ToMaster::LinkFailed {
        round,
        link,
        failure,
    };
    said(1, failed)
}

fn voted_to_update() -> ToMaster {
    let (epoch, broken) = (Epoch(u64::MAX), BrokenLinks::NONE);
    ToMaster::UpdateTopology { epoch, broken }
}

fn hello_from(conn: u64) -> MasterInput {
    let hello = Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 1,
        site: SiteName::NONE,
        name: Default::default(),
    };
    let from = [192, 0, 2, 1].into();
    MasterInput::Connected {
        conn: ConnId(conn),
        hello,
        from,
        identity: None,
    }
}

fn said(peer: u64, message: ToMaster) -> MasterInput {
    MasterInput::Message {
        peer: PeerId(peer),
        message,
    }
}

fn round_ordered(output: &MasterOutput) -> Option<Round> {
    match output {
        MasterOutput::Send {
            message: ToPeer::EstablishLinks { round, .. },
            ..
        } => Some(*round),
        _ => None,
    }
}

/// Peer 2 is to open the lanes on which it receives.
fn dials_back(output: &MasterOutput, of: Round) -> bool {
    match output {
        MasterOutput::Send {
            peer: PeerId(2),
            message: ToPeer::EstablishLinks { round, links },
        } => {
            let back = |order: &&LinkOrder| order.link() == LinkId::from(PeerId(1));
            let order = links.iter().find(back);
            *round == of && order.is_some_and(|order| order.lanes.dial.is_some())
        }
        _ => false,
    }
}

fn is_refused(output: &MasterOutput, whom: PeerId) -> bool {
    matches!(output, MasterOutput::Send { peer, message: ToPeer::Refused(_) } if *peer == whom)
}

fn stands_alone(output: &MasterOutput) -> bool {
    matches!(output, MasterOutput::Send { message: ToPeer::TopologyEstablished { topology, .. }, .. }
        if topology.ring.0 == [PeerId(1)])
}

/// Peer 2 was admitted, and its first update was that. The others let peer 3 in, for which peer 2 was not asked
/// as it had voted for nothing.
fn updates_after_the_others() -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    for newcomer in [2, 3] {
        run.join(GroupId(0));
        run.settle();
        run.call_all(&[0, 1], &Call::UpdateTopology);
        run.settle();
        assert!(run.is_accepted(newcomer));
        if newcomer == 2 {
            run.call(2, Call::UpdateTopology);
        }
    }
    for no in 0..4 {
        run.answers(no);
    }
    run.call(2, Call::UpdateTopology);
    run
}

/// It saw peer 3 at the door, and calls after the others' update is over.
#[test]
fn who_rests_and_updates_after_the_others_is_told_their_ring_at_once() {
    let mut run = updates_after_the_others();

    let answer = run.outcome(2);

    let Answer::TopologyUpdated(Ok(topology)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(topology.ring.0.len(), 4);
}

/// It waits as long as the others are idle, and no longer: whatever they call leads to that update.
#[test]
fn who_updates_once_more_waits_until_the_others_call_anything() {
    let mut whole = updates_after_the_others();
    whole.outcome(2);
    whole.call(2, Call::UpdateTopology);
    whole.settle();
    for call in [Call::UpdateTopology, reduce(1), Call::ArePeersPending] {
        let mut run = whole.clone();
        assert!(run.answers(2).is_empty(), "the others have called nothing");

        run.call_all(&[0, 1], &call);
        run.settle();
        if call == Call::ArePeersPending {
            for no in [0, 1] {
                assert_eq!(run.outcome(no), Answer::PeersPending(Ok(true)));
            }
            run.call_all(&[0, 1], &Call::UpdateTopology);
            run.settle();
        }

        let answer = run.outcome(2);
        assert!(matches!(answer, Answer::TopologyUpdated(Ok(_))), "{call:?}");
    }
}
