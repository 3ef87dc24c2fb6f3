//! One collective from its call to its verdict, on memory that is put back unless it is committed.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Seq, Tag};
use pccl_core::messages::{CollectiveRefusal, PlanOutcome};
use pccl_core::peer::{Call, CallError, Committed};
use pccl_core::plan::{Algorithm, Shards};
use pccl_plane::{Backup, OperationPort, RunFailure, RunStats, UserBuffers, Waits};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::calls::{Backups, Calls, Made};
use crate::engine::{Caller, CollectiveNotice, Command};
use crate::error::Error;
use crate::phases::Moments;
use crate::reduce::{CollectiveReport, Reduce};
use crate::suspects::{Lulls, Waited};
use crate::weighted::Weighted;

/// A collective that was called and has no answer yet. Dropping it gives the collective up.
pub(crate) struct Called {
    made: Made,
    tag: Tag,
    kind: CollectiveKind,
    calls: Calls,
    events: mpsc::UnboundedReceiver<CollectiveNotice>,
    moments: Moments,
    /// The user's.
    limit: Option<Duration>,
    vote: Vote,
}

/// The vote on the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    /// Whoever gives up now casts none.
    NotCast,
    /// It counts if all call this collective. Until then the call can be asked back.
    Ahead,
    /// The call was asked back, and the answer is on its way.
    AskedBack,
    /// It cannot be taken back: the verdict counts.
    Final,
}

/// What a report says of the way in which a collective was carried out.
#[derive(Clone, Copy)]
struct WhatRan {
    algorithm: Algorithm,
    sites: usize,
    total_weight: u64,
}

impl WhatRan {
    fn of(port: &OperationPort) -> Self {
        Self {
            algorithm: port.algorithm(),
            sites: port.sites(),
            total_weight: port.total_weight(),
        }
    }
}

impl Called {
    /// Calls an all-reduce; nothing is sent where this release cannot carry it out.
    pub(crate) fn new(
        calls: &Calls,
        reduce: Reduce,
        element: ElementType,
        count: usize,
    ) -> Result<Self, Error> {
        let spec = reduce.spec_of(CollectiveKind::AllReduce, element, count)?;
        Self::of(calls, reduce.name(), spec, reduce.limit())
    }

    /// Makes the call.
    pub(crate) fn of(
        calls: &Calls,
        tag: Tag,
        spec: CollectiveSpec,
        limit: Option<Duration>,
    ) -> Result<Self, Error> {
        let (sender, events) = mpsc::unbounded_channel();
        let kind = spec.kind;
        let made = calls.make(Call::Initiate { tag, spec }, Caller::Collective(sender))?;
        Ok(Self {
            made,
            tag,
            kind,
            calls: calls.clone(),
            events,
            moments: Moments::of_call(),
            limit,
            vote: Vote::NotCast,
        })
    }

    /// Runs the ring when the engine says so, and waits for the verdict. The memory holds the result
    /// where it is `Ok`; else it is as it was.
    pub(crate) async fn conclude(
        mut self,
        mut memory: Memory<'_>,
    ) -> Result<CollectiveReport, Error> {
        let mut stats = RunStats::default();
        // Nothing is committed here that did not run here.
        let mut run = WhatRan {
            algorithm: Algorithm::Ring,
            sites: 1,
            total_weight: 0,
        };
        let mut waited = None;
        let mut unvoted = None;
        let mut has_run = false;
        loop {
            match self.event().await? {
                CollectiveNotice::Run { seq, port, ahead } => {
                    self.begins()?;
                    if std::mem::replace(&mut has_run, true) {
                        memory.put_back();
                    }
                    run = WhatRan::of(&port);
                    self.moments.start();
                    let ended = self.run(port, &mut memory, &mut waited).await?;
                    stats = ended.map(|(stats, _)| stats).unwrap_or_default();
                    self.moments.complete();
                    let ended = ended.map(|(_, outcome)| (seq, outcome));
                    let is_done = matches!(ended, Some((_, PlanOutcome::Done)));
                    match (ahead, is_done) {
                        (false, _) => self.votes(Vote::Final, ended)?,
                        (true, true) => self.votes(Vote::Ahead, ended)?,
                        // Whoever gives up before all have called casts no vote by it.
                        (true, false) => unvoted = ended,
                    }
                }
                CollectiveNotice::Confirmed => self.votes(Vote::Final, unvoted.take())?,
                CollectiveNotice::Ended(Ok(committed)) => {
                    self.made.is_answered();
                    memory.keep();
                    let report = self.report(committed, run, stats);
                    return Ok(CollectiveReport { waited, ..report });
                }
                CollectiveNotice::Ended(Err(error)) => {
                    self.made.is_answered();
                    return Err(self.failure(error, waited));
                }
            }
        }
    }

