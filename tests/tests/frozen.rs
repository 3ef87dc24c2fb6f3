//! A process that is frozen in mid-reduce, as those are whose machine hangs or is unplugged: all others name it while
//! they wait, and go on without it in seconds. When it wakes it learns that it was dropped, and joins again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use pccl_master::RunningMaster;
use pccl_tests::processes::{Member, Process, Swarm};
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Commit, Event, Failure, Moment, Nanos, Order, now};

/// 16 MiB, which go around the ring in many frames.
const ELEMENTS: usize = 4 << 20;

/// From the moment at which a peer is frozen to the commit of the reduce without it: 2.1 s on a machine that has time
/// for its processes. Where they are starved they are heard irregularly, and their limit grows, up to 8 s of silence.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Shorter than the limit of silence.
const HICCUP: Duration = Duration::from_secs(1);

/// Four peers that reduce, with names, and their master with its default limits.
struct Run {
    swarm: Swarm,
    _master: RunningMaster,
    members: Vec<Member>,
}

impl Run {
    fn start() -> Self {
        let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
        let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
        let options = PeerOptions {
            elements: ELEMENTS,
            rejoin: true,
            tell_warnings: true,
            ..PeerOptions::of(&master)
        };
        let join = |name: char| {
            let name = format!("node-{name}");
            let options = options.clone();
            swarm.join(&PeerOptions { name, ..options }).unwrap()
        };
        let members: Vec<Member> = ('a'..='d').map(join).collect();
        swarm.until_all_commit(&members).unwrap();
        Self {
            swarm,
            _master: master,
            members,
        }
    }

    /// Stops a peer while it sends a frame of a reduce, and freezes its process there. Returns when.
    fn freeze_in_mid_reduce(&mut self, who: Process) -> Nanos {
        self.swarm.stand_still_at(who, Moment::FrameSent).unwrap();
        self.swarm.until_still(who).unwrap();
        let at = now();
        self.swarm.signal(who, "STOP").unwrap();
        at
    }

    fn thaw(&mut self, who: Process) {
        self.swarm.order(who, Order::GoOn).unwrap();
        self.swarm.signal(who, "CONT").unwrap();
    }
}

/// What a survivor told until it had committed without the one that was frozen.
#[derive(Debug, Default)]
struct Told {
    /// The warnings before its reduce failed.
    warnings: Vec<String>,
    error: Option<String>,
    committed: Option<Nanos>,
}

impl Told {
    fn note(&mut self, event: &Event, survivors: &BTreeSet<u64>) {
        match event {
            Event::Warned { line } if self.error.is_none() => self.warnings.push(line.clone()),
            Event::Failed { error, .. } => self.error = Some(error.clone()),
            Event::Committed(Commit { rounds, at, .. }) if rounds.keys().eq(survivors) => {
                self.committed.get_or_insert(*at);
            }
            _ => {}
        }
    }
}

#[test]
fn a_peer_frozen_in_mid_reduce_is_named_by_all_others_which_go_on_and_comes_back_when_it_wakes() {
    let mut run = Run::start();
    let mut others = run.members.clone();
    let frozen = others.remove(2);
    let survivors: BTreeSet<u64> = others.iter().map(|member| member.peer).collect();
    let mut told: BTreeMap<Process, Told> = BTreeMap::new();
    told.extend(
        others
            .iter()
            .map(|member| (member.process, Told::default())),
    );

    let at = run.freeze_in_mid_reduce(frozen.process);

    let everybody_goes_on = |process: Process, event: &Event| {
        told.get_mut(&process)?.note(event, &survivors);
        told.values()
            .all(|told| told.committed.is_some())
            .then_some(())
    };
    run.swarm
        .until("a reduce without the frozen peer", everybody_goes_on)
        .unwrap();
    let named = format!(
        "the master has heard nothing from peer {} (node-c) for ",
        frozen.peer
    );
    for (process, told) in &told {
        let took = Duration::from_nanos(told.committed.unwrap() - at);
        println!("{process:?} committed {took:?} after the freeze; {told:#?}");
        assert!(
            told.warnings.iter().any(|line| line.contains(&named)),
            "{told:#?}"
        );
        let waits = |line: &String| line.starts_with("all-reduce with tag 0: waiting ");
        assert!(told.warnings.iter().any(waits), "{told:#?}");
        assert!(took < GONE_WITHIN, "{took:?}");
    }

    run.thaw(frozen.process);

    let mut dropped = None;
    let back = run
        .swarm
        .until("the return of the frozen peer", |process, event| {
            if process != frozen.process {
                return None;
            }
            if let Event::Dropped { why, error } = event {
                println!("it reads: {error}");
                dropped = Some(*why);
            }
            Member::of(process, event)
        });
    assert_eq!(dropped, Some(Failure::Kicked));
    others.push(back.unwrap());
    run.swarm.until_all_commit(&others).unwrap();
    println!("{}", run.swarm.conform().unwrap());
}

#[test]
fn a_peer_that_stands_still_for_a_second_is_not_lost() {
    let mut run = Run::start();
    let still = run.members[2].process;
    run.freeze_in_mid_reduce(still);
    // The hiccup itself.
    std::thread::sleep(HICCUP);

    run.thaw(still);

    let members = run.members.clone();
    let dropped = |event: &Event| matches!(event, Event::Dropped { .. } | Event::Failed { .. });
    let mut commits = BTreeSet::new();
    run.swarm
        .until("a reduce of everybody", |process, event| {
            assert!(!dropped(event), "{event:?}");
            if let Event::Committed(commit) = event {
                assert_eq!(commit.rounds.len(), members.len());
                commits.insert(process);
            }
            (commits.len() == members.len()).then_some(())
        })
        .unwrap();
    println!("{}", run.swarm.conform().unwrap());
}
