//! Collectives: starting, committing, aborting.
//!
//! Per tag, the members vote to start, with a specification. When all have voted for the same, the collective gets
//! its number and runs. It is decided once: committed when the last participant's vote on the outcome is here, or
//! aborted as soon as a participant reports a failure or is lost before its vote. A vote stands if the peer that cast
//! it dies: its plan was done, so the others can complete. The verdict is the same for every participant.
//!
//! If contributions have different lengths, each vote to start has the number of elements of its peer. The master
//! adds up the lengths of the members of the ring on which the collective starts, and refuses it if the sum exceeds
//! the limit. It sends all lengths to all participants. In the same way it adds up
//! the weights of a weighted average, and refuses it if their sum is zero.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::{Collective, GroupRecord, Stake};
use super::{Master, Out, send};
use crate::element::CollectiveSpec;
use crate::id::{Epoch, GroupId, Membership, PeerId, Seq, Tag};
use crate::lengths::Lengths;
use crate::messages::{AbortCause, CollectiveRefusal, Misdeed, PlanOutcome, ToPeer, Verdict};
use crate::plan::{Algorithm, Paths, Reach, is_in_order};
use crate::site::Sites;
use crate::states::{CollectiveEvent, ConnectionState, Event, next_collective_state};
use crate::topology::{BrokenLinks, Ring};

/// The outcome of the votes to start a collective: its specification and the number of elements of each participant,
/// or why it does not start.
type Wanted = Result<(CollectiveSpec, Lengths), CollectiveRefusal>;

impl Master {
    pub(super) fn vote_to_initiate(
        &mut self,
        peer: PeerId,
        tag: Tag,
        spec: CollectiveSpec,
        (epoch, broken): (Epoch, &BrokenLinks),
        out: &mut Out,
    ) {
        let Some(record) = self.peers.get(&peer) else {
            return;
        };
        let tags_max = self.config.tags_max;
        if record.tags.get(tag).is_some() {
            self.kick(peer, Misdeed::DuplicateTag { tag }, out);
            return;
        }
        if record.tags.len() >= tags_max as usize {
            self.kick(peer, Misdeed::TooManyTags { tags_max }, out);
            return;
        }
        let event = Event::CollectiveInitiated;
        // A ring is connected for peers in other calls too; those cannot start a collective.
        let is_moved = if record.tags.is_empty() {
            self.vote_to_begin(peer, event, Stake::Rewire, out)
                .is_some()
        } else {
            self.step_or_kick(peer, event, out)
        };
        if !is_moved {
            return;
        }
        self.step_tag(peer, tag, CollectiveEvent::Initiated);
        if let Some(group) = self.group_of(peer) {
            // A break of an older ring is over: another one has been built. Should that have kept the edge,
            // the collective that notices says so.
            if rule!(epoch == group.epoch; BreakOfAnOlderRing => true) {
                group.note_broken(peer, broken);
            }
            group.note_start(peer, tag, spec);
        }
    }

    /// Withdraws a vote to start. If all had voted, the collective has started, and the peers vote on its outcome.
    pub(super) fn withdraw(&mut self, peer: PeerId, tag: Tag, out: &mut Out) {
        let Some(group) = self.group_of(peer) else {
            return;
        };
        let Some(Collective::Initiating(votes)) = group.collectives.get_mut(&tag) else {
            if rule!(false; WithdrawnAfterStart => group.collectives.contains_key(&tag)) {
                let reason = CollectiveRefusal::Withdrawn;
                send(out, peer, ToPeer::CollectiveRefused { tag, reason });
            }
            return;
        };
        let vote = rule!(votes.remove(&peer); WithdrawnVoteCounts => votes.get(&peer).copied());
        if vote.is_none() {
            return;
        }
        if votes.is_empty() {
            group.collectives.remove(&tag);
        }
        group.ready.remove(&tag);
        // What it has begun ahead is stopped, at the latest when it hears of this.
        rule!(group.begun = None; ReservationOutlivesRefusal => {});
        let reason = CollectiveRefusal::Withdrawn;
        send(out, peer, ToPeer::CollectiveRefused { tag, reason });
        self.end_tag(peer, tag, CollectiveEvent::Refused, out);
    }

    /// `true` if a collective of the group started or was refused.
    pub(super) fn count_initiate(&mut self, group: GroupId, out: &mut Out) -> bool {
        let Some((tag, wanted)) = self.take_ready(group) else {
            return false;
        };
        match wanted {
            Ok(wanted) => self.commence(group, tag, wanted, out),
            Err(reason) => self.refuse_tag(group, tag, &reason, out),
        }
        true
    }

