//! Beside each master of these stories another one, which is killed again and again and goes on from its journal. It has
//! to say the same.

use pccl_core::id::GroupId;
use pccl_core::journal::{Durable, OnDisk};
use pccl_core::log::{Encoder, FORMAT, restore};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::peer::Call;

use crate::harness::{Run, reduce};

/// Inputs between two deaths. No story has a period of its own that this divides.
const INPUTS: u32 = 13;

/// Deaths between two snapshots.
const DEATHS: u32 = 3;

#[derive(Clone)]
pub(crate) struct Mortal {
    durable: Durable,
    encoder: Encoder<Durable>,
    journal: Vec<u8>,
    inputs: u32,
}

impl Mortal {
    pub(crate) fn new(config: MasterConfig) -> Self {
        Self::snapshot(Durable::new(Master::new(config)))
    }

    fn snapshot(durable: Durable) -> Self {
        let encoder = Encoder::new(&durable).unwrap();
        Self {
            journal: encoder.header().to_vec(),
            durable,
            encoder,
            inputs: 0,
        }
    }

    pub(crate) const fn durable(&self) -> &Durable {
        &self.durable
    }

    /// The other master has said this to that.
    pub(crate) fn follows(&mut self, input: MasterInput, said: &[MasterOutput]) {
        let mut out = Vec::new();
        let record = self.encoder.step(&mut self.durable, input, &mut out);
        self.journal.extend_from_slice(record.unwrap());
        assert_eq!(out, said);
        assert!(
            OnDisk::of(&out) > OnDisk::Later
                || !out
                    .iter()
                    .any(|said| matches!(said, MasterOutput::Send { .. }))
        );
        self.inputs += 1;
        if self.inputs.is_multiple_of(INPUTS) {
            self.dies();
        }
    }

    fn dies(&mut self) {
        let (restored, replayed) = restore::<Durable>(&self.journal).unwrap();
        assert_eq!((replayed.torn, &restored), (0, &self.durable));
        self.durable = restored;
        if self.inputs > INPUTS * DEATHS {
            *self = Self::snapshot(self.durable.clone());
        }
    }
}

/// The stored form of a run in which as much as possible is under way.
fn stored() -> Vec<u8> {
    let mut run = Run::new(7);
    run.join_many(3, GroupId(0));
    run.join_many(1, GroupId(1));
    for seat in 0..3 {
        run.call(seat, reduce(1));
    }
    run.steps(12);
    run.call(3, Call::OptimizeTopology);
    run.join(GroupId(0));
    run.steps(6);
    let encoder = Encoder::<Durable>::new(run.watch.durable()).unwrap();
    encoder.header().to_vec()
}

/// A journal is read by the build that wrote it, or by one with the same layout of everything in it. If this fails,
/// either the layout of the master's state has changed: then raise `FORMAT`. Or the master decides something else in
/// this run: then only the hash is another one, as with another version of the protocol.
#[test]
fn a_layout_that_has_changed_is_another_format() {
    let stored = stored();
    let hash = stored.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });

    let expected = (16, 1417, 6_668_563_165_290_319_575);
    assert_eq!((FORMAT, stored.len(), hash), expected);
}
