//! The transport of a member whose first words on each lane to another peer somebody else hears before that peer
//! does, or which leads all such lanes to somebody else.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneTx, Listener, Security, Transport};

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

/// The sending half of a lane that the test uses as well.
pub(crate) type SharedTx = Arc<Mutex<Option<Box<dyn LaneTx>>>>;

/// The transport under test, tapped.
#[derive(Clone)]
pub(crate) struct Tapped {
    pub(crate) under: Under,
    pub(crate) tap: Tap,
    /// Where lanes to other peers lead. `None`: where they should.
    pub(crate) diverted: Option<SocketAddr>,
    /// The connection to the master.
    pub(crate) control: SharedTx,
}

impl Tapped {
    pub(crate) fn new(
        under: Under,
        tap: impl Fn(Said) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            under,
            tap: Arc::new(tap),
            diverted: None,
            control: SharedTx::default(),
        }
    }

    /// Peers know each other by addresses, and their master by a name.
    async fn open_tapped(
        &self,
        to: &Endpoint,
        expect: Option<Identity>,
    ) -> Result<Lane, LaneError> {
        if matches!(to, Endpoint::Name(_)) {
            let lane = self.under.open(to, expect).await?;
            *self.control.lock().unwrap() = Some(lane.tx);
            let tx = Box::new(Control(Arc::clone(&self.control)));
            return Ok(Lane { tx, ..lane });
        }
        let lane = match self.diverted {
            Some(elsewhere) => {
                self.under
                    .open(&Endpoint::Address(elsewhere), expect)
                    .await?
            }
            None => self.under.open(to, expect).await?,
        };
        let tx = Box::new(TappedTx {
            tx: lane.tx,
            tap: Some((Arc::clone(&self.tap), to.clone(), expect)),
            tapping: None,
        });
        Ok(Lane { tx, ..lane })
    }
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tapped").field(&self.under).finish()
    }
}

impl Transport for Tapped {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        self.under.listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(self.open_tapped(to, expect))
    }

    fn lanes_per_edge(&self) -> u16 {
        self.under.lanes_per_edge()
    }
}

struct TappedTx {
    tx: Box<dyn LaneTx>,
    /// Until something is said.
    tap: Option<(Tap, Endpoint, Option<Identity>)>,
    tapping: Option<BoxFuture<'static, ()>>,
}

impl LaneTx for TappedTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        if let Some((tap, to, expect)) = self.tap.take() {
            let first = parts.concat();
            self.tapping = Some(tap(Said { to, expect, first }));
        }
        if let Some(tapping) = &mut self.tapping {
            ready!(tapping.as_mut().poll(cx));
            self.tapping = None;
        }
        self.tx.poll_send(cx, parts)
    }

    fn is_local(&self) -> bool {
        self.tx.is_local()
    }

    fn give_up_after(&mut self, limit: std::time::Duration) {
        self.tx.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
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
        tx.as_mut().expect("it is there").poll_send(cx, parts)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        let mut tx = self.0.lock().unwrap();
        tx.as_mut().expect("it is there").poll_close(cx)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.lock().unwrap().take();
    }
}
