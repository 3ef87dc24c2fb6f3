//! Log lines: who came and went and why, for an operator to read.

use std::collections::BTreeSet;

use pccl_core::id::{Epoch, PeerId};
use pccl_core::master::MasterOutput;
use pccl_core::messages::{ToMaster, ToPeer, Verdict};
use pccl_core::topology::Topology;
use tracing::{debug, error, info, trace, warn};

use crate::connection::Event;

/// Remembers as much as is needed to say everything once.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    accepted: BTreeSet<PeerId>,
    epoch: Epoch,
}

impl Chronicle {
    /// Writes down what a connection reported.
    pub(crate) fn happened(&self, event: &Event) {
        match event {
            Event::Hello(newcomer) => {
                let (conn, group) = (newcomer.conn.0, newcomer.hello.group.0);
                info!(conn, group, from = %newcomer.from, "hello");
            }
            Event::Message { peer, message } => match message {
                ToMaster::Leave => info!("{peer} leaves"),
                message => trace!(peer = peer.0, ?message, "received"),
            },
            Event::Malformed { peer, error } => debug!("{peer}: {error}"),
            Event::Gone { peer, error } => debug!("{peer}: {error}"),
        }
    }

    /// Writes down what the machine decided.
    pub(crate) fn decided(&mut self, output: &MasterOutput) {
        match output {
            MasterOutput::Register { conn, peer } => {
                info!(conn = conn.0, "{peer} joins and waits to be accepted");
            }
            MasterOutput::Refuse { conn, reason } => {
                warn!(conn = conn.0, "refused: {reason}");
            }
            MasterOutput::Send { peer, message } => self.said(*peer, message),
            MasterOutput::Moved {
                peer,
                event,
                from,
                to,
            } => debug!("{peer}: {from:?} -> {to:?} ({event:?})"),
            MasterOutput::Lost { peer, misdeed } => {
                self.accepted.remove(peer);
                match misdeed {
                    Some(misdeed) => warn!("{peer} is kicked: {misdeed}"),
                    None => info!("{peer} is gone"),
                }
            }
            MasterOutput::Inconsistent { peer, state, event } => error!(
                "defect: the master cannot apply {event:?} to {peer} in state {state:?}; please report it"
            ),
            MasterOutput::Stopped => info!("stopped"),
            MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_) => {}
            MasterOutput::SolveTour { group, .. } => debug!("looking for a better ring of {group}"),
        }
    }

    fn said(&mut self, peer: PeerId, message: &ToPeer) {
        trace!(peer = peer.0, ?message, "sent");
        match message {
            ToPeer::TopologyEstablished(topology) => self.established(peer, topology),
            ToPeer::Refused(reason) => warn!("{peer} is refused: {reason}"),
            ToPeer::Verdict {
                tag,
                seq,
                verdict: Verdict::Aborted(cause),
            } => debug!("{seq} ({tag}) aborted for {peer}: {cause}"),
            _ => {}
        }
    }

    fn established(&mut self, peer: PeerId, topology: &Topology) {
        if self.accepted.insert(peer) {
            info!("{peer} is accepted");
        }
        if topology.epoch > self.epoch {
            self.epoch = topology.epoch;
            let world = topology.world;
            info!(
                peers = world.global,
                groups = world.groups,
                "{} begins",
                topology.epoch
            );
        }
    }
}
