//! Another ring for a peer that did not ask for one: who waits for others to make its call, or for nothing,
//! gets it, and goes on waiting. Under what has begun no ring is touched.

use crate::desk::*;

/// The links of that ring.
const REWIRED: [(LinkId, u64); 2] = [(to(3), 12), (from(1), 1)];

/// Which lanes they are.
const ADOPTED: [(LinkId, AdoptedLanes); 2] = [(to(3), from_round(12)), (from(1), KEEP)];

/// Orders the link to the next peer anew. What the peer does about that, and about the ring with it.
fn rewires(desk: &mut Desk) -> [Vec<PeerOutput>; 3] {
    let ordered = desk.hears(establish(12, &[to(3)]));
    let up = desk.gets(link_up(12, to(3)));
    let adopted = desk.hears(established(2, &[1, 2, 3], &REWIRED));
    [ordered, up, adopted]
}

fn rewired() -> [Vec<PeerOutput>; 3] {
    let (round, link) = (Round(12), to(3));
    let links = vec![link_order(link)];
    let ordered = PeerOutput::Establish { round, links };
    let up = PeerOutput::Send(ToMaster::LinkUp { round, link });
    let adopted = adopt(topology(2, &[1, 2, 3]), &ADOPTED);
    [vec![ordered], vec![up], vec![adopted]]
}

fn synchronizing() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    desk
}

fn optimizing() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(Call::OptimizeTopology);
    desk
}

fn probing() -> Desk {
    let mut desk = optimizing();
    let (round, probes) = (Round(2), Vec::new());
    desk.hears(ToPeer::Probe { round, probes });
    desk
}

#[test]
fn an_update_is_answered_with_the_ring_that_stands() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);

    let [.., told] = rewires(&mut desk);

    let ring = topology(2, &[1, 2, 3]);
    let answered = to_caller(Answer::TopologyUpdated(Ok(ring.clone())));
    assert_eq!(told, [adopt(ring, &ADOPTED), answered]);
}

#[test]
fn a_synchronization_without_a_plan_goes_on_waiting_on_another_ring() {
    let mut desk = synchronizing();

    let out = rewires(&mut desk);
    let told = desk.hears(conclusion(Ok(Revision(3))));

    assert_eq!(out, rewired());
    let answer = &Answer::Synchronized(Ok(Synchronized {
        revision: Revision(3),
        fetched: Vec::new(),
    }));
    assert_eq!(answers(&told), [answer]);
}

#[test]
fn an_optimization_that_has_not_begun_to_measure_goes_on_waiting_on_another_ring() {
    let mut desk = optimizing();

    let out = rewires(&mut desk);
    let report = RingReport::default();
    let told = desk.hears(ToPeer::OptimizationConcluded {
        report: Some(report.clone()),
    });

    assert_eq!(out, rewired());
    let optimized = Optimized {
        topology: topology(2, &[1, 2, 3]),
        report,
    };
    assert_eq!(answers(&told), [&Answer::TopologyOptimized(Ok(optimized))]);
}

#[test]
fn an_optimization_that_has_measured_gets_the_better_ring() {
    let mut desk = probing();
    let (round, ok) = (Round(2), true);
    desk.gets(PeerInput::ProbesEnded { round, ok });

    let out = rewires(&mut desk);

    assert_eq!(out, rewired());
}

#[test]
fn collectives_that_have_not_started_go_on_waiting_on_another_ring() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.calls(initiate(2));

    let out = rewires(&mut desk);
    let started = desk.hears(commence(2, 9));

    assert_eq!(out, rewired());
    assert!(matches!(started[..], [PeerOutput::RunPlan { .. }]));
}

#[test]
fn a_peer_that_has_voted_for_nothing_since_its_admission_gets_another_ring() {
    let mut asking = Desk::resting();
    asking.calls(Call::ArePeersPending);
    for mut desk in [Desk::fresh(), Desk::resting(), asking] {
        let out = rewires(&mut desk);

        assert_eq!(out, rewired(), "and is not answered");
        assert!(desk.peer.view().rests(), "and goes on resting");
    }
}

