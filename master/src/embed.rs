//! A master on its own thread, for programs without a runtime.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use pccl_trust::{Address, JoinString};
use tokio::runtime::Runtime;

use crate::error::{ServeError, TrustError};
use crate::security::Trust;
use crate::server::{MasterBuilder, MasterServer, StopHandle, join_string};

/// Starts a master over TCP with default limits on its own thread. It is plain on a loopback address and encrypts on
/// any other. Port 0 chooses a free port.
///
/// # Errors
/// As [`MasterBuilder::spawn`].
///
/// # Blocking
/// Until the master listens. Looks up a host name.
pub fn spawn(address: impl ToSocketAddrs + ToString) -> Result<RunningMaster, ServeError> {
    MasterServer::builder().spawn(address)
}

impl MasterBuilder {
    /// Starts the master on its own thread. Port 0 chooses a free port. If `address` is a host name, the master
    /// listens on all of its addresses that this machine has.
    ///
    /// # Errors
    /// As [`bind_all`](Self::bind_all); [`ServeError::Address`] if `address` cannot be parsed or resolved;
    /// [`ServeError::Thread`] or [`ServeError::ThreadEnded`] if the thread could not run. After an error no thread is
    /// left.
    ///
    /// # Blocking
    /// Until the master listens. Looks up a host name.
    pub fn spawn(
        self,
        address: impl ToSocketAddrs + ToString,
    ) -> Result<RunningMaster, ServeError> {
        let addresses = resolve(&address)?;
        let (bound, outcome) = mpsc::sync_channel(1);
        let thread = Builder::new()
            .name("pccl-master".into())
            .spawn(move || serve(self, &addresses, &bound))
            .map_err(ServeError::Thread)?;
        let bound = outcome.recv().map_err(|_| ServeError::ThreadEnded)??;
        Ok(RunningMaster {
            bound,
            thread: Some(thread),
        })
    }
}

fn resolve(address: &(impl ToSocketAddrs + ToString)) -> Result<Vec<SocketAddr>, ServeError> {
    address
        .to_socket_addrs()
        .map(Iterator::collect)
        .map_err(|error| ServeError::Address {
            address: address.to_string(),
            error,
        })
}

/// What the caller's thread needs from a bound master.
#[derive(Debug)]
struct Bound {
    local_addrs: Vec<SocketAddr>,
    stop: StopHandle,
    trust: Option<Trust>,
}

impl Bound {
    fn of(server: &MasterServer) -> Self {
        Self {
            local_addrs: server.local_addrs().to_vec(),
            stop: server.handle(),
            trust: server.trust().cloned(),
        }
    }
}

/// The body of the thread.
fn serve(
    builder: MasterBuilder,
    addresses: &[SocketAddr],
    bound: &mpsc::SyncSender<Result<Bound, ServeError>>,
) {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            bound.send(Err(error)).ok();
            return;
        }
    };
    match runtime.block_on(builder.bind_all(addresses)) {
        Ok(server) => {
            bound.send(Ok(Bound::of(&server))).ok();
            // As a task like those that it talks to: the runtime looks for I/O before each turn of the
            // future that it blocks on.
            let served = runtime.spawn(server.run());
            match runtime.block_on(served) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("the master has ended: {error}"),
                // A panic was told, and has ended the master.
                Err(_) => {}
            }
        }
        Err(error) => {
            bound.send(Err(error)).ok();
        }
    }
    // A ring solver may still be at work; nobody waits for its answer.
    runtime.shutdown_background();
}

fn runtime() -> Result<Runtime, ServeError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Thread)
}

/// A master on its own thread. Dropping it stops the master, and blocks like [`stop`](Self::stop).
#[derive(Debug)]
pub struct RunningMaster {
    bound: Bound,
    thread: Option<JoinHandle<()>>,
}

impl RunningMaster {
    /// The address to which peers connect. If there are several, the first one.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        let first = self.bound.local_addrs.first().copied();
        first.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// All addresses to which peers connect.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.bound.local_addrs
    }

    /// As [`MasterServer::join_string`].
    ///
    /// # Errors
    /// As [`Trust::join_string`].
    ///
    /// # Blocking
    /// As [`Trust::join_string`].
    pub fn join_string(&self, at: &[Address]) -> Result<Option<JoinString>, TrustError> {
        join_string(self.bound.trust.as_ref(), at, &self.bound.local_addrs)
    }

    /// The master's key and invitations. `None` if the master is plain.
    #[must_use]
    pub fn trust(&self) -> Option<&Trust> {
        self.bound.trust.as_ref()
    }

    /// A handle that stops the master from elsewhere, without waiting for its end.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.bound.stop.clone()
    }

    /// Stops the master: it tells all peers and ends.
    ///
    /// # Blocking
    /// Until the master has ended: up to [`Limits::farewell`](crate::Limits::farewell), 1 s by default.
    pub fn stop(self) {
        drop(self);
    }

    /// Waits until the master has been stopped through a [`StopHandle`].
    ///
    /// # Blocking
    /// Until the master has ended.
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended as well.
            thread.join().ok();
        }
    }
}

impl Drop for RunningMaster {
    fn drop(&mut self) {
        self.bound.stop.stop();
        self.join();
    }
}
