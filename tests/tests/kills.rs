//! Real processes, killed at exact moments: what the others see, and that they go on with right
//! results. Every result is checked by the peers themselves, and a wrong one fails each of these tests.
//! At the end of each the machines of all processes have to say again what they said.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use pccl_master::{MasterConfig, RunningMaster};
use pccl_tests::over::MasterAt;
use pccl_tests::processes::{Member, Process, Swarm};
use pccl_tests::roles::MasterOptions;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Commit, Event, Failure, Moment, Order};

/// Enough for several frames on each lane.
const ELEMENTS: usize = 300_000;

fn swarm() -> Swarm {
    Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap()
}

fn master(swarm: &Swarm) -> RunningMaster {
    swarm.master_builder().spawn("127.0.0.1:0").unwrap()
}

/// Replays what the machines of the run heard and said. Prints how much that was.
fn assert_conforms(swarm: &mut Swarm) {
    println!("{}", swarm.conform().unwrap());
}

/// A run in which somebody was killed where it stood.
struct AfterKill {
    /// Dropped, and with them the master, only when the test is over.
    swarm: Swarm,
    _master: RunningMaster,
    victim: Member,
    /// What the survivors have told since the victim was to stand still. They may tell of the round in which it does so
    /// before it has told where it stands.
    told: BTreeMap<Process, Told>,
    survivors: BTreeSet<u64>,
    /// The round in which the victim stood still, by its own count.
    round: u64,
}

/// Lets three peers reduce, stops the last one at this moment, and kills it there.
fn kill_one_of_three(moment: Moment) -> AfterKill {
    kill_one_of_three_that(moment, false)
}

/// The same of peers that reduce by the other collectives.
fn kill_one_of_three_that(moment: Moment, halves: bool) -> AfterKill {
    let mut swarm = swarm();
    let master = master(&swarm);
    let options = PeerOptions {
        elements: ELEMENTS,
        halves,
        ..PeerOptions::of(&master)
    };
    let mut survivors = swarm.join_all(&options, 3).unwrap();
    let victim = survivors.pop().unwrap();
    let mut told: BTreeMap<Process, Told> = BTreeMap::new();
    for survivor in &survivors {
        told.insert(survivor.process, Told::default());
    }
    swarm.stand_still_at(victim.process, moment).unwrap();
    let round = swarm
        .until("a standstill", |process, event| {
            if let Some(by) = told.get_mut(&process) {
                by.hear(event);
            }
            match event {
                Event::StandsStill { round } if process == victim.process => Some(*round),
                _ => None,
            }
        })
        .unwrap();
    swarm.kill(victim.process).unwrap();
    AfterKill {
        swarm,
        _master: master,
        victim,
        told,
        survivors: survivors.iter().map(|member| member.peer).collect(),
        round,
    }
}

/// What a survivor has told.
#[derive(Clone, Default)]
struct Told {
    commits: Vec<Commit>,
    failures: Vec<Failure>,
}

impl Told {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Committed(commit) => self.commits.push(commit.clone()),
            Event::Failed { why, .. } => self.failures.push(*why),
            Event::GaveUp { error, .. } => panic!("a survivor gave up: {error}"),
            _ => {}
        }
    }
}

impl AfterKill {
    /// Hears the survivors until each of them has done three rounds without the victim.
    fn hear(&mut self) -> BTreeMap<Process, Told> {
        let Self {
            swarm,
            told,
            survivors,
            ..
        } = self;
        swarm
            .until("three rounds of the survivors", |process, event| {
                told.get_mut(&process)?.hear(event);
                let alone = |commit: &&Commit| commit.rounds.keys().eq(survivors.iter());
                let done = |told: &Told| told.commits.iter().filter(alone).count() >= 3;
                told.values().all(done).then_some(())
            })
            .unwrap();
        told.clone()
    }
}

/// The victim was lost, and perhaps the survivors' lanes with it, whichever the master heard first.
fn is_about_a_loss(why: &Failure) -> bool {
    matches!(why, Failure::PeerLost(_) | Failure::LaneLost(_))
}