#[test]
fn a_peer_that_waits_for_nothing_gets_another_ring() {
    let mut withdrawn = Desk::accepted();
    withdrawn.calls(initiate(1));
    let (tag, reason) = (Tag(1), CollectiveRefusal::Withdrawn);
    withdrawn.gives_up(&initiate(1));
    withdrawn.hears(ToPeer::CollectiveRefused { tag, reason });
    for mut desk in [Desk::accepted(), withdrawn] {
        let out = rewires(&mut desk);

        assert_eq!(out, rewired());
        assert!(desk.peer.view().is_idle());
    }
}

#[test]
fn the_first_update_after_another_ring_is_answered_with_that_ring() {
    let mut desk = Desk::fresh();
    rewires(&mut desk);

    let told = desk.calls(Call::UpdateTopology);

    let ring = topology(2, &[1, 2, 3]);
    let answered = Answer::TopologyUpdated(Ok(ring));
    assert_eq!(told, [to_caller(answered)]);
}

/// Nobody waited for its vote.
#[test]
fn a_peer_that_rests_is_told_each_ring_that_it_was_given_at_its_next_update() {
    let mut desk = Desk::resting();
    rewires(&mut desk);

    let late = desk.calls(Call::UpdateTopology);
    let next = desk.calls(Call::UpdateTopology);

    let ring = topology(2, &[1, 2, 3]);
    let (epoch, broken) = (Epoch(2), BrokenLinks::NONE);
    let vote = ToMaster::UpdateTopology { epoch, broken };
    let answered = Answer::TopologyUpdated(Ok(ring));
    assert_eq!(late, [to_caller(answered)]);
    assert_eq!(next, [PeerOutput::Send(vote)]);
}

/// The master takes a vote on an older ring than the present one for answered.
#[test]
fn a_vote_to_update_names_the_ring_on_which_it_was_cast() {
    let mut desk = Desk::accepted();
    rewires(&mut desk);

    let first = desk.calls(Call::UpdateTopology);
    desk.hears(established(5, &[1, 2, 3], &REWIRED));
    let second = desk.calls(Call::UpdateTopology);

    let vote = |epoch| {
        let (epoch, broken) = (Epoch(epoch), BrokenLinks::NONE);
        [PeerOutput::Send(ToMaster::UpdateTopology { epoch, broken })]
    };
    assert_eq!(first, vote(2));
    assert_eq!(second, vote(5));
}

#[test]
fn any_vote_ends_the_rest_also_one_that_fails() {
    let vote = Call::SyncSharedState(sync_vote());
    for call in [
        Call::UpdateTopology,
        Call::OptimizeTopology,
        vote,
        initiate(1),
    ] {
        let mut desk = Desk::resting();

        desk.calls(call);

        assert!(!desk.peer.view().rests());
    }
    let mut desk = Desk::resting();
    desk.calls(Call::SyncSharedState(sync_vote()));

    desk.hears(conclusion(Err(SyncFailure::TimedOut)));

    assert!(!desk.peer.view().rests());
}

#[test]
fn no_ring_is_touched_under_what_has_begun() {
    let moving = || {
        let mut desk = synchronizing();
        desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));
        desk
    };
    let one_runs = || {
        let mut desk = performing();
        desk.calls(initiate(2));
        desk
    };
    let over = || voted(PlanOutcome::Done);
    let desks: [fn() -> Desk; 4] = [moving, one_runs, over, performing];
    let words = [
        establish(12, &[to(4)]),
        establish(12, &[]),
        established(2, &[1, 2, 3], &FIRST_LINKS),
    ];
    for begin in desks {
        for word in &words {
            let mut desk = begin();

            desk.hears(word.clone());

            let misbehaved = is_gone_with(&desk, &CallError::MasterMisbehaved);
            assert!(misbehaved, "{word:?}");
        }
    }
}
