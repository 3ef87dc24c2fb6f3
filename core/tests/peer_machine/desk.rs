//! One peer machine on a desk: its driver and its master are played by hand. Brings the vocabulary
//! along.
#![allow(unreachable_pub, reason = "the tests beside it import all of it")]

use std::net::SocketAddr;

pub use pccl_core::element::*;
pub use pccl_core::id::*;
pub use pccl_core::lengths::*;
pub use pccl_core::messages::*;
pub use pccl_core::paths::*;
pub use pccl_core::peer::*;
pub use pccl_core::plan::{Algorithm, Pattern};
pub use pccl_core::shared_state::*;
pub use pccl_core::site::*;
pub use pccl_core::topology::*;

/// The peer on the desk is this one, unless it is said otherwise.
pub const ME: PeerId = PeerId(2);

/// How many collectives it may have in flight.
pub const COLLECTIVES_AT_ONCE: u16 = 3;

pub struct Desk {
    pub peer: Peer,
}

impl Desk {
    /// A peer that has called nothing.
    pub fn unconnected() -> Self {
        let config = PeerConfig {
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 4,
            site: site_of(ME.0),
            name: Default::default(),
            collectives_max: COLLECTIVES_AT_ONCE,
        };
        let peer = Peer::new(config);
        Self { peer }
    }

    /// A peer that has said hello.
    pub fn awaiting_welcome() -> Self {
        let mut desk = Self::unconnected();
        desk.calls(Call::Connect);
        desk
    }

    /// A peer that waits to be admitted.
    pub fn registered() -> Self {
        let mut desk = Self::awaiting_welcome();
        desk.hears(welcome());
        desk
    }

    /// A peer that was just admitted to the ring 1, 2, 3, connected in round 1.
    pub fn fresh() -> Self {
        let mut desk = Self::registered();
        desk.hears(establish(1, &[to(3), from(1)]));
        desk.gets(link_up(1, to(3)));
        desk.gets(link_up(1, from(1)));
        desk.hears(established(1, &[1, 2, 3], &FIRST_LINKS));
        assert!(desk.peer.view().topology().is_some());
        desk
    }

    /// The same, after its first update, for which it did not have to vote.
    pub fn resting() -> Self {
        let mut desk = Self::fresh();
        desk.calls(Call::UpdateTopology);
        assert!(desk.peer.view().rests());
        desk
    }

    /// The same, after an update for which it has voted. Nothing waits.
    pub fn accepted() -> Self {
        let mut desk = Self::resting();
        desk.calls(Call::UpdateTopology);
        desk.hears(established(1, &[1, 2, 3], &FIRST_LINKS));
        assert!(!desk.peer.view().rests() && desk.peer.view().is_idle());
        desk
    }

    /// `me` updates the topology of a ring with `other` alone, connected in round 1.
    pub fn in_a_ring_of_two(me: PeerId, other: PeerId) -> Self {
        let mut desk = Self::awaiting_welcome();
        desk.hears(welcome_as(me));
        let links = [LinkId::to(other), LinkId::from(other)];
        desk.hears(establish(1, &links));
        for link in links {
            desk.gets(link_up(1, link));
        }
        desk.hears(established(1, &[2, 3], &links.map(|link| (link, 1))));
        desk.calls(Call::UpdateTopology);
        desk.calls(Call::UpdateTopology);
        assert!(desk.peer.view().open_calls().major.is_some());
        desk
    }

    pub fn gets(&mut self, input: PeerInput) -> Vec<PeerOutput> {
        let mut out = Vec::new();
        self.peer.handle(input, &mut out);
        out
    }

    /// What the peer does about a message, the restart of its silence timer apart.
    pub fn hears(&mut self, message: ToPeer) -> Vec<PeerOutput> {
        let mut out = self.gets(PeerInput::Message(message));
        out.retain(|output| !matches!(output, PeerOutput::StartTimer { .. }));
        out
    }

    /// Makes a call under the name that calls of its kind have here.
    pub fn calls(&mut self, what: Call) -> Vec<PeerOutput> {
        self.calls_as(name_of(what.kind()), what)
    }

    /// Makes a call under another name.
    pub fn calls_as(&mut self, call: CallId, what: Call) -> Vec<PeerOutput> {
        self.gets(PeerInput::Call { call, what })
    }

    /// Gives up the call that was made like this.
    pub fn gives_up(&mut self, what: &Call) -> Vec<PeerOutput> {
        let call = name_of(what.kind());
        self.gets(PeerInput::GiveUp { call })
    }
}

const CONNECT: CallId = CallId(0);
const UPDATE: CallId = CallId(1);
const QUERY: CallId = CallId(2);
const OPTIMIZE: CallId = CallId(3);
const SYNC: CallId = CallId(4);

/// The name that a collective of this tag has here.
pub const fn name_of_tag(tag: Tag) -> CallId {
    CallId(tag.0 + 100)
}

