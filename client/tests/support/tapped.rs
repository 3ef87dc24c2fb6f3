//! The transport of a member whose first words on each lane to another peer somebody else hears before that peer
//! does, or which leads all such lanes to somebody else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneTx, Transport};
use pccl_transport_memory::{Intercepted, Interceptor, on_send};

use super::under::Under;

/// What a member says first on a lane to another peer, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) to: Endpoint,
    pub(crate) expect: Option<Identity>,
    /// The preamble, with its ticket.
    pub(crate) first: Vec<u8>,
}

/// Does something with it before it is sent.
type Tap = Arc<dyn Fn(Said) -> BoxFuture<'static, ()> + Send + Sync>;

/// The sending half of a lane that the test uses as well, or takes away.
pub(crate) type SharedTx = Arc<Mutex<Option<Box<dyn LaneTx>>>>;

/// Taps the lanes that a member opens.
pub(crate) struct Tapped {
    tap: Tap,
    /// Where lanes to other peers lead. `None`: where they should.
    pub(crate) diverted: Option<SocketAddr>,
    /// The connection to the master.
    pub(crate) control: SharedTx,
}

impl Tapped {
    pub(crate) fn new(
        tap: impl Fn(Said) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            tap: Arc::new(tap),
            diverted: None,
            control: SharedTx::default(),
        }
    }

    /// The transport under test, tapped.
    pub(crate) fn on(self, under: Under) -> impl Transport {
        Intercepted::over(Arc::new(under), self)
    }

    /// A sending half whose first words somebody hears before they leave.
    fn tapped(
        &self,
        tx: Box<dyn LaneTx>,
        to: Endpoint,
        expect: Option<Identity>,
    ) -> Box<dyn LaneTx> {
        // Until something is said.
        let mut tap = Some((Arc::clone(&self.tap), to, expect));
        let mut tapping: Option<BoxFuture<'static, ()>> = None;
        on_send(tx, move |tx, cx, parts| {
            if let Some((tap, to, expect)) = tap.take() {
                let first = parts.concat();
                tapping = Some(tap(Said { to, expect, first }));
            }
            if let Some(hearing) = &mut tapping {
                ready!(hearing.as_mut().poll(cx));
                tapping = None;
            }
            tx.poll_send(cx, parts)
        })
    }
}

/// Peers know each other by addresses, and their master by a name.
impl Interceptor for Tapped {
    fn destination(&self, to: &Endpoint) -> Endpoint {
        match (to, self.diverted) {
            (Endpoint::Address(_), Some(elsewhere)) => Endpoint::Address(elsewhere),
            (Endpoint::Address(_) | Endpoint::Name(_), _) => to.clone(),
        }
    }

    fn opened(&self, lane: Lane, to: &Endpoint, expect: Option<Identity>) -> Lane {
        let tx = match to {
            Endpoint::Address(_) => self.tapped(lane.tx, to.clone(), expect),
            Endpoint::Name(_) => {
                *self.control.lock().unwrap() = Some(lane.tx);
                Box::new(Control(Arc::clone(&self.control)))
            }
        };
        Lane { tx, ..lane }
    }
}

struct Control(SharedTx);

impl LaneTx for Control {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let mut tx = self.0.lock().unwrap();
        let tx = tx.as_mut().ok_or(LaneError::Closed)?;
        tx.poll_send(cx, parts)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        let mut tx = self.0.lock().unwrap();
        let tx = tx.as_mut().ok_or(LaneError::Closed)?;
        tx.poll_close(cx)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.lock().unwrap().take();
    }
}
