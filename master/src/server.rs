//! Configuring, binding, running and stopping a master.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pccl_core::master::MasterConfig;
use pccl_core::ticket::TicketMint;
use pccl_core::transport::{LaneError, Listener, Protocol, Security as Lanes, Transport};
use pccl_core::wire::COLLECTIVES_MAX;
use pccl_transport_tcp::Tcp;
use pccl_trust::{Address, JoinString, Via};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::advertise::reachable_at;
use crate::connection::desk_queue;
use crate::desk::Desk;
use crate::error::{ServeError, TrustError};
use crate::journal::{Begun, Journal, JournalError};
use crate::limits::Limits;
use crate::listeners::{Failed, Listeners};
use crate::reception::Reception;
use crate::security::{Security, Trust};
use crate::visit::House;

/// Configures a master. [`bind`](Self::bind) binds it, and [`spawn`](Self::spawn) binds and runs it on its own
/// thread.
#[derive(Clone, Default)]
pub struct MasterBuilder {
    config: MasterConfig,
    limits: Limits,
    transport: Option<Arc<dyn Transport>>,
    security: Option<Security>,
    seed: Option<[u8; 32]>,
    record: Option<PathBuf>,
    journal: Option<PathBuf>,
    journal_in_memory: bool,
    is_without_threads: bool,
}

impl std::fmt::Debug for MasterBuilder {
    /// Without the seed, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterBuilder")
            .field("limits", &self.limits)
            .field("security", &self.security)
            .finish_non_exhaustive()
    }
}

impl MasterBuilder {
    /// Sets the limits and deadlines of the protocol. The ticket key of `config` is replaced by one that is drawn
    /// from the [`seed`](Self::seed). A `tags_max` below [`COLLECTIVES_MAX`](pccl_core::wire::COLLECTIVES_MAX) is
    /// raised to it.
    #[must_use]
    pub fn config(mut self, config: MasterConfig) -> Self {
        let peers_take = u32::try_from(COLLECTIVES_MAX).unwrap_or(u32::MAX);
        let tags_max = config.tags_max.max(peers_take);
        self.config = MasterConfig { tags_max, ..config };
        self
    }

