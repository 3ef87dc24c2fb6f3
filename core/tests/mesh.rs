//! A master that gives small groups a mesh: which links it orders, and what it does without one.

use std::collections::BTreeMap;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{ConnId, Epoch, GroupId, PeerId, ProtocolVersion, Round, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::plan::{Algorithm, Pattern};
use pccl_core::site::SiteName;
use pccl_core::topology::{BrokenLinks, LaneFailure, Layout, LinkId, LinkOrder, Way};
use pccl_core::wire::{CIRCULANT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, SITE_RING_SHARD_MIN};

/// Lanes that peers wish for.
const LANES: u16 = 4;

/// A link, sender first.
type Ends = (u64, u64);

struct Desk {
    master: Master,
    /// The orders that were given last.
    round: Round,
    orders: BTreeMap<(PeerId, LinkId), LinkOrder>,
    layouts: BTreeMap<PeerId, Layout>,
    /// What the peers were told last: whether all of them are within one machine.
    within_machine: Vec<bool>,
    commenced: Vec<Algorithm>,
    lost: Vec<PeerId>,
}

impl Desk {
    /// A run of peers 1 to n, each on a machine of its own, all of whose links come up.
    fn with(n: u64, config: MasterConfig) -> Self {
        Self::on((1..=n).map(|peer| peer as u8), config)
    }

    /// A run of a peer on each of these machines, all of whose links come up.
    fn on(machines: impl IntoIterator<Item = u8>, config: MasterConfig) -> Self {
        let mut desk = Self {
            master: Master::new(config),
            round: Round(0),
            orders: BTreeMap::new(),
            layouts: BTreeMap::new(),
            within_machine: Vec::new(),
            commenced: Vec::new(),
            lost: Vec::new(),
        };
        for (peer, machine) in (1..).zip(machines) {
            desk.joins(machine);
            desk.update(1..peer, &[]);
            desk.connect(|_| true);
        }
        desk
    }

    fn tell(&mut self, input: MasterInput) {
        let mut out = Vec::new();
        self.master.handle(input, &mut out);
        for output in out {
            match output {
                MasterOutput::Send { peer, message } => self.note(peer, message),
                MasterOutput::Lost { peer, .. } => self.lost.push(peer),
                _ => {}
            }
        }
    }

    fn note(&mut self, peer: PeerId, message: ToPeer) {
        match message {
            ToPeer::EstablishLinks { round, links } => {
                if round != self.round {
                    self.orders.clear();
                    self.within_machine.clear();
                }
                self.round = round;
                let orders = links.into_iter().map(|order| ((peer, order.link()), order));
                self.orders.extend(orders);
            }
            ToPeer::TopologyEstablished { topology, layout } => {
                self.within_machine.push(topology.within_machine);
                self.layouts.insert(peer, layout);
            }
            ToPeer::Commence { algorithm, .. } => self.commenced.push(algorithm),
            _ => {}
        }
    }

    fn says(&mut self, peer: u64, message: ToMaster) {
        let peer = PeerId(peer);
        self.tell(MasterInput::Message { peer, message });
    }

    fn joins(&mut self, machine: u8) {
        self.joins_at(machine, "");
    }

    fn joins_at(&mut self, machine: u8, site: &str) {
        let site = SiteName::try_from(site.to_owned()).unwrap();
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: LANES,
            site,
            name: Default::default(),
        };
        self.tell(MasterInput::Connected {
            conn: ConnId(0),
            hello,
            from: [192, 0, 2, machine].into(),
            identity: None,
        });
    }

    fn epoch(&self) -> Epoch {
        self.master.view().epoch(GroupId(0)).unwrap_or(Epoch(0))
    }

    /// These call for an update. What each says of its links is what is broken, by the sender.
    fn update(&mut self, peers: impl IntoIterator<Item = u64>, broken: &[Ends]) {
        for peer in peers {
            let epoch = self.epoch();
            let broken = broken.iter().filter(|(from, _)| *from == peer);
            let broken = BrokenLinks(broken.map(|(_, to)| LinkId::to(PeerId(*to))).collect());
            self.says(peer, ToMaster::UpdateTopology { epoch, broken });
        }
    }

    /// What was ordered, sender first, and for how many lanes.
    fn ordered(&self) -> BTreeMap<Ends, u16> {
        let out = self.orders.iter();
        let out = out.filter(|((_, link), _)| link.way == Way::Out);
        let lanes = out.map(|((peer, link), order)| ((peer.0, link.with.0), order.lanes.lanes));
        lanes.collect()
    }

    /// Whoever is to open lanes says how that went; the other end says nothing of those that fail.
    fn connect(&mut self, works: impl Fn(Ends) -> bool) {
        let round = self.round;
        for ((peer, link), order) in std::mem::take(&mut self.orders) {
            let (from, to) = link.ends(peer);
            if works((from.0, to.0)) {
                self.says(peer.0, ToMaster::LinkUp { round, link });
            } else if order.lanes.dial.is_some() {
                let failure = LaneFailure::Refused;
                let failed = ToMaster::LinkFailed {
                    round,
                    link,
                    failure,
                };
                self.says(peer.0, failed);
            }
        }
    }

    fn links_of(&self, peer: u64) -> usize {
        self.layouts[&PeerId(peer)].0.len()
    }

    /// How the group reduces so many bytes.
    fn reduce(&mut self, bytes: u64) -> Option<Algorithm> {
        self.reduce_by(None, bytes)
    }

    /// The same if all wish for this.
    fn reduce_by(&mut self, wish: Option<Algorithm>, bytes: u64) -> Option<Algorithm> {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::U8,
            count: bytes,
            quantization: Quantization::None,
            algorithm: wish,
            ordered: false,
        };
        let members: Vec<u64> = self.master.view().peers().map(|(peer, _)| peer.0).collect();
        let (tag, epoch) = (Tag(self.commenced.len() as u64), self.epoch());
        self.commenced.clear();
        for peer in &members {
            let initiate = ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken: BrokenLinks::NONE,
            };
            self.says(*peer, initiate);
        }
        assert!(self.commenced.windows(2).all(|pair| pair[0] == pair[1]));
        self.commenced.first().copied()
    }
}

