//! One rank's work and the memory that it works on in place, without lanes.

use std::sync::Arc;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::{Algorithm, Shards, Turns};

use super::support::sites;
use crate::memory::{Backup, Pool, UserBuffers};
use crate::pace::Pace;
use crate::work::{Exit, Place, RankWork, Task};

/// Turns in another order than that of the ranks, of up to eleven.
pub(super) fn shuffled(world: u32) -> Turns {
    let peer = |rank| PeerId(u64::from(rank * 5 + 3) % 11);
    Turns::of_peers(&(0..world).map(peer).collect::<Vec<_>>())
}

pub(super) struct Worker {
    pub(super) work: RankWork,
    pub(super) world: u32,
    pub(super) data: Vec<u8>,
    pub(super) backup: Backup,
    /// The shard of this rank and where it begins, if the result has memory of its own.
    pub(super) apart: Option<(Vec<u8>, usize)>,
}

impl Worker {
    /// Of operation 1.
    pub(super) fn new(
        (spec, algorithm): (&CollectiveSpec, Algorithm),
        place: Place,
        (pace, exits): (Pace, &[Exit]),
        data: Vec<u8>,
        pool: &Arc<Pool>,
    ) -> Self {
        let peers: Vec<PeerId> = (0..u64::from(place.world)).map(PeerId).collect();
        let shards = Shards::of_peers(spec.count, &peers);
        Self::of_shards(&shards, (spec, algorithm), place, (pace, exits), data, pool)
    }

    /// The same, of a buffer that is divided so.
    pub(super) fn of_shards(
        shards: &Shards,
        (spec, algorithm): (&CollectiveSpec, Algorithm),
        place: Place,
        (pace, exits): (Pace, &[Exit]),
        data: Vec<u8>,
        pool: &Arc<Pool>,
    ) -> Self {
        let peers: Vec<PeerId> = (0..u64::from(place.world)).map(PeerId).collect();
        let task = Task {
            seq: Seq(1),
            spec,
            kind: spec.kind.among(&peers).unwrap(),
            shards,
            sites: &sites(place.world),
            turns: &shuffled(place.world),
            algorithm,
        };
        let mut worker = Self {
            work: RankWork::new(task, place, pace, exits.to_vec(), pool).unwrap(),
            world: place.world,
            data,
            backup: Backup::default(),
            apart: None,
        };
        let slots = worker.work.slots();
        worker.parts().1.begin(slots);
        worker
    }

    pub(super) fn parts(&mut self) -> (&mut RankWork, UserBuffers<'_>) {
        let buffers = match &mut self.apart {
            None => UserBuffers::InPlace {
                data: &mut self.data,
                backup: &mut self.backup,
            },
            Some((shard, at)) => UserBuffers::Scattered {
                src: &self.data,
                shard,
                at: *at,
                aside: &mut self.backup,
            },
        };
        (&mut self.work, buffers)
    }
}
