//! Traces as text, there and back, and gone.

use pccl_model::catalogue::{DEEPENED, deep, standard};
use pccl_model::claim::Claim;
use pccl_model::scenario::{Frames, Scenario};
use pccl_model::step::Step;
use pccl_model::story::Story;
use pccl_model::trace::{Trace, TraceError};

const REDUCE: &str = "reduce-2: call 1; up 1; crash 2; up-ends 2";

#[test]
fn a_trace_is_read_back_from_what_it_is_written_as() {
    let mut trace: Trace = REDUCE.parse().unwrap();
    trace.peers = Some(3);
    trace.faults = Some(1);
    trace.mutant = Some("commit-before-last-vote".to_owned());
    trace.breaks = Some(Claim::Agreement);

    assert_eq!(trace.to_string().parse(), Ok(trace));
}

#[test]
fn the_line_of_a_trace_is_read_back_without_its_claim() {
    let trace: Trace = "reduce-2 peers=3 faults=1: call 1; up 1".parse().unwrap();

    assert_eq!(trace.line(), "reduce-2 peers=3 faults=1: call 1; up 1");
    assert_eq!((trace.peers, trace.faults), (Some(3), Some(1)));
    assert_eq!(trace.steps.len(), 2);
}

#[test]
fn comments_and_empty_lines_are_left_out() {
    let trace: Trace = "# why\nscenario: reduce-2\n\ncall 1 # who\nup 1\n"
        .parse()
        .unwrap();

    assert_eq!(trace.line(), "reduce-2: call 1; up 1");
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    let read = |text: &str| text.parse::<Trace>();

    assert_eq!(read(""), Err(TraceError::NoScenario));
    assert_eq!(read("call 1"), Err(TraceError::NoScenario));
    assert_eq!(
        read("reduce-2 of=3: call 1"),
        Err(TraceError::UnknownHeader("of: 3".to_owned()))
    );
    assert_eq!(
        read("scenario: reduce-2\nbreaks: the law"),
        Err(TraceError::UnknownClaim("the law".to_owned()))
    );
    assert!(matches!(
        read("reduce-2: jump 1"),
        Err(TraceError::NotAStep(_))
    ));
}

#[test]
fn a_trace_of_a_scenario_that_does_not_exist_is_refused() {
    let trace: Trace = "nowhere: call 1".parse().unwrap();

    let refusal = trace.replay().unwrap_err();

    assert_eq!(refusal, TraceError::UnknownScenario("nowhere".to_owned()));
}

#[test]
fn a_step_that_cannot_happen_is_refused_with_what_can() {
    let trace: Trace = "reduce-2 faults=0: call 1; up 2".parse().unwrap();

    let refusal = trace.replay().unwrap_err().to_string();

    assert_eq!(
        refusal,
        "step 2, `up 2`, cannot happen there; what can is: up 1; call 2"
    );
}

#[test]
fn a_trace_whose_end_a_mend_made_impossible_is_followed_as_far_as_it_goes() {
    let trace: Trace = "reduce-2: call 1; up 1; down 1; crash 2".parse().unwrap();

    let replay = trace.follow().unwrap();

    assert_eq!(replay.left_out, [(3, "down 1".parse::<Step>().unwrap())]);
    assert_eq!(replay.broken(), None);
    assert!(replay.moments.len() > 3, "the survivor goes on to the end");
}

#[test]
fn the_story_tells_who_did_what_and_who_changed_its_mind() {
    let trace: Trace = REDUCE.parse().unwrap();

    let story = Story(&trace.replay().unwrap()).to_string();

    for sentence in [
        "1. Peer 1 starts tag 1.",
        "2. The master hears from peer 1: vote: start tag 1.",
        "3. FAULT: Peer 2 dies.",
        "4. The master learns that the connection of peer 2 has ended.",
        "the master says to peer 1: start tag 1 as operation 1",
    ] {
        assert!(story.contains(sentence), "{sentence}\n{story}");
    }
}

#[test]
fn a_deepened_scenario_has_one_fault_more_than_the_standard_one_of_its_name() {
    let known = standard();
    let deepened: Vec<Scenario> = deep()
        .into_iter()
        .filter(|deep| known.iter().any(|standard| standard.name == deep.name))
        .collect();
    assert_eq!(
        deepened.len(),
        DEEPENED.len(),
        "one of the names is not a standard one"
    );
    for deep in deepened {
        let standard = known.iter().find(|standard| standard.name == deep.name);
        assert_eq!(
            standard.map(|standard| standard.faults + 1),
            Some(deep.faults)
        );
        assert_eq!(deep.frames, Frames::Free);
    }
}