#[test]
fn a_peer_killed_while_it_votes_for_a_reduce_costs_the_others_nothing_but_its_contribution() {
    let mut run = kill_one_of_three(Moment::ReduceVoted);

    let told = run.hear();

    let victim = run.victim.peer;
    for told in told.values() {
        let last = told.commits.last().unwrap();
        assert!(!last.rounds.contains_key(&victim));
        assert!(
            told.failures.iter().all(is_about_a_loss),
            "{:?}",
            told.failures
        );
        assert!(told.failures.len() <= 1, "{:?}", told.failures);
    }
    assert_conforms(&mut run.swarm);
}

#[test]
fn a_peer_killed_in_the_ring_aborts_the_reduce_for_everybody_once() {
    let mut run = kill_one_of_three(Moment::FrameSent);

    let told = run.hear();

    for told in told.values() {
        assert_eq!(told.failures.len(), 1, "{:?}", told.failures);
        assert!(
            told.failures.iter().all(is_about_a_loss),
            "{:?}",
            told.failures
        );
        let doomed = |commit: &&Commit| commit.rounds.get(&run.victim.peer) == Some(&run.round);
        assert_eq!(
            told.commits.iter().filter(doomed).count(),
            0,
            "it was lost and committed"
        );
    }
    assert_conforms(&mut run.swarm);
}

#[test]
fn a_result_that_was_there_is_taken_back_where_a_peer_dies_before_it_has_voted() {
    let mut run = kill_one_of_three(Moment::PlanDone);

    // A buffer that was not restored would spoil the sum of the next attempt.
    let told = run.hear();

    for told in told.values() {
        assert_eq!(told.failures.len(), 1, "{:?}", told.failures);
    }
    assert_conforms(&mut run.swarm);
}

/// Whatever was under way when the peer was killed, the survivors begin anew together, or with what all of them have.
#[test]
fn peers_that_scatter_gather_and_broadcast_go_on_right_wherever_one_of_them_is_killed() {
    let moments = [
        Moment::ReduceVoted,
        Moment::FrameSent,
        Moment::PlanDone,
        Moment::CompletionVoted,
    ];
    for moment in moments.into_iter().cycle().take(12) {
        let mut run = kill_one_of_three_that(moment, true);

        let told = run.hear();

        let victim = run.victim.peer;
        for told in told.values() {
            let is_expected = |why: &Failure| {
                let is_change = [Failure::WorldChanged, Failure::NoSuchRoot(victim)];
                is_about_a_loss(why) || is_change.contains(why)
            };
            let why = &told.failures;
            assert!(why.iter().all(is_expected), "{moment:?}: {why:?}");
            assert!(why.len() <= 2, "{moment:?}: {why:?}");
        }
        assert_conforms(&mut run.swarm);
    }
}

#[test]
fn survivors_agree_on_why_a_reduce_was_aborted() {
    let mut run = kill_one_of_three(Moment::FrameSent);

    let told = run.hear();

    let causes: BTreeSet<String> = told
        .values()
        .map(|told| format!("{:?}", told.failures))
        .collect();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_conforms(&mut run.swarm);
}

#[test]
fn a_reduce_is_committed_with_the_contribution_of_a_peer_that_dies_after_its_last_vote() {
    let mut run = kill_one_of_three(Moment::CompletionVoted);

    let told = run.hear();

    for told in told.values() {
        let with_victim =
            |commit: &&Commit| commit.rounds.get(&run.victim.peer) == Some(&run.round);
        let last_words = told.commits.iter().filter(with_victim).count();
        assert_eq!(
            last_words, 1,
            "the victim's last vote was cast in its round {}",
            run.round
        );
        assert_eq!(told.failures, vec![], "nothing was aborted");
    }
    assert_conforms(&mut run.swarm);
}

