//! Beside each master of these stories another one, which is killed again and again and goes on from its journal. It has
//! to say the same.

use pccl_core::journal::{Durable, OnDisk};
use pccl_core::log::{Encoder, restore};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};

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
