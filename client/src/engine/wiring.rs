//! One attempt to connect ring edges: all lanes of the ordered edges at once.
//!
//! The two edges have nothing to do with each other: each is up when all of its lanes are, and one that
//! fails leaves the other one to be connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use pccl_core::id::{PeerId, Round};
use pccl_core::topology::{Edge, LaneFailure, LaneOrder};
use pccl_core::transport::{Lane, Transport};
use pccl_core::wire::{Preamble, Purpose};
use tokio::task::JoinSet;

use super::dial::dial;
use super::door::Door;

/// Lanes that are being opened. Dropping it gives the attempt up.
#[derive(Debug)]
pub(super) struct Wiring {
    round: Round,
    /// `None`: was not ordered, or has been told of.
    to_next: Option<Opening>,
    from_previous: Option<Opening>,
}

/// The lanes of one edge. Dropping it gives them up.
#[derive(Debug)]
struct Opening {
    lanes: JoinSet<Opened>,
    /// By their numbers.
    up: BTreeMap<u16, Lane>,
    ordered: usize,
}

/// How opening one lane ended.
#[derive(Debug)]
struct Opened {
    number: u16,
    lane: Result<Lane, LaneFailure>,
}

/// How connecting one edge has ended. Told once per ordered edge.
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) round: Round,
    pub(super) edge: Edge,
    /// All lanes, in the order of their numbers.
    pub(super) lanes: Result<Vec<Lane>, LaneFailure>,
}

impl Wiring {
    /// Starts to open the lanes. Has to be called inside a tokio runtime.
    pub(super) fn start(
        round: Round,
        (next, previous): (Option<LaneOrder>, Option<LaneOrder>),
        me: PeerId,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let mut start = |order| Opening::start(order, me, transport, door);
        Self {
            round,
            to_next: next.map(&mut start),
            from_previous: previous.map(&mut start),
        }
    }

    /// Waits until there is something to tell; never returns where there is nothing left to.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Wired {
        let round = self.round;
        tokio::select! {
            biased;
            lanes = all_lanes(&mut self.to_next) => Wired { round, edge: Edge::ToNext, lanes },
            lanes = all_lanes(&mut self.from_previous) => {
                Wired { round, edge: Edge::FromPrevious, lanes }
            }
        }
    }
}

impl Opening {
    fn start(
        order: LaneOrder,
        me: PeerId,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let mut opening = Self {
            lanes: JoinSet::new(),
            up: BTreeMap::new(),
            ordered: usize::from(order.lanes),
        };
        for number in 0..order.lanes {
            let preamble = Preamble {
                purpose: Purpose::RingLane,
                from: me,
                ticket: order.ticket,
                lane: number,
                lanes: order.lanes,
            };
            opening.open(order, preamble, transport, door);
        }
        opening
    }

    fn open(
        &mut self,
        order: LaneOrder,
        preamble: Preamble,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) {
        let number = preamble.lane;
        let opened = move |lane| Opened { number, lane };
        if order.dial.is_some() {
            let transport = Arc::clone(transport);
            self.lanes
                .spawn(async move { opened(dial(&*transport, &order, preamble).await) });
        } else {
            let expected = door.expect(Purpose::RingLane, &order, (number, order.lanes));
            self.lanes.spawn(async move {
                match expected.await {
                    Ok(lane) => opened(Ok(lane)),
                    // The end that dials knows more, and reports it.
                    Err(_) => std::future::pending().await,
                }
            });
        }
    }
}

/// Waits until all lanes of an edge are up or one has failed; never returns where there is none to wait
/// for. Cancel-safe.
async fn all_lanes(edge: &mut Option<Opening>) -> Result<Vec<Lane>, LaneFailure> {
    while let Some(opening) = edge {
        match opening.lanes.join_next().await {
            Some(Ok(Opened { number, lane })) => match lane {
                Ok(lane) => {
                    opening.up.insert(number, lane);
                    if opening.up.len() == opening.ordered {
                        let up = std::mem::take(&mut opening.up);
                        *edge = None;
                        return Ok(up.into_values().collect());
                    }
                }
                Err(failure) => {
                    *edge = None;
                    return Err(failure);
                }
            },
            // A task that panicked has opened nothing; its lane stays missing.
            Some(Err(_)) => {}
            None => break,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
