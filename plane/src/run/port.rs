//! An operation's connection to the lanes, from its beginning to its run.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::Seq;
use pccl_core::plan::{Algorithm, Plan, Shards, Turns};
use pccl_core::site::Sites;
use pccl_core::topology::LinkId;

use super::Run;
use crate::handover::{Course, DeliverySender, Home, Inbox, LinkState, Registry, TxSlot};
use crate::memory::{Pool, UserBuffers};
use crate::pace::{ControlChoice, Copied, Pass, PlaneConfig};
use crate::work::{Defect, Exit, Place, RankWork, Task, element_of};

/// What a finished operation moved, in bytes of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Sent to other ranks.
    pub bytes_sent: u64,
    /// Received from other ranks.
    pub bytes_received: u64,
}

/// Why an operation did not finish. The caller restores its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// A lane that was still needed broke, stalled or carried what it should not. The link was
    /// reported; the master decides what becomes of the operation.
    #[error("a lane that was still needed was lost")]
    LaneLost,
    /// The plane was told to stop the operation, or is gone.
    #[error("the operation was stopped")]
    Stopped,
    /// This library is wrong. No link was reported.
    #[error("what is relied upon at {0} is not so")]
    Defect(Defect),
}

impl From<Defect> for RunFailure {
    fn from(defect: Defect) -> Self {
        debug_assert!(false, "what is relied upon at {defect} is not so");
        Self::Defect(defect)
    }
}

/// What an operation waits for, while nothing moves on any of these links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For how long nothing has moved.
    pub lasts: Duration,
    /// The links: those on which bytes have to leave, then those on which bytes have to arrive.
    pub links: Vec<WaitedLink>,
}

/// A link on which an operation waits for bytes to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedLink {
    /// The link. Its other end is awaited: to take bytes, or to send some.
    pub link: LinkId,
    /// The ranks of its ends, the sender first.
    pub edge: (u32, u32),
    /// Of a link from another rank: the step whose bytes are missing, counted from 1, and the number of steps in which
    /// bytes arrive here.
    pub step: Option<(u32, u32)>,
}

/// What is called with the waits of an operation.
pub(crate) type TellWaits<'a> = &'a (dyn Fn(&Waits) + Send + Sync);

/// One operation's connection to the lanes, made by [`DataPlane::begin`](crate::DataPlane::begin).
///
/// From then on its frames arrive here, so it should be run soon, and dropped when it is not to be run:
/// while it is not polled, frames of other operations that share its lanes wait behind its own.
#[derive(Debug)]
pub struct OperationPort {
    pub(crate) seq: Seq,
    pub(crate) spec: CollectiveSpec,
    pub(crate) algorithm: Algorithm,
    /// `None`: this peer takes part in no operations.
    pub(crate) place: Option<Place>,
    /// What is done with the buffers, by rank, and the shards of them. `None`: this peer takes part in no operations, or
    /// the root does not.
    pub(crate) divided: Option<(CollectiveKind<u32>, Shards)>,
    /// Where the ranks are.
    pub(crate) sites: Arc<Sites>,
    /// When the contribution of each rank is added.
    pub(crate) turns: Arc<Turns>,
    /// Whether all ranks are within one machine, as far as the master knows.
    pub(crate) is_within_machine: bool,
    pub(crate) config: PlaneConfig,
    pub(crate) pool: Arc<Pool>,
    pub(crate) control: Arc<ControlChoice>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) course: Arc<Course>,
    /// `None` once run.
    pub(crate) inbox: Option<(Pass, Inbox)>,
    pub(crate) address: DeliverySender,
    /// Those that it receives on and those that it sends on. `None`: one of them does not stand.
    pub(crate) links: Option<(Vec<Receiving>, Vec<Sending>)>,
}

/// A link from another rank, as it was when the operation began.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub(crate) rank: u32,
    pub(crate) link: Arc<LinkState>,
    /// Where its lanes are while nobody has them.
    pub(crate) homes: Arc<[Arc<Home>]>,
    /// Lanes that had ended.
    pub(crate) ended: Vec<u16>,
    /// Frames that nobody had a use for until then.
    pub(crate) strays: u64,
}

