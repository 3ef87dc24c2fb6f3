//! The training loop that the library has: what its step may rely on, and what it does after each error.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pccl::{
    AbortCause, Broadcast, CallKind, Conflict, Error, Misdeed, Next, Outcome, PeerId, Reduce,
    Round, Rounds, Shared, SharedState, StepError, SyncFailure, Tag,
};

use crate::support::Run;
use crate::support::tapped::Tapped;

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

const TAG: Tag = Tag(0);

/// Lets peers run their loops at the same time, each on a thread of its own, and returns what they returned, in
/// their order.
fn all<T: Send + 'static>(
    loops: impl IntoIterator<Item: FnOnce() -> T + Send + 'static>,
) -> Vec<T> {
    let (sender, ended) = mpsc::channel();
    let mut running = 0;
    for (index, run) in loops.into_iter().enumerate() {
        let sender = sender.clone();
        thread::spawn(move || sender.send((index, run())));
        running += 1;
    }
    let ended = (0..running).map(|_| ended.recv_timeout(HANG).expect("all loops end"));
    let mut all: Vec<(usize, T)> = ended.collect();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Whether the first or the last step waits for two peers, one of which may come again.
fn is_alone(round: &Round<'_, Vec<f32>>, last: u64) -> bool {
    (round.revision() == 0 || round.revision() + 1 == last) && round.world_size() < 2
}

/// The usual step, up to this revision: all weights are the number of steps.
fn step(round: Round<'_, Vec<f32>>, last: u64) -> Result<Outcome, Error> {
    if round.revision() == last {
        return Ok(round.end());
    }
    let mut step = vec![1.0_f32; round.state().len()];
    round.retry(|| round.all_reduce(&mut step, Reduce::avg()))?;
    Ok(round.commit(|weights| {
        let moved = weights.iter_mut().zip(&step);
        moved.for_each(|(weight, step)| *weight += step);
    }))
}

/// Of two peers both begin when both are there. One of them returns this error from its step once, in the middle
/// of the run, while the other one waits for it in a reduce.
fn meet_again_after(error: &Error) {
    let run = Run::new();
    let loops = (0..2).map(|index| {
        let (rounds, mut error) = (run.builder().rounds(), (index == 1).then(|| error.clone()));
        move || {
            let mut weights = vec![0.0; 10];
            let ended = rounds.run(&mut weights, |round| {
                if is_alone(&round, 6) {
                    return Ok(round.wait());
                }
                match error.take_if(|_| round.revision() == 3) {
                    Some(error) => Err(error),
                    None => step(round, 6),
                }
            });
            (ended, weights)
        }
    });

    let ended = all(loops);

    assert_eq!(
        ended,
        vec![(Ok(6_u64), vec![6.0_f32; 10]); 2],
        "after {error}"
    );
}

#[test]
fn peers_of_which_one_synchronizes_and_the_other_one_reduces_meet_again() {
    let peer = PeerId(9);
    let cause = AbortCause::PeerLost(peer);
    for error in [
        Error::Aborted {
            tag: TAG,
            cause,
            waited: None,
        },
        Error::WorldChanged { tag: TAG },
        Error::NotJoined {
            tag: TAG,
            peers: vec![peer],
        },
        Error::SyncFailed(SyncFailure::TransferFailed { peer }),
    ] {
        meet_again_after(&error);
    }
}

#[test]
fn a_peer_that_is_told_that_others_optimize_optimizes_with_them() {
    meet_again_after(&Error::Conflict(Conflict {
        yours: CallKind::Collective,
        theirs: CallKind::SyncSharedState,
        peer: PeerId(9),
    }));
    let run = Run::new();
    let loops = [true, false].map(|optimizes| {
        let rounds = run.builder().rounds().optimize(optimizes);
        move || {
            rounds.run(&mut vec![0.0; 10], |round| match is_alone(&round, 3) {
                true => Ok(round.wait()),
                false => step(round, 3),
            })
        }
    });

    assert_eq!(all(loops), [Ok(3_u64), Ok(3)]);
}

#[test]
fn a_peer_that_is_thrown_out_connects_again_and_goes_on_with_the_others() {
    meet_again_after(&Error::Kicked(Misdeed::Silent));
}

#[test]
fn a_peer_whose_connection_ends_connects_again_and_ends_with_the_others() {
    let run = Run::new();
    let tapped = Tapped::new(|_| Box::pin(std::future::ready(())));
    let control = tapped.control.clone();
    let transport = tapped.on(run.under().clone());
    let peers = [
        (run.builder(), None),
        (run.builder().transport(transport), Some(control)),
    ];
    let loops = peers.map(|(builder, mut to_cut)| {
        move || {
            let (mut weights, mut identities) = (vec![0.0; 10], BTreeSet::new());
            let ended = builder.rounds().run(&mut weights, |round| {
                identities.insert(round.peer_id());
                if is_alone(&round, 6) {
                    return Ok(round.wait());
                }
                if let Some(control) = to_cut.take_if(|_| round.revision() == 3) {
                    *control.lock().unwrap() = None;
                }
                step(round, 6)
            });
            (ended, weights, identities.len())
        }
    });

    let ended = all(loops);

    let identities: Vec<usize> = ended.iter().map(|(_, _, identities)| *identities).collect();
    assert_eq!(identities, [1, 2], "one of them came again");
    for (ended, weights, _) in ended {
        assert_eq!((ended, weights), (Ok(6_u64), vec![6.0_f32; 10]));
    }
}

/// The loop of a peer that is alone, of which the step returns these errors, one after the other.
fn alone(
    rounds: Rounds,
    errors: impl IntoIterator<Item = Error>,
) -> (Result<u64, Error>, Vec<f32>) {
    let mut errors = errors.into_iter();
    let mut weights = vec![0.0; 4];
    let ended = rounds.run(&mut weights, |round| match errors.next() {
        Some(error) => Err(error),
        None => step(round, 2),
    });
    (ended, weights)
}

#[test]
fn what_a_retry_does_not_cure_ends_the_loop() {
    let run = Run::new();
    let rounds = || run.builder().rounds();
    let lost = Error::MasterLost;
    for error in [
        Error::MasterStopped,
        Error::Kicked(Misdeed::StateMismatch {
            entries: 1,
            named: Vec::new(),
        }),
        Error::SyncFailed(SyncFailure::NobodyToSend),
        Error::TagInUse(TAG),
    ] {
        let (ended, weights) = alone(rounds(), [error.clone()]);
        assert_eq!((ended, weights), (Err(error), vec![0.0; 4]));
    }

    let given_up = alone(rounds().reconnect_for(Duration::ZERO), [lost.clone()]);
    let always_lost = alone(rounds(), std::iter::repeat_n(lost.clone(), 16));

    assert_eq!(given_up.0, Err(lost.clone()));
    assert_eq!(always_lost.0, Err(lost));
}

#[test]
fn a_root_that_is_gone_is_chosen_anew_once() {
    let run = Run::new();
    let missed = |root| Error::NoSuchRoot {
        tag: TAG,
        root: PeerId(root),
    };

    let another = alone(run.builder().rounds(), [missed(7), missed(8)]);
    let the_same = alone(Run::new().builder().rounds(), [missed(7), missed(7)]);

    assert_eq!(another, (Ok(2), vec![2.0; 4]));
    assert_eq!(the_same.0, Err(missed(7)));
}

#[test]
fn a_wrong_address_is_an_error_at_once() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let builder = crate::support::builder_for(&address).connect_patience(Duration::ZERO);
    let since = Instant::now();

    let (ended, _) = alone(builder.rounds(), []);

    let error = ended.unwrap_err();
    assert!(matches!(error, Error::MasterUnreachable { .. }));
    assert_eq!(error.next(), Next::Reconnect);
    assert!(error.is_retryable() && !error.is_final());
    assert!(since.elapsed() < HANG);
}

