//! Collectives that are called again, by peers that are far from the master and near each other: when they begin, and
//! what becomes of that if they were not to. The clock does not wait.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use pccl::{Broadcast, Communicator, ElementType, Error, ErrorFeedback, Quantization, Reduce, Tag};
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, Transport};
use pccl_master::{MasterServer, Security};
use pccl_transport_memory::{Intercepted, Interceptor, MemoryNet, Path, on_send};
use tokio::time::{Instant, sleep, timeout};

/// From a peer to the master, and back.
const TO_MASTER: Duration = Duration::from_millis(50);

/// A round trip to the master.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// What the clock of the test makes of no time at all: its timers are no finer.
const GRAIN: Duration = Duration::from_millis(10);

/// Several peers, each on a host of its own.
struct Far {
    net: MemoryNet,
    master: IpAddr,
    hosts: Vec<IpAddr>,
    peers: Vec<Communicator>,
}

impl Far {
    /// And a master alone, at this address.
    async fn empty() -> (Self, String) {
        let net = MemoryNet::new();
        let host = net.transport();
        let (master, port) = (host.ip(), host.any_port());
        let server = MasterServer::builder()
            .security(Security::Plain)
            .transport(Arc::new(host));
        let server = server.bind(port).await.unwrap();
        let address = server.local_addr().to_string();
        tokio::spawn(server.run());
        let far = Self {
            net,
            master,
            hosts: Vec::new(),
            peers: Vec::new(),
        };
        (far, address)
    }

    async fn new(count: usize) -> Self {
        let (mut far, address) = Self::empty().await;
        for _ in 0..count {
            let host = far.net.transport();
            far.join(&address, host.ip(), host).await;
        }
        far
    }

    /// All on one host; and the writes of each to the master.
    async fn of_one_machine(count: usize) -> (Self, Vec<Writes>) {
        let (mut far, address) = Self::empty().await;
        let host = far.net.transport();
        let mut all = Vec::new();
        for _ in 0..count {
            let writes = Writes::to(&address);
            all.push(writes.clone());
            let transport = Intercepted::over(Arc::new(host.clone()), writes);
            far.join(&address, host.ip(), transport).await;
        }
        (far, all)
    }

    async fn join(&mut self, address: &str, ip: IpAddr, transport: impl Transport) {
        self.hosts.push(ip);
        self.away_by(self.hosts.len() - 1, TO_MASTER);
        let builder = Communicator::builder(address).seed(1).transport(transport);
        let mut connecting = std::pin::pin!(builder.connect_async());
        let peer = loop {
            let updates = self
                .peers
                .iter_mut()
                .map(Communicator::update_topology_async);
            let updates = futures_of(updates);
            tokio::select! {
                biased;
                peer = &mut connecting => break peer.unwrap(),
                () = async { updates.await; sleep(Duration::from_secs(1)).await } => {}
            }
        };
        self.peers.push(peer);
    }

    /// How long it is from a peer to the master from here on.
    fn away_by(&self, peer: usize, delay: Duration) {
        self.set_apart(self.hosts[peer], self.master, delay);
    }

    fn set_apart(&self, one: IpAddr, other: IpAddr, delay: Duration) {
        let path = Path {
            delay,
            ..Path::DIRECT
        };
        self.net.set_path(one, other, path);
        self.net.set_path(other, one, path);
    }

    /// All reduce, and have the sum in the end.
    async fn all_reduce(&self) {
        let reduces = self.peers.iter().map(async |peer| {
            let mut buffer = [1.0_f32; 8];
            peer.all_reduce_async(&mut buffer, Reduce::sum())
                .await
                .unwrap();
            assert_eq!(buffer, [self.peers.len() as f32; 8]);
        });
        futures_of(reduces).await;
    }
}

