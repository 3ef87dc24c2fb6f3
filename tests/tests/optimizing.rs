//! Real processes, killed in each stage of `optimize_topology`: the others go on, optimize, and reduce right. Every
//! result is checked by the peers themselves, and at the end the machines of all processes have to say again what
//! they said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pccl_master::RunningMaster;
use pccl_tests::processes::{Member, Process, Swarm};
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Event, Moment, Order};

/// Four peers have twelve edges. Two of them are measured at a time.
const ROTATIONS: u32 = 6;

/// What else tells that probes are over: all edges of the ring that was found, at the same time.
const WITH_LOAD: u32 = ROTATIONS + 1;

struct Run {
    /// Dropped, and with them the master, only when the test is over.
    swarm: Swarm,
    _master: RunningMaster,
    members: Vec<Member>,
}

impl Run {
    /// Four peers that reduce together. The edge of their ring from the last one to the first is slow.
    fn new() -> Self {
        let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
        let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
        let options = PeerOptions::of(&master);
        // Newcomers come to the end of the ring.
        let mut members = swarm.join_all(&options, 3).unwrap();
        let options = PeerOptions {
            slow_towards: Some(members[0].lanes_at),
            ..options
        };
        members.push(swarm.join(&options).unwrap());
        swarm.until_all_commit(&members).unwrap();
        Self {
            swarm,
            _master: master,
            members,
        }
    }

    fn optimize_from_now_on(&mut self) {
        for member in &self.members {
            self.swarm.order(member.process, Order::Optimize).unwrap();
        }
    }

    /// Lets this one of them come to the moment so many times, and kills it there.
    fn kill(&mut self, victim: usize, moment: Moment, times: u32) {
        let victim = self.members.remove(victim).process;
        self.swarm.stand_still_at(victim, moment).unwrap();
        self.swarm.until_armed(victim).unwrap();
        self.optimize_from_now_on();
        self.swarm.order(victim, Order::Optimize).unwrap();
        for _ in 1..times {
            self.swarm.until_still(victim).unwrap();
            self.swarm.stand_still_at(victim, moment).unwrap();
            self.swarm.until_armed(victim).unwrap();
            self.swarm.order(victim, Order::GoOn).unwrap();
        }
        self.swarm.until_still(victim).unwrap();
        self.swarm.kill(victim).unwrap();
    }

    /// Optimizes, and kills whoever is the first to be given links of the better ring. Who is depends on what was
    /// measured: peers with all links of their places in that ring are given none.
    fn kill_the_first_with_links_to_connect(&mut self) {
        for member in &self.members {
            let process = member.process;
            let swarm = &mut self.swarm;
            swarm.stand_still_at(process, Moment::LinksOrdered).unwrap();
            swarm.until_armed(process).unwrap();
        }
        self.optimize_from_now_on();
        let what = "links to connect";
        let victim = self.swarm.until(what, |process, event| {
            matches!(event, Event::StandsStill { .. }).then_some(process)
        });
        let victim = victim.unwrap();
        self.swarm.kill(victim).unwrap();
        self.members.retain(|member| member.process != victim);
        for member in &self.members {
            let order = Order::StandStillNowhere;
            self.swarm.order(member.process, order).unwrap();
        }
    }

    /// Hears the members until each of them has optimized, and then reduced, without anybody else.
    fn goes_on(&mut self) {
        let peers: BTreeSet<u64> = self.members.iter().map(|member| member.peer).collect();
        let mut optimized = BTreeSet::new();
        let mut commits: BTreeMap<Process, u32> = BTreeMap::new();
        let enough = |commits: &BTreeMap<Process, u32>| {
            let count = |member: &Member| commits.get(&member.process).copied().unwrap_or(0);
            self.members.iter().all(|member| count(member) >= 3)
        };
        let what = "three rounds of the survivors, each optimized";
        let heard = self.swarm.until(what, |process, event| {
            match event {
                Event::Optimized { ring }
                    if ring.iter().copied().collect::<BTreeSet<_>>() == peers =>
                {
                    optimized.insert(process);
                }
                Event::Committed(commit) if optimized.contains(&process) => {
                    assert!(commit.rounds.keys().eq(peers.iter()), "{commit:?}");
                    *commits.entry(process).or_default() += 1;
                }
                Event::GaveUp { error, .. } => panic!("{process:?} gave up: {error}"),
                _ => {}
            }
            enough(&commits).then_some(())
        });
        heard.unwrap();
        println!("{}", self.swarm.conform().unwrap());
    }
}

#[test]
fn the_ring_that_is_adopted_goes_around_the_slow_edge() {
    let mut run = Run::new();
    let (first, last) = (run.members[0].peer, run.members[3].peer);
    run.optimize_from_now_on();

    let ring = run.swarm.until("a ring", |_, event| match event {
        Event::Optimized { ring } => Some(ring.clone()),
        _ => None,
    });

    let ring = ring.unwrap();
    let edges = ring.iter().zip(ring.iter().cycle().skip(1));
    let is_slow = |(from, to): (&u64, &u64)| (*from, *to) == (last, first);
    assert!(
        !edges.into_iter().any(is_slow),
        "{last} → {first} in {ring:?}"
    );
    run.goes_on();
}

#[test]
fn a_peer_killed_while_it_votes_to_optimize_costs_the_others_nothing() {
    let mut run = Run::new();
    run.kill(1, Moment::OptimizeVoted, 1);
    run.goes_on();
}

#[test]
fn a_peer_killed_before_it_measures_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill(1, Moment::ProbesOrdered, 1);
    run.goes_on();
}

#[test]
fn a_peer_killed_between_two_rotations_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill(2, Moment::ProbesDone, 2);
    run.goes_on();
}

/// It is not awaited any more by any rotation: the solver is asked at once, for a ring with it.
#[test]
fn a_peer_killed_while_the_ring_is_solved_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill(1, Moment::ProbesDone, ROTATIONS);
    run.goes_on();
}

#[test]
fn a_peer_killed_before_the_ring_is_probed_under_load_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill(1, Moment::ProbesOrdered, WITH_LOAD);
    run.goes_on();
}

#[test]
fn a_peer_killed_after_the_ring_was_probed_under_load_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill(1, Moment::ProbesDone, WITH_LOAD);
    run.goes_on();
}

#[test]
fn a_peer_killed_while_the_better_ring_is_connected_does_not_hold_the_others_up() {
    let mut run = Run::new();
    run.kill_the_first_with_links_to_connect();
    run.goes_on();
}
