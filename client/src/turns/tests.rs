//! Who drives: the thread where nobody calls, else whoever is in a call; and never nobody.

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::runtime::{OwnThread, Runtime};

/// Far beyond what any test takes; reached only where nobody drives the runtime.
const HANG: Duration = Duration::from_secs(60);

/// The name of the thread on which a question was answered: of who drove the runtime.
type By = String;

/// An engine that answers each question with the name of its thread, and what it takes to ask.
struct Echo {
    turns: Arc<Turns>,
    runtime: Runtime,
    questions: mpsc::UnboundedSender<Question>,
    // Dropped last but one: the engine ends once it can hear no more questions.
    _thread: OwnThread,
    _guard: Sender<()>,
}

enum Question {
    OfCall(oneshot::Sender<By>),
    OfNobody(Sender<By>),
}

impl Echo {
    fn new() -> Self {
        let turns = Arc::new(Turns::default());
        let (questions, mut asked) = mpsc::unbounded_channel();
        let engine = async move {
            while let Some(question) = asked.recv().await {
                let by = thread::current().name().unwrap_or_default().to_owned();
                // Who asked may have gone.
                match question {
                    Question::OfCall(reply) => drop(reply.send(by)),
                    Question::OfNobody(reply) => drop(reply.send(by)),
                }
            }
        };
        let (runtime, thread) = Runtime::on_own_thread(&turns, Duration::ZERO, engine).unwrap();
        Self {
            turns,
            runtime,
            questions,
            _thread: thread,
            _guard: guard(),
        }
    }

    /// A blocking call.
    fn call(&self) -> By {
        self.runtime.block_on("nothing", async {
            let (reply, answer) = oneshot::channel();
            self.ask(Question::OfCall(reply));
            answer.await.unwrap()
        })
    }

    /// Asks, and is in no call while it waits.
    fn ask_from_outside(&self) -> Receiver<By> {
        let (reply, answer) = channel();
        self.ask(Question::OfNobody(reply));
        answer
    }

    /// Waits until the thread does one of these.
    fn wait_until(&self, does: &[Thread]) {
        while !does.contains(&self.turns.state().thread) {
            thread::yield_now();
        }
    }

    fn ask(&self, question: Question) {
        assert!(self.questions.send(question).is_ok(), "the engine ended");
    }
}

/// Ends the process where this lives for too long: nothing else ends a thread that waits for ever.
fn guard() -> Sender<()> {
    let (alive, ended) = channel();
    let test = thread::current().name().unwrap_or_default().to_owned();
    thread::spawn(move || {
        if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
            // Past the test harness, which would keep the words to itself.
            let _ = writeln!(io::stderr(), "{test} hangs: nobody drives the runtime");
            std::process::abort();
        }
    });
    alive
}

/// Runs `act` on a thread of this name.
fn on_thread<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    act: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let builder = thread::Builder::new().name(name.into());
    builder.spawn_scoped(scope, act).unwrap()
}

const OWN: &str = "pccl";

#[test]
fn the_thread_drives_where_nobody_has_ever_called() {
    let echo = Echo::new();

    let by = echo.ask_from_outside().recv().unwrap();

    assert_eq!(by, OWN);
}

#[test]
fn the_thread_drives_again_where_no_call_follows() {
    let echo = Echo::new();
    for _ in 0..20 {
        echo.call();

        let by = echo.ask_from_outside().recv().unwrap();

        assert_eq!(by, OWN);
    }
}

#[test]
fn who_calls_again_and_again_does_the_engines_work_itself() {
    const CALLS: usize = 2000;
    let echo = Echo::new();

    let by = thread::scope(|scope| {
        let calls = || -> Vec<By> { (0..CALLS).map(|_| echo.call()).collect() };
        on_thread(scope, "caller", calls).join().unwrap()
    });

    // The first finds the thread driving; so does one before which the system lets it wait.
    let own_work = by.iter().filter(|by| *by == "caller").count();
    assert!(own_work > CALLS * 9 / 10, "{own_work} of {CALLS}");
}

#[test]
fn who_computes_between_calls_finds_the_runtime_free() {
    const CALLS: usize = 40;
    let echo = Echo::new();

    let by = thread::scope(|scope| {
        let call_after_a_pause = |_| {
            thread::sleep(PAUSE * 10);
            echo.call()
        };
        let calls = move || -> Vec<By> { (0..CALLS).map(call_after_a_pause).collect() };
        on_thread(scope, "caller", calls).join().unwrap()
    });

    // As above; and one may come in a moment in which the thread drives.
    let own_work = by.iter().filter(|by| *by == "caller").count();
    assert!(own_work > CALLS * 3 / 4, "{own_work} of {CALLS}");
}

#[test]
fn in_a_long_pause_the_thread_drives_now_and_then_and_takes_over_in_the_end() {
    let echo = Echo::new();
    echo.call();
    echo.wait_until(&[Thread::Rests]);

    let by = echo.ask_from_outside().recv().unwrap();

    assert_eq!(by, OWN);
    echo.wait_until(&[Thread::Drives]);
}

