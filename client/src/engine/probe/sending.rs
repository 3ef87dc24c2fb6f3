//! The sending end of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pccl_core::paths::Measurement;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_exact, send_all};
use pccl_core::wire::{PROBE_ANSWER_BYTES, PROBE_PINGS, decode_probe_answer};
use pccl_plane::Progress;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::allowance::Allowance;
use super::estimate::{Estimate, IN_FLIGHT_MIN};

/// How long the sender waits for the end of what is on its way.
const DRAIN: Duration = Duration::from_secs(5);

/// Measures over these lanes. `None`: one of them ended.
pub(super) async fn measure(
    lanes: Vec<Lane>,
    piece: &Arc<[u8]>,
    progress: &Progress,
) -> Option<Measurement> {
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) =
        lanes.into_iter().map(|lane| (lane.tx, lane.rx)).unzip();
    let (first, reports) = (senders.first_mut()?, receivers.first_mut()?);
    let round_trip = ping(first.as_mut(), reports.as_mut()).await.ok()?;
    let mut estimate = Estimate::new(Instant::now(), round_trip);
    let allowed = Arc::new(Allowance::new(IN_FLIGHT_MIN));
    let sent = Arc::new(AtomicU64::new(0));
    let mut pouring = JoinSet::new();
    for tx in senders {
        let (piece, sent) = (Arc::clone(piece), Arc::clone(&sent));
        let allowed = Arc::clone(&allowed);
        let progress = progress.clone();
        pouring.spawn(pour(tx, (piece, sent), allowed, progress));
    }
    meter(reports.as_mut(), &sent, &mut estimate, &allowed)
        .await
        .ok()?;
    Some(Measurement {
        bytes_per_s: estimate.bytes_per_s()?,
        round_trip_us: u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX),
    })
}

/// The shortest of some round trips.
async fn ping(tx: &mut dyn LaneTx, rx: &mut dyn LaneRx) -> Result<Duration, LaneError> {
    let mut shortest = Duration::MAX;
    for number in 0..PROBE_PINGS {
        let begun = Instant::now();
        send_all(tx, &[number], &[]).await?;
        recv_exact(rx, &mut [0]).await?;
        shortest = shortest.min(begun.elapsed());
    }
    Ok(shortest)
}

/// Sends on one lane as long as more is allowed than all lanes have sent.
async fn pour(
    mut tx: Box<dyn LaneTx>,
    (piece, sent): (Arc<[u8]>, Arc<AtomicU64>),
    allowed: Arc<Allowance>,
    progress: Progress,
) -> Result<(), LaneError> {
    while allowed.beyond(&sent).await {
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        send_all(tx.as_mut(), &piece, &[]).await?;
        progress.moved();
    }
    close(tx.as_mut()).await
}

/// Takes the receiver's reports until the estimate is good enough, then waits for what is on its way.
async fn meter(
    reports: &mut dyn LaneRx,
    sent: &AtomicU64,
    estimate: &mut Estimate,
    allow: &Allowance,
) -> Result<(), LaneError> {
    let mut report = [0; PROBE_ANSWER_BYTES];
    let mut counted = 0;
    loop {
        recv_exact(reports, &mut report).await?;
        let now = Instant::now();
        let arrived = decode_probe_answer(report);
        // Nothing that has arrived is taken back, and no more arrives than was sent.
        if arrived < counted || arrived > sent.load(Ordering::Relaxed) {
            return Err(LaneError::Closed);
        }
        counted = arrived;
        estimate.note(now, arrived);
        if estimate.is_over(now) {
            break;
        }
        allow.raise(estimate.allowed(now));
    }
    allow.end();
    // The receiver closes its end once everything has arrived.
    let drained = async { while recv_exact(reports, &mut report).await.is_ok() {} };
    // If that takes too long, the estimate is as good as it was.
    let _ = timeout(DRAIN, drained).await;
    Ok(())
}