    /// The next tag that all members have voted to start and that can start on their ring, with the outcome of the
    /// votes.
    fn take_ready(&mut self, group: GroupId) -> Option<(Tag, Wanted)> {
        let none_ready = self.group_mut(group)?.ready.is_empty();
        let is_stale = rule!(
            self.is_stale(group);
            AnyStaleRingHoldsUpAll => self.groups.keys().any(|one| self.is_stale(*one))
        );
        if none_ready || is_stale {
            return None;
        }
        let record = self.group_mut(group)?;
        let everybody_waits = record
            .tally
            .all_in(ConnectionState::CollectiveCommunicationsRunning);
        if !everybody_waits {
            return None;
        }
        let tag = record.ready.pop_first()?;
        match record.collectives.get(&tag)? {
            Collective::Initiating(votes) => {
                let wanted = agreement(votes)?;
                let ring = &record.ring;
                Some((tag, wanted.and_then(|spec| fits(spec, votes, ring))))
            }
            Collective::Running { .. } => None,
        }
    }

    fn commence(
        &mut self,
        group: GroupId,
        tag: Tag,
        (spec, lengths): (CollectiveSpec, Lengths),
        out: &mut Out,
    ) {
        let Some(paths) = self.paths(group) else {
            return;
        };
        let Some(record) = self.groups.get(&group) else {
            return;
        };
        let world = u32::try_from(record.ring.world_size()).unwrap_or(u32::MAX);
        let algorithm = Algorithm::of(&spec, world, paths);
        let (seq, done) = self.number_of(group, tag, &spec, algorithm);
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let contributors = record.ring.0.clone();
        let awaiting: BTreeSet<PeerId> = contributors.iter().copied().collect();
        let awaiting = &awaiting - &done;
        if awaiting.is_empty() {
            record.whole.insert(tag);
        }
        let running = Collective::Running {
            seq,
            spec,
            algorithm,
            awaiting,
        };
        record.collectives.insert(tag, running);
        record.running.insert(seq, tag);
        for peer in contributors {
            self.step_tag(peer, tag, CollectiveEvent::Commenced);
            if done.contains(&peer) {
                self.step_tag(peer, tag, CollectiveEvent::Completed);
            }
            let commence = ToPeer::Commence {
                tag,
                seq,
                algorithm,
                lengths: lengths.clone(),
                total_weight: spec.op.total_weight(),
            };
            send(out, peer, commence);
        }
    }

    /// The paths between the members of a group.
    fn paths(&self, group: GroupId) -> Option<Paths> {
        let record = self.groups.get(&group)?;
        let reach = record.reach();
        // Without a mesh it makes no difference, and the sites of a large group take their time.
        let sites = match reach {
            Reach::Mesh => self.sites_of(record).sites(),
            Reach::Ring => Sites::default(),
        };
        Some(Paths {
            reach,
            within_machine: self.is_within_machine(record),
            rounds_from: u32::from(self.config.rounds_from),
            two_levels: rule!(
                sites.has_two_levels();
                LevelsAtOneSite => true
            ),
            site_ring: sites.has_site_ring(),
            even_sites: sites.are_even(),
            sites_whole_max: sites.whole_buffer_max(),
            in_order: is_in_order(&record.ring.0),
            costs: record.costs,
        })
    }

    /// Whether all members of a group have one address.
    pub(super) fn is_within_machine(&self, group: &GroupRecord) -> bool {
        let address = |peer: &PeerId| self.peers.get(peer).map(|peer| peer.address.ip());
        let mut addresses = group.ring.0.iter().map(address);
        let first = addresses.next();
        addresses.all(|address| Some(address) == first)
    }

