//! Where a run takes place: a master, and how peers come to it.

use std::net::{IpAddr, Ipv4Addr};

use pccl::{Builder, Communicator};
use pccl_master::{MasterServer, RunningMaster, Security};
use pccl_tests::over::{MasterAt, Over};
use pccl_transport_memory::MemoryNet;

pub(crate) struct Stage {
    master: RunningMaster,
    /// `None`: between sockets.
    net: Option<MemoryNet>,
}

impl Stage {
    /// Each peer is a host of its own.
    pub(crate) fn in_memory() -> Self {
        let net = MemoryNet::new();
        let host = net.transport();
        let on = host.any_port();
        let master = MasterServer::builder()
            .security(Security::Plain)
            .transport(host);
        Self {
            master: master.spawn(on).unwrap(),
            net: Some(net),
        }
    }

    pub(crate) fn over(over: Over) -> Self {
        Self {
            master: over.master().unwrap().spawn("127.0.0.1:0").unwrap(),
            net: None,
        }
    }

    /// A builder for one more peer.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Communicator::builder(&MasterAt::from(&self.master).join).first_port(0);
        match self.net.as_ref().map(MemoryNet::transport) {
            Some(host) => builder.listen(host.ip()).transport(host),
            None => builder.listen(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        }
    }
}
