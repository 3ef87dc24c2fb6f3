//! Peers that die while something travels, wherever they stand in its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use pccl::{Communicator, Error, PeerId};
use pccl_core::transport::Lane;
use pccl_transport_memory::{Intercepted, on_recv};
use tokio::sync::Notify;

use super::kind::{Kind, input, inputs};
use crate::support::{Run, together, together_with};

/// Peers, one of which dies.
const WORLD: usize = 4;

/// Of more bytes than are under way at any time, so whoever is in the way has some while others have none.
const COUNT: usize = 2_000_000;

/// When the doomed peer dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// When it has received so many bytes.
    Received(u64),
    /// When this has happened to it so many times.
    At(&'static str, usize),
}

/// All of it is there, and nobody knows.
const DONE: Death = Death::At("plan_done", 1);

/// Its vote on the outcome is on its way.
const VOTED: Death = Death::At("completion_voted", 1);

/// What has become of the survivors: the result and the buffer of each, who are all peers, by their places, and which
/// kind it was. They reduce afterwards.
struct Survived {
    kind: Kind,
    ids: Vec<PeerId>,
    results: Vec<(Result<usize, Error>, Vec<u64>)>,
}

impl Survived {
    fn of(kind: impl Fn(&[PeerId]) -> Kind, death: Death) -> Self {
        let run = Run::new();
        let mut peers = run.peers(WORLD - 1);
        let mut ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
        // The last one that came has the highest number.
        ids.push(PeerId(ids.iter().max().unwrap().0 + 1));
        let kind = kind(&ids);
        let received = Arc::new(Received::default());
        let counted = Arc::clone(&received);
        let transport =
            Intercepted::over(Arc::new(run.under().clone()), move |lane| counted.on(lane));
        let builder = run.builder().transport(transport);
        let (bytes, dies_at) = match death {
            Death::Received(bytes) => (bytes, ("", 1)),
            Death::At(event, times) => (u64::MAX, (event, times)),
        };
        let doomed = run.join_doomed_as(builder, &mut peers, dies_at, move |doomed| async move {
            received.limit(bytes);
            let mut buffer = input(WORLD - 1, COUNT);
            tokio::select! {
                biased;
                () = received.enough.notified() => {}
                _ = kind.call_async(&doomed, &mut buffer, 0) => {}
            }
        });
        // So the doomed peer is the last one of the ring.
        let ranks: Vec<usize> = peers.iter().map(Communicator::rank).collect();
        assert_eq!(ranks, [0, 1, 2]);

        let results = together_with(&mut peers, |index, peer| {
            let mut buffer = input(index, COUNT);
            let result = kind.call(peer, &mut buffer, 0);
            (result.map(|report| report.world_size), buffer)
        });
        doomed.join().unwrap();
        let survivors = ids[..WORLD - 1].to_vec();
        for kind in Kind::all(ids[1]) {
            let buffers = together_with(&mut peers, |index, peer| {
                let mut buffer = input(index, 1000);
                // A loss that the others have not noticed costs them one.
                while let Err(error) = kind.call(peer, &mut buffer, 0) {
                    assert!(error.is_retryable(), "{error}");
                }
                buffer
            });
            let promised = kind.promised(&survivors, &inputs(WORLD - 1, 1000));
            assert_eq!(buffers, promised);
        }
        let worlds = together(&mut peers, |peer| peer.world_size());
        assert_eq!(worlds, [WORLD - 1; WORLD - 1]);
        Self { kind, ids, results }
    }

    fn are_as_before(&self) -> bool {
        let is_before = |(index, (result, buffer)): (usize, &(Result<usize, Error>, Vec<u64>))| {
            matches!(result, Err(Error::Aborted { .. })) && *buffer == input(index, COUNT)
        };
        self.results.iter().enumerate().all(is_before)
    }

    fn have_all(&self) -> bool {
        let promised = self.kind.promised(&self.ids, &inputs(WORLD, COUNT));
        let mut ends = self.results.iter().zip(promised);
        ends.all(|((result, buffer), promised)| *result == Ok(WORLD) && *buffer == promised)
    }

