//! Transfers between two peers over simulated lanes, under the paused clock.

use std::net::SocketAddr;

use pccl_core::id::{ContentHash, Identity, Revision, Ticket};
use pccl_core::shared_state::SyncPlan;
use pccl_core::transport::{BoxFuture, Endpoint, Listener, Security};
use pccl_kernels::Content;
use pccl_transport_memory::{Path, pair};
use tokio::time::Instant;

use super::*;
use pccl_plane::Sensor;

mod hostile;
mod several;

const STALL: Duration = Duration::from_secs(10);

const WINDOW: usize = 64 * 1024;

/// A long way: 300 ms there and back, and a window that makes the lane slow.
const FAR: Path = Path {
    delay: Duration::from_millis(150),
    window: WINDOW,
    ..Path::NEAR
};

/// Nobody dials here.
struct NoTransport;

impl Transport for NoTransport {
    fn listen(
        &self,
        _: SocketAddr,
        _: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async { Err(LaneError::AddressNotAvailable) })
    }

    fn open<'a>(
        &'a self,
        _: &'a Endpoint,
        _: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async { Err(LaneError::Refused) })
    }

    fn lanes_per_edge(&self) -> u16 {
        1
    }
}

/// Content that is nowhere the same.
fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let words = (0_u64..).map(|word| (word ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bytes_of = words.flat_map(u64::to_le_bytes);
    bytes_of.take(bytes).collect()
}

fn hash(content: &[u8]) -> ContentHash {
    ContentHash::from_blake3(pccl_kernels::content_hash(content))
}

/// Two peers: one that holds these entries, and one that wants them.
struct Two {
    held: Vec<Vec<u8>>,
    staging: Mutex<Staging>,
    progress: Progress,
}

/// How a transfer ended.
struct Ended {
    served: Result<Moved, TransferError>,
    fetched: Result<Moved, TransferError>,
    took: Duration,
}

impl Two {
    fn new(held: Vec<Vec<u8>>) -> Self {
        Self {
            held,
            staging: Mutex::default(),
            progress: Progress::default(),
        }
    }

    /// What was fetched, if all of it was and is right.
    fn has_all(&self) -> bool {
        let mut staging = lock(&self.staging);
        let is_checked = staging.open_entries() == 0;
        let bytes_of = |room: &Room| {
            let mut bytes = vec![0; room.length()];
            assert!(room.copy_to(&mut bytes));
            bytes
        };
        let fetched: Vec<Vec<u8>> = staging.take().map(|(_, one)| bytes_of(&one)).collect();
        is_checked && fetched == self.held
    }

    /// A transfer of everything over lanes that bring the content this way.
    async fn transfer(&self, paths: &[Path]) -> Ended {
        self.transfer_hashed(paths, hash).await
    }

    async fn transfer_hashed(&self, paths: &[Path], hash: impl Fn(&[u8]) -> ContentHash) -> Ended {
        let entries = (0..)
            .map(EntryIndex)
            .zip(self.held.iter().map(|content| hash(content)));
        let (mut held, mut wanted) = (self.held.clone(), self.held.clone());
        wanted.iter_mut().for_each(|entry| entry.fill(0));
        let (holder, wanter) = (holding(&mut held, 1), holding(&mut wanted, 0));
        let (of_holder, of_wanter): (Vec<_>, Vec<_>) = paths
            .iter()
            .map(|path| {
                let back = Path {
                    carries: u64::MAX,
                    ..*path
                };
                pair(*path, back)
            })
            .unzip();
        let (serve, fetch) = (
            SyncRole::Distribute { to: vec![order(2)] },
            SyncRole::Request {
                from: vec![order(1)],
                entries: entries.collect::<Vec<_>>().into(),
            },
        );
        let own = Mutex::default();
        let begun = Instant::now();
        let (served, fetched) = tokio::join!(
            carry_out(means(&own), &holder, self.plan(serve, of_holder)),
            carry_out(means(&self.staging), &wanter, self.plan(fetch, of_wanter)),
        );
        Ended {
            served: served.map_err(|failed| failed.error),
            fetched: fetched.map_err(|failed| failed.error),
            took: begun.elapsed(),
        }
    }

    fn plan(&self, role: SyncRole, lanes: Vec<Lane>) -> MoveOrder {
        let with = match &role {
            SyncRole::Distribute { .. } => PeerId(2),
            SyncRole::Request { .. } => PeerId(1),
        };
        let lanes = lanes.into_iter().map(|lane| (with, lane));
        plan(PeerId(3 - with.0), role, lanes, &self.progress)
    }
}

/// A state of these entries.
fn holding(entries: &mut [Vec<u8>], revision: u64) -> SharedState<'_> {
    let mut state = SharedState::at(revision);
    for (index, content) in entries.iter_mut().enumerate() {
        state.entry(format!("{index:05}"), content).unwrap();
    }
    state
}