/// A link to another rank.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) rank: u32,
    pub(crate) link: Arc<LinkState>,
    pub(crate) slots: Arc<[Arc<TxSlot>]>,
}

impl Sending {
    /// Is the other rank on this machine?
    fn is_local(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_local())
    }

    /// Are all other ranks of these links on this machine?
    pub(crate) fn all_local(sending: &[Self]) -> bool {
        sending.iter().all(Self::is_local)
    }

    /// The lanes that an operation on so many bytes, cut into so many stripes, takes. Several can fill the pipe
    /// between machines. Within one they only keep the bytes from staying in the caches. A large operation without a
    /// turn, which is alone, takes the same lanes each time: those know the path.
    fn exit(&self, bytes: u64, stripes: u16, turn: Option<usize>) -> Exit {
        let is_local = self.is_local();
        let wanted = || self.link.choice().lanes(bytes).min(stripes);
        let lanes = match (is_local, stripes, turn) {
            (true, _, _) => vec![0],
            (false, ..=1, turn) => self.lanes_for(turn.unwrap_or(0), 1),
            (false, _, Some(turn)) => self.lanes_for(turn, wanted()),
            (false, _, None) => (0..wanted().max(1)).collect(),
        };
        Exit {
            rank: self.rank,
            leaves_machine: !is_local,
            lanes,
        }
    }

    /// So many lanes: those that nobody has taken, as far as there are any, because on another one what waits in
    /// the system's buffers is before the operation. The operations of different turns begin at different lanes.
    fn lanes_for(&self, turn: usize, wanted: u16) -> Vec<u16> {
        let count = u16::try_from(self.slots.len()).unwrap_or(u16::MAX).max(1);
        let wanted = wanted.clamp(1, count);
        let first = turn % usize::from(count) * usize::from(wanted);
        let in_turn = |nth| (first + usize::from(nth)) % usize::from(count);
        let lanes = (0..count).filter_map(|nth| u16::try_from(in_turn(nth)).ok());
        let is_idle = |lane: &u16| {
            let slot = self.slots.get(usize::from(*lane));
            slot.is_some_and(|slot| slot.is_idle())
        };
        let idle = lanes.clone().filter(is_idle).take(usize::from(wanted));
        let mut chosen: Vec<u16> = idle.collect();
        let missing = usize::from(wanted) - chosen.len();
        let taken = lanes.filter(|lane| !chosen.contains(lane)).take(missing);
        let taken: Vec<u16> = taken.collect();
        chosen.extend(taken);
        chosen
    }
}

impl OperationPort {
    /// The same operation, which is begun before it is known whether the other ranks will: until
    /// [`DataPlane::confirm`](crate::DataPlane::confirm), it waits for them however long that takes, and tells nobody.
    #[must_use]
    pub fn ahead(self) -> Self {
        self.course.set_ahead(true);
        self
    }

    /// Runs this rank's part until the whole result is in the buffers and everything that others need
    /// has gone into the lanes. A second call ends as stopped.
    ///
    /// Memory: besides the backup of an operation in place, at most 6 frames per lane (4 that wait, one
    /// that arrives and one that leaves; small ones leave together, so up to 7 more), whatever the size of the
    /// buffers, and the terms that are kept until all are there: of a buffer that travels whole those of all ranks,
    /// of one that travels directly, in rounds or in two levels about as much as the buffer, with all sums at all
    /// sites also the sums of these, and in the last two the sums of them that wait for others. What waits beyond that,
    /// because the next rank is slow, is set aside in the memory of the result or of the backup.
    /// Frames that travel encoded wait in memory of their own: about the window of every rank, twice that
    /// before a slow link. If nothing is reduced, as much as the encoded buffer for each rank that they go to.
    ///
    /// All kinds but all-reduces need buffers in place. Kinds that reduce nothing also take [`UserBuffers::Fresh`], and
    /// a reduce-scatter [`UserBuffers::Scattered`].
    ///
    /// Dropping the future gives the operation up; what was written then is in the backup.
    ///
    /// # Errors
    /// [`RunFailure::LaneLost`]; [`RunFailure::Stopped`]; [`RunFailure::Defect`], also if a buffer is not
    /// as long as the spec says or the element type does not go with the quantization (the caller checks both
    /// before it asks for the collective). What was written to an in-place buffer is in its backup.
    pub async fn run(&mut self, buffers: UserBuffers<'_>) -> Result<RunStats, RunFailure> {
        self.run_telling(buffers, &|_| {}).await
    }

