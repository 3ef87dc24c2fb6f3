//! The receiving end of a measurement. Whoever sends decides what a failure means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pccl_core::transport::{
    Lane, LaneError, LaneRx, LaneTx, close, recv_exact, recv_some, send_all,
};
use pccl_core::wire::{PROBE_BYTES_MAX, PROBE_PINGS, encode_probe_answer};
use pccl_plane::Progress;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::PIECE_BYTES;
use super::estimate::REPORT_EVERY;

/// Answers a measurement over these lanes; returns how many bytes have arrived. `None`: a lane ended, or too
/// many have.
pub(super) async fn answer(lanes: Vec<Lane>, progress: &Progress) -> Option<u64> {
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) =
        lanes.into_iter().map(|lane| (lane.tx, lane.rx)).unzip();
    let (reports, first) = (senders.first_mut()?, receivers.first_mut()?);
    echo(reports.as_mut(), first.as_mut()).await.ok()?;
    let arrived = Arc::new(AtomicU64::new(0));
    let mut counting = JoinSet::new();
    for rx in receivers {
        counting.spawn(count(rx, Arc::clone(&arrived), progress.clone()));
    }
    let mut tick = interval(REPORT_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // The lanes end once each, so they do not hold back the reports.
            biased;
            ended = counting.join_next() => match ended {
                Some(Ok(Ok(()))) => continue,
                Some(Ok(Err(_)) | Err(_)) => return None,
                None => break,
            },
            _ = tick.tick() => {
                let report = encode_probe_answer(arrived.load(Ordering::Relaxed));
                send_all(reports.as_mut(), &report, &[]).await.ok()?;
            }
        }
    }
    close(reports.as_mut()).await.ok()?;
    Some(arrived.load(Ordering::Relaxed))
}

async fn echo(tx: &mut dyn LaneTx, rx: &mut dyn LaneRx) -> Result<(), LaneError> {
    for _ in 0..PROBE_PINGS {
        let mut ping = [0];
        recv_exact(rx, &mut ping).await?;
        send_all(tx, &ping, &[]).await?;
    }
    Ok(())
}

async fn count(
    mut rx: Box<dyn LaneRx>,
    arrived: Arc<AtomicU64>,
    progress: Progress,
) -> Result<(), LaneError> {
    let mut sink = vec![0; 2 * PIECE_BYTES];
    loop {
        let received = recv_some(rx.as_mut(), &mut sink).await? as u64;
        if received == 0 {
            return Ok(());
        }
        progress.moved();
        if arrived.fetch_add(received, Ordering::Relaxed) > PROBE_BYTES_MAX {
            return Err(LaneError::Closed);
        }
    }
}
