//! Where a communicator's tasks run: on the caller's runtime, or on a thread of its own.

use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use crate::error::Error;

/// How long dropping a communicator waits until the master has been told.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// A tokio runtime, for spawning and for blocking calls.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// `Some`: a thread of this communicator's, which ends when the engine does.
    own_thread: Option<Mutex<mpsc::Receiver<()>>>,
}

impl Runtime {
    /// The runtime that is being polled.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn current() -> Self {
        Self {
            handle: Handle::current(),
            own_thread: None,
        }
    }

    /// Starts a thread that runs what `main` makes, to its end; everything else that is spawned on the
    /// runtime ends with it. `main` is called on that thread, inside the runtime.
    pub(crate) fn on_own_thread<M, F>(main: M) -> Result<Self, Error>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::NoResources(error.kind()))?;
        let handle = runtime.handle().clone();
        let (running, ended) = mpsc::channel();
        thread::Builder::new()
            .name("pccl".into())
            .spawn(move || {
                // Dropped when the thread is done, whatever ends it.
                let _running: mpsc::Sender<()> = running;
                runtime.block_on(async { main().await });
            })
            .map_err(|error| Error::NoResources(error.kind()))?;
        Ok(Self {
            handle,
            own_thread: Some(Mutex::new(ended)),
        })
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a call to its end on this thread.
    ///
    /// # Panics
    /// On a thread that polls async tasks.
    pub(crate) fn block_on<F: Future>(&self, call: F) -> F::Output {
        self.handle.block_on(call)
    }
}

impl Drop for Runtime {
    /// Waits until the own thread is done, but not for long.
    fn drop(&mut self) {
        let ended = self.own_thread.as_ref();
        if let Some(Ok(ended)) = ended.map(Mutex::lock) {
            // An error says that it has ended, or is slow: either way there is nothing left to do.
            let _ = ended.recv_timeout(FAREWELL_LIMIT);
        }
    }
}
