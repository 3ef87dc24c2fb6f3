//! A transport whose lanes can be reset at any moment, by one call.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use pccl::{LaneError, Transport};
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane};
use pccl_transport_memory::{Intercepted, Interceptor, on_recv, on_send};

/// Which lanes are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those to other peers.
    ToPeers,
    /// All, also the one to the master.
    All,
}

/// Resets the lanes of its transport. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Cutter {
    lanes: Arc<Mutex<Vec<Weak<Lifeline>>>>,
}

/// A lane's tie to the cutter.
#[derive(Debug)]
struct Lifeline {
    to_master: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    /// Of the halves of the lane that wait: the sending one and the receiving one.
    waiting: [Option<Waker>; 2],
}

impl Cutter {
    /// A transport whose lanes this cutter resets.
    pub fn over(&self, below: Arc<dyn Transport>) -> impl Transport + use<> {
        Intercepted::over(below, self.clone())
    }

    /// Resets them at this end. The other end sees them closed, wherever in a frame that is.
    pub fn cut(&self, which: Which) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| {
            let Some(lane) = lane.upgrade() else {
                return false;
            };
            let is_cut = which == Which::All || !lane.to_master;
            if is_cut {
                lane.cut();
            }
            !is_cut
        });
    }

    fn tie(&self, lane: Lane, to_master: bool) -> Lane {
        let lifeline = Arc::new(Lifeline {
            to_master,
            state: Mutex::default(),
        });
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(&lifeline));
        drop(lanes);
        let (of_tx, of_rx) = (Arc::clone(&lifeline), lifeline);
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            if of_tx.is_cut(0, cx) {
                return Poll::Ready(Err(LaneError::Reset));
            }
            tx.poll_send(cx, parts)
        });
        let rx = on_recv(lane.rx, move |rx, cx, buffer| {
            if of_rx.is_cut(1, cx) {
                return Poll::Ready(Err(LaneError::Reset));
            }
            rx.poll_recv(cx, buffer)
        });
        Lane { tx, rx, ..lane }
    }
}

impl Interceptor for Cutter {
    /// Peers know each other by addresses, and the master by what they were given.
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        self.tie(lane, matches!(to, Endpoint::Name(_)))
    }

    fn accepted(&self, lane: Lane, _: std::net::SocketAddr) -> Lane {
        self.tie(lane, false)
    }
}

impl Lifeline {
    fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_cut = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether the lane was cut. If not, this half of it is woken when it is.
    fn is_cut(&self, half: usize, cx: &Context<'_>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = state.waiting.get_mut(half) {
            let is_known = waiting.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
            if !is_known {
                *waiting = Some(cx.waker().clone());
            }
        }
        state.is_cut
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use pccl_transport_memory::{Path, pair};

    use super::*;

    #[tokio::test]
    async fn a_lane_that_waits_for_bytes_ends_when_it_is_cut() {
        let cutter = Cutter::default();
        let (to_peer, _peer) = pair(Path::DIRECT, Path::DIRECT);
        let (to_master, _master) = pair(Path::DIRECT, Path::DIRECT);
        let mut to_peer = cutter.tie(to_peer, false);
        let mut to_master = cutter.tie(to_master, true);

        let (mut one, mut other) = ([0; 1], [0; 1]);
        let waiting = poll_fn(|cx| to_peer.rx.poll_recv(cx, &mut one));
        let cutting = async {
            tokio::task::yield_now().await;
            cutter.cut(Which::ToPeers);
        };
        let (ended, ()) = tokio::join!(waiting, cutting);

        assert_eq!(ended, Err(LaneError::Reset));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(to_master.rx.poll_recv(&mut cx, &mut other).is_pending());
        cutter.cut(Which::All);
        assert!(to_master.rx.poll_recv(&mut cx, &mut other).is_ready());
    }
}