/// All of them at once.
async fn futures_of<F: Future>(all: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|cx| {
        for (one, done) in &mut all {
            if done.is_none()
                && let std::task::Poll::Ready(output) = one.as_mut().poll(cx)
            {
                *done = Some(output);
            }
        }
        match all.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}

fn play<T>(story: impl AsyncFnOnce() -> T) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let limit = Duration::from_secs(3600);
    let story = async { timeout(limit, story()).await };
    runtime.block_on(story).expect("the story ends")
}

async fn time_of<T>(what: impl Future<Output = T>) -> Duration {
    let begun = Instant::now();
    what.await;
    begun.elapsed()
}

#[test]
fn the_bytes_of_a_collective_that_is_called_again_move_while_the_votes_to_start_do() {
    play(async || {
        let far = Far::new(2).await;
        // As long as a round trip to the master.
        far.set_apart(far.hosts[0], far.hosts[1], ROUND_TRIP);

        let first = time_of(far.all_reduce()).await;
        let second = time_of(far.all_reduce()).await;
        let third = time_of(far.all_reduce()).await;

        assert!(
            (3 * ROUND_TRIP..3 * ROUND_TRIP + GRAIN).contains(&first),
            "{first:?}"
        );
        for again in [second, third] {
            assert!(
                (2 * ROUND_TRIP..2 * ROUND_TRIP + GRAIN).contains(&again),
                "{again:?}"
            );
        }
    });
}

/// Counts how often one peer writes to this address, but for signs of life.
#[derive(Clone)]
struct Writes {
    to: String,
    count: Arc<AtomicUsize>,
}

impl Writes {
    fn to(address: &str) -> Self {
        let (to, count) = (address.to_owned(), Arc::default());
        Self { to, count }
    }

    fn so_far(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Interceptor for Writes {
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        if to.to_string() != self.to {
            return lane;
        }
        let writes = Arc::clone(&self.count);
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            let sent = tx.poll_send(cx, parts);
            // Before a sign of life it says what has arrived, in a frame of the session: its length has the highest bit.
            let is_sign_of_life = parts.concat()[3] >= 0x80;
            if let (Poll::Ready(Ok(_)), false) = (&sent, is_sign_of_life) {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            sent
        });
        Lane { tx, ..lane }
    }
}

#[test]
fn within_a_machine_both_votes_on_what_is_called_again_are_one_message_if_all_call_it() {
    play(async || {
        let (far, writes) = Far::of_one_machine(2).await;
        let so_far = || [0, 1].map(|peer: usize| writes[peer].so_far());
        far.all_reduce().await;
        let before = so_far();

        far.all_reduce().await;
        let together = so_far();
        let mut late = [[1.0_f32; 8]; 2];
        let [first, second] = &mut late;
        let second = async {
            sleep(ROUND_TRIP).await;
            far.peers[1].all_reduce_async(second, Reduce::sum()).await
        };
        let first = far.peers[0].all_reduce_async(first, Reduce::sum());
        let (first, second) = tokio::join!(first, second);
        let apart = so_far();

        assert_eq!([first.is_ok(), second.is_ok()], [true; 2]);
        let change = |from: [usize; 2], to: [usize; 2]| [to[0] - from[0], to[1] - from[1]];
        assert_eq!(change(before, together), [1, 1]);
        assert_eq!(change(together, apart), [2, 1], "the first does not wait");
    });
}

/// Longer than the stall time, and than a lane without acknowledgements lives.
#[test]
fn a_peer_that_calls_minutes_later_is_waited_for_and_nobody_is_blamed() {
    play(async || {
        let far = Far::new(3).await;
        far.all_reduce().await;
        let epoch = far.peers[0].epoch();
        let floats = (64 << 10) / 4;

        for later in [0, 300] {
            let calls = far.peers.iter().enumerate().map(async |(rank, peer)| {
                let mut buffer = vec![1.0_f32; floats];
                sleep(Duration::from_secs(later) * u32::from(rank == 1)).await;
                let reduced = peer.all_reduce_async(&mut buffer, Reduce::sum()).await;
                assert!(buffer.iter().all(|sum| *sum == 3.0));
                reduced.unwrap()
            });
            let reports = futures_of(calls).await;
            let waited = reports.iter().filter(|report| report.waited.is_some());
            assert_eq!(waited.count(), 0, "{reports:#?}");
        }

        far.all_reduce().await;
        assert_eq!(far.peers[0].epoch(), epoch, "no link was rebuilt");
    });
}

