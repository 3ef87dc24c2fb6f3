//! Connecting a communicator to a run.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::GroupId;
use pccl_core::name::{BadPeerName, PeerName};
use pccl_core::peer::PeerConfig;
use pccl_core::site::{BadSiteName, SiteName};
use pccl_core::transport::{LaneError, Listener, Transport};
use pccl_core::wire::{COLLECTIVES_MAX, FIRST_PEER_PORT};
use pccl_plane::{CONCURRENT_DEFAULT, Checksums, PlaneConfig};
use pccl_transport_tcp::Tcp;
use pccl_trust::Via;
use tokio::sync::{mpsc, oneshot, watch};

use crate::admission::admitted;
use crate::advertised::Advertised;
use crate::busy_poll::BUSY_POLL;
use crate::calls::{Backups, Calls, View};
use crate::communicator::Communicator;
use crate::destination::{Destination, Reached};
use crate::engine::{Engine, EngineParts, Home};
use crate::error::Error;
use crate::link_scope::OnLink;
use crate::reaching::Reaching;
use crate::runtime::{Runtime, may_block};
use crate::turns::Turns;

/// Ports that are tried, one after the other, before listening is given up.
const PORTS_TRIED_MAX: u16 = 1024;

/// How long memory is kept for the next collective.
const KEEP_MEMORY: Duration = Duration::from_secs(10);

/// How long a master that cannot be reached or is busy is tried again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// How long a call waits for others before the log names them.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// How to connect to a run; made by [`Communicator::builder`].
#[derive(Clone)]
#[must_use = "nothing happens before connect"]
pub struct Builder {
    destination: Destination,
    group: GroupId,
    site: Result<SiteName, BadSiteName>,
    name: Result<PeerName, BadPeerName>,
    /// `None`: the one that the destination asks for.
    transport: Option<Arc<dyn Transport>>,
    /// `None`: on all addresses of this machine.
    listen: Option<IpAddr>,
    first_port: u16,
    advertise: Advertised,
    seed: Option<u64>,
    connect_timeout: Duration,
    connect_patience: Duration,
    stall_timeout: Duration,
    concurrent_reduces: usize,
    checksums: Checksums,
    admission_timeout: Option<Duration>,
    keep_memory: Duration,
    record: Option<PathBuf>,
    busy_poll: Duration,
    warn_after: Duration,
}

