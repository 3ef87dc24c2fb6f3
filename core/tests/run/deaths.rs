//! The death of a peer in every state that the master can have it in: whatever it was doing, the
//! survivors' calls end, and the next operations work.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::messages::CallKind;
use pccl_core::peer::{Answer, Call};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::states::{
    CollectiveCommunicationState as TagState, ConnectionPhase, ConnectionState,
};

use crate::harness::{Holds, Run, SeatNo, reduce, shared};

/// In what the master had a peer when it died.
type Moment = (ConnectionPhase, ConnectionState, BTreeSet<TagState>);

/// A story that brings peers into some states: everything but the steps is done.
pub(crate) type Story = fn(u64) -> Run;

fn reducing(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 3);
    let peers = run.accepted();
    run.call_all(&peers, &reduce(1));
    run.call_all(&peers, &reduce(2));
    run
}

/// One of them has not called the second reduce.
fn reducing_out_of_step(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 3);
    run.call_all(&[0, 1, 2], &reduce(1));
    run.call_all(&[0, 1], &reduce(2));
    run
}

fn admitting(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 3);
    let peers = run.accepted();
    run.join(GroupId(0));
    run.call_all(&peers, &Call::UpdateTopology);
    run
}

fn rewiring(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 4);
    let peers = run.accepted();
    run.break_link(1, 0);
    run.settle();
    run.call_all(&peers, &reduce(1));
    run
}

/// The lanes of one link broke, and its two ends cannot be connected any more.
fn rewiring_around_a_wall(seed: u64) -> Run {
    let mut run = rewiring(seed);
    let neighbour = run.next_of(1);
    run.faults
        .blocked
        .insert((neighbour.min(1), neighbour.max(1)));
    run
}

fn optimizing(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 4);
    let peers = run.accepted();
    run.call_all(&peers, &Call::OptimizeTopology);
    run
}

fn optimizing_where_one_cannot_measure(seed: u64) -> Run {
    let mut run = optimizing(seed);
    run.faults.cannot_measure.insert(2);
    run
}

fn optimizing_into_a_wall(seed: u64) -> Run {
    let mut run = optimizing(seed);
    run.faults.no_links = true;
    run
}

fn synchronizing(seed: u64) -> Run {
    let mut run = Run::with_accepted_peers(seed, 4);
    run.seats[3].memory.entries = vec![shared("weights", 7)];
    run.seats[2].memory.entries = vec![shared("weights", 7)];
    run.seats[1].memory.entries = vec![shared("weights", 7)];
    for seat in run.accepted() {
        let call = run.seats[seat].sync_call(SyncStrategy::EnforcePopular);
        run.call(seat, call);
    }
    run
}

pub(crate) const STORIES: [(&str, Story); 9] = [
    ("reducing", reducing),
    ("reducing out of step", reducing_out_of_step),
    ("admitting", admitting),
    ("rewiring", rewiring),
    ("rewiring around a wall", rewiring_around_a_wall),
    ("optimizing", optimizing),
    (
        "optimizing where one cannot measure",
        optimizing_where_one_cannot_measure,
    ),
    ("optimizing into a wall", optimizing_into_a_wall),
    ("synchronizing", synchronizing),
];

fn moment_of(run: &Run, no: SeatNo) -> Option<Moment> {
    let peer = run.master().view().peer(run.seats[no].id?)?;
    let tags = peer.tags().map(|(_, state)| state).collect();
    Some((peer.phase(), peer.state(), tags))
}

/// Everybody who is still there gets an answer, and then updates, synchronizes and reduces.
fn survive(run: &mut Run, name: &str) {
    run.settle();
    catch_up(run);
    end_queries(run);
    run.faults.no_links = false;
    for seat in run.accepted() {
        let view = run.peer(seat).view();
        let open: Vec<_> = view.tags().collect();
        assert!(
            view.is_idle(),
            "{name}: seat {seat} waits: {:?} {open:?}",
            view.open_calls()
        );
    }
    run.update_all();
    let peers = run.accepted();
    for seat in &peers {
        let call = run.seats[*seat].sync_call(SyncStrategy::EnforcePopular);
        run.call(*seat, call);
    }
    run.settle();
    for seat in &peers {
        let answer = run.outcome(*seat);
        assert!(
            matches!(answer, Answer::Synchronized(Ok(_))),
            "{name}: {answer:?}"
        );
    }
    run.call_all(&peers, &reduce(9));
    run.settle();
    let mut all: Vec<PeerId> = peers.iter().map(|seat| run.id(*seat)).collect();
    all.sort();
    for seat in &peers {
        assert_eq!(
            run.seats[*seat].buffer(Tag(9)),
            Holds::Sum(all.clone()),
            "{name}"
        );
    }
}

