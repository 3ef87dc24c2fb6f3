//! Control connections that break, while the peer and the master go on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use pccl::{Communicator, Error, LaneError, Reduce, SharedState, SyncStrategy};
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneTx};
use pccl_master::{Limits, MasterConfig, MasterServer};
use pccl_transport_memory::{Intercepted, Interceptor, on_recv, on_send};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::under::{spawn_master_of, spawn_master_with};
use crate::support::{Run, begin, together_with};

/// Breaks one control connection after the other, each when it has carried so many bytes.
struct Breaking {
    after: Mutex<VecDeque<u64>>,
    broken: Arc<AtomicUsize>,
    how: How,
}

/// What becomes of a connection that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// This end alone sees that it has ended.
    Ends,
    /// Both ends do.
    EndsForBoth,
    /// It carries nothing any more, and nobody is told.
    FallsSilent,
}

/// A connection on its way to its end.
struct Doomed {
    left: AtomicU64,
    broken: Arc<AtomicUsize>,
}

/// A sending half that the receiving half can close.
struct SharedTx(Arc<Mutex<Box<dyn LaneTx>>>);

impl LaneTx for SharedTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        self.0.lock().unwrap().poll_send(cx, parts)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.0.lock().unwrap().poll_close(cx)
    }
}

impl Doomed {
    /// Whether the connection carries so many bytes more.
    fn carries(&self, bytes: u64) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        let rest = left.saturating_sub(bytes);
        self.left.store(rest, Ordering::SeqCst);
        if left > 0 && rest == 0 {
            self.broken.fetch_add(1, Ordering::SeqCst);
        }
        rest > 0
    }
}

impl Breaking {
    fn after(bytes: impl IntoIterator<Item = u64>, how: How) -> (Self, Arc<AtomicUsize>) {
        let broken = Arc::new(AtomicUsize::new(0));
        let breaking = Self {
            after: Mutex::new(bytes.into_iter().collect()),
            broken: Arc::clone(&broken),
            how,
        };
        (breaking, broken)
    }
}

/// The master is known by its name, peers by their addresses.
impl Interceptor for Breaking {
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        let next = || self.after.lock().unwrap().pop_front();
        let Some(left) = matches!(to, Endpoint::Name(_)).then(next).flatten() else {
            return lane;
        };
        let doomed = Arc::new(Doomed {
            left: AtomicU64::new(left),
            broken: Arc::clone(&self.broken),
        });
        let (sends, how) = (Arc::clone(&doomed), self.how);
        let shared = SharedTx(Arc::new(Mutex::new(lane.tx)));
        let mut closing = SharedTx(Arc::clone(&shared.0));
        let tx = on_send(Box::new(shared), move |tx, cx, parts| {
            if sends.left.load(Ordering::SeqCst) == 0 {
                let swallowed = parts.iter().map(|part| part.len()).sum();
                return match how {
                    How::FallsSilent => Poll::Ready(Ok(swallowed)),
                    How::Ends => Poll::Ready(Err(LaneError::Reset)),
                    How::EndsForBoth => {
                        let _ = tx.poll_close(cx);
                        Poll::Ready(Err(LaneError::Reset))
                    }
                };
            }
            let sent = tx.poll_send(cx, parts);
            if let Poll::Ready(Ok(bytes)) = sent {
                sends.carries(bytes as u64);
            }
            sent
        });
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            if how == How::FallsSilent && doomed.left.load(Ordering::SeqCst) == 0 {
                return Poll::Pending;
            }
            let received = rx.poll_recv(cx, into);
            match received {
                // What has arrived with the last byte is lost.
                Poll::Ready(Ok(bytes)) if !doomed.carries(bytes as u64) => match how {
                    How::FallsSilent => Poll::Pending,
                    How::Ends => Poll::Ready(Err(LaneError::TimedOut)),
                    How::EndsForBoth => {
                        let _ = closing.poll_close(cx);
                        Poll::Ready(Err(LaneError::TimedOut))
                    }
                },
                other => other,
            }
        });
        Lane { tx, rx, ..lane }
    }
}

fn breaking(run: &Run, bytes: Vec<u64>, how: How) -> (Communicator, Arc<AtomicUsize>) {
    let (breaking, broken) = Breaking::after(bytes, how);
    let transport = Intercepted::over(Arc::new(run.under().clone()), breaking);
    let peer = begin(run.builder().transport(transport));
    (peer, broken)
}

/// Steps of a training loop; every call has to succeed, with the right result.
fn train(peers: &mut [Communicator], steps: u64) {
    let world = peers.len() as u64;
    together_with(peers, |index, peer| {
        for step in 0..steps {
            let handles: Vec<_> = (0..4)
                .map(|tag| {
                    let own = vec![index as u64 + step + tag; 100];
                    peer.start_all_reduce(own, Reduce::sum().tag(tag))
                })
                .collect();
            for (tag, handle) in (0..).zip(handles) {
                let sum: u64 = (0..world).map(|index| index + step + tag).sum();
                assert_eq!(handle.wait().unwrap().buffer, [sum; 100]);
            }
            let mut weights = vec![step as f32; 1000];
            let mut state = SharedState::at(step);
            state.entry("weights", &mut weights).unwrap();
            let synced = peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular);
            synced.unwrap();
            assert!(!peer.are_peers_pending().unwrap());
            peer.update_topology().unwrap();
        }
    });
}