#[test]
fn a_vote_stands_when_its_caster_dies_before_the_others_have_voted() {
    let mut swarm = swarm();
    let master = master(&swarm);
    let options = PeerOptions {
        elements: ELEMENTS,
        ..PeerOptions::of(&master)
    };
    let members = swarm.join_all(&options, 3).unwrap();
    let (late, victim) = (members[1].process, members[2]);
    // While this one stands still in the ring nobody has a result, so the victim has not voted.
    swarm.stand_still_at(late, Moment::FrameSent).unwrap();
    swarm.until_still(late).unwrap();
    swarm
        .stand_still_at(victim.process, Moment::CompletionVoted)
        .unwrap();
    swarm.until_armed(victim.process).unwrap();
    // Without the vote of this one nothing is decided, so the victim dies before the decision.
    swarm.stand_still_at(late, Moment::PlanDone).unwrap();
    swarm.order(late, Order::GoOn).unwrap();
    swarm.until_still(late).unwrap();
    let round = swarm.until_still(victim.process).unwrap();
    swarm.kill(victim.process).unwrap();

    swarm.order(late, Order::GoOn).unwrap();

    let mut committed = BTreeSet::new();
    swarm
        .until(
            "the commit of the victim's last reduce",
            |process, event| {
                match event {
                    Event::Committed(commit) if commit.rounds.get(&victim.peer) == Some(&round) => {
                        committed.insert(process);
                    }
                    Event::Failed { error, .. } => panic!("{process:?}: {error}"),
                    _ => {}
                }
                (committed.len() == 2).then_some(())
            },
        )
        .unwrap();
    swarm.until_all_commit(&members[..2]).unwrap();
    assert_conforms(&mut swarm);
}

#[test]
fn a_peer_killed_while_it_votes_on_the_topology_costs_the_others_nothing() {
    let mut run = kill_one_of_three(Moment::TopologyVoted);

    let told = run.hear();

    for told in told.values() {
        assert_eq!(told.failures, vec![]);
    }
    assert_conforms(&mut run.swarm);
}

/// Lets peers that share a state take in a newcomer that has to fetch it. One of `holders` or, with
/// none of them, the newcomer is killed when it knows its part. Then all survivors have one state.
fn kill_during_a_transfer(kill_the_newcomer: bool) {
    let mut swarm = swarm();
    let master = master(&swarm);
    let options = PeerOptions {
        sync: true,
        ..PeerOptions::of(&master)
    };
    let mut members = swarm.join_all(&options, 3).unwrap();
    let fatal = Some(Moment::SyncPlanned).filter(|_| kill_the_newcomer);
    if !kill_the_newcomer {
        swarm
            .stand_still_at(members[1].process, Moment::SyncPlanned)
            .unwrap();
    }
    let newcomer = PeerOptions {
        stand_still_at: fatal,
        ..options
    };
    let newcomer = swarm.join(&newcomer).unwrap();
    let victim = if kill_the_newcomer {
        newcomer
    } else {
        members.remove(1)
    };
    if !kill_the_newcomer {
        members.push(newcomer);
    }
    swarm.until_still(victim.process).unwrap();

    swarm.kill(victim.process).unwrap();

    let mut states: BTreeMap<u64, u64> = BTreeMap::new();
    let mut synced: BTreeMap<Process, u32> = BTreeMap::new();
    swarm
        .until("ten synchronizations of each survivor", |process, event| {
            if let Event::Synced(sync) = event {
                let known = states.entry(sync.revision).or_insert(sync.checksum);
                assert_eq!(
                    *known, sync.checksum,
                    "two states of revision {}",
                    sync.revision
                );
                *synced.entry(process).or_default() += 1;
            }
            let all = members
                .iter()
                .all(|m| synced.get(&m.process).is_some_and(|n| *n >= 10));
            all.then_some(())
        })
        .unwrap();
    swarm.until_all_commit(&members).unwrap();
    assert_conforms(&mut swarm);
}

#[test]
fn a_peer_killed_before_it_serves_shared_state_leaves_the_others_with_one_state() {
    kill_during_a_transfer(false);
}

#[test]
fn a_newcomer_killed_before_it_fetches_shared_state_leaves_the_others_with_one_state() {
    kill_during_a_transfer(true);
}

