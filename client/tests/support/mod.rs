//! A run in one process: a master and several communicators, each on a thread of its own.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod hosts;
pub(crate) mod lanes;
pub(crate) mod log;
pub(crate) mod lying;
pub(crate) mod tapped;
pub(crate) mod under;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pccl::{
    Broadcast, Builder, Communicator, Error, Gather, PeerId, Reduce, SharedState, SpecField,
    SyncStrategy, Tag,
};
use pccl_master::RunningMaster;

use lanes::{Distance, Traffic, counted};
use under::{Under, spawn_master};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

/// Lanes of each edge, unless a run is made with another number.
pub(crate) const LANES: u16 = 2;

pub(crate) struct Run {
    pub(crate) master: RunningMaster,
    under: Under,
    distance: Distance,
    /// What the peers' lanes carry.
    pub(crate) traffic: Traffic,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self::over(LANES, Distance::Near)
    }

    /// With so many lanes per edge, which say that they lead so far.
    pub(crate) fn over(lanes: u16, distance: Distance) -> Self {
        let run = Self::of(spawn_master());
        Self {
            under: run.under.clone().lanes(lanes),
            distance,
            ..run
        }
    }

    /// The run of this master.
    pub(crate) fn of(master: RunningMaster) -> Self {
        // Set RUST_LOG to see what happens.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let under = Under::to(&address_of(&master)).lanes(LANES);
        Self {
            master,
            under,
            distance: Distance::Near,
            traffic: Traffic::default(),
        }
    }

    /// A builder for one more peer of this run.
    pub(crate) fn builder(&self) -> Builder {
        self.builder_over(&self.under)
    }

    /// A builder for a peer that wishes for another number of lanes.
    pub(crate) fn builder_with_lanes(&self, lanes: u16) -> Builder {
        self.builder_over(&self.under.clone().lanes(lanes))
    }

    fn builder_over(&self, under: &Under) -> Builder {
        let transport = counted(under.clone(), self.distance, &self.traffic);
        builder_for(&self.address()).transport(transport)
    }

    /// The transport of this run's peers, uncounted.
    pub(crate) const fn under(&self) -> &Under {
        &self.under
    }

    /// Where peers connect, or the join string of a run that is encrypted.
    pub(crate) fn address(&self) -> String {
        address_of(&self.master)
    }

    /// Peers that have all joined, in the order of their identities.
    pub(crate) fn peers(&self, count: usize) -> Vec<Communicator> {
        let mut peers = vec![begin(self.builder())];
        while peers.len() < count {
            self.join(&mut peers);
        }
        peers
    }

    /// Admits one more peer by the votes of the others.
    pub(crate) fn join(&self, peers: &mut Vec<Communicator>) {
        join_as(self.builder(), peers);
    }

    /// Admits a peer that does `act` and dies, without a word, when that ends or an event of `dies_at`
    /// happens to it for the so-manieth time.
    pub(crate) fn join_doomed<F: Future<Output = ()>>(
        &self,
        peers: &mut [Communicator],
        dies_at: (&'static str, usize),
        act: impl FnOnce(Communicator) -> F + Send + 'static,
    ) -> thread::JoinHandle<()> {
        self.join_doomed_as(self.builder(), peers, dies_at, act)
    }

    /// The same of the peer that this builder makes.
    pub(crate) fn join_doomed_as<F: Future<Output = ()>>(
        &self,
        builder: Builder,
        peers: &mut [Communicator],
        (dies_at, times): (&'static str, usize),
        act: impl FnOnce(Communicator) -> F + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let seen = AtomicUsize::new(0);
        let is_last = move |kind: &str| {
            let before = seen.fetch_add(usize::from(kind == dies_at), Ordering::Relaxed);
            kind == dies_at && before + 1 == times
        };
        doom(builder, peers, is_last, act)
    }

    /// The same of a peer that dies of an event.
    pub(crate) fn join_doomed_by<F: Future<Output = ()>>(
        &self,
        peers: &mut [Communicator],
        dies_of: impl Fn(&str) -> bool + Send + Sync + 'static,
        act: impl FnOnce(Communicator) -> F + Send + 'static,
    ) -> thread::JoinHandle<()> {
        doom(self.builder(), peers, dies_of, act)
    }
}

/// Admits the peer that this builder makes, which does `act` and dies when that ends, or of an event.
fn doom<F: Future<Output = ()>>(
    builder: Builder,
    peers: &mut [Communicator],
    dies_of: impl Fn(&str) -> bool + Send + Sync + 'static,
    act: impl FnOnce(Communicator) -> F + Send + 'static,
) -> thread::JoinHandle<()> {
    let doomed = thread::spawn(move || {
        let life = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut peer = builder.connect_async().await.unwrap();
                peer.update_topology_async().await.unwrap();
                act(peer).await;
            });
            // Nothing runs any more that could say goodbye.
            drop(runtime);
        };
        let watch = move |kind: &str| assert!(!dies_of(kind), "dies as planned");
        let watched = || on_event(watch, life);
        let _ = panic::catch_unwind(AssertUnwindSafe(watched));
    });
    admit(peers);
    doomed
}

fn address_of(master: &RunningMaster) -> String {
    match master.join_string(&[]).unwrap() {
        Some(invited) => invited.to_word().to_string(),
        None => master.local_addr().to_string(),
    }
}

/// Admits the peer that this builder makes.
pub(crate) fn join_as(builder: Builder, peers: &mut Vec<Communicator>) {
    let joining = thread::spawn(move || begin(builder));
    admit(peers);
    peers.push(joining.join().unwrap());
}