    /// What happens next. If the limit is over, the call is asked back, and the answer is what happens.
    async fn event(&mut self) -> Result<CollectiveNotice, Error> {
        loop {
            let remaining = self.remaining();
            match (within(remaining, self.events.recv()).await, self.vote) {
                (Some(event), _) => return event.ok_or(Error::RuntimeEnded),
                (None, Vote::Ahead) => {
                    self.vote = Vote::AskedBack;
                    let call = self.made.call();
                    self.calls.tell(Command::Withdraw { call })?;
                }
                (None, Vote::NotCast | Vote::AskedBack | Vote::Final) => {
                    return Err(self.is_late());
                }
            }
        }
    }

    fn failure(&self, error: CallError, waited: Option<Waited>) -> Error {
        let withdrawn = CallError::CollectiveRefused {
            tag: self.tag,
            reason: CollectiveRefusal::Withdrawn,
        };
        match self.vote {
            Vote::AskedBack if error == withdrawn => self.is_late(),
            Vote::NotCast | Vote::Ahead | Vote::AskedBack | Vote::Final => {
                Error::from(error).after(waited)
            }
        }
    }

    /// A run begins. What was voted on before, if anything, was in vain.
    fn begins(&mut self) -> Result<(), Error> {
        // All have called, but its time is over: it is given up, and fails on all.
        if self.vote == Vote::AskedBack {
            return Err(self.is_late());
        }
        self.vote = Vote::NotCast;
        Ok(())
    }

    /// Until when this peer's part has to be complete, or the call be asked back.
    fn remaining(&self) -> Option<Instant> {
        match self.vote {
            Vote::NotCast | Vote::Ahead => self.moments.called.checked_add(self.limit?),
            Vote::AskedBack | Vote::Final => None,
        }
    }

    fn is_late(&self) -> Error {
        Error::TimeLimit {
            tag: self.tag,
            limit: self.limit.unwrap_or_default(),
        }
    }

    /// What gives it up.
    pub(crate) const fn give_up(&self) -> Command {
        let call = self.made.call();
        Command::GiveUp { call }
    }

    /// Casts the vote on the outcome of a run that was not stopped.
    fn votes(&mut self, vote: Vote, ended: Option<(Seq, PlanOutcome)>) -> Result<(), Error> {
        self.vote = vote;
        let Some((seq, outcome)) = ended else {
            return Ok(());
        };
        tracing::debug!(target: "pccl::event", kind = "plan_done", tag = self.tag.0, seq = seq.0, ?outcome);
        self.calls.tell(Command::PlanEnded { seq, outcome })
    }

    /// `None`: it was stopped.
    async fn run(
        &self,
        mut port: Box<OperationPort>,
        memory: &mut Memory<'_>,
        waited: &mut Option<Waited>,
    ) -> Result<Option<(RunStats, PlanOutcome)>, Error> {
        let buffers = memory.lend(&port)?;
        let lulls = Mutex::new(Lulls::default());
        let tell = |waits: &Waits| {
            let topology = &self.calls.view.borrow().topology;
            let mut lulls = lulls.lock().unwrap_or_else(PoisonError::into_inner);
            lulls.note(&self.calls.suspects, (self.tag, self.kind), waits, topology);
        };
        let outcome = within(self.remaining(), port.run_telling(buffers, &tell)).await;
        let lulls = lulls.into_inner().unwrap_or_else(PoisonError::into_inner);
        *waited = lulls.longest();
        let outcome = outcome.ok_or_else(|| self.is_late())?;
        // Frames that still arrive for it are nobody's from here on.
        drop(port);
        match outcome {
            Ok(stats) => Ok(Some((stats, PlanOutcome::Done))),
            Err(RunFailure::LaneLost) => Ok(Some((RunStats::default(), PlanOutcome::LaneLost))),
            // Whoever stopped it knows.
            Err(RunFailure::Stopped) => Ok(None),
            // The collective is given up, so that it fails on all, or does not start.
            Err(RunFailure::Defect(defect)) => Err(Error::Defect(defect)),
        }
    }

