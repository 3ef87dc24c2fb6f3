//! A run of one group beside a bystander, and what its peers say in it.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Epoch, PeerId, Revision, Round, Seq, Tag};
use pccl_core::master::{MasterConfig, MasterInput, MasterTimer};
use pccl_core::messages::{Misdeed, PlanOutcome, ToMaster};
use pccl_core::paths::Measurement;
use pccl_core::shared_state::{SyncStrategy, SyncVote};
use pccl_core::states::{ConnectionPhase, ConnectionState};
use pccl_core::topology::{BrokenLinks, LaneFailure, LinkId, Way};

use super::Bystander;
use super::words::Which;

/// The link on which a peer is sent to.
pub(super) const fn to(peer: u64) -> LinkId {
    LinkId::to(PeerId(peer))
}

/// The link on which a peer sends.
pub(super) const fn from(peer: u64) -> LinkId {
    LinkId::from(PeerId(peer))
}

/// The links of peer 2 on the ring 1, 2, 3.
pub(super) const BOTH: [LinkId; 2] = [to(3), from(1)];

pub(super) const SPEC: CollectiveSpec = CollectiveSpec {
    kind: CollectiveKind::AllReduce,
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 10,
    quantization: Quantization::None,
    algorithm: None,
    ordered: false,
};

/// What a peer says.
pub(super) type Words = fn(&mut Run, u64);

/// A run of one group, and what its peers say.
pub(super) struct Run {
    pub(super) bystander: Bystander,
}

impl Run {
    /// Peers 1 to `size` are accepted, on a ring in this order, and have reduced once. Nothing begins ahead, so numbers
    /// of collectives count those that have started.
    pub(super) fn of(size: u64) -> Self {
        let config = MasterConfig {
            ahead_max: 0,
            ..MasterConfig::rings_only()
        };
        Self::on(Bystander::new(config), size)
    }

    /// Likewise, under a master that is told so.
    pub(super) fn on(bystander: Bystander, size: u64) -> Self {
        let mut run = Self { bystander };
        run.bystander.join(0, false);
        for _ in 1..size {
            run.bystander.join(0, false);
        }
        run.all_update();
        run.all_connect();
        let all: Vec<u64> = (1..=size).collect();
        assert_eq!(run.accepted(), all);
        run.reduces(&all);
        run
    }

    pub(super) fn says(&mut self, peer: u64, message: ToMaster) {
        let peer = PeerId(peer);
        self.bystander.tell(MasterInput::Message { peer, message });
    }

    pub(super) fn fires(&mut self, timer: MasterTimer) {
        assert!(self.bystander.timers.remove(&timer), "{timer:?} runs");
        self.bystander.tell(MasterInput::TimerFired(timer));
    }

    pub(super) fn is_timed(&self, timer: MasterTimer) -> bool {
        self.bystander.timers.contains(&timer)
    }

    pub(super) fn all_update(&mut self) {
        for peer in self.accepted() {
            self.updates(peer, BrokenLinks::NONE);
        }
    }

    pub(super) fn updates(&mut self, peer: u64, broken: BrokenLinks) {
        let epoch = self.epoch(peer);
        self.says(peer, ToMaster::UpdateTopology { epoch, broken });
    }

    /// Of the ring that the peer is on.
    pub(super) fn epoch(&self, peer: u64) -> Epoch {
        let epochs = &self.bystander.epochs;
        epochs.get(&PeerId(peer)).copied().unwrap_or_default()
    }

    /// How often the peer was given time.
    pub(super) fn starts(&self, peer: u64) -> u64 {
        let starts = &self.bystander.starts;
        starts
            .get(&MasterTimer::Late(PeerId(peer)))
            .copied()
            .unwrap_or_default()
    }

    /// Whoever is to measure reports that it is fast to send to a lower number, rotation after rotation.
    pub(super) fn measures(&mut self) {
        let measures = |run: &Self| {
            let mut peers = run.bystander.master.view().peers();
            let state = ConnectionState::OptimizeTopology;
            peers.find_map(|(peer, known)| (known.state() == state).then_some(peer.0))
        };
        while let Some(peer) = measures(self) {
            let (round, ok) = (self.round(peer), true);
            for to in self
                .bystander
                .probes
                .remove(&PeerId(peer))
                .unwrap_or_default()
            {
                let is_fast = to < PeerId(peer) || (peer, to) == (1, PeerId(3));
                let measured = Measurement {
                    bytes_per_s: if is_fast { 100_000_000 } else { 10_000_000 },
                    round_trip_us: 1,
                };
                self.says(
                    peer,
                    ToMaster::Measured {
                        round,
                        to,
                        measured,
                    },
                );
            }
            self.says(peer, ToMaster::ProbesDone { round, ok });
        }
    }

