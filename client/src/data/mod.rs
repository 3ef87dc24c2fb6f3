//! The data plane: moves tensor bytes between ring neighbours.
//!
//! A *frame* is a header and up to 256 KiB of payload. An operation runs in its caller's task, where the
//! user's buffers are borrowed ([`run`]): it receives from the lanes of the edge from the previous rank,
//! reduces ([`work`]), and sends on the lanes of the edge to the next one.
//!
//! ```text
//! previous ──lane──▶ ┌───────────────────────────┐ ──lane──▶ next
//!                    │ run: work + user's buffers │
//! previous ──lane──▶ └───────────────────────────┘ ──lane──▶ next
//!           keepers hold the lanes that no operation uses
//! ```
//!
//! - A frame that was reduced or stored leaves under the number of the next step at once. There is no
//!   barrier between steps.
//! - Receiving never waits for sending: what cannot leave yet waits in the operation's outbox, and
//!   beyond a few frames in memory that nobody needs before the result. So no ring of full buffers can
//!   lock itself up.
//! - Several operations share the lanes frame by frame: a lane is handed from one to the other
//!   ([`receiving`], [`sending`]). Whose own contributions are under way the [`gate`] decides.
//! - An operation that is stopped loses nothing but its own frames: those that have begun are finished,
//!   those that arrive late are read and thrown away.

mod buffers;
mod edge;
mod gate;
mod kernel;
mod lanes;
mod mailbox;
mod pool;
mod port;
mod receiving;
mod registry;
mod run;
mod sending;
mod stall;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq};
use pccl_core::peer::AdoptedEdge;
use pccl_core::plan::STRIPE_BYTES_MIN;
use pccl_core::topology::{Edge, Topology};
use pccl_core::transport::Lane;
use pccl_core::wire::{FRAME_PAYLOAD_MAX, WHOLE_BUFFER_MAX};
use tokio::sync::mpsc;

use edge::{Installed, StandingEdge};
use gate::Gate;
use pool::Pool;
use port::{Receiving, Sending};
use registry::{Inbox, Operation, Registry};
use work::Place;

use crate::progress::Progress;

pub(crate) use buffers::{Backup, RingBuffers};
pub(crate) use port::{RingFailure, RingPort, RingStats};
pub use work::Defect;
pub(crate) use work::{codec_of, is_supported};

/// Unused frame buffers that are kept: 16 MiB.
const IDLE_FRAMES_MAX: usize = 64;

/// Bytes of the own contribution that are under way at a time where the ring stays on this machine:
/// measured to be enough to keep everybody busy, and little enough to stay in caches.
const LOCAL_WINDOW: u64 = 2 * 1024 * 1024;

/// Operations that contribute at a time, unless the configuration says otherwise.
pub(crate) const CONCURRENT_DEFAULT: usize = 16;

/// How the data plane behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataConfig {
    /// A frame that begins to leave and makes no progress for so long has lost its lane, and an operation
    /// to which nothing comes for one and a half times as long.
    pub(crate) stall: Duration,
    /// Most bytes of payload in a frame.
    pub(crate) frame_bytes: usize,
    /// Bytes of own contributions that may be under way where the ring stays on this machine.
    pub(crate) local_window: u64,
    /// Operations that contribute at a time; further ones wait.
    pub(crate) concurrent: usize,
    /// A buffer of up to so many bytes travels whole. The same at all peers.
    pub(crate) small_bytes: u64,
    /// Least bytes of a stripe. The same at all peers.
    pub(crate) stripe_bytes: u64,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(10),
            frame_bytes: FRAME_PAYLOAD_MAX,
            local_window: LOCAL_WINDOW,
            small_bytes: WHOLE_BUFFER_MAX,
            stripe_bytes: STRIPE_BYTES_MIN,
            concurrent: CONCURRENT_DEFAULT,
        }
    }
}

/// What the data plane tells the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataEvent {
    /// A standing edge is of no more use. Told once per edge and build.
    EdgeBroke {
        /// Which edge.
        edge: Edge,
        /// The round in which it was built.
        built: Round,
    },
}

/// What the plane's tasks and operations share.
#[derive(Debug)]
struct Shared {
    registry: Registry,
    gate: Arc<Gate>,
    pool: Arc<Pool>,
    config: DataConfig,
    /// A frame that had left this machine has come back to it.
    not_local: AtomicBool,
    events: mpsc::UnboundedSender<DataEvent>,
    progress: Progress,
}

impl Shared {
    /// Does the ring stay on this machine, as far as is known?
    fn is_local(&self, sending: Option<&Sending>) -> bool {
        let stays = sending.is_none_or(Sending::is_local);
        stays && !self.not_local.load(Ordering::Relaxed)
    }
}

/// One value for each of the two edges.
#[derive(Debug)]
pub(crate) struct PerEdge<T> {
    pub(crate) to_next: Option<T>,
    pub(crate) from_previous: Option<T>,
}

impl<T> PerEdge<T> {
    /// Of neither.
    const NONE: Self = Self {
        to_next: None,
        from_previous: None,
    };

    fn slot(&mut self, edge: Edge) -> &mut Option<T> {
        match edge {
            Edge::ToNext => &mut self.to_next,
            Edge::FromPrevious => &mut self.from_previous,
        }
    }
}

/// A peer's lanes and running operations. Dropping it drops the lanes and stops the operations.
#[derive(Debug)]
pub(crate) struct DataPlane {
    shared: Arc<Shared>,
    installed: PerEdge<Installed>,
    standing: PerEdge<StandingEdge>,
    place: Option<Place>,
}