    fn report(&self, committed: Committed, run: WhatRan, stats: RunStats) -> CollectiveReport {
        let WhatRan {
            algorithm,
            sites,
            total_weight,
        } = run;
        let phases = self.moments.end();
        CollectiveReport {
            world_size: committed.contributors.len(),
            contributors: committed.contributors,
            algorithm,
            sites,
            total_weight,
            bytes_sent: stats.bytes_sent,
            bytes_received: stats.bytes_received,
            duration: phases.total(),
            phases,
            retries: 0,
            waited: None,
        }
    }
}

/// What to tell the master of a collective that reduces nothing, if this release can carry it out.
pub(crate) fn spec_of(
    kind: CollectiveKind,
    (element, quantization): (ElementType, Quantization),
    count: usize,
) -> Result<CollectiveSpec, Error> {
    supported(CollectiveSpec {
        kind,
        op: ReduceOp::Sum,
        element,
        count: count as u64,
        quantization,
        algorithm: None,
        ordered: false,
    })
}

/// The same, if this release can carry it out.
pub(crate) fn supported(spec: CollectiveSpec) -> Result<CollectiveSpec, Error> {
    match pccl_plane::is_supported(&spec) {
        true => Ok(spec),
        false => Err(Error::NotSupported {
            element: spec.element,
            quantization: spec.quantization,
        }),
    }
}

/// What comes until then, or whenever if there is no limit.
async fn within<F: Future>(limit: Option<Instant>, what: F) -> Option<F::Output> {
    match limit {
        Some(limit) => timeout_at(limit, what).await.ok(),
        None => Some(what.await),
    }
}

/// The user's memory for the time of one collective.
pub(crate) enum Memory<'a> {
    InPlace(Restoring<'a>),
    Into {
        src: &'a [u8],
        dst: &'a mut [u8],
    },
    /// Holds the contribution at its place. It is not put back.
    Unsaved(&'a mut [u8]),
    /// Likewise, but the contribution is put back, which is quantized.
    Contributing(Contributing<'a>),
    /// Memory that is there once it is known how much it has to hold.
    Fresh(&'a mut (dyn Room + Send)),
    /// The shard of the result has memory that is there once it is known how much it has to hold.
    Scattered(Scattering<'a>),
    /// As `Into`; what encoding has lost is noted.
    Noting {
        src: &'a [u8],
        dst: &'a mut [u8],
        losses: &'a mut [u8],
    },
    /// Multiplied by a weight in a copy.
    Weighted(Weighted<'a>),
}

/// Makes memory for a result when its length is known.
pub(crate) trait Room {
    /// Memory for the result, in which the contribution lies at its place if it is part of it: the shard of this rank.
    fn open(&mut self, shards: &Shards, rank: u32) -> Result<&mut [u8], Error>;
}

/// A reduce-scatter from one buffer into another.
pub(crate) struct Scattering<'a> {
    src: &'a [u8],
    shard: &'a mut (dyn Room + Send),
    aside: Backup,
    backups: Arc<Backups>,
}

impl<'a> Scattering<'a> {
    pub(crate) fn new(calls: &Calls, src: &'a [u8], shard: &'a mut (dyn Room + Send)) -> Self {
        Self {
            src,
            shard,
            aside: calls.backups.take(src.len()),
            backups: Arc::clone(&calls.backups),
        }
    }

    fn lend(&mut self, port: &OperationPort) -> Result<UserBuffers<'_>, Error> {
        // The peer machine starts nothing of which its links or the ranks know nothing.
        let (shards, rank) = port.shards().ok_or(Error::MasterMisbehaved)?;
        let place = port.shard_bytes().ok_or(Error::MasterMisbehaved)?;
        Ok(UserBuffers::Scattered {
            src: self.src,
            shard: self.shard.open(shards, rank)?,
            at: place.start,
            aside: &mut self.aside,
        })
    }
}

impl Drop for Scattering<'_> {
    fn drop(&mut self) {
        self.backups.give_back(std::mem::take(&mut self.aside));
    }
}

/// Memory that is put back as it was when this is dropped, unless the result is to be kept.
pub(crate) struct Restoring<'a> {
    data: &'a mut [u8],
    backup: Backup,
    backups: Arc<Backups>,
    keep: bool,
}

/// Memory of which the contribution is put back when this is dropped, unless the result is to be kept.
pub(crate) struct Contributing<'a> {
    data: &'a mut [u8],
    own: Range<usize>,
    before: Backup,
    backups: Arc<Backups>,
    keep: bool,
}