    /// Answers every vote to start the tag with a refusal.
    pub(super) fn refuse_tag(
        &mut self,
        group: GroupId,
        tag: Tag,
        reason: &CollectiveRefusal,
        out: &mut Out,
    ) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let Some(Collective::Initiating(votes)) = record.collectives.get(&tag) else {
            return;
        };
        let voters: Vec<PeerId> = votes.keys().copied().collect();
        record.collectives.remove(&tag);
        record.ready.remove(&tag);
        // What they have begun ahead, they stop.
        rule!(record.begun = None; ReservationOutlivesRefusal => {});
        for peer in voters {
            let reason = reason.clone();
            send(out, peer, ToPeer::CollectiveRefused { tag, reason });
            self.end_tag(peer, tag, CollectiveEvent::Refused, out);
        }
    }

    pub(super) fn vote_to_complete(
        &mut self,
        peer: PeerId,
        seq: Seq,
        outcome: PlanOutcome,
        broken: &BrokenLinks,
        out: &mut Out,
    ) {
        if seq >= self.next_seq {
            self.kick(peer, Misdeed::UnknownRound, out);
            return;
        }
        let Some(id) = self.peers.get(&peer).map(|record| record.group) else {
            return;
        };
        let Some(group) = self.group_mut(id) else {
            return;
        };
        // A peer that has begun ahead may not have heard of the ring on which that is void. Its breaks are over.
        if group.void != Some(seq) {
            group.note_broken(peer, broken);
        }
        let tag = rule!(
            group.running.get(&seq).copied();
            VoteOfAnotherSeq => group.running.range(seq..).next().map(|(_, tag)| *tag)
        );
        let Some(tag) = tag else {
            self.vote_ahead((id, peer), seq, outcome, out);
            return;
        };
        let Some(Collective::Running { awaiting, spec, .. }) = group.collectives.get_mut(&tag)
        else {
            return;
        };
        let bytes = spec.bytes();
        if !awaiting.remove(&peer) {
            self.kick(peer, Misdeed::DuplicateVote, out);
            return;
        }
        let is_whole = rule!(awaiting.is_empty(); CommitBeforeLastVote => awaiting.len() <= 1);
        if is_whole {
            group.whole.insert(tag);
        }
        self.went_on.insert(peer);
        self.step_tag(peer, tag, CollectiveEvent::Completed);
        match outcome {
            PlanOutcome::Done => {}
            PlanOutcome::LaneLost => {
                let cause = AbortCause::LaneLost {
                    by: peer,
                    link: broken.0.first().copied(),
                };
                rule!(
                    self.abort(id, tag, cause, out);
                    LaneLossTakenForDone => {},
                    OneLaneAbortsAll => self.abort_all(id, peer, out)
                );
                self.note_break(id, peer, broken, bytes, out);
            }
            PlanOutcome::Cancelled => {
                let cause = rule!(
                    AbortCause::Cancelled(peer);
                    CancelCalledLaneLost => AbortCause::LaneLost { by: peer, link: None }
                );
                self.abort(id, tag, cause, out);
                self.note_cancel(id, peer, bytes, out);
            }
        }
    }

    /// `true` if the last vote on an outcome has arrived, and the collective is committed.
    pub(super) fn count_complete(&mut self, group: GroupId, out: &mut Out) -> bool {
        let Some(record) = self.group_mut(group) else {
            return false;
        };
        let Some(tag) = record.whole.pop_first() else {
            return false;
        };
        let epoch = record.epoch;
        if let Some(Collective::Running { spec, .. }) = record.collectives.get(&tag) {
            let (bytes, root) = (spec.bytes(), spec.kind.root().copied());
            let next = self.reserve(group, tag);
            let told = rule!(epoch; VerdictOfAnotherEpoch => self.epoch);
            let verdict = Verdict::Committed { epoch: told, next };
            self.decide(group, tag, &verdict, out);
            self.forgive(group, bytes, root);
        }
        true
    }

    #[cfg(feature = "mutants")]
    fn neighbour_of(&self, group: GroupId, peer: PeerId) -> PeerId {
        let ring = self.groups.get(&group).map(|group| &group.ring);
        ring.and_then(|ring| ring.next_of(peer)).unwrap_or(peer)
    }

    pub(super) fn abort(&mut self, group: GroupId, tag: Tag, cause: AbortCause, out: &mut Out) {
        self.decide(group, tag, &Verdict::Aborted(cause), out);
    }

    /// Ends a collective. No other place does: all remaining participants get the same verdict.
    fn decide(&mut self, group: GroupId, tag: Tag, verdict: &Verdict, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let Some(Collective::Running { seq, .. }) = record.collectives.remove(&tag) else {
            return;
        };
        record.running.remove(&seq);
        record.whole.remove(&tag);
        let epoch = record.epoch;
        let contributors = record.ring.0.clone();
        for peer in contributors.iter().copied() {
            let is_left = self.peers.contains_key(&peer);
            if !rule!(is_left; AbortToldToVotersOnly => self.has_voted(peer, tag)) {
                continue;
            }
            let verdict = rule!(
                verdict.clone();
                VerdictPerPeer if self.has_voted(peer, tag) => Verdict::Committed { epoch, next: None }
            );
            let _ = epoch;
            send(out, peer, ToPeer::Verdict { tag, seq, verdict });
            self.end_tag(peer, tag, CollectiveEvent::Decided, out);
        }
    }

    #[cfg(feature = "mutants")]
    fn has_voted(&self, peer: PeerId, tag: Tag) -> bool {
        let state = self.peers.get(&peer).and_then(|peer| peer.tags.get(tag));
        state == Some(crate::states::CollectiveCommunicationState::VoteComplete)
    }

    pub(super) fn collectives_lose(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let mut aborted = Vec::new();
        #[cfg(feature = "mutants")]
        let whole = &mut record.whole;
        record
            .collectives
            .retain(|tag, collective| match collective {
                Collective::Initiating(votes) => {
                    rule!(votes.remove(&peer); DeadVoteToStartStays => None);
                    !votes.is_empty()
                }
                Collective::Running { awaiting, .. } => {
                    let its_vote_is_lacking = rule!(
                        awaiting.contains(&peer);
                        StandingVoteWithdrawn => true,
                        DeathMidReduceMissed => false,
                        DeathCountsAsVote => {
                            awaiting.remove(&peer);
                            if awaiting.is_empty() {
                                whole.insert(*tag);
                            }
                            false
                        }
                    );
                    if its_vote_is_lacking {
                        aborted.push(*tag);
                    }
                    true
                }
            });
        record.find_ready();
        rule!({}; OnlyFirstTagAborted => aborted.truncate(1));
        for tag in aborted {
            let cause = rule!(
                AbortCause::PeerLost(peer);
                LostPeerMisnamed => AbortCause::PeerLost(self.neighbour_of(group, peer))
            );
            self.abort(group, tag, cause, out);
        }
    }

    #[cfg(feature = "mutants")]
    fn abort_all(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let running = self.groups.get(&group).map(|group| &group.running);
        let tags: Vec<Tag> = running
            .into_iter()
            .flat_map(|r| r.values().copied())
            .collect();
        for tag in tags {
            let (by, link) = (peer, None);
            self.abort(group, tag, AbortCause::LaneLost { by, link }, out);
        }
    }

    #[cfg(feature = "mutants")]
    pub(super) fn abort_elsewhere(&mut self, own: GroupId, lost: PeerId, out: &mut Out) {
        let tags_of = |(id, group): (&GroupId, &GroupRecord)| -> Vec<(GroupId, Tag)> {
            group.running.values().map(|tag| (*id, *tag)).collect()
        };
        let others = self.groups.iter().filter(|(group, _)| **group != own);
        let running: Vec<(GroupId, Tag)> = others.flat_map(tags_of).collect();
        for (group, tag) in running {
            self.abort(group, tag, AbortCause::PeerLost(lost), out);
        }
    }

    fn end_tag(&mut self, peer: PeerId, tag: Tag, event: CollectiveEvent, out: &mut Out) {
        self.step_tag(peer, tag, event);
        self.idle_if_done(peer, out);
    }

    /// Makes a peer without collectives idle; if a ring is being connected, after that.
    pub(super) fn idle_if_done(&mut self, peer: PeerId, out: &mut Out) {
        if let Some(record) = self.record_mut(peer)
            && record.tags.is_empty()
            && record.stake == Stake::Rewire
        {
            record.stake = rule!(Stake::Admission; WithdrawalForgottenInWiring => Stake::Rewire);
        }
        let done = self.peers.get(&peer).is_some_and(|record| {
            record.tags.is_empty()
                && record.round.is_none()
                && matches!(
                    record.state,
                    ConnectionState::CollectiveCommunicationsRunning
                        | ConnectionState::VoteNoNewPeersEstablishP2p
                )
        });
        if done {
            self.step(peer, Event::CollectivesEnded, out);
        }
    }

    /// Moves a tag along its table. If the table lacks the transition, the tag is unchanged.
    fn step_tag(&mut self, peer: PeerId, tag: Tag, event: CollectiveEvent) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        if let Some(to) = next_collective_state(record.tags.get(tag), event) {
            record.tags.set(tag, to);
        }
    }
}

