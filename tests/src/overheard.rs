//! The transport of a scripted peer: it tells where it listens and who it is, and what it has sent to the
//! master has left the process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use pccl::Transport;
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneTx};
use pccl_transport_memory::throttle::Throttle;
use pccl_transport_memory::{Intercepted, Interceptor, on_send};

use crate::over::Over;

/// Where a peer listens, and who it is, where that is proved.
pub(crate) type Heard = (Option<SocketAddr>, Option<Identity>);

/// Bytes per second of lanes that are to be slow.
const SLOW: u64 = 4_000_000;

/// A transport with its defaults, and what it tells. Lanes that this peer opens to `slow` are slow.
pub(crate) fn overheard(
    over: Over,
    slow: Option<SocketAddr>,
) -> (impl Transport, Arc<Mutex<Heard>>) {
    let heard = Arc::<Mutex<Heard>>::default();
    let ears = Ears {
        over,
        heard: Arc::clone(&heard),
        slow: slow.map(|at| (at, Throttle::new(SLOW))),
    };
    (Intercepted::over(over.transport(), ears), heard)
}

struct Ears {
    over: Over,
    heard: Arc<Mutex<Heard>>,
    slow: Option<(SocketAddr, Throttle)>,
}

impl Ears {
    fn hear(&self, note: impl FnOnce(&mut Heard)) {
        note(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Interceptor for Ears {
    fn listening(&self, at: SocketAddr) {
        self.hear(|heard| heard.0 = Some(at));
    }

    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        self.hear(|heard| heard.1 = lane.proven.map(|proven| proven.own));
        if let (Some((slow, throttle)), Endpoint::Address(to)) = (&self.slow, to)
            && slow == to
        {
            return throttle.on(lane);
        }
        let tx = match to {
            // Peers know each other by addresses.
            Endpoint::Name(_) if self.over == Over::Quic => departing(lane.tx),
            Endpoint::Name(_) | Endpoint::Address(_) => lane.tx,
        };
        Lane { tx, ..lane }
    }
}

/// Turns that other tasks get after bytes were taken and before that is said.
const TURNS: u8 = 3;

/// A sending half of which what it has taken is with the system.
///
/// TCP gives the system what it takes, and the system delivers it though the process is killed. QUIC sends
/// from a task of the process, which has not run when its lane has taken something; a peer that stands still
/// right after its vote has not voted then. Whoever sends comes again with the same bytes in front.
fn departing(tx: Box<dyn LaneTx>) -> Box<dyn LaneTx> {
    // Bytes, and turns that are left.
    let mut taken: Option<(usize, u8)> = None;
    on_send(tx, move |tx, cx, parts| {
        let (bytes, turns) = match taken {
            Some(taken) => taken,
            None => (ready!(tx.poll_send(cx, parts))?, TURNS),
        };
        if turns == 0 {
            taken = None;
            return Poll::Ready(Ok(bytes));
        }
        taken = Some((bytes, turns - 1));
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}
