//! Connecting a communicator to a run.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::GroupId;
use pccl_core::peer::{Call, Joined, PeerConfig};
use pccl_core::site::{BadSiteName, SiteName};
use pccl_core::transport::{Lane, LaneError, Listener, Transport};
use pccl_core::wire::{COLLECTIVES_MAX, FIRST_PEER_PORT, HandshakeError};
use pccl_plane::{CONCURRENT_DEFAULT, PlaneConfig};
use pccl_transport_tcp::Tcp;
use pccl_trust::Via;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::Backoff;
use crate::busy_poll::BUSY_POLL;
use crate::calls::{Backups, Calls, View};
use crate::communicator::Communicator;
use crate::destination::Destination;
use crate::engine::{Caller, Engine, EngineParts};
use crate::error::Error;
use crate::patience;
use crate::runtime::Runtime;
use crate::turns::Turns;

/// Ports that are tried, one after the other, before listening is given up.
const PORTS_TRIED_MAX: u16 = 1024;

/// How long memory is kept for the next collective.
const KEEP_MEMORY: Duration = Duration::from_secs(10);

/// How long a master that is busy is asked again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// How to connect to a run; made by [`Communicator::builder`].
#[must_use = "nothing happens before connect"]
pub struct Builder {
    destination: Destination,
    group: GroupId,
    site: Result<SiteName, BadSiteName>,
    /// `None`: the one that the destination asks for.
    transport: Option<Arc<dyn Transport>>,
    listen: IpAddr,
    first_port: u16,
    advertise: Option<IpAddr>,
    seed: Option<u64>,
    connect_timeout: Duration,
    connect_patience: Duration,
    stall_timeout: Duration,
    concurrent_reduces: usize,
    admission_timeout: Option<Duration>,
    keep_memory: Duration,
    record: Option<PathBuf>,
    busy_poll: Duration,
}

impl Builder {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            group: GroupId(0),
            site: Ok(SiteName::NONE),
            transport: None,
            listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            first_port: FIRST_PEER_PORT,
            advertise: None,
            seed: None,
            connect_timeout: Duration::from_secs(5),
            connect_patience: CONNECT_PATIENCE,
            stall_timeout: Duration::from_secs(10),
            concurrent_reduces: CONCURRENT_DEFAULT,
            admission_timeout: None,
            keep_memory: KEEP_MEMORY,
            record: None,
            busy_poll: BUSY_POLL,
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
    /// If no member of a group gives a name, [`optimize_topology`](Communicator::optimize_topology) finds its sites by
    /// what it measures. A group whose members all give the same name is at one site, whatever is measured.
    ///
    /// A name has at most 64 bytes and no control characters, and does not begin with `~`, as those of sites do that are
    /// found; otherwise connecting fails with [`Error::BadSite`].
    /// Default: none.
    pub fn site(mut self, name: impl Into<String>) -> Self {
        self.site = name.into().try_into();
        self
    }

    /// How lanes are opened. All peers of a run and their master use the same transport: one that speaks
    /// something else than the join string asks for is [`Error::WrongTransport`]. Default: the one that the
    /// join string asks for, else [`Tcp`] with its defaults.
    ///
    /// Whether lanes are encrypted is not the transport's choice: with a join string they are, without one
    /// they are not. [`Tcp::plain`] says that a master beyond this machine may be reached without one.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// The address of this machine on which other peers' lanes are accepted. `::` for IPv6. Default:
    /// `0.0.0.0`, all IPv4 addresses.
    pub const fn listen(mut self, on: IpAddr) -> Self {
        self.listen = on;
        self
    }

    /// The first port to try to listen on. If it is taken the next one is tried, 1024 of them in all. 0: any
    /// free port. [`Communicator::port`] says which one it is. Default: 48149.
    pub const fn first_port(mut self, port: u16) -> Self {
        self.first_port = port;
        self
    }

    /// The address under which other peers reach this one, where it is not the one that the master
    /// sees: behind network address translation, say.
    pub const fn advertise(mut self, address: IpAddr) -> Self {
        self.advertise = Some(address);
        self
    }

    /// How long the thread of a blocking call polls for events, after each one, before it sleeps. Polling costs
    /// CPU time, and none that another thread of the machine wants: the core is offered to it each time. Small
    /// reduces take longer without it. [`Duration::ZERO`]: it sleeps at once. Of no effect on async calls.
    /// Default: 200 µs.
    pub const fn busy_poll(mut self, limit: Duration) -> Self {
        self.busy_poll = limit;
        self
    }

