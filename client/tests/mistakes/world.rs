//! A network in memory, a master and peers, each on a host of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pccl::{Builder, Communicator};
use pccl_core::transport::Transport;
use pccl_master::{MasterBuilder, MasterConfig, MasterServer, Security, StopHandle};
use pccl_transport_memory::{MemoryHost, MemoryNet};

use super::seconds;

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
    pub(crate) async fn start_master(&self) -> StopHandle {
        self.start_master_with(MasterConfig::default()).await
    }

    /// The same, with these limits.
    pub(crate) async fn start_master_with(&self, config: MasterConfig) -> StopHandle {
        let host = self.net.host(Self::master_ip());
        Self::start(MasterServer::builder().config(config), host).await
    }

    /// The same, over another transport.
    pub(crate) async fn start_master_over(&self, transport: impl Transport) -> StopHandle {
        Self::start(MasterServer::builder(), transport).await
    }

    async fn start(builder: MasterBuilder, transport: impl Transport) -> StopHandle {
        let builder = builder
            .security(Security::Plain)
            .seed([7; 32])
            .transport(Arc::new(transport));
        let server = builder.bind(master_at()).await.unwrap();
        let stop = server.handle();
        tokio::spawn(server.run());
        stop
    }

    /// Who is to be the next peer, on a host of its own.
    pub(crate) fn host(&self) -> MemoryHost {
        self.net.transport()
    }

    /// The next peer, with default settings but for the network.
    pub(crate) fn peer(&self, master: &str) -> Builder {
        Self::peer_on(self.host(), master)
    }

    /// Two peers of one group.
    pub(crate) async fn two(&self) -> (Communicator, Communicator) {
        self.start_master().await;
        let first = self.peer(MASTER).connect_async().await.unwrap();
        self.joined_by(first, self.peer(MASTER)).await
    }

    /// The first peer, and one that it admits.
    pub(crate) async fn joined_by(
        &self,
        mut first: Communicator,
        second: Builder,
    ) -> (Communicator, Communicator) {
        let second = admits_until(&mut first, second.connect_async()).await;
        (first, second.unwrap())
    }

    /// The peer on this host.
    pub(crate) fn peer_on(host: MemoryHost, master: &str) -> Builder {
        Communicator::builder(master).transport(host).seed(1)
    }
}

/// Admits newcomers until this happens.
pub(crate) async fn admits_until<T>(peer: &mut Communicator, done: impl Future<Output = T>) -> T {
    let admits = async {
        loop {
            peer.update_topology_async().await.unwrap();
            tokio::time::sleep(seconds(1)).await;
        }
    };
    tokio::select! {
        biased;
        done = done => done,
        never = admits => never,
    }
}

fn master_at() -> SocketAddr {
    MASTER.parse().unwrap()
}

/// As numbers.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
