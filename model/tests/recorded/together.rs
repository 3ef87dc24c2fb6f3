//! Logs that are sound one by one and do not go together.

use pccl_core::master::{MasterInput, MasterTimer};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{Call, PeerInput, PeerTimer};
use pccl_model::claim::Claim;
use pccl_model::recorded::Rule;

use crate::doctor::{change_master, change_peer};
use crate::run::{Files, Rings, Run};
use crate::{assert_breaks, full_run, judged};

#[test]
fn a_peer_hears_nothing_that_its_master_did_not_say() {
    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        let at = inputs.len() - 1;
        inputs.insert(at, PeerInput::Message(ToPeer::Heartbeat));
    });

    assert_breaks(&files, Rule::Downward, "peer-0");
}

#[test]
fn a_master_hears_nothing_that_no_peer_said() {
    let mut files = full_run();
    change_master(&mut files, |inputs| {
        let from_first = inputs.iter().position(|input| {
            matches!(
                input,
                MasterInput::Message {
                    message: ToMaster::LinkUp { .. },
                    ..
                }
            )
        });
        let Some(MasterInput::Message { peer, .. }) = from_first.map(|at| inputs[at].clone())
        else {
            panic!("nobody says that an edge is up")
        };
        let message = ToMaster::Heartbeat { moved: false };
        inputs.insert(from_first.unwrap(), MasterInput::Message { peer, message });
    });

    assert_breaks(&files, Rule::Upward, "master");
}

/// Each shows the other that it lives, and both logs say that the other one did so first.
#[test]
fn no_two_logs_say_that_the_other_one_spoke_first() {
    let mut run = Run::of(1);
    run.beats(0);
    run.master_beats();
    let mut files = run.ends();
    change_peer(&mut files, "peer-0", |inputs| {
        let is_beat = |input: &PeerInput| *input == PeerInput::TimerFired(PeerTimer::HeartbeatDue);
        let at = inputs.iter().position(is_beat).unwrap();
        let beat = inputs.remove(at);
        let is_heard = |input: &PeerInput| *input == PeerInput::Message(ToPeer::Heartbeat);
        let heard = inputs.iter().position(is_heard).unwrap();
        inputs.insert(heard + 1, beat);
    });

    assert_breaks(&files, Rule::Order, "peer-0");
}

#[test]
fn a_lane_that_is_lost_and_not_named_breaks_a_claim_of_the_model() {
    let mut run = Run::of(2);
    run.rings = Rings::LostForNothing;
    run.reduces();

    assert_breaks(&run.ends(), Rule::Holds(Claim::Named), "peer-0");
}

#[test]
fn two_runs_in_one_directory_are_told_apart() {
    let mut files = Files::new();
    for key in [1, 2] {
        let mut run = Run::new(key);
        (0..3).for_each(|_| run.joins());
        run.reduces();
        let named = run.ends().into_iter();
        files.extend(named.map(|(name, log)| (format!("{name}-of-{key}"), log)));
    }

    let judgement = judged(&files);

    assert!(judgement.is_sound() && judgement.is_whole(), "{judgement}");
    let peers: Vec<usize> = judgement.runs.iter().map(|run| run.peers).collect();
    assert_eq!(peers, [3, 3]);
}

#[test]
fn a_log_that_is_there_twice_is_the_log_of_one_peer() {
    let mut files = full_run();
    let copy = files["peer-0"].clone();
    files.insert("peer-copy".to_owned(), copy);

    assert_breaks(&files, Rule::Master, "peer-copy");
}

#[test]
fn a_peer_that_left_before_its_welcome_is_found() {
    let mut run = Run::of(2);
    let hasty = run.starts();
    run.only_calls(hasty, Call::Connect);
    run.only_leaves(hasty);
    run.only_up(hasty);
    run.reduces();

    let judgement = judged(&run.ends());

    assert!(judgement.is_sound() && judgement.is_whole(), "{judgement}");
    assert_eq!(judgement.runs[0].peers, 3, "{judgement}");
}

#[test]
fn what_was_said_last_need_not_have_been_heard() {
    let mut run = Run::of(1);
    run.reduces();
    let mut files = run.ends();
    // A sign of life crosses the farewell of the only peer.
    change_master(&mut files, |inputs| {
        let is_farewell = |input: &MasterInput| {
            matches!(
                input,
                MasterInput::Message {
                    message: ToMaster::Leave,
                    ..
                }
            )
        };
        let farewell = inputs.iter().position(is_farewell).unwrap();
        let beat = MasterInput::TimerFired(MasterTimer::HeartbeatDue);
        inputs.insert(farewell, beat);
    });

    let judgement = judged(&files);
    assert!(judgement.is_sound() && judgement.is_whole(), "{judgement}");
}