/// An error of a training program.
#[derive(Debug)]
enum Failed {
    Call(Error),
    Disk(io::ErrorKind),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl StepError for Failed {
    fn call(&self) -> Option<&Error> {
        match self {
            Self::Call(error) => Some(error),
            Self::Disk(_) => None,
        }
    }
}

#[test]
fn an_error_of_the_users_own_is_passed_through_and_one_of_a_call_within_it_is_retried() {
    let run = Run::new();
    let mut steps = 0;

    let ended = run.builder().rounds().run(&mut vec![0_u8; 4], |round| {
        steps += 1;
        match steps {
            1 => Err(Failed::Call(Error::WorldChanged { tag: TAG })),
            2 => Ok(round.commit(|bytes| bytes.fill(1))),
            _ => Err(Failed::Disk(io::ErrorKind::StorageFull)),
        }
    });

    assert!(
        matches!(ended, Err(Failed::Disk(io::ErrorKind::StorageFull))),
        "{ended:?}"
    );
    assert_eq!(steps, 3);
}

/// State of several entries of several types.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    weights: Vec<f32>,
    momentum: Vec<f64>,
    samples: [u64; 1],
}

impl Model {
    fn of(content: u8) -> Self {
        Self {
            weights: vec![content.into(); 100],
            momentum: vec![content.into(); 50],
            samples: [content.into()],
        }
    }
}