    /// Sets the limits on the time and memory of a connection.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the transport of all connections. If [`security`](Self::security) is not plain, the transport must have
    /// the key pair of that [`Trust`], and must speak the protocol of [`Trust::via`]. Default: a transport for
    /// [`Trust::via`], or plain [`Tcp`] if the master does not encrypt.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Sets whether the master encrypts, and which peers it admits. Default: plain on a loopback address; on any
    /// other address [`Trust::ephemeral`], which admits peers that have its
    /// [`join_string`](MasterServer::join_string). If a [`transport`](Self::transport) was set, an address other than
    /// loopback has no default.
    ///
    /// A plain master on an address other than loopback lets every process that reaches it join. It logs a warning.
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = Some(security);
        self
    }

    /// Sets the seed of all randomness. With the same seed and the same inputs the master makes the same decisions.
    /// The seed is a secret: with it, all tickets of the run can be computed. Default: the operating system's
    /// randomness.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Records all inputs and outputs of the state machine to a file in this directory, and creates the directory if
    /// it is missing. Default: the directory in the environment variable `PCCL_RECORD`; if it is not set, nothing is
    /// recorded. `cargo run -p verification -- --conform DIR` replays the file.
    ///
    /// The file holds the key that mints the run's tickets, so it is as secret as the run. If the file cannot be
    /// written, the master logs that and continues.
    #[must_use]
    pub fn record(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }

    /// Keeps a journal in this directory, so that the run survives the master's process: a master that is started with
    /// the same directory, on the same addresses, goes on with the run. Its limits and deadlines are those with which
    /// the run began. The directory is created if it is missing. Default: no journal; if the master's process ends, its
    /// peers lose it.
    ///
    /// Meanwhile the peers dial again, for [`Limits::restart`] at most. Collectives that run continue to their end, and
    /// votes wait. A master that encrypts has to come back with the same key: see
    /// [`Trust::of_directory`](crate::Trust::of_directory). [`StopHandle::stop`] ends the run, and removes the journal;
    /// [`StopHandle::suspend`] ends the process alone.
    ///
    /// The journal holds the key that mints the run's tickets, so it is as secret as the run.
    #[must_use]
    pub fn journal(mut self, directory: impl Into<PathBuf>) -> Self {
        self.journal = Some(directory.into());
        self
    }

    /// Whether results wait until the disk has the records that lead to them. If not, the run survives the end of the
    /// process, but not a power failure or the end of the operating system. Default: true.
    #[must_use]
    pub fn journal_sync(mut self, syncs: bool) -> Self {
        self.journal_in_memory = !syncs;
        self
    }

    /// Runs the ring solver and the search for better rings in the tasks of the runtime, not on threads of their own.
    /// On a runtime of one thread with a paused clock, the same seed and the same inputs at the same times then give
    /// the same run. A search delays everybody, so this is for simulations only.
    #[doc(hidden)]
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.is_without_threads = true;
        self
    }

    /// Listens on `address`. Port 0 chooses a free port. Connections wait until [`MasterServer::run`] is polled.
    ///
    /// # Errors
    /// [`ServeError::Listen`] if the address cannot be used; [`ServeError::SecurityUnsaid`],
    /// [`ServeError::CannotEncrypt`], [`ServeError::CannotBePlain`], [`ServeError::WrongTransport`] or
    /// [`ServeError::NoSuchTransport`] if transport and security do not fit; [`ServeError::Trust`] or
    /// [`ServeError::Randomness`] if the operating system gives no randomness; [`ServeError::Journal`] if the journal
    /// cannot be used.
    ///
    /// # Blocking
    /// While the journal is read, if there is one.
    pub async fn bind(self, address: SocketAddr) -> Result<MasterServer, ServeError> {
        self.bind_all(&[address]).await
    }

    /// As [`bind`](Self::bind), on several addresses, for example all addresses of a host name. With port 0, all of
    /// them get the same free port. Addresses that this machine does not have are skipped if it has at least one of
    /// the others.
    ///
    /// # Errors
    /// As [`bind`](Self::bind). [`ServeError::NoAddress`] if `addresses` is empty; [`ServeError::Listen`] if this
    /// machine has none of them, or one of them is in use.
    pub async fn bind_all(self, addresses: &[SocketAddr]) -> Result<MasterServer, ServeError> {
        let security = self.security_on(addresses)?;
        let mut config = self.config;
        config.tickets = TicketMint {
            key: ticket_key(self.seed)?,
        };
        let (lanes, trust) = match security {
            Security::Plain => (Lanes::Plain, None),
            Security::Proven(trust) => (Lanes::Proven, Some(trust)),
        };
        let transport = match self.transport {
            Some(transport) => transport,
            None => transport_of(trust.as_ref())?,
        };
        match &trust {
            None if !transport.has_plain_lanes() => return Err(ServeError::CannotBePlain),
            Some(trust) => check_protocol(trust.via(), &*transport)?,
            None => {}
        }
        let listeners = Listeners::bind(&*transport, addresses, lanes).await;
        let listeners = listeners.map_err(not_listening)?;
        let local_addrs = listeners.local_addrs();
        if local_addrs.is_empty() {
            return Err(ServeError::NoAddress);
        }
        Ok(MasterServer {
            listener: Box::new(listeners),
            local_addrs,
            limits: self.limits,
            trust,
            record: pccl_recording::directory(self.record),
            journal: match self.journal {
                Some(directory) => {
                    Some(open_journal(&directory, !self.journal_in_memory, &config)?)
                }
                None => None,
            },
            config,
            is_without_threads: self.is_without_threads,
            stop: StopHandle::new(),
        })
    }
}

