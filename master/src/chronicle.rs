//! Log lines for the operator: which peers came and left, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::id::{Epoch, GroupId, PeerId};
use pccl_core::master::MasterOutput;
use pccl_core::messages::{Misdeed, ToMaster, ToPeer, Verdict};
use pccl_core::name::PeerName;
use pccl_core::site::SiteName;
use pccl_core::topology::Topology;
use pccl_core::wire::ControlError;
use tracing::{debug, error, info, trace, warn};

use crate::connection::Event;

/// Remembers as much as is needed to log everything once.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    accepted: BTreeSet<PeerId>,
    /// The names of peers that have one.
    names: BTreeMap<PeerId, PeerName>,
    epoch: Epoch,
    /// The first peers of the rings of this epoch whose sites were logged.
    sited: BTreeSet<PeerId>,
    /// The peer that has just said hello.
    arriving: Option<Arriving>,
    /// Why the connection that is being processed has ended.
    ended: Option<ControlError>,
}

/// What is logged of a newcomer.
#[derive(Debug)]
struct Arriving {
    from: SocketAddr,
    group: GroupId,
    site: SiteName,
    name: PeerName,
}

/// A peer as a person knows it: its id, and its name if it has one.
struct Known<'a> {
    peer: PeerId,
    name: Option<&'a PeerName>,
}

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{} ({})", self.peer, name.as_str()),
            None => write!(f, "{}", self.peer),
        }
    }
}

impl Chronicle {
    /// Logs what a connection reported.
    pub(crate) fn happened(&mut self, event: &Event) {
        match event {
            Event::Hello(newcomer) => {
                self.arriving = Some(Arriving {
                    from: newcomer.from,
                    group: newcomer.hello.group,
                    site: newcomer.hello.site.clone(),
                    name: newcomer.hello.name.clone(),
                });
            }
            Event::Message { peer, message, .. } => match message {
                ToMaster::Leave => info!("{} leaves", self.known(*peer)),
                message => trace!(peer = peer.0, ?message, "received"),
            },
            Event::Malformed { peer, error, .. } => debug!("{peer}: {error}"),
            Event::Gone { error, .. } => self.ended = Some(*error),
            Event::Return(returning) => {
                debug!("{} dials again", self.known(returning.session.peer));
            }
        }
    }

    /// All consequences of the last report have been logged.
    pub(crate) fn dealt_with(&mut self) {
        self.arriving = None;
        self.ended = None;
    }

    /// Logs a decision of the machine.
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

    /// Logs that a peer has said nothing for so long.
    pub(crate) fn hears_nothing_from(&self, peer: PeerId, silence: Duration) {
        let seconds = silence.as_secs_f32();
        warn!(
            "nothing is heard from {} for {seconds:.1} s",
            self.known(peer)
        );
    }

    fn known(&self, peer: PeerId) -> Known<'_> {
        let name = self.names.get(&peer);
        Known { peer, name }
    }

    fn registered(&mut self, peer: PeerId) {
        let name = self.arriving.as_ref().map(|arriving| &arriving.name);
        if let Some(name) = name.filter(|name| !name.as_str().is_empty()) {
            self.names.insert(peer, name.clone());
        }
        let who = self.known(peer);
        match &self.arriving {
            Some(Arriving {
                from, group, site, ..
            }) if site.is_named() => {
                let site = site.as_str();
                info!("{who} joins {group} from {from}, site {site:?}, and waits to be accepted");
            }
            Some(Arriving { from, group, .. }) => {
                info!("{who} joins {group} from {from} and waits to be accepted");
            }
            None => info!("{who} joins and waits to be accepted"),
        }
    }

    fn lost(&mut self, peer: PeerId, misdeed: Option<&Misdeed>) {
        self.accepted.remove(&peer);
        let name = self.names.remove(&peer);
        let name = name.as_ref();
        let who = Known { peer, name };
        match (misdeed, self.ended) {
            (Some(misdeed), _) => warn!("{who} is kicked: {misdeed}"),
            (None, Some(error)) => info!("{who} is lost: {error}"),
            (None, None) => info!("{who} is gone"),
        }
    }

    fn said(&mut self, peer: PeerId, message: &ToPeer) {
        trace!(peer = peer.0, ?message, "sent");
        match message {
            ToPeer::TopologyEstablished { topology, .. } => self.established(peer, topology),
            ToPeer::Refused(reason) => warn!("{} is refused: {reason}", self.known(peer)),
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
            info!("{} is accepted", self.known(peer));
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
            self.sited.clear();
        }
        self.found_sites(topology);
    }

    /// Logs the sites of a group, once in each epoch, if they were found.
    fn found_sites(&mut self, topology: &Topology) {
        let peers = topology.ring.world_size();
        let sites = topology.sites.sites().count();
        let is_found = topology.sites.by_rank().any(SiteName::is_found);
        let Some(first) = topology.ring.0.first().filter(|_| is_found) else {
            return;
        };
        if self.sited.insert(*first) {
            info!("sites found: {sites} of {peers} peers");
            let of_each = topology.ring.0.iter().zip(topology.sites.by_rank());
            of_each.for_each(|(peer, site)| debug!("{peer} is at site {}", site.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use pccl_core::site::SiteMap;
    use pccl_core::topology::{Layout, Ring};
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// How often the log tells this, of what is done here.
    fn times_told(text: &str, act: impl FnOnce()) -> usize {
        let written = Written::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::INFO)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(log, act);
        let written = written.0.lock().unwrap();
        String::from_utf8_lossy(&written).matches(text).count()
    }

    /// That a ring with these sites stands, as one of its peers is told.
    fn told(epoch: u64, to: u64, sites: &[&SiteName]) -> MasterOutput {
        let ring = Ring((1..=sites.len() as u64).map(PeerId).collect());
        let topology = Topology {
            epoch: Epoch(epoch),
            ring,
            sites: SiteMap::new(sites.iter().copied()),
            ..Topology::default()
        };
        let layout = Layout::default();
        MasterOutput::Send {
            peer: PeerId(to),
            message: ToPeer::TopologyEstablished { topology, layout },
        }
    }

    #[test]
    fn sites_that_were_found_are_told_once_in_each_epoch_and_those_with_names_never() {
        let [one, two] = [1, 3].map(|peer| SiteName::found_around(PeerId(peer)));
        let eu = SiteName::try_from("eu".to_owned()).unwrap();
        let mut chronicle = Chronicle::default();

        let found = "sites found: 2 of 3 peers";
        let twice = times_told(found, || {
            for (epoch, to) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)] {
                chronicle.decided(&told(epoch, to, &[&one, &one, &two]));
            }
        });
        assert_eq!(twice, 2);
        let never = times_told("sites found", || {
            chronicle.decided(&told(3, 1, &[&eu, &SiteName::NONE, &eu]));
        });
        assert_eq!(never, 0);
    }
}