const MIDDLE: u64 = 1_000_000;

#[test]
fn a_small_group_has_a_mesh_of_single_lanes_around_its_ring() {
    let mut desk = Desk::with(3, MasterConfig::default());
    desk.joins(3);
    desk.update(1..=3, &[]);

    // The ring 1, 2, 3 takes the newcomer in at its end.
    let expected = [
        ((3, 4), LANES),
        ((4, 1), LANES),
        ((1, 4), 1),
        ((2, 4), 1),
        ((4, 2), 1),
        ((4, 3), 1),
    ];
    assert_eq!(desk.ordered(), BTreeMap::from(expected));
    desk.connect(|_| true);

    assert_eq!(desk.links_of(4), 6);
    assert_eq!(desk.reduce(MIDDLE), Some(Algorithm::Direct));
}

#[test]
fn what_small_large_and_middle_sized_collectives_take_is_the_same_for_all() {
    for (bytes, algorithm) in [
        (100, Algorithm::Whole(Pattern::Mesh)),
        (MIDDLE, Algorithm::Direct),
        (10 * MIDDLE, Algorithm::Ring),
    ] {
        let mut desk = Desk::with(3, MasterConfig::default());
        assert_eq!(desk.reduce(bytes), Some(algorithm));
        assert_eq!(desk.commenced.len(), 3);
    }
}

#[test]
fn peers_of_one_machine_send_around_their_ring_what_others_exchange_directly() {
    let within = DIRECT_WITHIN_MACHINE_MAX;
    let directly = Some(Algorithm::Direct);
    let mut one_machine = Desk::on([7, 7, 7], MasterConfig::default());
    assert_eq!(one_machine.reduce(within), directly);

    let mut one_machine = Desk::on([7, 7, 7], MasterConfig::default());
    assert_eq!(one_machine.reduce(within + 1), Some(Algorithm::Ring));

    let mut two_machines = Desk::on([7, 7, 8], MasterConfig::default());
    assert_eq!(two_machines.reduce(within + 1), directly);
}

#[test]
fn four_peers_of_one_machine_take_rounds_where_four_machines_exchange_directly() {
    for (bytes, within, between) in [
        (
            100,
            Algorithm::Whole(Pattern::Circulant),
            Algorithm::Whole(Pattern::Mesh),
        ),
        (
            CIRCULANT_BUFFER_MAX,
            Algorithm::Circulant,
            Algorithm::Direct,
        ),
        (CIRCULANT_BUFFER_MAX + 1, Algorithm::Ring, Algorithm::Direct),
    ] {
        let mut one_machine = Desk::on([7; 4], MasterConfig::default());
        assert_eq!(one_machine.reduce(bytes), Some(within));

        let mut four_machines = Desk::on([6, 7, 8, 9], MasterConfig::default());
        assert_eq!(four_machines.reduce(bytes), Some(between));
    }
}

#[test]
fn a_larger_group_or_one_that_shall_not_has_its_ring_alone() {
    let three = MasterConfig {
        mesh_max: 3,
        ..MasterConfig::default()
    };
    for (n, config) in [(4, three), (3, MasterConfig::rings_only())] {
        let mut desk = Desk::with(n, config);

        assert!((1..=n).all(|peer| desk.links_of(peer) == 2));
        assert_eq!(desk.reduce(MIDDLE), Some(Algorithm::Ring));
    }
}