impl Shared for Model {
    fn share<'a>(&'a mut self, state: &mut SharedState<'a>) -> Result<(), Error> {
        state.entry("weights", &mut self.weights)?;
        state.entry("momentum", &mut self.momentum)?;
        state.entry("samples", &mut self.samples)?;
        Ok(())
    }
}

#[test]
fn a_step_of_several_collectives_changes_several_entries_alike_also_those_of_a_peer_that_began_with_others()
 {
    let run = Run::new();
    let samples = std::sync::Arc::new(AtomicU64::new(0));
    let loops = [1, 2, 3].map(|content| {
        let (rounds, samples) = (run.builder().rounds().from_revision(7), samples.clone());
        move || {
            let mut model = Model::of(content);
            let ended = rounds.run(&mut model, |round| -> Result<Outcome, Error> {
                if round.world_size() < 3 && round.revision() == 7 {
                    return Ok(round.wait());
                }
                if round.revision() == 12 {
                    return Ok(round.end());
                }
                let mut step = round.state().weights.clone();
                let mut more = [10_u64];
                round.retry(|| round.all_reduce(&mut step, Reduce::avg()))?;
                round.retry(|| round.all_reduce(&mut more, Reduce::sum().tag(1)))?;
                let root = round.retry(|| round.barrier())?.contributors[0];
                let mut momentum = vec![f64::from(content); round.state().momentum.len()];
                round.retry(|| round.broadcast(&mut momentum, Broadcast::from(root)))?;
                samples.fetch_add(10, Ordering::Relaxed);
                Ok(round.commit(|model| {
                    model.weights = step;
                    model.momentum = momentum;
                    model.samples[0] += more[0];
                }))
            });
            (ended, model)
        }
    });

    let ended = all(loops);

    let (first, model) = &ended[0];
    assert_eq!(*first, Ok(12));
    assert!(ended.iter().all(|other| *other == ended[0]), "{ended:?}");
    let begun = model.weights[0] as u64;
    assert_eq!(model.samples[0], begun + samples.load(Ordering::Relaxed));
}

#[test]
fn a_round_that_is_started_again_begins_with_the_state_of_the_last_synchronization() {
    let run = Run::new();
    let mut seen = Vec::new();

    let ended = run.builder().rounds().run(&mut vec![0_u32; 2], |round| {
        seen.push((round.revision(), round.state().clone()));
        match seen.len() {
            1 | 3 => Ok(round.commit(|numbers| numbers[0] += 1)),
            2 => Err(Error::WorldChanged { tag: TAG }),
            _ => Ok(round.end()),
        }
    });

    assert_eq!(ended, Ok(2));
    let expected = [0, 1, 1, 2].map(|steps: u32| (u64::from(steps), vec![steps, 0]));
    assert_eq!(seen, expected);
}
