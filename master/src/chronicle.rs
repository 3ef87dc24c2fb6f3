//! Log lines: who came and went and why, for an operator to read.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use pccl_core::id::{Epoch, GroupId, PeerId};
use pccl_core::master::MasterOutput;
use pccl_core::messages::{Misdeed, ToMaster, ToPeer, Verdict};
use pccl_core::site::SiteName;
use pccl_core::topology::Topology;
use pccl_core::wire::ControlError;
use tracing::{debug, error, info, trace, warn};

use crate::connection::Event;

/// Remembers as much as is needed to say everything once.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    accepted: BTreeSet<PeerId>,
    epoch: Epoch,
    /// Who has just said hello.
    arriving: Option<Arriving>,
    /// Why the connection that is being dealt with has ended.
    ended: Option<ControlError>,
}

/// What is written down of a newcomer.
#[derive(Debug)]
struct Arriving {
    from: SocketAddr,
    group: GroupId,
    site: SiteName,
}

impl Chronicle {
    /// Writes down what a connection reported.
    pub(crate) fn happened(&mut self, event: &Event) {
        match event {
            Event::Hello(newcomer) => {
                self.arriving = Some(Arriving {
                    from: newcomer.from,
                    group: newcomer.hello.group,
                    site: newcomer.hello.site.clone(),
                });
            }
            Event::Message { peer, message, .. } => match message {
                ToMaster::Leave => info!("{peer} leaves"),
                message => trace!(peer = peer.0, ?message, "received"),
            },
            Event::Malformed { peer, error } => debug!("{peer}: {error}"),
            Event::Gone { error, .. } => self.ended = Some(*error),
        }
    }

    /// Everything that followed from what was reported has been written down.
    pub(crate) fn dealt_with(&mut self) {
        self.arriving = None;
        self.ended = None;
    }

    /// Writes down what the machine decided.
    pub(crate) fn decided(&mut self, output: &MasterOutput) {
        match output {
            MasterOutput::Register { peer, .. } => self.registered(*peer),
            MasterOutput::Refuse { reason, .. } => match &self.arriving {
                Some(Arriving { from, .. }) => warn!("a newcomer from {from} is refused: {reason}"),
                None => warn!("a newcomer is refused: {reason}"),
            },
            MasterOutput::Send { peer, message } => self.said(*peer, message),
            MasterOutput::Moved {
                peer,
                event,
                from,
                to,
            } => debug!("{peer}: {from:?} -> {to:?} ({event:?})"),
            MasterOutput::Lost { peer, misdeed } => self.lost(*peer, misdeed.as_ref()),
            MasterOutput::Inconsistent { peer, state, event } => error!(
                "defect: the master cannot apply {event:?} to {peer} in state {state:?}; please report it"
            ),
            MasterOutput::Stopped => info!("stopped"),
            MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_) => {}
            MasterOutput::SolveTour { group, .. } => debug!("looking for a better ring of {group}"),
            MasterOutput::SearchTour { group, .. } => {
                debug!("going on to look for a ring of {group}")
            }
            MasterOutput::EndSearch { group, .. } => {
                debug!("no longer looking for a ring of {group}")
            }
        }
    }

    fn registered(&self, peer: PeerId) {
        match &self.arriving {
            Some(Arriving { from, group, site }) if site.is_named() => {
                let site = site.as_str();
                info!("{peer} joins {group} from {from}, site {site:?}, and waits to be accepted");
            }
            Some(Arriving { from, group, .. }) => {
                info!("{peer} joins {group} from {from} and waits to be accepted");
            }
            None => info!("{peer} joins and waits to be accepted"),
        }
    }

    fn lost(&mut self, peer: PeerId, misdeed: Option<&Misdeed>) {
        self.accepted.remove(&peer);
        match (misdeed, self.ended) {
            (Some(misdeed), _) => warn!("{peer} is kicked: {misdeed}"),
            (None, Some(error)) => info!("{peer} is lost: {error}"),
            (None, None) => info!("{peer} is gone"),
        }
    }

    fn said(&mut self, peer: PeerId, message: &ToPeer) {
        trace!(peer = peer.0, ?message, "sent");
        match message {
            ToPeer::TopologyEstablished { topology, .. } => self.established(peer, topology),
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