/// The name that calls of this kind have here.
pub const fn name_of(kind: Kind) -> CallId {
    match kind {
        Kind::Connect => CONNECT,
        Kind::UpdateTopology => UPDATE,
        Kind::ArePeersPending => QUERY,
        Kind::OptimizeTopology => OPTIMIZE,
        Kind::SyncSharedState => SYNC,
        Kind::Collective(tag) => name_of_tag(tag),
    }
}

/// An answer to a call that has the name of its kind.
pub fn to_caller(answer: Answer) -> PeerOutput {
    let call = name_of(answer.kind());
    PeerOutput::Answer { call, answer }
}

pub fn move_state(plan: SyncPlan) -> PeerOutput {
    PeerOutput::MoveState { call: SYNC, plan }
}

pub fn welcome() -> ToPeer {
    welcome_as(ME)
}

pub fn welcome_as(peer: PeerId) -> ToPeer {
    ToPeer::Welcome {
        peer,
        heartbeat_ms: 1000,
        silence_ms: 5000,
    }
}

/// What some measurement finds.
pub const MEASURED: Measurement = Measurement {
    bytes_per_s: 1000,
    round_trip_us: 20,
};

pub fn order(with: u64) -> LaneOrder {
    LaneOrder {
        with: PeerId(with),
        ticket: Ticket(7),
        dial: Some(SocketAddr::from(([192, 0, 2, 1], 48149))),
        lanes: 4,
        identity: None,
    }
}

/// The link on which this peer is sent to.
pub const fn to(peer: u64) -> LinkId {
    LinkId::to(PeerId(peer))
}

/// The link on which this peer sends.
pub const fn from(peer: u64) -> LinkId {
    LinkId::from(PeerId(peer))
}

/// The links of [`ME`] in the ring 1, 2, 3, built in round 1.
pub const FIRST_LINKS: [(LinkId, u64); 2] = [(to(3), 1), (from(1), 1)];

pub fn link_order(link: LinkId) -> LinkOrder {
    let (way, lanes) = (link.way, order(link.with.0));
    LinkOrder { way, lanes }
}

/// Orders these links, as they stand there.
pub fn establish(round: u64, links: &[LinkId]) -> ToPeer {
    let links = links.iter().copied().map(link_order).collect();
    let round = Round(round);
    ToPeer::EstablishLinks { round, links }
}

/// Even ones are at one site, odd ones name none.
pub fn site_of(peer: u64) -> SiteName {
    let name = if peer.is_multiple_of(2) { "eu" } else { "" };
    name.to_owned().try_into().unwrap()
}

pub fn sites_of(ring: &[u64]) -> SiteMap {
    let sites: Vec<SiteName> = ring.iter().copied().map(site_of).collect();
    SiteMap::new(&sites)
}

pub fn topology(epoch: u64, ring: &[u64]) -> Topology {
    let size = u32::try_from(ring.len()).unwrap();
    Topology {
        epoch: Epoch(epoch),
        ring: Ring(ring.iter().copied().map(PeerId).collect()),
        sites: sites_of(ring),
        lanes: 4,
        within_machine: false,
        world: WorldSizes {
            global: size,
            group: size,
            groups: 1,
            largest_group: size,
        },
        names: Vec::new(),
    }
}

/// `links`: those that this peer has, as they stand there, and the rounds in which they were built.
pub fn established(epoch: u64, ring: &[u64], links: &[(LinkId, u64)]) -> ToPeer {
    let built = |(link, round): &(LinkId, u64)| BuiltLink {
        link: *link,
        built: Round(*round),
    };
    let layout = Layout(links.iter().map(built).collect());
    let topology = topology(epoch, ring);
    ToPeer::TopologyEstablished { topology, layout }
}

/// With the sites of other ranks.
pub fn with_sites(mut message: ToPeer, sites: SiteMap) -> ToPeer {
    if let ToPeer::TopologyEstablished { topology, .. } = &mut message {
        topology.sites = sites;
    }
    message
}

/// The same with so many names.
pub fn with_names(mut message: ToPeer, names: usize) -> ToPeer {
    if let ToPeer::TopologyEstablished { topology, .. } = &mut message {
        topology.names = vec![Default::default(); names];
    }
    message
}

/// The lanes that stand.
pub const KEEP: AdoptedLanes = AdoptedLanes::Keep;

/// The lanes that came up in this round.
pub const fn from_round(round: u64) -> AdoptedLanes {
    AdoptedLanes::Use(Round(round))
}

pub fn adopt(topology: Topology, links: &[(LinkId, AdoptedLanes)]) -> PeerOutput {
    let adopted = |(link, lanes): &(LinkId, AdoptedLanes)| AdoptedLink {
        link: *link,
        lanes: *lanes,
    };
    let links = links.iter().map(adopted).collect();
    PeerOutput::AdoptRing { topology, links }
}