impl<'a> Memory<'a> {
    /// Of a collective that moves nothing.
    pub(crate) const fn nothing() -> Self {
        Self::Into {
            src: &[],
            dst: &mut [],
        }
    }

    pub(crate) fn in_place(calls: &Calls, data: &'a mut [u8]) -> Self {
        let backup = calls.backups.take(data.len());
        Self::InPlace(Restoring {
            data,
            backup,
            backups: Arc::clone(&calls.backups),
            keep: false,
        })
    }

    /// The memory of a reduce in place.
    pub(crate) fn of_reduce(calls: &Calls, data: &'a mut [u8], reduce: &Reduce) -> Self {
        if reduce.op().weight().is_some() {
            Self::Weighted(Weighted::new(calls, data))
        } else {
            Self::in_place(calls, data)
        }
    }

    /// The memory of a reduce from one buffer into another.
    pub(crate) fn of_reduce_into(
        calls: &Calls,
        src: &'a [u8],
        dst: &'a mut [u8],
        reduce: &Reduce,
    ) -> Self {
        if reduce.op().weight().is_some() {
            dst.copy_from_slice(src);
            Self::Weighted(Weighted::new(calls, dst))
        } else {
            Self::Into { src, dst }
        }
    }

    /// The user's buffer, which is put back after a failure if it `is_restored`.
    pub(crate) fn of(calls: &Calls, data: &'a mut [u8], is_restored: bool) -> Self {
        if is_restored {
            Self::in_place(calls, data)
        } else {
            Self::Unsaved(data)
        }
    }

    /// The user's buffer, of which this range is put back after a failure.
    pub(crate) fn contributing(calls: &Calls, data: &'a mut [u8], own: Range<usize>) -> Self {
        let mut before = calls.backups.take(own.len());
        if let Some(own) = data.get(own.clone()) {
            before.scratch(own.len()).copy_from_slice(own);
        }
        Self::Contributing(Contributing {
            data,
            own,
            before,
            backups: Arc::clone(&calls.backups),
            keep: false,
        })
    }

    fn lend(&mut self, port: &OperationPort) -> Result<UserBuffers<'_>, Error> {
        Ok(match self {
            Self::InPlace(restoring) => UserBuffers::InPlace {
                data: restoring.data,
                backup: &mut restoring.backup,
            },
            Self::Into { src, dst } => UserBuffers::Into { src, dst },
            Self::Unsaved(data) => UserBuffers::Fresh { data },
            Self::Contributing(contributing) => UserBuffers::Fresh {
                data: contributing.data,
            },
            Self::Fresh(room) => {
                // The peer machine starts nothing of which its links or the ranks know nothing.
                let (shards, rank) = port.shards().ok_or(Error::MasterMisbehaved)?;
                let data = room.open(shards, rank)?;
                UserBuffers::Fresh { data }
            }
            Self::Noting { src, dst, losses } => UserBuffers::Noting { src, dst, losses },
            Self::Scattered(scattering) => scattering.lend(port)?,
            Self::Weighted(weighted) => weighted.lend(port)?,
        })
    }

    /// What the last run wrote is undone, as far as the next one needs it.
    fn put_back(&mut self) {
        match self {
            Self::InPlace(restoring) => restoring.backup.restore(restoring.data),
            Self::Contributing(contributing) => contributing.put_back(),
            Self::Noting { losses, .. } => losses.fill(0),
            // A collective with weights is not begun ahead.
            Self::Weighted(_)
            | Self::Into { .. }
            | Self::Unsaved(_)
            | Self::Fresh(_)
            | Self::Scattered(_) => {}
        }
    }

    fn keep(&mut self) {
        match self {
            Self::InPlace(restoring) => restoring.keep = true,
            Self::Weighted(weighted) => weighted.keep(),
            Self::Contributing(contributing) => contributing.keep = true,
            Self::Into { .. }
            | Self::Unsaved(_)
            | Self::Fresh(_)
            | Self::Scattered(_)
            | Self::Noting { .. } => {}
        }
    }
}

impl Contributing<'_> {
    fn put_back(&mut self) {
        if let Some(own) = self.data.get_mut(self.own.clone()) {
            own.copy_from_slice(self.before.scratch(own.len()));
        }
    }
}

impl Drop for Contributing<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.put_back();
        }
        self.backups.give_back(std::mem::take(&mut self.before));
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.backup.restore(self.data);
        }
        self.backups.give_back(std::mem::take(&mut self.backup));
    }
}
