//! A member that lies to the others or to the master: nobody takes a wrong number from it, and the others go on.
//!
//! What a member cannot be caught at is a wrong contribution: see docs/security.md. All have the same bits even then.

use std::time::Duration;

use pccl::{Communicator, Error, Misdeed, Reduce, SharedState, SyncStrategy};
use pccl_core::wire::{DATA_FRAME_MAX, FRAME_PAYLOAD_MAX, FrameHeader, StateRange};

use crate::support::lying::{Lies, Script};
use crate::support::{Run, begin, join_as, together, together_with};

/// Which of three peers lies.
const LIAR: usize = 1;

/// A lie about frames costs so long where nobody can tell it from silence.
const STALL: Duration = Duration::from_secs(2);

/// Attempts after which honest members have to have come through.
const ATTEMPTS: usize = 8;

/// Three members, of which one lies as its script says.
fn three(run: &Run) -> (Vec<Communicator>, Lies) {
    let lies = Lies::default();
    let lying = run.builder().transport(lies.on(run.under().clone()));
    let mut peers = vec![begin(run.builder().stall_timeout(STALL))];
    join_as(lying.stall_timeout(STALL), &mut peers);
    join_as(run.builder().stall_timeout(STALL), &mut peers);
    (peers, lies)
}

/// Elements that are sent whole, and those that are cut into chunks and frames.
const COUNTS: [usize; 2] = [100, 400_000];

/// Lets everybody reduce until all have a sum, and checks each sum and each buffer without one.
fn reduces_at_last(peers: &mut [Communicator], count: usize, lies: &Lies) -> usize {
    let world = u32::try_from(peers.len()).unwrap();
    for attempt in 0..ATTEMPTS {
        let results = together(peers, |peer| {
            let mut ones = vec![1_u32; count];
            let result = peer.all_reduce(&mut ones, Reduce::sum());
            let expected = if result.is_ok() { world } else { 1 };
            assert!(ones.iter().all(|one| *one == expected), "{result:?}");
            result.map(|_| ())
        });
        if results.iter().all(Result::is_ok) {
            return attempt;
        }
        for result in results {
            assert!(matches!(result, Err(Error::Aborted { .. })), "{result:?}");
        }
        lies.end();
    }
    panic!("{ATTEMPTS} reduces were aborted, with one lie");
}

/// What a liar changes in the header of a frame.
type Lie = fn(&mut FrameHeader);

#[test]
fn no_number_is_taken_from_a_frame_of_another_operation_place_or_length() {
    let cases: [(&str, Lie); 6] = [
        ("of an operation that never comes", |frame| {
            frame.seq.0 += 1 << 40;
        }),
        ("of another place", |frame| frame.offset += 4),
        ("of a later step", |frame| frame.step += 1),
        ("of another stripe", |frame| frame.stripe += 1),
        ("longer than the plan expects", |frame| frame.length += 4),
        ("as long as a frame may be", |frame| {
            frame.length = DATA_FRAME_MAX as u32;
        }),
    ];
    let run = Run::new();
    let (mut peers, lies) = three(&run);
    for count in COUNTS {
        for (what, lie) in cases {
            is_minded(&mut peers, &lies, count, (what, lie));
        }
    }
}

/// The last frame of a flow is honest, so the flow ends where it should.
#[test]
fn no_number_is_taken_from_a_frame_that_is_moved_within_its_flow() {
    let run = Run::new();
    let (mut peers, lies) = three(&run);
    let moves: Lie = |frame| {
        if frame.length == FRAME_PAYLOAD_MAX as u32 {
            frame.offset += 4;
        }
    };

    is_minded(&mut peers, &lies, COUNTS[1], ("moved by an element", moves));
}

/// Lets everybody reduce while one of them lies about its frames: that is noticed, and no sum is wrong.
fn is_minded(peers: &mut [Communicator], lies: &Lies, count: usize, (what, lie): (&str, Lie)) {
    *lies.script() = Script {
        frame: Some(lie),
        ..Script::default()
    };

    let aborted = reduces_at_last(peers, count, lies);

    assert!(
        aborted > 0,
        "{count} elements, a frame {what}: nobody minded"
    );
}

