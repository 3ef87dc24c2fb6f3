//! The data plane: moves tensor bytes between ranks.
//!
//! A *frame* is a header and up to 256 KiB of payload. An operation runs in its caller's task, where the
//! user's buffers are borrowed ([`run`]): it receives from the lanes of the links from other ranks, reduces
//! ([`work`]), and sends on the lanes of the links to other ranks. Which ranks those are says its plan: the
//! previous and the next one of a ring, or all others.
//!
//! ```text
//! from a rank ──lane──▶ ┌───────────────────────────┐ ──lane──▶ to a rank
//!                       │ run: work + user's buffers │
//! from a rank ──lane──▶ └───────────────────────────┘ ──lane──▶ to a rank
//!              keepers hold the lanes that no operation uses
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
mod gate;
mod kernel;
mod lanes;
mod link;
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

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq};
use pccl_core::peer::{AdoptedLanes, AdoptedLink};
use pccl_core::plan::{Algorithm, Reach, STRIPE_BYTES_MIN};
use pccl_core::topology::{LinkId, Ring, Topology};
use pccl_core::transport::Lane;
use pccl_core::wire::FRAME_PAYLOAD_MAX;
use tokio::sync::mpsc;

use gate::Gate;
use link::{Installed, LinkState, Reports, StandingLink};
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
    /// Least bytes of a stripe. The same at all peers.
    pub(crate) stripe_bytes: u64,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(10),
            frame_bytes: FRAME_PAYLOAD_MAX,
            local_window: LOCAL_WINDOW,
            stripe_bytes: STRIPE_BYTES_MIN,
            concurrent: CONCURRENT_DEFAULT,
        }
    }
}

/// What the data plane tells the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataEvent {
    /// A standing link is of no more use. Told once per link and build.
    LinkBroke {
        /// Which link.
        link: LinkId,
        /// The round in which it was built.
        built: Round,
    },
}

/// Where a peer stands in its ring.
#[derive(Debug)]
struct InRing {
    place: Place,
    ring: Ring,
}

impl InRing {
    /// `None`: `me` is not in the ring.
    fn of(topology: &Topology, me: PeerId) -> Option<Self> {
        let ring = &topology.ring;
        let place = Place {
            world: u32::try_from(ring.world_size()).ok()?,
            rank: u32::try_from(ring.rank_of(me)?).ok()?,
            lanes: topology.lanes,
        };
        let ring = ring.clone();
        Some(Self { place, ring })
    }

    /// The ranks that an operation sends to whose links reach so far, the next one first. Those that it
    /// receives from are as far behind it.
    fn distances(&self, reach: Reach) -> Range<usize> {
        let others = self.ring.world_size().saturating_sub(1);
        match reach {
            Reach::Ring => 1..others.min(1) + 1,
            Reach::Mesh => 1..others + 1,
        }
    }

    /// The rank and the peer that follows at this distance, round the end.
    fn at(&self, distance: usize) -> Option<(u32, PeerId)> {
        let world = self.ring.world_size();
        let rank = (self.place.rank as usize + distance).checked_rem(world)?;
        Some((u32::try_from(rank).ok()?, *self.ring.0.get(rank)?))
    }
}

/// A peer's lanes and running operations. Dropping it drops the lanes and stops the operations.
#[derive(Debug)]
pub(crate) struct DataPlane {
    config: DataConfig,
    registry: Arc<Registry>,
    gate: Arc<Gate>,
    pool: Arc<Pool>,
    reports: Reports,
    installed: BTreeMap<LinkId, Installed>,
    standing: BTreeMap<LinkId, StandingLink>,
    ring: Option<InRing>,
}

impl DataPlane {
    /// A plane without lanes.
    pub(crate) fn new(events: mpsc::UnboundedSender<DataEvent>, config: DataConfig) -> Self {
        Self {
            registry: Arc::default(),
            gate: Gate::new(config.concurrent, config.frame_bytes as u64),
            pool: Pool::new(IDLE_FRAMES_MAX),
            reports: Reports {
                progress: Progress::default(),
                broken: events,
            },
            config,
            installed: BTreeMap::new(),
            standing: BTreeMap::new(),
            ring: None,
        }
    }

    /// Counts whenever bytes move.
    pub(crate) fn progress(&self) -> &Progress {
        &self.reports.progress
    }

    /// Keeps lanes of `link`, built in `built`, in the order of their numbers, until they are adopted
    /// or abandoned. One direction of each is used, that of the link. The other direction stays open and must
    /// stay silent.
    pub(crate) fn install(&mut self, link: LinkId, built: Round, lanes: Vec<Lane>) {
        self.installed.insert(link, Installed { built, lanes });
    }

    /// Drops installed lanes that were not adopted.
    pub(crate) fn abandon(&mut self) {
        self.installed.clear();
    }