impl Builder {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            group: GroupId(0),
            site: Ok(SiteName::NONE),
            name: Ok(PeerName::NONE),
            transport: None,
            listen: None,
            first_port: FIRST_PEER_PORT,
            advertise: Advertised::default(),
            seed: None,
            connect_timeout: Duration::from_secs(5),
            connect_patience: CONNECT_PATIENCE,
            stall_timeout: Duration::from_secs(10),
            concurrent_reduces: CONCURRENT_DEFAULT,
            checksums: Checksums::default(),
            admission_timeout: None,
            keep_memory: KEEP_MEMORY,
            record: None,
            busy_poll: BUSY_POLL,
            warn_after: WARN_AFTER,
        }
    }

    /// The peer group to work in: the peers that reduce and share state with one another. Default: 0.
    pub const fn group(mut self, group: u32) -> Self {
        self.group = GroupId(group);
        self
    }

    /// The site of this peer: the name of a place inside which connections are fast, such as a rack, a data centre or
    /// a cloud region. Peers that give the same name are at the same site. Peers that give none, or an empty one, are
    /// together at one site without a name.
    ///
    /// Sites are used by collectives in two levels, which send each byte once to each other site and spread it inside.
    /// Every member of the group knows the sites of all ([`site_of`](Communicator::site_of)). The site does not change
    /// who works with whom; that is [`group`](Self::group).
    ///
    /// If no member of a group gives a name, [`optimize_topology`](Communicator::optimize_topology) derives the sites
    /// from its measurements. If all members give the same name, the group is at one site, whatever the measurements
    /// say.
    ///
    /// A name has at most 64 bytes and no control characters, and does not begin with `~`, which marks the sites that
    /// were found. Otherwise connecting fails with [`Error::BadSite`].
    /// Default: none.
    pub fn site(mut self, name: impl Into<String>) -> Self {
        self.site = name.into().try_into();
        self
    }

    /// The name of this peer in the master's log and in messages on other peers
    /// ([`waiting_on`](Communicator::waiting_on), warnings about calls that wait), such as the name of its machine. It
    /// affects nothing else, and several peers may have the same name.
    ///
    /// A name has at most 64 bytes and no control characters; otherwise connecting fails with [`Error::BadName`].
    /// Default: none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().try_into();
        self
    }

    /// How long a call waits for other peers to make the same call before a `tracing` event names those peers. The
    /// event is a warning; for [`connect`](Self::connect), which usually waits, it is an info. It comes at most a
    /// quarter of this time late, and is repeated after six times this time. Default: 10 s.
    pub const fn warn_after(mut self, time: Duration) -> Self {
        self.warn_after = time;
        self
    }

    /// The transport that opens lanes. All peers of a run and their master use the same transport. If it differs from
    /// the one that the join string names, connecting fails with [`Error::WrongTransport`]. Default: the transport that
    /// the join string names, or [`Tcp`] with its defaults if there is no join string.
    ///
    /// The transport does not decide whether lanes are encrypted: with a join string they are, without one
    /// they are not. [`Tcp::plain`] permits a master on another machine without a join string.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// The address of this machine on which this peer accepts the lanes of other peers. `0.0.0.0`: all IPv4 addresses.
    /// Default: all IPv6 and IPv4 addresses, or all IPv4 addresses on a machine without IPv6.
    pub const fn listen(mut self, on: IpAddr) -> Self {
        self.listen = Some(on);
        self
    }

    /// The first port to listen on. If it is taken, the next one is tried, up to 1024 ports in all. 0: any
    /// free port. [`Communicator::port`] returns the port in use. If [`advertise`](Self::advertise) names a port, only
    /// this port is tried, because the advertised port leads to it. Default: 48149.
    pub const fn first_port(mut self, port: u16) -> Self {
        self.first_port = port;
        self
    }

    /// The address, the port, or both, by which other peers reach this one, if they differ from those on which it
    /// listens: a public address in front of network address translation, or a port that a container or a router maps
    /// to [`first_port`](Self::first_port). [`Advertised`] lists the types that this takes. Default: the address from
    /// which this peer reaches the master, with the port on which it listens.
    ///
    /// ```
    /// # let builder = pccl::Communicator::builder("127.0.0.1:48148");
    /// // docker run -p 31001:48149: others reach port 48149 of the container as port 31001 of its host.
    /// let builder = builder.first_port(48_149).advertise(31_001);
    /// ```
    pub fn advertise(mut self, at: impl Into<Advertised>) -> Self {
        self.advertise = at.into();
        self
    }

    /// How long the thread of a blocking call polls for further events after each event, before it sleeps. Polling
    /// makes small reduces faster and uses CPU time, but yields the core to any other thread that wants it.
    /// [`Duration::ZERO`]: the thread sleeps at once. Async calls do not poll. Default: 200 µs.
    pub const fn busy_poll(mut self, limit: Duration) -> Self {
        self.busy_poll = limit;
        self
    }

    /// The seed of this peer's random numbers: the bytes of its bandwidth probes, and its pauses between attempts to
    /// connect. Default: a number from the operating system.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The time limit of one attempt to reach the master. Time during which this machine is suspended does
    /// not count. More than zero. Default: 5 s.
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long to keep trying if the master cannot be reached, for example because it has not started yet, or answers
    /// that it is busy. (The master limits the number of handshakes at a time, in all and from one address, and many
    /// peers may start at once.) The pauses between attempts double from 50 ms to 2 s, with a jitter per peer. No
    /// attempt begins after this time; zero: one attempt. A `tracing` info reports the first failure, and a warning
    /// every 5 s reports that failures continue. Default: 30 s.
    ///
    /// An answer that no later attempt would change, such as that of a master of another release, ends connecting at
    /// once.
    pub const fn connect_patience(mut self, limit: Duration) -> Self {
        self.connect_patience = limit;
        self
    }

    /// How long a lane of a collective or of a transfer of shared state may carry nothing before it counts as
    /// lost. A receiver waits half as long again, so that the sender, which knows more, reports first.
    /// A collective that waits for data that other peers pass on waits up to twice as long, and a broadcast or one in two
    /// levels up to four times. Transfers have no other time limit.
    /// While this peer has no connection to the master, collectives wait though nothing moves.
    /// More than zero. Default: 10 s.
    pub const fn stall_timeout(mut self, limit: Duration) -> Self {
        self.stall_timeout = limit;
        self
    }

    /// How many reduces contribute this peer's data at a time, at least one. Default: 16. Any number of reduces may be
    /// called. The further ones only pass on the data of other peers, in the order in which the master has started
    /// them. At most 1000 are in flight; see [`start_all_reduce`](Communicator::start_all_reduce). Each reduce that
    /// moves data takes up to 1.5 MiB of memory per lane, besides the backup of an in-place reduce and the encoded
    /// frames of a quantized one. Peers may have different limits: the greatest one bounds how many reduces move data.
    ///
    /// If the ring stays within one machine, only two of the reduces of more than 256 KiB contribute at a time: the
    /// oldest one, and the one with the fewest bytes. If the oldest one is async and is not polled, it delays the
    /// others by a quarter of [`stall_timeout`](Self::stall_timeout) each time.
    pub const fn concurrent_reduces(mut self, limit: usize) -> Self {
        self.concurrent_reduces = limit;
        self
    }

    /// On which lanes the data of this peer's collectives gets a checksum. A collective in which damaged bytes arrive is
    /// [aborted](crate::Error::Aborted) like one that has lost a lane, and a `tracing` warning names the lane and the
    /// peer that sends on it. Encrypted lanes never have one: they prove each byte. Peers may choose differently.
    /// Default: plain lanes to other machines.
    pub const fn checksums(mut self, on: Checksums) -> Self {
        self.checksums = on;
        self
    }

    /// How long to wait to be admitted. The peers of the run admit newcomers when they call
    /// [`update_topology`](Communicator::update_topology). More than zero. Default: no limit.
    pub const fn admission_timeout(mut self, limit: Duration) -> Self {
        self.admission_timeout = Some(limit);
        self
    }

    /// How long the memory of collectives is kept for later ones. [`Communicator`] says how much memory this is.
    /// Default: 10 s.
    pub const fn keep_memory(mut self, time: Duration) -> Self {
        self.keep_memory = time;
        self
    }

    /// Records all inputs and outputs of this peer's state machine into a file in this directory, which
    /// is created if it is missing. `cargo run -p verification -- --conform DIR` replays the file.
    /// Default: the directory that the environment variable `PCCL_RECORD` names; if it is not set, nothing is recorded.
    ///
    /// The file contains no elements of buffers, but it contains the tickets of this peer's lanes: keep it as
    /// secret as the run. If it cannot be written, a `tracing` event says so, and the run continues.
    pub fn record(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }

    /// Connects and waits until this peer is part of the run.
    ///
    /// Blocks until the master is reached, for at most [`connect_patience`](Self::connect_patience) (30 s) plus
    /// [`connect_timeout`](Self::connect_timeout) (5 s) for the last attempt. Then it blocks until the peers of the run
    /// admit this one: at once in an empty run, otherwise at their next
    /// [`update_topology`](Communicator::update_topology). [`admission_timeout`](Self::admission_timeout) limits the
    /// second wait, which has no limit by default. If one thread makes two communicators, the second one waits forever,
    /// because the first one never calls `update_topology`. The communicator's tasks run on a thread of its own; no
    /// tokio runtime is needed.
    ///
    /// # Errors
    /// [`Error::BadSite`], [`Error::BadName`], [`Error::NoTime`], [`Error::BadAddress`], [`Error::WrongTransport`]: a
    /// setting is wrong. [`Error::NoResources`]: the system gives no thread or event queue (never from
    /// [`connect_async`](Self::connect_async)). [`Error::CannotListen`]. [`Error::MasterUnreachable`]: the master was
    /// unreachable or busy for longer than [`connect_patience`](Self::connect_patience), or another program answers at
    /// its address. [`Error::MasterMisbehaved`]: no master of this release answers. [`Error::Refused`], with the
    /// master's reason: another release, a peer that cannot be reached, a full run. [`Error::AdmissionTimedOut`]. While
    /// this peer waits to be admitted: [`Error::MasterLost`]; [`Error::MasterStopped`]; [`Error::Kicked`]: the master
    /// evicted this peer, because it was silent for too long; [`Error::RuntimeEnded`].
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: use [`connect_async`](Self::connect_async) there.
    #[track_caller]
    pub fn connect(self) -> Result<Communicator, Error> {
        self.connect_or("connect_async")
    }

    /// The seed of everything that this peer draws.
    pub(crate) fn random_seed(&self) -> u64 {
        self.seed.unwrap_or_else(seed_of_the_system)
    }

    /// As [`connect`](Self::connect). What to await in an async task is named by `instead`.
    #[track_caller]
    pub(crate) fn connect_or(self, instead: &str) -> Result<Communicator, Error> {
        may_block(instead);
        let (prepared, ready) = oneshot::channel();
        let seed = self.random_seed();
        let limit = self.admission_timeout;
        let turns = Arc::new(Turns::default());
        let to_take = Arc::clone(&turns);
        let (runtime, thread) = Runtime::on_own_thread(&turns, self.busy_poll, async move {
            let (calls, engine) = match self.prepare(seed, Some(to_take)).await {
                Ok((calls, engine)) => (Ok(calls), Some(engine)),
                Err(error) => (Err(error), None),
            };
            // Whoever called connect waits for it, unless its thread was torn down.
            let _ = prepared.send(calls);
            if let Some(engine) = engine {
                engine.run().await;
            }
        })?;
        let connecting = async {
            let calls = ready.await.map_err(|_| Error::RuntimeEnded)??;
            admitted(&calls, limit).await?;
            Ok::<Calls, Error>(calls)
        };
        let calls = runtime.block_on(instead, connecting)?;
        Ok(Communicator::new(calls, runtime, Some(thread)))
    }

    /// As [`connect`](Self::connect), without blocking. The communicator's tasks run on the caller's tokio runtime, of
    /// either flavour, with I/O and time enabled. The communicator cannot be used after that runtime has ended.
    ///
    /// Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_async(self) -> Result<Communicator, Error> {
        let runtime = Runtime::current();
        let seed = self.random_seed();
        let connecting = async {
            let (calls, engine) = self.prepare(seed, None).await?;
            runtime.handle().spawn(engine.run());
            admitted(&calls, self.admission_timeout).await?;
            Ok::<Calls, Error>(calls)
        };
        let calls = runtime.inside(connecting).await?;
        Ok(Communicator::new(calls, runtime, None))
    }

    /// Listens, reaches the master, and makes the engine that does the rest.
    async fn prepare(
        &self,
        seed: u64,
        turns: Option<Arc<Turns>>,
    ) -> Result<(Calls, Engine), Error> {
        let site = self.site.clone().map_err(Error::BadSite)?;
        let name = self.name.clone().map_err(Error::BadName)?;
        self.check_limits()?;
        let transport = self.chosen_transport()?;
        self.destination.check(&*transport)?;
        let listener = self.take_port(&*transport).await?;
        let port = listener.local_addr().port();
        let (advertised_ip, advertised_port) = self.advertise.resolve(port).await?;
        let reached = self.reaching().reach(&self.destination, &*transport, seed);
        let Reached { lane, link } = reached.await?;
        let transport = match link {
            Some(link) => Arc::new(OnLink::new(transport, link)),
            None => transport,
        };
        let (commands, received) = mpsc::unbounded_channel();
        let (publish, view) = watch::channel(View::default());
        let backups = Arc::new(Backups::default());
        let suspects = Arc::default();
        let engine = Engine::new(EngineParts {
            config: PeerConfig {
                group: self.group,
                port: advertised_port,
                advertise: advertised_ip,
                lanes: transport.lanes_per_edge(),
                site,
                name,
                collectives_max: u16::try_from(COLLECTIVES_MAX).unwrap_or(u16::MAX),
            },
            transport: Arc::clone(&transport),
            listener,
            control: lane,
            home: Home {
                destination: self.destination.clone(),
                answer: self.connect_timeout,
            },
            commands: received,
            view: publish,
            seed,
            data: PlaneConfig {
                stall: self.stall_timeout,
                concurrent: self.concurrent_reduces,
                checksums: self.checksums,
                ..PlaneConfig::default()
            },
            backups: Arc::clone(&backups),
            keep: self.keep_memory,
            warn_after: self.warn_after,
            suspects: Arc::clone(&suspects),
            record: pccl_recording::directory(self.record.clone()),
        });
        let calls = Calls {
            commands,
            view,
            backups,
            transport,
            port,
            call_ids: Arc::default(),
            stall: self.stall_timeout,
            staging: Arc::default(),
            turns,
            suspects,
        };
        Ok((calls, engine))
    }

    /// A limit of no time would be taken for what usually makes a peer wait that long.
    fn check_limits(&self) -> Result<(), Error> {
        let limits = [
            ("connect_timeout", Some(self.connect_timeout)),
            ("stall_timeout", Some(self.stall_timeout)),
            ("admission_timeout", self.admission_timeout),
        ];
        let zero = limits
            .into_iter()
            .find(|(_, limit)| *limit == Some(Duration::ZERO));
        match zero {
            Some((setting, _)) => Err(Error::NoTime { setting }),
            None => Ok(()),
        }
    }

    /// The caller's, or the one that the join string asks for.
    fn chosen_transport(&self) -> Result<Arc<dyn Transport>, Error> {
        if let Some(transport) = &self.transport {
            return Ok(Arc::clone(transport));
        }
        match self.destination.via() {
            None | Some(Via::Tls) => Ok(Arc::new(Tcp::new())),
            #[cfg(feature = "quic")]
            Some(Via::Quic) => Ok(Arc::new(pccl_transport_quic::Quic::new())),
            Some(via) => Err(Error::NoSuchTransport(via.to_string())),
        }
    }

    const fn reaching(&self) -> Reaching {
        Reaching {
            answer: self.connect_timeout,
            patience: self.connect_patience,
        }
    }

    async fn take_port(&self, transport: &dyn Transport) -> Result<Box<dyn Listener>, Error> {
        match self.listen {
            Some(on) => self.take_port_on(on, transport).await,
            None => match self
                .take_port_on(Ipv6Addr::UNSPECIFIED.into(), transport)
                .await
            {
                Err(Error::CannotListen { reason, .. }) if reason != LaneError::AddressInUse => {
                    let v4 = Ipv4Addr::UNSPECIFIED.into();
                    tracing::debug!(%reason, "this machine has no IPv6");
                    self.take_port_on(v4, transport).await
                }
                taken => taken,
            },
        }
    }

    async fn take_port_on(
        &self,
        ip: IpAddr,
        transport: &dyn Transport,
    ) -> Result<Box<dyn Listener>, Error> {
        let tries_max = match self.advertise.has_port() {
            true => 1,
            false => PORTS_TRIED_MAX,
        };
        let mut port = self.first_port;
        let mut tried = 1;
        loop {
            let on = SocketAddr::new(ip, port);
            match transport.listen(on, self.destination.security()).await {
                Ok(listener) => return Ok(listener),
                Err(LaneError::AddressInUse) if tried < tries_max && port < u16::MAX => {
                    port += 1;
                    tried += 1;
                }
                Err(reason) => return Err(Error::CannotListen { on, reason }),
            }
        }
    }
}

