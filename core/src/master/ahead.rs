//! Numbers that are reserved, so that participants of a collective that is repeated begin it ahead.
//!
//! A small collective between machines is mostly waiting for the master: one round trip until all know that all have
//! called it, and one until all know that it is committed. If the same collective is called again, nothing but its number
//! is unknown to its participants. So the verdict on one execution names the number of the next one, and a participant
//! runs it as soon as its own user calls it, while the votes to start are on their way. The vote on the outcome is cast
//! after [`ToPeer::Commence`](crate::messages::ToPeer::Commence), as always: the ballots are the same.
//!
//! **Invariant:** an execution commences under a reserved number only if each participant that has stopped what it began
//! under it votes against it. A participant stops it when another number commences in its group, when the collective is
//! refused, and when a ring is established: the reservation is forgotten here by then. And it stops it when its user gives
//! the call up: if its withdrawal comes too late, it votes that it was cancelled.
//!
//! **Invariant:** the executions of a group commence in the order of their numbers. So frames of an execution that was
//! begun in vain are older than what runs, and are thrown away by whoever has not begun it.

use super::Master;
use super::record::Collective;
use crate::element::{CollectiveKind, CollectiveSpec};
use crate::id::{GroupId, Seq, Tag};
use crate::messages::Reserved;
use crate::plan::{Algorithm, Pattern};
use crate::reserved::Repeat;

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
        let gains = self.config.ahead_within_machine || !self.is_within_machine(record);
        if !is_alone || !gains || bytes > self.config.ahead_max || self.is_stale(group) {
            return None;
        }
        let seq = self.fresh_number();
        let reserved = Reserved { seq, algorithm };
        self.group_mut(group)?.repeat = Some(Repeat {
            tag,
            spec,
            reserved,
        });
        Some(reserved)
    }

    /// The number under which a collective commences: the reserved one if this is what it was reserved for.
    pub(super) fn number_of(
        &mut self,
        group: GroupId,
        tag: Tag,
        spec: &CollectiveSpec,
        algorithm: Algorithm,
    ) -> Seq {
        let repeat = self.group_mut(group).map(|record| &mut record.repeat);
        let repeat = repeat.and_then(|repeat| {
            rule!(
                repeat.take();
                ReservationOutlivesAnother => repeat.take_if(|repeat| repeat.tag == tag)
            )
        });
        let is_it = |repeat: &Repeat| {
            repeat.tag == tag && repeat.spec == *spec && repeat.reserved.algorithm == algorithm
        };
        match repeat.filter(is_it) {
            Some(repeat) => repeat.reserved.seq,
            None => self.fresh_number(),
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
