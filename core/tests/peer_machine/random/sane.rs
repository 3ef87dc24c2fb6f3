//! A sane master and driver, so that deep states are reached.

use pccl_core::id::{Epoch, PeerId, Revision, Round, Seq, Tag};
use pccl_core::messages::{
    AbortCause, CallKind, CollectiveRefusal, RingOutcome, ToMaster, ToPeer, Verdict,
};
use pccl_core::peer::{Peer, PeerInput, PeerOutput, PeerPhase, PeerTimer};
use pccl_core::shared_state::{SyncFailure, SyncPlan, SyncRole};
use pccl_core::topology::{Edge, LaneFailure};

use crate::desk::{edge_failed, edge_up, establish, established, welcome};

/// A bystander that plays a sane master and driver: what it says next fits what the peer waits for.
#[derive(Default)]
pub(super) struct Sane {
    round: u64,
    seq: u64,
    epoch: u64,
    /// Inputs that the driver owes for orders that it was given.
    owed: Vec<PeerInput>,
    query: bool,
    /// Votes to start that the peer has taken back.
    withdrawn: Vec<Tag>,
    /// The rounds of the lanes that stand, to peer 3 and from peer 1.
    standing: [Option<u64>; 2],
    /// The last order, and which of its edges are up.
    order: u64,
    pub(super) up: [bool; 2],
    /// The edges of the ring that was announced last.
    announced: [Option<u64>; 2],
}

impl Sane {
    pub(super) fn notes(&mut self, out: &[PeerOutput]) {
        for output in out {
            match output {
                PeerOutput::Establish {
                    round,
                    next,
                    previous,
                } => {
                    (self.order, self.up) = (round.0, [false; 2]);
                    let ordered = [(next, Edge::ToNext), (previous, Edge::FromPrevious)];
                    let ordered = ordered.iter().filter(|(order, _)| order.is_some());
                    self.owed
                        .extend(ordered.map(|(_, edge)| reported(round.0, *edge)));
                }
                PeerOutput::RunRing { seq, .. } => {
                    let (seq, outcome) = (*seq, RingOutcome::Done);
                    let ended = PeerInput::RingEnded { seq, outcome };
                    let due = PeerInput::TimerFired(PeerTimer::HeartbeatDue);
                    self.owed.extend([PeerInput::Moved, due, ended]);
                }
                PeerOutput::MoveState(plan) => self.owed.push(PeerInput::TransfersEnded {
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
                PeerOutput::Send(ToMaster::EdgeUp { round, edge }) => {
                    let end = usize::from(*edge == Edge::FromPrevious);
                    self.up[end] |= round.0 == self.order;
                }
                PeerOutput::AdoptRing { .. } => {
                    (self.standing, self.up) = (self.announced, [false; 2]);
                }
                PeerOutput::Send(_)
                | PeerOutput::Answer(_)
                | PeerOutput::StopRing { .. }
                | PeerOutput::CommitState { .. }
                | PeerOutput::DropState { .. }
                | PeerOutput::StartTimer { .. }
                | PeerOutput::StopTimer(_)
                | PeerOutput::Close => {}
            }
        }
    }

    pub(super) fn next(&mut self, peer: &Peer, choice: u8) -> Option<PeerInput> {
        if !choice.is_multiple_of(5) && !self.owed.is_empty() {
            return Some(self.owed.remove(0));
        }
        self.says(peer, choice).map(PeerInput::Message)
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
        if choice & 64 == 0 && (self.is_between_calls(peer) || self.up != [false; 2]) {
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

    /// Orders both edges or one of them; announces what has come up, or, where the attempt came to nothing,
    /// what stood before.
    fn ring(&mut self, choice: u8) -> ToPeer {
        let fresh = self.up.map(|up| up.then_some(self.order));
        let stays = choice & 32 == 0;
        let built = [0, 1].map(|end| match stays {
            true => self.standing[end].or(fresh[end]),
            false => fresh[end].or(self.standing[end]),
        });
        if choice & 8 == 0 || built.contains(&None) {
            self.round += 1;
            let only = |end: usize| choice & 16 == 0 || self.standing[end].is_none();
            let next = (only(0) || choice & 128 == 0).then_some(3);
            let previous = (only(1) || choice & 128 != 0).then_some(1);
            return establish(self.round, next, previous);
        }
        self.epoch += 1;
        self.announced = built;
        established(self.epoch, &[1, 2, 3], built[0], built[1])
    }

    fn optimization(&mut self, choice: u8) -> ToPeer {
        if choice & 16 == 0 {
            self.round += 1;
            let (round, probes) = (Round(self.round), Vec::new());
            return ToPeer::Probe { round, probes };
        }
        let improved_or_kept = choice & 32 == 0;
        ToPeer::OptimizationConcluded { improved_or_kept }
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
        let committed = Verdict::Committed { epoch };
        let aborted = Verdict::Aborted(AbortCause::PeerLost(PeerId(1)));
        Some(match (view.state, view.seq) {
            (State::VoteInitiate, _) | (State::Perform | State::VoteComplete, None) => {
                self.seq += 1;
                ToPeer::Commence {
                    tag,
                    seq: Seq(self.seq),
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
fn reported(round: u64, edge: Edge) -> PeerInput {
    match (round % 8, edge) {
        (3, Edge::ToNext) | (5, Edge::FromPrevious) => {
            edge_failed(round, edge, LaneFailure::TimedOut)
        }
        _ => edge_up(round, edge),
    }
}