/// Lets peers wait until somebody waits at the door, and vote to let them in.
pub(crate) fn admit(peers: &mut [Communicator]) {
    together(peers, |peer| {
        // The others may have let the newcomer in already, without the vote of a peer that rests.
        let before = peer.epoch();
        while peer.epoch() == before && !peer.are_peers_pending().unwrap() {}
        peer.update_topology().unwrap();
    });
}

/// Does `act`, and calls `tell` with the kind of each event of pccl on this thread.
pub(crate) fn on_event<T>(
    tell: impl Fn(&str) + Send + Sync + 'static,
    act: impl FnOnce() -> T,
) -> T {
    tracing::subscriber::with_default(Listener(tell), act)
}

/// Calls `tell` with the kind of each event of pccl in this process, which hears nothing else.
pub(crate) fn on_event_of_process(tell: impl Fn(&str) + Send + Sync + 'static) {
    tracing::subscriber::set_global_default(Listener(tell)).unwrap();
}

/// Hears the kinds of pccl's events.
struct Listener<F>(F);

impl<F: Fn(&str) + 'static> tracing::Subscriber for Listener<F> {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "pccl::event"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut kind = Kind(String::new());
        event.record(&mut kind);
        (self.0)(&kind.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// The kind of an event.
struct Kind(String);

impl tracing::field::Visit for Kind {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "kind" {
            self.0 = value.into();
        }
    }
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

/// Joins, and makes the first update, which belongs to the one that admitted it.
pub(crate) fn begin(builder: Builder) -> Communicator {
    let mut peer = builder.connect().unwrap();
    peer.update_topology().unwrap();
    peer
}

pub(crate) fn builder_for(master: &str) -> Builder {
    Communicator::builder(master)
        .transport(Under::to(master).lanes(LANES))
        .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .first_port(0)
}

/// Lets all peers do the same at the same time, each on a thread of its own, and returns what they
/// returned, in their order. Fails where that takes for ever.
pub(crate) fn together<T: Send>(
    peers: &mut [Communicator],
    act: impl Fn(&mut Communicator) -> T + Sync,
) -> Vec<T> {
    together_with(peers, |_, peer| act(peer))
}

/// What a disagreement is about and between whom, without what each of them asked for.
pub(crate) fn disagreement(error: &Error) -> (Tag, SpecField, Vec<PeerId>) {
    match error {
        Error::Disagreement {
            tag, field, peers, ..
        } => (*tag, *field, peers.clone()),
        other => panic!("{other}"),
    }
}

/// All of a run share state and reduce, and hold the same afterwards.
pub(crate) fn reduce_and_share(peers: &mut [Communicator]) {
    let count = u32::try_from(peers.len()).unwrap();
    let results = together(peers, |peer| {
        let mut weights = [peer.port(); 1000];
        let mut state = SharedState::at(0);
        state.entry("weights", &mut weights).unwrap();
        peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)
            .unwrap();
        drop(state);
        let mut sum = vec![1_u32; 300_000];
        peer.all_reduce(&mut sum, Reduce::sum()).unwrap();
        (weights, sum)
    });

    let (weights, sum) = &results[0];
    assert!(sum.iter().all(|element| *element == count));
    assert!(results.iter().all(|(other, _)| other == weights));
}

/// Makes the calls that share a buffer out and put it together again, on two peers.
pub(crate) async fn share_out(peer: &Communicator) {
    let root = peer.barrier_async().await.unwrap().contributors[0];
    let mut buffer = [if peer.peer_id() == root { 3_i32 } else { 4 }; 5];
    let scattered = peer.reduce_scatter_async(&mut buffer, Reduce::sum());
    let shard = scattered.await.unwrap().shard;
    let gather = Gather::of(shard);
    peer.all_gather_async(&mut buffer, gather).await.unwrap();
    assert_eq!(buffer, [7; 5]);
    let mut buffer = [peer.peer_id().0; 3];
    let broadcast = Broadcast::from(root);
    peer.broadcast_async(&mut buffer, broadcast).await.unwrap();
    assert_eq!(buffer, [root.0; 3]);
}

/// As [`together`]; tells each which one it is.
pub(crate) fn together_with<T: Send>(
    peers: &mut [Communicator],
    act: impl Fn(usize, &mut Communicator) -> T + Sync,
) -> Vec<T> {
    let act = &act;
    let acts = peers.iter_mut().enumerate();
    on_its_own_thread(acts.map(|(index, peer)| move || act(index, peer)))
}

/// Does all of these at the same time, each on a thread of its own, and returns what they returned, in their order.
/// Fails where that takes for ever.
pub(crate) fn on_its_own_thread<T: Send, Act: FnOnce() -> T + Send>(
    acts: impl Iterator<Item = Act>,
) -> Vec<T> {
    let acts: Vec<Act> = acts.collect();
    let mut results: Vec<Option<T>> = acts.iter().map(|_| None).collect();
    let noting = acts.into_iter().zip(&mut results);
    let noting = noting.map(|(act, result)| Box::new(move || *result = Some(act())) as Noting<'_>);
    note_all(noting.collect());
    results.into_iter().flatten().collect()
}

/// Does something, and puts the result where it belongs.
type Noting<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Not generic, so that it is compiled once, and not for each test.
fn note_all(all: Vec<Noting<'_>>) {
    let mut missing = all.len();
    thread::scope(|scope| {
        let (sender, ends) = mpsc::channel();
        for noting in all {
            let sender = sender.clone();
            scope.spawn(move || {
                noting();
                let _ = sender.send(());
            });
        }
        drop(sender);
        loop {
            match ends.recv_timeout(HANG) {
                Ok(()) => missing -= 1,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                // The threads cannot be ended, so neither can this scope.
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // Past the test harness, which would keep the words to itself.
                    let _ = writeln!(
                        io::stderr(),
                        "a test hangs: {missing} peers have not returned"
                    );
                    std::process::abort();
                }
            }
        }
    });
}
