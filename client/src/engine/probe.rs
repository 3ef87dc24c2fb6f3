//! Measuring edges to other peers, and letting them measure.
//!
//! An edge is measured over as many lanes as a link of the ring would have, by the end that sends. All edges of
//! an order are measured at the same time: one of them, or in the end all that a ring needs.
//!
//! | file | what it is for |
//! |---|---|
//! | `sending` | round trips, then bytes until the estimate is stable |
//! | `receiving` | counting, and telling the sender how much has arrived |
//! | `estimate` | the rate, and when to stop |
//! | `allowance` | how much may be sent until more is known |

mod allowance;
mod estimate;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{PeerId, Round};
use pccl_core::paths;
use pccl_core::topology::{LinkOrder, Way};
use pccl_core::transport::{Lane, Transport};
use pccl_core::wire::{Preamble, Purpose};
use pccl_plane::Progress;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::dial::dial;
use super::door::Door;

/// Bytes that are handed to a lane at once.
const PIECE_BYTES: usize = 128 * 1024;

/// A measurement that has not ended after so long has failed. Less than a master waits for a rotation.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// What is measured, as it becomes known.
#[derive(Debug)]
pub(super) enum Measurement {
    Reached {
        round: Round,
        to: PeerId,
        measured: paths::Measurement,
    },
    Over {
        round: Round,
    },
}

/// The measurements of one round. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Probing {
    round: Round,
    /// One for each edge on which this peer sends; `Some`: what was found.
    sending: JoinSet<Option<(PeerId, paths::Measurement)>>,
    /// One for each edge on which it receives. How that ends is for the sender to say.
    receiving: JoinSet<()>,
    is_over: bool,
}

impl Probing {
    /// Starts to measure, and to answer whoever measures towards this peer. Has to be called inside a tokio
    /// runtime.
    pub(super) fn start(
        round: Round,
        probes: &[LinkOrder],
        me: PeerId,
        (seed, progress): (u64, &Progress),
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        // Bytes that nothing on the way can compress.
        let mut piece = vec![0; PIECE_BYTES];
        StdRng::seed_from_u64(seed ^ round.0).fill_bytes(&mut piece);
        let piece: Arc<[u8]> = piece.into();
        let (mut sending, mut receiving) = (JoinSet::new(), JoinSet::new());
        for probe in probes {
            let lanes = Opening::start(probe, me, transport, door);
            let (with, progress) = (probe.lanes.with, progress.clone());
            match probe.way {
                Way::Out => {
                    let piece = Arc::clone(&piece);
                    sending.spawn(async move {
                        let sent =
                            async { sending::measure(lanes.all().await?, &piece, &progress).await };
                        let measured = timeout(PROBE_LIMIT, sent).await.ok().flatten();
                        if measured.is_none() {
                            tracing::debug!(to = with.0, "a measurement failed");
                        }
                        Some((with, measured?))
                    });
                }
                Way::In => {
                    receiving.spawn(async move {
                        let received =
                            async { receiving::answer(lanes.all().await?, &progress).await };
                        let counted = timeout(PROBE_LIMIT, received).await;
                        tracing::trace!(?counted, from = with.0, "answered a measurement");
                    });
                }
            }
        }
        Self {
            round,
            sending,
            receiving,
            is_over: false,
        }
    }

    /// What is known next; never returns where everything is. This peer's part is over with its own measurements: the
    /// master waits for those of others, and orders what comes then. Cancel-safe.
    pub(super) async fn next(&mut self) -> Measurement {
        let round = self.round;
        // Those that have ended need no memory.
        while self.receiving.try_join_next().is_some() {}
        loop {
            match self.sending.join_next().await {
                Some(Ok(Some((to, measured)))) => {
                    return Measurement::Reached {
                        round,
                        to,
                        measured,
                    };
                }
                // One that panicked has measured nothing.
                Some(Ok(None) | Err(_)) => {}
                None if self.is_over => return std::future::pending().await,
                None => {
                    self.is_over = true;
                    return Measurement::Over { round };
                }
            }
        }
    }

    /// Whether these are the measurements of that round.
    pub(super) fn is_of(&self, round: Round) -> bool {
        self.round == round
    }
}

/// The lanes of one edge, as they are opened. Dropping it gives them up.
struct Opening {
    lanes: JoinSet<Option<(u16, Lane)>>,
    expected: usize,
}

impl Opening {
    fn start(
        probe: &LinkOrder,
        me: PeerId,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let order = probe.lanes;
        let mut lanes = JoinSet::new();
        for number in 0..order.lanes {
            if order.dial.is_some() {
                let preamble = Preamble {
                    purpose: Purpose::Probe,
                    from: me,
                    ticket: order.ticket,
                    lane: number,
                    lanes: order.lanes,
                };
                let transport = Arc::clone(transport);
                lanes.spawn(async move {
                    let lane = dial(&*transport, &order, preamble).await;
                    Some((number, lane.ok()?))
                });
            } else {
                let lane: oneshot::Receiver<Lane> =
                    door.expect(Purpose::Probe, &order, (number, order.lanes));
                lanes.spawn(async move { Some((number, lane.await.ok()?)) });
            }
        }
        Self {
            lanes,
            expected: usize::from(order.lanes),
        }
    }

    /// All lanes by their numbers; `None` if one did not come up.
    async fn all(mut self) -> Option<Vec<Lane>> {
        let mut lanes = Vec::with_capacity(self.expected);
        while let Some(opened) = self.lanes.join_next().await {
            lanes.push(opened.ok().flatten()?);
        }
        lanes.sort_by_key(|(number, _)| *number);
        let lanes: Vec<Lane> = lanes.into_iter().map(|(_, lane)| lane).collect();
        (lanes.len() == self.expected).then_some(lanes)
    }
}
