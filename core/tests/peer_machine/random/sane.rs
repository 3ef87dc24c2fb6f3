//! A sane master and driver, so that deep states are reached.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{Epoch, PeerId, Revision, Round, Seq, Tag};
use pccl_core::lengths::Lengths;
use pccl_core::messages::{
    AbortCause, CallKind, CollectiveRefusal, PlanOutcome, Reserved, ToMaster, ToPeer, Verdict,
};
use pccl_core::paths::RingReport;
use pccl_core::peer::{Peer, PeerInput, PeerOutput, PeerPhase, PeerTimer};
use pccl_core::shared_state::{SyncFailure, SyncPlan, SyncRole};
use pccl_core::topology::{LaneFailure, LinkId, LinkOrder, Way};

use crate::desk::{
    algorithm, establish, established, from, link_broke, link_failed, link_up, to, welcome,
};

/// The links of the ring 1, 2, 3 at peer 2.
const OF_RING: [LinkId; 2] = [to(3), from(1)];
/// Its other links to members of that ring.
const BEYOND: [LinkId; 2] = [to(1), from(3)];

/// A bystander that plays a sane master and driver: what it says next fits what the peer waits for.
#[derive(Default)]
pub(super) struct Sane {
    round: u64,
    seq: u64,
    /// The collective that may begin ahead, and its number.
    reserved: Option<(Tag, Seq)>,
    epoch: u64,
    /// Inputs that the driver owes for orders that it was given.
    owed: Vec<PeerInput>,
    query: bool,
    /// Votes to start that the peer has taken back.
    withdrawn: Vec<Tag>,
    /// The links that stand, and the rounds of their lanes.
    standing: BTreeMap<LinkId, u64>,
    /// The last order, and which of its links are up.
    order: u64,
    pub(super) up: BTreeSet<LinkId>,
    /// The links that were announced last.
    announced: BTreeMap<LinkId, u64>,
}

impl Sane {
    pub(super) fn notes(&mut self, out: &[PeerOutput]) {
        for output in out {
            match output {
                PeerOutput::Establish { round, links } => {
                    (self.order, self.up) = (round.0, BTreeSet::new());
                    let ordered = links.iter().map(LinkOrder::link);
                    self.owed
                        .extend(ordered.map(|link| reported(round.0, link)));
                }
                PeerOutput::RunPlan { seq, .. } => {
                    let (seq, outcome) = (*seq, PlanOutcome::Done);
                    let ended = PeerInput::PlanEnded { seq, outcome };
                    let due = PeerInput::TimerFired(PeerTimer::HeartbeatDue);
                    self.owed.extend([PeerInput::Moved, due, ended]);
                }
                PeerOutput::MoveState { plan, .. } => self.owed.push(PeerInput::TransfersEnded {
                    round: plan.round,
                    ok: true,
                    with: None,
                }),
                PeerOutput::Probe { round, .. } => self.owed.push(PeerInput::ProbesEnded {
                    round: *round,
                    ok: true,
                }),
                PeerOutput::Send(ToMaster::ArePeersPending) => self.query = true,
                PeerOutput::Send(ToMaster::Withdraw { tag }) => self.withdrawn.push(*tag),
                PeerOutput::Send(ToMaster::LinkUp { round, link }) => {
                    let is_present = round.0 == self.order;
                    self.up.extend(is_present.then_some(*link));
                }
                PeerOutput::AdoptRing { .. } => {
                    (self.standing, self.up) = (self.announced.clone(), BTreeSet::new());
                }
                PeerOutput::Send(_)
                | PeerOutput::Answer { .. }
                | PeerOutput::StopPlan { .. }
                | PeerOutput::Confirm { .. }
                | PeerOutput::StopProbes { .. }
                | PeerOutput::CommitState { .. }
                | PeerOutput::DropState { .. }
                | PeerOutput::StartTimer { .. }
                | PeerOutput::StopTimer(_)
                | PeerOutput::Awaited(_)
                | PeerOutput::Close => {}
            }
        }
    }