/// Everybody has the whole result when one takes its vote back: it would be added once more.
#[test]
fn what_was_summed_in_vain_is_not_summed_again() {
    play(async || {
        let far = Far::new(3).await;
        far.all_reduce().await;
        // Its vote arrives long after that of the first is withdrawn.
        far.away_by(2, Duration::from_millis(800));
        let limit = Duration::from_millis(300);

        let reduced = futures_of(far.peers.iter().enumerate().map(async |(rank, peer)| {
            let mut buffer = [1.0_f32; 8];
            if rank == 0 {
                let brief = Reduce::sum().timeout(limit);
                let late = peer.all_reduce_async(&mut buffer, brief).await;
                let tag = Tag(0);
                assert_eq!(late, Err(Error::TimeLimit { tag, limit }));
                assert_eq!(buffer, [1.0; 8], "it is as it was");
            }
            peer.all_reduce_async(&mut buffer, Reduce::sum())
                .await
                .unwrap();
            buffer
        }));

        assert_eq!(reduced.await, [[3.0; 8]; 3]);
    });
}

/// The root and the second peer have done their part when the third asks for something else.
#[test]
fn what_was_received_in_vain_is_put_back() {
    play(async || {
        let far = Far::new(3).await;
        let root = far.peers[0].peer_id();
        let cast = async |rank: usize, of: Broadcast| {
            let mut buffer = [rank as f32; 8];
            let cast = far.peers[rank].broadcast_async(&mut buffer, of).await;
            (buffer, cast.map(drop))
        };
        let agreed = futures_of((0..3).map(|rank| cast(rank, Broadcast::from(root)))).await;
        assert!(agreed.iter().all(|cast| *cast == ([0.0; 8], Ok(()))));

        let roots = [root, root, far.peers[2].peer_id()].map(Broadcast::from);
        let disagreed = futures_of((0..3).map(|rank| cast(rank, roots[rank]))).await;

        for (rank, (buffer, cast)) in disagreed.into_iter().enumerate() {
            assert_eq!(buffer, [rank as f32; 8]);
            assert!(matches!(cast, Err(Error::Disagreement { .. })), "{cast:?}");
        }
    });
}

/// Nobody is far from anybody but the master, so all are done long before it knows that all have called.
#[test]
fn peers_that_are_near_each_other_wait_for_one_round_trip_to_the_master() {
    play(async || {
        let far = Far::new(3).await;

        let first = time_of(far.all_reduce()).await;
        let again = time_of(far.all_reduce()).await;

        let two = 2 * ROUND_TRIP;
        assert!((two..two + GRAIN).contains(&first), "{first:?}");
        assert!(
            (ROUND_TRIP..ROUND_TRIP + GRAIN).contains(&again),
            "{again:?}"
        );
    });
}

/// Its limit is over when its last part comes, or when the master hears the last vote: a little before, or a little after.
#[test]
fn a_limit_that_is_over_when_all_have_called_leaves_no_two_outcomes() {
    for peers_are_near in [false, true] {
        let outcomes = play(async || {
            let far = Far::new(2).await;
            match peers_are_near {
                true => far.away_by(1, 3 * TO_MASTER),
                false => far.set_apart(far.hosts[0], far.hosts[1], ROUND_TRIP),
            }
            let mut outcomes = Vec::new();
            for limit in 90..110 {
                far.all_reduce().await;
                let limit = Duration::from_millis(limit);
                outcomes.push(one_of_two_is_brief(&far, limit).await);
            }
            outcomes
        });
        assert!(outcomes.contains(&true) && outcomes.contains(&false));
    }
}

