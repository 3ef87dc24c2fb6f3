//! A master that listens: how it is configured, bound, run and stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pccl_core::master::MasterConfig;
use pccl_core::ticket::TicketMint;
use pccl_core::transport::{LaneError, Listener, Protocol, Security as Lanes, Transport};
use pccl_core::wire::COLLECTIVES_MAX;
use pccl_transport_tcp::Tcp;
use pccl_trust::{Address, JoinString, Via};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};
use tokio::sync::{mpsc, watch};

use crate::advertise::reachable_at;
use crate::connection::Event;
use crate::desk::Desk;
use crate::error::{ServeError, TrustError};
use crate::limits::Limits;
use crate::listeners::{Failed, Listeners};
use crate::reception::Reception;
use crate::security::{Security, Trust};
use crate::visit::House;

/// How many messages of all peers may wait for the machine. A connection that finds no room is not
/// read meanwhile; room is given in the order of asking, so that a flood delays others by one turn.
const EVENTS_MAX: usize = 64;

/// Configures a master; [`bind`](Self::bind) or [`spawn`](Self::spawn) makes it.
#[derive(Clone, Default)]
pub struct MasterBuilder {
    config: MasterConfig,
    limits: Limits,
    transport: Option<Arc<dyn Transport>>,
    security: Option<Security>,
    seed: Option<[u8; 32]>,
    record: Option<PathBuf>,
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

    /// What connections come through. It has to have the key pair of [`security`](Self::security), where that
    /// is not plain, and be what its [`Trust::via`] says. Default: what [`Trust::via`] says, [`Tcp`] where
    /// nothing is encrypted.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Whether the master encrypts, and whom it lets in. Default: on a loopback address it does not;
    /// elsewhere it does, as [`Trust::ephemeral`], and lets in who has its
    /// [`join_string`](MasterServer::join_string).
    ///
    /// A plain master beyond loopback is open to whoever reaches it; a line of the log says so.
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = Some(security);
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
    /// The address cannot be used, there is no randomness, or what is to be encrypted cannot be.
    pub async fn bind(self, address: SocketAddr) -> Result<MasterServer, ServeError> {
        self.bind_all(&[address]).await
    }

    /// As [`bind`](Self::bind), on all of these addresses: those of a name, say. With port zero all get one free port.
    /// Those that this machine does not have are left out, beside others that it has.
    ///
    /// # Errors
    /// As [`bind`](Self::bind). None of the addresses can be used, or there are none; or one is taken.
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
            config,
            limits: self.limits,
            trust,
            record: pccl_recording::directory(self.record),
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

/// A join string that asks for something else than the master speaks would let nobody in.
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

/// A master that listens and is ready to [`run`](Self::run).
pub struct MasterServer {
    listener: Box<dyn Listener>,
    local_addrs: Vec<SocketAddr>,
    config: MasterConfig,
    limits: Limits,
    trust: Option<Trust>,
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
    /// A master over TCP with default limits, plain on a loopback address and encrypted elsewhere. Port zero: any free port.
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

    /// Where peers connect: the address with the port that was taken, the first one of several.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// All addresses where peers connect.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// Where others reach the master, as far as this machine knows: as [`reachable_at`], of all addresses on which it
    /// listens, four at most.
    #[must_use]
    pub fn reachable_at(&self) -> Vec<Address> {
        reachable_at_any(&self.local_addrs)
    }

    /// What a peer needs to join, for a master that is reached at these one to four addresses; of none,
    /// at those of [`reachable_at`]. `None`: the master is plain, and peers need its address alone.
    ///
    /// # Errors
    /// As [`Trust::join_string`].
    ///
    /// # Blocking
    /// As [`Trust::join_string`].
    pub fn join_string(&self, at: &[Address]) -> Result<Option<JoinString>, TrustError> {
        join_string(self.trust.as_ref(), at, &self.local_addrs)
    }

    /// Who the master is, and whom it lets in. `None`: the master is plain.
    #[must_use]
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
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
        let house = House::new(self.limits, self.trust, self.stop.clone(), events);
        let mut reception = Reception::new(self.listener, house);
        tokio::select! {
            biased;
            () = desk.run(&self.stop) => {}
            () = reception.run() => {}
        }
        reception.close().await;
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

/// As [`reachable_at`], of a master that listens on all of these; no more than a join string holds.
fn reachable_at_any(listening: &[SocketAddr]) -> Vec<Address> {
    let mut all: Vec<Address> = Vec::new();
    for address in listening.iter().copied().flat_map(reachable_at) {
        if !all.contains(&address) && all.len() < JoinString::ADDRESSES_MAX {
            all.push(address);
        }
    }
    all
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
