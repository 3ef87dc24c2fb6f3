//! Real processes at several sites, killed at exact moments of a reduce in two levels: the others go on with right
//! results, which they check themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pccl::Algorithm;
use pccl_tests::processes::{Member, Swarm};
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Commit, Event, Failure, Moment};

/// Enough for several frames on each lane.
const ELEMENTS: usize = 300_000;

/// Two of the first site, two of the second, one of the third.
const SITES: [&str; 5] = ["eu", "us", "eu", "us", "asia"];

/// What each survivor tells, by peer, until it has done three rounds with nobody else.
fn hear(swarm: &mut Swarm, survivors: &[Member]) -> BTreeMap<u64, (Vec<Commit>, Vec<Failure>)> {
    let peers: BTreeSet<u64> = survivors.iter().map(|member| member.peer).collect();
    let names: BTreeMap<_, u64> = survivors.iter().map(|m| (m.process, m.peer)).collect();
    let mut told: BTreeMap<u64, (Vec<Commit>, Vec<Failure>)> = BTreeMap::new();
    for peer in &peers {
        told.insert(*peer, Default::default());
    }
    swarm
        .until("three rounds of the survivors", |process, event| {
            let (commits, failures) = told.get_mut(names.get(&process)?)?;
            match event {
                Event::Committed(commit) => commits.push(commit.clone()),
                Event::Failed { why, .. } => failures.push(*why),
                Event::GaveUp { error, .. } => panic!("{process:?} gave up: {error}"),
                _ => {}
            }
            let alone = |commit: &&Commit| commit.rounds.keys().eq(peers.iter());
            let done = |commits: &[Commit]| commits.iter().filter(alone).count() >= 3;
            let mut all = told.values();
            all.all(|(commits, _)| done(commits)).then_some(())
        })
        .unwrap();
    told
}

/// Kills the peer of this place at this moment of a reduce by this algorithm. How many attempts of each survivor failed.
fn kill(place: usize, moment: Moment, algorithm: Algorithm) -> usize {
    let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
    let at = |site: &str| PeerOptions {
        site: site.to_owned(),
        elements: ELEMENTS,
        in_levels: Some(algorithm),
        ..PeerOptions::of(&master)
    };
    let mut survivors: Vec<Member> = SITES
        .iter()
        .map(|site| swarm.join(&at(site)).unwrap())
        .collect();
    swarm.until_all_commit(&survivors).unwrap();
    let victim = survivors.remove(place);
    swarm.stand_still_at(victim.process, moment).unwrap();
    swarm.until_still(victim.process).unwrap();
    swarm.kill(victim.process).unwrap();

    let told = hear(&mut swarm, &survivors);

    let failures: BTreeSet<usize> = told.values().map(|(_, failures)| failures.len()).collect();
    assert_eq!(failures.len(), 1, "{moment:?} of {place}: {failures:?}");
    let is_loss = |why: &Failure| matches!(why, Failure::PeerLost(_) | Failure::LaneLost(_));
    let mut all = told.values().flat_map(|(_, failures)| failures);
    assert!(all.all(is_loss), "{moment:?} of {place}");
    println!("{}", swarm.conform().unwrap());
    failures.into_iter().max().unwrap()
}

const LEVELS: [Algorithm; 3] = [
    Algorithm::TwoLevel,
    Algorithm::TwoLevelRing,
    Algorithm::TwoLevelWhole,
];

/// Without the last one the sites are two: after a ring of the sites the others go on without one.
#[test]
fn a_peer_that_is_killed_in_two_levels_aborts_the_reduce_for_all_once_wherever_it_is() {
    for algorithm in LEVELS {
        // At home among others, and with a site of its own.
        for place in [0, 3, 4] {
            assert_eq!(kill(place, Moment::FrameSent, algorithm), 1);
            assert_eq!(kill(place, Moment::PlanDone, algorithm), 1);
        }
    }
}

#[test]
fn a_peer_that_is_killed_after_its_last_vote_has_contributed_in_two_levels() {
    for algorithm in LEVELS {
        for place in [1, 4] {
            assert_eq!(kill(place, Moment::CompletionVoted, algorithm), 0);
        }
    }
}