    /// The collective that a user may call again, so that it begins ahead.
    pub(super) fn again(&self, peer: &Peer, choice: u8) -> Option<Tag> {
        let (tag, _) = self.reserved?;
        (choice.is_multiple_of(2) && peer.view().is_idle()).then_some(tag)
    }

    pub(super) fn next(&mut self, peer: &Peer, choice: u8) -> Option<PeerInput> {
        if choice % 16 == 7
            && let Some(broke) = self.breaks(usize::from(choice / 16))
        {
            return Some(broke);
        }
        if !choice.is_multiple_of(5) && !self.owed.is_empty() {
            return Some(self.owed.remove(0));
        }
        self.says(peer, choice).map(PeerInput::Message)
    }

    /// A lane ends of one of the links that stand, or that are up.
    fn breaks(&self, choice: usize) -> Option<PeerInput> {
        let stand = self.standing.iter().map(|(link, built)| (*link, *built));
        let links = stand.chain(self.up.iter().map(|link| (*link, self.order)));
        let links: Vec<(LinkId, u64)> = links.collect();
        let (link, built) = links.get(choice % links.len().max(1))?;
        Some(link_broke(*link, *built))
    }

    fn says(&mut self, peer: &Peer, choice: u8) -> Option<ToPeer> {
        let view = peer.view();
        let bit = choice & 8 == 0;
        match view.phase() {
            PeerPhase::Unconnected | PeerPhase::Gone => return None,
            PeerPhase::AwaitingWelcome => return Some(welcome()),
            PeerPhase::Registered => return Some(self.ring(choice)),
            PeerPhase::Accepted => {}
        }
        if self.query && bit {
            self.query = false;
            return Some(ToPeer::PeersPending { pending: bit });
        }
        if choice & 64 == 0 && (self.is_between_calls(peer) || !self.up.is_empty()) {
            return Some(self.ring(choice));
        }
        match view.open_calls().major {
            Some(CallKind::UpdateTopology) => Some(self.ring(choice)),
            Some(CallKind::OptimizeTopology) => Some(self.optimization(choice)),
            Some(CallKind::SyncSharedState) => Some(self.sync(choice)),
            Some(CallKind::Collective) | None => self.collective(peer, choice),
        }
    }

    /// Has nothing begun that another ring would disturb, as far as that can be seen from outside?
    fn is_between_calls(&self, peer: &Peer) -> bool {
        let view = peer.view();
        let waits = view.tags().next().is_some() && view.tags().all(|tag| tag.seq.is_none());
        let idle = view.is_idle();
        idle || waits || view.open_calls().major.is_some() && self.owed.is_empty()
    }

    /// Orders both links of the ring or one of them, and perhaps others; announces what has come up, or, where
    /// the attempt came to nothing, what stood before.
    fn ring(&mut self, choice: u8) -> ToPeer {
        let built = self.built(choice);
        let is_there = |link: &LinkId| built.contains_key(link);
        if choice & 8 == 0 || !OF_RING.iter().all(is_there) {
            self.round += 1;
            return establish(self.round, &self.lacking(choice));
        }
        self.epoch += 1;
        let links: Vec<(LinkId, u64)> = built.clone().into_iter().collect();
        self.announced = built;
        established(self.epoch, &[1, 2, 3], &links)
    }

    /// The links that a ring could come with now. Those beyond it are mostly among them.
    fn built(&self, choice: u8) -> BTreeMap<LinkId, u64> {
        let stays = choice & 32 == 0;
        let beyond = BEYOND.iter().filter(|_| choice & 3 != 0);
        let round_of = |link: &LinkId| {
            let stood = self.standing.get(link).copied();
            let fresh = self.up.contains(link).then_some(self.order);
            match stays {
                true => stood.or(fresh),
                false => fresh.or(stood),
            }
        };
        let links = OF_RING.iter().chain(beyond);
        let built = links.filter_map(|link| Some((*link, round_of(link)?)));
        built.collect()
    }