    /// Aborted for all. It may be committed only if the doomed peer lives on until it notices that it has enough.
    fn check(&self, death: Death) {
        let (kind, why) = (self.kind, self.why());
        let is_late = matches!(death, Death::Received(_)) && self.have_all();
        assert!(
            self.are_as_before() || is_late,
            "{kind:?}, {death:?}: {why:?}"
        );
    }

    fn why(&self) -> Vec<&Result<usize, Error>> {
        self.results.iter().map(|(result, _)| result).collect()
    }
}

/// Counts what comes in, from when it is told.
#[derive(Default)]
struct Received {
    /// That may still come. Zero: nobody counts.
    left: AtomicU64,
    enough: Notify,
}

impl Received {
    fn limit(&self, bytes: u64) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    fn on(self: &Arc<Self>, mut lane: Lane) -> Lane {
        let counted = Arc::clone(self);
        lane.rx = on_recv(lane.rx, move |rx, cx, into| {
            let polled = rx.poll_recv(cx, into);
            if let Poll::Ready(Ok(bytes)) = &polled {
                let left = counted.left.load(Ordering::Relaxed);
                let now = left.saturating_sub(*bytes as u64);
                counted.left.store(now, Ordering::Relaxed);
                if left > 0 && now == 0 {
                    counted.enough.notify_one();
                }
            }
            polled
        });
        lane
    }
}

/// A kind, of which the root may be one of these peers.
type OfPeers = dyn Fn(&[PeerId]) -> Kind;

/// The doomed peer is this far behind the root in the ring.
fn behind_root(distance: usize) -> impl Fn(&[PeerId]) -> Kind {
    move |ids| Kind::Broadcast(ids[WORLD - 1 - distance])
}

#[test]
fn a_death_in_the_middle_of_a_broadcast_aborts_it_for_all_whoever_dies() {
    let mebibyte = 1 << 20;
    let root = [Death::At("frame_sent", 1), Death::At("frame_sent", 9), DONE];
    let middle = [
        Death::Received(mebibyte),
        Death::At("frame_sent", 1),
        Death::At("frame_sent", 9),
        DONE,
    ];
    let end = [
        Death::Received(mebibyte),
        Death::Received(8 * mebibyte),
        DONE,
    ];
    let deaths: [&[Death]; WORLD] = [&root, &middle, &middle, &end];
    for (distance, deaths) in deaths.into_iter().enumerate() {
        for death in deaths {
            let survived = Survived::of(behind_root(distance), *death);

            survived.check(*death);
        }
    }
}

#[test]
fn a_death_in_the_middle_of_either_half_of_an_all_reduce_aborts_it_for_all() {
    let deaths = [
        Death::Received(1),
        Death::Received(4 << 20),
        Death::At("frame_sent", 1),
        Death::At("frame_sent", 9),
        DONE,
    ];
    for kind in [Kind::ReduceScatter, Kind::AllGather] {
        for death in deaths {
            let survived = Survived::of(|_| kind, death);

            survived.check(death);
        }
    }
}

#[test]
fn a_death_after_the_own_vote_is_committed_or_aborted_for_all_and_after_the_verdict_committed() {
    let kinds: [&OfPeers; 6] = [
        &|_| Kind::ReduceScatter,
        &|_| Kind::AllGather,
        &behind_root(0),
        &behind_root(1),
        &behind_root(2),
        &behind_root(3),
    ];
    for kind in kinds {
        let voted = Survived::of(kind, VOTED);
        let decided = Survived::of(kind, Death::At("verdict", 1));

        let (which, why) = (voted.kind, voted.why());
        assert!(
            voted.are_as_before() || voted.have_all(),
            "{which:?}: {why:?}"
        );
        assert!(decided.have_all(), "{which:?}: {:?}", decided.why());
    }
}

#[test]
fn a_death_in_a_barrier_aborts_it_or_lets_all_through() {
    for death in [Death::At("plan_started", 1), DONE, VOTED] {
        let survived = Survived::of(|_| Kind::Barrier, death);

        let why = survived.why();
        assert!(
            survived.are_as_before() || survived.have_all(),
            "{death:?}: {why:?}"
        );
    }
}
