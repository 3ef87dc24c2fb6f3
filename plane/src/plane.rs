//! A peer's lanes and running operations: which lanes are in use, and which operations begin and end on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{Round, Seq};
use pccl_core::lengths::Lengths;
use pccl_core::plan::{Algorithm, Reach};
use pccl_core::topology::LinkId;
use pccl_core::transport::Lane;
use tokio::sync::mpsc;

use crate::handover::{
    Course, Inbox, Installed, LinkBroke, LinkState, Operation, Registry, Reports, StandingLink,
};
use crate::memory::Pool;
use crate::pace::{ControlChoice, IDLE_FRAMES_MAX, Pacer, PlaneConfig};
use crate::progress::Progress;
use crate::ranks::{LanesInUse, LinkInUse, Ranks};
use crate::run::{OperationPort, Receiving, Sending};

/// A peer's lanes and running operations. Dropping it drops the lanes and stops the operations.
#[derive(Debug)]
pub struct DataPlane {
    config: PlaneConfig,
    registry: Arc<Registry>,
    pacer: Arc<Pacer>,
    pool: Arc<Pool>,
    control: Arc<ControlChoice>,
    reports: Reports,
    installed: BTreeMap<LinkId, Installed>,
    standing: BTreeMap<LinkId, StandingLink>,
    /// `None`: this peer takes part in no operations.
    ranks: Option<Ranks>,
}

impl DataPlane {
    /// A plane without lanes. What it tells goes to `events`.
    #[must_use]
    pub fn new(events: mpsc::UnboundedSender<LinkBroke>, config: PlaneConfig) -> Self {
        Self {
            registry: Arc::default(),
            pacer: Pacer::new(config.concurrent, config.frame_bytes as u64),
            pool: Pool::new(IDLE_FRAMES_MAX),
            control: Arc::default(),
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
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.reports.progress
    }

    /// Keeps lanes of `link`, built in `built`, in the order of their numbers, until they are adopted
    /// or abandoned. One direction of each is used, that of the link. The other direction stays open and must
    /// stay silent.
    pub fn install(&mut self, link: LinkId, built: Round, lanes: Vec<Lane>) {
        self.installed.insert(link, Installed { built, lanes });
    }

    /// Drops installed lanes that were not adopted.
    pub fn abandon(&mut self) {
        self.installed.clear();
    }

    /// From here on operations are run by these ranks, over these links; all other lanes are dropped, standing
    /// and installed. Has to be called inside a tokio runtime, whose tasks serve the lanes.
    pub fn adopt(&mut self, ranks: Option<Ranks>, links: &[LinkInUse]) {
        self.pacer.links_changed();
        self.control.links_changed();
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
            control,
            reports,
            ..
        } = self;
        StandingLink::stand(link, installed, config, registry, (control, reports))
    }

    /// Registers an execution, so that frames find it. Executions begin in the order of their numbers.
    /// The port is to be run soon.
    pub fn begin(&mut self, seq: Seq, spec: CollectiveSpec, algorithm: Algorithm) -> OperationPort {
        self.begin_of(seq, spec, &Lengths::NONE, algorithm)
    }

    /// The same. `lengths`: how many elements each rank contributes; empty if all buffers have the same length.
    pub fn begin_of(
        &mut self,
        seq: Seq,
        spec: CollectiveSpec,
        lengths: &Lengths,
        algorithm: Algorithm,
    ) -> OperationPort {
        let (address, inbox) = Inbox::new();
        let course = Arc::<Course>::default();
        let op = Operation {
            address: address.clone(),
            course: Arc::clone(&course),
        };
        let ins = self.links_in(algorithm.reach());
        let links = || ins.iter().flatten().map(|(_, standing)| &*standing.state);
        let ended = self.registry.begin(seq, op, links());
        // Frames that have waited for what never began here are thrown away by then.
        let strays: Vec<u64> = links().map(LinkState::strays).collect();
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
        let is_local = Sending::all_local(sending) && !self.pacer.leaves_machine();
        let bytes = spec.bytes();
        let pass = self.pacer.begin((seq, address.clone()), bytes, is_local);
        OperationPort {
            seq,
            spec,
            algorithm,
            place: self.ranks.as_ref().map(Ranks::place),
            divided: (self.ranks.as_ref()).and_then(|ranks| ranks.divide(&spec, lengths)),
            sites: self.ranks.as_ref().map(Ranks::sites).unwrap_or_default(),
            turns: self.ranks.as_ref().map(Ranks::turns).unwrap_or_default(),
            is_within_machine: self.ranks.as_ref().is_some_and(Ranks::are_within_machine),
            config: self.config.clone(),
            pool: Arc::clone(&self.pool),
            control: Arc::clone(&self.control),
            registry: Arc::clone(&self.registry),
            course,
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

    /// Whether operations wait on though nothing moves: the peers that they wait for may not know yet that they have
    /// begun. While the master is away nobody hears of that, and no operation can be decided anyway. The stall time
    /// begins anew when stalls are no longer excused. A lane may still end by itself if nothing takes what was sent on
    /// it, as over TCP on Linux. Default: no.
    pub fn excuse_stalls(&mut self, are_excused: bool) {
        self.registry.excuse_stalls(are_excused);
    }

    /// Whether operations wait on though nothing moves.
    #[must_use]
    pub fn stalls_are_excused(&self) -> bool {
        Registry::are_excused_in(self.registry.excuses())
    }

    /// All ranks run this execution, which was begun [ahead](OperationPort::ahead): from here on stalls count.
    pub fn confirm(&mut self, seq: Seq) {
        self.registry.confirm(seq);
    }

    /// The frames of `seq` are thrown away from here on, and a run that has not ended ends as stopped, at once.
    pub fn stop(&mut self, seq: Seq) {
        // A run that ends at the same time looks at the registry once it has told the control.
        let was_alone = self.registry.was_alone(seq);
        self.registry.stop(seq);
        self.control.stopped(seq, was_alone);
    }

    /// Frees the frame buffers that are kept for operations to come. Is none in use?
    pub fn trim(&self) -> bool {
        self.pool.trim()
    }

    /// Lanes that are to be a link are not here, which is a defect of this library. As a broken link it costs the
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
        self.control.links_changed();
    }
}
