//! Measuring the bandwidth to other peers, and letting them measure.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{PeerId, Round};
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, Transport, close, recv_exact, recv_some, send_all};
use pccl_core::wire::{
    PROBE_ANSWER_BYTES, PROBE_BYTES_MAX, Preamble, Purpose, decode_probe_answer,
    encode_probe_answer,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::dial::dial;
use super::door::Door;
use pccl_plane::Progress;

/// Bytes that are handed to the lane at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A measurement ends with so many bytes, or after so long, whichever comes first: past the slow start
/// of a connection on the internet, and short enough to measure many pairs.
const PROBE_BYTES: u64 = 4 * 1024 * 1024;
const PROBE_TIME: Duration = Duration::from_millis(200);

/// A measurement that has not ended after so long counts as unreachable.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// What is measured, as it becomes known.
#[derive(Debug)]
pub(super) enum Measurement {
    Reached {
        round: Round,
        to: PeerId,
        kbit_per_s: u64,
    },
    Over {
        round: Round,
    },
}

/// The measurements of one round. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Probing {
    tasks: JoinSet<()>,
    measured: mpsc::UnboundedReceiver<Measurement>,
}

impl Probing {
    /// Starts to measure, one peer after the other, and to answer whoever measures towards this peer.
    /// Has to be called inside a tokio runtime.
    pub(super) fn start(
        round: Round,
        probes: Vec<LaneOrder>,
        me: PeerId,
        (seed, progress): (u64, &Progress),
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let (report, measured) = mpsc::unbounded_channel();
        let (outward, inward): (Vec<_>, Vec<_>) =
            probes.into_iter().partition(|probe| probe.dial.is_some());
        for probe in inward {
            let lane = door.expect(Purpose::Probe, &probe, (0, 1));
            tasks.spawn(answer(lane, progress.clone()));
        }
        let progress = progress.clone();
        let transport = Arc::clone(transport);
        tasks.spawn(async move {
            let mut piece = vec![0; PIECE_BYTES];
            // Bytes that nothing on the way can compress.
            StdRng::seed_from_u64(seed ^ round.0).fill_bytes(&mut piece);
            for probe in outward {
                let to = probe.with;
                match timeout(
                    PROBE_LIMIT,
                    measure(&*transport, &probe, me, (&piece, &progress)),
                )
                .await
                {
                    Ok(Some(kbit_per_s)) => {
                        let reached = Measurement::Reached {
                            round,
                            to,
                            kbit_per_s,
                        };
                        // The engine drops its end only together with this task.
                        let _ = report.send(reached);
                    }
                    Ok(None) | Err(_) => tracing::debug!(to = to.0, "a measurement failed"),
                }
            }
            let _ = report.send(Measurement::Over { round });
        });
        Self { tasks, measured }
    }

    /// What is known next; never returns where everything is. Cancel-safe.
    pub(super) async fn next(&mut self) -> Measurement {
        loop {
            tokio::select! {
                biased;
                Some(measurement) = self.measured.recv() => return measurement,
                Some(_) = self.tasks.join_next() => {}
                else => return std::future::pending().await,
            }
        }
    }
}

/// Kilobits per second towards one peer; `None` where it cannot be reached.
async fn measure(
    transport: &dyn Transport,
    probe: &LaneOrder,
    me: PeerId,
    (piece, progress): (&[u8], &Progress),
) -> Option<u64> {
    let preamble = Preamble {
        purpose: Purpose::Probe,
        from: me,
        ticket: probe.ticket,
        lane: 0,
        lanes: 1,
    };
    let mut lane = dial(transport, probe, preamble).await.ok()?;
    let begun = Instant::now();
    let arrived = pour(&mut lane, (piece, progress), begun).await.ok()?;
    let microseconds = u64::try_from(begun.elapsed().as_micros()).ok()?.max(1);
    // bits per microsecond are megabits per second
    arrived.saturating_mul(8_000).checked_div(microseconds)
}

/// Sends for a while and returns how many bytes have arrived.
async fn pour(
    lane: &mut Lane,
    (piece, progress): (&[u8], &Progress),
    begun: Instant,
) -> Result<u64, LaneError> {
    let mut sent = 0;
    while sent < PROBE_BYTES && begun.elapsed() < PROBE_TIME {
        send_all(lane.tx.as_mut(), piece, &[]).await?;
        sent += piece.len() as u64;
        progress.moved();
    }
    close(lane.tx.as_mut()).await?;
    let mut answer = [0; PROBE_ANSWER_BYTES];
    recv_exact(lane.rx.as_mut(), &mut answer).await?;
    Ok(decode_probe_answer(answer).min(sent))
}

/// Counts what another peer sends, and tells it. Whoever measures decides what a failure means.
async fn answer(lane: oneshot::Receiver<Lane>, progress: Progress) {
    if let Ok(mut lane) = lane.await {
        let counted = timeout(PROBE_LIMIT, count(&mut lane, &progress)).await;
        tracing::trace!(?counted, "answered a measurement");
    }
}

async fn count(lane: &mut Lane, progress: &Progress) -> Result<u64, LaneError> {
    let mut arrived = 0;
    let mut sink = vec![0; PIECE_BYTES];
    loop {
        match recv_some(lane.rx.as_mut(), &mut sink).await? {
            0 => break,
            n => arrived += n as u64,
        }
        progress.moved();
        if arrived > PROBE_BYTES_MAX {
            return Err(LaneError::Closed);
        }
    }
    send_all(lane.tx.as_mut(), &encode_probe_answer(arrived), &[]).await?;
    close(lane.tx.as_mut()).await?;
    Ok(arrived)
}