impl GroupRecord {
    fn note_start(&mut self, peer: PeerId, tag: Tag, spec: CollectiveSpec) {
        let start = || Collective::Initiating(BTreeMap::new());
        match self.collectives.entry(tag).or_insert_with(start) {
            Collective::Initiating(votes) => {
                votes.insert(peer, spec);
                let all = self.members.len();
                if rule!(votes.len() == all; StartBeforeLastVote => !votes.is_empty()) {
                    self.ready.insert(tag);
                }
            }
            // Its participants are all members, and this member's own tag was free.
            Collective::Running { .. } => {}
        }
    }

    /// The members have changed, so another vote may be the last one.
    pub(super) fn find_ready(&mut self) {
        let all = self.members.len();
        let voted = |collective: &Collective| match collective {
            Collective::Initiating(votes) => votes.len() == all,
            Collective::Running { .. } => false,
        };
        let ready = self.collectives.iter().filter(|(_, one)| voted(one));
        self.ready = ready.map(|(tag, _)| *tag).collect();
    }
}

/// The collective to start, if its root takes part, if its shards were laid out for the participants, and if its
/// contributions are within the limit.
fn fits(spec: CollectiveSpec, votes: &BTreeMap<PeerId, CollectiveSpec>, ring: &Ring) -> Wanted {
    let is_missing = |root: &&PeerId| ring.rank_of(**root).is_none();
    let missing = spec.kind.root().filter(is_missing);
    if let Some(root) = rule!(missing; RootNotAsked => None) {
        return Err(CollectiveRefusal::NoSuchRoot { root: *root });
    }
    let present = Membership::of(&ring.0);
    let mut laid_out = votes.values().filter_map(|vote| vote.kind.laid_out_for());
    let is_another = laid_out.any(|laid_out_for| laid_out_for != present);
    if rule!(is_another; ShardsOfOthersGathered => false) {
        return Err(CollectiveRefusal::WorldChanged);
    }
    let lengths = lengths(votes, ring);
    let Some(known) = spec.of_lengths(&lengths) else {
        return Err(too_long(spec, &lengths));
    };
    let known = known.of_weights(total_weight(votes, ring));
    Ok((known.ok_or(CollectiveRefusal::NoWeight)?, lengths))
}

