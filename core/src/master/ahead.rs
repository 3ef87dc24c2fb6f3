//! Numbers that are reserved, so that participants of a collective that is repeated begin it ahead.
//!
//! A small collective between machines is mostly waiting for the master: one round trip until all know that all have
//! called it, and one until all know that it is committed. If the same collective is called again, nothing but its number
//! is unknown to its participants. So the verdict on one execution names the number of the next one, and a participant
//! runs it as soon as its own user calls it, while the votes to start are on their way. If it is done before the execution
//! commences, it votes on the outcome at once. Such a vote waits here for the last vote to start, and counts if the
//! execution commences under this number. Any other outcome is voted on after
//! [`ToPeer::Commence`](crate::messages::ToPeer::Commence): nothing has to be aborted that has not started.
//!
//! **Invariant:** an execution commences under a reserved number only if each participant that has stopped what it began
//! under it votes against it. A participant stops it when another number commences in its group, when the collective is
//! refused, and when a ring is established: the reservation is forgotten here by then, and with it the votes on the
//! outcome. And it stops it when its user gives the call up before it is done: if its withdrawal comes too late, it votes
//! that it was cancelled.
//!
//! **Invariant:** the executions of a group commence in the order of their numbers. So frames of an execution that was
//! begun in vain are older than what runs, and are thrown away by whoever has not begun it.

use alloc::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::record::Collective;
use super::{Master, Out};
use crate::element::{CollectiveKind, CollectiveSpec};
use crate::id::{GroupId, PeerId, Seq, Tag};
use crate::messages::{Misdeed, PlanOutcome, Reserved};
use crate::plan::{Algorithm, Pattern};
use crate::reserved::Repeat;

/// A reservation, and the participants that have run it and have voted that their plan is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Begun {
    repeat: Repeat,
    done: BTreeSet<PeerId>,
}

impl Master {
    /// Reserves the number of the next execution of this collective, which is about to be committed. `None` if it must
    /// not begin ahead, or if others of the group are open: one of them would commence before it.
    pub(super) fn reserve(&mut self, group: GroupId, tag: Tag) -> Option<Reserved> {
        let record = self.groups.get(&group)?;
        let Some(Collective::Running {
            spec, algorithm, ..
        }) = record.collectives.get(&tag)
        else {
            return None;
        };
        let (spec, algorithm) = (*spec, *algorithm);
        let bytes = bytes_ahead(&spec, algorithm, record.ring.world_size())?;
        let is_alone = record.collectives.len() == 1;
        let may = self.config.ahead_within_machine || !self.is_within_machine(record);
        if !is_alone || !may || bytes > self.config.ahead_max || self.is_stale(group) {
            return None;
        }
        let seq = self.fresh_number();
        let reserved = Reserved { seq, algorithm };
        let repeat = Repeat {
            tag,
            spec,
            reserved,
        };
        let done = BTreeSet::new();
        let record = self.group_mut(group)?;
        record.begun = Some(Begun { repeat, done });
        record.reserved = Some(seq);
        Some(reserved)
    }

    /// Notes the vote of a peer whose plan was done before the execution commences.
    pub(super) fn vote_ahead(
        &mut self,
        (group, peer): (GroupId, PeerId),
        seq: Seq,
        outcome: PlanOutcome,
        out: &mut Out,
    ) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let begun = record.begun.as_mut();
        // No longer reserved: it was decided, or is void, while this vote was on its way.
        let Some(begun) = begun.filter(|begun| begun.repeat.reserved.seq == seq) else {
            return;
        };
        let has_called = match record.collectives.get(&begun.repeat.tag) {
            Some(Collective::Initiating(votes)) => votes.get(&peer) == Some(&begun.repeat.spec),
            Some(Collective::Running { .. }) | None => false,
        };
        if !has_called || outcome != PlanOutcome::Done {
            self.kick(peer, Misdeed::UnknownRound, out);
        } else if !rule!(begun.done.insert(peer); VoteAheadIgnored => true) {
            self.kick(peer, Misdeed::DuplicateVote, out);
        }
    }

    /// The number under which a collective commences, and the peers that have voted that they are done with it. The
    /// number is the reserved one if this is what it was reserved for.
    pub(super) fn number_of(
        &mut self,
        group: GroupId,
        tag: Tag,
        spec: &CollectiveSpec,
        algorithm: Algorithm,
    ) -> (Seq, BTreeSet<PeerId>) {
        let begun = self.group_mut(group).map(|record| &mut record.begun);
        let begun = begun.and_then(|begun| {
            rule!(
                begun.take();
                ReservationOutlivesAnother => begun.take_if(|begun| begun.repeat.tag == tag)
            )
        });
        let Some(Begun { repeat, done }) = begun else {
            return (self.fresh_number(), BTreeSet::new());
        };
        let Repeat { reserved, .. } = repeat;
        let is_it = repeat.tag == tag && repeat.spec == *spec && reserved.algorithm == algorithm;
        match is_it {
            true => (reserved.seq, done),
            false => {
                let done = rule!(BTreeSet::new(); VoteAheadCountsForAnother => done);
                (self.fresh_number(), done)
            }
        }
    }

    fn fresh_number(&mut self) -> Seq {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        seq
    }
}

/// Most bytes that a participant sends to another one that has not called the collective. `None` if it must not begin
/// ahead: what it is depends on what others call, or it sends nothing.
fn bytes_ahead(spec: &CollectiveSpec, algorithm: Algorithm, world: usize) -> Option<u64> {
    let is_known = match spec.kind {
        CollectiveKind::AllReduce
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::Broadcast { .. } => spec.op.weight().is_none(),
        CollectiveKind::AllGatherV { .. } | CollectiveKind::Barrier => false,
    };
    let bytes = spec.bytes();
    if !is_known || world <= 1 || bytes == 0 {
        return None;
    }
    match algorithm {
        // Whoever is next gets the buffers of all before.
        Algorithm::Whole(Pattern::Ring) => Some(bytes.saturating_mul(world as u64 - 1)),
        // In the last round a message has half of all buffers, rounded up.
        Algorithm::Whole(Pattern::Circulant) => {
            Some(bytes.saturating_mul(world.div_ceil(2) as u64))
        }
        // A sum goes around several times.
        Algorithm::Relay => None,
        Algorithm::Whole(Pattern::Mesh)
        | Algorithm::Ring
        | Algorithm::Direct
        | Algorithm::Circulant
        | Algorithm::Chain
        | Algorithm::Tree
        | Algorithm::TwoLevel
        | Algorithm::TwoLevelRing
        | Algorithm::TwoLevelWhole => Some(bytes),
    }
}