    /// The round that the peer was told last.
    pub(super) fn round(&self, peer: u64) -> Round {
        self.bystander.heard[&PeerId(peer)].0
    }

    /// The link to the neighbour on the ring that the peer is on.
    pub(super) fn standing(&self, peer: u64, way: Way) -> LinkId {
        self.bystander.standing(PeerId(peer), way)
    }

    /// The link of this kind that the peer was told to connect.
    pub(super) fn ordered(&self, peer: u64, way: Way) -> LinkId {
        let link = self.bystander.link(PeerId(peer), Which::Ordered(way));
        assert!(self.bystander.is_ordered(PeerId(peer), link));
        link
    }

    pub(super) fn is_up(&mut self, peer: u64, link: LinkId) {
        let round = self.round(peer);
        self.bystander.is_reported(PeerId(peer), link);
        self.says(peer, ToMaster::LinkUp { round, link });
    }

    pub(super) fn fails(&mut self, peer: u64, link: LinkId) {
        self.fails_in(self.round(peer), peer, link);
    }

    pub(super) fn fails_in(&mut self, round: Round, peer: u64, link: LinkId) {
        let failure = LaneFailure::Refused;
        let failed = ToMaster::LinkFailed {
            round,
            link,
            failure,
        };
        self.bystander.is_reported(PeerId(peer), link);
        self.says(peer, failed);
    }

    /// Everybody reports all that is ordered.
    pub(super) fn all_connect(&mut self) {
        let ordered = self.bystander.ordered.clone();
        for (peer, links) in ordered {
            for link in links {
                self.is_up(peer.0, link);
            }
        }
    }

    /// Both links of the ring that the peer is on are broken.
    pub(super) fn both_broken(&self, peer: u64) -> BrokenLinks {
        let links = [Way::Out, Way::In].map(|way| self.standing(peer, way));
        BrokenLinks(links.to_vec())
    }

    /// All of the group's links are to be built anew, at the next update of all: all are broken.
    pub(super) fn rebuild(&mut self) {
        for peer in self.accepted() {
            self.updates(peer, self.both_broken(peer));
        }
    }

    pub(super) fn initiates(&mut self, peer: u64, tag: u64) {
        self.wants(peer, tag, SPEC);
    }

    pub(super) fn wants(&mut self, peer: u64, tag: u64, spec: CollectiveSpec) {
        let vote = ToMaster::InitiateCollective {
            tag: Tag(tag),
            spec,
            epoch: self.epoch(peer),
            broken: BrokenLinks::NONE,
        };
        self.says(peer, vote);
    }

    pub(super) fn completes(&mut self, peer: u64, seq: Seq) {
        self.votes(peer, seq, PlanOutcome::Done, BrokenLinks::NONE);
    }

    pub(super) fn votes(&mut self, peer: u64, seq: Seq, outcome: PlanOutcome, broken: BrokenLinks) {
        let vote = ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        };
        self.says(peer, vote);
    }

    pub(super) fn synchronizes(&mut self, peer: u64) {
        let vote = SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: Vec::new(),
        };
        self.says(peer, ToMaster::SyncSharedState(vote));
    }

    pub(super) fn accepted(&self) -> Vec<u64> {
        let view = self.bystander.master.view();
        let accepted = view
            .peers()
            .filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
        accepted.map(|(peer, _)| peer.0).collect()
    }

    pub(super) fn state(&self, peer: u64) -> Option<ConnectionState> {
        let view = self.bystander.master.view();
        view.peer(PeerId(peer)).map(|peer| peer.state())
    }

    /// Who was sent away for what.
    pub(super) fn gone(&self) -> Vec<(u64, Misdeed)> {
        let gone = self.bystander.gone.iter();
        gone.map(|(peer, misdeed)| (peer.0, misdeed.clone()))
            .collect()
    }

    /// The collective that everybody votes for commits on the ring of these.
    pub(super) fn reduces(&mut self, peers: &[u64]) {
        for peer in peers {
            self.initiates(*peer, 7);
        }
        self.all_connect();
        let seq = self.bystander.heard[&PeerId(peers[0])].1;
        let before = self.bystander.verdicts.len();
        for peer in peers {
            self.completes(*peer, seq);
        }
        assert_eq!(self.bystander.verdicts.len(), before + 1);
    }
}