    /// The ring stands, on these lanes; all others are dropped, standing and installed. Has to be called
    /// inside a tokio runtime, whose tasks serve the lanes.
    pub(crate) fn adopt(&mut self, topology: &Topology, me: PeerId, links: &[AdoptedLink]) {
        self.gate.links_changed();
        let mut installed = std::mem::take(&mut self.installed);
        let mut before = std::mem::take(&mut self.standing);
        for AdoptedLink { link, lanes } in links {
            let standing = match lanes {
                AdoptedLanes::Keep => before.remove(link),
                AdoptedLanes::Use(built) => {
                    let installed = installed.remove(link).filter(|lanes| lanes.built == *built);
                    installed.map(|lanes| self.stand(*link, lanes))
                }
            };
            match standing {
                Some(standing) => drop(self.standing.insert(*link, standing)),
                None => self.miss(*link, *lanes),
            }
        }
        for old in before.into_values() {
            old.retire(&self.registry);
        }
        self.ring = InRing::of(topology, me);
    }

    fn stand(&self, link: LinkId, installed: Installed) -> StandingLink {
        let Self {
            config,
            registry,
            reports,
            ..
        } = self;
        StandingLink::stand(link, installed, config.stall, registry, reports)
    }

    /// Registers an execution, so that frames find it. Executions begin in the order of their numbers.
    /// The port is to be run soon.
    pub(crate) fn begin(
        &mut self,
        seq: Seq,
        spec: CollectiveSpec,
        algorithm: Algorithm,
    ) -> RingPort {
        let (address, inbox) = Inbox::new();
        let stopped = Arc::new(AtomicBool::new(false));
        let op = Operation {
            address: address.clone(),
            stopped: Arc::clone(&stopped),
        };
        let ins = self.links_in(algorithm.reach());
        let links = || ins.iter().flatten().map(|(_, standing)| &*standing.state);
        let strays: Vec<u64> = links().map(LinkState::strays).collect();
        let ended = self.registry.begin(seq, op, links());
        let receiving = ins.map(|ins| {
            let ins = ins.into_iter().zip(ended).zip(strays);
            let receiving = ins.map(|(((rank, standing), ended), strays)| Receiving {
                rank,
                link: Arc::clone(&standing.state),
                homes: Arc::clone(&standing.homes),
                ended,
                strays,
            });
            receiving.collect::<Vec<_>>()
        });
        let links = receiving.zip(self.links_out(algorithm.reach()));
        let sending = links.as_ref().map_or(&[][..], |(_, sending)| sending);
        let is_local = Sending::all_local(sending) && !self.gate.leaves_machine();
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        let pass = self.gate.begin((seq, address.clone()), bytes, is_local);
        RingPort {
            seq,
            spec,
            algorithm,
            place: self.ring.as_ref().map(|ring| ring.place),
            config: self.config.clone(),
            pool: Arc::clone(&self.pool),
            registry: Arc::clone(&self.registry),
            stopped,
            inbox: Some((pass, inbox)),
            address,
            links,
        }
    }

    /// The links that an operation receives on, the previous rank first. `None`: one is missing.
    fn links_in(&self, reach: Reach) -> Option<Vec<(u32, &StandingLink)>> {
        let ring = self.ring.as_ref()?;
        let world = ring.ring.world_size();
        let links = ring.distances(reach).map(|distance| {
            let (rank, peer) = ring.at(world - distance)?;
            Some((rank, self.standing.get(&LinkId::from(peer))?))
        });
        links.collect()
    }

    /// The links that it sends on, the next rank first.
    fn links_out(&self, reach: Reach) -> Option<Vec<Sending>> {
        let ring = self.ring.as_ref()?;
        let links = ring.distances(reach).map(|distance| {
            let (rank, peer) = ring.at(distance)?;
            let standing = self.standing.get(&LinkId::to(peer))?;
            Some(Sending {
                rank,
                link: Arc::clone(&standing.state),
                slots: Arc::clone(&standing.slots),
            })
        });
        links.collect()
    }

    /// The frames of `seq` are thrown away from here on, and a run that has not ended ends as stopped, at once.
    pub(crate) fn stop(&mut self, seq: Seq) {
        self.registry.stop(seq);
    }

    /// Frees the frame buffers that are kept for operations to come. Is none in use?
    pub(crate) fn trim(&self) -> bool {
        self.pool.trim()
    }

    /// Lanes that are to be a link are not here, which is a defect of this crate. As a broken link it costs the
    /// next collective a ballot; left alone it would cost every one its result.
    fn miss(&self, link: LinkId, lanes: AdoptedLanes) {
        tracing::error!(
            ?link,
            ?lanes,
            "lanes that are up according to the peer are not here"
        );
        if let AdoptedLanes::Use(built) = lanes {
            self.reports.broke(link, built);
        }
        debug_assert!(
            false,
            "{link:?} is to be adopted and is not here: {lanes:?}"
        );
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.registry.end_all();
    }
}
