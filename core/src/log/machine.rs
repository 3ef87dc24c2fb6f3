//! The machines that can be recorded and replayed.

use alloc::vec::Vec;
use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::master::{Master, MasterConfig, MasterInput, MasterOutput};
use crate::peer::{Peer, PeerConfig, PeerInput, PeerOutput};

/// A pure machine: the same inputs in the same order give the same outputs.
pub trait Machine: Clone {
    /// The configuration from which it is made.
    type Config: Serialize + DeserializeOwned;
    /// An event that the driver reports to it.
    type Input: Serialize + DeserializeOwned + Debug;
    /// An order to its driver.
    type Output: Serialize + DeserializeOwned + Debug + PartialEq;

    /// Its name in files and reports.
    const NAME: &'static str;

    /// The first byte of a log of such a machine.
    const KIND: u8;

    /// A machine in its initial state.
    fn begin(config: Self::Config) -> Self;

    /// Applies one input, and appends the outputs to `out`.
    fn step(&mut self, input: Self::Input, out: &mut Vec<Self::Output>);
}

impl Machine for Master {
    type Config = MasterConfig;
    type Input = MasterInput;
    type Output = MasterOutput;

    const NAME: &'static str = "master";
    const KIND: u8 = 0;

    fn begin(config: MasterConfig) -> Self {
        Self::new(config)
    }

    fn step(&mut self, input: MasterInput, out: &mut Vec<MasterOutput>) {
        self.handle(input, out);
    }
}

impl Machine for Peer {
    type Config = PeerConfig;
    type Input = PeerInput;
    type Output = PeerOutput;

    const NAME: &'static str = "peer";
    const KIND: u8 = 1;

    fn begin(config: PeerConfig) -> Self {
        Self::new(config)
    }

    fn step(&mut self, input: PeerInput, out: &mut Vec<PeerOutput>) {
        self.handle(input, out);
    }
}