#[test]
fn content_that_is_not_what_was_elected_is_written_nowhere_and_fetched_elsewhere() {
    let is_of_another_length: fn(&mut StateRange) = |range| range.length += 1;
    let is_of_another_place: fn(&mut StateRange) = |range| range.offset += 1;
    let of_ranges = |range| Script {
        range: Some(range),
        ..Script::default()
    };
    let of_content = Script {
        is_content_wrong: true,
        ..Script::default()
    };
    let scripts = [
        of_content,
        of_ranges(is_of_another_length),
        of_ranges(is_of_another_place),
    ];
    let mut told = 0;
    for script in scripts {
        let run = Run::new();
        let (mut peers, lies) = three(&run);
        for revision in 0..4 {
            *lies.script() = script.clone();
            synchronizes(&mut peers, revision);
            told += lies.end();
        }
    }
    assert!(told > 0, "nobody fetched from the liar");
}

/// The last peer lacks what the others have, and obtains it.
fn synchronizes(peers: &mut [Communicator], revision: u64) {
    let last = peers.len() - 1;
    let right = vec![revision + 7; 50_000];
    let wrong = vec![0_u64; 50_000];
    for _ in 0..ATTEMPTS {
        let results = together_with(peers, |index, peer| {
            let own = if index == last { &wrong } else { &right };
            let mut held = own.clone();
            let mut state = SharedState::at(revision);
            state.entry("weights", &mut held).unwrap();
            let result = peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular);
            drop(state);
            let expected = if result.is_ok() { &right } else { own };
            assert!(held == *expected, "{result:?}");
            result.map(|_| ())
        });
        if results.iter().all(Result::is_ok) {
            return;
        }
        for result in results {
            assert!(matches!(result, Err(Error::SyncFailed(_))), "{result:?}");
        }
    }
    panic!("{ATTEMPTS} synchronizations failed although an honest peer holds the content");
}

/// Kinds of messages, by the first byte of their encoding.
const UPDATE_TOPOLOGY: u8 = 1;
const SYNC_SHARED_STATE: u8 = 8;
const INITIATE_COLLECTIVE: u8 = 10;

#[test]
fn a_member_that_votes_twice_goes_and_the_others_reduce_without_it() {
    for kind in [UPDATE_TOPOLOGY, SYNC_SHARED_STATE, INITIATE_COLLECTIVE] {
        let run = Run::new();
        let (mut peers, lies) = three(&run);
        lies.script().twice = Some(kind);

        let fate = {
            let liar = &mut peers[LIAR];
            match kind {
                UPDATE_TOPOLOGY => liar.update_topology().err(),
                SYNC_SHARED_STATE => {
                    let mut held = [1_u32];
                    let mut state = SharedState::at(0);
                    state.entry("weights", &mut held).unwrap();
                    let result = liar.sync_shared_state(&mut state, SyncStrategy::EnforcePopular);
                    result.err()
                }
                _ => liar.all_reduce(&mut [1_u32], Reduce::sum()).err(),
            }
        };

        assert_eq!(lies.end(), 1);
        let is_kicked_for_it = matches!(
            fate,
            Some(Error::Kicked(
                Misdeed::WrongState { .. } | Misdeed::DuplicateVote | Misdeed::DuplicateTag { .. }
            ))
        );
        assert!(is_kicked_for_it, "{kind}: {fate:?}");
        peers.remove(LIAR);
        together(&mut peers, |peer| peer.update_topology().unwrap());
        assert_eq!(reduces_at_last(&mut peers, 100, &lies), 0);
    }
}

/// Nobody can know what a member should have contributed.
#[test]
fn a_wrong_contribution_makes_the_result_wrong_and_the_same_on_all() {
    let run = Run::new();
    let (mut peers, _lies) = three(&run);
    for count in COUNTS {
        let results = together_with(&mut peers, |index, peer| {
            let lie = |at: usize| match at % 3 {
                0 => f32::NAN,
                1 => f32::MAX,
                _ => -1.0e-40,
            };
            let own = |at| if index == LIAR { lie(at) } else { 0.1 };
            let mut values: Vec<f32> = (0..count).map(own).collect();
            peer.all_reduce(&mut values, Reduce::sum()).unwrap();
            values
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        });

        assert!(results.iter().all(|bits| *bits == results[0]));
        assert!(f32::from_bits(results[0][0]).is_nan());
        assert!(f32::from_bits(results[0][1]) >= f32::MAX);
    }
}
