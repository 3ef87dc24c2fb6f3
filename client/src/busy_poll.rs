//! Polling for a bounded time before a blocking call sleeps.
//!
//! Waking a thread that sleeps takes the system some ten microseconds, more on a core that has gone idle, and a
//! small reduce waits several times. So while a call waits, its thread looks for events again and again, and
//! offers its core to other threads each time: where peers share cores, the one that has work gets on with it.
//! After a bounded time without anything that concerns the call, the thread sleeps.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::yield_now;

/// How long by default. Far longer than a frame takes between two processes of one machine, and far less than
/// anybody minds to compute in vain once per wait.
pub(crate) const BUSY_POLL: Duration = Duration::from_micros(200);

/// What wakes the call.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// Its thread is polling and sees by itself that the bell has rung.
    is_polling: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rung.swap(true, Ordering::SeqCst) || self.is_polling.load(Ordering::SeqCst) {
            return;
        }
        let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sleeper) = &*sleeper {
            sleeper.wake_by_ref();
        }
    }
}

impl Bell {
    /// From here on it wakes the thread; if it has rung already, at once.
    fn fall_asleep(&self, waker: &Waker) {
        let sleeper = self.sleeper.lock();
        let mut sleeper = sleeper.unwrap_or_else(PoisonError::into_inner);
        if !sleeper.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *sleeper = Some(waker.clone());
        }
        drop(sleeper);
        self.is_polling.store(false, Ordering::SeqCst);
        if self.rung.load(Ordering::SeqCst) {
            waker.wake_by_ref();
        }
    }
}

/// As `call`, for a thread that does nothing else: it polls for `limit` after everything that concerned the
/// call, and sleeps then.
pub(crate) async fn busy_poll<F: Future>(call: F, limit: Duration) -> F::Output {
    if limit.is_zero() {
        return call.await;
    }
    let bell = Arc::new(Bell::default());
    bell.rung.store(true, Ordering::SeqCst);
    let waker = Waker::from(Arc::clone(&bell));
    let mut call = pin!(call);
    let mut quiet_since = Instant::now();
    poll_fn(move |cx| {
        bell.is_polling.store(true, Ordering::SeqCst);
        if bell.rung.swap(false, Ordering::SeqCst) {
            let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                return polled;
            }
            quiet_since = Instant::now();
        }
        if quiet_since.elapsed() < limit {
            thread::yield_now();
            come_back(cx);
        } else {
            bell.fall_asleep(cx.waker());
        }
        Poll::Pending
    })
    .await
}

/// Lets the runtime look for events and run what is ready, without sleeping, and has this task polled after it.
fn come_back(cx: &mut Context<'_>) {
    let polled = pin!(yield_now()).poll(cx);
    debug_assert!(polled.is_pending(), "it yields once");
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    /// Never over in a test.
    const LONG: Duration = Duration::from_secs(600);

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// A call that another thread answers, once it has been polled.
    fn answered(limit: Duration) -> u32 {
        let (asked, asks) = std::sync::mpsc::channel();
        let (answer, answered) = oneshot::channel();
        let other = thread::spawn(move || {
            asks.recv().unwrap();
            answer.send(7).unwrap();
        });
        let call = async {
            asked.send(()).unwrap();
            answered.await.unwrap()
        };
        let got = runtime().block_on(busy_poll(call, limit));
        other.join().unwrap();
        got
    }

    #[test]
    fn an_answer_of_another_thread_is_heard_while_polling_and_while_asleep() {
        assert_eq!(answered(LONG), 7);
        for _ in 0..200 {
            assert_eq!(answered(Duration::from_nanos(1)), 7);
            assert_eq!(answered(BUSY_POLL), 7);
        }
        assert_eq!(answered(Duration::ZERO), 7);
    }

    #[test]
    fn tasks_of_the_runtime_go_on_while_a_call_polls() {
        let (answer, answered) = oneshot::channel();
        let runtime = runtime();
        runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer.send(7).unwrap();
        });

        assert_eq!(runtime.block_on(busy_poll(answered, LONG)), Ok(7));
    }

    #[test]
    fn a_call_is_polled_only_if_something_concerns_it() {
        let (answer, mut answered) = oneshot::channel();
        let runtime = runtime();
        runtime.spawn(async move {
            for _ in 0..100 {
                yield_now().await;
            }
            answer.send(7).unwrap();
        });
        let mut polls = 0;
        let call = poll_fn(|cx| {
            polls += 1;
            std::pin::Pin::new(&mut answered).poll(cx)
        });

        assert_eq!(runtime.block_on(busy_poll(call, LONG)), Ok(7));
        assert_eq!(polls, 2);
    }
}
