//! Inputs that no sound environment gives.

use pccl_core::id::{ConnId, PeerId, Round, Seq};
use pccl_core::master::{MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Misdeed, PlanOutcome, ToMaster, ToPeer};
use pccl_core::paths::Measurement;
use pccl_core::peer::{PeerInput, PeerOutput, PeerTimer};
use pccl_core::topology::{LaneFailure, LinkId, Ring};
use pccl_model::recorded::Rule;

use crate::doctor::{self, change_master, change_peer};
use crate::run::Files;
use crate::{assert_breaks, full_run};

/// A round that nobody ever had.
const NEVER: Round = Round(999);

/// One that there may be.
const LINK: LinkId = LinkId::to(PeerId(1));

/// The full run, where the first peer hears this before it leaves.
fn with(input: PeerInput) -> Files {
    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        let leave = position(inputs, |input| *input == PeerInput::Leave);
        inputs.insert(leave, input);
    });
    files
}

/// The full run, where the master hears this before it is stopped.
fn master_with(input: MasterInput) -> Files {
    let mut files = full_run();
    change_master(&mut files, |inputs| {
        let stop = position(inputs, |input| *input == MasterInput::Stop);
        inputs.insert(stop, input);
    });
    files
}

fn position<I>(inputs: &[I], is_meant: impl Fn(&I) -> bool) -> usize {
    inputs.iter().position(is_meant).unwrap()
}

#[test]
fn a_timer_that_was_never_started_does_not_run_out() {
    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        inputs.insert(0, PeerInput::TimerFired(PeerTimer::MasterSilence));
    });
    assert_breaks(&files, Rule::TimersRun, "peer-0");

    let late = MasterTimer::Late(PeerId(1));
    let files = master_with(MasterInput::TimerFired(late));
    assert_breaks(&files, Rule::TimersRun, "master");
}

#[test]
fn five_seconds_of_silence_are_not_over_before_a_sign_of_life_was_due() {
    let silence = PeerInput::TimerFired(PeerTimer::MasterSilence);
    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        // Signs of life have begun with the welcome.
        let second = position(inputs, |input| {
            matches!(
                input,
                PeerInput::Message(ToPeer::TopologyEstablished { .. })
            )
        });
        inputs.insert(second + 1, silence);
    });
    assert_breaks(&files, Rule::TimersTakeTheirTime, "peer-0");

    let mut files = full_run();
    change_master(&mut files, |inputs| {
        let first = position(inputs, |input| matches!(input, MasterInput::Message { .. }));
        if let MasterInput::Message { peer, .. } = inputs[first] {
            let silence = MasterTimer::Silence(peer);
            inputs.insert(first + 1, MasterInput::TimerFired(silence));
        }
    });
    assert_breaks(&files, Rule::TimersTakeTheirTime, "master");
}

#[test]
fn nothing_is_heard_before_the_hello() {
    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        inputs.insert(0, PeerInput::Message(ToPeer::Heartbeat));
    });

    assert_breaks(&files, Rule::HelloFirst, "peer-0");
}

#[test]
fn no_link_is_up_of_a_round_that_was_never_ordered() {
    let (round, link) = (NEVER, LINK);

    assert_breaks(
        &with(PeerInput::LinkUp { round, link }),
        Rule::Edges,
        "peer-0",
    );
}

#[test]
fn a_link_is_reported_once_and_failed_by_the_end_that_dials_alone() {
    let mut files = full_run();
    change_peer(&mut files, "peer-2", |inputs| {
        let up = position(inputs, |input| matches!(input, PeerInput::LinkUp { .. }));
        inputs.insert(up, inputs[up].clone());
    });
    assert_breaks(&files, Rule::Edges, "peer-2");

    let mut told = 0;
    for name in ["peer-0", "peer-1", "peer-2"] {
        let mut files = full_run();
        let dialled = link_that_is_dialled(&files, name);
        change_peer(&mut files, name, |inputs| {
            for input in inputs.iter_mut() {
                if let PeerInput::LinkUp { round, link } = *input
                    && (round, link) == dialled
                {
                    let failure = LaneFailure::Refused;
                    *input = PeerInput::LinkFailed {
                        round,
                        link,
                        failure,
                    };
                }
            }
        });
        assert_breaks(&files, Rule::Edges, name);
        told += 1;
    }
    assert_eq!(told, 3);
}

/// An ordered link whose other end dials.
fn link_that_is_dialled(files: &Files, name: &str) -> (Round, LinkId) {
    let records = doctor::peer(&files[name]).1.into_iter();
    let outputs = records.flat_map(|record| record.outputs);
    let mut found = outputs.filter_map(|output| match output {
        PeerOutput::Establish { round, links } => {
            let mut dialled = links.iter().filter(|order| order.lanes.dial.is_none());
            let link = dialled.next()?.link();
            Some((round, link))
        }
        _ => None,
    });
    found.next().unwrap()
}

#[test]
fn no_lane_is_lost_of_a_round_that_was_never_adopted() {
    let (link, built) = (LINK, NEVER);

    let files = with(PeerInput::LinkBroke { link, built });

    assert_breaks(&files, Rule::Lanes, "peer-0");
}

