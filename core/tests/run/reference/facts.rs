//! What a peer may say, and what the master has to remember of it.

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq, Tag};
use pccl_core::messages::{AbortCause, RingOutcome, ToMaster};
use pccl_core::shared_state::{SyncFailure, SyncVote};
use pccl_core::topology::BrokenEdges;
use pccl_core::wire::MAX_ENTRY_NAME_BYTES;

use super::Reference;
use super::seen::Seen;

impl Reference {
    /// False: no peer that keeps to the protocol says this here.
    pub(super) fn says(&mut self, peer: PeerId, message: &ToMaster, seen: &Seen) -> bool {
        match message {
            ToMaster::Heartbeat => true,
            ToMaster::Hello(_) => false,
            ToMaster::Leave => {
                self.goes(peer);
                true
            }
            ToMaster::EdgesEstablished { round } => self.edges_up(peer, *round, seen),
            ToMaster::EdgeFailed {
                round,
                with,
                failure,
            } => self.edge_failed(peer, *round, *with, *failure, seen),
            _ if !self.accepted.contains(&peer) => false,
            ToMaster::ArePeersPending => self.asking.insert(peer),
            ToMaster::UpdateTopology { broken } => {
                let is_free = self.is_free(peer);
                if is_free {
                    self.note_broken(peer, *broken);
                    self.updating.insert(peer);
                }
                is_free
            }
            ToMaster::OptimizeTopology => self.is_free(peer) && self.optimizing.insert(peer),
            ToMaster::Bandwidth { round, to, .. } => self.measured(peer, *round, *to, seen),
            ToMaster::ProbesDone { round, ok } => self.probes_done(peer, *round, *ok, seen),
            ToMaster::SyncSharedState(vote) => {
                let is_taken = self.is_orderly(vote) && self.is_free(peer);
                if is_taken {
                    self.group_of(peer).offers.insert(peer, vote.clone());
                }
                is_taken
            }
            ToMaster::SharedStateDone { round, ok, with } => {
                self.moved(peer, *round, *ok, *with, seen)
            }
            ToMaster::InitiateCollective { tag, spec, broken } => {
                self.wants(peer, *tag, *spec, *broken)
            }
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            } => self.votes(peer, *seq, *outcome, *broken),
        }
    }

    /// To report about a round that nobody was told of is a misdeed, unless the master had one that it
    /// told nobody of, as it came to nothing.
    pub(super) fn is_known(&self, peer: PeerId, round: Round, seen: &Seen) -> bool {
        round <= self.newest || !seen.lost.contains(&peer)
    }

    fn is_orderly(&self, vote: &SyncVote) -> bool {
        let names = || vote.entries.iter().map(|entry| entry.name.as_str());
        let in_order = names().zip(names().skip(1)).all(|(one, next)| one < next);
        let short = names().all(|name| name.len() <= MAX_ENTRY_NAME_BYTES);
        in_order && short && vote.entries.len() <= self.config.entries_max.0 as usize
    }

    /// What a peer says about the edges of the ring that it is on.
    fn note_broken(&mut self, peer: PeerId, broken: BrokenEdges) {
        let group = self.group_of(peer);
        let next = group.ring.next_of(peer).filter(|_| broken.to_next);
        let previous = group.ring.previous_of(peer);
        let previous = previous.filter(|_| broken.from_previous);
        group.broken.extend(next.map(|next| (peer, next)));
        group
            .broken
            .extend(previous.map(|previous| (previous, peer)));
    }

    fn wants(&mut self, peer: PeerId, tag: Tag, spec: CollectiveSpec, broken: BrokenEdges) -> bool {
        let tags = self.tags_of(peer);
        let is_taken = (self.is_free(peer) || !tags.is_empty())
            && !tags.contains_key(&tag)
            && tags.len() < self.config.tags_max as usize;
        if is_taken {
            self.note_broken(peer, broken);
            let votes = self.group_of(peer).starting.entry(tag).or_default();
            votes.insert(peer, spec);
        }
        is_taken
    }

    fn votes(&mut self, peer: PeerId, seq: Seq, outcome: RingOutcome, broken: BrokenEdges) -> bool {
        if seq.0 > self.executions {
            return false;
        }
        self.note_broken(peer, broken);
        let mut running = self.group_of(peer).running.iter_mut();
        let Some((tag, running)) = running.find(|(_, running)| running.seq == seq) else {
            // It was decided while the vote was on its way.
            return true;
        };
        let tag = *tag;
        let is_taken = running.lacking.remove(&peer);
        if is_taken {
            let group = self.peers[&peer].group;
            match outcome {
                RingOutcome::Done => {}
                RingOutcome::LaneLost => self.abort(group, tag, AbortCause::LaneLost(peer)),
                RingOutcome::Cancelled => self.abort(group, tag, AbortCause::Cancelled(peer)),
            }
        }
        is_taken
    }

    fn moved(
        &mut self,
        peer: PeerId,
        round: Round,
        ok: bool,
        with: Option<PeerId>,
        seen: &Seen,
    ) -> bool {
        let group = self.group_of(peer);
        let moving = group.moving.as_mut();
        let Some(moving) = moving.filter(|moving| moving.round == round) else {
            return self.is_known(peer, round, seen);
        };
        let is_taken = moving.lacking.remove(&peer);
        if is_taken && !ok {
            // It could not fetch, or it names one that it could not serve and that waits for it.
            for (requester, holder) in &moving.sources {
                let waits = moving.lacking.contains(requester) && with == Some(*requester);
                if *requester == peer || (*holder == peer && waits) {
                    group.mishaps.happens(*requester, *holder);
                }
            }
            let group = self.peers[&peer].group;
            self.conclude_sync(group, Err(SyncFailure::TransferFailed { peer }));
        }
        is_taken
    }
}
