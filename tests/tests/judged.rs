//! The logs of a real run with a kill and a newcomer go together; what is doctored is called what it is.

use std::path::Path;

use pccl_core::id::Round;
use pccl_core::peer::PeerInput;
use pccl_model::recorded::{Judgement, Rule, judge};
use pccl_tests::processes::Swarm;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Event, Moment};

use run::Files;

#[allow(dead_code)]
#[path = "../../model/tests/recorded/doctor.rs"]
mod doctor;
#[allow(dead_code)]
#[path = "../../model/tests/recorded/run.rs"]
mod run;

/// Three peers reduce, one is killed in the middle of a ring, another one comes, and the master is
/// stopped.
fn recorded_run() -> Files {
    let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
    let master = swarm.master_builder().spawn("127.0.0.1:0").unwrap();
    let options = PeerOptions {
        elements: 300_000,
        ..PeerOptions::of(&master)
    };
    let mut peers = swarm.join_all(&options, 3).unwrap();
    let victim = peers.pop().unwrap();
    swarm
        .stand_still_at(victim.process, Moment::FrameSent)
        .unwrap();
    swarm.until_still(victim.process).unwrap();
    swarm.kill(victim.process).unwrap();
    swarm.until_all_commit(&peers).unwrap();
    peers.push(swarm.join(&options).unwrap());
    swarm.until_all_commit(&peers).unwrap();
    master.stop();
    let mut left = peers.len();
    swarm
        .until("the end of all", |_, event| {
            left -= usize::from(matches!(event, Event::GaveUp { .. }));
            (left == 0).then_some(())
        })
        .unwrap();
    let directory = swarm.recordings().unwrap().directory();
    let logs = pccl_recording::logs(directory).unwrap();
    println!("{}", swarm.conform().unwrap());
    logs.into_iter().collect()
}

fn judged(files: &Files) -> Judgement {
    let files: Vec<(String, Vec<u8>)> = files.clone().into_iter().collect();
    judge(&files)
}

#[track_caller]
fn assert_breaks(files: &Files, rule: Rule, log: &str) {
    let judgement = judged(files);
    let is_meant = |found: &&pccl_model::recorded::Finding| found.rule == rule && found.log == log;
    assert!(
        judgement.findings.iter().any(|found| is_meant(&found)),
        "{judgement}"
    );
}

#[test]
fn the_logs_of_a_run_with_a_kill_and_a_newcomer_go_together_and_doctored_ones_do_not() {
    let files = recorded_run();
    let judgement = judged(&files);
    assert!(judgement.is_sound() && judgement.is_whole(), "{judgement}");
    let ends = judgement.runs[0].ends;
    assert!(ends.committed > 0 && ends.aborted > 0, "{judgement}");
    assert_eq!(judgement.runs[0].peers, 4, "{judgement}");
    let killed = judgement
        .notes
        .iter()
        .find(|note| note.contains("was killed"));
    assert!(killed.is_some(), "{judgement}");

    let is_of_peer = |name: &&String| name.starts_with("peer-");
    let survivor = |name: &&String| is_of_peer(name) && !killed.unwrap().starts_with(name.as_str());
    let name = files.keys().find(survivor).unwrap().clone();

    let mut cut = files.clone();
    // What its user still called after the end goes first.
    doctor::cut(&mut cut, &name, 6, 3);
    assert_breaks(&cut, Rule::Whole, &name);

    let master = files
        .keys()
        .find(|name| name.starts_with("master"))
        .unwrap();
    let mut missing = files.clone();
    missing.remove(&name);
    assert_breaks(&missing, Rule::Everybody, master);

    let mut never = files.clone();
    doctor::change_peer(&mut never, &name, |inputs| {
        // A link that it has had, of a round that never was.
        let link = inputs.iter().find_map(|input| {
            let PeerInput::LinkUp { link, .. } = input else {
                return None;
            };
            Some(*link)
        });
        let (link, built) = (link.unwrap(), Round(1_000_000));
        let middle = inputs.len() / 2;
        inputs.insert(middle, PeerInput::LinkBroke { link, built });
    });
    assert_breaks(&never, Rule::Lanes, &name);
}