#[test]
fn no_lane_is_lost_that_was_ordered_and_is_not_up() {
    let mut files = full_run();
    change_peer(&mut files, "peer-2", |inputs| {
        let up = position(inputs, |input| matches!(input, PeerInput::LinkUp { .. }));
        if let PeerInput::LinkUp { round, link } = inputs[up] {
            let built = round;
            inputs.insert(up, PeerInput::LinkBroke { link, built });
        }
    });

    assert_breaks(&files, Rule::Lanes, "peer-2");
}

#[test]
fn no_execution_ends_that_nobody_ordered_and_none_ends_twice() {
    let (seq, outcome) = (Seq(999), PlanOutcome::Done);
    let files = with(PeerInput::PlanEnded { seq, outcome });
    assert_breaks(&files, Rule::Executions, "peer-0");

    let seq = Seq(1);
    let files = with(PeerInput::PlanEnded { seq, outcome });
    assert_breaks(&files, Rule::Executions, "peer-0");
}

#[test]
fn no_transfer_ends_that_nobody_ordered_and_none_for_somebody_who_was_not_to_be_served() {
    let ended = |round, ok, with| PeerInput::TransfersEnded { round, ok, with };
    assert_breaks(&with(ended(NEVER, true, None)), Rule::Transfers, "peer-0");

    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        let end = position(inputs, |input| {
            matches!(input, PeerInput::TransfersEnded { .. })
        });
        if let PeerInput::TransfersEnded { round, .. } = inputs[end] {
            inputs[end] = ended(round, false, Some(PeerId(99)));
        }
    });
    assert_breaks(&files, Rule::Transfers, "peer-0");
}

#[test]
fn nothing_is_measured_that_nobody_ordered() {
    let measured = |round, to| PeerInput::Measured {
        round,
        to,
        measured: Measurement::default(),
    };
    let files = with(measured(NEVER, PeerId(2)));
    assert_breaks(&files, Rule::Measurements, "peer-0");
    let files = with(PeerInput::ProbesEnded {
        round: NEVER,
        ok: true,
    });
    assert_breaks(&files, Rule::Measurements, "peer-0");

    let mut files = full_run();
    change_peer(&mut files, "peer-0", |inputs| {
        let first = position(inputs, |input| matches!(input, PeerInput::Measured { .. }));
        inputs.insert(first, inputs[first].clone());
    });
    assert_breaks(&files, Rule::Measurements, "peer-0");
}

#[test]
fn bytes_that_have_moved_are_told_right_before_a_sign_of_life() {
    assert_breaks(&with(PeerInput::Moved), Rule::Moved, "peer-0");
}

#[test]
fn who_has_left_hears_no_more_words_and_of_no_more_lanes() {
    let (link, built) = (LINK, Round(1));
    for input in [
        PeerInput::Message(ToPeer::Heartbeat),
        PeerInput::MasterDisconnected,
        PeerInput::LinkBroke { link, built },
    ] {
        let mut files = full_run();
        change_peer(&mut files, "peer-0", |inputs| inputs.push(input));

        assert_breaks(&files, Rule::OverIsOver, "peer-0");
    }
    let mut files = full_run();
    change_master(&mut files, |inputs| inputs.push(MasterInput::Stop));
    assert_breaks(&files, Rule::OverIsOver, "master");
}

#[test]
fn a_connection_does_not_say_hello_twice() {
    let mut files = full_run();
    change_master(&mut files, |inputs| {
        let hello = inputs[0].clone();
        assert!(matches!(
            hello,
            MasterInput::Connected {
                conn: ConnId(0),
                ..
            }
        ));
        let stop = inputs.len() - 1;
        inputs.insert(stop, hello);
    });

    assert_breaks(&files, Rule::Newcomers, "master");
}

#[test]
fn nobody_speaks_who_was_never_registered_or_whose_connection_has_ended() {
    let message = ToMaster::ArePeersPending;
    let peer = PeerId(99);
    let files = master_with(MasterInput::Message {
        peer,
        message: message.clone(),
    });
    assert_breaks(&files, Rule::Speakers, "master");
    let files = master_with(MasterInput::Disconnected { peer });
    assert_breaks(&files, Rule::Speakers, "master");

    let peer = PeerId(2);
    let files = master_with(MasterInput::Message { peer, message });
    assert_breaks(&files, Rule::Speakers, "master");
}

#[test]
fn a_driver_accuses_nobody_of_what_only_the_machine_can_know() {
    let (peer, misdeed) = (PeerId(1), Misdeed::DuplicateVote);

    let files = master_with(MasterInput::Misbehaved { peer, misdeed });

    assert_breaks(&files, Rule::Misdeeds, "master");
}

#[test]
fn the_solver_answers_what_it_was_asked_and_as_it_does_everywhere() {
    let mut files = full_run();
    let asked = doctor::master(&files["master"]).1.into_iter();
    let mut outputs = asked.flat_map(|record| record.outputs);
    assert!(outputs.any(|output| matches!(output, MasterOutput::SolveTour { .. })));
    change_master(&mut files, |inputs| {
        let solved = position(inputs, |input| {
            matches!(input, MasterInput::TourSolved { .. })
        });
        inputs.insert(solved, inputs[solved].clone());
    });
    assert_breaks(&files, Rule::Solver, "master");

    let mut files = full_run();
    change_master(&mut files, |inputs| {
        for input in inputs {
            if let MasterInput::TourSolved {
                found: Some(found), ..
            } = input
            {
                found.ring = Ring(vec![PeerId(1), PeerId(2)]);
            }
        }
    });
    assert_breaks(&files, Rule::Solver, "master");
}