#[test]
fn a_call_that_ends_in_a_long_pause_begins_a_short_one() {
    let echo = Echo::new();
    let quickest = quickest(|| {
        echo.call();
        echo.wait_until(&[Thread::Rests]);

        let begun = Instant::now();
        echo.call();
        echo.ask_from_outside().recv().unwrap();

        begun.elapsed()
    });

    assert!(quickest < PAUSE * 3 / 2, "{quickest:?}");
}

#[test]
fn of_two_callers_one_ends_and_the_other_goes_on() {
    let echo = Echo::new();
    for _ in 0..500 {
        let (end_first, first_ends) = oneshot::channel::<()>();
        let (end_second, second_ends) = oneshot::channel::<()>();
        let both = Barrier::new(3);
        thread::scope(|scope| {
            let call = |end: oneshot::Receiver<()>| {
                let (echo, both) = (&echo, &both);
                move || {
                    echo.runtime.block_on("nothing", async {
                        both.wait();
                        end.await.unwrap();
                    });
                }
            };
            // Whichever of the two drives.
            let first = on_thread(scope, "first", call(first_ends));
            let second = on_thread(scope, "second", call(second_ends));
            both.wait();
            // The thread lets go, but not at once.
            while echo.ask_from_outside().recv().unwrap() == OWN {}

            end_first.send(()).unwrap();
            first.join().unwrap();
            let by = echo.ask_from_outside().recv().unwrap();
            end_second.send(()).unwrap();
            second.join().unwrap();

            assert_eq!(by, "second");
        });
    }
}

#[test]
fn the_thread_sleeps_through_a_long_call_and_drives_when_it_ends() {
    let echo = Echo::new();
    let caller = echo.turns.enter();
    echo.wait_until(&[Thread::Sleeps]);

    drop(caller);

    let by = echo.ask_from_outside().recv().unwrap();
    assert_eq!(by, OWN);
}

/// The quickest of many, so that nothing else that the machine does counts.
fn quickest(hand_over: impl FnMut() -> Duration) -> Duration {
    std::iter::repeat_with(hand_over).take(50).min().unwrap()
}

#[test]
fn the_end_of_a_call_does_not_let_wait_what_is_open() {
    let echo = Echo::new();
    let quickest = quickest(|| {
        let by = echo.ask_from_outside().recv().unwrap();
        assert_eq!(by, OWN);
        // The thread drives, so it watches no sooner than from here on.
        let begun = Instant::now();
        let caller = echo.turns.enter();
        // Or longer already: not the quickest then.
        echo.wait_until(&[Thread::Watches, Thread::Sleeps]);
        let _open = Open::new(Some(&echo.turns));

        drop(caller);
        echo.ask_from_outside().recv().unwrap();

        begun.elapsed()
    });

    assert!(quickest < PAUSE, "{quickest:?}");
}

#[test]
fn what_opens_in_a_pause_does_not_wait_for_its_end() {
    let echo = Echo::new();
    let quickest = quickest(|| {
        let caller = echo.turns.enter();
        echo.wait_until(&[Thread::Sleeps]);
        let begun = Instant::now();
        drop(caller);
        // Or no longer: not the quickest then.
        echo.wait_until(&[Thread::Watches, Thread::Drives]);

        let _open = Open::new(Some(&echo.turns));
        echo.ask_from_outside().recv().unwrap();

        begun.elapsed()
    });

    assert!(quickest < PAUSE, "{quickest:?}");
}

#[test]
fn nothing_is_left_undriven_however_calls_and_pauses_meet() {
    // Mostly none at all; else just before, at and just after the end of one pause, and of two.
    const PERCENT: [u32; 19] = [
        0, 0, 0, 1, 0, 0, 20, 0, 0, 98, 0, 100, 0, 102, 0, 198, 0, 200, 205,
    ];
    let echo = Echo::new();
    let spin = |percent: u32| {
        let until = Instant::now() + PAUSE / 100 * percent;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };

    // Numbers without a common divisor, so that everything meets everything.
    for round in 0..3 * 4 * 5 * 19 {
        let open = (round % 3 == 0).then(|| Open::new(Some(&echo.turns)));
        let asked = (round % 4 < 3).then(|| echo.ask_from_outside());
        let percent = PERCENT[round % PERCENT.len()];
        match round % 5 {
            0 | 1 => echo.runtime.block_on("nothing", async { spin(percent) }),
            2 | 3 => drop((spin(percent), echo.call())),
            _ => spin(percent),
        }

        if let Some(answer) = asked {
            answer.recv().unwrap();
        }
        drop(open);
    }
}

#[test]
fn callers_on_several_threads_never_wait_for_one_another() {
    let echo = Echo::new();

    let answers = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let echo = &echo;
                let ask = move |round| {
                    if (round + index) % 4 > 0 {
                        return echo.call();
                    }
                    let _open = Open::new(Some(&echo.turns));
                    echo.ask_from_outside().recv().unwrap()
                };
                scope.spawn(move || (0..2000).map(ask).count())
            })
            .collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.sum::<usize>()
    });

    assert_eq!(answers, 8000);
}

#[test]
fn a_call_after_the_end_of_the_engine_returns() {
    let echo = Echo::new();
    let runtime = echo.runtime.clone();
    drop(echo);

    let returned = runtime.block_on("nothing", async { 7 });

    assert_eq!(returned, 7);
}