    /// The seed of everything random that this peer does (the bytes of bandwidth probes). Default: a number
    /// from the operating system.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How long the master may take to answer. Time in which this machine stands still does not count.
    /// Default: 5 s.
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long to try again if the master says that it is busy: it takes a bounded number of
    /// handshakes at a time, in all and from one address, and many peers may start at once. The pauses
    /// between attempts double from 50 ms to 2 s, and differ from peer to peer. No attempt begins
    /// later; zero: one attempt. Default: 30 s.
    pub const fn connect_patience(mut self, limit: Duration) -> Self {
        self.connect_patience = limit;
        self
    }

    /// How long a lane of a reduce or of a transfer of shared state may stand still before it counts as
    /// lost. A reduce to which nothing comes waits half as long again, so that the other end of a lane
    /// that carries nothing can say so first. A collective that waits for what other peers pass on waits up
    /// to twice as long, and a broadcast up to four times. Transfers have no other time limit. Default: 10 s.
    pub const fn stall_timeout(mut self, limit: Duration) -> Self {
        self.stall_timeout = limit;
        self
    }

    /// How many reduces contribute data at a time, at least one. Default: 16. Any number may
    /// be called; the others only pass on what other peers contribute, in the order in which the master
    /// has started them. 1000 are known to the master at a time: those beyond wait until one of them has
    /// ended, see [`start_all_reduce`](Communicator::start_all_reduce). Each that moves data takes up to
    /// 1.5 MiB of memory per lane, besides its backup where it is in place and what travels encoded where
    /// it is quantized. Peers may differ in this: the greatest of their limits then bounds how many move
    /// data.
    ///
    /// Where the ring stays on one machine, of the reduces of more than 256 KiB only the oldest and the
    /// one with the fewest bytes contribute at a time. An async reduce that is the oldest and is not
    /// polled holds the others up, for a quarter of [`stall_timeout`](Self::stall_timeout) each time.
    pub const fn concurrent_reduces(mut self, limit: usize) -> Self {
        self.concurrent_reduces = limit;
        self
    }

    /// How long to wait to be admitted. The peers of the run admit newcomers when they call
    /// [`update_topology`](Communicator::update_topology). Default: no limit.
    pub const fn admission_timeout(mut self, limit: Duration) -> Self {
        self.admission_timeout = Some(limit);
        self
    }

    /// How long memory that collectives have used is kept for the next ones; ten seconds unless said
    /// otherwise. [`Communicator`] says how much it is.
    pub const fn keep_memory(mut self, time: Duration) -> Self {
        self.keep_memory = time;
        self
    }

    /// Records everything that this peer's machine hears and says into a file of this directory, which
    /// is made where it is missing. Without it the environment variable `PCCL_RECORD` says where, and
    /// where that is unset nothing is recorded. `cargo run -p verification -- --conform DIR` replays
    /// the file.
    ///
    /// No element of any buffer is recorded, but the tickets of this peer's lanes are: the file is as
    /// secret as the run. Where it cannot be written an event of `tracing` says so, and the run goes on.
    pub fn record(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }

    /// Connects and waits until this peer is part of the run.
    ///
    /// Blocks until the peers of the run admit this one: at once in an empty run, else at their next
    /// [`update_topology`](Communicator::update_topology). The communicator's tasks run on a thread of
    /// its own; no tokio runtime is needed.
    ///
    /// # Errors
    /// [`Error::BadSite`]; [`Error::WrongTransport`]; [`Error::NoResources`]: no thread or event queue of its
    /// own (not of [`connect_async`](Self::connect_async)); [`Error::CannotListen`]; [`Error::MasterUnreachable`]
    /// within [`connect_timeout`](Self::connect_timeout), or the master was busy for longer than
    /// [`connect_patience`](Self::connect_patience); [`Error::MasterMisbehaved`]: what answers is no
    /// master of this release; [`Error::Refused`] with the reason of the master (another release, a peer
    /// that cannot be reached, a full run); [`Error::AdmissionTimedOut`]. While waiting to be admitted:
    /// [`Error::MasterLost`]; [`Error::MasterStopped`]; [`Error::Kicked`]: the master takes this peer for
    /// lost, because it was silent for too long; [`Error::RuntimeEnded`]: the runtime ended meanwhile.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: use [`connect_async`](Self::connect_async) there.
    pub fn connect(self) -> Result<Communicator, Error> {
        let (prepared, ready) = oneshot::channel();
        let seed = self.seed.unwrap_or_else(seed_of_the_system);
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
        let calls = runtime.block_on(ready).map_err(|_| Error::RuntimeEnded)??;
        runtime.block_on(admitted(&calls, limit))?;
        Ok(Communicator::new(calls, runtime, Some(thread)))
    }