#[test]
fn a_stopped_process_is_found_by_its_silence_and_reads_why_when_it_wakes() {
    let silence = Duration::from_secs(2);
    let config = MasterConfig {
        silence,
        heartbeat: silence / 10,
        ..MasterConfig::default()
    };
    let mut swarm = swarm();
    let master = swarm
        .master_builder()
        .config(config)
        .spawn("127.0.0.1:0")
        .unwrap();
    let options = PeerOptions {
        tell_every: 50,
        ..PeerOptions::of(&master)
    };
    let mut survivors = swarm.join_all(&options, 3).unwrap();
    let sleeper = survivors.pop().unwrap();

    swarm.signal(sleeper.process, "STOP").unwrap();

    swarm.until_all_commit(&survivors).unwrap();
    swarm.signal(sleeper.process, "CONT").unwrap();
    let why = swarm.until("the end of the sleeper", |process, event| match event {
        Event::GaveUp { why, .. } if process == sleeper.process => Some(*why),
        _ => None,
    });
    let why = why.unwrap();
    assert!(
        matches!(why, Failure::Kicked | Failure::MasterLost),
        "{why:?}"
    );
    assert_conforms(&mut swarm);
}

/// Two peers in the middle of a reduce that cannot end: a third has its result and does not vote.
fn two_beside_one_that_has_not_voted(
    swarm: &mut Swarm,
    master: impl Into<MasterAt>,
) -> Vec<Member> {
    let options = PeerOptions {
        elements: ELEMENTS,
        ..PeerOptions::of(master)
    };
    let mut members = swarm.join_all(&options, 3).unwrap();
    let still = members.pop().unwrap();
    swarm
        .stand_still_at(still.process, Moment::PlanDone)
        .unwrap();
    swarm.until_still(still.process).unwrap();
    members
}

/// How each of these ends.
fn ends(swarm: &mut Swarm, members: &[Member]) -> BTreeMap<Process, (Failure, Option<bool>)> {
    let mut ends = BTreeMap::new();
    swarm
        .until("the end of all peers", |process, event| {
            if let Event::GaveUp { why, restored, .. } = event {
                ends.insert(process, (*why, *restored));
            }
            let all = members
                .iter()
                .all(|member| ends.contains_key(&member.process));
            all.then_some(())
        })
        .unwrap();
    ends
}

#[test]
fn a_master_that_dies_in_mid_reduce_is_reported_and_leaves_the_buffers_as_they_were() {
    let mut swarm = swarm();
    let (master, address) = swarm.start_master(&MasterOptions::default()).unwrap();
    let members = two_beside_one_that_has_not_voted(&mut swarm, address);

    swarm.kill(master).unwrap();

    for (why, restored) in ends(&mut swarm, &members).values() {
        assert_eq!((*why, *restored), (Failure::MasterLost, Some(true)));
    }
    assert_conforms(&mut swarm);
}

#[test]
fn a_master_that_is_stopped_in_mid_reduce_tells_the_peers_and_leaves_the_buffers_as_they_were() {
    let mut swarm = swarm();
    let master = master(&swarm);
    let members = two_beside_one_that_has_not_voted(&mut swarm, &master);

    master.stop();

    for (why, restored) in ends(&mut swarm, &members).values() {
        assert_eq!((*why, *restored), (Failure::MasterStopped, Some(true)));
    }
    assert_conforms(&mut swarm);
}

#[test]
fn a_newcomer_that_nobody_can_reach_opens_its_lanes_itself_and_reduces_with_the_others() {
    let mut swarm = swarm();
    let master = master(&swarm);
    let options = PeerOptions {
        tell_every: 50,
        ..PeerOptions::of(&master)
    };
    let mut members = swarm.join_all(&options, 2).unwrap();
    // It listens on 127.0.0.1 only.
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    let options = PeerOptions {
        advertise: Some(elsewhere.into()),
        ..options
    };

    members.push(swarm.join(&options).unwrap());

    swarm.until_all_commit(&members).unwrap();
    swarm.until_all_commit(&members).unwrap();
    assert_conforms(&mut swarm);
}
