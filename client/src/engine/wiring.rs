//! One attempt to connect ring edges: all lanes of all ordered edges at once.

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
    opening: JoinSet<Opened>,
    edges: BTreeMap<Edge, BTreeMap<u16, Lane>>,
    /// Lanes that are missing, over all edges.
    missing: usize,
    failed: bool,
}

/// How opening one lane ended.
#[derive(Debug)]
pub(super) struct Opened {
    edge: Edge,
    with: PeerId,
    number: u16,
    lane: Result<Lane, LaneFailure>,
}

/// What is to be reported about an attempt, once.
#[derive(Debug)]
pub(super) enum Wired {
    Up {
        round: Round,
        edges: Vec<(Edge, Vec<Lane>)>,
    },
    Failed {
        round: Round,
        with: PeerId,
        failure: LaneFailure,
    },
}

impl Wiring {
    /// Starts to open the lanes. Has to be called inside a tokio runtime.
    pub(super) fn start(
        round: Round,
        lanes: u16,
        orders: &[(Edge, LaneOrder)],
        me: PeerId,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let mut wiring = Self {
            round,
            opening: JoinSet::new(),
            edges: orders
                .iter()
                .map(|(edge, _)| (*edge, BTreeMap::new()))
                .collect(),
            missing: orders.len() * usize::from(lanes),
            failed: false,
        };
        for (edge, order) in orders {
            for number in 0..lanes {
                let preamble = Preamble {
                    purpose: Purpose::RingLane,
                    from: me,
                    ticket: order.ticket,
                    lane: number,
                    lanes,
                };
                wiring.open(*edge, *order, preamble, transport, door);
            }
        }
        wiring
    }

    fn open(
        &mut self,
        edge: Edge,
        order: LaneOrder,
        preamble: Preamble,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) {
        let opened = move |lane| Opened {
            edge,
            with: order.with,
            number: preamble.lane,
            lane,
        };
        if order.dial.is_some() {
            let transport = Arc::clone(transport);
            self.opening
                .spawn(async move { opened(dial(&*transport, &order, preamble).await) });
        } else {
            let number = (preamble.lane, preamble.lanes);
            let expected = door.expect(Purpose::RingLane, &order, number);
            self.opening.spawn(async move {
                match expected.await {
                    Ok(lane) => opened(Ok(lane)),
                    // The end that dials knows more, and reports it.
                    Err(_) => std::future::pending().await,
                }
            });
        }
    }

    /// Waits until there is something to report; never returns where there is nothing left to.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Wired {
        loop {
            let Some(opened) = self.opening.join_next().await else {
                return std::future::pending().await;
            };
            // A task that panicked has opened nothing; its lane stays missing.
            if let Ok(opened) = opened
                && let Some(wired) = self.note(opened)
            {
                return wired;
            }
        }
    }

    fn note(&mut self, opened: Opened) -> Option<Wired> {
        match opened.lane {
            Ok(lane) => {
                let edge = self.edges.get_mut(&opened.edge)?;
                if edge.insert(opened.number, lane).is_none() {
                    self.missing = self.missing.saturating_sub(1);
                }
                (self.missing == 0 && !self.failed).then(|| self.up())
            }
            Err(failure) if !self.failed => {
                self.failed = true;
                Some(Wired::Failed {
                    round: self.round,
                    with: opened.with,
                    failure,
                })
            }
            Err(_) => None,
        }
    }

    fn up(&mut self) -> Wired {
        let edges = std::mem::take(&mut self.edges);
        Wired::Up {
            round: self.round,
            edges: edges
                .into_iter()
                .map(|(edge, lanes)| (edge, lanes.into_values().collect()))
                .collect(),
        }
    }
}