/// Who has not called what others reduce does so.
pub(crate) fn catch_up(run: &mut Run) {
    let peers = run.accepted();
    let open_tags = |run: &Run, no: SeatNo| -> BTreeSet<Tag> {
        run.peer(no).view().tags().map(|view| view.tag).collect()
    };
    let all: BTreeSet<Tag> = peers.iter().flat_map(|no| open_tags(run, *no)).collect();
    for seat in peers {
        for tag in all.difference(&open_tags(run, seat)) {
            run.call(seat, reduce(tag.0));
        }
    }
    run.settle();
}

fn end_queries(run: &mut Run) {
    for seat in run.accepted() {
        if !run.peer(seat).view().open_calls().query {
            run.call(seat, Call::ArePeersPending);
        }
    }
    run.settle();
}

/// Kills each peer after each number of steps of the story, until the story is over.
fn kill_everywhere(name: &str, story: Story, seed: u64, seen: &mut BTreeMap<Moment, u32>) {
    let mut whole = story(seed);
    loop {
        for victim in 0..whole.seats.len() {
            let mut run = whole.clone();
            let moment = moment_of(&run, victim);
            if let Some(moment) = moment.clone() {
                *seen.entry(moment).or_default() += 1;
            }
            let on_the_way = run.seats[victim].connection.up.queue.len();
            let kept = run.roll(on_the_way + 1);
            run.lose_with_prefix(victim, kept);
            survive(
                &mut run,
                &format!("{name}, seed {seed}, death of {victim} at {moment:?}"),
            );
        }
        if !whole.step() {
            return;
        }
    }
}

#[test]
fn whatever_a_peer_was_doing_when_it_died_the_others_go_on() {
    let mut seen = BTreeMap::new();

    for (name, story) in STORIES {
        for seed in 1..4 {
            kill_everywhere(name, story, seed, &mut seen);
        }
    }

    let accepted = ConnectionPhase::Accepted;
    let plain = [
        (ConnectionPhase::Registered, ConnectionState::Idle),
        (
            ConnectionPhase::Registered,
            ConnectionState::ConnectingToPeers,
        ),
        (
            ConnectionPhase::Registered,
            ConnectionState::WaitingForOtherPeers,
        ),
        (accepted, ConnectionState::Idle),
        (accepted, ConnectionState::VoteAcceptNewPeers),
        (accepted, ConnectionState::ConnectingToPeers),
        (accepted, ConnectionState::WaitingForOtherPeers),
        (accepted, ConnectionState::VoteOptimizeTopology),
        (accepted, ConnectionState::OptimizeTopology),
        (accepted, ConnectionState::OptimizeTopologyFailed),
        (accepted, ConnectionState::VoteCompleteTopologyOptimization),
        (accepted, ConnectionState::VoteSyncSharedState),
        (accepted, ConnectionState::DistributeSharedState),
        (accepted, ConnectionState::RequestSharedState),
        (accepted, ConnectionState::VoteCompleteSharedStateSync),
    ];
    for (phase, state) in plain {
        let moment = (phase, state, BTreeSet::new());
        assert!(seen.contains_key(&moment), "nobody died in {moment:?}");
    }
    let rewiring = [
        ConnectionState::VoteNoNewPeersEstablishP2p,
        ConnectionState::ConnectingToPeers,
        ConnectionState::ConnectingToPeersFailed,
        ConnectionState::WaitingForOtherPeers,
        ConnectionState::CollectiveCommunicationsRunning,
    ];
    for state in rewiring {
        let moment = (accepted, state, BTreeSet::from([TagState::VoteInitiate]));
        assert!(seen.contains_key(&moment), "nobody died in {moment:?}");
    }
    use TagState::{Perform, VoteComplete, VoteInitiate};
    let tags: [&[TagState]; 5] = [
        &[Perform],
        &[VoteComplete],
        &[VoteInitiate, Perform],
        &[VoteInitiate, VoteComplete],
        &[Perform, VoteComplete],
    ];
    for tags in tags {
        let tags = tags.iter().copied().collect();
        let moment = (
            accepted,
            ConnectionState::CollectiveCommunicationsRunning,
            tags,
        );
        assert!(seen.contains_key(&moment), "nobody died in {moment:?}");
    }
}

#[test]
fn the_survivors_of_an_optimization_are_not_left_waiting() {
    let mut run = optimizing(1);
    run.steps(4);

    run.lose(3);
    run.settle();

    for seat in run.accepted() {
        assert_eq!(run.peer(seat).view().open_calls().major, None::<CallKind>);
    }
}