#[test]
fn a_peer_whose_connection_to_the_master_breaks_again_and_again_goes_on_as_if_nothing_was() {
    for seed in 1..=5 {
        let mut random = StdRng::seed_from_u64(seed);
        let run = Run::new();
        // Not before its admission: the connection has to say hello, and to be welcomed.
        let bytes = (0..100).map(|_| random.random_range(200..1500));
        let (first, broken) = breaking(&run, bytes.collect(), How::Ends);
        let mut peers = vec![first];
        run.join(&mut peers);
        run.join(&mut peers);

        train(&mut peers, 60);

        let broken = broken.load(Ordering::SeqCst);
        assert!(broken > 10, "seed {seed}: {broken} connections have broken");
        assert!(peers.iter().all(|peer| peer.world_size() == 3));
    }
}

/// Flips bits on the connections to the master, some hundred bytes apart, though none of a handshake.
struct Damaging {
    random: Mutex<StdRng>,
    flips: Arc<AtomicUsize>,
}

/// The bits that are flipped in one direction of a connection.
struct Flips {
    random: StdRng,
    /// Bytes that have passed.
    passed: u64,
    /// Where the next one is.
    next: u64,
    count: Arc<AtomicUsize>,
}

impl Flips {
    fn further(&mut self) {
        self.next += self.random.random_range(300..3000);
    }

    /// What becomes of bytes that are to pass.
    fn damage(&self, bytes: &mut [u8]) {
        let place = self.next.checked_sub(self.passed);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(byte) = place.and_then(|place| bytes.get_mut(place)) {
            *byte ^= 1 << (self.next % 8);
        }
    }

    fn have_passed(&mut self, bytes: usize) {
        self.passed += bytes as u64;
        while self.next < self.passed {
            self.count.fetch_add(1, Ordering::SeqCst);
            self.further();
        }
    }
}

impl Interceptor for Damaging {
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        if !matches!(to, Endpoint::Name(_)) {
            return lane;
        }
        let flips = || Flips {
            random: StdRng::from_rng(&mut *self.random.lock().unwrap()),
            passed: 0,
            next: 400,
            count: Arc::clone(&self.flips),
        };
        let (mut of_tx, mut of_rx) = (flips(), flips());
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            let mut bytes = parts.concat();
            of_tx.damage(&mut bytes);
            let sent = tx.poll_send(cx, &[&bytes]);
            if let Poll::Ready(Ok(sent)) = sent {
                of_tx.have_passed(sent);
            }
            sent
        });
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            let received = rx.poll_recv(cx, into);
            if let Poll::Ready(Ok(bytes)) = received {
                of_rx.damage(&mut into[..bytes]);
                of_rx.have_passed(bytes);
            }
            received
        });
        Lane { tx, rx, ..lane }
    }
}

#[test]
fn bits_that_are_flipped_on_the_way_to_the_master_and_back_change_nothing() {
    for seed in 1..=5 {
        let flips = Arc::new(AtomicUsize::new(0));
        let damaging = Damaging {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            flips: Arc::clone(&flips),
        };
        let run = Run::new();
        let transport = Intercepted::over(Arc::new(run.under().clone()), damaging);
        let mut peers = vec![begin(run.builder().transport(transport))];
        run.join(&mut peers);
        run.join(&mut peers);

        train(&mut peers, 60);

        let flips = flips.load(Ordering::SeqCst);
        assert!(flips > 10, "seed {seed}: {flips} bits were flipped");
        assert!(peers.iter().all(|peer| peer.world_size() == 3));
    }
}

/// The peer dials again before either end gives the other one up.
#[test]
fn a_peer_whose_connection_to_the_master_falls_silent_goes_on_over_another_one() {
    let config = MasterConfig {
        silence: Duration::from_secs(4),
        ..MasterConfig::default()
    };
    let builder = MasterServer::builder().config(config);
    let run = Run::of(spawn_master_of(builder));
    let (first, broken) = breaking(&run, vec![1500, 2500], How::FallsSilent);
    let mut peers = vec![first];
    run.join(&mut peers);
    run.join(&mut peers);

    train(&mut peers, 30);

    assert_eq!(broken.load(Ordering::SeqCst), 2);
    assert!(peers.iter().all(|peer| peer.world_size() == 3));
}

/// A master that gives peers whose connection has ended so much time.
fn run_that_waits(reconnect: Duration) -> Run {
    let limits = Limits {
        reconnect,
        ..Limits::default()
    };
    Run::of(spawn_master_with(limits))
}

#[test]
fn a_peer_that_the_master_sees_leave_comes_back_if_it_has_time_to() {
    let run = run_that_waits(Duration::from_secs(60));
    let (first, broken) = breaking(&run, vec![1500, 2500, 1700], How::EndsForBoth);
    let mut peers = vec![first];
    run.join(&mut peers);

    train(&mut peers, 30);

    assert_eq!(broken.load(Ordering::SeqCst), 3);
}

/// As if its process had died: the others learn it at once.
#[test]
fn without_such_time_the_others_go_on_without_it_and_it_learns_that_it_is_out() {
    let run = run_that_waits(Duration::ZERO);
    let (first, _) = breaking(&run, vec![1500], How::EndsForBoth);
    let mut peers = vec![first];
    run.join(&mut peers);
    run.join(&mut peers);

    let ends = together_with(&mut peers, |index, peer| {
        loop {
            let mut buffer = [1_u64; 100];
            match peer.all_reduce(&mut buffer, Reduce::sum()) {
                Ok(report) if index > 0 && report.world_size == 2 => return None,
                Ok(_) | Err(Error::Aborted { .. }) => {}
                Err(error) => return Some(error),
            }
        }
    });

    assert_eq!(ends, [Some(Error::MasterLost), None, None]);
}