impl MasterBuilder {
    fn security_on(&self, addresses: &[SocketAddr]) -> Result<Security, ServeError> {
        let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        let beyond = addresses.iter().find(|address| !is_loopback(address));
        match (&self.security, &self.transport) {
            (Some(Security::Plain), _) => {
                if let Some(address) = beyond {
                    tracing::warn!(
                        "the master on {address} is plain: whoever reaches it may join the run, and who is \
                         on the way may read and change it"
                    );
                }
                Ok(Security::Plain)
            }
            (Some(security), _) => Ok(security.clone()),
            (None, _) if beyond.is_none() => Ok(Security::Plain),
            (None, None) => Ok(Security::Proven(Trust::ephemeral()?)),
            (None, Some(_)) => Err(ServeError::SecurityUnsaid),
        }
    }
}

fn open_journal(
    directory: &Path,
    syncs: bool,
    config: &MasterConfig,
) -> Result<Begun, JournalError> {
    let begun = Journal::open(directory, syncs, config.clone())?;
    let kept = begun.durable.master.config();
    let told = MasterConfig {
        tickets: kept.tickets.clone(),
        ..config.clone()
    };
    if told != *kept {
        tracing::warn!("the run goes on with the limits and deadlines with which it began");
    }
    Ok(begun)
}

fn transport_of(trust: Option<&Trust>) -> Result<Arc<dyn Transport>, ServeError> {
    let Some(trust) = trust else {
        return Ok(Arc::new(Tcp::new()));
    };
    match trust.via() {
        Via::Tls => Ok(Arc::new(Tcp::new().key_pair(trust.key_pair()))),
        #[cfg(feature = "quic")]
        Via::Quic => Ok(Arc::new(
            pccl_transport_quic::Quic::new().key_pair(trust.key_pair()),
        )),
        via => Err(ServeError::NoSuchTransport(via)),
    }
}

/// Checks that the join strings name the protocol of the transport. Otherwise nobody could join.
fn check_protocol(asked: Via, transport: &dyn Transport) -> Result<(), ServeError> {
    match (asked, transport.protocol()) {
        (_, Some(Protocol::Plain)) => Err(ServeError::CannotEncrypt),
        (Via::Tls, Some(given @ Protocol::Quic)) | (Via::Quic, Some(given @ Protocol::Tls)) => {
            Err(ServeError::WrongTransport { asked, given })
        }
        (_, Some(Protocol::Tls | Protocol::Quic) | None) => Ok(()),
    }
}

fn not_listening((address, error): Failed) -> ServeError {
    match error {
        LaneError::NotEncrypted => ServeError::CannotEncrypt,
        error => ServeError::Listen { address, error },
    }
}

fn ticket_key(seed: Option<[u8; 32]>) -> Result<[u8; 16], ServeError> {
    let mut random = match seed {
        Some(seed) => StdRng::from_seed(seed),
        None => StdRng::try_from_rng(&mut SysRng).map_err(ServeError::Randomness)?,
    };
    Ok(random.random())
}

