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
mod ranks;
mod receiving;
mod registry;
mod run;
mod sending;
mod stall;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{Round, Seq};
use pccl_core::plan::{Algorithm, Reach, STRIPE_BYTES_MIN};
use pccl_core::topology::LinkId;
use pccl_core::transport::Lane;
use pccl_core::wire::FRAME_PAYLOAD_MAX;
use tokio::sync::mpsc;

use gate::Gate;
use link::{Installed, LinkState, Reports, StandingLink};
use pool::Pool;
use port::{Receiving, Sending};
use registry::{Inbox, Operation, Registry};

use crate::progress::Progress;

pub(crate) use buffers::{Backup, UserBuffers};
pub(crate) use port::{OperationPort, RunFailure, RunStats};
pub(crate) use ranks::{LanesInUse, LinkInUse, Ranks};
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
pub(crate) struct PlaneConfig {
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

impl Default for PlaneConfig {
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

/// What the data plane tells: a link in use is of no more use. Told once per link and build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkBroke {
    /// Which link.
    pub(crate) link: LinkId,
    /// The round in which it was built.
    pub(crate) built: Round,
}

/// A peer's lanes and running operations. Dropping it drops the lanes and stops the operations.
#[derive(Debug)]
pub(crate) struct DataPlane {
    config: PlaneConfig,
    registry: Arc<Registry>,
    gate: Arc<Gate>,
    pool: Arc<Pool>,
    reports: Reports,
    installed: BTreeMap<LinkId, Installed>,
    standing: BTreeMap<LinkId, StandingLink>,
    /// `None`: this peer takes part in no operations.
    ranks: Option<Ranks>,
}

impl DataPlane {
    /// A plane without lanes.
    pub(crate) fn new(events: mpsc::UnboundedSender<LinkBroke>, config: PlaneConfig) -> Self {
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
            ranks: None,
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

    /// From here on operations are run by these ranks, over these links; all other lanes are dropped, standing
    /// and installed. Has to be called inside a tokio runtime, whose tasks serve the lanes.
    pub(crate) fn adopt(&mut self, ranks: Option<Ranks>, links: &[LinkInUse]) {
        self.gate.links_changed();
        let mut installed = std::mem::take(&mut self.installed);
        let mut before = std::mem::take(&mut self.standing);
        for LinkInUse { link, lanes } in links {
            let standing = match lanes {
                LanesInUse::Standing => before.remove(link),
                LanesInUse::Installed(built) => {
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
        self.ranks = ranks;
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
    ) -> OperationPort {
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
        OperationPort {
            seq,
            spec,
            algorithm,
            place: self.ranks.as_ref().map(Ranks::place),
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
        let ranks = self.ranks.as_ref()?;
        let links = ranks.behind(reach).map(|from| {
            let (rank, peer) = from?;
            Some((rank, self.standing.get(&LinkId::from(peer))?))
        });
        links.collect()
    }

    /// The links that it sends on, the next rank first.
    fn links_out(&self, reach: Reach) -> Option<Vec<Sending>> {
        let ranks = self.ranks.as_ref()?;
        let links = ranks.ahead(reach).map(|to| {
            let (rank, peer) = to?;
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
    fn miss(&self, link: LinkId, lanes: LanesInUse) {
        tracing::error!(?link, ?lanes, "lanes that are to be in use are not here");
        if let LanesInUse::Installed(built) = lanes {
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
