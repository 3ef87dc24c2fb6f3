//! One rank's work and the memory that it works on in place, without lanes.

use std::sync::Arc;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::Seq;

use super::super::buffers::{Backup, RingBuffers};
use super::super::pool::Pool;
use super::super::work::{Pace, Place, RingWork};

pub(super) struct Worker {
    pub(super) work: RingWork,
    pub(super) data: Vec<u8>,
    pub(super) backup: Backup,
}

impl Worker {
    /// Of operation 1.
    pub(super) fn new(
        spec: &CollectiveSpec,
        place: Place,
        pace: Pace,
        data: Vec<u8>,
        pool: &Arc<Pool>,
    ) -> Self {
        let mut worker = Self {
            work: RingWork::new(Seq(1), spec, place, pace, pool).unwrap(),
            data,
            backup: Backup::default(),
        };
        let slots = worker.work.slots();
        worker.parts().1.begin(slots);
        worker
    }

    pub(super) fn parts(&mut self) -> (&mut RingWork, RingBuffers<'_>) {
        let buffers = RingBuffers::InPlace {
            data: &mut self.data,
            backup: &mut self.backup,
        };
        (&mut self.work, buffers)
    }
}