/// A number that differs from process to process: the standard library seeds its hashers from the
/// operating system.
fn seed_of_the_system() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("master", &self.destination.to_string())
            .field("group", &self.group)
            .field("listen", &self.listen)
            .field("first_port", &self.first_port)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pccl_trust::{JoinString, KeyPair, Secret};

    use super::*;

    /// A join string of a master that is reached this way.
    fn word_over(via: Via) -> String {
        let master = KeyPair::generate().unwrap().public_key();
        let at = vec!["127.0.0.1:48148".parse().unwrap()];
        let join = JoinString::new(via, at, master, Secret::generate().unwrap()).unwrap();
        join.to_word().to_string()
    }

    #[test]
    fn a_join_string_chooses_its_transport_or_names_the_feature_that_is_missing() {
        let chosen = |via| Builder::new(Destination::of(&word_over(via))).chosen_transport();

        assert!(chosen(Via::Tls).unwrap().has_plain_lanes(), "it is TCP");
        match (chosen(Via::Quic), cfg!(feature = "quic")) {
            (Ok(transport), true) => assert!(!transport.has_plain_lanes(), "it is not TCP"),
            (Err(error), false) => {
                assert_eq!(error, Error::NoSuchTransport("quic".into()));
                assert!(error.to_string().contains("feature `quic`"), "{error}");
            }
            (Ok(_), false) => panic!("there is no QUIC in this build"),
            (Err(error), true) => panic!("{error}"),
        }
    }
}