    /// As [`connect`](Self::connect); the communicator's tasks run on the caller's tokio runtime, of
    /// either flavour, with I/O and time enabled. The communicator is of no use once that has ended.
    ///
    /// Dropping the future gives the attempt up.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_async(self) -> Result<Communicator, Error> {
        let runtime = Runtime::current();
        let seed = self.seed.unwrap_or_else(seed_of_the_system);
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
        let transport = self.chosen_transport()?;
        self.destination.check(&*transport)?;
        let listener = self.take_port(&*transport).await?;
        let port = listener.local_addr().port();
        let control = self.reach_master(&*transport, seed).await?;
        let (commands, received) = mpsc::unbounded_channel();
        let (publish, view) = watch::channel(View::default());
        let backups = Arc::new(Backups::default());
        let engine = Engine::new(EngineParts {
            config: PeerConfig {
                group: self.group,
                port,
                advertise: self.advertise,
                lanes: transport.lanes_per_edge(),
                site,
                collectives_max: u16::try_from(COLLECTIVES_MAX).unwrap_or(u16::MAX),
            },
            transport: Arc::clone(&transport),
            listener,
            control,
            commands: received,
            view: publish,
            seed,
            data: PlaneConfig {
                stall: self.stall_timeout,
                concurrent: self.concurrent_reduces,
                ..PlaneConfig::default()
            },
            backups: Arc::clone(&backups),
            keep: self.keep_memory,
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
        };
        Ok((calls, engine))
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

    async fn take_port(&self, transport: &dyn Transport) -> Result<Box<dyn Listener>, Error> {
        let mut port = self.first_port;
        let mut tried = 1;
        loop {
            let on = SocketAddr::new(self.listen, port);
            match transport.listen(on, self.destination.security()).await {
                Ok(listener) => return Ok(listener),
                Err(LaneError::AddressInUse) if tried < PORTS_TRIED_MAX && port < u16::MAX => {
                    port += 1;
                    tried += 1;
                }
                Err(reason) => return Err(Error::CannotListen { on, reason }),
            }
        }
    }

    /// Opens the control lane. Tries again where the master says that it is busy.
    async fn reach_master(&self, transport: &dyn Transport, seed: u64) -> Result<Lane, Error> {
        let since = Instant::now();
        let mut random = StdRng::seed_from_u64(seed);
        let mut backoff = Backoff::new();
        loop {
            let reached =
                patience::within(self.connect_timeout, self.destination.reach(transport)).await;
            let reason = match reached {
                Some(Ok(lane)) => return Ok(lane),
                Some(Err(reason)) => reason,
                None => LaneError::TimedOut.into(),
            };
            let pause = backoff.uneven_pause(&mut random);
            let may_wait = since.elapsed().saturating_add(pause) <= self.connect_patience;
            if !matches!(reason, HandshakeError::NotYet(_)) || !may_wait {
                let master = self.destination.to_string();
                return Err(Error::MasterUnreachable { master, reason });
            }
            tracing::debug!(%reason, ?pause, "the master is busy");
            sleep(pause).await;
        }
    }
}

/// A number that differs from process to process: the standard library seeds its hashers from the
/// operating system.
fn seed_of_the_system() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Says hello, and waits to be admitted.
async fn admitted(calls: &Calls, limit: Option<Duration>) -> Result<Joined, Error> {
    let joining = calls.ask(Call::Connect, Caller::Connect);
    match limit {
        None => joining.await,
        Some(after) => timeout(after, joining)
            .await
            .unwrap_or(Err(Error::AdmissionTimedOut { after })),
    }
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
    use std::pin::pin;

    use pccl_core::timers::PAUSE;
    use pccl_trust::{JoinString, KeyPair, Secret};

    use crate::simulated::{Late, begin_and_stand_still};

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

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stood_still_while_it_connects_hears_the_masters_answer() {
        let limit = Duration::from_secs(5);
        let resumed = Instant::now() + 2 * limit;
        let builder = Builder::new(Destination::of("master.example:48148"))
            .connect_timeout(limit)
            .transport(Late(resumed + PAUSE / 2));
        let transport = builder.chosen_transport().unwrap();
        let mut reached = pin!(builder.reach_master(&*transport, 1));

        begin_and_stand_still(&mut reached, 2 * limit).await;

        let heard = reached.await.err();
        let master = "master.example:48148".to_owned();
        let reason = LaneError::Refused.into();
        assert_eq!(heard, Some(Error::MasterUnreachable { master, reason }));
    }
}
