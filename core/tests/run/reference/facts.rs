//! What a peer may say, and what the master has to remember of it.

use std::collections::BTreeSet;

use pccl_core::awaited::Awaited;
use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq, Tag};
use pccl_core::messages::{AbortCause, CollectiveRefusal, Misdeed, PlanOutcome, ToMaster, ToPeer};
use pccl_core::shared_state::{SyncFailure, SyncVote};
use pccl_core::topology::{BrokenLinks, LinkId};
use pccl_core::wire::MAX_ENTRY_NAME_BYTES;

use super::rings::{ends_of, in_order};
use super::seen::Seen;
use super::{Reference, RingEdge, UNCONNECTABLE};

impl Reference {
    /// False: no peer that keeps to the protocol says this here.
    pub(super) fn says(&mut self, peer: PeerId, message: &ToMaster, seen: &Seen) -> bool {
        match message {
            ToMaster::Heartbeat { .. } => true,
            ToMaster::Hello(_) => false,
            // See `tests/awaited.rs` for what is in the answer.
            ToMaster::WhoIsAwaited => {
                self.tell(peer, ToPeer::Awaited(Awaited::default()));
                true
            }
            ToMaster::Leave => {
                self.goes(peer);
                true
            }
            ToMaster::LinkUp { round, link } => self.link_reported(peer, *round, *link, None, seen),
            ToMaster::LinkFailed {
                round,
                link,
                failure,
            } => self.link_reported(peer, *round, *link, Some(*failure), seen),
            // It was set aside, and was not told.
            ToMaster::ArePeersPending if self.aside.contains_key(&peer) => {
                self.tell(peer, ToPeer::PeersPending { pending: true });
                true
            }
            ToMaster::Withdraw { .. } | ToMaster::CompleteCollective { .. }
                if self.aside.contains_key(&peer) =>
            {
                true
            }
            _ if !self.accepted.contains(&peer) => false,
            ToMaster::ArePeersPending => self.asking.insert(peer),
            // It rested when it was told another ring, and took that for the answer.
            ToMaster::UpdateTopology { epoch, .. } if *epoch < self.group_of(peer).epoch => {
                self.resting.remove(&peer);
                true
            }
            ToMaster::UpdateTopology { broken, .. } => {
                let is_free = self.may_vote(peer);
                if is_free {
                    self.note_broken(peer, broken);
                    self.updating.insert(peer);
                    self.has_called(peer);
                }
                is_free
            }
            ToMaster::OptimizeTopology => {
                let is_free = self.may_vote(peer);
                if is_free {
                    self.optimizing.insert(peer);
                    self.has_called(peer);
                }
                is_free
            }
            ToMaster::Withdraw { tag } => {
                let group = self.group_of(peer);
                let votes = group.starting.get_mut(tag);
                if votes.is_some_and(|votes| votes.remove(&peer).is_some()) {
                    group.starting.retain(|_, votes| !votes.is_empty());
                    group.repeat = None;
                    let (tag, reason) = (*tag, CollectiveRefusal::Withdrawn);
                    self.tell(peer, ToPeer::CollectiveRefused { tag, reason });
                }
                true
            }
            ToMaster::Measured { round, to, .. } => self.measured(peer, *round, *to, seen),
            ToMaster::ProbesDone { round, ok } => self.probes_done(peer, *round, *ok, seen),
            ToMaster::SyncSharedState(vote) => {
                let is_taken = self.is_orderly(vote) && self.may_vote(peer);
                if is_taken {
                    self.has_called(peer);
                    self.group_of(peer).offers.insert(peer, vote.clone());
                }
                is_taken
            }
            ToMaster::SharedStateDone { round, ok, with } => {
                self.moved(peer, *round, *ok, *with, seen)
            }
            ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken,
            } => {
                let is_present = *epoch == self.group_of(peer).epoch;
                let broken = is_present.then(|| broken.clone());
                self.wants(peer, *tag, *spec, &broken.unwrap_or_default())
            }
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            } => self.votes(peer, *seq, *outcome, broken, seen),
        }
    }

    /// To report about a round that nobody was told of is a misdeed, unless the master had one that it
    /// told nobody of, as it came to nothing.
    pub(super) fn is_known(&self, peer: PeerId, round: Round, seen: &Seen) -> bool {
        round <= self.newest || !seen.lost.contains(&peer)
    }

    /// It makes another call than before.
    fn has_called(&mut self, peer: PeerId) {
        self.resting.remove(&peer);
        self.passed.remove(&peer);
    }

    fn is_orderly(&self, vote: &SyncVote) -> bool {
        let names = || vote.entries.iter().map(|entry| entry.name.as_str());
        let in_order = names().zip(names().skip(1)).all(|(one, next)| one < next);
        let short = names().all(|name| name.len() <= MAX_ENTRY_NAME_BYTES);
        in_order && short && vote.entries.len() <= self.config.entries_max.0 as usize
    }

    /// What a peer says about its links. One that it does not have means nothing.
    fn note_broken(&mut self, peer: PeerId, broken: &BrokenLinks) {
        let BrokenLinks(broken) = broken;
        let named = self.links_of(peer, |link| broken.contains(&link));
        self.group_of(peer).broken.extend(named);
    }

    /// Those links that a peer has, on the ring that it is on.
    fn links_of(&mut self, peer: PeerId, which: impl Fn(LinkId) -> bool) -> BTreeSet<RingEdge> {
        let links = self.group_of(peer).edges.keys().copied();
        let is_meant = |edge: &RingEdge| {
            let mut ends = ends_of(*edge).into_iter();
            ends.any(|(end, link)| end == peer && which(link))
        };
        links.filter(is_meant).collect()
    }

    fn wants(
        &mut self,
        peer: PeerId,
        tag: Tag,
        spec: CollectiveSpec,
        broken: &BrokenLinks,
    ) -> bool {
        let tags = self.tags_of(peer);
        let is_taken = (self.may_vote(peer) || !tags.is_empty())
            && !tags.contains_key(&tag)
            && tags.len() < self.config.tags_max as usize;
        if is_taken {
            self.note_broken(peer, broken);
            if tags.is_empty() {
                self.has_called(peer);
            }
            let votes = self.group_of(peer).starting.entry(tag).or_default();
            votes.insert(peer, spec);
        }
        is_taken
    }

    fn votes(
        &mut self,
        peer: PeerId,
        seq: Seq,
        outcome: PlanOutcome,
        broken: &BrokenLinks,
        seen: &Seen,
    ) -> bool {
        if seq.0 > self.executions {
            return false;
        }
        if self.group_of(peer).void != Some(seq) {
            self.note_broken(peer, broken);
        }
        let group = self.group_of(peer);
        let mut running = group.running.iter_mut();
        let Some((tag, running)) = running.find(|(_, running)| running.seq == seq) else {
            return match group.repeat {
                // It has begun before all have called it, and is through.
                Some((tag, spec, reserved)) if reserved.seq == seq => {
                    let votes = group.starting.get(&tag);
                    let own = votes.and_then(|votes| votes.get(&peer));
                    let may = own == Some(&spec) && outcome == PlanOutcome::Done;
                    may && group.has_it.insert(peer)
                }
                // It was decided while the vote was on its way.
                _ => true,
            };
        };
        let (tag, bytes) = (*tag, running.bytes);
        let is_taken = running.lacking.remove(&peer);
        if is_taken {
            let group = self.peers[&peer].group;
            match outcome {
                PlanOutcome::Done => {}
                PlanOutcome::LaneLost => {
                    let link = broken.0.first().copied();
                    self.abort(group, tag, AbortCause::LaneLost { by: peer, link });
                    self.breaks(peer, broken, bytes, seen);
                }
                PlanOutcome::Cancelled => {
                    self.abort(group, tag, AbortCause::Cancelled(peer));
                    self.cancels(peer, bytes);
                }
            }
        }
        is_taken
    }

    /// Who cancels sixteen collectives while none is committed goes; or as many synchronizations in a row.
    fn cancels(&mut self, peer: PeerId, bytes: u64) {
        let (times, largest) = self.group_of(peer).cancels.entry(peer).or_default();
        (*times, *largest) = (*times + 1, bytes.max(*largest));
        if *times >= 16 {
            self.is_kicked(peer, Misdeed::Cancels);
        }
    }

    /// A collective came to nothing because this peer lost lanes: of these links, or it names none that it has.
    /// Who breaks rings again and again goes, if there is no ring without it.
    fn breaks(&mut self, peer: PeerId, broken: &BrokenLinks, bytes: u64, seen: &Seen) {
        let BrokenLinks(broken) = broken;
        let mut links = self.links_of(peer, |link| broken.contains(&link));
        if links.is_empty() {
            links = self.links_of(peer, |_| true);
        }
        let most = self.config.wiring_attempts_max;
        let group = self.group_of(peer);
        group.broken.extend(&links);
        let pairs: BTreeSet<RingEdge> = links.into_iter().map(in_order).collect();
        let mut often = false;
        for pair in pairs {
            let (times, largest) = group.breaks.entry(pair).or_default();
            (*times, *largest) = (*times + 1, bytes.max(*largest));
            often |= *times >= most;
        }
        let id = self.peers[&peer].group;
        for lost in seen.lost.clone() {
            assert!(
                often && !self.a_ring_is_left(id, &self.members(id)),
                "{lost} goes"
            );
            self.is_kicked(lost, UNCONNECTABLE.1);
        }
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
            let mut is_told = with.is_some();
            for (requester, holders) in &moving.sources {
                let waits = moving.lacking.contains(requester);
                if *requester == peer {
                    group.mishaps.fails(peer, holders);
                    is_told = true;
                } else if holders.contains(&peer) && with == Some(*requester) {
                    if waits {
                        group.mishaps.happens(*requester, peer);
                    }
                    // It has everything, or others to take it from.
                    if !moving.sources.contains_key(&peer) && (!waits || holders.len() > 1) {
                        return true;
                    }
                }
            }
            let group = self.peers[&peer].group;
            self.conclude_sync(group, Err(SyncFailure::TransferFailed { peer }));
            if !is_told {
                self.cancels(peer, 0);
            }
        }
        is_taken
    }
}