/// The sum of the weights of the ranks' contributions.
fn total_weight(votes: &BTreeMap<PeerId, CollectiveSpec>, ring: &Ring) -> u64 {
    let of_ring = ring.0.iter().filter_map(|peer| votes.get(peer));
    let weights = of_ring.filter_map(|vote| vote.op.weight());
    weights.fold(0, |total, weight| total.saturating_add(weight.into()))
}

/// Number of elements of each rank, if contributions have different lengths.
fn lengths(votes: &BTreeMap<PeerId, CollectiveSpec>, ring: &Ring) -> Lengths {
    let own = |vote: &CollectiveSpec| vote.kind.own_and_limit().map(|(own, _)| own);
    let of_ring = ring.0.iter().filter_map(|peer| votes.get(peer));
    Lengths(rule!(
        of_ring.filter_map(own).collect();
        LengthsByPeerNumber => votes.values().filter_map(own).collect()
    ))
}

fn too_long(spec: CollectiveSpec, lengths: &Lengths) -> CollectiveRefusal {
    let limit = spec.kind.own_and_limit().map_or(0, |(_, limit)| limit);
    CollectiveRefusal::TooLong {
        total: lengths.total().unwrap_or(u64::MAX),
        limit,
    }
}

/// The specification that all votes have in common, or the first field in which they differ, with the peers that
/// differ from the first voter in it. `None` if there are no votes.
fn agreement(
    votes: &BTreeMap<PeerId, CollectiveSpec>,
) -> Option<Result<CollectiveSpec, CollectiveRefusal>> {
    let (first, wanted) = votes.iter().next()?;
    let fields = || votes.values().filter_map(|spec| wanted.difference(spec));
    let field = rule!(fields().min(); LastFieldNamed => fields().max());
    let Some(field) = field else {
        return Some(Ok(*wanted));
    };
    let differs = |spec: &CollectiveSpec| wanted.differs_in(spec, field);
    let others = votes.iter().skip(1);
    let others = others.filter(|(_, spec)| rule!(differs(spec); DisagreementNamesAll => true));
    let mut peers = alloc::vec![*first];
    peers.extend(others.map(|(peer, _)| *peer));
    let odd = votes.values().find(|spec| differs(spec)).unwrap_or(wanted);
    let values = [wanted.value(field), odd.value(field)];
    Some(Err(CollectiveRefusal::Disagreement {
        field,
        peers,
        values,
    }))
}