#[test]
fn a_group_at_several_sites_has_a_mesh_beyond_the_usual_size_for_its_two_levels() {
    let at_sites = |config: MasterConfig| {
        let mut desk = at_sites(&["eu", "us", "eu", "us"], config);
        (desk.links_of(4), desk.reduce(100 * MIDDLE))
    };
    let config = |sites_mesh_max| MasterConfig {
        mesh_max: 3,
        sites_mesh_max,
        ..MasterConfig::default()
    };

    assert_eq!(at_sites(config(4)), (6, Some(Algorithm::TwoLevel)));
    assert_eq!(at_sites(config(3)), (2, Some(Algorithm::Ring)));
}

/// Peers at these sites, from 1 on.
fn at_sites(sites: &[&str], config: MasterConfig) -> Desk {
    let mut desk = Desk::with(0, config);
    for (peer, site) in (1..).zip(sites) {
        desk.joins_at(peer as u8, site);
        desk.update(1..peer, &[]);
        desk.connect(|_| true);
    }
    desk
}

#[test]
fn a_large_reduce_goes_around_three_sites_if_they_are_even() {
    let large = 6 * (SITE_RING_SHARD_MIN + 1);
    for (sites, algorithm) in [
        (
            ["eu", "eu", "us", "us", "sa", "sa"],
            Algorithm::TwoLevelRing,
        ),
        (["eu", "us", "us", "us", "sa", "sa"], Algorithm::TwoLevel),
    ] {
        let mut desk = at_sites(&sites, MasterConfig::default());
        assert_eq!(desk.reduce(large), Some(algorithm), "{sites:?}");
    }
}

#[test]
fn a_wish_of_all_is_granted_if_the_links_are_there() {
    let wish = Some(Algorithm::Direct);
    let mut mesh = Desk::with(3, MasterConfig::default());
    assert_eq!(mesh.reduce_by(wish, 100 * MIDDLE), wish);

    let mut ring = Desk::with(3, MasterConfig::rings_only());
    assert_eq!(ring.reduce_by(wish, MIDDLE), Some(Algorithm::Ring));
}

#[test]
fn where_a_link_of_the_mesh_is_refused_the_ring_stands_alone_and_nobody_goes() {
    let mut desk = Desk::with(2, MasterConfig::default());
    desk.joins(3);
    desk.update(1..=2, &[]);
    desk.connect(|link| link != (1, 3));

    assert!((1..=3).all(|peer| desk.links_of(peer) == 2));
    assert_eq!(desk.reduce(MIDDLE), Some(Algorithm::Ring));
    assert!(desk.lost.is_empty());

    // And it is not tried again as long as both are there.
    let mut desk = Desk::with(2, MasterConfig::default());
    desk.joins(3);
    desk.update(1..=2, &[]);
    desk.connect(|link| link != (1, 3));
    let before = desk.round;
    desk.update(1..=3, &[]);
    assert_eq!((desk.round, desk.ordered().len()), (before, 0));
}

#[test]
fn a_link_of_the_mesh_of_which_nobody_says_anything_holds_nobody_up_for_longer_than_the_time() {
    let mut desk = Desk::with(2, MasterConfig::default());
    desk.joins(3);
    desk.update(1..=2, &[]);
    let round = desk.round;
    for ((peer, link), _) in std::mem::take(&mut desk.orders) {
        if link.ends(peer) != (PeerId(1), PeerId(3)) {
            desk.says(peer.0, ToMaster::LinkUp { round, link });
        }
    }
    let before = desk.master.view().ring(GroupId(0)).map(|ring| ring.0.len());

    desk.tell(MasterInput::TimerFired(MasterTimer::Wiring(round)));

    assert_eq!(before, Some(2));
    assert!((1..=3).all(|peer| desk.links_of(peer) == 2));
    assert!(desk.lost.is_empty());
}

#[test]
fn a_link_of_the_mesh_that_has_lost_a_lane_is_built_again() {
    let mut desk = Desk::with(3, MasterConfig::default());
    desk.update(1..=3, &[(1, 3)]);

    assert_eq!(desk.ordered(), BTreeMap::from([((1, 3), 1)]));
    desk.connect(|_| true);

    assert_eq!(desk.reduce(MIDDLE), Some(Algorithm::Direct));
}

#[test]
fn when_a_ring_closes_behind_a_loss_a_link_of_the_mesh_gets_the_lanes_of_a_ring() {
    let mut desk = Desk::with(4, MasterConfig::default());
    desk.tell(MasterInput::Disconnected { peer: PeerId(3) });
    desk.update([1, 2, 4], &[]);

    assert_eq!(desk.ordered(), BTreeMap::from([((2, 4), LANES)]));
    desk.connect(|_| true);

    assert_eq!(desk.reduce(MIDDLE), Some(Algorithm::Direct));
}

#[test]
fn peers_are_told_whether_all_of_them_are_within_one_machine() {
    let one = Desk::on([1, 1, 1], MasterConfig::default());
    let two = Desk::on([1, 1, 2], MasterConfig::default());

    assert_eq!(one.within_machine, [true; 3]);
    assert_eq!(two.within_machine, [false; 3]);
}
