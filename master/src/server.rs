//! A master that listens: how it is configured, bound, run and stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pccl_core::master::MasterConfig;
use pccl_core::ticket::TicketMint;
use pccl_core::transport::{Listener, Security, Transport};
use pccl_core::wire::COLLECTIVES_MAX;
use pccl_transport_tcp::Tcp;
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};
use tokio::sync::{mpsc, watch};

use crate::connection::Event;
use crate::desk::Desk;
use crate::error::ServeError;
use crate::limits::Limits;
use crate::reception::Reception;

/// How many messages of all peers may wait for the machine. A connection that finds no room is not
/// read meanwhile; room is given in the order of asking, so that a flood delays others by one turn.
const EVENTS_MAX: usize = 64;

/// Configures a master; [`bind`](Self::bind) or [`spawn`](Self::spawn) makes it.
#[derive(Clone)]
pub struct MasterBuilder {
    config: MasterConfig,
    limits: Limits,
    transport: Arc<dyn Transport>,
    seed: Option<[u8; 32]>,
    record: Option<PathBuf>,
}

impl std::fmt::Debug for MasterBuilder {
    /// Without the seed, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterBuilder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Default for MasterBuilder {
    fn default() -> Self {
        Self {
            config: MasterConfig::default(),
            limits: Limits::default(),
            transport: Arc::new(Tcp::new()),
            seed: None,
            record: None,
        }
    }
}

impl MasterBuilder {
    /// Limits and time limits of the protocol. The ticket key in it is replaced: it comes from the
    /// seed. A `tags_max` that is less than peers have in flight is raised to
    /// [`COLLECTIVES_MAX`](pccl_core::wire::COLLECTIVES_MAX).
    #[must_use]
    pub fn config(mut self, config: MasterConfig) -> Self {
        let peers_take = u32::try_from(COLLECTIVES_MAX).unwrap_or(u32::MAX);
        let tags_max = config.tags_max.max(peers_take);
        self.config = MasterConfig { tags_max, ..config };
        self
    }

    /// What a connection may cost.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What connections come through; [`Tcp`] by default.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = transport;
        self
    }

    /// Where all randomness comes from. The master's decisions are then the same for the same inputs,
    /// and whoever knows the seed knows every ticket. Without a seed the operating system is asked.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Records everything that the machine hears and says into a file of this directory, which is made
    /// where it is missing. Without it the environment variable `PCCL_RECORD` says where, and where
    /// that is unset nothing is recorded. `cargo run -p verification -- --conform DIR` replays the
    /// file.
    ///
    /// The file holds the key that mints the run's tickets: it is as secret as the run. Where it cannot
    /// be written a log line says so, and the run goes on.
    #[must_use]
    pub fn record(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }

    /// Takes the address and listens; port zero: any free port. Connections are served once
    /// [`MasterServer::run`] runs, and wait until then.
    ///
    /// # Errors
    /// The address cannot be used, or there is no randomness.
    pub async fn bind(self, address: SocketAddr) -> Result<MasterServer, ServeError> {
        let mut config = self.config;
        config.tickets = TicketMint {
            key: ticket_key(self.seed)?,
        };
        let listener = self
            .transport
            .listen(address, Security::Plain)
            .await
            .map_err(|error| ServeError::Listen { address, error })?;
        Ok(MasterServer {
            listener,
            config,
            limits: self.limits,
            record: pccl_recording::directory(self.record),
            stop: StopHandle::new(),
        })
    }
}

fn ticket_key(seed: Option<[u8; 32]>) -> Result<[u8; 16], ServeError> {
    let mut random = match seed {
        Some(seed) => StdRng::from_seed(seed),
        None => StdRng::try_from_rng(&mut SysRng).map_err(ServeError::Randomness)?,
    };
    Ok(random.random())
}

/// A master that listens and is ready to [`run`](Self::run).
pub struct MasterServer {
    listener: Box<dyn Listener>,
    config: MasterConfig,
    limits: Limits,
    record: Option<PathBuf>,
    stop: StopHandle,
}

impl std::fmt::Debug for MasterServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterServer")
            .field("local_addr", &self.local_addr())
            .finish_non_exhaustive()
    }
}

impl MasterServer {
    /// A master over TCP with default limits. Port zero: any free port.
    ///
    /// # Errors
    /// The address cannot be used, or there is no randomness.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        Self::builder().bind(address).await
    }

    /// A master with other limits, another transport or a seed.
    #[must_use]
    pub fn builder() -> MasterBuilder {
        MasterBuilder::default()
    }

    /// Where peers connect: the address with the port that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Stops the master from elsewhere.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves until [`StopHandle::stop`]; then tells every peer and ends within
    /// [`Limits::farewell`]. Needs a tokio runtime with I/O and time, of either flavour.
    ///
    /// Dropping the future cuts all connections at once; peers then see their master lost.
    pub async fn run(self) {
        let (events, queue) = mpsc::channel::<Event>(EVENTS_MAX);
        let desk = Desk::new(self.config, queue, self.record.as_deref());
        let mut reception = Reception::new(self.listener, self.limits, self.stop.clone(), events);
        tokio::select! {
            biased;
            () = desk.run(&self.stop) => {}
            () = reception.run() => {}
        }
        reception.close().await;
    }
}

/// Stops a master. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct StopHandle {
    told: Arc<watch::Sender<bool>>,
}

impl StopHandle {
    pub(crate) fn new() -> Self {
        Self {
            told: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Tells the master to take leave of its peers and to end. Returns at once; calling it again
    /// changes nothing.
    pub fn stop(&self) {
        self.told.send_replace(true);
    }

    /// Waits for somebody to have called [`stop`](Self::stop).
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        self.told.subscribe().wait_for(|told| *told).await.ok();
    }
}