impl DataPlane {
    /// A plane without lanes.
    pub(crate) fn new(events: mpsc::UnboundedSender<DataEvent>, config: DataConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                registry: Registry::default(),
                gate: Gate::new(config.concurrent, config.frame_bytes as u64),
                pool: Pool::new(IDLE_FRAMES_MAX),
                config,
                not_local: AtomicBool::new(false),
                events,
                progress: Progress::default(),
            }),
            installed: PerEdge::NONE,
            standing: PerEdge::NONE,
            place: None,
        }
    }

    /// Counts whenever bytes move.
    pub(crate) fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Keeps lanes of `edge`, built in `built`, in the order of their numbers, until they are adopted
    /// or abandoned. One direction of each is used: sending towards the next rank, receiving from the
    /// previous one. The other direction stays open and must stay silent.
    pub(crate) fn install(&mut self, edge: Edge, built: Round, lanes: Vec<Lane>) {
        *self.installed.slot(edge) = Some(Installed { built, lanes });
    }

    /// Drops installed lanes that were not adopted.
    pub(crate) fn abandon(&mut self) {
        self.installed = PerEdge::NONE;
    }

    /// The ring stands, on these lanes; all others are dropped, standing and installed. Has to be called
    /// inside a tokio runtime, whose tasks serve the lanes.
    pub(crate) fn adopt(&mut self, topology: &Topology, me: PeerId, edges: &PerEdge<AdoptedEdge>) {
        self.shared.not_local.store(false, Ordering::Relaxed);
        self.adopt_edge(Edge::ToNext, edges.to_next);
        self.adopt_edge(Edge::FromPrevious, edges.from_previous);
        let rank = topology.ring.rank_of(me);
        let world = topology.ring.world_size();
        self.place = rank.and_then(|rank| {
            Some(Place {
                world: u32::try_from(world).ok()?,
                rank: u32::try_from(rank).ok()?,
                lanes: topology.lanes,
            })
        });
    }

    /// Registers an execution, so that frames find it. Executions begin in the order of their numbers.
    /// The port is to be run soon.
    pub(crate) fn begin(&mut self, seq: Seq, spec: CollectiveSpec) -> RingPort {
        let (address, inbox) = Inbox::new();
        let stopped = Arc::new(AtomicBool::new(false));
        let op = Operation {
            address: address.clone(),
            stopped: Arc::clone(&stopped),
        };
        let receiving = self.standing.from_previous.as_ref();
        let receiving = receiving.map(|edge| Arc::clone(&edge.state));
        let strays = receiving.as_ref().map_or(0, |edge| edge.strays());
        let ended = self.shared.registry.begin(seq, op, receiving.as_deref());
        let sending = self.standing.to_next.as_ref().map(|edge| Sending {
            edge: Arc::clone(&edge.state),
            slots: Arc::clone(&edge.slots),
        });
        let is_local = self.shared.is_local(sending.as_ref());
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        let gate = &self.shared.gate;
        let pass = gate.begin((seq, address.clone()), bytes, is_local);
        RingPort {
            seq,
            spec,
            place: self.place,
            shared: Arc::clone(&self.shared),
            stopped,
            inbox: Some((pass, inbox)),
            address,
            receiving: receiving.map(|edge| Receiving {
                edge,
                ended,
                strays,
            }),
            sending,
        }
    }

    /// Ends the run of `seq` as stopped, at once.
    pub(crate) fn stop(&mut self, seq: Seq) {
        self.shared.registry.stop(seq);
    }

    /// The verdict about `seq` is there: its frames are thrown away from here on, and a run that has
    /// not ended ends as stopped.
    pub(crate) fn end(&mut self, seq: Seq) {
        self.shared.registry.end(seq);
    }

    /// Frees the frame buffers that are kept for operations to come. Is none in use?
    pub(crate) fn trim(&self) -> bool {
        self.shared.pool.trim()
    }

    /// What was installed and is not meant is dropped: it was connected for a ring that was given up.
    fn adopt_edge(&mut self, edge: Edge, adopted: Option<AdoptedEdge>) {
        let installed = self.installed.slot(edge).take();
        let standing = self.standing.slot(edge);
        let round = match adopted {
            Some(AdoptedEdge::Keep) => {
                debug_assert!(standing.is_some(), "{edge:?} is to be kept and is not here");
                return;
            }
            Some(AdoptedEdge::Use(round)) => Some(round),
            None => None,
        };
        if let Some(old) = standing.take() {
            old.retire(&self.shared);
        }
        let Some(built) = round else { return };
        match installed.filter(|installed| installed.built == built) {
            Some(installed) => {
                *standing = Some(StandingEdge::stand(edge, installed, &self.shared));
            }
            None => self.miss(edge, built),
        }
    }

    /// Lanes that are to be an edge of the ring are not here, which is a defect of this crate. As a
    /// broken edge it costs the next collective a ballot; left alone it would cost every one its result.
    fn miss(&self, edge: Edge, built: Round) {
        tracing::error!(?edge, %built, "lanes that are up according to the peer are not here");
        // Fails only where the engine is gone.
        let _ = self
            .shared
            .events
            .send(DataEvent::EdgeBroke { edge, built });
        debug_assert!(false, "{edge:?} of {built} is to be used and is not here");
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.shared.registry.end_all();
    }
}
