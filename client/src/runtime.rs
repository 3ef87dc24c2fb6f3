//! Where a communicator's tasks run: on the caller's runtime, or on one of its own.
//!
//! A runtime of its own has a thread that drives it (waits for sockets and timers, and runs what is
//! ready) while nobody is in a blocking call. Whoever is in one drives it meanwhile: else each frame
//! that arrives would wake one thread only for it to wake another, and where peers share cores those
//! switches cost more than the frames. They take turns as [`crate::turns`] says.
//!
//! **Invariant:** whatever a call opens (timers, sockets) is registered with the communicator's runtime.
//! Calls run in tasks of the caller's, on any executor, so each poll of one goes through
//! [`Runtime::inside`].

use std::future::{poll_fn, ready};
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime as Tokio};
use tokio::task::{JoinHandle, yield_now};

use crate::busy_poll::busy_poll;
use crate::error::Error;
use crate::turns::{Duty, Open, Standby, Turns};

/// How long dropping a communicator waits until the master has been told.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// A tokio runtime, for spawning and for blocking calls.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// `None`: the caller's.
    own: Option<Arc<Own>>,
}

/// A runtime that whoever has time drives.
#[derive(Debug)]
struct Own {
    /// `None` once the thread has ended, and everything that was spawned with it.
    runtime: Mutex<Option<Arc<Tokio>>>,
    turns: Arc<Turns>,
    /// How long a blocking call polls before it sleeps.
    busy_poll: Duration,
}

/// The thread that drives a runtime. Dropping this waits for its end, but not for long.
#[derive(Debug)]
pub(crate) struct OwnThread {
    ended: Mutex<mpsc::Receiver<()>>,
    turns: Arc<Turns>,
}

impl Runtime {
    /// The runtime that is being polled.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn current() -> Self {
        Self {
            handle: Handle::current(),
            own: None,
        }
    }

    /// Starts a runtime and its thread. They end when `main` has ended, and everything else that is
    /// spawned on the runtime with them.
    pub(crate) fn on_own_thread<F>(
        turns: &Arc<Turns>,
        busy_poll: Duration,
        main: F,
    ) -> Result<(Self, OwnThread), Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let no_resources = |error: std::io::Error| Error::NoResources(error.kind());
        let tokio = Builder::new_current_thread().enable_all().build();
        let tokio = Arc::new(tokio.map_err(no_resources)?);
        let handle = tokio.handle().clone();
        let own = Arc::new(Own {
            runtime: Mutex::new(Some(Arc::clone(&tokio))),
            turns: Arc::clone(turns),
            busy_poll,
        });
        let (running, ended) = mpsc::channel();
        let shared = Arc::clone(&own);
        thread::Builder::new()
            .name("pccl".into())
            .spawn(move || {
                // Dropped when the thread is done, whatever ends it.
                let _running: mpsc::Sender<()> = running;
                let main = tokio.spawn(main);
                shared.drive(&tokio, main);
                shared.retire();
            })
            .map_err(no_resources)?;
        let own = Some(own);
        let thread = OwnThread {
            ended: Mutex::new(ended),
            turns: Arc::clone(turns),
        };
        Ok((Self { handle, own }, thread))
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// As `call`; whoever polls it, it is inside this runtime. So any executor will do, and the timers
    /// and sockets that it opens live as long as this runtime, not as long as the caller's.
    pub(crate) async fn inside<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|cx| {
            let _inside = self.handle.enter();
            call.as_mut().poll(cx)
        })
        .await
    }

    /// Runs a call to its end on this thread, which drives the runtime meanwhile if it is an own one.
    ///
    /// # Panics
    /// On a thread that polls async tasks, as [`may_block`].
    #[track_caller]
    pub(crate) fn block_on<F: Future>(&self, instead: &str, call: F) -> F::Output {
        let busy_poll = self.own.as_ref().map(|own| own.busy_poll);
        self.block(instead, call, busy_poll.unwrap_or_default())
    }

    /// As [`block_on`](Self::block_on), for a call that goes on beside the work of its caller: its thread sleeps while
    /// it waits, and takes no time from that work.
    #[track_caller]
    pub(crate) fn block_on_beside<F: Future>(&self, instead: &str, call: F) -> F::Output {
        self.block(instead, call, Duration::ZERO)
    }

    #[track_caller]
    fn block<F: Future>(&self, instead: &str, call: F, busy_poll_for: Duration) -> F::Output {
        let mut output = None;
        let call = async { output = Some(call.await) };
        self.drive(instead, pin!(call), busy_poll_for);
        output.expect("what was driven has ended")
    }

    /// As [`block_on`](Self::block_on). A runtime is much code, which is compiled once and not for each call and type.
    #[track_caller]
    fn drive(
        &self,
        instead: &str,
        call: Pin<&mut dyn Future<Output = ()>>,
        busy_poll_for: Duration,
    ) {
        may_block(instead);
        let own = self.own.as_ref();
        let driven = own.and_then(|own| Some((own, own.runtime()?)));
        match driven {
            Some((own, tokio)) => {
                let _caller = own.turns.enter();
                tokio.block_on(busy_poll(call, busy_poll_for));
            }
            None => self.handle.block_on(call),
        }
    }
}

/// Goes on if this thread may block.
///
/// # Panics
/// On a thread that polls async tasks, naming what to await there, `instead`.
#[track_caller]
pub(crate) fn may_block(instead: &str) {
    let Ok(current) = Handle::try_current() else {
        return;
    };
    // A thread for blocking tasks is in a runtime as well: only an attempt tells them apart.
    let attempt = catch_unwind(|| current.block_on(ready(())));
    assert!(
        attempt.is_ok(),
        "a call that blocks was made in an async task; await {instead} there"
    );
}

impl Own {
    /// Drives the runtime until `main` has ended, except while others do.
    fn drive(&self, tokio: &Tokio, mut main: JoinHandle<()>) {
        let mut duty = Duty::Drive;
        let mut standby = Standby::new();
        loop {
            match duty {
                Duty::Drive => {
                    tokio.block_on(async {
                        tokio::select! {
                            biased;
                            _ = &mut main => {},
                            () = self.turns.yielded() => {},
                        }
                    });
                    standby = Standby::new();
                }
                Duty::DriveOnce => tokio.block_on(a_moment()),
            }
            // However it has ended.
            if main.is_finished() {
                return;
            }
            duty = self.turns.stand_by(&mut standby);
        }
    }

    /// From here on there is no runtime. What was spawned ends as soon as no blocking call drives it.
    fn retire(&self) {
        *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn runtime(&self) -> Option<Arc<Tokio>> {
        let runtime = self.runtime.lock();
        runtime.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Long enough for the runtime to look for events, to run what is ready, and what that makes ready.
async fn a_moment() {
    for _ in 0..4 {
        yield_now().await;
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        // So that it drives at once.
        let _open = Open::new(Some(&self.turns));
        if let Ok(ended) = self.ended.lock() {
            // An error says that it has ended, or is slow: either way there is nothing left to do.
            let _ = ended.recv_timeout(FAREWELL_LIMIT);
        }
    }
}