    /// The same. `tell` is called when nothing has moved for a second on any link that the operation waits for, and
    /// then several times a second until something moves. It must not block.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_telling(
        &mut self,
        mut buffers: UserBuffers<'_>,
        tell: &(dyn Fn(&Waits) + Send + Sync),
    ) -> Result<RunStats, RunFailure> {
        buffers.begin(0);
        let (Some((pass, inbox)), false) = (self.inbox.take(), self.is_stopped()) else {
            return Err(RunFailure::Stopped);
        };
        let place = self.place.ok_or(RunFailure::LaneLost)?;
        let divided = self.divided.as_ref();
        let (kind, shards) = divided.ok_or(RunFailure::Defect(Defect::here()))?;
        let bytes = self.spec.count.checked_mul(self.spec.element.size() as u64);
        let bytes = bytes.filter(|bytes| buffers.hold(*bytes));
        let bytes = bytes.ok_or(RunFailure::Defect(Defect::here()))?;
        if place.world == 1 || self.spec.count == 0 {
            buffers.keep_contribution();
            return Ok(RunStats::default());
        }
        let does = match *kind {
            CollectiveKind::AllReduce => !buffers.are_fresh(),
            CollectiveKind::ReduceScatter => {
                let shard = self.shard_bytes();
                buffers.are_in_place() || shard.is_some_and(|shard| buffers.are_scattered(&shard))
            }
            CollectiveKind::AllGather { .. }
            | CollectiveKind::AllGatherV { .. }
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Barrier => buffers.are_in_place() || buffers.are_fresh(),
        };
        if !does {
            return Err(RunFailure::Defect(Defect::here()));
        }
        let (receiving, sending) = self.links.as_ref().ok_or(RunFailure::LaneLost)?;
        let task = Task {
            seq: self.seq,
            spec: &self.spec,
            kind: *kind,
            shards,
            sites: &self.sites,
            turns: &self.turns,
            algorithm: self.algorithm,
        };
        let is_local = Sending::all_local(sending) && !pass.leaves_machine();
        let copied = self.copied(kind, bytes);
        // Many bytes under way fill the pipe between machines. A rank whose next one is on the same machine learns
        // from the first frames that have come back whether all are.
        let pace = self.config.pace(is_local, copied);
        let pace = pace.by(self.algorithm, is_local);
        let stripes = task.stripes(place, pace);
        let turn = self.turn();
        let exits = sending.iter().map(|to| to.exit(bytes, stripes, turn));
        let exits: Vec<Exit> = exits.collect();
        let work = RankWork::new(task, place, pace, exits, &self.pool);
        let mut work = work.ok_or(RunFailure::Defect(Defect::here()))?;
        buffers.begin(work.slots());
        if buffers.note_losses() {
            work.note_lost_of_contribution(&mut buffers)?;
        }
        let mut run = Run::new((self, &pass), (receiving, sending), work, buffers, inbox)?;
        run.tell_waits = Some(tell);
        run.await
    }

    /// What all ranks only copy, if they are within one machine.
    fn copied(&self, kind: &CollectiveKind<u32>, bytes: u64) -> Option<Copied> {
        match kind {
            _ if !self.is_within_machine => None,
            CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. } => {
                Some(Copied::Shards)
            }
            CollectiveKind::Broadcast { .. } => Some(Copied::Buffer { bytes }),
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Barrier => {
                None
            }
        }
    }

    /// Operations that begin together take different lanes. One that is alone takes the first, whose other end waits
    /// for it without a detour.
    fn turn(&self) -> Option<usize> {
        let number = || usize::try_from(self.seq.0 % u64::from(u16::MAX)).unwrap_or(0);
        (!self.registry.is_alone(self.seq)).then(number)
    }

    /// Is it to be learned on how many lanes an operation of so many stripes leaves?
    pub(crate) fn has_choice(stripes: usize, sending: &[Sending]) -> bool {
        match sending {
            [to] => stripes > 1 && to.slots.len() > 1 && !to.is_local(),
            [] | [_, ..] => false,
        }
    }

    /// Can the congestion control of any of these lanes be chosen?
    pub(crate) fn has_control(sending: &[Sending]) -> bool {
        let mut slots = sending.iter().flat_map(|to| to.slots.iter());
        slots.any(|slot| slot.has_control())
    }

    /// This rank's part. `None`: as [`shards`](Self::shards).
    pub(crate) fn plan(&self) -> Option<Plan<'_>> {
        let (kind, _) = self.divided.as_ref()?;
        Plan::among(*kind, self.algorithm, &self.sites, self.place?.rank)
    }

    /// Of its buffer.
    pub(crate) fn bytes(&self) -> u64 {
        let element_bytes = self.spec.element.size() as u64;
        self.spec.count.saturating_mul(element_bytes)
    }

    /// How the buffer is divided among the ranks, and which of them this one is. `None`: this peer takes part in no
    /// operations, or the operation cannot run.
    #[must_use]
    pub fn shards(&self) -> Option<(&Shards, u32)> {
        let (_, shards) = self.divided.as_ref()?;
        Some((shards, self.place?.rank))
    }

    /// Where the shard of this rank is in the buffer, in bytes. `None`: as [`shards`](Self::shards), or not in memory.
    #[must_use]
    pub fn shard_bytes(&self) -> Option<Range<usize>> {
        let (shards, rank) = self.shards()?;
        let size = self.spec.element.size() as u64;
        let shard = shards.of_rank(rank);
        let byte = |element: u64| usize::try_from(element.checked_mul(size)?).ok();
        Some(byte(shard.start)?..byte(shard.end)?)
    }

    /// Multiplies a contribution to a weighted average by its share of the weights. It is to be run in place on the
    /// product. The only contribution, and one to another operation, stays as it is.
    ///
    /// # Errors
    /// A defect of this library: these are no whole elements, or no floats.
    pub fn weigh(&self, contribution: &mut [u8]) -> Result<(), Defect> {
        let total = self.spec.op.total_weight();
        match self.spec.op.weight() {
            Some(own) if u64::from(own) != total => {
                let element = element_of(self.spec.element);
                Ok(pccl_kernels::scale(element, contribution, own, total)?)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Which bytes of the buffer are this peer's result. `None`: this peer takes part in no operations, or the operation
    /// cannot run.
    #[must_use]
    pub fn result_bytes(&self) -> Option<Range<usize>> {
        let (kind, shards) = self.divided.as_ref()?;
        let elements = match kind {
            CollectiveKind::ReduceScatter => shards.of_rank(self.place?.rank),
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather { .. }
            | CollectiveKind::AllGatherV { .. }
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Barrier => 0..self.spec.count,
        };
        let size = self.spec.element.size();
        let at = |element: u64| usize::try_from(element).ok()?.checked_mul(size);
        Some(at(elements.start)?..at(elements.end)?)
    }

    /// How the contributions become the result.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Number of sites of the participants.
    #[must_use]
    pub fn sites(&self) -> usize {
        // At most as many as ranks.
        usize::try_from(self.sites.count()).unwrap_or(usize::MAX)
    }

    /// The sum of the weights of all contributions; zero if they have none.
    #[must_use]
    pub const fn total_weight(&self) -> u64 {
        self.spec.op.total_weight()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.course.is_stopped()
    }
}