/// Two reduce, the first with a limit. Whether both had the sum in the end; otherwise neither had.
async fn one_of_two_is_brief(far: &Far, limit: Duration) -> bool {
    let reduced = futures_of(far.peers.iter().enumerate().map(async |(rank, peer)| {
        let mut buffer = [1.0_f32; 8];
        let brief = Reduce::sum().timeout(limit);
        let reduce = if rank == 0 { brief } else { Reduce::sum() };
        let reduced = timeout(10 * limit, peer.all_reduce_async(&mut buffer, reduce)).await;
        let is_committed = matches!(reduced, Ok(Ok(_)));
        assert_eq!(buffer, [if is_committed { 2.0 } else { 1.0 }; 8]);
        is_committed
    }));
    let reduced = reduced.await;
    assert_eq!(reduced[0], reduced[1], "{limit:?}");
    // What was given up is withdrawn.
    sleep(4 * ROUND_TRIP).await;
    reduced[0]
}

/// A root has done its part as soon as it has called, and has voted. The others call when they like.
#[test]
fn a_root_that_has_voted_ahead_takes_its_call_back_when_its_limit_is_over() {
    play(async || {
        let far = Far::new(2).await;
        let root = Broadcast::from(far.peers[0].peer_id());
        let cast = async |rank: usize, of: Broadcast| {
            let mut buffer = [rank as f32 + 1.0; 8];
            let cast = far.peers[rank].broadcast_async(&mut buffer, of).await;
            (buffer, cast.map(drop))
        };
        let limit = Duration::from_secs(1);
        futures_of((0..2).map(|rank| cast(rank, root))).await;

        let begun = Instant::now();
        let late = cast(0, root.timeout(limit)).await;
        let waited = begun.elapsed();
        let both = futures_of((0..2).map(|rank| cast(rank, root.timeout(limit)))).await;

        let tag = Tag(0);
        assert_eq!(late, ([1.0; 8], Err(Error::TimeLimit { tag, limit })));
        let answered = limit + ROUND_TRIP;
        assert!((answered..answered + GRAIN).contains(&waited), "{waited:?}");
        assert_eq!(both, [([1.0; 8], Ok(())), ([1.0; 8], Ok(()))]);
    });
}

/// What encoding loses in a run that was in vain is not lost.
#[test]
fn the_losses_of_what_was_begun_in_vain_are_not_made_up_for() {
    play(async || {
        let mut far = Far::new(2).await;
        let contribution = [0.1_f32, 0.35, 1.0, -0.77, 0.0, 0.5];
        let how = Quantization::MinMax {
            to: ElementType::U8,
        };
        let reduce = Reduce::sum().quantize(how);
        let mut feedback = ErrorFeedback::new();
        let both = futures_of(far.peers.iter().map(async |peer| {
            let (mut buffer, mut feedback) = (contribution, ErrorFeedback::new());
            let call = peer.all_reduce_with_feedback_async(&mut buffer, reduce, &mut feedback);
            call.await.unwrap();
        }));
        both.await;

        let second = far.peers.pop().unwrap();
        let first = &far.peers[0];
        let mut buffer = contribution;
        let alone = first.all_reduce_with_feedback_async(&mut buffer, reduce, &mut feedback);
        let dies = async {
            sleep(Duration::from_secs(1)).await;
            second.shutdown_async().await;
        };
        let (report, ()) = tokio::join!(alone, dies);
        assert_eq!(report.unwrap().world_size, 1);
        assert_eq!(buffer, contribution, "nobody encoded it");
        let again = first.all_reduce_with_feedback_async(&mut buffer, reduce, &mut feedback);
        again.await.unwrap();

        assert_eq!(buffer, contribution, "nothing was held back");
    });
}
