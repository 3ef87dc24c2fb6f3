//! One attempt to connect links: all lanes of the ordered links at once.
//!
//! Links have nothing to do with each other: each is up when all of its lanes are, and one that fails leaves
//! the others to be connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use pccl_core::id::{PeerId, Round};
use pccl_core::topology::{LaneFailure, LaneOrder, LinkId, LinkOrder};
use pccl_core::transport::{Lane, Transport};
use pccl_core::wire::{Preamble, Purpose};
use tokio::task::{AbortHandle, JoinSet};

use super::dial::dial;
use super::door::Door;

/// Lanes that are being opened. Dropping it gives the attempt up.
#[derive(Debug)]
pub(super) struct Wiring {
    round: Round,
    /// Lanes of all links that are being opened.
    opening: JoinSet<Opened>,
    /// Links that were ordered, and not told of yet.
    links: BTreeMap<LinkId, Opening>,
}

/// What is there of one link.
#[derive(Debug)]
struct Opening {
    /// The other end, if it is to open the lanes.
    expected: Option<PeerId>,
    /// By their numbers.
    up: BTreeMap<u16, Lane>,
    ordered: usize,
    tasks: Vec<AbortHandle>,
}

/// How opening one lane ended.
#[derive(Debug)]
struct Opened {
    link: LinkId,
    number: u16,
    lane: Result<Lane, LaneFailure>,
}

/// How connecting one link has ended. Told once per ordered link.
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) round: Round,
    pub(super) link: LinkId,
    /// All lanes, in the order of their numbers.
    pub(super) lanes: Result<Vec<Lane>, LaneFailure>,
}

impl Wiring {
    /// Starts to open the lanes. Has to be called inside a tokio runtime.
    pub(super) fn start(
        round: Round,
        orders: &[LinkOrder],
        me: PeerId,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> Self {
        let mut wiring = Self {
            round,
            opening: JoinSet::new(),
            links: BTreeMap::new(),
        };
        for order in orders {
            let (link, lanes) = (order.link(), order.lanes);
            let tasks = (0..lanes.lanes).map(|number| {
                let preamble = Preamble {
                    purpose: Purpose::LinkLane,
                    from: me,
                    ticket: lanes.ticket,
                    lane: number,
                    lanes: lanes.lanes,
                };
                wiring.open(link, lanes, preamble, transport, door)
            });
            let opening = Opening {
                expected: lanes.dial.is_none().then_some(lanes.with),
                up: BTreeMap::new(),
                ordered: usize::from(lanes.lanes),
                tasks: tasks.collect(),
            };
            wiring.links.insert(link, opening);
        }
        wiring
    }

    fn open(
        &mut self,
        link: LinkId,
        order: LaneOrder,
        preamble: Preamble,
        transport: &Arc<dyn Transport>,
        door: &mut Door,
    ) -> AbortHandle {
        let number = preamble.lane;
        let opened = move |lane| Opened { link, number, lane };
        if order.dial.is_some() {
            let transport = Arc::clone(transport);
            self.opening
                .spawn(async move { opened(dial(&*transport, &order, preamble).await) })
        } else {
            let expected = door.expect(Purpose::LinkLane, &order, (number, order.lanes));
            self.opening.spawn(async move {
                match expected.await {
                    Ok(lane) => opened(Ok(lane)),
                    // The end that dials knows more, and reports it.
                    Err(_) => std::future::pending().await,
                }
            })
        }
    }

    /// Peers who were to open lanes to this one, and have not opened all of them.
    pub(super) fn missing(&self) -> impl Iterator<Item = PeerId> {
        self.links.values().filter_map(|opening| opening.expected)
    }

    /// Waits until there is something to tell; never returns if there is nothing left to. Cancel-safe.
    pub(super) async fn next(&mut self) -> Wired {
        loop {
            match self.opening.join_next().await {
                Some(Ok(opened)) => {
                    if let Some(wired) = self.note(opened) {
                        return wired;
                    }
                }
                // A task that panicked has opened nothing; its lane stays missing.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// What there is to tell once this lane was opened, or was not. A link that has failed is told of once, and
    /// its other lanes are given up.
    fn note(&mut self, opened: Opened) -> Option<Wired> {
        let Opened { link, number, lane } = opened;
        let opening = self.links.get_mut(&link)?;
        let lanes = match lane {
            Ok(lane) => {
                opening.up.insert(number, lane);
                if opening.up.len() < opening.ordered {
                    return None;
                }
                Ok(std::mem::take(&mut opening.up).into_values().collect())
            }
            Err(failure) => {
                opening.tasks.iter().for_each(AbortHandle::abort);
                Err(failure)
            }
        };
        self.links.remove(&link);
        let round = self.round;
        Some(Wired { round, link, lanes })
    }
}

#[cfg(test)]
mod tests;
