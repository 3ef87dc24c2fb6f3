//! A run over a network in memory, whose hosts are near each other or far.

use std::net::IpAddr;
use std::time::Duration;

use pccl::{Builder, Communicator};
use pccl_master::{MasterServer, RunningMaster, Security};
use pccl_transport_memory::{MemoryNet, Path};

use super::{begin, join_as};

/// From a host of one site to one of another. The way back takes as long.
const FAR: Path = Path {
    delay: Duration::from_millis(30),
    window: 1 << 20,
    ..Path::DIRECT
};

/// A run whose peers are on hosts of several sites. The peers do not know of the sites.
pub(crate) struct Hosts {
    net: MemoryNet,
    master: RunningMaster,
    /// The addresses of the hosts that have joined, by the site that each is at.
    hosts: Vec<(u8, IpAddr)>,
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let net = MemoryNet::new();
        let host = net.transport();
        let on = host.any_port();
        let builder = MasterServer::builder().security(Security::Plain);
        let master = builder.transport(host).spawn(on).unwrap();
        Self {
            net,
            master,
            hosts: Vec::new(),
        }
    }

    /// The builder for one more peer, on another host of a site.
    pub(crate) fn builder_at(&mut self, site: u8) -> Builder {
        let host = self.net.transport();
        for (_, other) in self.hosts.iter().filter(|(other, _)| *other != site) {
            self.net.set_path(host.ip(), *other, FAR);
            self.net.set_path(*other, host.ip(), FAR);
        }
        self.hosts.push((site, host.ip()));
        let builder = Communicator::builder(self.master.local_addr().to_string()).first_port(0);
        builder.listen(host.ip()).transport(host)
    }

    /// Peers of these sites, in the order of their identities.
    pub(crate) fn peers_at(&mut self, sites: &[u8]) -> Vec<Communicator> {
        let mut peers = vec![begin(self.builder_at(sites[0]))];
        for site in &sites[1..] {
            join_as(self.builder_at(*site), &mut peers);
        }
        peers
    }
}
