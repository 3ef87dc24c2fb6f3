//! What becomes of collectives that have ended here, under a virtual clock.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use pccl_core::element::{ElementType, ReduceOp};
use pccl_core::plan::Algorithm;
use tokio::test;
use tokio::time::sleep;

use super::*;
use crate::tests::support::spec;

const BYTES: u64 = 1 << 20;

fn load(bytes: u64) -> Load {
    let spec = spec(ReduceOp::Sum, ElementType::U8, bytes as usize);
    Load::new(&spec, Algorithm::Ring)
}

/// A peer that holds the loss-based one, with which its collectives take a second.
struct Peer {
    choice: Arc<ControlChoice>,
    seq: Seq,
}

/// How often lanes of a collective were to be given another one.
#[derive(Clone, Default)]
struct Steered(Arc<AtomicUsize>);

impl Steered {
    /// What counts.
    fn once_more(&self) -> impl Fn() + Send + Sync + 'static {
        let count = Arc::clone(&self.0);
        move || {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Peer {
    async fn new() -> Self {
        let choice = Arc::new(ControlChoice::default());
        let mut peer = Self {
            choice,
            seq: Seq(0),
        };
        for _ in 0..6 {
            let (seq, _) = peer.ends_here(1);
            sleep(match peer.choice.wanted() {
                CongestionControl::ModelBased => Duration::from_secs(2),
                CongestionControl::LossBased => Duration::from_secs(1),
            })
            .await;
            peer.choice.stopped(seq, true);
        }
        assert_eq!(peer.choice.wanted(), CongestionControl::LossBased);
        peer
    }

    /// The next collective begins, and ends here at once. So many ran before, and one runs still.
    fn ends_here(&mut self, at_once: usize) -> (Seq, Steered) {
        self.seq = self.seq.next();
        self.choice.begins(self.seq, load(BYTES));
        let has = self.choice.wanted();
        (self.seq, self.awaits(has, at_once))
    }

    /// The last one has ended here, whose lanes have this one.
    fn awaits(&self, has: CongestionControl, at_once: usize) -> Steered {
        let timed = Timed {
            seq: self.seq,
            load: load(BYTES),
            begun: Instant::now(),
            is_comparable: true,
        };
        let steered = Steered::default();
        let ended_here = EndedHere {
            timed,
            is_guarded: has == CongestionControl::LossBased,
            at_once,
        };
        self.choice.awaits(ended_here, || 1, steered.once_more());
        steered
    }
}

#[test(start_paused = true)]
async fn a_collective_that_has_ended_here_is_limited_until_it_is_stopped() {
    let mut peer = Peer::new().await;

    let (seq, steered) = peer.ends_here(1);
    sleep(Duration::from_millis(2_900)).await;
    assert_eq!(peer.choice.wanted(), CongestionControl::LossBased);
    peer.choice.stopped(seq, true);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(peer.choice.wanted(), CongestionControl::LossBased);
    assert_eq!(steered.times(), 0);

    let (_, steered) = peer.ends_here(1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(peer.choice.wanted(), CongestionControl::ModelBased);
    assert_eq!(steered.times(), 1);
}

#[test(start_paused = true)]
async fn a_collective_is_limited_although_another_one_has_ended_and_is_stopped() {
    let mut peer = Peer::new().await;

    let (_, first) = peer.ends_here(2);
    let (second, of_second) = peer.ends_here(2);
    peer.choice.stopped(second, false);
    sleep(Duration::from_secs(60)).await;

    assert_eq!(peer.choice.wanted(), CongestionControl::ModelBased);
    assert_eq!((first.times(), of_second.times()), (1, 0));
}

#[test(start_paused = true)]
async fn a_collective_beside_others_that_are_over_had_its_share_of_the_path() {
    let mut peer = Peer::new().await;

    let (_, steered) = peer.ends_here(5);
    sleep(Duration::from_millis(14_900)).await;
    assert_eq!(peer.choice.wanted(), CongestionControl::LossBased);
    sleep(Duration::from_millis(200)).await;

    assert_eq!(peer.choice.wanted(), CongestionControl::ModelBased);
    assert_eq!(steered.times(), 1);
}

#[test(start_paused = true)]
async fn lanes_of_all_that_have_ended_here_change_when_one_gives_up() {
    let mut peer = Peer::new().await;

    let (_, first) = peer.ends_here(3);
    let (_, second) = peer.ends_here(3);
    peer.choice.give_up(peer.seq.next());

    assert_eq!((first.times(), second.times()), (1, 1));
    assert_eq!(peer.choice.wanted(), CongestionControl::ModelBased);
}

#[test(start_paused = true)]
async fn lanes_of_what_has_ended_here_change_when_a_larger_collective_begins() {
    let mut peer = Peer::new().await;

    let (_, steered) = peer.ends_here(2);
    peer.choice.begins(peer.seq.next(), load(2 * BYTES));

    assert_eq!(peer.choice.wanted(), CongestionControl::ModelBased);
    assert_eq!(steered.times(), 1);
}

#[test(start_paused = true)]
async fn other_links_end_the_guards_and_steer_the_lanes() {
    let mut peer = Peer::new().await;
    sleep(Duration::from_millis(1)).await;
    let before = Arc::strong_count(&peer.choice);

    let (_, steered) = peer.ends_here(1);
    assert!(Arc::strong_count(&peer.choice) > before);
    peer.choice.links_changed();
    sleep(Duration::from_millis(1)).await;

    assert_eq!(steered.times(), 1);
    assert_eq!(Arc::strong_count(&peer.choice), before);
}

#[test(start_paused = true)]
async fn lanes_that_were_given_another_one_too_late_get_it_once_their_run_has_ended() {
    let peer = Peer::new().await;
    let changes = peer.choice.changes();
    peer.choice.give_up(peer.seq);
    assert_eq!(peer.choice.changes(), changes + 1);

    let steered = peer.awaits(CongestionControl::LossBased, 1);
    sleep(Duration::from_millis(1)).await;

    assert_eq!(steered.times(), 1);
}