    /// What is to be connected next, in order.
    fn lacking(&self, choice: u8) -> Vec<LinkId> {
        let all = choice & 16 == 0;
        let lacks = |link: LinkId| all || !self.standing.contains_key(&link);
        let [next, previous] = OF_RING;
        let chosen = [
            (next, lacks(next) || choice & 128 == 0),
            (previous, lacks(previous) || choice & 128 != 0),
            (BEYOND[0], choice & 2 != 0),
            (BEYOND[1], choice & 4 != 0),
        ];
        let chosen = chosen.into_iter().filter(|(_, is_chosen)| *is_chosen);
        let links: BTreeSet<LinkId> = chosen.map(|(link, _)| link).collect();
        links.into_iter().collect()
    }

    fn optimization(&mut self, choice: u8) -> ToPeer {
        if choice & 16 == 0 {
            self.round += 1;
            let (round, probes) = (Round(self.round), Vec::new());
            return ToPeer::Probe { round, probes };
        }
        let report = (choice & 32 == 0).then(RingReport::default);
        ToPeer::OptimizationConcluded { report }
    }

    fn sync(&mut self, choice: u8) -> ToPeer {
        let revision = Revision(0);
        if choice & 16 == 0 {
            self.round += 1;
            let (round, role) = (Round(self.round), SyncRole::Distribute { to: Vec::new() });
            return ToPeer::SharedStatePlan(SyncPlan {
                round,
                revision,
                role,
            });
        }
        let failed = Err(SyncFailure::TimedOut);
        let result = if choice & 32 == 0 {
            Ok(revision)
        } else {
            failed
        };
        let round = Round(self.round);
        ToPeer::SharedStateConcluded { round, result }
    }

    fn collective(&mut self, peer: &Peer, choice: u8) -> Option<ToPeer> {
        use pccl_core::states::CollectiveCommunicationState as State;
        let tags: Vec<_> = peer.view().tags().collect();
        let view = tags.get(usize::from(choice) % tags.len().max(1))?;
        let tag = view.tag;
        let refused = self.withdrawn.iter().position(|other| *other == tag);
        if let (Some(at), None, true) = (refused, view.seq, choice & 1 == 0) {
            self.withdrawn.remove(at);
            let reason = CollectiveRefusal::Withdrawn;
            return Some(ToPeer::CollectiveRefused { tag, reason });
        }
        let topology = peer.view().topology();
        let epoch = topology.map_or(Epoch(0), |topology| topology.epoch);
        let is_committed = view.state == State::VoteComplete;
        let next = is_committed.then(|| {
            self.seq += 1;
            Seq(self.seq)
        });
        let before = match is_committed {
            true => std::mem::replace(&mut self.reserved, next.map(|next| (tag, next))),
            false => self.reserved,
        };
        let algorithm = algorithm();
        let next = next.map(|seq| Reserved { seq, algorithm });
        let committed = Verdict::Committed { epoch, next };
        let aborted = Verdict::Aborted(AbortCause::PeerLost(PeerId(1)));
        Some(match (view.state, view.seq) {
            (State::VoteInitiate, _) | (State::Perform | State::VoteComplete, None) => {
                self.seq += 1;
                self.reserved = None;
                let kept = before.filter(|(of, _)| *of == tag && choice & 12 != 12);
                let fresh = Seq(self.seq);
                ToPeer::Commence {
                    tag,
                    seq: kept.map_or(fresh, |(_, seq)| seq),
                    algorithm,
                    lengths: Lengths::NONE,
                    total_weight: 0,
                }
            }
            (State::Perform, Some(seq)) => ToPeer::Verdict {
                tag,
                seq,
                verdict: aborted,
            },
            (State::VoteComplete, Some(seq)) => ToPeer::Verdict {
                tag,
                seq,
                verdict: committed,
            },
        })
    }
}

/// Most lanes come up.
fn reported(round: u64, link: LinkId) -> PeerInput {
    let fails = match link.way {
        Way::Out => round % 8 == 3,
        Way::In => round % 8 == 5,
    };
    match fails {
        true => link_failed(round, link, LaneFailure::TimedOut),
        false => link_up(round, link),
    }
}