pub fn link_up(round: u64, link: LinkId) -> PeerInput {
    let round = Round(round);
    PeerInput::LinkUp { round, link }
}

pub fn link_failed(round: u64, link: LinkId, failure: LaneFailure) -> PeerInput {
    let round = Round(round);
    PeerInput::LinkFailed {
        round,
        link,
        failure,
    }
}

pub fn link_broke(link: LinkId, built: u64) -> PeerInput {
    let built = Round(built);
    PeerInput::LinkBroke { link, built }
}

pub fn broken(links: &[LinkId]) -> BrokenLinks {
    BrokenLinks(links.to_vec())
}

pub fn spec() -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        op: ReduceOp::Sum,
        element: ElementType::F32,
        count: 10,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

pub fn initiate(tag: u64) -> Call {
    let (tag, spec) = (Tag(tag), spec());
    Call::Initiate { tag, spec }
}

pub fn sync_vote() -> SyncVote {
    SyncVote {
        revision: Revision(0),
        strategy: SyncStrategy::EnforcePopular,
        restart: false,
        entries: Vec::new(),
    }
}

/// The messages among the outputs.
pub fn sent(out: &[PeerOutput]) -> Vec<&ToMaster> {
    out.iter()
        .filter_map(|output| match output {
            PeerOutput::Send(message) => Some(message),
            _ => None,
        })
        .collect()
}

/// The answers among the outputs.
pub fn answers(out: &[PeerOutput]) -> Vec<&Answer> {
    out.iter()
        .filter_map(|output| match output {
            PeerOutput::Answer { answer, .. } => Some(answer),
            _ => None,
        })
        .collect()
}

pub fn ended(tag: u64, result: Result<Committed, CallError>) -> PeerOutput {
    let tag = Tag(tag);
    to_caller(Answer::CollectiveEnded { tag, result })
}

pub fn aborted(tag: u64, cause: AbortCause) -> PeerOutput {
    let tag = Tag(tag);
    ended(tag.0, Err(CallError::Aborted { tag, cause }))
}

/// What collectives of [`spec`] take on a ring.
pub fn algorithm() -> Algorithm {
    Algorithm::Whole(Pattern::Ring)
}

pub fn commence(tag: u64, seq: u64) -> ToPeer {
    let (tag, seq) = (Tag(tag), Seq(seq));
    ToPeer::Commence {
        tag,
        seq,
        algorithm: algorithm(),
        lengths: Lengths::NONE,
        total_weight: 0,
    }
}

pub fn verdict(tag: u64, seq: u64, verdict: Verdict) -> ToPeer {
    let (tag, seq) = (Tag(tag), Seq(seq));
    ToPeer::Verdict { tag, seq, verdict }
}

/// Committed on the ring of this epoch.
pub fn committed(epoch: u64) -> Verdict {
    let epoch = Epoch(epoch);
    Verdict::Committed { epoch, next: None }
}

/// The same, and the next one may begin ahead under this number.
pub fn committed_with_next(epoch: u64, next: u64) -> Verdict {
    let next = Some(reserved(next));
    let epoch = Epoch(epoch);
    Verdict::Committed { epoch, next }
}

pub fn reserved(seq: u64) -> Reserved {
    let (seq, algorithm) = (Seq(seq), algorithm());
    Reserved { seq, algorithm }
}

pub fn plan_ended(seq: u64, outcome: PlanOutcome) -> PeerInput {
    let seq = Seq(seq);
    PeerInput::PlanEnded { seq, outcome }
}

pub fn completion(seq: u64, outcome: PlanOutcome, broken: BrokenLinks) -> PeerOutput {
    let seq = Seq(seq);
    PeerOutput::Send(ToMaster::CompleteCollective {
        seq,
        outcome,
        broken,
    })
}

pub fn is_gone_with(desk: &Desk, why: &CallError) -> bool {
    desk.peer.view().ended() == Some(why)
}

/// A desk whose tag 1 runs as operation 9.
pub fn performing() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.hears(commence(1, 9));
    desk
}

/// A desk whose tag 1 has ended its plan with `outcome`.
pub fn voted(outcome: PlanOutcome) -> Desk {
    let mut desk = performing();
    desk.gets(plan_ended(9, outcome));
    desk
}

pub fn plan(role: SyncRole) -> SyncPlan {
    SyncPlan {
        round: Round(5),
        revision: Revision(3),
        role,
    }
}

pub fn fetch_one() -> SyncRole {
    SyncRole::Request {
        from: vec![order(1)],
        entries: vec![(EntryIndex(0), ContentHash(77))].into(),
    }
}

pub fn conclusion(result: Result<Revision, SyncFailure>) -> ToPeer {
    let round = Round(5);
    ToPeer::SharedStateConcluded { round, result }
}