/// A master that is bound and ready to [`run`](Self::run).
pub struct MasterServer {
    listener: Box<dyn Listener>,
    local_addrs: Vec<SocketAddr>,
    config: MasterConfig,
    limits: Limits,
    trust: Option<Trust>,
    record: Option<PathBuf>,
    journal: Option<Begun>,
    is_without_threads: bool,
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
    /// Binds a master over TCP with default limits. It is plain on a loopback address and encrypts on any other. Port
    /// 0 chooses a free port.
    ///
    /// # Errors
    /// As [`MasterBuilder::bind`].
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        Self::builder().bind(address).await
    }

    /// A builder, to set limits, security, a transport or a seed.
    #[must_use]
    pub fn builder() -> MasterBuilder {
        MasterBuilder::default()
    }

    /// The address, with its port, to which peers connect. If there are several, the first one.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// All addresses to which peers connect.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// The addresses at which others reach the master, as far as this machine knows: [`reachable_at`] of each
    /// listening address, at most four.
    #[must_use]
    pub fn reachable_at(&self) -> Vec<Address> {
        reachable_at_any(&self.local_addrs)
    }

    /// The join string for a master that is reached at the addresses `at`, one to four. If `at` is empty, the
    /// addresses of [`reachable_at`](Self::reachable_at) are used. `None` if the master is plain: its peers need only
    /// its address.
    ///
    /// # Errors
    /// As [`Trust::join_string`].
    ///
    /// # Blocking
    /// As [`Trust::join_string`].
    pub fn join_string(&self, at: &[Address]) -> Result<Option<JoinString>, TrustError> {
        join_string(self.trust.as_ref(), at, &self.local_addrs)
    }

    /// The master's key and invitations. `None` if the master is plain.
    #[must_use]
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// A handle that stops the master from another task or thread.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves until [`StopHandle::stop`] is called. Then it tells all peers, and returns within [`Limits::farewell`].
    /// After [`StopHandle::suspend`] it returns at once. Needs a tokio runtime of either flavour, with I/O and time
    /// enabled.
    ///
    /// Dropping the future closes all connections at once. Without a [journal](MasterBuilder::journal), the peers then
    /// get `MasterLost`.
    ///
    /// # Errors
    /// The journal cannot be written, for example because the disk is full. The peers wait for a master that goes on
    /// with the run, as after `suspend`.
    pub async fn run(self) -> Result<(), JournalError> {
        let (events, queue) = desk_queue();
        let record = self.record.as_deref();
        let mut desk = Desk::new(self.config, self.limits.clone(), queue, record);
        if let Some(begun) = self.journal {
            desk.keep(begun)?;
        }
        if self.is_without_threads {
            desk = desk.without_threads();
        }
        let house = House::new(self.limits, self.trust, self.stop.clone(), events);
        let mut reception = Reception::new(self.listener, house);
        let ended = tokio::select! {
            biased;
            ended = desk.run(&self.stop) => ended?,
            () = reception.run() => Stopping::ForGood,
        };
        match ended {
            Stopping::ForGood => reception.close().await,
            Stopping::ToComeBack => drop(reception),
        }
        Ok(())
    }
}

pub(crate) fn join_string(
    trust: Option<&Trust>,
    at: &[Address],
    listening: &[SocketAddr],
) -> Result<Option<JoinString>, TrustError> {
    let Some(trust) = trust else {
        return Ok(None);
    };
    let join = match at {
        [] => trust.join_string(&reachable_at_any(listening)),
        at => trust.join_string(at),
    };
    join.map(Some)
}

/// [`reachable_at`] of all these listening addresses, at most as many as a join string holds.
fn reachable_at_any(listening: &[SocketAddr]) -> Vec<Address> {
    let mut all: Vec<Address> = Vec::new();
    for address in listening.iter().copied().flat_map(reachable_at) {
        if !all.contains(&address) && all.len() < JoinString::ADDRESSES_MAX {
            all.push(address);
        }
    }
    all
}

/// How a master ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// The run ends with it.
    ForGood,
    /// Another process goes on with the run.
    ToComeBack,
}

/// Stops a master. Clones stop the same master.
#[derive(Clone, Debug)]
pub struct StopHandle {
    told: Arc<watch::Sender<Option<Stopping>>>,
}

impl StopHandle {
    pub(crate) fn new() -> Self {
        Self {
            told: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Tells the master to take leave of its peers and to end. Returns at once. Further calls have no effect.
    pub fn stop(&self) {
        self.tell(Stopping::ForGood);
    }

    /// Tells a master that keeps a [journal](MasterBuilder::journal) to end without a word to its peers, which wait for
    /// a master that goes on with the run. Without a journal, as [`stop`](Self::stop). Returns at once.
    pub fn suspend(&self) {
        self.tell(Stopping::ToComeBack);
    }

    /// The first word counts.
    fn tell(&self, how: Stopping) {
        self.told.send_if_modified(|told| {
            let is_first = told.is_none();
            told.get_or_insert(how);
            is_first
        });
    }

    /// Waits until the master has been told to end.
    pub(crate) async fn stopped(&self) -> Stopping {
        let mut told = self.told.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let how = told.wait_for(Option::is_some).await;
        how.map_or(Stopping::ForGood, |how| how.unwrap_or(Stopping::ForGood))
    }
}