/// What a peer is to do, with lanes from these peers that have been opened.
fn plan(
    me: PeerId,
    role: SyncRole,
    lanes: impl IntoIterator<Item = (PeerId, Lane)>,
    progress: &Progress,
) -> MoveOrder {
    let expected = lanes.into_iter().map(|(with, lane)| {
        let (sender, expected) = oneshot::channel();
        sender.send(lane).unwrap();
        (with, expected)
    });
    MoveOrder {
        me,
        plan: SyncPlan {
            round: Round(1),
            revision: Revision(1),
            role,
        },
        expected: expected.collect(),
        progress: progress.clone(),
    }
}

fn means(staging: &Mutex<Staging>) -> Means<'_> {
    Means {
        transport: &NoTransport,
        stall: STALL,
        staging,
    }
}

fn order(with: u64) -> LaneOrder {
    LaneOrder {
        with: PeerId(with),
        ticket: Ticket(1),
        dial: None,
        lanes: 4,
        identity: None,
    }
}

#[tokio::test(start_paused = true)]
async fn four_lanes_of_a_long_way_bring_content_three_times_as_fast_as_one() {
    let two = Two::new(vec![content(6_000_000, 1), content(2_000_000, 2)]);

    let one = two.transfer(&[FAR]).await;
    assert!(two.has_all());
    let four = two.transfer(&[FAR; 4]).await;

    let total = 8_000_000.0;
    let window_limit = WINDOW as f64 / 0.3;
    let rate = |ended: &Ended| total / ended.took.as_secs_f64() / window_limit;
    println!(
        "of what one window allows: one lane {:.2}, four lanes {:.2}",
        rate(&one),
        rate(&four)
    );
    assert!(two.has_all());
    assert!(rate(&one) > 0.97, "a lane runs dry between two requests");
    assert!(rate(&four) > 3.0 * rate(&one));
    for ended in [one, four] {
        assert_eq!(ended.served.unwrap().bytes_sent, 8_000_000);
        assert_eq!(ended.fetched.unwrap().bytes_received, 8_000_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transfer_takes_as_long_as_it_takes() {
    let two = Two::new(vec![content(30_000, 1)]);
    let narrow = Path { window: 100, ..FAR };

    let ended = two.transfer(&[narrow]).await;

    assert!(ended.took > 8 * STALL, "{:?}", ended.took);
    assert!(ended.served.is_ok() && ended.fetched.is_ok() && two.has_all());
}

#[tokio::test(start_paused = true)]
async fn what_a_lane_does_not_bring_the_others_do() {
    let two = Two::new(vec![content(8_000_000, 1)]);
    let ends = Path {
        carries: 300_000,
        ..FAR
    };

    let ended = two.transfer(&[FAR, ends, FAR]).await;

    assert_eq!(ended.fetched.unwrap().bytes_received, 8_000_000);
    assert!(ended.served.is_ok() && two.has_all());
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_drips_holds_nobody_up() {
    let two = Two::new(vec![content(8_000_000, 1)]);
    let drips = Path { window: 20, ..FAR };

    let without = two.transfer(&[FAR; 2]).await;
    assert!(two.has_all());
    let with = two.transfer(&[FAR, drips, FAR]).await;

    assert!(with.took < without.took + 2 * STALL, "{:?}", with.took);
    assert!(with.served.is_ok() && with.fetched.is_ok() && two.has_all());
}

#[tokio::test(start_paused = true)]
async fn a_transfer_whose_lanes_all_stall_fails_after_the_stall_time() {
    let two = Two::new(vec![content(8_000_000, 1)]);
    let stalls = Path {
        carries: 300_000,
        ..FAR
    };

    let ended = two.transfer(&[stalls; 2]).await;

    assert!(matches!(
        ended.fetched,
        Err(TransferError::Stalled | TransferError::Lane(_))
    ));
    assert!(ended.took < 3 * STALL, "{:?}", ended.took);
}

#[tokio::test(start_paused = true)]
async fn what_was_fetched_is_not_fetched_again() {
    let two = Two::new(vec![content(100_000, 1), content(400_000, 2)]);
    let stalls = Path {
        carries: 300_000,
        ..FAR
    };

    let first = two.transfer(&[stalls]).await;
    let kept = lock(&two.staging).bytes();
    let second = two.transfer(&[FAR; 2]).await;

    assert!(first.fetched.is_err());
    assert_eq!(kept, 500_000);
    // All that had arrived, but for the headers of the ranges.
    let received = second.fetched.unwrap().bytes_received;
    assert!((200_000..=200_100).contains(&received), "{received}");
    assert!(two.has_all());
    assert_eq!(lock(&two.staging).bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn content_of_another_hash_is_refused_and_not_kept() {
    let two = Two::new(vec![content(100_000, 1), content(100, 2)]);
    let wrong = |content: &[u8]| ContentHash(u128::from(content.len() == 100) ^ hash(content).0);

    let ended = two.transfer_hashed(&[FAR; 2], wrong).await;
    assert!(matches!(
        ended.fetched,
        Err(TransferError::WrongContent(EntryIndex(1)))
    ));
    assert_eq!(lock(&two.staging).bytes(), 100_000);

    let again = two.transfer(&[FAR; 2]).await;
    assert!(again.fetched.is_ok() && two.has_all());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_small_entries_do_not_cost_a_round_trip_each() {
    let two = Two::new((0..5_000).map(|entry| content(entry % 7, 3)).collect());

    let ended = two.transfer(&[FAR; 4]).await;

    assert!(ended.took < Duration::from_secs(10), "{:?}", ended.took);
    assert!(ended.served.is_ok() && ended.fetched.is_ok() && two.has_all());
}

#[tokio::test(start_paused = true)]
async fn where_everything_is_there_already_the_other_end_is_not_kept_waiting() {
    let two = Two::new(vec![content(100_000, 1)]);
    two.transfer(&[FAR]).await.fetched.unwrap();

    let again = two.transfer(&[FAR; 4]).await;

    assert!(again.took < STALL);
    assert_eq!(again.fetched.unwrap(), Moved::default());
    assert_eq!(again.served.unwrap(), Moved::default());
}

#[tokio::test(start_paused = true)]
async fn what_moves_is_noticed_and_waiting_is_not() {
    let two = Two::new(vec![content(100_000, 1)]);
    let mut sensor = Sensor::new(two.progress.clone());

    let nothing_arrives = Path { carries: 0, ..FAR };
    // What the holder sends into a lane that is lost has moved here, as far as it knows.
    two.transfer(&[nothing_arrives]).await.fetched.unwrap_err();
    assert!(sensor.moved_since_last());
    two.transfer(&[]).await.fetched.unwrap_err();
    assert!(!sensor.moved_since_last());
    two.transfer(&[FAR]).await.fetched.unwrap();
    assert!(sensor.moved_since_last());
}
