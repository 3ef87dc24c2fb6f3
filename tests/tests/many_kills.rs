//! Several reduces at once, some of them quantized, by processes that are killed one after the other:
//! the library repeats what is aborted, and every result is right.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pccl_tests::processes::{Member, Swarm};
use pccl_tests::scripted::PeerOptions;
use pccl_tests::several::Part;
use pccl_tests::talk::{Event, Moment};

/// Where peers are killed, one at each.
const MOMENTS: [Moment; 4] = [
    Moment::FrameSent,
    Moment::PlanDone,
    Moment::ReduceVoted,
    Moment::CompletionVoted,
];

/// Rounds of each survivor between two kills.
const ROUNDS: usize = 3;

/// What all peers have told, by place in the list.
#[derive(Default)]
struct Results {
    /// By contributors in ring order: their bits.
    seen: BTreeMap<(usize, Vec<u64>), BTreeSet<u64>>,
    retries: u32,
}

impl Results {
    fn add(&mut self, parts: &[Part]) {
        for (item, part) in parts.iter().enumerate() {
            let of = (item, part.contributors.clone());
            self.seen.entry(of).or_default().insert(part.checksum);
            self.retries += part.retries;
        }
    }
}

/// Hears the members until each of them has done some rounds with exactly the others.
fn hear(swarm: &mut Swarm, members: &[Member], results: &mut Results) {
    let peers: BTreeSet<u64> = members.iter().map(|member| member.peer).collect();
    let mut rounds: BTreeMap<_, usize> = members.iter().map(|m| (m.process, 0)).collect();
    swarm
        .until("rounds of all survivors", |process, event| {
            match event {
                Event::CommittedSeveral { parts, .. } => {
                    results.add(parts);
                    let together = |part: &Part| {
                        let contributors: BTreeSet<u64> =
                            part.contributors.iter().copied().collect();
                        contributors == peers
                    };
                    if parts.iter().all(together) {
                        *rounds.get_mut(&process)? += 1;
                    }
                }
                Event::GaveUp { error, .. } => panic!("{process:?} gave up: {error}"),
                _ => {}
            }
            rounds.values().all(|done| *done >= ROUNDS).then_some(())
        })
        .unwrap();
}

#[test]
fn several_reduces_at_once_stay_right_while_peers_are_killed_at_every_moment() {
    let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
    let options = PeerOptions {
        several: true,
        elements: 40_000,
        ..PeerOptions::of(&master)
    };
    let mut survivors = Vec::new();
    for _ in 0..MOMENTS.len() + 2 {
        survivors.push(swarm.join(&options).unwrap());
    }
    let mut results = Results::default();

    hear(&mut swarm, &survivors, &mut results);
    for moment in MOMENTS {
        let victim = survivors.pop().unwrap();
        swarm.stand_still_at(victim.process, moment).unwrap();
        swarm.until_still(victim.process).unwrap();
        swarm.kill(victim.process).unwrap();
        hear(&mut swarm, &survivors, &mut results);
    }

    // What was quantized depends on the contributors alone.
    for ((item, contributors), checksums) in &results.seen {
        if *item >= 3 {
            let one = checksums.len() == 1;
            assert!(one, "item {item} of {contributors:?}: {checksums:?}");
        }
    }
    assert!(results.retries > 0, "nothing was aborted");
    println!("{}", swarm.conform().unwrap());
}
