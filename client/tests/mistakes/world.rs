//! A network in memory, a master and peers, each on a host of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pccl::{Builder, Communicator};
use pccl_core::transport::Transport;
use pccl_master::{MasterServer, Security};
use pccl_transport_memory::{MemoryHost, MemoryNet};

/// Where the master listens, if there is one.
pub(crate) const MASTER: &str = "10.99.0.1:48148";

/// The first peer's address, and that of the second one.
pub(crate) const FIRST: &str = "10.77.0.1";
pub(crate) const SECOND: &str = "10.77.0.2";

#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) net: MemoryNet,
}

impl World {
    pub(crate) fn master_ip() -> IpAddr {
        master_at().ip()
    }

    /// Starts the master.
    pub(crate) async fn start_master(&self) {
        self.start_master_over(self.net.host(Self::master_ip()))
            .await;
    }

    /// The same, over another transport.
    pub(crate) async fn start_master_over(&self, transport: impl Transport) {
        let builder = MasterServer::builder()
            .security(Security::Plain)
            .seed([7; 32])
            .transport(Arc::new(transport));
        let server = builder.bind(master_at()).await.unwrap();
        tokio::spawn(server.run());
    }

    /// Who is to be the next peer, on a host of its own.
    pub(crate) fn host(&self) -> MemoryHost {
        self.net.transport()
    }

    /// The next peer, with default settings but for the network.
    pub(crate) fn peer(&self, master: &str) -> Builder {
        Self::peer_on(self.host(), master)
    }

    /// The peer on this host.
    pub(crate) fn peer_on(host: MemoryHost, master: &str) -> Builder {
        Communicator::builder(master).transport(host).seed(1)
    }
}

fn master_at() -> SocketAddr {
    MASTER.parse().unwrap()
}

/// As numbers.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
