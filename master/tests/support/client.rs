//! A peer played by hand: speaks the protocol over a lane, one message at a time.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::id::{Epoch, GroupId, PeerId, ProtocolVersion};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::site::SiteName;
use pccl_core::topology::{BrokenLinks, LinkOrder, Topology};
use pccl_core::transport::{Endpoint, Lane, Transport, send_all};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, ControlError, ControlReader, Preamble, offer, recv_control, send_control,
};
use pccl_transport_tcp::Tcp;
use tokio::time::timeout;

/// Long enough for any machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Panics with `what` where the future hangs.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// A hello that every master accepts.
pub(crate) fn hello() -> Hello {
    Hello {
        protocol: ProtocolVersion::CURRENT,
        group: GroupId(0),
        port: 48149,
        advertise: None,
        lanes: 1,
        site: SiteName::NONE,
        name: Default::default(),
    }
}

/// A peer's end of the control connection.
pub(crate) struct Client {
    pub(crate) lane: Lane,
    reader: ControlReader,
    pub(crate) peer: PeerId,
    /// Of the ring that it is on.
    pub(crate) epoch: Epoch,
}

impl Client {
    /// Opens a lane over TCP and says nothing.
    pub(crate) async fn dial(to: SocketAddr) -> Lane {
        let tcp = Tcp::new();
        let to = Endpoint::Address(to);
        soon("dialling", tcp.open(&to, None)).await.expect("a lane")
    }

    /// Comes as far as the accepted preamble.
    pub(crate) async fn introduce(mut lane: Lane) -> Self {
        soon("the reply", offer(&mut lane, &Preamble::CONTROL))
            .await
            .expect("an accepted preamble");
        Self::over(lane)
    }

    /// Over a lane whose preamble was accepted.
    pub(crate) fn over(lane: Lane) -> Self {
        Self {
            lane,
            reader: ControlReader::with_cap(CONTROL_FRAME_MAX),
            peer: PeerId(0),
            epoch: Epoch::default(),
        }
    }

    /// Comes as far as the welcome.
    pub(crate) async fn register(lane: Lane) -> Self {
        Self::introduce(lane).await.welcomed().await
    }

    /// Comes as far as the welcome, where the preamble was accepted.
    pub(crate) async fn welcomed(mut self) -> Self {
        self.say(&ToMaster::Hello(hello())).await;
        match self.hear().await {
            ToPeer::Welcome { peer, .. } => self.peer = peer,
            other => panic!("heard {other:?} where a welcome was due"),
        }
        self
    }

    /// The first peer of a run, which is accepted at once.
    pub(crate) async fn found(lane: Lane) -> (Self, Topology) {
        let mut client = Self::register(lane).await;
        let topology = client.wire_ring().await;
        (client, topology)
    }

    /// Votes to update.
    pub(crate) async fn update(&mut self) {
        let (epoch, broken) = (self.epoch, BrokenLinks::NONE);
        self.say(&ToMaster::UpdateTopology { epoch, broken }).await;
    }

    /// Claims that every lane it is told to open is up, until the topology stands.
    pub(crate) async fn wire_ring(&mut self) -> Topology {
        loop {
            match self.hear().await {
                ToPeer::EstablishLinks { round, links } => {
                    for link in links.iter().map(LinkOrder::link) {
                        self.say(&ToMaster::LinkUp { round, link }).await;
                    }
                }
                ToPeer::TopologyEstablished { topology, .. } => return topology,
                other => panic!("heard {other:?} while wiring"),
            }
        }
    }

    pub(crate) async fn say(&mut self, message: &ToMaster) {
        send_control(self.lane.tx.as_mut(), message)
            .await
            .expect("the master listens");
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        send_all(self.lane.tx.as_mut(), bytes, &[])
            .await
            .expect("the master listens");
    }

    /// The next message that is not a mere sign of life.
    pub(crate) async fn hear(&mut self) -> ToPeer {
        self.listen().await.expect("a message")
    }

    /// The same, or how the connection ended.
    pub(crate) async fn listen(&mut self) -> Result<ToPeer, ControlError> {
        let next = async {
            loop {
                match recv_control(self.lane.rx.as_mut(), &mut self.reader).await {
                    Ok(ToPeer::Heartbeat) => {}
                    other => return other,
                }
            }
        };
        let message = soon("a message", next).await;
        if let Ok(ToPeer::TopologyEstablished { topology, .. }) = &message {
            self.epoch = topology.epoch;
        }
        message
    }
}

/// Two accepted peers of one ring, over lanes from `dial`.
pub(crate) async fn pair<F: Future<Output = Lane>>(dial: impl Fn() -> F) -> (Client, Client) {
    let (mut first, _) = Client::found(dial().await).await;
    let mut second = Client::register(dial().await).await;
    first.update().await;
    let (one, other) = tokio::join!(first.wire_ring(), second.wire_ring());
    assert_eq!(one.ring, other.ring);
    assert_eq!(one.world.global, 2);
    (first, second)
}
